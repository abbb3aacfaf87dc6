"""The function `compare`: the differences between two results, configurations or runs."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, overload

from attrs import field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError, Fault
from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.immutable import AsMap
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.result import CycleResult, nodes_of
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted, first_of
from batchsched.model.validation.values import is_of, shown
from batchsched.scheduler import Scheduler
from batchsched.tools.causes import Parting, Side, find_cause
from batchsched.tools.report import Report, Section, as_json

if TYPE_CHECKING:  # the simulator is imported only if runs are compared
    from batchsched.simulation.run import Run

Pair = tuple[float, float]
"""A value before and after."""


class _Change(Protocol):
    @property
    def kind(self) -> str: ...


class Differences(Report):
    """What differs between two things, before and after."""

    __slots__ = ()

    _told: ClassVar[tuple[str, ...]]
    """What it is as data: the names of fields and methods."""

    @abstractmethod
    def _changed(self) -> Sequence[_Change]:
        """Return what has changed, each with its kind."""

    @property
    def is_same(self) -> bool:
        """Whether nothing has changed."""
        return not self._changed()

    def by_queue(self) -> dict[str, dict[str, int]]:
        """Count what has changed, by queue and kind."""
        return self._by("queue")

    def by_reason(self) -> dict[str, dict[str, int]]:
        """Count what has changed, by the reason why it waits or never ends, and kind."""
        return self._by("reason")

    def _by(self, attribute: str) -> dict[str, dict[str, int]]:
        return _count_by(self._changed(), attribute)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the differences as dicts, lists, strings and numbers only, ready for JSON."""
        told = {name: getattr(self, name) for name in self._told}
        return {name: as_json(each() if callable(each) else each) for name, each in told.items()}


def _sections(
    first: Section,
    parting: Parting | None,
    tables: Iterable[Section],
    figures: str,
    rows: Iterable[tuple[str, str, str]],
) -> Iterator[Section]:
    """Yield the sections of a comparison; of its tables those with rows, of `rows` what differs."""
    yield first
    if parting is not None:
        yield Section("The first decision that differs", tuple(parting.lines()))
    yield from (table for table in tables if table.rows)
    changed = [row for row in rows if row[1] != row[2]]
    if changed:
        yield Section(figures, (), ("", "before", "after"), changed)


def _count_by(changes: Iterable[_Change], attribute: str) -> dict[str, dict[str, int]]:
    """Count how often each kind occurs in each group, both sorted by name."""
    groups: dict[str, Counter[str]] = {}
    for each in changes:
        groups.setdefault(getattr(each, attribute), Counter())[each.kind] += 1
    return {name: dict(sorted(groups[name].items())) for name in sorted(groups)}


def _grouped(changes: Iterable[_Change], attribute: str, things: str) -> Section:
    """Return a table with a row for each group: its name, its total, and the counts by kind."""
    rows = [
        (name, sum(counts.values()), ", ".join(f"{n} {kind}" for kind, n in counts.items()))
        for name, counts in _count_by(changes, attribute).items()
    ]
    rows.sort(key=lambda row: (-row[1], row[0]))
    return Section(f"By {attribute}", (), (attribute, things, "what"), rows)


def _side_by_side(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, Pair]:
    """Return the values before and after by name; a missing value is 0."""
    return {name: (before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}}


def _percentages(pairs: Mapping[str, Pair], of: str = "") -> list[tuple[str, str, str]]:
    """Return a row for each share before and after."""
    return [
        (f"{of}{name}" if name else "no queue", f"{one:.1%}", f"{other:.1%}")
        for name, (one, other) in pairs.items()
    ]


# Two cycles


@frozen
class Fate:
    """The outcome of a cycle for one task."""

    what: str
    """``starts``, ``evicted``, ``moved``, ``promised``, ``reserved``, ``waits``, or its status."""
    node: str | None = None
    reason: str = ""
    """Why it waits; empty if it does not."""

    def __str__(self) -> str:
        where = f" on {self.node}" if self.node is not None and self.what != "evicted" else ""
        return f"{self.what}{where}"


