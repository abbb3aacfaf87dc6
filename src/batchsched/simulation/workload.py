"""Workloads: jobs and machines, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import NamedTuple, cast, final

from attrs import evolve, field, frozen

from batchsched.errors import Fault, SnapshotError, UnknownNameError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue
from batchsched.model.devices import CounterSet, Device
from batchsched.model.immutable import AsTuple, ByName, gone_through, kept_in_order
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted
from batchsched.model.topology import Topology
from batchsched.model.validation.arguments import asked, checks_arguments
from batchsched.model.validation.topology import without_requests
from batchsched.model.validation.values import (
    cycles_of,
    is_collection,
    is_integer,
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    items_of,
    shown,
)
from batchsched.simulation.checks import (
    JobId,
    WorkloadError,
    faults_of_count,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.work import (
    CPU,
    After,
    Checkpoint,
    OrderedTasks,
    Speed,
    faults_of_after,
    faults_of_checkpoint,
    faults_of_speed,
    ordered_tasks,
)


def _faults_of(columns: Mapping[str, Sequence[object]]) -> Iterator[Fault]:
    """Yield everything wrong with the columns of a workload."""
    found = _faults_of_shapes(columns) or list(_faults_of_ids(columns["id"]))
    if found:
        yield from found
        return
    ids = columns["id"]
    infos = columns.get("info", ())
    for name, rule in _NUMBER_COLUMNS.items():
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


def _jobs(given: Iterable[Job]) -> Iterator[Job]:
    """Yield the jobs of an argument."""
    if not is_collection(given):
        raise WorkloadError.at("jobs", f"expected jobs, got {shown(given)}; use a list")
    for number, job in enumerate(gone_through("jobs", given, WorkloadError)):
        if not is_of(job, Job):
            raise WorkloadError.at(f"jobs[{number}]", f"expected a Job, got {shown(job)}")
        yield job


REQUIRED = ("id", "submit", "run", "processors")
OPTIONAL = (
    "requested", "user", "group", "queue", "partition", "application", "status", "after", "labels",
    "info", "priority", "deadline", "speed", "checkpoint",
)  # fmt: skip
"""Columns that are kept only if some job has a value; `think` is kept with `after`."""
COLUMNS = (*REQUIRED, *OPTIONAL, "think")


@final
class Workload:
    """Jobs in order of submission (at equal times by id), and their machine.

    Workloads are immutable: methods that change something return a new workload. The order in which
    jobs are given does not matter.

    >>> workload = Workload(
    ...     [Job(id=2, submit=5, run=60, processors=1), Job(id=1, submit=0, run=30, processors=4)]
    ... )
    >>> workload
    <Workload: 2 jobs, submitted from 0 to 5 s; no machine yet>
    >>> workload.on(nodes=4).ids
    (1, 2)
    """

    __slots__ = ("_columns", "_header", "_machine", "_sizes", "_tasks")

    def __init__(
        self,
        jobs: Iterable[Job] = (),
        *,
        machine: Machine | None = None,
        header: Mapping[str, str] | None = None,
    ) -> None:
        """Check the jobs, and sort them.

        Raises:
            WorkloadError: Invalid jobs: negative or infinite times, fewer than one processor,
                duplicate ids, jobs that depend on each other. All faults at once.
        """
        listed = list(_jobs(jobs))
        columns: dict[str, Sequence[object]] = {
            name: [getattr(job, name) for job in listed] for name in COLUMNS
        }
        self._fill(columns, machine, header)

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, Sequence[object]],
        *,
        machine: Machine | None = None,
        header: Mapping[str, str] | None = None,
    ) -> Workload:
        """Create a workload from columns: equally long sequences, named like the fields of `Job`.

        `id`, `submit`, `run` and `processors` are required.

        Raises:
            WorkloadError: Invalid jobs, or columns that are missing, unknown or of different
                lengths. All faults at once.

        >>> Workload.from_columns(
        ...     {"id": [1, 2], "submit": [0, 5], "run": [30, 60], "processors": [4, 1]}
        ... )
        <Workload: 2 jobs, submitted from 0 to 5 s; no machine yet>
        """
        workload = cls.__new__(cls)
        workload._fill(columns, machine, header)
        return workload

    def _fill(  # the columns and the rest have not been checked
        self,
        columns: Mapping[str, Sequence[object]],
        machine: Machine | None,
        header: Mapping[str, str] | None,
    ) -> None:
        if not is_mapping(columns):
            message = f"expected a mapping of columns such as a dict, got {shown(columns)}"
            raise WorkloadError.at("columns", message)
        try:
            columns = dict(columns)  # type: ignore[arg-type]  # names are checked below
        except Exception as cause:
            raise WorkloadError.at("columns", f"raised {cause!r} when it was read") from cause
        if "info" in columns and "id" in columns and "processors" not in columns:
            columns = {**columns, "processors": (None,) * len(columns["id"])}
        faults = list(_faults_of(columns))
        is_right = machine is None or is_of(machine, Machine)
        faults += faults_unless(is_right, "machine", "a Machine or None", machine)
        kept_header: dict[str, str] = {}
        is_right = header is None or is_mapping(header)
        faults += faults_unless(is_right, "header", "a mapping or None", header)
        for key, text in items_of({} if not is_mapping(header) else header):
            if is_text(key) and is_text(text):
                kept_header[key] = text
            else:
                message = f"expected strings, got {shown(text)} for {shown(key)}"
                faults.append(Fault(f"header[{shown(key)}]", message))
        refuse(WorkloadError, faults)
        if "after" in columns:
            # No condition at all holds from the start.
            after = [None if given == () else given for given in columns["after"]]
            columns = {**columns, "after": after}
        self._machine = machine
        self._header = kept_header
        keys = list(zip(columns["submit"], columns["id"], strict=True))
        in_order = all(one < other for one, other in pairwise(keys))
        order = range(len(keys)) if in_order else sorted(range(len(keys)), key=keys.__getitem__)
        kept = {
            name: column
            for name, column in columns.items()
            if name in REQUIRED or any(value is not None and value != {} for value in column)
        }
        if "after" not in kept:
            kept.pop("think", None)
        self._columns = {
            name: tuple(column) if in_order else tuple(column[i] for i in order)
            for name, column in kept.items()
        }
        self._tasks: tuple[OrderedTasks | None, ...] = ()
        self._sizes = cast("tuple[int, ...]", self._columns["processors"])
        if "info" in kept:
            self._take_over_infos()

    def _take_over_infos(self) -> None:
        """Fill the columns with what jobs tell by their `info`."""
        infos = self._completed_infos()
        known: dict[JobInfo, OrderedTasks] = {}
        for info in infos:
            if info is not None and info not in known:
                known[info] = ordered_tasks(info, len(known))
        self._tasks = tuple(None if info is None else known[info] for info in infos)
        self._sizes = tuple(
            size if tasks is None else tasks.processors
            for size, tasks in zip(self._sizes, self._tasks, strict=True)
        )
        for name in ("queue", "user", "priority", "labels"):
            column = [
                own if own is not None or info is None else getattr(info, name) or None
                for own, info in zip(self._column(name), infos, strict=True)
            ]
            if any(value is not None for value in column):
                self._columns[name] = tuple(column)

    def _completed_infos(self) -> tuple[JobInfo | None, ...]:
        """Return what jobs tell by their `info`, with the user and labels that stand beside it."""
        columns = zip(self.infos, self._column("user"), self._column("labels"), strict=True)
        infos: list[JobInfo | None] = []
        for info, user, labels in columns:
            if info is not None and user is not None and not info.user:
                info = evolve(info, user=str(user))  # noqa: PLW2901 - completed
            if info is not None and labels and not info.labels:
                info = evolve(info, labels=cast("Mapping[str, str]", labels))  # noqa: PLW2901
            infos.append(info)
        self._columns["info"] = tuple(infos)
        return tuple(infos)

    def tasks(self, job: int) -> OrderedTasks | None:
        """Return the tasks of a job by its index; None: it needs processors alone."""
        return self._tasks[job] if self._tasks else None

    def _selected(self, indexes: Sequence[int], **changed: Sequence[object]) -> Workload:
        columns: dict[str, Sequence[object]] = {
            name: [column[i] for i in indexes] for name, column in self._columns.items()
        }
        if "after" in columns:
            known = set(columns["id"])
            columns["after"] = [_known_after(after, known) for after in columns["after"]]
        columns.update(changed)
        return Workload.from_columns(columns, machine=self.machine, header=self.header)

    def _column(self, name: str) -> tuple[object, ...]:
        return self._columns.get(name) or (None,) * len(self)

    @property
    def machine(self) -> Machine | None:
        """The machine that the jobs run on, if known; see `on`."""
        return self._machine

    @property
    def header(self) -> Mapping[str, str]:
        """The header of the file, if the workload was read from one with a header."""
        return dict(self._header)

    # Columns

    @property
    def ids(self) -> tuple[JobId, ...]:
        """The ids, in order of submission."""
        return cast("tuple[JobId, ...]", self._columns["id"])

    @property
    def submits(self) -> tuple[float, ...]:
        """The submission time of each job."""
        return cast("tuple[float, ...]", self._columns["submit"])

    @property
    def runs(self) -> tuple[float, ...]:
        """The run time of each job."""
        return cast("tuple[float, ...]", self._columns["run"])

    @property
    def processors(self) -> tuple[int, ...]:
        """The number of processors that each job needs; with `info`, the whole cpus of its need."""
        return self._sizes

    @property
    def infos(self) -> tuple[JobInfo | None, ...]:
        """Each job as the scheduler sees it, if it is given so."""
        return cast("tuple[JobInfo | None, ...]", self._column("info"))

    @property
    def requested(self) -> tuple[float | None, ...]:
        """The time limit of each job; None: unknown."""
        return cast("tuple[float | None, ...]", self._column("requested"))

    @property
    def users(self) -> tuple[JobId | None, ...]:
        """The user of each job."""
        return cast("tuple[JobId | None, ...]", self._column("user"))

    @property
    def queues(self) -> tuple[JobId | None, ...]:
        """The queue of each job."""
        return cast("tuple[JobId | None, ...]", self._column("queue"))

    @property
    def after(self) -> tuple[JobId | tuple[After, ...] | None, ...]:
        """The job that must end before each job counts as submitted, if any; or conditions."""
        return cast("tuple[JobId | tuple[After, ...] | None, ...]", self._column("after"))

    @property
    def has_dependencies(self) -> bool:
        """Whether any job depends on another."""
        return self.has_column("after")

    def has_column(self, name: str) -> bool:
        """Return whether any job has a value in a column. O(1)."""
        return name in self._columns

    @property
    def think(self) -> tuple[float, ...]:
        """The think time of each job, from the end of the job that it depends on."""
        thought = self._columns.get("think")
        return cast("tuple[float, ...]", thought) if thought else (0,) * len(self)

    @property
    def labels(self) -> tuple[Mapping[str, str], ...]:
        """The labels of each job."""
        return tuple(
            cast("Mapping[str, str]", labels) if labels is not None else {}
            for labels in self._column("labels")
        )

    def column(self, name: str) -> tuple[object, ...]:
        """Return a column by the name of a field of `Job`.

        Raises:
            UnknownNameError: There is no column of this name.
        """
        if not is_text(name) or name not in COLUMNS:
            raise UnknownNameError(f"expected one of {', '.join(COLUMNS)}; got {shown(name)}")
        return self.think if name == "think" else self._column(name)

    def columns(self) -> dict[str, list[object]]:
        """Return the jobs as columns: those that are known of some job; see `from_columns`."""
        return {name: list(column) for name, column in self._columns.items()}

    def __len__(self) -> int:
        return len(self._columns["id"])

    def __iter__(self) -> Iterator[Job]:
        names = [name for name in self._columns if name != "think"]
        for index, think in enumerate(self.think):
            given = {name: self._columns[name][index] for name in names}
            if given.get("labels", {}) is None:
                del given["labels"]
            yield Job(**given, think=think)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Workload):
            return NotImplemented
        return self._columns == other._columns and self.machine == other.machine

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        jobs = f"{len(self):,} job{'s' if len(self) != 1 else ''}"
        when = ""
        if len(self):
            when = f", submitted from {self.submits[0]:,} to {self.submits[-1]:,} s"
        where = f"on {self.machine}" if self.machine else "no machine yet"
        return f"<Workload: {jobs}{when}; {where}>"

    def to_swf(self) -> Iterator[str]:
        """Yield the lines of a log in the Standard Workload Format; waiting times are unknown.

        Jobs with `info` need the whole cpus of their need. A log has one preceding job: other
        conditions are left out.
        """
        from batchsched.simulation.files import swf_lines  # noqa: PLC0415 - a reader

        return swf_lines(self)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the workload as dicts, lists, strings and numbers only, ready for JSON. O(size).

        Raises:
            SerialisationError: The `restart` of checkpoints is a class of your own.

        >>> workload = Workload([Job(id=1, submit=0, run=60, processors=2)])
        >>> Workload.from_dict(workload.to_dict()) == workload
        True
        """
        from batchsched.simulation.run import WORKLOAD, written_workload  # noqa: PLC0415 - a writer

        return WORKLOAD.to_dict(written_workload(self))

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> Workload:
        """Create a workload from the output of `to_dict`, validated like any other.

        Raises:
            WorkloadError: It cannot be read, was written by a newer version, or is invalid; all
                faults at once.
        """
        from batchsched.simulation.run import WORKLOAD, read_workload  # noqa: PLC0415 - a reader

        return read_workload(WORKLOAD.from_dict(given))

    # Workloads derived from this one

    def on(
        self,
        *,
        nodes: int | Iterable[NodeInfo],
        per_node: int = 1,
        topologies: Iterable[Topology] = (),
        devices: Iterable[Device] = (),
        counter_sets: Iterable[CounterSet] = (),
    ) -> Workload:
        """Return the same jobs on another machine.

        Args:
            nodes: How many equal nodes, or the nodes: jobs of processors are then tasks of one
                cpu each, and nodes are numbered in order of name.
            per_node: The processors of each, if they are equal.
            topologies: How the nodes are grouped, as in a `batchsched.Snapshot`.
            devices: Devices that several of the nodes reach.
            counter_sets: What devices draw on, these and those of nodes.

        Raises:
            WorkloadError: `nodes` or `per_node` is not a whole number, 1 or more; or the nodes,
                or what comes with them, are invalid.
        """
        changed = copy(self)
        if is_collection(nodes):
            changed._machine = Machine.of(
                nodes,  # type: ignore[arg-type]  # which it checks
                topologies=topologies,
                devices=devices,
                counter_sets=counter_sets,
            )
        else:
            changed._machine = Machine(cast("int", nodes), per_node)
        return changed

    @checks_arguments(WorkloadError)
    def where(self, keeps: Callable[[Job], bool]) -> Workload:
        """Return a workload of the jobs for which `keeps` is true.

        Dependencies on jobs that are left out are dropped.

        >>> jobs = [Job(id=n, submit=n, run=n, processors=1) for n in range(4)]
        >>> Workload(jobs).where(lambda job: job.run > 0).ids
        (1, 2, 3)
        """
        asks = asked("keeps", keeps, WorkloadError)
        return self._selected([index for index, job in enumerate(self) if asks(job)])

    @checks_arguments(WorkloadError)
    def between(self, start: float, end: float) -> Workload:
        """Return a workload of the jobs submitted from `start` (included) to `end` (excluded)."""
        return self._selected(
            [index for index, submit in enumerate(self.submits) if start <= submit < end]
        )

    def first(self, count: int) -> Workload:
        """Return a workload of the first `count` jobs, or of all if there are fewer.

        Raises:
            WorkloadError: The count is not a whole number, 0 or more.
        """
        is_right = type(count) is int and count >= 0
        refuse(WorkloadError, faults_unless(is_right, "count", "a whole number, 0 or more", count))
        return self._selected(range(min(count, len(self))))

    def with_load(self, factor: float) -> Workload:
        """Return the same jobs, submitted `factor` times as densely: 1.1 is 10 % more load.

        Times between submissions are divided by the factor; nothing else changes. (This is the
        usual method; note that it shortens days and nights too.)

        Raises:
            WorkloadError: The factor is not a number above 0.
        """
        is_right = is_number(factor, least=0, above=True)
        refuse(WorkloadError, faults_unless(is_right, "factor", "a number above 0", factor))
        first = self.submits[0] if len(self) else 0
        return self._selected(
            range(len(self)), submit=[first + (at - first) / factor for at in self.submits]
        )

    @checks_arguments(WorkloadError)
    def with_requests(self, request: Callable[[Job], float]) -> Workload:
        """Return the same jobs with other time limits.

        Raises:
            WorkloadError: A limit is not a number above 0.
        """
        asks = asked("request", request, WorkloadError)
        return self._selected(range(len(self)), requested=[asks(job) for job in self])

    @property
    def load(self) -> float:
        """The share of the machine that the jobs keep busy while they are submitted.

        The processor seconds of all jobs, divided by the number of processors and by the time from
        the first submission to the last. 0 if that time is 0.

        Raises:
            WorkloadError: The workload has no machine.
        """
        if self.machine is None:
            raise WorkloadError([NO_MACHINE])
        time = self.submits[-1] - self.submits[0] if len(self) else 0
        work = sum(run * size for run, size in zip(self.runs, self.processors, strict=True))
        return work / (self.machine.processors * time) if time else 0.0


def _known_after(after: object, known: Collection[object]) -> object:
    """Return the conditions of a job that name known jobs."""
    if not isinstance(after, tuple):
        return after if after in known else None
    left = tuple(each for each in cast("tuple[After, ...]", after) if each.job in known)
    return left or None


NO_MACHINE = Fault(
    "workload", "expected a workload with a machine, got none; use workload.on(nodes=100)"
)
