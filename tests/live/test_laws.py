"""The laws of a living cluster, over random histories of events and cycles."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.engines import VectorisedPlacement
from tests.support.living import Life, apply_plainly, events_to_build

from batchsched import (
    ConditionReason,
    EventError,
    Hold,
    HoldKind,
    JobCondition,
    JobInfo,
    NodeInfo,
    Plan,
    PluginError,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    default_registry,
    next_snapshot,
)
from batchsched.live import (
    Cluster,
    EndedJobsRemoved,
    Event,
    JobArrived,
    QueueChanged,
    TaskSucceeded,
    TimePassed,
)
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.plain_loop import Evaluator, LinearScanPlacement
from batchsched.plugin import Changes, JobState, NodeScore, Reads, SessionView, TaskState
from batchsched.state.ledger import Ledger
from batchsched.testing import configs

pytestmark = pytest.mark.slow


class OwnEngine:
    """An engine of a user's own, which can do what an engine must do, and nothing else."""

    def __init__(self, ledger: Ledger, evaluator: Evaluator) -> None:
        assert [node.slot for node in ledger.nodes] == list(range(len(ledger.nodes)))
        engine = IndexedPlacement(ledger, evaluator)
        for name in ("kind", "best", "first_feasible", "feasible", "ranked"):
            setattr(self, name, getattr(engine, name))
        for name in ("refusal", "raw_scores", "totals", "tally"):
            setattr(self, name, getattr(engine, name))


ENGINES = (IndexedPlacement, LinearScanPlacement, VectorisedPlacement, OwnEngine)
seeds = st.integers(0, 1 << 32)


def go_on(life: Life, cluster: Cluster, scheduler: Scheduler, live: Any) -> None:
    """One cycle, compared with one from scratch, and what happens then, with the plain loop."""
    before = cluster.snapshot()
    cycle = live.schedule()
    result = scheduler.schedule(before)
    assert cycle == result
    assert result == cycle
    assert cluster.snapshot() == before
    assert live.schedule() is cycle
    with live.open() as session:
        session.check()
    bound = [
        task.uid
        for job in before.jobs
        for task in job.tasks
        if task.status in (TaskStatus.BOUND, TaskStatus.BINDING)
    ]
    bound += [bind.task_uid for bind in result.binds]
    leaving = [
        task.uid
        for tasks in (*(job.tasks for job in before.jobs), before.other_tasks)
        for task in tasks
        if task.status is TaskStatus.RELEASING
    ]
    leaving += [eviction.task_uid for eviction in result.evictions]
    named = {
        "not_started": life.some(bound, 0.2),
        "still_releasing": life.some(leaving, 0.3),
        "keep_reservations": life.random.random() < 0.9,
    }
    after = next_snapshot(before, result, now=before.now, **named)
    late = live.schedule(reasons=False)
    cluster.carry_out(cycle, **named, at_once=True)
    assert cluster.snapshot() == after
    events = life.events(after)
    cluster.apply(*events)
    some = life.some(list(result.tasks), 0.5)
    assert {uid: late.outcome(uid) for uid in some} == {uid: result.tasks[uid] for uid in some}
    assert late.full() == scheduler.schedule(before, reasons=False) == late
    for event in events:
        after = apply_plainly(after, event)
    assert cluster.snapshot() == after
    told = next_snapshot(before, result, now=before.now, **named, events=events)
    assert told == after
    assert cluster.snapshot() == Snapshot(
        nodes=after.nodes,
        jobs=after.jobs,
        queues=after.queues,
        other_tasks=after.other_tasks,
        now=after.now,
        evictions=after.evictions,
    )


@settings(max_examples=30)
@given(seed=seeds, config=configs(), engine=st.sampled_from(ENGINES), plain=st.booleans())
def test_law_cycles_equal_those_from_scratch_and_snapshots_the_chain(
    seed: int, config: Any, engine: Any, plain: bool
) -> None:
    life = Life(seed, plain=plain)
    scheduler = Scheduler(config, placement=engine)
    cluster = Cluster(life.start())
    live = scheduler.attach(cluster)
    for _ in range(8):
        go_on(life, cluster, scheduler, live)