_KINDS: Mapping[str, tuple[str, str]] = {
    "starts": ("starts that waits now", "start that wait now"),
    "no longer starts": ("waits that starts now", "wait that start now"),
    "stops": ("waits that runs now", "wait that run now"),
    "promised": ("gets a promise or reservation", "get a promise or reservation"),
    "no longer promised": ("loses a promise or reservation", "lose a promise or reservation"),
    "moves": ("starts on another node", "start on another node"),
    "moved": ("moves to another node", "move to another node"),
    "stays": ("no longer moves", "no longer move"),
    "evicted": ("is evicted", "are evicted"),
    "spared": ("is no longer evicted", "are no longer evicted"),
    "ends": ("ends", "end"),
    "new": ("is new", "are new"),
    "gone": ("is gone", "are gone"),
    "other": ("differs in another way", "differ in another way"),
    "reason": ("waits for another reason", "wait for another reason"),
}
"""The kinds of change, in words for one task and for several."""
_DECIDED = ("starts", "no longer starts", "stops", "promised", "no longer promised", "moves")
_EVICTIONS = ("evicted", "spared", "moved", "stays")
"""The kinds of change that are decisions of the cycle."""


@frozen(kw_only=True)
class TaskChange:
    """A task whose outcome differs, with the outcome before and after."""

    task: str
    name: str
    """The display name of the task."""
    job: str
    queue: str
    kind: str
    """``starts``, ``no longer starts``, ``stops``, ``evicted``, ``spared``, ``moves``, ``moved``,
    ``stays``,
    ``promised``, ``no longer promised``, ``ends``, ``new``, ``gone``, ``reason`` or ``other``."""
    before: Fate
    after: Fate

    @property
    def reason(self) -> str:
        """Why it waits, after or else before; empty if it waits in neither."""
        return self.after.reason or self.before.reason

    @property
    def why_it_waits(self) -> str:
        """The same, and whether that is only why it waits before: ``before: no room``."""
        is_past = self.before.reason and not self.after.reason
        return f"before: {self.before.reason}" if is_past else self.after.reason


