"""Draws snapshots that must be refused, each with the one fault that must be reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from tests.support.known import WITHOUT_NEWER

ItemT = TypeVar("ItemT")


def _with(item: ItemT, changes: Mapping[str, object]) -> ItemT:
    # The changes are not typed, because most of them have wrong types on purpose.
    change = cast("Callable[..., ItemT]", evolve)
    return change(item, **changes)


@frozen
class Flaw:
    """Values that make an item invalid, with the path and message of the expected fault."""

    changes: Mapping[str, object]
    below: str
    message: str


def _wrong(name: str, value: object, expected: str) -> Flaw:
    """Return the flaw of a field whose own value is wrong."""
    return Flaw({name: value}, name, f"expected {expected}, got {value!r}")


def _wrong_amounts(name: str, **also: object) -> Iterator[Flaw]:
    """Yield the flaws that resources may have."""
    for resource, below, message in (
        (Resource(milli_cpu=-1), "milli_cpu", "expected 0 or more, got -1"),
        (Resource(memory=inf), "memory", "expected a finite number, got inf"),
        (Resource(scalars={"gpu": -2}), "scalars['gpu']", "expected 0 or more, got -2"),
        (
            Resource(scalars={"cpu": 1}),
            "scalars['cpu']",
            "expected the name of a scalar, other than cpu and memory, got 'cpu'",
        ),
    ):
        yield Flaw({**also, name: resource}, f"{name}.{below}", message)


_DURATION = "a finite number of seconds, 0 or more"
_TIME = "a time (a finite number of seconds)"
_PRIORITY = "a priority (an integer)"
_WEIGHT = "a weight (an integer, 0 or more)"
_NO_TEXT = Flaw({"labels": {"zone": 1}}, "labels['zone']", "expected strings, got 1 for 'zone'")

NODE_FLAWS = (
    *_wrong_amounts("allocatable"),
    _wrong("max_tasks", -1, "a number of tasks (an integer, 0 or more, or None)"),
    Flaw({"taints": (Taint(key="", effect=TaintEffect.NO_SCHEDULE),)}, "taints[0].key", "is empty"),
    _NO_TEXT,
    _wrong("unschedulable", 1, "True or False"),
)

QUEUE_FLAWS = (
    _wrong("weight", -1, _WEIGHT),
    _wrong("weight", 1.5, _WEIGHT),
    _wrong("priority", "high", _PRIORITY),
    Flaw({"parent": "nobody"}, "parent", "there is no queue 'nobody' in this snapshot"),
    *_wrong_amounts("guarantee"),
    Flaw({"usage": Resource(milli_cpu=-1)}, "usage.milli_cpu", "expected 0 or more, got -1"),
    Flaw(
        {"usage_by_user": {"ann": Resource(memory=inf)}},
        "usage_by_user['ann'].memory",
        "expected a finite number, got inf",
    ),
    _wrong("usage_half_life", 0, "a finite number of seconds, more than 0, or None"),
    Flaw({"limit": ResourceLimit(memory=-1)}, "limit.memory", "expected 0 or more, got -1"),
    Flaw(
        {"guarantee": Resource(milli_cpu=2), "limit": ResourceLimit(milli_cpu=1)},
        "guarantee.milli_cpu",
        "expected at most its limit, 1, got 2",
    ),
    _wrong("creation_time", inf, _TIME),
)

_NOT_TEXTS: Mapping[str, object] = {"t": 1}

JOB_FLAWS = (
    _wrong("min_available", -1, "a number of tasks (an integer, 0 or more)"),
    Flaw({"queue": ""}, "queue", "is empty"),
    _wrong("priority", 0.5, _PRIORITY),
    _wrong("creation_time", "now", _TIME),
    _NO_TEXT,
    _wrong("user", None, "a string"),
    _wrong("estimate", -1, _DURATION),
    _wrong("max_wait", "1h", _DURATION),
    _wrong("deadline", inf, _TIME),
    Flaw({"depends_on": ("j9",)}, "depends_on[0]", "expected a Dependency, got 'j9'"),
    Flaw({"depends_on": (Dependency(job="", on=JobEvent.ENDED),)}, "depends_on[0].job", "is empty"),
    _wrong("plan", 10, "a Plan or None"),
    Flaw(
        {"plan": Plan(start=0, nodes=cast("Mapping[str, str]", _NOT_TEXTS))},
        "plan.nodes['t']",
        "expected strings, got 1 for 't'",
    ),
)

_PENDING: Mapping[str, object] = {"status": TaskStatus.PENDING, "node_name": None}


def _stands(status: TaskStatus, node_name: str | None, message: str) -> Flaw:
    """Return the flaw of a task that cannot be there in this status."""
    return Flaw({"status": status, "node_name": node_name}, "node_name", message)


def _affine(field_of_term: str, requirement: Requirement, below: str, message: str) -> Flaw:
    """Return a flaw of a requirement of node affinity."""
    term = _with(NodeSelectorTerm(), {field_of_term: (requirement,)})
    path = f"node_affinity.required[0].{field_of_term}[0].{below}"
    return Flaw({"node_affinity": NodeAffinity(required=(term,))}, path, message)


_TOO_WEIGHTY = PreferredNodeTerm(weight=101, term=NodeSelectorTerm())

TASK_FLAWS = (
    *_wrong_amounts("resreq", **_PENDING, init_resreq=None),
    Flaw(
        {"resreq": Resource(milli_cpu=2), "init_resreq": Resource(milli_cpu=1), **_PENDING},
        "init_resreq",
        "expected at least resreq, Resource(milli_cpu=2, memory=0), "
        "got Resource(milli_cpu=1, memory=0)",
    ),
    Flaw({"name": ""}, "name", "is empty"),
    _wrong("priority", "high", _PRIORITY),
    _wrong("is_backfill", None, "True or False"),
    _wrong("estimate", inf, _DURATION),
    _wrong("attained_service", -5, _DURATION),
    _wrong("start_time", "noon", _TIME),
    *(
        _stands(status, None, f"expected a node for a task that is {status.value}, got None")
        for status in (TaskStatus.RUNNING, TaskStatus.RESERVED, TaskStatus.PIPELINED)
    ),
    _stands(TaskStatus.RUNNING, "nowhere", "there is no node 'nowhere' in this snapshot"),
    _stands(TaskStatus.PENDING, "n1", "expected None for a task that is Pending, got 'n1'"),
    _stands(TaskStatus.FAILED, "n1", "expected None for a task that has Failed, got 'n1'"),
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
    *(
        _affine("match_expressions", Requirement(key="zone", operator=how, values=values), *said)
        for how, values, said in (
            (Operator.IN, (), ("values", "expected at least one value for operator In, got none")),
            (
                Operator.GT,
                ("1", "2"),
                ("values", "expected one integer for operator Gt, got ('1', '2')"),
            ),
            (
                Operator.EXISTS,
                ("z1",),
                ("values", "expected no values for operator Exists, got ('z1',)"),
            ),
        )
    ),
    _affine(
        "match_fields",
        Requirement(key="zone", operator=Operator.IN, values=("z1",)),
        "key",
        "expected metadata.name, the only supported field of nodes, got 'zone'",
    ),
    Flaw(
        {"node_affinity": NodeAffinity(preferred=(_TOO_WEIGHTY,))},
        "node_affinity.preferred[0].weight",
        "expected a weight (an integer in 1..100), got 101",
    ),
    Flaw(
        {"pod_affinity": PodAffinity(required=(PodAffinityTerm(topology_key=""),))},
        "pod_affinity.required[0].topology_key",
        "expected a topology key (a node label such as zone), got ''",
    ),
)


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


def _in(part: str, flaw: Flaw) -> _Edit:
    """Return an edit of one of the nodes, queues or jobs."""

    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        items: list[NodeInfo | Queue | JobInfo] = [*getattr(snapshot, part)]
        position = pick % len(items)
        fault = Fault(f"{part}[{_name(items[position])!r}].{flaw.below}", flaw.message)
        items[position] = _with(items[position], flaw.changes)
        return _parts(snapshot, fault, **{part: items})

    return edit


def _name(item: NodeInfo | Queue | JobInfo) -> str:
    return item.uid if isinstance(item, JobInfo) else item.name


def _in_task(flaw: Flaw) -> _Edit:
    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        jobs = list(snapshot.jobs)
        job = jobs[pick % len(jobs)]
        tasks = list(job.tasks)
        which = pick // len(jobs) % len(tasks)
        path = f"jobs[{job.uid!r}].tasks[{tasks[which].uid!r}].{flaw.below}"
        tasks[which] = _with(tasks[which], flaw.changes)
        jobs[pick % len(jobs)] = evolve(job, tasks=tasks)
        return _parts(snapshot, Fault(path, flaw.message), jobs=jobs)

    return edit


def _twice(part: str) -> _Edit:
    """Return an edit that gives one of the nodes, queues or jobs twice."""

    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        items: list[NodeInfo | Queue | JobInfo] = [*getattr(snapshot, part)]
        again = items[pick % len(items)]
        fault = Fault(f"{part}[{_name(again)!r}]", "expected a unique name, got it again")
        again = evolve(again, tasks=()) if isinstance(again, JobInfo) else again
        return _parts(snapshot, fault, **{part: [*items, again]})

    return edit


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
    *(_in("queues", flaw) for flaw in QUEUE_FLAWS),
    *(_in("nodes", flaw) for flaw in NODE_FLAWS),
    *(_in("jobs", flaw) for flaw in JOB_FLAWS),
    *(_in_task(flaw) for flaw in TASK_FLAWS),
    *(_twice("nodes"), _twice("queues"), _twice("jobs"), _same_task_twice),
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
        snapshots(max_nodes=2, max_queues=2, max_jobs=2, max_tasks=2, **WITHOUT_NEWER),
        st.integers(0, len(EDITS) - 1),
        st.integers(0, 7),
    )
    return built(drafts, lambda draft: EDITS[draft[1]](draft[0], draft[2]))