@settings(max_examples=20)
@given(seed=seeds)
def test_law_what_is_at_fault_is_refused_and_nothing_has_changed(seed: int) -> None:
    life = Life(seed)
    cluster = Cluster(life.start())
    live = Scheduler().attach(cluster)
    before = cluster.snapshot()
    expected = live.schedule()
    events = life.events(before)
    with pytest.raises(EventError) as caught:
        cluster.apply(TaskSucceeded("nobody"), *events, TimePassed(-1))
    assert [fault.path for fault in caught.value.faults] == [
        "events[0]",
        f"events[{len(events) + 1}].now",
    ]
    assert cluster.snapshot() == before
    assert live.schedule() == expected
    cluster.apply(*events)


@settings(max_examples=3)
@given(seed=seeds, config=configs())
def test_law_a_trial_leaves_no_trace(seed: int, config: Any) -> None:
    life = Life(seed)
    scheduler = Scheduler(config)
    cluster = Cluster(life.start())
    live = scheduler.attach(cluster)
    for _ in range(3):
        go_on(life, cluster, scheduler, live)
        before = cluster.snapshot()
        expected = live.schedule()
        with cluster.trial() as trial:
            for _ in range(2):
                go_on(life, trial, scheduler, live)
            with cluster.trial():
                go_on(life, cluster, scheduler, live)
        assert cluster.snapshot() == before
        again = live.schedule()
        assert again == expected == scheduler.schedule(before)


@settings(max_examples=10)
@given(seed=seeds, one=configs(), other=configs())
def test_law_two_schedulers_do_not_disturb_each_other(seed: int, one: Any, other: Any) -> None:
    life = Life(seed)
    cluster = Cluster(life.start())
    first, second = Scheduler(one), Scheduler(other)
    live = first.attach(cluster), second.attach(cluster)
    for _ in range(5):
        go_on(life, cluster, first, live[0])
        if life.random.random() < 0.5:
            go_on(life, cluster, second, live[1])


@settings(max_examples=8)
@given(seed=seeds)
def test_law_a_cluster_can_be_pickled_and_copied(seed: int) -> None:
    life = Life(seed)
    scheduler = Scheduler()
    cluster = Cluster(life.start())
    live = scheduler.attach(cluster)
    go_on(life, cluster, scheduler, live)
    before = cluster.snapshot()
    others = [
        copy.copy(cluster),
        copy.deepcopy(cluster),
        pickle.loads(pickle.dumps(cluster)),
        cluster.copy(),
    ]
    go_on(life, cluster, scheduler, live)
    for other in others:
        assert other.snapshot() == before
        assert scheduler.attach(other).schedule() == scheduler.schedule(before)


@settings(max_examples=12)
@given(seed=seeds)
def test_law_events_that_belong_together_may_come_in_any_order(seed: int) -> None:
    life = Life(seed)
    scheduler = Scheduler()
    first = Cluster(life.start())
    for _ in range(2):
        go_on(life, first, scheduler, scheduler.attach(first))
    wanted = first.snapshot()
    cluster = Cluster()
    events = events_to_build(wanted)
    life.random.shuffle(events)
    cluster.apply(*events)
    assert cluster.snapshot() == wanted
    assert scheduler.attach(cluster).schedule() == scheduler.schedule(wanted)


@frozen
class Keyed:
    """A plugin of a user's own, which keeps nothing, or keeps and gives up now and then."""

    keeps: bool

    def open(self, view: SessionView, /) -> object:
        return KeyedOpened(view) if self.keeps else KeyedForOnce(view)


class KeyedForOnce:
    def __init__(self, view: SessionView) -> None:
        self._now = view.now
        self._jobs = len(view.jobs)

    def task_order_key(self, task: TaskState) -> float:
        return (hash_of(task.uid) + self._now) % 7

    def job_order_key(self, job: JobState) -> int:
        return (hash_of(job.uid) + self._jobs) % 5

    def job_valid(self, job: JobState) -> JobCondition | None:
        if (hash_of(job.uid) + self._jobs) % 6:
            return None
        return JobCondition(ConditionReason.NOT_ENOUGH_TASKS, "it is not its turn")

    def node_scores(self) -> list[NodeScore]:
        jobs = self._jobs
        return [
            NodeScore(
                score=lambda task, node: (hash_of(node.name) + jobs) % 3,
                reads=Reads.DESCRIPTION,
                signature=lambda _task: None,
            )
        ]


