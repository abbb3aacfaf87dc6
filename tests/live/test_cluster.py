"""What events and decisions make of a cluster, case by case."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from math import log
from typing import Any
from weakref import ref

import pytest
from attrs import evolve

from batchsched import (
    ActionError,
    BatchschedError,
    CycleResult,
    Dependency,
    EventError,
    Hold,
    HoldKind,
    JobEvent,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
    as_new,
    default_registry,
    next_snapshot,
)
from batchsched.live import (
    BindRefused,
    Cluster,
    EndedJobsRemoved,
    Event,
    EvictionRefused,
    JobArrived,
    JobChanged,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    OtherTaskArrived,
    QueueAdded,
    QueueChanged,
    QueueRemoved,
    TaskFailed,
    TaskGone,
    TaskReleasing,
    TaskRemoved,
    TasksAdded,
    TaskStarted,
    TaskSucceeded,
    TimePassed,
)

CPU = Resource(milli_cpu=1000)


def task(uid: str, status: TaskStatus = TaskStatus.PENDING, node: str | None = None) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, resreq=CPU, status=status, node_name=node)


def one_node(*tasks: TaskInfo, **more: Any) -> Cluster:
    return Cluster(
        nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000))],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="j", queue="q", tasks=tasks)],
        **more,
    )


def stands(cluster: Cluster, uid: str) -> str:
    for job in cluster.snapshot().jobs:
        for found in job.tasks:
            if found.uid == uid:
                return f"{found.status.value} {found.node_name or ''}".strip()
    return "nowhere"


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (TaskStatus.BINDING, TaskStarted("t"), "Running n1"),
        (TaskStatus.BOUND, TaskStarted("t"), "Running n1"),
        (TaskStatus.BOUND, BindRefused("t"), "Pending"),
        (TaskStatus.RUNNING, TaskSucceeded("t"), "Succeeded"),
        (TaskStatus.RUNNING, TaskFailed("t"), "Failed"),
        (TaskStatus.RUNNING, TaskReleasing("t"), "Releasing n1"),
        (TaskStatus.RELEASING, EvictionRefused("t"), "Running n1"),
        (TaskStatus.RELEASING, TaskGone("t"), "Pending"),
        (TaskStatus.RUNNING, TaskRemoved("t"), "nowhere"),
    ],
)
def test_what_becomes_of_a_task(before: TaskStatus, event: Any, after: str) -> None:
    cluster = one_node(task("t", before, "n1"))
    cluster.apply(event)
    assert stands(cluster, "t") == after


@pytest.mark.parametrize(
    ("status", "event", "message"),
    [
        (TaskStatus.RUNNING, TaskStarted("t"), "only one that is bound and has yet to start"),
        (TaskStatus.RUNNING, BindRefused("t"), "only one that is bound and has yet to start"),
        (TaskStatus.RUNNING, EvictionRefused("t"), "only one that is Releasing on a node"),
        (TaskStatus.PENDING, TaskSucceeded("t"), "only one that is on a node"),
        (TaskStatus.PENDING, TaskReleasing("t"), "only one that runs on a node"),
        (TaskStatus.PENDING, TaskGone("t"), "only one that is on a node"),
    ],
)
def test_what_cannot_have_happened_to_a_task(status: TaskStatus, event: Any, message: str) -> None:
    cluster = one_node(task("t", status, "n1" if status.holds else None))
    with pytest.raises(EventError, match=message):
        cluster.apply(event)


def test_all_faults_are_told_at_once_with_the_event_they_are_in() -> None:
    cluster = one_node(task("t", TaskStatus.RUNNING, "n1"))
    before = cluster.snapshot()
    with pytest.raises(EventError) as caught:
        cluster.apply(
            JobArrived(JobInfo(name="k", queue="q", min_available=-1)),
            JobArrived(JobInfo(name="l", queue="q", tasks=[task("t")])),
            NodeRemoved("n1"),
            TasksAdded("default/j", [task("new", TaskStatus.RUNNING, "elsewhere")]),
            JobChanged("default/j", priority="high"),  # type: ignore[arg-type]
            NodeAdded(NodeInfo(name="n2", max_tasks=-1)),
            QueueAdded(Queue(name="q")),
            TimePassed(float("nan")),
            "surprise",  # type: ignore[arg-type]
        )
    assert {fault.path.split(":")[0].split(".")[0] for fault in caught.value.faults} == {
        f"events[{number}]" for number in range(9)
    }
    assert cluster.snapshot() is before


def depending(name: str, on: str) -> JobInfo:
    after = Dependency(job=f"default/{on}", on=JobEvent.ENDED)
    return JobInfo(name=name, queue="a", depends_on=[after])


A_BELOW_B = QueueChanged(Queue(name="a", parent="b", usage_half_life=10))


@pytest.mark.parametrize(
    ("events", "faults"),
    [
        (
            [A_BELOW_B, TimePassed(1)],
            ["events[0]: queues['a'].parent: expected a tree, got a cycle: 'a' -> 'b' -> 'a'"],
        ),
        (
            [A_BELOW_B, TimePassed(1), QueueChanged(Queue(name="a"))],
            ["events[1]: expected queues without a cycle of parents"],
        ),
        (
            [JobArrived(depending("j", "k")), JobArrived(depending("k", "j"))],
            [
                (
                    "events[1]: jobs['default/j'].depends_on: expected dependencies without a "
                    "cycle, got 'default/j' -> 'default/k' -> 'default/j'"
                )
            ],
        ),
        (
            [JobArrived(depending("j", "j"))],
            [
                (
                    "events[0]: jobs['default/j'].depends_on: expected dependencies without a "
                    "cycle, got 'default/j' -> 'default/j'"
                )
            ],
        ),
        (
            [NodeRemoved("n1")],
            [
                f"events[0]: task '{uid}' is on node 'n1'; say first that it ended or is gone"
                for uid in ("r1", "r2", "r3")
            ],
        ),
    ],
)
def test_what_would_be_no_snapshot_is_refused(events: list[Event], faults: list[str]) -> None:
    run = [task(f"r{number}", TaskStatus.RUNNING, "n1") for number in (3, 1, 2)]
    jobs = [JobInfo(name=of.name, queue="b", tasks=[of]) for of in run]
    cluster = Cluster(
        nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=9000))],
        queues=[Queue(name="a", usage_half_life=10), Queue(name="b", parent="a")],
    )
    cluster.apply(*map(JobArrived, jobs))
    before = cluster.snapshot()
    with pytest.raises(EventError) as caught:
        cluster.apply(*events)
    assert str(caught.value).split("\n") == faults
    assert cluster.snapshot() == before
    if QueueChanged(Queue(name="a")) not in events:
        with pytest.raises(BatchschedError):
            next_snapshot(before, None, now=2, events=events)


def test_queues_that_are_given_anew_as_a_cycle_are_refused() -> None:
    before = Snapshot(queues=[Queue(name="a", usage_half_life=10)])
    cycle = [Queue(name="a", parent="b", usage_half_life=10), Queue(name="b", parent="a")]
    with pytest.raises(SnapshotError, match="got a cycle: 'a' -> 'b' -> 'a'"):
        next_snapshot(before, None, now=2, queues=cycle)


def test_jobs_tasks_nodes_and_queues_change() -> None:
    cluster = one_node(task("t", TaskStatus.RUNNING, "n1"))
    cluster.apply(
        TasksAdded("default/j", [task("u"), task("s")]),
        JobChanged("default/j", priority=3, queue="r", min_available=2),
        NodeChanged(NodeInfo(name="n1", allocatable=Resource(milli_cpu=8000), unschedulable=True)),
        NodeAdded(NodeInfo(name="n0")),
        QueueChanged(Queue(name="q", weight=5)),
        QueueAdded(Queue(name="r")),
        OtherTaskArrived(task("daemon", TaskStatus.RUNNING, "n1")),
        TimePassed(7),
    )
    after = cluster.snapshot()
    (job,) = after.jobs
    assert [found.uid for found in job.tasks] == ["s", "t", "u"]
    assert (job.priority, job.queue, job.min_available) == (3, "r", 2)
    assert [(node.name, node.unschedulable) for node in after.nodes] == [
        ("n0", False),
        ("n1", True),
    ]
    assert [(queue.name, queue.weight) for queue in after.queues] == [("q", 5), ("r", 1)]
    assert [found.uid for found in after.other_tasks] == ["daemon"]
    assert after.now == cluster.now == 7
    cluster.apply(
        TaskGone("daemon"),
        QueueRemoved("q"),
        NodeRemoved("n0"),
        TaskSucceeded("t"),
        TaskRemoved("u"),
        TaskRemoved("s"),
    )
    assert cluster.snapshot().other_tasks == ()
    cluster.apply(EndedJobsRemoved())
    assert cluster.snapshot().jobs == ()


@pytest.mark.parametrize("known", ["a", "other", "twice"])
def test_a_task_that_comes_has_a_uid_of_its_own(known: str) -> None:
    cluster = one_node(task("a"), other_tasks=[task("other", TaskStatus.RUNNING, "n1")])
    before = cluster.snapshot()
    with pytest.raises(EventError, match=f"there is a task '{known}' already"):
        cluster.apply(TasksAdded("default/j", (task("twice"), task(known))))
    assert cluster.snapshot() == before


def test_a_job_that_is_removed_takes_its_tasks_along() -> None:
    cluster = one_node(task("t", TaskStatus.RUNNING, "n1"))
    cluster.apply(
        JobRemoved("default/j"),
        NodeRemoved("n1"),
        JobArrived(JobInfo(name="j", queue="q", tasks=[task("t")])),
    )
    assert stands(cluster, "t") == "Pending"


def test_what_is_carried_out_starts_unless_it_is_named() -> None:
    cluster = one_node(task("t1"), task("t2"))
    live = Scheduler().attach(cluster)
    cluster.carry_out(live.schedule(), not_started=["t2"], at_once=True)
    assert stands(cluster, "t1") == "Running n1"
    assert stands(cluster, "t2") == "Bound n1"
    cluster.carry_out(live.schedule(), at_once=True)
    assert stands(cluster, "t2") == "Running n1"


def test_decisions_on_something_else_are_refused() -> None:
    cluster = one_node(task("t1"))
    live = Scheduler().attach(cluster)
    cycle = live.schedule()
    cluster.carry_out(cycle, at_once=True)
    before = cluster.snapshot()
    with pytest.raises(EventError, match="it binds the task, which is Running"):
        cluster.carry_out(cycle, at_once=True)
    with pytest.raises(EventError, match="CycleResult"):
        cluster.carry_out(before, at_once=True)  # type: ignore[arg-type]
    with pytest.raises(EventError, match="there is no such task"):
        cluster.carry_out(live.schedule(), not_started=["nobody"], at_once=True)
    cluster.apply(TaskGone("t1"), NodeAdded(NodeInfo(name="n2")), NodeRemoved("n1"))
    with pytest.raises(EventError, match="n1"):
        cluster.carry_out(cycle, at_once=True)
    assert stands(cluster, "t1") == "Pending"


@pytest.mark.parametrize("wrong", ["t", 5])
def test_what_is_named_must_be_a_list(wrong: Any) -> None:
    cluster = one_node(task("t"))
    result = Scheduler().attach(cluster).schedule()
    with pytest.raises(EventError, match=r"^not_started: expected"):
        cluster.carry_out(result, not_started=wrong, at_once=True)


def test_a_job_that_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(EventError, match=r"^events\[0\]: there is no job 'default/j'$"):
        Cluster().apply(JobRemoved("default/j"))


def test_a_node_that_is_not_there_cannot_change() -> None:
    cluster = one_node(task("t"))
    with pytest.raises(EventError) as caught:
        cluster.apply(NodeChanged(NodeInfo(name="n2")), NodeChanged("n1"))  # type: ignore[arg-type]
    assert [str(fault) for fault in caught.value.faults] == [
        "events[0]: there is no node 'n2'",
        "events[1].node: expected a NodeInfo, got 'n1'",
    ]
    assert [node.name for node in cluster.snapshot().nodes] == ["n1"]


def test_use_is_counted_in_what_was_held_alone() -> None:
    queue = Queue(name="q", usage_half_life=10, usage=Resource(memory=1024))
    running = JobInfo(name="j", queue="q", tasks=[task("t", TaskStatus.RUNNING, "n1")])
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000))
    cluster = Cluster(nodes=[node], queues=[queue], jobs=[running])
    cluster.apply(TimePassed(10))
    (used,) = cluster.snapshot().queues
    # In thousandths of cpu seconds; after one half-life, half of what would count for ever.
    assert used.usage.milli_cpu == pytest.approx(1000 * 10 / log(2) / 2)
    assert used.usage.memory == 512


class _Once:
    """An action that raises an exception the first time."""

    name = "once"
    runs = 0

    def execute(self, _session: object) -> None:
        self.runs += 1
        if self.runs == 1:
            raise RuntimeError("not now")


def test_after_a_cycle_that_failed_the_next_one_is_as_from_scratch() -> None:
    registry = default_registry()
    action = _Once()
    registry.register_action("once", lambda _arguments: action)
    config = SchedulerConfig.from_mapping({"actions": "allocate, once"}, registry=registry)
    scheduler = Scheduler(config, registry)
    cluster = one_node(task("t"))
    live = scheduler.attach(cluster)
    with pytest.raises(ActionError, match="not now"):
        live.schedule()
    assert live.schedule() == scheduler.schedule(cluster.snapshot())
    assert [bind.task_uid for bind in live.schedule().binds] == ["t"]


def test_a_resource_that_only_a_start_requests_may_come_with_a_task_of_nobody() -> None:
    cluster = one_node(task("t"))
    scheduler = Scheduler()
    live = scheduler.attach(cluster)
    live.schedule()
    needs_gpu = Resource(milli_cpu=1000, scalars={"gpu": 1000})
    cluster.apply(
        OtherTaskArrived(evolve(task("o", TaskStatus.RUNNING, "n1"), init_resreq=needs_gpu))
    )
    assert live.schedule() == scheduler.schedule(cluster.snapshot())


class _GoesOn:
    """Goes on from cycle to cycle, and counts how often it is opened."""

    def __init__(self) -> None:
        self.opened = 0

    def open(self, _view: object) -> _GoesOn:
        self.opened += 1
        return self

    def resume(self, _changes: object) -> bool:
        return True

    def job_order_key(self, _job: object) -> int:
        return 0


def test_plugins_that_go_on_are_opened_once_while_jobs_come_and_nodes_change() -> None:
    registry = default_registry()
    plugin = _GoesOn()
    registry.register_plugin("goes-on", lambda _arguments: plugin)
    config = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["goes-on"]}]}, registry=registry)
    cluster = one_node(task("t"))
    live = Scheduler(config, registry).attach(cluster)
    live.schedule()
    cluster.apply(JobArrived(JobInfo(name="k", queue="q", tasks=[task("u")])))
    live.schedule()
    cluster.apply(NodeChanged(NodeInfo(name="n1", allocatable=2 * CPU)))
    assert len(live.schedule().binds) == 2
    assert plugin.opened == 1


def test_a_cluster_that_nobody_refers_to_is_gone_at_once() -> None:
    cluster = one_node(task("t"))
    watched = ref(cluster)
    Scheduler().schedule(cluster.snapshot())
    del cluster
    assert watched() is None


def test_what_a_cluster_begins_with_is_said_once() -> None:
    snapshot = Snapshot(queues=[Queue(name="q")], now=3)
    assert Cluster(snapshot).snapshot() == Cluster(queues=snapshot.queues, now=3).snapshot()
    with pytest.raises(SnapshotError, match="expected a snapshot or its parts"):
        Cluster(snapshot, now=4)
    with pytest.raises(SnapshotError, match="expected a Snapshot"):
        Cluster("n1")  # type: ignore[arg-type]
    with pytest.raises(SnapshotError, match=r"expected a batchsched\.live\.Cluster"):
        Scheduler().attach(snapshot)  # type: ignore[arg-type]


def test_an_error_inside_a_trial_ends_it() -> None:
    cluster = one_node(task("t"))
    before = cluster.snapshot()

    def fail() -> None:
        with cluster.trial() as trial:
            trial.apply(TimePassed(9), TaskRemoved("t"))
            trial.apply(TaskRemoved("t"))

    with pytest.raises(EventError, match="there is no task"):
        fail()
    assert cluster.snapshot() == before


def test_a_snapshot_is_not_changed_by_what_happens_later() -> None:
    cluster = one_node(task("t"))
    before = cluster.snapshot()
    kept = evolve(before)
    cluster.apply(TaskRemoved("t"), TimePassed(1))
    assert before == kept != cluster.snapshot()


def test_a_node_may_go_that_has_just_been_reserved() -> None:
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000))
    cpu = Resource(milli_cpu=2000)
    running = TaskInfo(uid="r", name="r", resreq=cpu, status=TaskStatus.RUNNING, node_name="n1")
    waiting = TaskInfo(uid="w", name="w", resreq=cpu)
    cluster = Cluster(
        nodes=[node],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(name="r", queue="q", tasks=[running]),
            JobInfo(name="w", queue="q", min_available=1, tasks=[waiting]),
        ],
        now=1000,
    )
    actions = [{"name": "allocate", "arguments": {"starvationThreshold": 1}}]
    tiers = [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}]
    scheduler = Scheduler(SchedulerConfig.from_mapping({"actions": actions, "tiers": tiers}))
    live = scheduler.attach(cluster)
    cycle = live.schedule()
    assert [promise.task_uid for promise in cycle.reserved] == ["w"]
    cluster.carry_out(cycle, at_once=True)
    cluster.apply(TaskSucceeded("r"), NodeRemoved("n1"))
    assert cluster.snapshot().task("w").status is TaskStatus.RESERVED
    assert live.schedule() == scheduler.schedule(cluster.snapshot())


@pytest.mark.parametrize(
    "given",
    [
        {"name": ""},
        {"queue": 5},
        {"min_available": -1},
        {"min_available": True},
        {"priority": 10**301},
        {"creation_time": float("nan")},
        {"labels": {"a": 5}},
        {"user": None},
        {"estimate": -1.0},
        {"max_available": 0},
        {"min_groups": 1},
        {"depends_on": ["other"]},
        {"groups": ["left"]},
        {"tasks": [evolve(task("u"), group="left")]},
        {"tasks": [evolve(task("u"), priority="high")]},
        {"tasks": [task("u", TaskStatus.RUNNING, "n1")]},
        {"tasks": [task("u", TaskStatus.RUNNING, "elsewhere")]},
        {"tasks": [task("u"), task("u")]},
        {"tasks": [evolve(task("u"), resreq=Resource(milli_cpu=-1))]},
        {"tasks": [evolve(task("u"), resreq=Resource(memory=1.5e301))]},
    ],
)
def test_a_job_that_comes_is_checked_as_a_snapshot_checks_it(given: dict[str, Any]) -> None:
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000))
    job = evolve(JobInfo(name="j", queue="q"), **given)
    if job.name:
        cluster = Cluster(nodes=[node])
        expected: list[str] = []
        try:
            Snapshot(nodes=[node], jobs=[job])
        except SnapshotError as error:
            expected = [f"events[0]: {fault}" for fault in error.faults]
        found: list[str] = []
        try:
            cluster.apply(JobArrived(job))
        except EventError as error:
            found = [str(fault) for fault in error.faults]
        assert found == expected


def test_shares_are_dealt_anew_when_the_last_job_of_a_queue_leaves_after_the_first_cycle() -> None:
    tiers = [{"plugins": ["gang", "predicates", "proportion"]}]
    scheduler = Scheduler(SchedulerConfig.from_mapping({"actions": "reclaim", "tiers": tiers}))
    cluster = Cluster(
        nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000))],
        queues=[Queue(name="q"), Queue(name="r")],
        jobs=[
            JobInfo(name=name, queue=name, tasks=[task(f"{name}1"), task(f"{name}2")])
            for name in ("q", "r")
        ],
    )
    live = scheduler.attach(cluster)
    live.schedule()
    cluster.apply(JobRemoved("default/r"))
    live.schedule()
    with live.open() as session:
        share = session.queue_share(session.queues["q"])
        assert share is not None
        assert share.deserved == Resource(milli_cpu=2000)
        assert session.queue_share(session.queues["r"]) is None


def attached(cluster: Cluster, actions: object, *plugins: str) -> Callable[[], CycleResult]:
    """Return what runs a cycle that goes on, and says that it is one from scratch."""
    tiers = [{"plugins": list(plugins)}]
    scheduler = Scheduler(SchedulerConfig.from_mapping({"actions": actions, "tiers": tiers}))
    live = scheduler.attach(cluster)

    def cycle() -> CycleResult:
        result = live.schedule()
        assert result == scheduler.schedule(cluster.snapshot())
        return result

    return cycle


def cores(count: int) -> Resource:
    return Resource(milli_cpu=1000 * count)


def test_a_reserved_node_may_go_after_a_cycle_that_knew_of_the_reservation() -> None:
    reserved = evolve(task("w", TaskStatus.RESERVED, "n2"), resreq=cores(2))
    cluster = one_node(reserved)
    cluster.apply(NodeAdded(NodeInfo(name="n2", allocatable=cores(1))))
    cycle = attached(cluster, "reserve", "gang", "predicates")
    cycle()
    cluster.apply(NodeRemoved("n2"))
    cycle()


@pytest.mark.parametrize("goes", [TaskGone("t"), BindRefused("t")])
def test_a_task_of_a_held_job_that_leaves_its_node_stays_away(goes: Event) -> None:
    held = JobInfo(
        name="j",
        queue="q",
        tasks=[task("t", TaskStatus.BOUND, "n1")],
        holds=[Hold(HoldKind.NOT_ADMITTED, "team")],
    )
    cluster = one_node()
    cluster.apply(JobRemoved("default/j"), JobArrived(held))
    cycle = attached(cluster, "allocate", "gang", "predicates")
    cycle()
    cluster.apply(goes)
    assert not cycle().binds


def test_what_replaces_a_task_is_ordered_by_its_own_priority() -> None:
    cluster = one_node(
        evolve(task("a"), resreq=cores(2), priority=5), evolve(task("b"), resreq=cores(2))
    )
    cycle = attached(cluster, "allocate", "priority", "predicates")
    cluster.carry_out(cycle(), at_once=True)
    cluster.apply(TaskReleasing("a"), TaskReleasing("b"))
    cluster.carry_out(
        cycle(),
        at_once=True,
        replacement=lambda old: evolve(as_new(old), priority=5 if old.uid == "b" else 0),
    )
    cluster.apply(OtherTaskArrived(evolve(task("o", TaskStatus.RUNNING, "n1"), resreq=cores(2))))
    assert [bind.task_uid for bind in cycle().binds] == ["b"]


def test_ends_of_runs_are_those_of_tasks_that_left_and_came_back_between_two_cycles() -> None:
    cluster = one_node()
    for name in ("a", "b"):
        whole = evolve(task(name), resreq=cores(4))
        cluster.apply(JobArrived(JobInfo(name=name, queue="q", estimate=10, tasks=[whole])))
    plan = [{"name": "plan", "arguments": {"keep": False}}]
    one, other = (attached(cluster, plan, "gang", "predicates") for _ in range(2))
    cluster.carry_out(one())
    assert other().planned["default/b"].start == 10
    cluster.apply(TaskGone("a"), TimePassed(5))
    cluster.carry_out(one())
    assert other().planned["default/b"].start == 15


def test_shares_are_of_the_nodes_that_there_are_now() -> None:
    # Of the first node, a has more memory than b has cpu; of both, it has less.
    jobs = [
        JobInfo(name="a", queue="q", tasks=[mixed("a1", 1, 3, "n1"), mixed("a2", 1, 1)]),
        JobInfo(name="b", queue="q", tasks=[mixed("b1", 2, 1, "n1"), mixed("b2", 1, 1)]),
    ]
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000, memory=5))
    cluster = Cluster(nodes=[node], queues=[Queue(name="q")], jobs=jobs)
    cycle = attached(cluster, "allocate", "drf", "predicates")
    assert [bind.task_uid for bind in cycle().binds] == ["b2"]
    more = NodeInfo(name="n2", allocatable=Resource(memory=100))
    cluster.apply(NodeAdded(more))
    assert [bind.task_uid for bind in cycle().binds] == ["a2"]


def mixed(uid: str, cpu: int, memory: int, node: str | None = None) -> TaskInfo:
    status = TaskStatus.RUNNING if node else TaskStatus.PENDING
    request = Resource(milli_cpu=1000 * cpu, memory=memory)
    return TaskInfo(uid=uid, name=uid, resreq=request, status=status, node_name=node)


def test_what_no_node_has_any_more_counts_in_no_share() -> None:
    with_gpu = Resource(milli_cpu=1000, scalars={"gpu": 1000})
    node = NodeInfo(name="n1", allocatable=evolve(cores(4), scalars={"gpu": 1000}))
    a1 = evolve(task("a1", TaskStatus.RUNNING, "n1"), resreq=with_gpu)
    b1 = evolve(task("b1", TaskStatus.RUNNING, "n1"), resreq=cores(2))
    jobs = [
        JobInfo(name="a", queue="q", tasks=[a1, task("a2")]),
        JobInfo(name="b", queue="q", tasks=[b1, task("b2")]),
    ]
    cluster = Cluster(nodes=[node], queues=[Queue(name="q")], jobs=jobs)
    cycle = attached(cluster, "allocate", "drf", "predicates")
    assert [bind.task_uid for bind in cycle().binds] == ["b2"]
    cluster.apply(NodeChanged(evolve(node, allocatable=cores(4))))
    assert [bind.task_uid for bind in cycle().binds] == ["a2"]


def test_a_job_is_tried_again_when_a_task_of_it_has_left_for_a_node_that_takes_nobody() -> None:
    left = evolve(task("a", TaskStatus.RUNNING, "n1"), resreq=CPU)
    cluster = one_node(left, evolve(task("b"), resreq=cores(6)))
    cluster.apply(NodeChanged(evolve(cluster.node("n1"), unschedulable=True)))
    cluster.apply(NodeAdded(NodeInfo(name="n2", allocatable=cores(2))))
    cycle = attached(cluster, "allocate", "gang", "predicates")
    assert not cycle().binds
    assert not cycle().binds
    cluster.apply(TaskGone("a"))
    assert [(bind.task_uid, bind.node_name) for bind in cycle().binds] == [("a", "n2")]


def test_an_attached_scheduler_says_why_it_cannot_be_pickled() -> None:
    cluster = Cluster(Snapshot())
    attached = Scheduler().attach(cluster)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="pickle the cluster, and attach a scheduler"):
            copied(attached)  # type: ignore[operator]


def test_a_job_that_others_wait_for_is_not_left_out_with_them() -> None:
    def one(name: str, *after: Dependency, **place: Any) -> JobInfo:
        request = Resource(milli_cpu=1000)
        task = TaskInfo(uid=name, name=name, resreq=request, **place)
        return JobInfo(name=name, queue="q", tasks=[task], depends_on=after)

    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000))],
        queues=[Queue(name="q")],
        jobs=[
            one("a", status=TaskStatus.RUNNING, node_name="n1"),
            one("b", Dependency(job="default/a", on=JobEvent.STARTED)),
            one("c", Dependency(job="default/b", on=JobEvent.SUCCEEDED)),
        ],
    )
    cluster, using = Cluster(snapshot), Scheduler()
    result = using.attach(cluster).schedule()
    assert set(result.left_out) == {"default/c"}
    assert result == using.schedule(snapshot)
