"""The function `compare`: the differences between two results, configurations or runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from attrs import field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError, Fault
from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_of, shown
from batchsched.scheduler import Scheduler
from batchsched.tools.report import (
    Report,
    Section,
    as_dict,
    as_json,
    count_by,
    group_rows,
    pairs_by_name,
    side_by_side,
)
from batchsched.trace import (
    JobTaken,
    NodeSought,
    QueuePassedOver,
    QueueTaken,
    StatementEnded,
    TraceEvent,
    VerdictsGiven,
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
            "changes": as_json(self.changes),
            "by_queue": as_json(self.by_queue()),
            "by_job": as_json(self.by_job()),
            "by_reason": as_json(self.by_reason()),
            "utilisation": as_json(self.utilisation),
            "shares": as_json(self.shares),
            "parting": as_json(self.parting),
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
            parting = _find_parting(snapshot, *schedulers, traces)
    else:
        results = (_result_of(before, snapshot, registry), _result_of(after, second, registry))
    uses = _use_of(snapshot, results[0]), _use_of(second, results[1])
    return Comparison(
        changes=tuple(_changes(snapshot, second, *results)),
        utilisation=side_by_side(*(use.of_dimension for use in uses)),
        shares=side_by_side(*(use.of_queue for use in uses)),
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
        if one != other:
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


def _kind_of_change(before: Fate, after: Fate) -> str:
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


@frozen
class Use:
    """The use of a cluster, as shares of the whole."""

    of_dimension: dict[str, float]
    """Dimension to the share in use of what all nodes have."""
    of_queue: dict[str, float]
    """Queue to the dominant share that its tasks hold."""


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


def _use_of(snapshot: Snapshot, result: CycleResult | None) -> Use:
    """Return the use after a cycle; without a result, the use before it. O(tasks)."""
    starts = set[str]() if result is None else {bind.task_uid for bind in result.binds}
    gone = set[str]() if result is None else {e.task_uid for e in result.evictions}

    def holds(task: TaskInfo) -> bool:
        if task.uid in starts:
            return True
        return task.status.holds and task.status is not TaskStatus.RELEASING

    total = sum_resources(node.allocatable for node in snapshot.nodes)
    by_queue: dict[str, Resource] = {queue.name: Resource() for queue in snapshot.queues}
    for job in snapshot.jobs:
        held = sum_resources(t.resreq for t in job.tasks if t.uid not in gone and holds(t))
        by_queue[job.queue] = by_queue.get(job.queue, Resource()) + held
    others = sum_resources(task.resreq for task in snapshot.other_tasks if holds(task))
    used = sum_resources([others, *by_queue.values()])
    return Use(
        {name: _share(used.get(name), amount) for name, amount in total.dimensions() if amount},
        {
            name: max((_share(held.get(d), a) for d, a in total.dimensions() if a), default=0.0)
            for name, held in sorted(by_queue.items())
        },
    )


def _share(amount: float, total: float) -> float:
    return amount / total if total else 0.0


# The first decision that differs


@frozen
class Parting:
    """The first decision that differs, and its cause."""

    before: str
    """The decision under the first configuration, as text."""
    after: str
    """The decision under the second configuration, as text."""
    why: tuple[str, ...]
    """The plugin's key, score or verdict, or the action, that made the difference, as text."""
    plugins: tuple[str, ...] = ()
    """The names of the plugins that made the difference, if any did."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as dicts, lists and strings only, ready for JSON."""
        return as_dict(self)


def _find_parting(
    snapshot: Snapshot,
    before: Scheduler,
    after: Scheduler,
    traces: tuple[Sequence[TraceEvent], Sequence[TraceEvent]],
) -> Parting | None:
    """Find the first decision in which two traces differ; None if they are equal."""
    first, second = (_choices(trace) for trace in traces)
    for (at, one), (other_at, other) in zip(first, second, strict=False):
        if _what(one) != _what(other):
            return _parting(snapshot, before, after, (one, at), (other, other_at), traces)
    if len(first) == len(second):
        return None
    is_shorter = len(first) < len(second)
    longer = second if is_shorter else first
    _, more = longer[min(len(first), len(second))]
    ended, went_on = "no further decision", _describe(more)
    return Parting(
        ended if is_shorter else went_on,
        went_on if is_shorter else ended,
        (f"only one of the two runs action {more.action!r} here",),
    )


def _choices(trace: Sequence[TraceEvent]) -> list[tuple[int, TraceEvent]]:
    return [
        (position, event)
        for position, event in enumerate(trace)
        if not isinstance(event, VerdictsGiven)
    ]


def _what(event: TraceEvent) -> tuple[object, ...]:
    """Return the decision of an event, without the keys and scores behind it."""
    match event:
        case QueueTaken() | QueuePassedOver():
            return type(event), event.action, event.queue
        case JobTaken():
            return type(event), event.action, event.job
        case NodeSought():
            return type(event), event.action, event.task, event.fit, event.node
        case StatementEnded():
            return type(event), event.action, event.committed, event.steps
        case VerdictsGiven():
            return type(event), event.action, event.plugin, event.claimant, *event.verdicts.items()


