"""Flaws of nodes, queues, jobs and tasks, with the expected messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TypeVar, cast

from attrs import evolve, field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.errors import Fault
from batchsched.model.cluster import (
    Dependency,
    JobEvent,
    JobInfo,
    NodeInfo,
    Plan,
    Queue,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.constraints import (
    HostPort,
    NodeAffinity,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from batchsched.model.resources import Resource, ResourceLimit
from batchsched.model.snapshot import Snapshot
from batchsched.testing.drawing.arguments import built
from batchsched.testing.drawing.snapshots import snapshots

__all__ = [
    "EDITS",
    "JOB_FLAWS",
    "NODE_FLAWS",
    "QUEUE_FLAWS",
    "TASK_FLAWS",
    "Flaw",
    "InvalidSnapshot",
    "invalid_snapshots",
]

_A_DURATION = "expected a finite number of seconds, 0 or more"
_ONE = Requirement(key="zone", operator=Operator.IN, values=("z1",))


def _required(requirement: Requirement) -> NodeAffinity:
    return NodeAffinity(required=(NodeSelectorTerm(match_expressions=(requirement,)),))


def _field(requirement: Requirement) -> NodeAffinity:
    return NodeAffinity(required=(NodeSelectorTerm(match_fields=(requirement,)),))


@frozen
class Flaw:
    """Values that make an item invalid, with the path and message of the expected fault."""

    changes: Mapping[str, object]
    below: str
    message: str


_RESOURCE_FLAWS: tuple[tuple[Resource, str, str], ...] = (
    (Resource(milli_cpu=-1), "milli_cpu", "expected 0 or more, got -1"),
    (Resource(memory=inf), "memory", "expected a finite number, got inf"),
    (
        Resource(scalars={"example.com/gpu": -2}),
        "scalars['example.com/gpu']",
        "expected 0 or more, got -2",
    ),
    (
        Resource(scalars={"cpu": 1}),
        "scalars['cpu']",
        "expected the name of a scalar, other than cpu and memory, got 'cpu'",
    ),
)

NODE_FLAWS = (
    *(
        Flaw({"allocatable": resource}, f"allocatable.{below}", message)
        for resource, below, message in _RESOURCE_FLAWS
    ),
    Flaw(
        {"max_tasks": -1},
        "max_tasks",
        "expected a number of tasks (an integer, 0 or more, or None), got -1",
    ),
    Flaw({"taints": (Taint(key="", effect=TaintEffect.NO_SCHEDULE),)}, "taints[0].key", "is empty"),
    Flaw(
        {"labels": {"zone": 1}},
        "labels['zone']",
        "expected strings, got 1 for 'zone'",
    ),
    Flaw({"unschedulable": 1}, "unschedulable", "expected True or False, got 1"),
)

QUEUE_FLAWS = (
    Flaw({"weight": -1}, "weight", "expected a weight (an integer, 0 or more), got -1"),
    Flaw({"weight": 1.5}, "weight", "expected a weight (an integer, 0 or more), got 1.5"),
    Flaw({"priority": "high"}, "priority", "expected a priority (an integer), got 'high'"),
    Flaw({"parent": "nobody"}, "parent", "there is no queue 'nobody' in this snapshot"),
    *(
        Flaw({"guarantee": resource}, f"guarantee.{below}", message)
        for resource, below, message in _RESOURCE_FLAWS
    ),
    Flaw({"usage": Resource(milli_cpu=-1)}, "usage.milli_cpu", "expected 0 or more, got -1"),
    Flaw(
        {"usage_by_user": {"ann": Resource(memory=inf)}},
        "usage_by_user['ann'].memory",
        "expected a finite number, got inf",
    ),
    Flaw(
        {"usage_half_life": 0},
        "usage_half_life",
        "expected a finite number of seconds, more than 0, or None, got 0",
    ),
    Flaw({"limit": ResourceLimit(memory=-1)}, "limit.memory", "expected 0 or more, got -1"),
    Flaw(
        {"guarantee": Resource(milli_cpu=2), "limit": ResourceLimit(milli_cpu=1)},
        "guarantee.milli_cpu",
        "expected at most its limit, 1, got 2",
    ),
    Flaw(
        {"creation_time": inf},
        "creation_time",
        "expected a time (a finite number of seconds), got inf",
    ),
)

_NOT_TEXTS: Mapping[str, object] = {"t": 1}

JOB_FLAWS = (
    Flaw(
        {"min_available": -1},
        "min_available",
        "expected a number of tasks (an integer, 0 or more), got -1",
    ),
    Flaw({"queue": ""}, "queue", "is empty"),
    Flaw({"priority": 0.5}, "priority", "expected a priority (an integer), got 0.5"),
    Flaw(
        {"creation_time": "now"},
        "creation_time",
        "expected a time (a finite number of seconds), got 'now'",
    ),
    Flaw(
        {"labels": {"zone": 1}},
        "labels['zone']",
        "expected strings, got 1 for 'zone'",
    ),
    Flaw({"user": None}, "user", "expected a string, got None"),
    Flaw({"estimate": -1}, "estimate", f"{_A_DURATION}, got -1"),
    Flaw({"max_wait": "1h"}, "max_wait", f"{_A_DURATION}, got '1h'"),
    Flaw({"deadline": inf}, "deadline", "expected a time (a finite number of seconds), got inf"),
    Flaw(
        {"depends_on": ("default/j9",)},
        "depends_on[0]",
        "expected a Dependency, got 'default/j9'",
    ),
    Flaw({"depends_on": (Dependency(job="", on=JobEvent.ENDED),)}, "depends_on[0].job", "is empty"),
    Flaw({"plan": 10}, "plan", "expected a Plan or None, got 10"),
    Flaw(
        {"plan": Plan(start=0, nodes=cast("Mapping[str, str]", _NOT_TEXTS))},
        "plan.nodes['t']",
        "expected strings, got 1 for 't'",
    ),
)

_PENDING: Mapping[str, object] = {
    "status": TaskStatus.PENDING,
    "node_name": None,
}

TASK_FLAWS = (
    *(
        Flaw({**_PENDING, "resreq": resource, "init_resreq": None}, f"resreq.{below}", message)
        for resource, below, message in _RESOURCE_FLAWS
    ),
    Flaw(
        {"resreq": Resource(milli_cpu=2), "init_resreq": Resource(milli_cpu=1), **_PENDING},
        "init_resreq",
        "expected at least resreq, Resource(milli_cpu=2, memory=0), "
        "got Resource(milli_cpu=1, memory=0)",
    ),
    Flaw({"name": ""}, "name", "is empty"),
    Flaw({"priority": "high"}, "priority", "expected a priority (an integer), got 'high'"),
    Flaw({"is_backfill": None}, "is_backfill", "expected True or False, got None"),
    Flaw({"estimate": inf}, "estimate", f"{_A_DURATION}, got inf"),
    Flaw({"attained_service": -5}, "attained_service", f"{_A_DURATION}, got -5"),
    Flaw(
        {"start_time": "noon"},
        "start_time",
        "expected a time (a finite number of seconds), got 'noon'",
    ),
    Flaw(
        {"status": TaskStatus.RUNNING, "node_name": None},
        "node_name",
        "expected a node for a task that is Running, got None",
    ),
    Flaw(
        {"status": TaskStatus.RUNNING, "node_name": "nowhere"},
        "node_name",
        "there is no node 'nowhere' in this snapshot",
    ),
    Flaw(
        {**_PENDING, "node_name": "n1"},
        "node_name",
        "expected None for a task that is Pending, got 'n1'",
    ),
    Flaw(
        {"status": TaskStatus.FAILED, "node_name": "n1"},
        "node_name",
        "expected None for a task that has Failed, got 'n1'",
    ),
    Flaw(
        {"status": TaskStatus.RESERVED, "node_name": None},
        "node_name",
        "expected a node for a task that is Reserved, got None",
    ),
    Flaw(
        {"status": TaskStatus.PIPELINED, "node_name": None},
        "node_name",
        "expected a node for a task that is Pipelined, got None",
    ),
    Flaw(
        {"status": TaskStatus.CONDITIONAL, "node_name": "n1"},
        "status",
        "expected a status outside of sessions, got Conditional; use Pending",
    ),
    Flaw(
        {**_PENDING, "status": "Pending"},
        "status",
        "expected a TaskStatus, got 'Pending'; use TaskStatus.PENDING",
    ),
    Flaw(
        {"host_ports": (HostPort(port=0),)},
        "host_ports[0].port",
        "expected a port (an integer in 1..65535), got 0",
    ),
    Flaw(
        {"host_ports": (HostPort(port=80, protocol="HTTP"),)},
        "host_ports[0].protocol",
        "expected a protocol (TCP, UDP, SCTP), got 'HTTP'",
    ),
    Flaw(
        {"tolerations": (Toleration(value="red"),)},
        "tolerations[0].key",
        "is empty; use operator Exists without a key to tolerate everything",
    ),
    Flaw(
        {"tolerations": (Toleration(key="team", operator=TolerationOperator.EXISTS, value="red"),)},
        "tolerations[0].value",
        "expected no value for operator Exists, got 'red'",
    ),
    Flaw(
        {"node_affinity": _required(evolve(_ONE, values=()))},
        "node_affinity.required[0].match_expressions[0].values",
        "expected at least one value for operator In, got none",
    ),
    Flaw(
        {"node_affinity": _required(evolve(_ONE, operator=Operator.GT, values=("1", "2")))},
        "node_affinity.required[0].match_expressions[0].values",
        "expected one integer for operator Gt, got ('1', '2')",
    ),
    Flaw(
        {"node_affinity": _required(evolve(_ONE, operator=Operator.EXISTS))},
        "node_affinity.required[0].match_expressions[0].values",
        "expected no values for operator Exists, got ('z1',)",
    ),
    Flaw(
        {"node_affinity": _field(_ONE)},
        "node_affinity.required[0].match_fields[0].key",
        "expected metadata.name, the only supported field of nodes, got 'zone'",
    ),
    Flaw(
        {
            "node_affinity": NodeAffinity(
                preferred=(PreferredNodeTerm(weight=101, term=NodeSelectorTerm()),)
            )
        },
        "node_affinity.preferred[0].weight",
        "expected a weight (an integer in 1..100), got 101",
    ),
    Flaw(
        {"pod_affinity": PodAffinity(required=(PodAffinityTerm(topology_key=""),))},
        "pod_affinity.required[0].topology_key",
        "expected a topology key (a node label such as zone), got ''",
    ),
)


ItemT = TypeVar("ItemT")


# One converter for each type, because type checkers do not understand a generic one.


def _nodes(given: Iterable[NodeInfo]) -> tuple[NodeInfo, ...]:
    return tuple(given)


def _jobs(given: Iterable[JobInfo]) -> tuple[JobInfo, ...]:
    return tuple(given)


def _queues(given: Iterable[Queue]) -> tuple[Queue, ...]:
    return tuple(given)


def _tasks(given: Iterable[TaskInfo]) -> tuple[TaskInfo, ...]:
    return tuple(given)


@frozen(kw_only=True)
class InvalidSnapshot:
    """Invalid parts of a snapshot, with the one fault that must be reported.

    >>> from batchsched import Queue, Fault
    >>> fault = Fault("queues['q'].weight", "expected a weight (an integer, 0 or more), got -1")
    >>> InvalidSnapshot(queues=[Queue(name="q", weight=-1)], fault=fault).build()
    Traceback (most recent call last):
    ...
    batchsched.errors.SnapshotError: queues['q'].weight: expected a weight (an integer, 0 or \
more), got -1
    """

    nodes: tuple[NodeInfo, ...] = field(default=(), converter=_nodes)
    jobs: tuple[JobInfo, ...] = field(default=(), converter=_jobs)
    queues: tuple[Queue, ...] = field(default=(), converter=_queues)
    other_tasks: tuple[TaskInfo, ...] = field(default=(), converter=_tasks)
    now: float = 0.0
    fault: Fault
    """The expected fault: path and message."""

    def build(self) -> Snapshot:
        """Make the snapshot.

        Raises:
            SnapshotError: always, with `fault` alone.

        """
        return Snapshot(
            nodes=self.nodes,
            jobs=self.jobs,
            queues=self.queues,
            other_tasks=self.other_tasks,
            now=self.now,
        )


_Edit = Callable[[Snapshot, int], InvalidSnapshot]


def _with(item: ItemT, changes: Mapping[str, object]) -> ItemT:
    # The changes are not typed, because most of them have wrong types on purpose.
    change = cast("Callable[..., ItemT]", evolve)
    return change(item, **changes)


def _changed(items: Sequence[ItemT], position: int, item: ItemT) -> list[ItemT]:
    return [*items[:position], item, *items[position + 1 :]]


def _parts(snapshot: Snapshot, fault: Fault, **changes: Iterable[object]) -> InvalidSnapshot:
    parts: dict[str, object] = {
        "nodes": snapshot.nodes,
        "jobs": snapshot.jobs,
        "queues": snapshot.queues,
        "other_tasks": snapshot.other_tasks,
        "now": snapshot.now,
        "fault": fault,
    }
    return _with(InvalidSnapshot(fault=fault), {**parts, **changes})


def _in_node(flaw: Flaw) -> _Edit:
    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        position = pick % len(snapshot.nodes)
        node = snapshot.nodes[position]
        fault = Fault(f"nodes[{node.name!r}].{flaw.below}", flaw.message)
        nodes = _changed(snapshot.nodes, position, _with(node, flaw.changes))
        return _parts(snapshot, fault, nodes=nodes)

    return edit


def _in_queue(flaw: Flaw) -> _Edit:
    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        position = pick % len(snapshot.queues)
        queue = snapshot.queues[position]
        fault = Fault(f"queues[{queue.name!r}].{flaw.below}", flaw.message)
        queues = _changed(snapshot.queues, position, _with(queue, flaw.changes))
        return _parts(snapshot, fault, queues=queues)

    return edit


def _in_job(flaw: Flaw) -> _Edit:
    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        position = pick % len(snapshot.jobs)
        job = snapshot.jobs[position]
        fault = Fault(f"jobs[{job.uid!r}].{flaw.below}", flaw.message)
        jobs = _changed(snapshot.jobs, position, _with(job, flaw.changes))
        return _parts(snapshot, fault, jobs=jobs)

    return edit


def _in_task(flaw: Flaw) -> _Edit:
    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        position = pick % len(snapshot.jobs)
        job = snapshot.jobs[position]
        which = pick // len(snapshot.jobs) % len(job.tasks)
        task = job.tasks[which]
        fault = Fault(f"jobs[{job.uid!r}].tasks[{task.uid!r}].{flaw.below}", flaw.message)
        tasks = _changed(job.tasks, which, _with(task, flaw.changes))
        jobs = _changed(snapshot.jobs, position, evolve(job, tasks=tasks))
        return _parts(snapshot, fault, jobs=jobs)

    return edit


def _same_node_twice(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
    node = snapshot.nodes[pick % len(snapshot.nodes)]
    fault = Fault(f"nodes[{node.name!r}]", "expected a unique name, got it again")
    return _parts(snapshot, fault, nodes=(*snapshot.nodes, node))


def _same_queue_twice(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
    queue = snapshot.queues[pick % len(snapshot.queues)]
    fault = Fault(f"queues[{queue.name!r}]", "expected a unique name, got it again")
    return _parts(snapshot, fault, queues=(*snapshot.queues, queue))


def _same_job_twice(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
    job = snapshot.jobs[pick % len(snapshot.jobs)]
    fault = Fault(f"jobs[{job.uid!r}]", "expected a unique name, got it again")
    return _parts(snapshot, fault, jobs=(*snapshot.jobs, evolve(job, tasks=())))


def _same_task_twice(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
    job = snapshot.jobs[pick % len(snapshot.jobs)]
    task = job.tasks[0]
    stranger = TaskInfo(uid=task.uid, name="stranger")
    message = f"expected a unique UID, got {task.uid!r}, which is also in jobs[{job.uid!r}]"
    fault = Fault(f"other_tasks[{task.uid!r}].uid", message)
    return _parts(snapshot, fault, other_tasks=(*snapshot.other_tasks, stranger))


def _reserved_without_a_job(snapshot: Snapshot, _pick: int) -> InvalidSnapshot:
    stray = TaskInfo(uid="stray", name="stray", status=TaskStatus.RESERVED, node_name="n1")
    message = (
        "expected another status for a task without a job, which is never placed, got Reserved"
    )
    fault = Fault("other_tasks['stray'].status", message)
    return _parts(snapshot, fault, other_tasks=(*snapshot.other_tasks, stray))


def _no_time(snapshot: Snapshot, _pick: int) -> InvalidSnapshot:
    fault = Fault("now", "expected a time (a finite number of seconds), got inf")
    return evolve(_parts(snapshot, fault), now=inf)


EDITS: tuple[_Edit, ...] = (
    *(_in_queue(flaw) for flaw in QUEUE_FLAWS),
    *(_in_node(flaw) for flaw in NODE_FLAWS),
    *(_in_job(flaw) for flaw in JOB_FLAWS),
    *(_in_task(flaw) for flaw in TASK_FLAWS),
    *(_same_node_twice, _same_queue_twice, _same_job_twice, _same_task_twice),
    *(_reserved_without_a_job, _no_time),
)
"""The edits that make a valid snapshot invalid; one is applied at a time."""


def invalid_snapshots() -> SearchStrategy[InvalidSnapshot]:
    """Draw snapshots with exactly one fault, and the expected message.

    >>> from hypothesis import given, settings
    >>> from batchsched import SnapshotError
    >>> @settings(max_examples=5)
    ... @given(invalid_snapshots())
    ... def the_fault_is_named(invalid):
    ...     try:
    ...         invalid.build()
    ...     except SnapshotError as error:
    ...         assert invalid.fault.path in str(error)
    >>> the_fault_is_named()
    """
    drafts = st.tuples(
        snapshots(max_nodes=2, max_queues=2, max_jobs=2, max_tasks=2),
        st.integers(0, len(EDITS) - 1),
        st.integers(0, 7),
    )
    return built(drafts, lambda draft: EDITS[draft[1]](draft[0], draft[2]))
