"""While only time passes, a cycle is the last one, unless something reads the time."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.action import Session
from batchsched.live import Cluster, JobArrived, JobRemoved, TaskSucceeded, TimePassed
from batchsched.testing import configs, snapshots
from batchsched.transition.content import ContentVersion

CPU = Resource(milli_cpu=1000)
EVICTING = "reclaim, allocate, preempt"
YOUNG = {"name": "preempt", "arguments": {"minRuntime": 60}}


def job(name: str, *, runs: bool = False, count: int = 1, **more: Any) -> JobInfo:
    where = {"status": TaskStatus.RUNNING, "node_name": "n1", "start_time": 0} if runs else {}
    tasks = [TaskInfo(uid=f"{name}-{k}", name=name, resreq=CPU, **where) for k in range(count)]
    return JobInfo(name=name, tasks=tasks, **{"queue": "q", "min_available": count, **more})


def living(
    config: Mapping[str, Any], *jobs: JobInfo, cpus: int = 2, half_life: float | None = None
) -> tuple[Cluster, Scheduler]:
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=cpus * 1000))
    queues = [Queue(name=name, usage_half_life=half_life) for name in ("p", "q")]
    cluster = Cluster(nodes=[node], queues=queues, jobs=jobs)
    return cluster, Scheduler(SchedulerConfig.from_mapping(config))


def tiers(*plugins: Any) -> dict[str, Any]:
    return {"tiers": [{"plugins": [*plugins, "priority", "gang", "predicates"]}]}


LOW = job("low", runs=True, min_available=0)


@pytest.mark.parametrize("reasons", [True, False])
def test_nothing_is_decided_again_while_only_time_passes(reasons: bool) -> None:
    cluster, scheduler = living({"actions": EVICTING}, LOW, job("wide", count=3))
    live = scheduler.attach(cluster)
    first = live.schedule(reasons=reasons)
    cluster.carry_out(first)
    cluster.apply(TimePassed(10))
    assert live.schedule(reasons=reasons) is first
    assert live.schedule(reasons=not reasons) == scheduler.schedule(
        cluster.snapshot(), reasons=not reasons
    )
    with cluster.trial():
        cluster.apply(JobRemoved("default/wide"))
    assert live.schedule(reasons=reasons) is first
    with live.open() as session:
        assert session.now == 10
    assert live.schedule(reasons=reasons) is first
    cluster.apply(JobArrived(job("more")))
    last = live.schedule(reasons=reasons)
    assert [bind.task_uid for bind in last.binds] == ["more-0"]


@pytest.mark.parametrize("is_nested", [False, True])
def test_what_was_decided_before_a_trial_holds_after_it(is_nested: bool) -> None:
    cluster, scheduler = living({"actions": EVICTING}, LOW, job("wide", count=3))
    live = scheduler.attach(cluster)
    cluster.carry_out(live.schedule())
    first, without = live.schedule(), live.schedule(reasons=False)
    for name in ("one", "another"):
        with cluster.trial():
            cluster.apply(JobArrived(job(name)))
            in_trial = live.schedule()
            assert [bind.task_uid for bind in in_trial.binds] == [f"{name}-0"]
            if is_nested:
                with cluster.trial():
                    cluster.apply(JobRemoved("default/low"), TimePassed(5))
                    assert live.schedule() == scheduler.schedule(cluster.snapshot())
                assert live.schedule() is in_trial
            cluster.apply(TimePassed(10))
        assert live.schedule() is first
        assert live.schedule(reasons=False) is without
        assert first.tasks["wide-2"] == scheduler.schedule(cluster.snapshot()).tasks["wide-2"]
    cluster.apply(JobRemoved("default/wide"))
    assert live.schedule() == scheduler.schedule(cluster.snapshot())
    with cluster.trial():
        cluster.apply(JobRemoved("default/low"))
        live.schedule()
        cluster.apply(JobArrived(job("more")))
    cluster.apply(JobArrived(job("last")))
    assert live.schedule() == scheduler.schedule(cluster.snapshot())


def test_a_plain_cycle_is_decided_again() -> None:
    cluster, scheduler = living({"actions": EVICTING}, job("wide", count=3))
    plain = Scheduler(scheduler.config, plain={"cycles"}).attach(cluster)
    assert plain.schedule() is not plain.schedule()
    assert plain.schedule() == scheduler.attach(cluster).schedule()


@pytest.mark.parametrize(
    ("config", "jobs", "half_life"),
    [
        (  # its minRuntime runs out
            {"actions": [YOUNG]},
            [LOW, evolve(LOW, name="other", tasks=()), job("high", count=2, priority=5)],
            None,
        ),
        (  # one of them becomes late
            {"actions": "allocate", **tiers("sla")},
            [
                job("held", count=1, runs=True, min_available=1),
                job("soon", max_wait=20),
                job("later", max_wait=500),
            ],
            None,
        ),
        (  # the use of one of two queues decays
            {"actions": "allocate", **tiers("usage", "capacity")},
            [evolve(LOW, queue="p"), job("a", queue="p"), job("b"), job("c", count=2)],
            50,
        ),
    ],
)
def test_what_time_changes_is_decided_anew(
    config: dict[str, Any], jobs: list[JobInfo], half_life: float | None
) -> None:
    cluster, scheduler = living(config, *jobs, half_life=half_life)
    live = scheduler.attach(cluster)
    for now in (0, 0, 10, 30, 61, 61, 100, 1000):
        cluster.apply(TimePassed(now))
        assert live.schedule() == scheduler.schedule(cluster.snapshot())


def test_a_young_task_is_evicted_once_it_has_run_long_enough() -> None:
    jobs = [LOW, job("high", count=2, priority=5)]
    cluster, scheduler = living({"actions": [YOUNG]}, *jobs)
    live = scheduler.attach(cluster)
    evicted = []
    for now in (0, 59, 60, 61):
        cluster.apply(TimePassed(now))
        evicted.append([each.task_uid for each in live.schedule().evictions])
    assert evicted == [[], [], ["low-0"], ["low-0"]]


def pass_time(seed: int, snapshot: Snapshot, config: SchedulerConfig, steps: int) -> int:
    """Compare two schedulers on one cluster with cycles from scratch; return what was spared.

    Little happens but that time passes.
    """
    random = Random(seed)
    cluster, scheduler = Cluster(snapshot), Scheduler(config)
    plain, warm = Scheduler(config, plain=True), Scheduler(config, warm=True)
    lives = (scheduler.attach(cluster), scheduler.attach(cluster))
    results: list[CycleResult] = []
    spared = 0

    def compare() -> CycleResult:
        nonlocal spared
        now, reasons = cluster.snapshot(), random.random() < 0.6
        expected = plain.schedule(now, reasons=reasons)
        assert warm.schedule(now, reasons=reasons) == expected
        some = random.sample(lives, random.choice((1, 1, 2)))
        found = [live.schedule(reasons=reasons) for live in some]
        assert all(result == expected for result in found)
        spared += sum(any(result is other for other in results) for result in found)
        results.extend(found)
        return found[0]

    for _ in range(steps):
        result = compare()
        if random.random() < 0.2:
            with cluster.trial():
                waiting = [one.uid for one in cluster.snapshot().jobs]
                if waiting:
                    cluster.apply(JobRemoved(random.choice(waiting)), TimePassed(cluster.now + 5))
                if random.random() < 0.5:
                    compare()
                if random.random() < 0.3:
                    with cluster.trial():
                        cluster.apply(TimePassed(cluster.now + random.choice((0, 400))))
                        compare()
                    compare()
        if random.random() < 0.2:
            with random.choice(lives).open() as session:
                assert isinstance(session, Session)
        if random.random() < 0.15:
            cluster.carry_out(result, at_once=random.random() < 0.5)
        running = [
            task.uid
            for one in cluster.snapshot().jobs
            for task in one.tasks
            if task.status is TaskStatus.RUNNING
        ]
        if running and random.random() < 0.1:
            cluster.apply(TaskSucceeded(random.choice(running)))
        cluster.apply(TimePassed(cluster.now + random.choice((0, 1, 15, 30, 400))))
    return spared


@pytest.mark.slow
@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 32), snapshot=snapshots(), config=configs())
def test_law_cycles_while_time_passes_equal_those_from_scratch(
    seed: int, snapshot: Snapshot, config: SchedulerConfig
) -> None:
    pass_time(seed, snapshot, config, 8)


# Those that read the time, with all that can wait for it.
TIMED: tuple[dict[str, Any], ...] = (
    {
        "actions": [
            {"name": "reclaim", "arguments": {"minRuntime": 30}},
            "allocate",
            {"name": "preempt", "arguments": {"minRuntime": 30}},
        ]
    },
    {"actions": EVICTING, **tiers("sla")},
    {"actions": EVICTING, **tiers("las")},
    {"actions": EVICTING, **tiers("usage", "capacity")},
    {"actions": "plan"},
    {"actions": [{"name": "allocate", "arguments": {"starvationThreshold": 30}}, "reserve"]},
)


def crowded(seed: int) -> Snapshot:
    """Jobs that run since times of their own, and jobs that become late one after the other."""
    random = Random(seed)
    jobs = [
        job(
            f"j{number}",
            runs=number < 4,
            count=1 if number < 4 else random.choice((1, 2, 3)),
            min_available=random.choice((0, 1)),
            queue=random.choice("pq"),
            priority=random.choice((0, 0, 1)),
            creation_time=random.choice((0, number)),
            max_wait=random.choice((None, 20, 40, 60, 400)),
            estimate=random.choice((None, 50)),
        )
        for number in range(9)
    ]
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=5000))
    half_life = 50 if random.random() < 0.3 else None
    queues = [Queue(name=name, usage_half_life=half_life) for name in "pq"]
    return Snapshot(nodes=[node], queues=queues, jobs=jobs)


@pytest.mark.slow
@pytest.mark.parametrize("config", TIMED)
def test_where_time_is_read_it_counts(config: dict[str, Any]) -> None:
    for seed in range(4):
        pass_time(seed, crowded(seed), SchedulerConfig.from_mapping(config), 8)


@pytest.mark.slow
def test_where_time_is_not_read_cycles_are_spared() -> None:
    config = SchedulerConfig.from_mapping({"actions": EVICTING})
    assert sum(pass_time(seed, crowded(seed), config, 8) for seed in range(4)) > 5


def test_the_versions_of_a_still_cluster_do_not_pile_up() -> None:
    cluster, scheduler = living({"actions": EVICTING}, job("wide", count=3))
    live = scheduler.attach(cluster)
    first = live.schedule()

    def versions() -> int:
        gc.collect()
        return sum(isinstance(each, ContentVersion) for each in gc.get_objects())

    before = versions()
    for now in range(1, 20):
        cluster.apply(TimePassed(now))
        assert live.schedule() is first
    assert versions() <= before
    assert first.full() == scheduler.schedule(cluster.snapshot())