class KeyedOpened:
    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._jobs = len(view.jobs)

    def resume(self, _changes: Changes) -> bool:
        return self._jobs == len(self._view.jobs)

    def task_order_key(self, task: TaskState) -> int:
        return (hash_of(task.uid) + self._jobs) % 7

    def job_order_key(self, job: JobState) -> int:
        return (hash_of(job.uid) + self._jobs) % 5


def hash_of(text: str) -> int:
    return sum(text.encode())


@settings(max_examples=16)
@given(seed=seeds, keeps=st.booleans())
def test_law_plugins_of_a_user_decide_as_from_scratch(seed: int, keeps: bool) -> None:
    life = Life(seed)
    registry = default_registry()
    registry.register_plugin("keyed", lambda _: Keyed(keeps))
    names = [["keyed", "priority", "gang", "conformance"], ["drf", "predicates", "proportion"]]
    tiers = [{"plugins": [{"name": name} for name in tier]} for tier in names]
    config = SchedulerConfig.from_mapping(
        {"actions": "reclaim, allocate, backfill, preempt", "tiers": tiers}, registry=registry
    )
    scheduler = Scheduler(config, registry)
    cluster = Cluster(life.start())
    live = scheduler.attach(cluster)
    for _ in range(5):
        go_on(life, cluster, scheduler, live)


class LifeWithTimes(Life):
    """Jobs have estimates and deadlines, and queues are a tree."""

    def start(self) -> Snapshot:
        random = self.random
        queues = [
            Queue(name="top", weight=2, priority=random.choice((0, 1))),
            *(Queue(name=name, parent="top", weight=random.choice((1, 3))) for name in "ab"),
            Queue(name="c", limit=ResourceLimit(milli_cpu=random.choice((2000, 9000)))),
        ]
        half_life = random.choice((None, 5.0, 60.0))
        queues = [evolve(queue, usage_half_life=half_life) for queue in queues]
        return evolve(super().start(), queues=queues, jobs=[self.job(0) for _ in range(5)])

    def job(self, now: float) -> JobInfo:
        random = self.random
        job: JobInfo = evolve(
            super().job(now),
            estimate=random.choice((None, 3.0, 20.0)),
            max_wait=random.choice((None, 1.0, 10.0)),
            user=random.choice(("", "ann", "bob")),
        )
        return job

    def _of_queues(self, snapshot: Snapshot) -> list[Event]:
        random = self.random
        changed = random.choice(snapshot.queues)
        if random.random() > 0.2 or changed.parent is None:
            return []
        return [QueueChanged(evolve(changed, weight=random.choice((1, 2, 3))))]


@settings(max_examples=10)
@given(
    seed=seeds,
    orders=st.lists(
        st.sampled_from(["sla", "sjf", "las", "fcfs", "usage"]), min_size=1, unique=True
    ),
    shares=st.sampled_from(["proportion", "capacity"]),
)
def test_law_plugins_of_time_and_trees_of_queues_decide_as_from_scratch(
    seed: int, orders: list[str], shares: str
) -> None:
    life = LifeWithTimes(seed)
    tiers = [{"plugins": [{"name": name} for name in (*orders, "gang", "predicates", shares)]}]
    actions = "allocate, backfill, preempt, reclaim, reserve"
    scheduler = Scheduler(SchedulerConfig.from_mapping({"actions": actions, "tiers": tiers}))
    cluster = Cluster(life.start())
    live = scheduler.attach(cluster)
    for _ in range(5):
        go_on(life, cluster, scheduler, live)


@frozen
class Fails:
    """A plugin that raises when it is told so."""

    when: list[bool]

    def open(self, _view: SessionView, /) -> object:
        return FailsOpened(self.when)


class FailsOpened:
    def __init__(self, when: list[bool]) -> None:
        self._when = when

    def resume(self, _changes: Changes) -> bool:
        return True

    def job_order_key(self, _job: JobState) -> int:
        if self._when[0]:
            raise RuntimeError("told so")
        return 0


@settings(max_examples=10)
@given(seed=seeds)
def test_law_an_error_inside_a_cycle_leaves_the_cluster_as_it_was(seed: int) -> None:
    life = Life(seed)
    when = [False]
    registry = default_registry()
    registry.register_plugin("fails", lambda _: Fails(when))
    tiers = [{"plugins": [{"name": name} for name in ("fails", "gang", "drf", "proportion")]}]
    config = SchedulerConfig.from_mapping(
        {"actions": "allocate", "tiers": tiers}, registry=registry
    )
    scheduler = Scheduler(config, registry)
    cluster = Cluster(life.start())
    live = scheduler.attach(cluster)
    for _ in range(4):
        go_on(life, cluster, scheduler, live)
        before = cluster.snapshot()
        cluster.apply(JobArrived(life.job(cluster.now)))
        when[0] = True
        with suppress(PluginError):
            live.schedule()
        when[0] = False
        assert cluster.snapshot() != before
        assert live.schedule() == scheduler.schedule(cluster.snapshot())


