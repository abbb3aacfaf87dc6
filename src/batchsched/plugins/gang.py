"""gang: a job starts with `min_available` tasks together, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from batchsched.model.reasons import ConditionReason, JobCondition
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.changes import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict
from batchsched.state.records import JobState, TaskState

__all__ = ["GangPlugin"]


@frozen
class GangPlugin:
    """Decides which jobs are valid, ready and pipelined; keeps gangs whole."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> GangPlugin:
        """Take no arguments."""
        return cls()

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Gang(view)


class _Gang:
    def __init__(self, view: SessionView) -> None:
        self._view = view

    def resume(self, _changes: Changes, /) -> bool:
        return True  # it keeps nothing

    def job_valid(self, job: JobState, /) -> JobCondition | None:
        if job.valid_count >= job.min_available:
            return None
        message = f"{job.valid_count} of the {job.min_available} tasks that it needs can start"
        return JobCondition(ConditionReason.NOT_ENOUGH_TASKS, message, plugin="gang")

    def job_order_key(self, job: JobState, /) -> int:
        return int(job.ready_count >= job.min_available)

    def job_ready(self, job: JobState, /) -> bool:
        return job.ready_count >= job.min_available

    def job_pipelined(self, job: JobState, /) -> bool:
        return job.ready_count + job.waiting_count >= job.min_available

    def job_condition_ready(self, job: JobState, /) -> bool:
        return job.conditionally_ready_count >= job.min_available

    def claimant_key(self, _claimant: TaskState, /) -> None:
        return None

    def shielded(self, _claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[bool]:
        return [
            job is not None and job.ready_count <= job.min_available
            for job in [candidate.job for candidate in candidates]
        ]

    def preemptable(
        self, _claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        left: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = candidate.job
            assert job is not None
            ready = left.setdefault(job.uid, job.ready_count)
            if ready > job.min_available:
                left[job.uid] = ready - 1
                verdicts.append(Verdict.VICTIM)
            else:
                verdicts.append(Verdict.PROTECTED)
        return verdicts

    reclaimable = preemptable

    def close(self) -> Iterable[tuple[JobState, JobCondition]]:
        for job in self._view.jobs_short:
            if job.in_session:
                message = (
                    f"{job.ready_count} of the {job.min_available} tasks that must start "
                    "together are ready"
                )
                condition = JobCondition(
                    ConditionReason.NOT_ENOUGH_RESOURCES, message, plugin="gang"
                )
                yield job, condition
