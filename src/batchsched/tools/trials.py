"""The functions `what_if` and `cheapest`: the effect of changes on the next cycle."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import cast

from attrs import evolve, field, frozen

from batchsched.causes import HoldKind
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import EventError, Fault
from batchsched.live import (
    AttachedScheduler,
    Cluster,
    Event,
    JobArrived,
    JobChanged,
    TaskHoldsChanged,
    TimePassed,
)
from batchsched.model.cluster import Hold, JobInfo
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import asked, checks_arguments
from batchsched.model.validation.values import is_of, is_text, shown
from batchsched.scheduler import Scheduler
from batchsched.session.session import Session
from batchsched.tools.changes import (
    CHANGE_KINDS,
    Change,
    CycleRun,
    Released,
    admitted,
    admitted_anew,
    describe_changes,
    who_keeps_out,
)
from batchsched.tools.comparison import CycleComparison, compare
from batchsched.tools.report import Report, Section


@frozen(kw_only=True)
class WhatIf(Report):
    """What a cycle would decide after changes. Prints as text; a notebook shows tables."""

    changes: tuple[Change, ...]
    """The changes."""
    words: tuple[str, ...]
    """What the changes do, in words; see `describe_changes`."""
    snapshot: Snapshot
    """The cluster with the changes."""
    result: CycleResult
    """The result of the cycle after the changes."""
    difference: CycleComparison
    """The differences from the cycle without the changes."""
    kept_out: Mapping[str, str] = field(factory=dict[str, str])
    """The jobs that a controller, by UID, has not admitted: both cycles admit them as the queues
    allow."""

    @property
    def admits(self) -> str:
        """The controllers that have to admit as here for what is told to happen; empty: none."""
        told = {change.job for change in self.difference.changes if change.kind != "reason"}
        return " and ".join(sorted({who for job, who in self.kept_out.items() if job in told}))

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the report, the answer first."""
        answer, *others = self.difference.sections()
        admits = self.admits
        if admits:
            answer = evolve(answer, title=f"If {admits} decides as here, {answer.title}")
        yield answer
        yield Section("If", self.words or ("nothing changes",))
        yield from others

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as dicts, lists, strings and numbers only, ready for JSON."""
        return {
            "if": list(self.words),
            "kept_out": dict(self.kept_out),
            "result": self.result.to_dict(),
            "difference": self.difference.to_dict(),
        }


def what_if(
    snapshot: Snapshot,
    *changes: Change,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
) -> WhatIf:
    """Return what a cycle would decide after changes, and how that differs from now.

    The changes are applied in order, and then a cycle runs. A `CycleRun` among them runs a cycle in
    between, whose decisions take effect before the remaining changes. If only the configuration
    changes, the answer names the first decision that differs and its cause, like `compare`.

    Jobs that only lack the admission of a controller (`HoldKind.NOT_ADMITTED`) and that no change
    releases are admitted as the queues allow, before and after the changes (`WhatIf.kept_out`).

    Args:
        snapshot: the cluster now.
        changes: events such as `batchsched.live.NodeAdded`; configurations, which apply from
            then on; `CycleRun`; and `Released`.
        config: the current configuration; None: the default.
        registry: the plugins and actions that configurations may name.

    Raises:
        EventError: changes refer to unknown objects, or have the wrong type; all faults at once.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, TaskInfo
    >>> from batchsched.live import NodeAdded
    >>> one = Resource(milli_cpu=1000)
    >>> waiting = JobInfo(name="j", queue="q", tasks=[TaskInfo(uid="t", name="t", resreq=one)])
    >>> snapshot = Snapshot(queues=[Queue(name="q")], jobs=[waiting])
    >>> answer = what_if(snapshot, NodeAdded(NodeInfo(name="n1", allocatable=one)))
    >>> [(change.task, change.kind) for change in answer.difference.changes]
    [('t', 'starts')]

    """
    released = {each.job for each in changes if type(each) is Released and is_text(each.job)}
    trials = Trials(snapshot, config, registry, but=released)
    return trials.what_if(changes)


class Trials:
    """Tries changes on one cluster, undoing each before the next.

    The first cycle costs as much as any cycle; the others are as cheap as the changes are small.
    Of jobs that only lack the admission of a controller, all but those in `but` are admitted as the
    queues allow.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        config: SchedulerConfig | None,
        registry: Registry | None,
        but: Container[str] = (),
    ) -> None:
        self.kept_out: Mapping[str, str] = {}
        """The jobs that the queues may admit, by UID, and the controllers that have not."""
        if is_of(snapshot, Snapshot):
            snapshot, self.kept_out = admitted_anew(snapshot, but)
        self.snapshot = snapshot
        """The cluster on which changes are tried."""
        self._registry = registry
        self._cluster = Cluster(snapshot)
        scheduler = Scheduler(config, registry)
        self.config = scheduler.config
        """The configuration that applies unless a change replaces it."""
        self._live = scheduler.attach(self._cluster)
        self._attached = {self.config: self._live}

    @cached_property
    def now(self) -> CycleResult:
        """The result of a cycle without any change."""
        return self._live.schedule()

    def session(self, config: SchedulerConfig) -> AbstractContextManager[Session]:
        """Open a session on the cluster as it is, for reading; everything is undone at the end."""
        return self._by(config).open()

    def result(
        self,
        changes: Sequence[Change],
        *,
        config: SchedulerConfig | None = None,
        reasons: bool = False,
    ) -> CycleResult:
        """Return the result of a cycle after changes.

        Args:
            changes: the changes.
            config: the configuration at the beginning; None: that of the trials. Schedulers are
                kept for the next trial.
            reasons: whether it says why tasks wait.

        """
        live = self._live if config is None else self._by(config)
        return self._after(changes, live, reasons=reasons)[1]

    def _admitted(self, arrived: JobArrived) -> JobArrived:
        """Return the arrival of a job that the queues may admit."""
        job, who = arrived.job, who_keeps_out(arrived.job)
        if not who:
            return arrived
        self.kept_out = {**self.kept_out, job.uid: who}
        return JobArrived(admitted(job))

    def _by(self, config: SchedulerConfig) -> AttachedScheduler:
        if config not in self._attached:
            scheduler = Scheduler(config, self._registry)
            self._attached[config] = scheduler.attach(self._cluster)
        return self._attached[config]

    def what_if(self, changes: Sequence[Change]) -> WhatIf:
        """Return the result of a cycle after changes, and how it differs from now."""
        snapshot, result = self._after(changes, self._live, reasons=True)
        configs = [change for change in changes if isinstance(change, SchedulerConfig)]
        if configs and len(configs) == len(changes):
            # On one cluster the first decision that differs can be told, and its cause.
            difference = compare(self.config, configs[-1], self.snapshot, registry=self._registry)
        else:
            difference = compare(self.now, result, self.snapshot, after_snapshot=snapshot)
        return WhatIf(
            changes=tuple(changes),
            words=describe_changes(self.snapshot, changes),
            snapshot=snapshot,
            result=result,
            difference=difference,
            kept_out=self.kept_out,
        )

    def _after(
        self, changes: Sequence[Change], live: AttachedScheduler, *, reasons: bool
    ) -> tuple[Snapshot, CycleResult]:
        faults = [
            Fault(
                f"changes[{position}]",
                f"expected an event, a SchedulerConfig, a CycleRun or a Released, "
                f"got {shown(change)}",
            )
            for position, change in enumerate(changes)
            if not any(is_of(change, kind) for kind in CHANGE_KINDS)
        ]
        if faults:
            raise EventError(faults)
        with self._cluster.trial() as cluster:
            events: list[Event] = []
            for position, change in enumerate(changes):
                if type(change) is JobArrived and is_of(change.job, JobInfo):
                    change = self._admitted(change)  # noqa: PLW2901 - as those that are there
                if not isinstance(change, (SchedulerConfig, CycleRun, Released)):
                    events.append(change)
                    continue
                _apply(cluster, events, before=position)
                events.clear()
                if isinstance(change, Released):
                    cluster.apply(*_release(cluster, change))
                elif isinstance(change, SchedulerConfig):
                    live = Scheduler(change, self._registry).attach(cluster)
                else:
                    cluster.carry_out(live.schedule(reasons=False), at_once=True)
                    if change.seconds:
                        cluster.apply(TimePassed(cluster.now + change.seconds))
            _apply(cluster, events, before=len(changes))
            result = live.schedule(reasons=reasons)
            return (cluster.snapshot() if reasons else self.snapshot), result


