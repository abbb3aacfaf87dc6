"""Workloads: jobs in order of submission, on a machine; and how they are written down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import Final, cast, final

from attrs import evolve, field, fields_dict, frozen

from batchsched.errors import Fault, UnknownNameError
from batchsched.model.cluster import JobInfo, NodeInfo
from batchsched.model.devices import CounterSet, Device
from batchsched.model.immutable import EMPTY
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.topology import Topology
from batchsched.model.validation.arguments import asked, checks_arguments
from batchsched.model.validation.values import (
    is_collection,
    is_mapping,
    is_of,
    is_text,
    items_of,
    shown,
)
from batchsched.simulation.checks import (
    JobId,
    WorkloadError,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.jobs import (
    COLUMNS,
    NO_MACHINE,
    REQUIRED,
    Job,
    Machine,
    faults_of_columns,
    jobs_of,
)
from batchsched.simulation.work import (
    After,
    Checkpoint,
    OrderedTasks,
    Speed,
    ordered_tasks,
)


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
        listed = list(jobs_of(jobs))
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
        faults = list(faults_of_columns(columns))
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
        return swf_lines(self)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the workload as dicts, lists, strings and numbers only, ready for JSON. O(size).

        Raises:
            SerialisationError: The `restart` of checkpoints is a class of your own.

        >>> workload = Workload([Job(id=1, submit=0, run=60, processors=2)])
        >>> Workload.from_dict(workload.to_dict()) == workload
        True
        """
        return _FORMAT.to_dict(written_workload(self))

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> Workload:
        """Create a workload from the output of `to_dict`, validated like any other.

        Raises:
            WorkloadError: It cannot be read, was written by a newer version, or is invalid; all
                faults at once.
        """
        return read_workload(_FORMAT.from_dict(given))

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


_Names = tuple[int | str | None, ...]
_Numbers = tuple[float | None, ...]


@frozen(kw_only=True)
class WrittenWorkload:
    """The columns of a workload; `info` has numbers of the jobs in `infos`."""

    id: tuple[int | str, ...]
    submit: tuple[float, ...]
    run: tuple[float, ...]
    processors: tuple[int | None, ...]
    requested: _Numbers | None = None
    user: _Names | None = None
    group: _Names | None = None
    queue: _Names | None = None
    partition: _Names | None = None
    application: _Names | None = None
    status: tuple[int | None, ...] | None = None
    after: tuple[int | str | tuple[After, ...] | None, ...] | None = None
    think: _Numbers | None = None
    labels: tuple[Mapping[str, str] | None, ...] | None = None
    info: tuple[int | None, ...] | None = None
    priority: tuple[int | None, ...] | None = None
    deadline: _Numbers | None = None
    speed: tuple[Speed | None, ...] | None = None
    checkpoint: tuple[Checkpoint | None, ...] | None = None
    infos: tuple[JobInfo, ...] = ()
    machine: Machine | None = None
    header: Mapping[str, str] = field(factory=dict[str, str])


_FORMAT: Final = Format(WrittenWorkload, name="Workload", version=1, error=WorkloadError)


def written_workload(workload: Workload) -> WrittenWorkload:
    """Return the columns of a workload as they are written."""
    columns: dict[str, object] = {
        name: tuple(column) for name, column in workload.columns().items()
    }
    infos = dict.fromkeys(info for info in workload.infos if info is not None)
    if infos:
        number = {info: place for place, info in enumerate(infos)}
        columns["info"] = tuple(None if one is None else number[one] for one in workload.infos)
    columns |= {"infos": tuple(infos), "machine": workload.machine, "header": workload.header}
    return WrittenWorkload(**columns)  # type: ignore[arg-type]


def read_workload(written: WrittenWorkload) -> Workload:
    """Return the workload of columns as they are written."""
    columns: dict[str, Sequence[object]] = {}
    for name in fields_dict(WrittenWorkload):
        column = getattr(written, name)
        if column is not None and name not in ("infos", "machine", "header"):
            columns[name] = column
    if written.info is not None:
        known = range(len(written.infos))
        columns["info"] = [
            None if one is None else written.infos[one] if one in known else one
            for one in written.info
        ]
    return Workload.from_columns(columns, machine=written.machine, header=written.header)


CANCELLED = 5
"""The status of jobs that never ended."""


def swf_lines(
    workload: Workload,
    *,
    header: Mapping[str, object] = EMPTY,
    waits: Sequence[float | None] | None = None,
    runs: Sequence[float | None] | None = None,
) -> Iterator[str]:
    """Yield the lines of a log of jobs in the Standard Workload Format.

    Args:
        workload: the jobs.
        header: what stands in the header besides what is known of the workload.
        waits: how long each job waited, in seconds; None: unknown of all.
        runs: how long each job ran, None if it never ended; None: as in the workload.

    """
    count, machine = len(workload), workload.machine
    lines: dict[str, object] = {"Version": "2.2", "MaxJobs": count, "MaxRecords": count}
    if machine is not None:
        lines |= {"MaxNodes": machine.nodes, "MaxProcs": machine.processors}
    yield from (f"; {label}: {value}" for label, value in (lines | dict(header)).items())
    named = any(isinstance(each, str) for each in workload.ids)
    numbers = {each: place if named else each for place, each in enumerate(workload.ids, 1)}
    columns = [
        workload.column(name)
        for name in ("status", "user", "group", "application", "queue", "partition")
    ]
    after, think = workload.after, workload.think
    for index, each in enumerate(workload.ids):
        wait = None if waits is None else waits[index]
        run = workload.runs[index] if runs is None else runs[index]
        status, *others = (
            value if isinstance(value, int) else None
            for value in (column[index] for column in columns)
        )
        size = workload.processors[index]
        preceding = after[index]
        if isinstance(preceding, tuple):
            preceding = preceding[0].job if len(preceding) == 1 else None
        values: list[object] = [
            numbers[each],
            workload.submits[index],
            wait,
            run,
            None if run is None else size,
            *(None, None),  # processor time and memory used
            size,
            workload.requested[index],
            None,  # memory requested
            CANCELLED if run is None else status,
            *others,
        ]
        values += [None, None] if preceding is None else [numbers[preceding], think[index]]
        yield " ".join(map(_text, values))


def _text(value: object) -> str:
    """Return a value of a line as text.

    >>> _text(None), _text(60.0), _text(0.5)
    ('-1', '60', '0.5')
    """
    if value is None:
        return "-1"
    return str(exact_number(value) if isinstance(value, float) else value)


def exact_number(value: float) -> float:
    """Return a number as an int if it is whole.

    >>> exact_number(60.0), exact_number(0.5)
    (60, 0.5)
    """
    return int(value) if value == int(value) else value
