"""The function `compare`: the differences between two results, configurations or runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, overload

from attrs import field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError, Fault
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_of, shown
from batchsched.scheduler import Scheduler
from batchsched.session.trace_events import TraceEvent
from batchsched.tools.grouping import count_by, group_rows, pairs_by_name, plain_counts, plain_pairs
from batchsched.tools.parting import Parting, find_parting
from batchsched.tools.report import Report, Section
from batchsched.tools.use import Fate, fates, use_of

if TYPE_CHECKING:
    from batchsched.simulation.run import Run
    from batchsched.tools.run_comparison import RunComparison

__all__ = ["Comparison", "TaskChange", "compare"]

_KINDS = {
    "starts": "start only after",
    "no longer starts": "start only before",
    "evicted": "are evicted only after",
    "spared": "are evicted only before",
    "moves": "start on another node",
    "promised": "have a promise or reservation only after",
    "no longer promised": "had a promise or reservation only before",
    "reason": "wait for another reason",
    "other": "differ in another way",
}
"""The kinds of change, with their descriptions in the plural."""


@frozen(kw_only=True)
class TaskChange:
    """A task whose outcome differs, with the outcome before and after."""

    task: str
    name: str
    """The display name of the task."""
    job: str
    queue: str
    kind: str
    """``starts``, ``no longer starts``, ``evicted``, ``spared``, ``moves``, ``promised``,
    ``no longer promised``, ``reason`` or ``other``."""
    before: Fate
    after: Fate

    @property
    def reason(self) -> str:
        """Why it waits, after or else before; empty if it waits in neither."""
        return self.after.reason or self.before.reason


@frozen(kw_only=True)
class Comparison(Report):
    """The differences between two results. Prints as text; a notebook shows tables."""

    changes: tuple[TaskChange, ...]
    """All tasks whose outcomes differ, in order of UID."""
    utilisation: Mapping[str, tuple[float, float]] = field(converter=pairs_by_name)
    """Dimension to the share of the cluster in use, before and after."""
    shares: Mapping[str, tuple[float, float]] = field(converter=pairs_by_name)
    """Queue to the dominant share of the cluster that it holds, before and after."""
    parting: Parting | None = None
    """The first decision that differs, if two configurations were compared on one snapshot."""
    before: CycleResult
    after: CycleResult

    @property
    def is_same(self) -> bool:
        """Whether all tasks have the same outcome."""
        return not self.changes

    def by_queue(self) -> dict[str, dict[str, int]]:
        """Count the tasks that differ, by queue and kind."""
        return count_by((change.queue, change.kind) for change in self.changes)

    def by_job(self) -> dict[str, dict[str, int]]:
        """Count the tasks that differ, by job and kind."""
        return count_by((change.job, change.kind) for change in self.changes)

    def by_reason(self) -> dict[str, dict[str, int]]:
        """Count the tasks that differ, by the reason why they wait and kind."""
        return count_by((change.reason, change.kind) for change in self.changes)

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the report, the most important first."""
        counts = Counter(change.kind for change in self.changes)
        if not counts:
            yield Section("Both make the same decisions.")
        else:
            lines = [f"{counts[kind]} task(s) {_KINDS[kind]}" for kind in _KINDS if counts[kind]]
            yield Section("What differs", tuple(lines))
        if self.parting is not None and counts:
            lines = [f"before: {self.parting.before}", f"after:  {self.parting.after}"]
            lines += [f"because {why}" for why in self.parting.why]
            yield Section("The first decision that differs", tuple(lines))
        if self.changes:
            yield Section("By queue", (), ("queue", "tasks", "what"), group_rows(self.by_queue()))
            yield Section("By job", (), ("job", "tasks", "what"), group_rows(self.by_job()))
            yield Section(
                "Tasks",
                (),
                ("task", "before", "after", "reason"),
                [(c.name, str(c.before), str(c.after), c.reason) for c in self.changes],
            )
        yield Section(
            "In use afterwards",
            (),
            ("", "before", "after"),
            [
                (name, f"{one:.1%}", f"{other:.1%}")
                for name, (one, other) in self.utilisation.items()
            ]
            + [
                (f"queue {name}", f"{one:.1%}", f"{other:.1%}")
                for name, (one, other) in self.shares.items()
            ],
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the comparison as dicts, lists, strings and numbers only, ready for JSON."""
        return {
            "changes": [
                {
                    "task": change.task,
                    "name": change.name,
                    "job": change.job,
                    "queue": change.queue,
                    "kind": change.kind,
                    "before": _fate(change.before),
                    "after": _fate(change.after),
                }
                for change in self.changes
            ],
            "by_queue": plain_counts(self.by_queue()),
            "by_job": plain_counts(self.by_job()),
            "by_reason": plain_counts(self.by_reason()),
            "utilisation": plain_pairs(self.utilisation),
            "shares": plain_pairs(self.shares),
            "parting": None if self.parting is None else self.parting.to_dict(),
        }


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
) -> Comparison: ...


def compare(
    before: CycleResult | SchedulerConfig | Run,
    after: CycleResult | SchedulerConfig | Run,
    snapshot: Snapshot | None = None,
    *,
    after_snapshot: Snapshot | None = None,
    registry: Registry | None = None,
) -> Comparison | RunComparison:
    """Compare two results or configurations on a snapshot, or two simulation runs.

    Reports the tasks that start, wait, are evicted or move in one but not in the other, by queue,
    job and reason; the resources in use; and, for two configurations, the first decision that
    differs and its cause. O(tasks) for results; for configurations four traced cycles.

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
    if snapshot is None and after_snapshot is None and not all(map(_is_of_a_cycle, given)):
        return _compared_runs(given)
    faults = [
        Fault(name, f"expected a CycleResult or a SchedulerConfig, got {shown(value)}")
        for name, value in given
        if not is_of(value, CycleResult) and not is_of(value, SchedulerConfig)
    ]
    faults += [
        Fault(name, f"expected a Snapshot, got {shown(value)}")
        for name, value in (("snapshot", snapshot), ("after_snapshot", after_snapshot))
        if not is_of(value, Snapshot) and not (name == "after_snapshot" and value is None)
    ]
    if faults:
        raise ConfigError(faults)
    assert snapshot is not None
    assert isinstance(before, (CycleResult, SchedulerConfig))
    assert isinstance(after, (CycleResult, SchedulerConfig))
    second = snapshot if after_snapshot is None else after_snapshot
    parting: Parting | None = None
    if isinstance(before, SchedulerConfig) and isinstance(after, SchedulerConfig):
        schedulers = Scheduler(before, registry), Scheduler(after, registry)
        traces: tuple[list[TraceEvent], list[TraceEvent]] = ([], [])
        results = (
            schedulers[0].schedule_traced(snapshot, traces[0].append),
            schedulers[1].schedule_traced(second, traces[1].append),
        )
        if second is snapshot:
            parting = find_parting(snapshot, *schedulers, traces)
    else:
        results = (
            _result_of(before, snapshot, registry),
            _result_of(after, second, registry),
        )
    uses = use_of(snapshot, results[0]), use_of(second, results[1])
    return Comparison(
        changes=tuple(_changes(snapshot, second, *results)),
        utilisation=_side_by_side(*(use.of_dimension for use in uses)),
        shares=_side_by_side(*(use.of_queue for use in uses)),
        parting=parting,
        before=results[0],
        after=results[1],
    )


def _is_of_a_cycle(given: tuple[str, object]) -> bool:
    return isinstance(given[1], (CycleResult, SchedulerConfig))


def _compared_runs(given: tuple[tuple[str, object], tuple[str, object]]) -> RunComparison:
    # Import the simulator only if runs are compared.
    from batchsched.simulation.run import Run  # noqa: PLC0415
    from batchsched.tools.run_comparison import compare_runs  # noqa: PLC0415

    (_, before), (_, after) = given
    if isinstance(before, Run) and isinstance(after, Run):
        return compare_runs(before, after)
    faults = [
        Fault(name, f"expected a CycleResult, a SchedulerConfig or a Run, got {shown(value)}")
        for name, value in given
        if not isinstance(value, (Run, CycleResult, SchedulerConfig))
    ]
    if isinstance(before, Run) or isinstance(after, Run):
        faults += [
            Fault(name, f"expected a Run to compare with the other Run, got {shown(value)}")
            for name, value in given
            if isinstance(value, (CycleResult, SchedulerConfig))
        ]
    else:
        faults.append(Fault("snapshot", "expected a Snapshot, got None"))
    raise ConfigError(faults)


def _result_of(
    given: CycleResult | SchedulerConfig, snapshot: Snapshot, registry: Registry | None
) -> CycleResult:
    if isinstance(given, SchedulerConfig):
        return Scheduler(given, registry).schedule(snapshot)
    return given


_ABSENT = Fate("is absent")


def _changes(
    snapshot: Snapshot, second: Snapshot, before: CycleResult, after: CycleResult
) -> Iterator[TaskChange]:
    ones, others = fates(snapshot, before), fates(second, after)
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
            raise ConfigError([Fault(name, message)])
    for uid in sorted({*ones, *others}):
        one, other = ones.get(uid, _ABSENT), others.get(uid, _ABSENT)
        if one != other:
            name, job, queue = owners[uid]
            yield TaskChange(
                task=uid,
                name=name,
                job=job,
                queue=queue,
                kind=_kind(one, other),
                before=one,
                after=other,
            )


def _kind(before: Fate, after: Fate) -> str:
    if before.what == after.what:
        if before.what == "starts":
            return "moves"
        return "reason" if before.what == "waits" else "other"
    for word, gained, lost in (
        ("starts", "starts", "no longer starts"),
        ("evicted", "evicted", "spared"),
        ("promised", "promised", "no longer promised"),
        ("reserved", "promised", "no longer promised"),
    ):
        if after.what == word:
            return gained
        if before.what == word:
            return lost
    return "other"


def _side_by_side(
    before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    return {name: (before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}}


def _fate(fate: Fate) -> dict[str, JsonValue]:
    return {"what": fate.what, "node": fate.node, "reason": fate.reason}
