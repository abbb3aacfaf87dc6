"""The function `compare`: the differences between two results, configurations or runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, overload

from attrs import field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError, Fault
from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.immutable import AsMap
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted
from batchsched.model.validation.values import is_of, shown
from batchsched.scheduler import Scheduler
from batchsched.tools.causes import Parting, Side, find_cause
from batchsched.tools.report import (
    Differences,
    Pair,
    Section,
    count_by,
    group_rows,
    side_by_side,
)

if TYPE_CHECKING:
    from batchsched.simulation.run import Run
    from batchsched.tools.run_comparison import RunComparison


@frozen
class Fate:
    """The outcome of a cycle for one task."""

    what: str
    """``starts``, ``evicted``, ``promised``, ``reserved``, ``waits``, or its status."""
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
_EVICTIONS = ("evicted", "spared")
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
    """``starts``, ``no longer starts``, ``stops``, ``evicted``, ``spared``, ``moves``,
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
        yield Section(self.summary, tuple(others) if first else ())
        if self.parting is not None:
            title = "The first decision that differs"
            yield Section(title, tuple(self.parting.lines()))
        # Those that wait for another reason are only counted: nothing else is decided of them.
        told = [change for change in self.changes if change.kind != "reason"]
        if told:
            by_queue = count_by((change.queue, change.kind) for change in told)
            by_job = count_by((change.job, change.kind) for change in told)
            yield Section("By queue", (), ("queue", "tasks", "what"), group_rows(by_queue))
            yield Section("By job", (), ("job", "tasks", "what"), group_rows(by_job))
            yield Section(
                "Tasks",
                (),
                ("task", "before", "after", "why it waits"),
                [(c.name, str(c.before), str(c.after), c.why_it_waits) for c in told],
            )
        rows = [(name, *map(_percent, pair)) for name, pair in self.utilisation.items()]
        rows += [(f"queue {name}", *map(_percent, pair)) for name, pair in self.shares.items()]
        changed = [row for row in rows if row[1] != row[2]]
        if changed:
            yield Section("In use afterwards", (), ("", "before", "after"), changed)

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
        changes=tuple(_changes(snapshot, second, *results)),
        utilisation=side_by_side(used, used_after),
        shares=side_by_side(shares, shares_after),
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
_ENDED = (TaskStatus.SUCCEEDED.value, TaskStatus.FAILED.value)
_ON_A_NODE = (
    "starts",
    *(each.value for each in TaskStatus if each.holds and each is not TaskStatus.RELEASING),
)


def _changes(
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
        return "moves" if _is_on_a_node(before) or before.what == "evicted" else "starts"
    if before.what == after.what:
        return "reason" if before.what == "waits" else "other"
    for word, gained, lost in (
        ("evicted", "evicted", "other"),
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
    for bind in result.binds:
        found[bind.task_uid] = Fate("starts", bind.node_name)
    for eviction in result.evictions:
        found[eviction.task_uid] = Fate("evicted", eviction.node_name)
    for promises, word in (
        (result.pipelined, "promised"),
        (result.conditional, "promised"),
        (result.reserved, "reserved"),
    ):
        for promise in promises:
            found[promise.task_uid] = Fate(word, promise.node_name)
    return found


_Shares = Mapping[str, float]


def _use_of(snapshot: Snapshot, result: CycleResult) -> tuple[_Shares, _Shares]:
    """Return the share of the cluster in use after a cycle by dimension, and by queue. O(tasks)."""
    starts = {bind.task_uid for bind in result.binds}
    gone = {eviction.task_uid for eviction in result.evictions}

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


def _percent(share: float) -> str:
    return f"{share:.1%}"