def _describe(event: TraceEvent) -> str:
    match event:
        case QueueTaken():
            return f"{event.action} takes queue {event.queue!r}"
        case QueuePassedOver():
            return f"{event.action} skips queue {event.queue!r}, which is overused"
        case JobTaken():
            return f"{event.action} takes job {event.job!r}"
        case NodeSought():
            chosen = "no node" if event.node is None else f"node {event.node!r}"
            return f"{event.action} finds {chosen} for task {event.task!r} (fit: {event.fit})"
        case StatementEnded():
            steps = ", ".join(
                f"{step.task} {'off' if step.status == 'Releasing' else 'to'} {step.node}"
                for step in event.steps[:3]
            )
            more = f" and {len(event.steps) - 3} more" if len(event.steps) > 3 else ""  # noqa: PLR2004
            word = "commits" if event.committed else "discards"
            return f"{event.action} {word} {steps or 'nothing'}{more}: {event.why}"
        case VerdictsGiven():
            return f"{event.plugin} judges the victims of {event.claimant!r}"


def _parting(
    snapshot: Snapshot,
    before: Scheduler,
    after: Scheduler,
    one: tuple[TraceEvent, int],
    other: tuple[TraceEvent, int],
    traces: tuple[Sequence[TraceEvent], Sequence[TraceEvent]],
) -> Parting:
    (left, left_at), (right, right_at) = one, other
    said = _describe(left), _describe(right)
    if left.action != right.action:
        reason = f"action {left.action!r} runs here before, action {right.action!r} after"
        return Parting(*said, (reason,))
    why: list[str] = []
    plugins: dict[str, None] = {}
    for word, scheduler, event, at, rival in (
        ("before", before, left, left_at, right),
        ("after", after, right, right_at, left),
    ):
        detailed = _event_at(snapshot, scheduler, at)
        found = _reason(detailed, rival)
        if found is not None and type(event) is type(rival):
            plugin, text = found
            plugins[plugin] = None
            why.append(f"{word}: {text}")
    if not why:
        verdicts = _verdicts_before(traces[0], left_at), _verdicts_before(traces[1], right_at)
        for plugin, changed in _changed_verdicts(*verdicts).items():
            plugins[plugin] = None
            why.append(f"verdict of {plugin} on {changed}")
    if not why:
        why = ["the clusters already differ at this point; see the tasks that run"]
    return Parting(*said, tuple(why), tuple(plugins))


def _event_at(snapshot: Snapshot, scheduler: Scheduler, position: int) -> TraceEvent:
    events: list[TraceEvent] = []
    scheduler.schedule_traced(snapshot, events.append, rivals_at=position)
    return events[position]


def _reason(event: TraceEvent, rival: TraceEvent) -> tuple[str, str] | None:
    """Return the plugin that ordered one choice before the other, and a description."""
    if isinstance(event, NodeSought) and isinstance(rival, NodeSought):
        return _score_reason(event, rival)
    if isinstance(event, JobTaken) and isinstance(rival, JobTaken):
        return _key_reason(event.job, event.key, rival.job, event.rivals)
    if isinstance(event, QueueTaken) and isinstance(rival, QueueTaken):
        return _key_reason(event.queue, event.key, rival.queue, event.rivals)
    return None


def _key_reason(
    taken: str, key: Mapping[str, object], other: str, rivals: Mapping[str, Mapping[str, object]]
) -> tuple[str, str] | None:
    if other not in rivals:
        return "", f"{other!r} does not wait in this cycle"
    for plugin, value in key.items():
        if rivals[other][plugin] != value:
            values = f"{_value_text(value)} before {_value_text(rivals[other][plugin])}"
            return plugin, f"{plugin} puts {taken!r} first: {values}"
    return None


def _score_reason(event: NodeSought, rival: NodeSought) -> tuple[str, str] | None:
    if event.task != rival.task or event.node is None or rival.node is None:
        return None
    theirs = event.rivals.get(rival.node)
    if theirs is None:
        return "", f"node {rival.node!r} is not among the nodes that were compared"
    differences = {name: score - theirs.get(name, 0) for name, score in event.scores.items()}
    plugin = max(differences, key=lambda name: differences[name], default="")
    if not plugin or differences[plugin] <= 0:
        return "", f"nodes {event.node!r} and {rival.node!r} have equal scores; the first is taken"
    mine, other = _value_text(event.scores[plugin]), _value_text(theirs.get(plugin, 0))
    return plugin, f"{plugin} scores {event.node!r} {mine}, {rival.node!r} {other}"


def _value_text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _verdicts_before(trace: Sequence[TraceEvent], at: int) -> dict[tuple[str, str], str]:
    """Return the verdicts of the last search before an event, by plugin and candidate."""
    found: dict[tuple[str, str], str] = {}
    claimant = ""
    for event in reversed(trace[:at]):
        if isinstance(event, VerdictsGiven):
            if claimant and event.claimant != claimant:
                break
            claimant = event.claimant
            for candidate, verdict in event.verdicts.items():
                found.setdefault((event.plugin, candidate), verdict)
        elif isinstance(event, StatementEnded):
            break
    return found


def _changed_verdicts(
    before: Mapping[tuple[str, str], str], after: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    changed: dict[str, str] = {}
    for key in sorted({*before, *after}):
        one, other = before.get(key, "nothing"), after.get(key, "nothing")
        if one != other:
            plugin, candidate = key
            changed.setdefault(plugin, f"{candidate!r}: {one} before, {other} after")
    return changed