@frozen(kw_only=True)
class CycleComparison(Differences):
    """The differences between two results. Prints as text; a notebook shows tables."""

    changes: tuple[TaskChange, ...]
    """All tasks whose outcomes differ, in order of UID."""
    utilisation: Mapping[str, Pair] = field(converter=AsMap[str, Pair])
    """Dimension to the share of the cluster in use, before and after."""
    shares: Mapping[str, Pair] = field(converter=AsMap[str, Pair])
    """Queue to the dominant share of the cluster that it holds, before and after."""
    parting: Parting | None = None
    """The first decision that differs, if two configurations were compared on one snapshot."""
    before: CycleResult
    after: CycleResult

    _told = (
        *("summary", "changes", "by_queue", "by_job", "by_reason"),
        *("utilisation", "shares", "parting"),
    )

    def _changed(self) -> tuple[TaskChange, ...]:
        return self.changes

    def by_job(self) -> dict[str, dict[str, int]]:
        """Count the tasks that differ, by job and kind."""
        return self._by("job")

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the report, the most important first."""
        first = self._told_first()
        kinds = {change.kind for change in self.changes}
        others = [self._count(kind) for kind in _KINDS if kind in kinds and kind not in first]
        # Those that wait for another reason are only counted: nothing else is decided of them.
        told = [change for change in self.changes if change.kind != "reason"]
        head = ("task", "before", "after", "why it waits")
        rows = [(c.name, str(c.before), str(c.after), c.why_it_waits) for c in told]
        yield from _sections(
            Section(self.summary, tuple(others) if first else ()),
            self.parting,
            [
                _grouped(told, "queue", "tasks"),
                _grouped(told, "job", "tasks"),
                Section("Tasks", (), head, rows),
            ],
            "In use afterwards",
            [*_percentages(self.utilisation), *_percentages(self.shares, "queue ")],
        )

    @property
    def summary(self) -> str:
        """What differs, in one line: ``2 tasks of 1 job start that wait now; nothing is evicted``.

        The first result is what happens now.
        """
        first = self._told_first()
        if not first:
            same = "Both make the same decisions"
            return f"{same}; {self._count('reason')}." if self.changes else f"{same}."
        parts = [", ".join(self._count(kind) for kind in first if kind not in _EVICTIONS)]
        parts += [self._count(kind) for kind in first if kind in _EVICTIONS]
        if not self.after.evictions:
            parts.append("nothing is evicted")
        return "; ".join(filter(None, parts))

    def _told_first(self) -> list[str]:
        """Return the kinds of change of the first line: evictions, and at most two others."""
        kinds = {change.kind for change in self.changes}
        found = [kind for kind in _KINDS if kind in kinds]
        decided = [kind for kind in found if kind in _DECIDED]
        evictions = [kind for kind in found if kind in _EVICTIONS]
        if decided or evictions:
            most = [kind for kind in decided if kind != "moves"][:2]
            return [*(most or decided), *evictions]
        return [] if found == ["reason"] else found[:2]

    def _count(self, kind: str) -> str:
        """Return the tasks of a kind of change as a number, in words."""
        changes = [change for change in self.changes if change.kind == kind]
        tasks = counted(len(changes), "task")
        jobs = counted(len({change.job for change in changes}), "job")
        verb = _KINDS[kind][len(changes) != 1]
        if kind == "starts" and any(change.before == _ABSENT for change in changes):
            verb = verb.removesuffix(" that waits now").removesuffix(" that wait now")
        return f"{tasks} of {jobs} {verb}"


@overload
def compare(before: Run, after: Run) -> RunComparison: ...


@overload
def compare(
    before: CycleResult | SchedulerConfig,
    after: CycleResult | SchedulerConfig,
    snapshot: Snapshot,
    *,
    after_snapshot: Snapshot | None = None,
    registry: Registry | None = None,
) -> CycleComparison: ...


def compare(
    before: CycleResult | SchedulerConfig | Run,
    after: CycleResult | SchedulerConfig | Run,
    snapshot: Snapshot | None = None,
    *,
    after_snapshot: Snapshot | None = None,
    registry: Registry | None = None,
) -> CycleComparison | RunComparison:
    """Compare two results or configurations on a snapshot, or two simulation runs.

    Reports the tasks that start, wait, are evicted or move in one but not in the other, by queue,
    job and reason; the resources in use; and, for two configurations, the first decision that
    differs and its cause (see `batchsched.tools.Parting`). O(tasks) for results; for configurations
    two traced cycles and, if they decide differently, at most three more, and a cycle for each
    single difference of the configurations that is tried, at most 40.

    For two runs of `batchsched.simulation.simulate`: the jobs that start, stop or end at other
    times, the metrics and the shares of queues side by side, and the first time at which the runs
    start different jobs. O(jobs).

    Args:
        before: a result, a configuration to run on `snapshot`, or a run.
        after: the one to compare with; a run, if `before` is a run.
        snapshot: the snapshot that the results are for; not for runs.
        after_snapshot: the snapshot of `after`, if it is another one.
        registry: the plugins and actions that configurations may name.

    Raises:
        ConfigError: an argument has the wrong type, or a result belongs to another snapshot.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, TaskInfo
    >>> one = Resource(milli_cpu=1000)
    >>> snapshot = Snapshot(
    ...     nodes=[NodeInfo(name="n1", allocatable=one)],
    ...     queues=[Queue(name="q")],
    ...     jobs=[
    ...         JobInfo(name="old", queue="q", tasks=[TaskInfo(uid="t1", name="t", resreq=one)]),
    ...         JobInfo(name="urgent", queue="q", priority=9, creation_time=5,
    ...                 tasks=[TaskInfo(uid="t2", name="t", resreq=one)]),
    ...     ],
    ... )
    >>> first_come = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["gang", "predicates"]}]})
    >>> comparison = compare(first_come, SchedulerConfig(), snapshot)
    >>> [(change.task, change.kind) for change in comparison.changes]
    [('t1', 'no longer starts'), ('t2', 'starts')]
    >>> comparison.parting.why[1]
    "after: priority puts 'default/urgent' first: -9 before 0"

    """
    given = (("before", before), ("after", after))
    are_right = [is_of(value, CycleResult) or is_of(value, SchedulerConfig) for _, value in given]
    expected, of_runs = "a CycleResult or a SchedulerConfig", False
    if snapshot is None and after_snapshot is None and not all(are_right):
        from batchsched.simulation.run import Run  # noqa: PLC0415

        if isinstance(before, Run) and isinstance(after, Run):
            return _compared_runs(before, after)
        expected = "a CycleResult, a SchedulerConfig or a Run"
        are_runs = [is_of(value, Run) for _, value in given]
        if of_runs := any(are_runs):
            are_right, expected = are_runs, "a Run to compare with the other Run"
    faults = [
        Fault(name, f"expected {expected}, got {shown(value)}")
        for (name, value), is_right in zip(given, are_right, strict=True)
        if not is_right
    ]
    faults += [
        Fault(name, f"expected a Snapshot, got {shown(value)}")
        for name, value in (("snapshot", snapshot), ("after_snapshot", after_snapshot))
        if not of_runs
        and not is_of(value, Snapshot)
        and not (name == "after_snapshot" and value is None)
    ]
    if faults:
        raise ConfigError(faults)
    assert snapshot is not None
    assert isinstance(before, (CycleResult, SchedulerConfig))
    assert isinstance(after, (CycleResult, SchedulerConfig))
    second = snapshot if after_snapshot is None else after_snapshot
    parting: Parting | None = None
    if isinstance(before, SchedulerConfig) and isinstance(after, SchedulerConfig):
        sides = (
            Side("before", before, snapshot, registry),
            Side("after", after, second, registry),
        )
        results = sides[0].result, sides[1].result
        if second is snapshot:
            parting = find_cause(snapshot, *sides, registry)
    else:
        results = (_result_of(before, snapshot, registry), _result_of(after, second, registry))
    (used, shares), (used_after, shares_after) = (
        _use_of(each, result) for each, result in zip((snapshot, second), results, strict=True)
    )
    return CycleComparison(
        changes=tuple(_task_changes(snapshot, second, *results)),
        utilisation=_side_by_side(used, used_after),
        shares=_side_by_side(shares, shares_after),
        parting=parting,
        before=results[0],
        after=results[1],
    )


def _result_of(
    given: CycleResult | SchedulerConfig, snapshot: Snapshot, registry: Registry | None
) -> CycleResult:
    if isinstance(given, SchedulerConfig):
        return Scheduler(given, registry).schedule(snapshot)
    return given


_ABSENT = Fate("is absent")
_ENDED = (TaskStatus.SUCCEEDED.value, TaskStatus.FAILED.value)
_ON_A_NODE = (
    "starts",
    *(each.value for each in TaskStatus if each.holds and each is not TaskStatus.RELEASING),
)


def _task_changes(
    snapshot: Snapshot, second: Snapshot, before: CycleResult, after: CycleResult
) -> Iterator[TaskChange]:
    ones, others = _fates(snapshot, before), _fates(second, after)
    owners = {
        task.uid: (task.display_name, job.uid, job.queue)
        for each in (snapshot, second)
        for job in each.jobs
        for task in job.tasks
    }
    for name, known in (("before", ones), ("after", others)):
        unknown = min(known.keys() - owners.keys(), default=None)
        if unknown is not None:
            message = f"expected a result for this snapshot, got one with unknown task {unknown!r}"
            raise ConfigError.at(name, message)
    for uid in sorted({*ones, *others}):
        one, other = ones.get(uid, _ABSENT), others.get(uid, _ABSENT)
        if one != other and not (_is_on_a_node(one, other) and one.node == other.node):
            name, job, queue = owners[uid]
            yield TaskChange(
                task=uid,
                name=name,
                job=job,
                queue=queue,
                kind=_kind_of_change(one, other),
                before=one,
                after=other,
            )


def _is_on_a_node(*fates: Fate) -> bool:
    return all(each.what in _ON_A_NODE for each in fates)


def _kind_of_change(before: Fate, after: Fate) -> str:
    if after == _ABSENT:
        return "gone"
    if after.what in _ENDED:
        return "ends"
    if _is_on_a_node(after):
        if before == _ABSENT:
            return "starts" if after.what == "starts" else "new"
        if before.what == "evicted" and before.node == after.node:
            return "spared"
        if before.what == "moved" and after.what != "starts":
            return "stays"
        return "moves" if _is_on_a_node(before) or before.what == "evicted" else "starts"
    if before.what == after.what:
        return "reason" if before.what == "waits" else "other"
    for word, gained, lost in (
        ("evicted", "evicted", "other"),
        ("moved", "moved", "other"),
        ("promised", "promised", "no longer promised"),
        ("reserved", "promised", "no longer promised"),
    ):
        if after.what == word:
            return gained
        if before.what == word:
            return lost
    if after.what == "waits" and _is_on_a_node(before):
        return "no longer starts" if before.what == "starts" else "stops"
    return "new" if before == _ABSENT else "other"


# What becomes of tasks, and what is in use


def _fates(snapshot: Snapshot, result: CycleResult) -> dict[str, Fate]:
    """Return the outcome of each task of each job, by UID."""
    found: dict[str, Fate] = {}
    for job in snapshot.jobs:
        for task in job.tasks:
            reason = result.pending.get(task.uid)
            if reason is not None:
                found[task.uid] = Fate("waits", None, reason.text)
            else:
                found[task.uid] = Fate(task.status.value, task.node_name)
    for uid, outcome in result.tasks.items():
        if outcome.status is TaskStatus.ALLOCATED and outcome.node_name is not None:
            # It has a place, and waits for the rest of its job.
            found[uid] = Fate("promised", outcome.node_name)
    for word, decided in (
        ("starts", result.binds),
        ("evicted", result.evictions),
        ("promised", result.promised()),
        ("reserved", result.reserved),
        ("moved", result.moves),
    ):
        found.update((each.task_uid, Fate(word, nodes_of(each)[-1])) for each in decided)
    return found


_Shares = Mapping[str, float]


def _use_of(snapshot: Snapshot, result: CycleResult) -> tuple[_Shares, _Shares]:
    """Return the share of the cluster in use after a cycle by dimension, and by queue. O(tasks)."""
    starts = {bind.task_uid for bind in result.binds}
    gone = {stopped.task_uid for stopped in result.stopped()}

    def holds(task: TaskInfo) -> bool:
        is_held = task.status.holds and task.status is not TaskStatus.RELEASING
        return task.uid not in gone and (task.uid in starts or is_held)

    cluster = sum_resources(node.allocatable for node in snapshot.nodes)
    whole = {name: amount for name, amount in cluster.dimensions() if amount}
    by_queue: dict[str, Resource] = {queue.name: Resource() for queue in snapshot.queues}
    for job in snapshot.jobs:
        held = sum_resources(task.resreq for task in job.tasks if holds(task))
        by_queue[job.queue] = by_queue.get(job.queue, Resource()) + held
    others = sum_resources(task.resreq for task in snapshot.other_tasks if holds(task))
    used = sum_resources([others, *by_queue.values()])
    return {name: used.get(name) / amount for name, amount in whole.items()}, {
        queue: max((held.get(name) / amount for name, amount in whole.items()), default=0.0)
        for queue, held in sorted(by_queue.items())
    }


# Two runs


_KINDS_OF_RUNS = {
    "starts": ("starts that never starts before", "start that never start before"),
    "no longer starts": ("no longer starts", "no longer start"),
    "earlier": ("starts earlier", "start earlier"),
    "later": ("starts later", "start later"),
    "stopped more often": ("is stopped more often", "are stopped more often"),
    "stopped less often": ("is stopped less often", "are stopped less often"),
    "ends earlier": ("starts as before and ends earlier", "start as before and end earlier"),
    "ends later": ("starts as before and ends later", "start as before and end later"),
    "other": ("differs in another way", "differ in another way"),
}
"""The kinds of change, in words for one job and for several."""

_SHOWN_FIGURES = (
    *("wait", "wait_median", "wait_p99", "wait_max", "response", "bsld"),
    *("utilisation", "makespan", "jain_user", "jain_queue", "preemptions", "unfinished"),
)
_SHOWN_JOBS = 5


@frozen(kw_only=True)
class JobChange:
    """A job whose outcome differs, with the outcome before and after. Times are in seconds."""

    job: int | str
    queue: str
    """Empty if it names none."""
    user: str
    """Empty if it names none."""
    kind: str
    """``starts``, ``no longer starts``, ``earlier``, ``later``, ``stopped more often``,
    ``stopped less often``, ``ends earlier``, ``ends later`` or ``other``."""
    start: tuple[float | None, float | None]
    """Its first start, before and after; None: it never starts, or the run does not have it."""
    end: tuple[float | None, float | None]
    stops: tuple[int, int]
    """How often it is stopped and started again, before and after."""
    reason: str
    """Why it never starts or ends, after or else before; empty if it does in both."""


@frozen(kw_only=True)
class RunComparison(Differences):
    """The differences between two runs. Prints as text; a notebook shows tables."""

    changes: tuple[JobChange, ...]
    """All jobs whose outcomes differ, in order of submission."""
    jobs: int
    """The number of jobs in either run."""
    figures: Mapping[str, Pair] = field(converter=AsMap[str, Pair])
    """The metrics of `Run.metrics` by name, before and after."""
    shares: Mapping[str, Pair] = field(converter=AsMap[str, Pair])
    """Queue to the share of the machine that its jobs held, from the first submission to the last
    end."""
    parting: Parting | None
    """The first time at which the two runs start different jobs."""
    before: Run
    after: Run

    _told = (
        *("summary", "jobs", "changes", "by_queue", "by_user", "by_reason"),
        *("figures", "shares", "parting"),
    )

    def _changed(self) -> tuple[JobChange, ...]:
        return self.changes

    def by_user(self) -> dict[str, dict[str, int]]:
        """Count the jobs that differ, by user and kind."""
        return self._by("user")

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the report, the most important first."""
        largest = sorted(self.changes, key=lambda change: -abs(_delay(change)))
        head = ("job", "queue", "what", "start before", "start after", "delay")
        most = [
            (str(c.job), c.queue, c.kind, c.start[0], c.start[1], _delay(c) or None)
            for c in largest[: 2 * _SHOWN_JOBS]
        ]
        rows = [
            (name, f"{pair[0]:,.4g}", f"{pair[1]:,.4g}")
            for name in _SHOWN_FIGURES
            if (pair := self.figures.get(name)) is not None
        ]
        has_names = any(each.queue for each in self.changes)
        yield from _sections(
            Section(self.summary),
            self.parting,
            [
                _grouped(self.changes if has_names else (), "queue", "jobs"),
                Section("Jobs that differ most", (), head, most),
            ],
            "Metrics that differ",
            [*rows, *(_percentages(self.shares, "queue ") if any(self.shares) else ())],
        )

    @property
    def summary(self) -> str:
        """What differs, in one line: ``2 of 9 jobs start earlier, 1 starts later``."""
        counts = Counter(change.kind for change in self.changes)
        if not counts:
            return "All jobs start and end at the same times."
        parts = [
            f"{counts[kind]} {words[counts[kind] != 1]}"
            for kind, words in _KINDS_OF_RUNS.items()
            if counts[kind]
        ]
        number, _, rest = parts[0].partition(" ")
        return ", ".join([f"{number} of {counted(self.jobs, 'job')} {rest}", *parts[1:]])


