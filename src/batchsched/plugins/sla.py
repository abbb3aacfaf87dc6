"""sla: the job that must start soonest comes first."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from batchsched.plugin.arguments import Arguments
from batchsched.plugin.changes import Changes
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict
from batchsched.state.records import JobState, TaskState

__all__ = ["SlaPlugin"]


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
    def hints(self) -> EvictionHints:
        return EvictionHints(
            preemptable_alone=self.preemptable,
        )

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
