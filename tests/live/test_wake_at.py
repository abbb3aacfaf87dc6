"""When the next cycle is worth running although nothing else happens."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Plan,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    next_snapshot,
)
from batchsched.live import Cluster, Reconciler, TimePassed
from batchsched.simulation import Job, QueueSet, Scheduled, Workload, simulate

CPUS = [Resource(milli_cpu=1000 * each) for each in range(3)]
QUEUE = Queue(name="default", preempt_min_runtime=60)
PLUGINS = ("priority", "conformance", "protection", "predicates")


def config(actions: str = "allocate, preempt", **arguments: Any) -> SchedulerConfig:
    tiers = [{"plugins": [{"name": name} for name in PLUGINS]}]
    given = {"actions": actions, "tiers": tiers, "configurations": []}
    if arguments:
        given["configurations"] = [{"name": "preempt", "arguments": arguments}]
    return SchedulerConfig.from_mapping(given)


def running(name: str, start: float, priority: int = 0) -> JobInfo:
    task = TaskInfo(
        uid=name,
        name=name,
        resreq=CPUS[1],
        status=TaskStatus.RUNNING,
        node_name="n1",
        start_time=start,
    )
    return JobInfo(name=name, queue="default", priority=priority, tasks=[task])


def waiting(name: str, priority: int) -> JobInfo:
    task = TaskInfo(uid=name, name=name, resreq=CPUS[1])
    return JobInfo(name=name, queue="default", priority=priority, tasks=[task])


SNAPSHOT = Snapshot(
    nodes=[NodeInfo(name="n1", allocatable=CPUS[2])],
    queues=[QUEUE],
    jobs=[running("a", 3), running("b", 5), waiting("hi", 9), waiting("hi2", 9)],
    now=10,
)


def how(given: str) -> tuple[SchedulerConfig, Snapshot]:
    if given == "minRuntime":
        return config(minRuntime=60), evolve(SNAPSHOT, queues=[Queue(name="default")])
    return config(), SNAPSHOT


@pytest.mark.parametrize("given", ["protection", "minRuntime"])
@pytest.mark.parametrize("reasons", [True, False])
@pytest.mark.parametrize("plain", [True, False])
def test_a_cycle_is_worth_running_when_the_first_protection_ends(given, reasons, plain):
    configured, snapshot = how(given)
    cycle = Scheduler(configured, plain=plain).schedule(snapshot, reasons=reasons)
    assert (cycle.evictions, cycle.wake_at, cycle.next_start) == ((), 63, None)
    later = Scheduler(configured, plain=plain).schedule(evolve(snapshot, now=63))
    assert [each.task_uid for each in later.evictions] == ["a"]
    assert later.wake_at == 65
    assert CycleResult.from_dict(cycle.to_dict()).wake_at == 63


@pytest.mark.parametrize("given", ["protection", "minRuntime"])
def test_it_is_told_also_where_the_search_is_remembered(given):
    configured, snapshot = how(given)
    live = Scheduler(configured).attach(cluster := Cluster(snapshot))
    for now in (10, 20, 30, 30):
        cluster.apply(TimePassed(now))
        cycle = live.schedule(reasons=False)
        assert cycle.wake_at == 63
        assert cycle == Scheduler(configured).schedule(cluster.snapshot(), reasons=False)
        cluster.carry_out(cycle, at_once=True)


def test_a_claim_that_is_refused_for_now_counts_each_time():
    hi = evolve(waiting("hi", 9), claim_delay=40.0)
    snapshot = evolve(SNAPSHOT, jobs=[running("a", -100), running("b", -100), hi])
    live = Scheduler(config()).attach(cluster := Cluster(snapshot))
    for now in (10, 20, 20):
        cluster.apply(TimePassed(now))
        cycle = live.schedule(reasons=False)
        assert (cycle.evictions, cycle.wake_at) == ((), 40)
        assert cycle == Scheduler(config()).schedule(cluster.snapshot(), reasons=False)
    cluster.apply(TimePassed(40))
    assert len(live.schedule().evictions) == 1


def test_nothing_is_told_where_nobody_waits_or_nothing_protects():
    alone = evolve(SNAPSHOT, jobs=SNAPSHOT.jobs[:2])
    unprotected = evolve(SNAPSHOT, queues=[Queue(name="default")])
    for_ever = evolve(SNAPSHOT, jobs=[evolve(job, preemptible=False) for job in SNAPSHOT.jobs])
    for snapshot in (alone, unprotected, for_ever):
        assert Scheduler(config()).schedule(snapshot).wake_at is None


def test_the_earlier_of_a_plan_and_an_end_counts():
    plan = Plan(start=40)
    for start, wake_at in ((40, 40), (90, 63)):
        planned = {"default/j": evolve(plan, start=start)}
        assert CycleResult(planned=planned, refused_until=63).wake_at == wake_at
    assert CycleResult(planned={"default/j": plan}).wake_at == 40


@pytest.mark.parametrize("run", [1000, 10**9])
def test_a_simulation_wakes_when_a_protection_ends(run):
    jobs = [
        Job(id="lo", submit=0, run=run, processors=1, priority=0, requested=run),
        Job(id="hi", submit=10, run=5, processors=1, priority=9, requested=5),
    ]
    policy = Scheduled(config=config(), queues=[QUEUE])
    run_of = simulate(Workload(jobs).on(nodes=1), policy)
    start = dict(zip(run_of.jobs["id"], run_of.jobs["start"], strict=True))
    assert start == {"lo": 0, "hi": 60}
    by_action = Scheduled(config=config(minRuntime=60))
    assert simulate(Workload(jobs).on(nodes=1), by_action).jobs["start"] == [0, 60]
    # A minimum that is set later counts from then on.
    longer = [QueueSet(at=20, queue=evolve(QUEUE, preempt_min_runtime=80))]
    again = simulate(Workload(jobs).on(nodes=1), policy, incidents=longer)
    assert again.jobs["start"] == [0, 80]


def test_a_loop_of_snapshots_that_sleeps_until_then_gets_as_far_as_one_that_does_not():
    scheduler, snapshot, starts = Scheduler(config()), SNAPSHOT, dict[str, float]()
    while (cycle := scheduler.schedule(snapshot)).binds or cycle.evictions or cycle.wake_at:
        starts |= {bind.task_uid: snapshot.now for bind in cycle.binds}
        settled = not (cycle.binds or cycle.evictions)
        now = cycle.wake_at if settled and cycle.wake_at else snapshot.now
        snapshot = next_snapshot(snapshot, cycle, now=now)
        if "hi" in starts and "hi2" in starts:
            break
    assert starts == {"hi": 63, "hi2": 65}


def test_the_reconciler_says_when_to_look_again():
    kept = Reconciler(Cluster(SNAPSHOT), give_up_after=30)
    live = Scheduler(config()).attach(kept.cluster)
    cycle = live.schedule()
    kept.carry_out(cycle)
    assert kept.wake_at(cycle) == 63
    kept.pass_time(63)
    cycle = live.schedule()
    kept.carry_out(cycle)
    assert cycle.evictions
    # The eviction is given up at 93; the other protection ends before.
    assert kept.wake_at(cycle) == 65
    assert kept.wake_at(evolve(cycle, refused_until=None)) == 93