def _delay(change: JobChange) -> float:
    """Return how much later the job starts, or ends if it starts at the same time."""
    for one, other in (change.start, change.end):
        if one is not None and other is not None and one != other:
            return other - one
    return 0.0


def _compared_runs(before: Run, after: Run) -> RunComparison:
    """Compare two runs. Jobs with the same id are the same job. O(jobs)."""
    changes = tuple(_job_changes(before, after))
    figures = before.metrics(), after.metrics()
    return RunComparison(
        changes=changes,
        jobs=len({*before.workload.ids, *after.workload.ids}),
        figures={
            name: (figures[0][name], figures[1][name]) for name in figures[0] if name in figures[1]
        },
        shares=dict(sorted(_side_by_side(_shares(before), _shares(after)).items())),
        parting=_parting(before, after, changes),
        before=before,
        after=after,
    )


class _Course(NamedTuple):
    """What became of a job."""

    start: float | None = None
    end: float | None = None
    stops: int = 0
    """How often it is stopped in between."""
    queue: str = ""
    user: str = ""
    why: str = ""
    """Why it never started or never ended."""


def _courses(run: Run) -> dict[int | str, _Course]:
    def name(given: object) -> str:
        return "" if given is None else str(given)

    jobs, outcome = run.workload, run.outcome
    return {
        job: _Course(
            outcome.starts[at],
            outcome.ends[at],
            0 if outcome.preemptions is None else outcome.preemptions[at],
            name(jobs.queues[at]),
            name(jobs.users[at]),
            outcome.unfinished.get(at, ""),
        )
        for at, job in enumerate(jobs.ids)
    }