def _apply(cluster: Cluster, events: Sequence[Event], *, before: int) -> None:
    """Apply the changes before a position that are events; faults name them as changes."""
    try:
        cluster.apply(*events)
    except EventError as error:
        first = before - len(events)

        def path_of(fault: Fault) -> str:
            number, bracket, rest = fault.path.removeprefix("events[").partition("]")
            return f"changes[{first + int(number)}{bracket}{rest}"

        faults = [Fault(path_of(fault), fault.message) for fault in error.faults]
        raise EventError(faults) from error.__cause__


def _release(cluster: Cluster, released: Released) -> Iterator[Event]:
    """Yield the events by which what holds a job is gone."""
    content = cluster.content

    def left(holds: tuple[Hold, ...]) -> tuple[Hold, ...]:
        return tuple(hold for hold in holds if released.kind not in (None, hold.kind))

    if not is_text(released.job) or released.job not in content.jobs:
        raise EventError([Fault("changes", f"there is no job {shown(released.job)}")])
    if released.kind is not None and not is_of(released.kind, HoldKind):
        message = f"expected a HoldKind or None, got {shown(released.kind)}"
        raise EventError([Fault("changes", message)])
    job = content.jobs[released.job]
    if left(job.holds) != job.holds:
        yield JobChanged(released.job, holds=left(job.holds))
    for uid in content.members[released.job]:
        holds = content.tasks[uid].holds
        if left(holds) != holds:
            yield TaskHoldsChanged(uid, left(holds))


