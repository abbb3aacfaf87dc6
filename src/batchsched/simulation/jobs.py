"""Jobs and machines of a workload, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from attrs import evolve, field, frozen

from batchsched.errors import Fault, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue
from batchsched.model.devices import CounterSet, Device
from batchsched.model.immutable import AsTuple, ByName, gone_through, kept_in_order
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted
from batchsched.model.topology import Topology
from batchsched.model.validation.tasks import without_requests
from batchsched.model.validation.values import (
    cycles_of,
    is_collection,
    is_integer,
    is_of,
    is_text,
    is_tuple,
    shown,
)
from batchsched.simulation.checks import (
    JobId,
    WorkloadError,
    faults_of_count,
    is_number,
    refuse,
)
from batchsched.simulation.work import (
    CPU,
    After,
    Checkpoint,
    Speed,
    faults_of_after,
    faults_of_checkpoint,
    faults_of_speed,
    ordered_tasks,
)

REQUIRED = ("id", "submit", "run", "processors")
OPTIONAL = (
    "requested", "user", "group", "queue", "partition", "application", "status", "after", "labels",
    "info", "priority", "deadline", "speed", "checkpoint",
)  # fmt: skip
"""Columns that are kept only if some job has a value; `think` is kept with `after`."""
COLUMNS = (*REQUIRED, *OPTIONAL, "think")


def faults_of_columns(columns: Mapping[str, Sequence[object]]) -> Iterator[Fault]:
    """Yield everything wrong with the columns of a workload."""
    found = _faults_of_shapes(columns) or list(_faults_of_ids(columns["id"]))
    if found:
        yield from found
        return
    ids = columns["id"]
    infos = columns.get("info", ())
    for name, rule in _NUMBER_COLUMNS.items():
        if rule.allows_all(columns.get(name, ())):
            continue
        for index, value in enumerate(columns.get(name, ())):
            if name == "processors" and infos and infos[index] is not None:
                continue
            if not rule.allows(value):
                where = f"jobs[{ids[index]!r}].{name}"
                yield Fault(where, f"expected {rule.what}, got {shown(value)}")
    for name, faults_of in (("speed", faults_of_speed), ("checkpoint", faults_of_checkpoint)):
        for each, value in zip(ids, columns.get(name, ()), strict=False):
            if value is not None:
                yield from faults_of(f"jobs[{each!r}].{name}", value)
    if infos:
        yield from _faults_of_infos(columns)
    if "after" in columns:
        yield from _faults_of_dependencies(ids, columns["after"])


def _faults_of_shapes(columns: Mapping[str, Sequence[object]]) -> list[Fault]:
    """Return what is wrong with the names and types of columns, or else with their lengths."""
    found = [
        Fault(name, "expected a column of this name, got none")
        for name in REQUIRED
        if name not in columns
    ]
    for name in columns:
        if not is_text(name) or name not in COLUMNS:
            where = name if is_text(name) else f"columns[{shown(name)}]"
            found.append(Fault(where, f"unknown column; expected one of {', '.join(COLUMNS)}"))
    for name, column in columns.items():
        if not (is_of(column, list) or is_of(column, tuple) or is_of(column, range)):
            found.append(Fault(name, f"expected a column such as a list, got {shown(column)}"))
    lengths = {} if found else {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        message = f"expected columns of equal length, got the lengths {lengths}"
        found.append(Fault("columns", message))
    return found


def _faults_of_infos(columns: Mapping[str, Sequence[object]]) -> Iterator[Fault]:
    """Yield what is wrong with jobs as the scheduler sees them, and with what is told twice."""
    known = dict[JobInfo, None]()
    for index, (each, info) in enumerate(zip(columns["id"], columns["info"], strict=True)):
        where = f"jobs[{each!r}].info"
        if info is None:
            continue
        if not is_of(info, JobInfo):
            yield Fault(where, f"expected a JobInfo or None, got {shown(info)}")
            continue
        try:
            is_new = info not in known
        except TypeError:  # what cannot be hashed is no valid part of a job
            is_new = True
        if is_new:
            try:
                # What it asks of topologies is asked of the machine, before a simulation.
                Snapshot(jobs=[without_requests(info)], queues=[Queue(name=info.queue)])
            except SnapshotError as error:
                yield Fault(where, "; ".join(map(str, error.faults)))
                continue
            known[info] = None
        for name in ("depends_on", "plan"):
            if getattr(info, name):
                message = "expected none: use after, and let the scheduler plan"
                yield Fault(f"{where}.{name}", message)
        if not info.tasks or ordered_tasks(info).need > len(info.tasks):
            yield Fault(f"{where}.tasks", "expected as many tasks as the job needs")
        if columns["processors"][index] is not None:
            message = "expected None, as info tells what the job needs"
            yield Fault(f"jobs[{each!r}].processors", message)
        for name in ("queue", "user", "priority", "labels"):
            own = columns[name][index] if name in columns else None
            theirs = getattr(info, name)
            same = str(own) == theirs if name in ("queue", "user") else own == theirs
            is_open = name in ("user", "labels") and not theirs  # it says none
            if own is not None and own != {} and not (same or is_open):
                message = f"expected that of info, {shown(theirs)}, or none, got {shown(own)}"
                yield Fault(f"jobs[{each!r}].{name}", message)


LATEST = 10**15
"""The latest time in seconds, and the most processors: sums of many of these are exact enough."""


class _Number(NamedTuple):
    """The range of values that a column may have."""

    what: str
    least: float
    above: bool = False
    whole: bool = False
    known: bool = False

    def allows(self, value: object) -> bool:
        if value is None or (self.whole and type(value) is not int):
            return value is None and not self.known
        return is_number(value, least=self.least, above=self.above, most=LATEST)

    def allows_all(self, column: Sequence[object]) -> bool:
        """Return whether all values are whole numbers, as in most columns, and allowed.

        O(values), without a call for each.
        """
        if set(map(type, column)) != {int}:
            return False
        numbers = cast("Sequence[int]", column)
        return self.allows(min(numbers)) and self.allows(max(numbers))


_NUMBER_COLUMNS = {
    "submit": _Number("a time in seconds, 0 or later", 0, known=True),
    "run": _Number("a time in seconds, 0 or more", 0, known=True),
    "processors": _Number("a whole number, 1 or more", 1, whole=True, known=True),
    "requested": _Number("a time in seconds above 0, or None", 0, above=True),
    "think": _Number("a time in seconds, 0 or more", 0),
    "deadline": _Number("a time in seconds, or None", -LATEST),
    "priority": _Number("a whole number", -LATEST, whole=True),
}


def _faults_of_ids(ids: Sequence[object]) -> Iterator[Fault]:
    types = {type(each) for each in ids}
    if not (types <= {int} or types <= {str}):
        names = ", ".join(sorted(each.__name__ for each in types))
        yield Fault("id", f"expected ids that are all whole numbers or all text, got {names}")
        return
    if len(set(ids)) < len(ids):
        seen = set[object]()
        for each in ids:
            if each in seen:
                yield Fault(f"jobs[{each!r}]", "expected unique ids, got this one more than once")
            seen.add(each)


def _faults_of_dependencies(ids: Sequence[object], after: Sequence[object]) -> Iterator[Fault]:
    known = set(ids)
    before: dict[object, list[object]] = {}
    for each, given in zip(ids, after, strict=True):
        if given is None:
            continue
        where = f"jobs[{each!r}].after"
        named: dict[str, object] = {where: given}
        if is_tuple(given):
            named = {}
            for place, one in enumerate(given):
                yield from faults_of_after(f"{where}[{place}]", one)
                if is_of(one, After):
                    named[f"{where}[{place}].job"] = one.job
        for path, other in named.items():
            if is_text(other) or is_integer(other):
                before.setdefault(each, []).append(other)
                if other in known:
                    continue
            message = f"expected the id of a job in this workload, got {shown(other)}"
            yield Fault(path, message)
    # Ids of a workload are of one type, so that they have an order, as names have.
    for cycle in cycles_of(cast("Mapping[str, list[str]]", before)):
        around = " after ".join(map(repr, (*cycle, cycle[0])))
        yield Fault(f"jobs[{cycle[0]!r}].after", f"jobs depend on each other: {around}")


@frozen
class Machine:
    """Equal nodes with the same number of processors each, or nodes as a scheduler sees them.

    In traces of GPU jobs, processors are GPUs.

    >>> Machine(nodes=32, per_node=8).processors
    256
    """

    nodes: int
    """The number of nodes, 1 or more."""
    per_node: int = 1
    """The number of processors of each node, 1 or more; with `infos`, of the largest."""
    infos: tuple[NodeInfo, ...] = field(default=(), converter=ByName[NodeInfo])
    """The nodes in order of name, if they are more than processors; see `Machine.of`."""
    topologies: tuple[Topology, ...] = field(default=(), converter=ByName[Topology], kw_only=True)
    """How the nodes are grouped; see `batchsched.Snapshot`, as for the next two."""
    devices: tuple[Device, ...] = field(default=(), converter=AsTuple[Device], kw_only=True)
    """Devices that several nodes reach."""
    counter_sets: tuple[CounterSet, ...] = field(
        default=(), converter=AsTuple[CounterSet], kw_only=True
    )

    def __attrs_post_init__(self) -> None:
        least = 0 if type(self.infos) is tuple and self.infos else 1
        faults = list(faults_of_count("nodes", self.nodes, 1))
        faults += faults_of_count("per_node", self.per_node, least)
        try:
            Snapshot(
                nodes=self.infos,
                topologies=self.topologies,
                devices=self.devices,
                counter_sets=self.counter_sets,
            )
        except SnapshotError as error:
            faults += error.faults
        refuse(WorkloadError, faults)

    @classmethod
    def of(
        cls,
        nodes: Iterable[NodeInfo],
        *,
        topologies: Iterable[Topology] = (),
        devices: Iterable[Device] = (),
        counter_sets: Iterable[CounterSet] = (),
    ) -> Machine:
        """Return the machine of these nodes, and of what a snapshot has besides them.

        Raises:
            WorkloadError: The nodes are invalid, or there are none. All faults at once.
        """
        infos = kept_in_order(nodes, lambda node: node.name, "infos")
        if type(infos) is not tuple or not infos:
            raise WorkloadError.at("nodes", f"expected nodes, got {shown(nodes)}")
        made = cls(
            1, infos=infos, topologies=topologies, devices=devices, counter_sets=counter_sets
        )  # refuses what cannot be
        most = max(int(node.allocatable.milli_cpu // CPU) for node in infos)
        return evolve(made, nodes=len(infos), per_node=most)

    @property
    def processors(self) -> int:
        """The number of processors of all nodes together: their whole cpus."""
        if not self.infos:
            return self.nodes * self.per_node
        return sum(int(node.allocatable.milli_cpu // CPU) for node in self.infos)

    @property
    def is_equal(self) -> bool:
        """Whether all nodes have the same resources."""
        return len({node.allocatable for node in self.infos}) <= 1

    def __str__(self) -> str:
        if self.infos and not self.is_equal:
            return f"{self.nodes:,} nodes with {counted(self.processors, 'processor')}"
        if self.per_node == 1:
            return counted(self.nodes, "processor")
        return f"{counted(self.nodes, 'node')} of {counted(self.per_node, 'processor')}"


@frozen(kw_only=True)
class Job:
    """A job of a workload: what it requests, and how long it runs.

    All times are in seconds, on the clock of the workload.
    """

    id: JobId
    """A number or a name; all jobs of a workload have numbers, or all have names."""
    submit: float
    """When it is submitted, 0 or later."""
    run: float
    """Its run time, 0 or more. Policies do not see it."""
    processors: int | None = None
    """The number of processors that it needs, all at once, from start to end; 1 or more. None:
    `info` says what it needs."""
    info: JobInfo | None = None
    """The job as the scheduler sees it. Names and UIDs are those of the simulator: `id`, and
    `id-0`, `id-1` ... for the tasks in order; its estimate is the requested time."""
    requested: float | None = None
    """The time limit that its user requested, more than 0; None: unknown."""
    priority: int | None = None
    """Its priority, for policies that read it."""
    deadline: float | None = None
    """When it should have ended."""
    user: JobId | None = None
    group: JobId | None = None
    queue: JobId | None = None
    partition: JobId | None = None
    application: JobId | None = None
    status: int | None = None
    """Its status in the log: 1 completed, 0 failed, 5 cancelled, or another number of the log."""
    after: JobId | tuple[After, ...] | None = None
    """The id of the job that must end before this one counts as submitted, or conditions that
    must all hold."""
    think: float = 0
    """The think time: from the end of that job to the submission of this one."""
    speed: Speed | None = None
    """How fast it works. None: a second of work in a second."""
    checkpoint: Checkpoint | None = None
    """When it saves its work. None: as the simulation says."""
    labels: Mapping[str, str] = field(factory=dict[str, str])
    """Other known properties, such as the model that a job trains."""


def jobs_of(given: Iterable[Job]) -> Iterator[Job]:
    """Yield the jobs of an argument."""
    if not is_collection(given):
        raise WorkloadError.at("jobs", f"expected jobs, got {shown(given)}; use a list")
    for number, job in enumerate(gone_through("jobs", given, WorkloadError)):
        if not is_of(job, Job):
            raise WorkloadError.at(f"jobs[{number}]", f"expected a Job, got {shown(job)}")
        yield job


NO_MACHINE = Fault(
    "workload", "expected a workload with a machine, got none; use workload.on(nodes=100)"
)