def _job_changes(before: Run, after: Run) -> Iterator[JobChange]:
    ones, others = _courses(before), _courses(after)
    for job in {**ones, **others}:
        one, other = ones.get(job, _Course()), others.get(job, _Course())
        if one[:3] != other[:3]:
            known = ones.get(job, other)
            yield JobChange(
                job=job,
                queue=known.queue,
                user=known.user,
                kind=_kind(one, other),
                start=(one.start, other.start),
                end=(one.end, other.end),
                stops=(one.stops, other.stops),
                reason=other.why or one.why,
            )


def _kind(before: _Course, after: _Course) -> str:
    if before.start is None or after.start is None:
        if before.start == after.start:
            return "other"
        return "starts" if before.start is None else "no longer starts"
    if before.start != after.start:
        return "earlier" if after.start < before.start else "later"
    if before.stops != after.stops:
        return f"stopped {'more' if after.stops > before.stops else 'less'} often"
    if before.end is None or after.end is None:
        return "other"
    return "ends earlier" if after.end < before.end else "ends later"


def _shares(run: Run) -> dict[str, float]:
    """Return the share of the machine that the jobs of each queue held."""
    submits = run.workload.submits
    until = max((end for *_, end in run.intervals), default=0.0)
    whole = run.machine.processors * (until - min(submits, default=0.0))
    held: dict[str, float] = {}
    for queue, time, size in zip(
        run.workload.queues, run.held, run.workload.processors, strict=True
    ):
        name = "" if queue is None else str(queue)
        held[name] = held.get(name, 0.0) + time * size
    return {name: held[name] / whole if whole else 0.0 for name in sorted(held)}