Goal = Callable[[CycleResult], bool]
"""Whether a result is good enough."""


@checks_arguments()
def starts(snapshot: Snapshot, uid: str, /) -> Goal:
    """Return the goal that a task, or any task of a job, starts; given by UID.

    Raises:
        ArgumentError: an argument has the wrong type.
        UnknownNameError: there is no such job or task.

    """
    if any(job.uid == uid for job in snapshot.jobs):
        uids = {task.uid for task in snapshot.job(uid).tasks}
    else:
        uids = {snapshot.task(uid).uid}
    return lambda result: any(bind.task_uid in uids for bind in result.binds)


@frozen(kw_only=True)
class Cheapest:
    """The first of a list of changes that reaches a goal."""

    position: int
    """Its position in the list, counted from 0."""
    answer: WhatIf
    """The result of a cycle with it."""

    def __str__(self) -> str:
        return f"change number {self.position + 1} is enough\n{self.answer}"


@checks_arguments()
def cheapest(
    snapshot: Snapshot,
    goal: Goal | str,
    candidates: Sequence[Change | Sequence[Change]],
    *,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
) -> Cheapest | None:
    """Return the first change of a list that reaches a goal; None: none of them does.

    The caller sorts the list by the cost of the changes. Each is tried alone with a cycle, which is
    as cheap as the change is small.

    Args:
        snapshot: the cluster now.
        goal: whether a result is good enough; or the UID of a job or task that should start.
        candidates: changes, or sequences of changes to apply together; see `what_if`.
        config: the configuration; None: the default.
        registry: the plugins and actions that configurations may name.

    Raises:
        ArgumentError: an argument has the wrong type, or `goal` raised.
        EventError: a change cannot be applied.
        UnknownNameError: there is no job or task with the UID of the goal.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, TaskInfo
    >>> from batchsched.live import JobChanged, NodeAdded
    >>> one = Resource(milli_cpu=1000)
    >>> job = JobInfo(name="j", queue="q", tasks=[TaskInfo(uid="t", name="t", resreq=2 * one)])
    >>> snapshot = Snapshot(queues=[Queue(name="q")], jobs=[job])
    >>> found = cheapest(snapshot, "default/j", [
    ...     JobChanged("default/j", priority=9),
    ...     NodeAdded(NodeInfo(name="small", allocatable=one)),
    ...     NodeAdded(NodeInfo(name="large", allocatable=2 * one)),
    ... ])
    >>> found.position
    2

    """
    reached = starts(snapshot, goal) if is_text(goal) else asked("goal", cast("Goal", goal))
    trials = Trials(snapshot, config, registry)
    for position, candidate in enumerate(candidates):
        changes = tuple(candidate) if isinstance(candidate, Sequence) else (candidate,)
        if reached(trials.result(changes)):
            return Cheapest(position=position, answer=trials.what_if(changes))
    return None
