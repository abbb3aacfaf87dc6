"""priority: tasks and jobs of higher priority come first and may preempt lower ones."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, Verdict
from batchsched.plugin.node_functions import EvictionHints
from batchsched.plugin.session_view import SessionView
from batchsched.state.records import JobState, TaskState


@frozen
class PriorityPlugin:
    """Orders tasks and jobs by priority; protects tasks of higher priority from lower ones."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> PriorityPlugin:
        """Take no arguments."""
        return cls()

    def open(self, _view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Priority()


class _Priority:
    refuses_alike = True

    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def task_order_key(self, task: TaskState, /) -> tuple[int, int]:
        # Whoever names a priority names the group's: tasks of others are compared by their jobs'.
        job, own = task.job, task.info.priority
        return -(own if job is None else job.info.priority), -own

    def job_order_key(self, job: JobState, /) -> int:
        return -job.info.priority

    def hints(self) -> EvictionHints:
        return EvictionHints(claimant_key=self.claimant_key, shielded=self.shielded)

    def claimant_key(self, claimant: TaskState, /) -> tuple[int, int]:
        assert claimant.job is not None
        return claimant.job.info.priority, claimant.info.priority

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[bool]:
        return [_verdict(claimant, candidate) is Verdict.PROTECTED for candidate in candidates]

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [_verdict(claimant, candidate) for candidate in candidates]

    def verdict_reasons(
        self, _claimant: TaskState, candidates: Sequence[TaskState], verdict: Verdict, /
    ) -> Sequence[str]:
        reason = "equal priority" if verdict is Verdict.PASS else "higher priority"
        return [reason] * len(candidates)


def _verdict(claimant: TaskState, candidate: TaskState) -> Verdict:
    mine, other = claimant.job, candidate.job
    assert mine is not None
    assert other is not None
    if mine is other:
        difference = candidate.info.priority - claimant.info.priority
    else:
        difference = other.info.priority - mine.info.priority
    if difference == 0:
        return Verdict.PASS
    return Verdict.VICTIM if difference < 0 else Verdict.PROTECTED