def _parting(before: Run, after: Run, changes: tuple[JobChange, ...]) -> Parting | None:
    """Find the first time at which only one of the runs starts a job; None if there is none."""
    from batchsched.simulation.record import state_at  # noqa: PLC0415

    starts = (change.start for change in changes if change.start[0] != change.start[1])
    moment = min((time for pair in starts for time in pair if time is not None), default=None)
    if moment is None:
        return None
    here, there = (_started_at(run, moment) for run in (before, after))
    states = [state_at(run, moment, run.starts_by_id()) for run in (before, after)]
    why = [f"{before.policy} decides before, {after.policy} after"]
    if str(before.policy) == str(after.policy):
        why = ["the two runs differ in their jobs, their settings or their machine"]
    if states[0] == states[1]:
        why.append(f"just before, both have {states[0]}")
    else:
        why += [f"just before, before: {states[0]}", f"just before, after: {states[1]}"]
    for run, mine, others in ((before, here, there), (after, there, here)):
        waits = [job for job in others if job not in mine and job in run.workload.ids]
        if waits:
            word = "before" if run is before else "after"
            why.append(f"{word}: {run.why(waits[0]).splitlines()[0]}")
    return Parting(_describe(moment, here), _describe(moment, there), tuple(why))


def _started_at(run: Run, moment: float) -> list[int | str]:
    return [job for job, start in run.starts_by_id().items() if start == moment]


def _describe(moment: float, jobs: list[int | str]) -> str:
    if not jobs:
        return f"starts no job at {moment:,} s"
    return f"starts {first_of(jobs, _SHOWN_JOBS)} at {moment:,} s"