def test_memory_does_not_grow_with_the_number_of_cycles() -> None:
    cpu = Resource(milli_cpu=1000)
    cluster = Cluster(
        nodes=[NodeInfo(name=f"n{i}", allocatable=Resource(milli_cpu=4000)) for i in range(5)],
        queues=[Queue(name="q")],
    )
    live = Scheduler().attach(cluster)

    def cycles(first: int, count: int) -> None:
        for number in range(first, first + count):
            task = TaskInfo(uid=f"t{number}", name=f"t{number}", resreq=cpu)
            cluster.apply(JobArrived(JobInfo(name=f"j{number}", queue="q", tasks=[task])))
            cluster.carry_out(live.schedule(), at_once=True)
            if number >= 10:
                cluster.apply(TaskSucceeded(f"t{number - 10}"), EndedJobsRemoved())

    # Ten thousand cycles are gone through by `benchmarks.steady --memory`.
    cycles(0, 60)
    tracemalloc.start()
    cycles(60, 100)
    gc.collect()
    settled, _ = tracemalloc.get_traced_memory()
    cycles(160, 150)
    gc.collect()
    later, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert later < 1.2 * settled + 200_000


class LifeWithPromises(LifeWithTimes):
    """Jobs and tasks are held, nodes are reserved, and starts are planned."""

    def start(self) -> Snapshot:
        snapshot = super().start()
        random = self.random
        empty = list(snapshot.nodes)
        jobs = []
        for job in snapshot.jobs:
            where = random.choice(snapshot.nodes).name
            tasks = []
            for task in job.tasks:
                if empty and self._chance(0.4) and task.resreq <= empty[-1].allocatable:
                    there = {"status": TaskStatus.RUNNING, "start_time": 0.0}
                    tasks.append(evolve(task, **there, node_name=empty.pop().name))
                elif self._chance(0.3):
                    large = task.resreq + Resource(milli_cpu=random.choice((0, 7000)))
                    there = {"status": TaskStatus.RESERVED, "resreq": large}
                    tasks.append(evolve(task, **there, node_name=where))
                else:
                    tasks.append(task)
            plan = Plan(start=random.choice((0, 4)), nodes={task.uid: where for task in job.tasks})
            jobs.append(evolve(job, tasks=tasks, plan=plan if self._chance(0.3) else None))
        return evolve(snapshot, jobs=jobs)

    def job(self, now: float) -> JobInfo:
        job = super().job(now)
        hold = Hold(HoldKind.GATE, "example.com/gate")
        tasks = [evolve(task, holds=[hold] if self._chance(0.1) else ()) for task in job.tasks]
        admission = Hold(HoldKind.NOT_ADMITTED, "team")
        return evolve(job, tasks=tasks, holds=[admission] if self._chance(0.15) else ())


@settings(max_examples=10)
@given(seed=seeds, shares=st.sampled_from(["proportion", "capacity"]), keep=st.booleans())
def test_law_two_schedulers_that_hold_reserve_and_plan_decide_as_from_scratch(
    seed: int, shares: str, keep: bool
) -> None:
    life = LifeWithPromises(seed)
    cluster = Cluster(life.start())
    tiers = [{"plugins": ["priority", "gang", "drf", "predicates", shares]}]
    plan = {"name": "plan", "arguments": {"keep": keep, "depth": 2}}
    reserves = {"name": "allocate", "arguments": {"starvationThreshold": 2, "unready": "hold"}}
    schedulers = [
        Scheduler(SchedulerConfig.from_mapping({"actions": actions, "tiers": tiers}))
        for actions in ([plan, "preempt", "allocate"], [reserves, "backfill", "reserve", "reclaim"])
    ]
    attached = [(scheduler, scheduler.attach(cluster)) for scheduler in schedulers]
    for _ in range(6):
        go_on(life, cluster, *life.random.choice(attached))
