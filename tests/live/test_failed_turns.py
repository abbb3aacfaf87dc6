"""Turns that came to nothing are not repeated before something changed that could matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.engines import VectorisedPlacement

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    WhyPending,
    default_registry,
)
from batchsched.action import Fit
from batchsched.live import (
    Cluster,
    EndedJobsRemoved,
    Event,
    JobArrived,
    JobChanged,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    OtherTaskArrived,
    TaskFailed,
    TaskSucceeded,
    TimePassed,
)
from batchsched.plugin import JobState, NodeState, TaskState
from batchsched.session.failures import FailedTurns

ALL_ACTIONS = "reclaim, allocate, backfill, preempt, reserve"
# With capacity, a gang for which there is not enough in all is kept out before it is tried.
TIERS = [
    {"plugins": ["priority", {"name": "gang", "arguments": {"atMinimum": "whole-job"}}]},
    {"plugins": ["conformance", "drf", "predicates", "proportion", "nodeorder"]},
]


class Counting(VectorisedPlacement):
    """Counts the questions for the best node."""

    asked = 0

    def best(self, task: TaskState, fit: Fit, /) -> NodeState | None:
        Counting.asked += 1
        return super().best(task, fit)


def cpus(count: float) -> Resource:
    return Resource(milli_cpu=int(count * 1000), memory=1 << 20)


def node_of(name: str, count: float = 4, **more: Any) -> NodeInfo:
    allocatable = Resource(milli_cpu=int(count * 1000), memory=1 << 30)
    return NodeInfo(name=name, allocatable=allocatable, **more)


def gang(name: str, sizes: Sequence[float], **more: Any) -> JobInfo:
    more = {"queue": "q0", "min_available": len(sizes), **more}
    tasks = [
        TaskInfo(uid=f"{name}-{k}", name=f"{name}-{k}", resreq=cpus(size))
        for k, size in enumerate(sizes)
    ]
    return JobInfo(name=name, tasks=tasks, **more)


def living(
    *jobs: JobInfo, nodes: int = 2, config: dict[str, Any] | None = None
) -> tuple[Cluster, Scheduler, Any]:
    scheduler = Scheduler(
        SchedulerConfig.from_mapping({"actions": "allocate", "tiers": TIERS, **(config or {})}),
        placement=Counting,
    )
    cluster = Cluster(
        nodes=[node_of(f"n{i}") for i in range(nodes)], queues=[Queue(name="q0")], jobs=jobs
    )
    return cluster, scheduler, scheduler.attach(cluster)


def questions(cluster: Cluster, scheduler: Scheduler, live: Any) -> int:
    """Run a cycle; return how often it was asked for nodes. It is that from scratch."""
    Counting.asked = 0
    result = live.schedule()
    asked = Counting.asked
    assert result == scheduler.schedule(cluster.snapshot())
    return asked


@pytest.mark.parametrize("sizes", [(5,), (3, 3, 3), (5, 1), (3, 3, 5)])
def test_a_gang_that_failed_is_not_tried_again_while_nothing_changes_for_it(
    sizes: Sequence[float],
) -> None:
    cluster, scheduler, live = living(gang("g", sizes))
    assert questions(cluster, scheduler, live)
    cluster.apply(JobArrived(gang("h", (5,), queue="nowhere")))
    again = questions(cluster, scheduler, live)
    if sizes == (3, 3, 5):
        # What unlike tasks take from one another depends on where each of them goes.
        assert again
    else:
        assert not again


def test_what_changes_elsewhere_lets_nobody_be_tried_again() -> None:
    cluster, scheduler, live = living(gang("g", (3, 3, 3)), nodes=2)
    questions(cluster, scheduler, live)
    cluster.apply(NodeAdded(node_of("n0x", 2)))
    questions(cluster, scheduler, live)
    cluster.apply(NodeChanged(node_of("n0x", 2.5)), JobArrived(gang("h", (5,), queue="nowhere")))
    cluster.apply(TimePassed(10))
    assert not questions(cluster, scheduler, live)


full = Taint(key="full", effect=TaintEffect.NO_SCHEDULE)


@pytest.mark.parametrize(
    "event",
    [
        NodeAdded(node_of("n9")),
        NodeChanged(node_of("n0", 5)),
        NodeRemoved("n1"),
        JobChanged("default/g", min_available=2),
        OtherTaskArrived(
            TaskInfo(uid="d", name="d", resreq=cpus(2), status=TaskStatus.RUNNING, node_name="n1")
        ),
    ],
)
def test_what_could_matter_lets_the_gang_be_tried_again(event: Event) -> None:
    cluster, scheduler, live = living(gang("g", (3, 3, 3)), nodes=2)
    questions(cluster, scheduler, live)
    cluster.apply(event)
    assert questions(cluster, scheduler, live)


def test_a_node_that_has_room_and_takes_no_such_task_lets_nobody_be_tried_again() -> None:
    cluster, scheduler, live = living(gang("g", (3, 3, 3)), nodes=2)
    cluster.apply(NodeAdded(node_of("n0x", 1, taints=[full])))
    questions(cluster, scheduler, live)
    cluster.apply(NodeChanged(node_of("n0x", 8, taints=[full])))
    assert not questions(cluster, scheduler, live)
    cluster.apply(NodeChanged(node_of("n0x", 8)))
    assert questions(cluster, scheduler, live)


class _Sceptic:
    """Lets jobs start only at even times; says that this follows from jobs alone, or does not."""

    def __init__(self, view: Any, *, claims: bool) -> None:
        self._view = view
        if claims:
            self.votes_on_jobs_alone = True

    def resume(self, _changes: object) -> bool:
        return True

    def job_ready(self, job: JobState) -> bool:
        return self._view.now % 2 == 0 and job.ready_count >= job.min_available


def test_where_votes_read_more_than_jobs_everything_is_tried_again() -> None:
    registry = default_registry()

    class Plugin:
        def open(self, view: Any) -> _Sceptic:
            return _Sceptic(view, claims=False)

    registry.register_plugin("sceptic", lambda _arguments: Plugin())
    config = SchedulerConfig.from_mapping(
        {"actions": "allocate", "tiers": [{"plugins": ["sceptic", "predicates"]}]},
        registry=registry,
    )
    scheduler = Scheduler(config, registry, placement=Counting)
    cluster = Cluster(
        nodes=[node_of("n0")], queues=[Queue(name="q0")], jobs=[gang("g", (1, 1))], now=1
    )
    live = scheduler.attach(cluster)
    assert questions(cluster, scheduler, live)
    cluster.apply(TimePassed(2))
    assert questions(cluster, scheduler, live)
    assert len(live.schedule().binds) == 2


def test_a_turn_is_remembered_with_all_that_reasons_say_of_it() -> None:
    cluster, scheduler, live = living(gang("g", (3, 3, 3)), gang("h", (5, 5)), nodes=2)
    first = live.schedule()
    cluster.apply(NodeAdded(node_of("n2", 0)))
    again = live.schedule()
    assert again == scheduler.schedule(cluster.snapshot())
    assert again.pending["h-1"] == first.pending["h-1"]
    assert first.pending["g-0"].why is WhyPending.GANG_INCOMPLETE
    assert first.pending["h-1"].why is WhyPending.NOT_REACHED


CONFIGS: tuple[dict[str, Any], ...] = (
    {"actions": "allocate, backfill"},
    {"actions": ALL_ACTIONS},
    {"actions": "allocate, preempt, allocate"},
    {
        "actions": ALL_ACTIONS,
        "tiers": [
            {"plugins": ["priority", "gang", "conformance"]},
            {"plugins": ["drf", "predicates", "capacity", "nodeorder"]},
        ],
    },
    {
        "actions": [{"name": "allocate", "arguments": {"unready": "hold"}}, "backfill"],
        "tiers": [{"plugins": ["gang", "predicates", "proportion"]}],
    },
    {
        "actions": [
            {"name": "allocate", "arguments": {"evictBackfill": True}},
            {"name": "backfill", "arguments": {"strategy": "release"}},
            "allocate",
        ]
    },
    {"actions": [{"name": "allocate", "arguments": {"starvationThreshold": 3}}, "reserve"]},
    {
        "actions": "allocate, backfill",
        "tiers": [
            {"plugins": ["priority", "gang", "drf", "predicates", "nodeorder"]},
            {"plugins": [{"name": "capacity", "arguments": {"order": "graded"}}]},
        ],
    },
)


class Crowd:
    """A small cluster on which more gangs wait than fit."""

    def __init__(self, seed: int, *, is_tree: bool = False) -> None:
        self.random = Random(seed)
        self.came = 0
        self.is_tree = is_tree

    def start(self) -> Cluster:
        queues = [Queue(name=f"q{i}", weight=i + 1) for i in range(2)]
        if self.random.random() < 0.3:
            queues[1] = evolve(queues[1], limit=ResourceLimit(milli_cpu=9000))
        if self.is_tree:
            queues = [Queue(name="above"), queues[0], evolve(queues[1], parent="above")]
            queues.append(Queue(name="q2", parent="above"))
        return Cluster(
            nodes=[self.node(f"n{i}") for i in range(5)],
            queues=queues,
            jobs=[self.job() for _ in range(10)],
        )

    def node(self, name: str) -> NodeInfo:
        max_tasks = self.random.choice((None, None, 2))
        taints = [full] if self.random.random() < 0.1 else []
        return node_of(name, self.random.choice((3, 4, 6)), max_tasks=max_tasks, taints=taints)

    def job(self) -> JobInfo:
        random = self.random
        self.came += 1
        count = random.choice((1, 2, 3, 5))
        size = random.choice((0.5, 1, 2, 3))
        sizes = [size] * count
        if random.random() < 0.3:
            sizes = [random.choice((0, 1, 2, 3)) for _ in range(count)]
        queue = random.choice(("q0", "q1"))
        return evolve(
            gang(f"j{self.came:03}", sizes),
            queue="q2" if self.is_tree and self.came % 3 == 0 else queue,
            min_available=random.choice((1, count, count)),
            priority=random.choice((0, 0, 1)),
            creation_time=random.choice((0, self.came)),
        )

    def events(self, cluster: Cluster) -> list[Event]:
        random = self.random
        before = cluster.snapshot()
        events: list[Event] = [TimePassed(before.now + random.choice((0, 1)))]
        kind = random.random()
        if kind < 0.25:
            return events
        running = [
            task.uid for job in before.jobs for task in job.tasks if task.status.value == "Running"
        ]
        if running and kind < 0.8:
            ends = random.choice((TaskSucceeded, TaskSucceeded, TaskFailed))
            events += [ends(uid) for uid in random.sample(running, min(len(running), 2))]
        waiting = [
            job for job in before.jobs if all(t.status.value == "Pending" for t in job.tasks)
        ]
        if random.random() < 0.5:
            events.append(JobArrived(self.job()))
        if waiting and random.random() < 0.15:
            events.append(JobRemoved(random.choice(waiting).uid))
        elif waiting and random.random() < 0.2:
            job = random.choice(waiting)
            change: Any = random.choice(({"priority": 2}, {"min_available": 1}, {"queue": "q0"}))
            events.append(JobChanged(job.uid, **change))
        if random.random() < 0.2:
            name = f"n{random.randrange(5)}"
            node = next(node for node in before.nodes if node.name == name)
            tainted = evolve(node, taints=() if node.taints else (full,))
            cordoned = evolve(node, unschedulable=not node.unschedulable)
            events.append(NodeChanged(random.choice((tainted, cordoned))))
        if random.random() < 0.1 and "n2x" not in {node.name for node in before.nodes}:
            events.append(NodeAdded(self.node("n2x")))
        if random.random() < 0.3:
            events.append(EndedJobsRemoved())
        return events


def live_through(seed: int, config: dict[str, Any], cycles: int, *, is_tree: bool = False) -> int:
    """Compare a history with cycles from scratch; return how many turns were spared."""
    crowd = Crowd(seed, is_tree=is_tree)
    cluster = crowd.start()
    scheduler = Scheduler(SchedulerConfig.from_mapping(config))
    live = scheduler.attach(cluster)
    spared = 0
    read_later: list[tuple[CycleResult, CycleResult]] = []
    find = FailedTurns.find

    def counting(self: FailedTurns, job: JobState, placement: Any) -> Any:
        nonlocal spared
        found = find(self, job, placement)
        spared += found is not None
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FailedTurns, "find", counting)
        for number in range(cycles):
            expected = scheduler.schedule(cluster.snapshot())
            result = live.schedule()
            if number % 2:
                read_later.append((result, expected))
            else:
                assert result == expected
            if number % 5 == 1:
                with cluster.trial():
                    cluster.apply(*crowd.events(cluster))
                    assert live.schedule() == scheduler.schedule(cluster.snapshot())
            bound = [bind.task_uid for bind in result.binds]
            leaving = [eviction.task_uid for eviction in result.evictions]
            random = crowd.random
            cluster.carry_out(
                result,
                not_started=[uid for uid in bound if random.random() < 0.1],
                still_releasing=[uid for uid in leaving if random.random() < 0.4],
                at_once=True,
            )
            cluster.apply(*crowd.events(cluster))
    # What is read late is what was true at the end of the cycle.
    assert [result for result, _ in read_later] == [expected for _, expected in read_later]
    return spared


@pytest.mark.slow
@settings(max_examples=15)
@given(seed=st.integers(0, 1 << 32), config=st.sampled_from(CONFIGS), is_tree=st.booleans())
def test_law_cycles_that_spare_turns_equal_those_from_scratch(
    seed: int, config: dict[str, Any], is_tree: bool
) -> None:
    live_through(seed, config, 10, is_tree=is_tree)


def running(name: str, uids: Mapping[str, str], size: float, **more: Any) -> JobInfo:
    """Return a job whose tasks run, given their nodes by UID."""
    tasks = [
        TaskInfo(
            uid=uid, name=uid, resreq=cpus(size), status=TaskStatus.RUNNING, node_name=node_name
        )
        for uid, node_name in uids.items()
    ]
    return JobInfo(name=name, tasks=tasks, **{"queue": "q0", "min_available": 0, **more})


def test_what_a_turn_was_tried_on_may_be_undone_at_the_end_of_the_cycle() -> None:
    # Preempt promises room to the small task, so that allocate tries only the one that is too
    # large. That it fails again says nothing of the small one, which waits again in the next cycle.
    jobs = [
        gang("g", (2, 9), min_available=1, priority=1),
        gang("h", (2,)),
        running("low", {"low-0": "n0", "low-1": "n0"}, 2),
    ]
    cluster, scheduler, live = living(*jobs, nodes=1, config=CONFIGS[2])
    first = live.schedule()
    assert [promise.task_uid for promise in first.pipelined] == ["g-0"]
    assert first == scheduler.schedule(cluster.snapshot())
    cluster.apply(TaskSucceeded("low-0"))
    second = live.schedule()
    assert [bind.task_uid for bind in second.binds] == ["g-0"]
    assert second == scheduler.schedule(cluster.snapshot())


def test_a_gang_that_came_closer_to_its_minimum_within_the_cycle_is_tried_again() -> None:
    # Its task that asks for nothing is placed between two turns, where none of the others fits.
    config = {
        "actions": "allocate, backfill, allocate",
        "tiers": [{"plugins": ["gang", "predicates"]}],
    }
    *others, last = gang("g", (3, 3, 3)).tasks
    tasks = [*others, evolve(last, resreq=Resource())]
    cluster, scheduler, live = living(evolve(gang("g", (3, 3, 3)), tasks=tasks), config=config)
    cluster.apply(NodeAdded(node_of("a", 1)))
    assert questions(cluster, scheduler, live)
    assert len(live.schedule().binds) == 3


@pytest.mark.parametrize(
    "events",
    [
        [NodeAdded(node_of("n0x", 0.1))],
        [NodeRemoved("n0")],
        [NodeRemoved("n0"), NodeAdded(node_of("n4", 0.1))],
    ],
)
def test_what_is_on_loan_is_found_on_nodes_whose_positions_have_changed(
    events: Sequence[Event],
) -> None:
    # q1 deserves half of the cluster; what is on loan to q0 runs on one node, neither the first
    # nor the last.
    jobs = [
        running("lent", {f"lent-{i}": "n2" for i in range(4)}, 1),
        running("own", {f"own-{i}": "n3" for i in range(4)}, 1, min_available=4),
        gang("claims", (1, 1, 1, 1), queue="q1"),
    ]
    cluster = Cluster(
        nodes=[node_of("n0", 0.1), node_of("n1", 0.1), node_of("n2"), node_of("n3")],
        queues=[Queue(name="q0"), Queue(name="q1")],
        jobs=jobs,
    )
    scheduler = Scheduler(SchedulerConfig.from_mapping(CONFIGS[3]))
    live = scheduler.attach(cluster)
    for change in ([], events):
        cluster.apply(*change)
        result = live.schedule()
        reclaimed = {(each.node_name, each.action) for each in result.evictions}
        assert reclaimed == {("n2", "reclaim")}
        assert result == scheduler.schedule(cluster.snapshot())


def test_turns_are_spared_where_gangs_wait() -> None:
    assert live_through(1, CONFIGS[1], 10) > 10


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
def test_a_turn_in_which_a_limit_took_part_is_tried_again_where_nothing_opens(shares: str) -> None:
    # g has a task that its queue may not have beside o, and one that fits nowhere.
    small, large = gang("g", (2, 1), min_available=1).tasks
    large = evolve(large, resreq=Resource(milli_cpu=1000, memory=1 << 60))
    tiers = [{"plugins": ["priority", "gang", "predicates", shares]}]
    scheduler = Scheduler(SchedulerConfig.from_mapping({"actions": "allocate", "tiers": tiers}))
    cluster = Cluster(
        nodes=[node_of("n0", unschedulable=True), node_of("n1")],
        queues=[Queue(name="q0", limit=ResourceLimit(milli_cpu=3000))],
        jobs=[
            running("o", {"o": "n0"}, 2),
            evolve(gang("g", (2, 1), min_available=1), tasks=[small, large]),
        ],
    )
    live = scheduler.attach(cluster)
    for _ in range(2):
        assert not live.schedule().binds
    cluster.apply(TaskSucceeded("o"))
    assert [bind.task_uid for bind in live.schedule().binds] == ["g-0"]
    assert live.schedule() == scheduler.schedule(cluster.snapshot())
