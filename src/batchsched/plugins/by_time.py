"""Orders of jobs by time: estimates (sjf), service (las), arrival (fcfs), deadlines (sla)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from attrs import frozen

from batchsched.causes import UnfitReason
from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, Verdict
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, TaskState


@frozen
class SjfPlugin:
    """Orders jobs by `JobInfo.expected_run`; jobs for which it is unknown come last."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> SjfPlugin:
        """Take no arguments."""
        return cls()

    def open(self, _view: SessionView, /) -> object:
        """Open for one cycle."""
        return _ShortestFirst()


class _ShortestFirst:
    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def job_order_key(self, job: JobState, /) -> tuple[int, float]:
        expected = job.info.expected_run
        return (1, 0.0) if expected is None else (0, expected)


_IN_THOUSANDTHS = 1000


@frozen(kw_only=True)
class LasPlugin:
    """Orders jobs by the service that their tasks have attained in all runs, including now.

    With levels, jobs on the same level are equal and start in order of arrival: discretised
    two-dimensional LAS in Gu et al., "Tiresias: A GPU cluster manager for distributed deep
    learning" (NSDI 2019). A run whose start is unknown does not count.
    """

    resource: str = "time"
    """Service is the time for which resources were held, in seconds, times the amount of this
    dimension in whole units (bytes of memory); ``time``: times 1."""
    levels: tuple[float, ...] = ()
    """The amounts of service at which the next level begins, ascending."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> LasPlugin:
        """Read ``resource`` and ``levels``, such as ``3250, 7200``."""
        return cls(
            resource=arguments.text("resource", default="time"),
            levels=arguments.ascending("levels"),
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _LeastAttained(self, view)


class _LeastAttained:
    def __init__(self, plugin: LasPlugin, view: SessionView) -> None:
        self._plugin = plugin
        self._view = view

    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def job_order_key(self, job: JobState, /) -> float:
        service = sum(self._service(task.info) for task in job.tasks)
        levels = self._plugin.levels
        return bisect_right(levels, service) if levels else service

    def _service(self, task: TaskInfo) -> float:
        seconds = task.seconds_held(self._view.now)
        match self._plugin.resource:
            case "time":
                return seconds
            case "cpu":
                return seconds * task.resreq.milli_cpu / _IN_THOUSANDTHS
            case "memory":
                return seconds * task.resreq.memory
            case name:
                return seconds * task.resreq.get(name) / _IN_THOUSANDTHS


@frozen(kw_only=True)
class FcfsPlugin:
    """Orders jobs by `JobInfo.creation_time`; a job may not start before earlier ones.

    This applies to the jobs of each queue. A job that has started (its minimum holds resources)
    does not block others.
    """

    strict: bool = True
    """Whether jobs wait for earlier jobs of their queue. If False, the plugin only orders jobs."""
    queues: frozenset[str] = frozenset()
    """The queues whose jobs wait for earlier ones, by priority; then it orders no others. Empty:
    all queues, whatever the priorities."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> FcfsPlugin:
        """Read ``strict`` and ``queues`` (``a, b``)."""
        names = arguments.text("queues", default="").split(",")
        return cls(
            strict=arguments.boolean("strict", default=True),
            queues=frozenset(name.strip() for name in names if name.strip()),
        )

    def open(self, _view: SessionView, /) -> object:
        """Open for one cycle."""
        if self.queues:
            return _StrictIn(self.queues)
        return _Strict() if self.strict else _InOrder()


class _InOrder:
    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def job_order_key(self, job: JobState, /) -> float:
        return job.info.creation_time


class _Strict(_InOrder):
    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        mine = _arrival(need.job)
        for job in queue.jobs:
            if _arrival(job) < mine and _waits_to_start(job):
                return Unfit(UnfitReason.NOT_ITS_TURN, "fcfs", job.uid)
        return None


class _StrictIn:
    def __init__(self, queues: frozenset[str]) -> None:
        self._queues = queues

    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        if queue.name not in self._queues:
            return None
        mine = (-need.job.info.priority, *_arrival(need.job))
        for job in queue.jobs:
            if (-job.info.priority, *_arrival(job)) < mine and _waits_to_start(job):
                return Unfit(UnfitReason.NOT_ITS_TURN, "fcfs", job.uid)
        return None


def _arrival(job: JobState) -> tuple[float, str]:
    return job.info.creation_time, job.uid


def _waits_to_start(job: JobState) -> bool:
    return (
        job.in_session
        and (not job.ready_count or not job.has_minimum())
        and any(t.status is TaskStatus.PENDING and not t.is_best_effort for t in job.tasks)
    )


@frozen(kw_only=True)
class SlaPlugin:
    """Orders jobs by `JobInfo.start_by`, the earliest first; jobs without one come after them.

    A job that is too late comes last by default. If it came first, it would make the next job
    late too: the domino effect of earliest-deadline-first under overload (Jackson, "Scheduling
    a production line to minimize maximum tardiness", 1955, has the order).
    Volcano's sla is `JobInfo.max_wait` with ``late: first``.
    """

    late_first: bool = False
    """Whether jobs that are too late come before all others; if False, after all others."""
    claims: bool = False
    """Whether urgent jobs may preempt jobs of the same priority that have no time to start by."""
    urgent: float = 0.0
    """A job is urgent if it must start within this many seconds."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> SlaPlugin:
        """Read ``late`` (``first`` or ``last``), ``claims`` and ``urgent`` (seconds)."""
        return cls(
            late_first=arguments.choice("late", ("first", "last"), default="last") == "first",
            claims=arguments.boolean("claims", default=False),
            urgent=arguments.number("urgent", default=0, minimum=0),
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Claims(self, view) if self.claims else _BySlack(self, view)


class _BySlack:
    def __init__(self, plugin: SlaPlugin, view: SessionView) -> None:
        self._plugin = plugin
        self._view = view

    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def job_order_key(self, job: JobState, /) -> tuple[int, float]:
        start_by = job.info.start_by
        if start_by is None:
            return 1, 0.0
        is_too_late = start_by < self._view.now
        return (2 if is_too_late and not self._plugin.late_first else 0), start_by


class _Claims(_BySlack):
    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [self._verdict(claimant, candidate) for candidate in candidates]

    def _verdict(self, claimant: TaskState, candidate: TaskState) -> Verdict:
        mine, other = claimant.job, candidate.job
        assert mine is not None
        assert other is not None
        if mine is other:
            return Verdict.PASS
        is_urgent = (
            mine.info.start_by is not None
            and mine.info.start_by - self._view.now < self._plugin.urgent
            and other.info.start_by is None
        )
        difference = other.info.priority - mine.info.priority - is_urgent
        if difference == 0:
            return Verdict.PASS
        return Verdict.VICTIM if difference < 0 else Verdict.PROTECTED
