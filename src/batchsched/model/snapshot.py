"""The snapshot: the state of a cluster at one time, frozen and validated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from attrs import field, fields, frozen

from batchsched.errors import SnapshotError
from batchsched.model.cluster import Budget, JobInfo, NodeInfo, PastEviction, Queue, TaskInfo
from batchsched.model.devices import (
    CounterSet,
    Device,
    DevicePick,
)
from batchsched.model.immutable import AsTuple, ByName, ByTime, ByUid
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.texts import html_table
from batchsched.model.topology import Topology
from batchsched.model.validation.snapshot import snapshot_faults
from batchsched.model.validation.values import part_named

EVICTIONS_KEPT = 86400.0
"""For how many seconds entries of the ledger of evictions are kept if nothing else is said."""


class _Index:
    """The parts of a snapshot by name or UID."""

    __slots__ = ("jobs", "nodes", "queues", "tasks")

    def __init__(self, snapshot: Snapshot) -> None:
        """Index the parts of a snapshot. O(size)."""
        self.jobs = {job.uid: job for job in snapshot.jobs}
        self.tasks = {task.uid: task for task in snapshot.other_tasks}
        for job in snapshot.jobs:
            self.tasks.update((task.uid, task) for task in job.tasks)
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.queues = {queue.name: queue for queue in snapshot.queues}


class SnapshotParts(TypedDict, total=False):
    """The fields of a `Snapshot`, as they are given to create one."""

    nodes: Iterable[NodeInfo]
    jobs: Iterable[JobInfo]
    queues: Iterable[Queue]
    other_tasks: Iterable[TaskInfo]
    topologies: Iterable[Topology]
    now: float
    devices: Iterable[Device]
    counter_sets: Iterable[CounterSet]
    held: Iterable[DevicePick]
    budgets: Iterable[Budget]
    evictions: Iterable[PastEviction]
    evictions_kept: float


@frozen(kw_only=True, repr=False)
class Snapshot:
    """The state of a cluster at the time `now`, the input of `batchsched.schedule`.

    It is validated as a whole when it is created, O(size). The order in which nodes,
    jobs, tasks, queues and topologies are given does not matter: they are sorted (nodes,
    queues and topologies by name, jobs and tasks by UID), so that two snapshots with the same
    content are equal.

    Amounts must be finite, and their sums must not overflow: the sum of all nodes, and that of
    all tasks, is at most about 1e302 in each dimension.

    A job whose queue is not in the snapshot is not a fault: a cycle leaves it out
    and says why.

    Raises:
        SnapshotError: the content is invalid; it lists every fault with its path.

    >>> from batchsched import Resource
    >>> Snapshot(
    ...     nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=-1))],
    ...     queues=[Queue(name="q", weight=-1)],
    ... )
    Traceback (most recent call last):
    ...
    batchsched.errors.SnapshotError: nodes['n1'].allocatable.milli_cpu: expected 0 or more, got -1
    queues['q'].weight: expected a weight (an integer, 0 or more), got -1

    """

    nodes: tuple[NodeInfo, ...] = field(default=(), converter=ByName[NodeInfo])
    jobs: tuple[JobInfo, ...] = field(default=(), converter=ByUid[JobInfo])
    queues: tuple[Queue, ...] = field(default=(), converter=ByName[Queue])
    other_tasks: tuple[TaskInfo, ...] = field(default=(), converter=ByUid[TaskInfo])
    """Tasks that this scheduler does not manage: they only occupy their nodes."""
    topologies: tuple[Topology, ...] = field(default=(), converter=ByName[Topology])
    """How nodes are grouped, for jobs with a `TopologyRequest`."""
    now: float = 0.0
    """Seconds, on the clock of all creation times."""
    devices: tuple[Device, ...] = field(default=(), converter=AsTuple[Device])
    """Devices that several nodes reach: those that `Device.nodes` accepts."""
    counter_sets: tuple[CounterSet, ...] = field(default=(), converter=AsTuple[CounterSet])
    """What devices draw on, those above and those of nodes."""
    held: tuple[DevicePick, ...] = field(default=(), converter=AsTuple[DevicePick])
    """What is held by no task, on each node that has the device."""
    budgets: tuple[Budget, ...] = field(default=(), converter=ByUid[Budget])
    """How many of some tasks may be down. The plugin ``protection`` reads them."""
    evictions: tuple[PastEviction, ...] = field(default=(), converter=ByTime[PastEviction])
    """The ledger of evictions, the oldest first, which `next_snapshot` and `Cluster` write."""
    evictions_kept: float = EVICTIONS_KEPT
    """For how many seconds entries of the ledger are kept."""
    _index: _Index | None = field(default=None, init=False, eq=False)
    _tables: object = field(default=None, init=False, eq=False)
    """The tables from which `next_snapshot` derives the next snapshot incrementally."""

    def __attrs_post_init__(self) -> None:
        faults = snapshot_faults(**{name: getattr(self, name) for name in _PARTS})
        if faults:
            raise SnapshotError(faults)

    def job(self, uid: str, /) -> JobInfo:
        """Return a job by UID (``namespace/name``). O(1) after the first look-up of anything.

        Raises:
            UnknownNameError: there is no such job.

        >>> Snapshot(jobs=[JobInfo(name="j", queue="q")]).job("default/j").queue
        'q'

        """
        return part_named("job", self._by_name().jobs, uid, of="snapshot")

    def task(self, uid: str, /) -> TaskInfo:
        """Return a task by UID, with or without a job. O(1) after the first look-up of anything.

        Raises:
            UnknownNameError: there is no such task.

        """
        return part_named("task", self._by_name().tasks, uid, of="snapshot")

    def node(self, name: str, /) -> NodeInfo:
        """Return a node by name. O(1) after the first look-up of anything.

        Raises:
            UnknownNameError: there is no such node.

        """
        return part_named("node", self._by_name().nodes, name, of="snapshot")

    def queue(self, name: str, /) -> Queue:
        """Return a queue by name. O(1) after the first look-up of anything.

        Raises:
            UnknownNameError: there is no such queue.

        """
        return part_named("queue", self._by_name().queues, name, of="snapshot")

    def _by_name(self) -> _Index:
        if self._index is None:
            index = _Index(self)
            object.__setattr__(self, "_index", index)
            return index
        return self._index

    def __getstate__(self) -> tuple[object, ...]:
        # Without what can be rebuilt.
        return tuple(getattr(self, name) for name in _PARTS)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, part in zip((*_PARTS, "_index", "_tables"), (*state, None, None), strict=True):
            object.__setattr__(self, name, part)

    def __repr__(self) -> str:
        tasks = sum(len(job.tasks) for job in self.jobs)
        return (
            f"<Snapshot at {self.now}: {len(self.nodes)} nodes, {len(self.queues)} queues, "
            f"{len(self.jobs)} jobs, {tasks} tasks, {len(self.other_tasks)} other tasks>"
        )

    def _repr_html_(self) -> str:
        """Return a table of the jobs, for notebooks."""
        statuses = {job.uid: Counter(task.status.value for task in job.tasks) for job in self.jobs}
        rows = (
            (
                job.uid,
                job.queue,
                job.priority,
                job.min_available,
                ", ".join(f"{n} {name}" for name, n in sorted(statuses[job.uid].items())),
            )
            for job in self.jobs
        )
        header = ("job", "queue", "priority", "min_available", "tasks")
        return html_table(repr(self).strip("<>"), header, rows, count=len(self.jobs))

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the snapshot as dicts, lists, strings and numbers only, ready for JSON. O(size).

        Fields that equal their default are omitted.

        >>> Snapshot(queues=[Queue(name="q", weight=2)]).to_dict()["queues"]
        [{'name': 'q', 'weight': 2}]
        """
        return _FORMAT.to_dict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> Snapshot:
        """Create a snapshot from the output of `to_dict`, validated like any other.

        Raises:
            SnapshotError: it cannot be read, was written by a newer version, or is invalid; all
                faults at once, each with its path.

        >>> Snapshot.from_dict({"format": "batchsched.Snapshot", "version": 1, "now": "noon",
        ...                     "queues": [{"name": "q", "wieght": 2}]})
        Traceback (most recent call last):
        ...
        batchsched.errors.SnapshotError: queues['q'].wieght: unknown field of Queue; did you mean \
'weight'? ...
        now: expected a number, got 'noon'

        """
        return _FORMAT.from_dict(given)

    @classmethod
    def json_schema(cls) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of the output of `to_dict`."""
        return _FORMAT.json_schema()


_PARTS = tuple(each.name for each in fields(Snapshot) if each.init)
_FORMAT = Format(Snapshot, version=1, error=SnapshotError)


OF_DEVICES = ("devices", "counter_sets", "held")
"""The fields that say something of devices besides nodes and tasks."""
_OF_THEIR_OWN = ("nodes", "jobs", "queues", "other_tasks", "now")
BESIDES = tuple(name for name in _PARTS if name not in _OF_THEIR_OWN)
"""The fields besides those that are kept by name, and the time: each is changed as a whole."""


def besides_of(snapshot: Snapshot, names: Iterable[str] = BESIDES) -> dict[str, Any]:
    """Return what a snapshot says besides what is kept by name, and the time, by field."""
    return {name: getattr(snapshot, name) for name in names}


def snapshot_of_sound_parts(
    *,
    nodes: tuple[NodeInfo, ...],
    jobs: tuple[JobInfo, ...],
    queues: tuple[Queue, ...],
    other_tasks: tuple[TaskInfo, ...],
    topologies: tuple[Topology, ...],
    now: float,
    devices: tuple[Device, ...] = (),
    counter_sets: tuple[CounterSet, ...] = (),
    held: tuple[DevicePick, ...] = (),
    budgets: tuple[Budget, ...] = (),
    evictions: tuple[PastEviction, ...] = (),
    evictions_kept: float = EVICTIONS_KEPT,
) -> Snapshot:
    """Return a snapshot of parts that are known to be valid and sorted, without checking. O(1).

    Invalid or unsorted parts would lead to wrong decisions.
    """
    made = Snapshot.__new__(Snapshot)
    made.__setstate__(
        (
            *(nodes, jobs, queues, other_tasks, topologies, now, devices, counter_sets, held),
            *(budgets, evictions, evictions_kept),
        )
    )
    return made


def keep_tables(snapshot: Snapshot, tables: object) -> None:
    """Store tables in a snapshot, for `take_tables`."""
    object.__setattr__(snapshot, "_tables", tables)


def take_tables(snapshot: Snapshot) -> object:
    """Return the tables stored in a snapshot and remove them: only one caller can use them."""
    tables = snapshot._tables  # pyright: ignore[reportPrivateUsage]
    object.__setattr__(snapshot, "_tables", None)
    return tables
