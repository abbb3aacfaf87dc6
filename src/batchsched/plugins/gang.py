"""gang: a job starts with at least `min_available` tasks together, or not at all.

A job with groups starts when the minima of as many groups as it needs are met; beyond that it
grows and shrinks by single tasks and by whole replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import (
    JobCondition,
    MemberCount,
    not_enough_ready,
    not_enough_tasks,
)
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.changes import Changes
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict
from batchsched.state.groups import Counting, JobGroups
from batchsched.state.records import JobState, TaskState

__all__ = ["GangPlugin"]


@frozen(kw_only=True)
class GangPlugin:
    """Decides which jobs are valid, ready and pipelined; protects gangs from partial eviction."""

    evicts_whole_jobs: bool = False
    """Whether a job at its minimum may be evicted as a whole.

    If not, preempt and reclaim never evict a job at its minimum, and so no job of one task.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> GangPlugin:
        """Read ``atMinimum``: ``protect`` (the default) or ``whole-job``."""
        choice = arguments.choice("atMinimum", ("protect", "whole-job"), default="protect")
        return cls(evicts_whole_jobs=choice == "whole-job")

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Gang(view, evicts_whole_jobs=self.evicts_whole_jobs)


class _Gang:
    votes_on_jobs_alone = True
    rejects_below_minimum = True

    def __init__(self, view: SessionView, *, evicts_whole_jobs: bool) -> None:
        self._view = view
        self._evicts_whole_jobs = evicts_whole_jobs

    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def job_valid(self, job: JobState, /) -> JobCondition | None:
        groups = job.groups
        if groups is not None and not groups.is_satisfied(Counting.VALID):
            return _not_enough_tasks(job, groups)
        if job.valid_count >= job.min_available:
            return None
        lacking = MemberCount(has=job.valid_count, needs=job.min_available)
        return not_enough_tasks(lacking, "gang")

    def job_order_key(self, job: JobState, /) -> int:
        if job.groups is not None:
            return self._growth(job, job.groups)
        return int(job.ready_count >= job.min_available)

    def _growth(self, job: JobState, groups: JobGroups) -> int:
        """Return 0 for a job that is not ready, 1 for one at its minimum, 2 if it has more.

        O(groups); O(tasks) for a job that needs more tasks than its groups do.
        """
        if not groups.is_satisfied(Counting.READY):
            return 0
        if not groups.groups:
            occupying = job.ready_count - job.count(TaskStatus.SUCCEEDED)
            return 1 + (occupying > 0 and job.ready_count > job.min_available)
        if not groups.asks_for_more:
            return 1 + groups.root.has_more_than_needed()
        there = (task for task in job.tasks if task.status.occupies)
        return 1 + any(not self._view.unit_of(task).is_core for task in there)

    def job_ready(self, job: JobState, /) -> bool:
        if job.groups is not None:
            return job.groups.is_satisfied(Counting.READY)
        return job.ready_count >= job.min_available

    def job_pipelined(self, job: JobState, /) -> bool:
        if job.groups is not None:
            return job.groups.is_satisfied(Counting.PROMISED)
        return job.ready_count + job.waiting_count >= job.min_available

    def job_condition_ready(self, job: JobState, /) -> bool:
        if job.groups is not None:
            return job.groups.is_satisfied(Counting.RESERVED)
        return job.conditionally_ready_count >= job.min_available

    def hints(self) -> EvictionHints:
        return EvictionHints(
            claimant_key=self.claimant_key,
            shielded=self.shielded,
            only_with_job=self.only_with_job,
            preemptable_alone=self.preemptable_alone,
            reclaimable_alone=self.reclaimable_alone,
        )

    def claimant_key(self, claimant: TaskState, /) -> int | None:
        return _job(claimant).info.priority if self._evicts_whole_jobs else None

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[bool]:
        mine = _job(claimant)
        return [
            job is not None
            and (
                job.ready_count <= job.min_available
                if job.groups is None
                else self._view.unit_of(candidate).is_core
            )
            and not (self._evicts_whole_jobs and self._may_go_for(mine, job))
            for candidate in candidates
            for job in (candidate.job,)
        ]

    def only_with_job(
        self, _claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[bool]:
        return [
            job is not None
            and (
                job.ready_count <= job.min_available
                if job.groups is None
                else not self._view.unit_of(candidate).is_surplus
            )
            for candidate in candidates
            for job in (candidate.job,)
        ]

    @staticmethod
    def _may_go_for(mine: JobState, job: JobState) -> bool:
        """Return whether a job at its minimum may be evicted as a whole for another job.

        Within a queue only for a job of higher priority: otherwise two equal gangs could evict
        each other in turn.
        """
        if mine.queue is job.queue:
            return mine.info.priority > job.info.priority
        return mine is not job

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        mine = _job(claimant)
        return self._cumulative(
            mine, candidates, lambda job: self._at_minimum(mine.info.priority > job.info.priority)
        )

    def preemptable_alone(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        mine = _job(claimant)
        return [
            Verdict.VICTIM
            if job.groups is None and job.ready_count > job.min_available
            else self._verdict(
                mine, candidate, self._at_minimum(mine.info.priority > job.info.priority)
            )
            for job, candidate in [(_job(candidate), candidate) for candidate in candidates]
        ]

    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        mine = _job(claimant)
        return self._cumulative(mine, candidates, lambda job: self._at_minimum(job is not mine))

    def reclaimable_alone(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        mine = _job(claimant)
        return [
            Verdict.VICTIM
            if job.groups is None and job.ready_count > job.min_available
            else self._verdict(mine, candidate, self._at_minimum(job is not mine))
            for job, candidate in [(_job(candidate), candidate) for candidate in candidates]
        ]

    def revocable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        # The rest of a gang would be of no use; without whole jobs, loans are still revoked.
        at_minimum = Verdict.WITH_JOB if self._evicts_whole_jobs else Verdict.VICTIM
        return self._cumulative(_job(claimant), candidates, lambda _job: at_minimum)

    def _cumulative(
        self,
        mine: JobState,
        candidates: Sequence[TaskState],
        at_minimum: Callable[[JobState], Verdict],
    ) -> Sequence[Verdict]:
        """Return VICTIM for candidates as long as their jobs have more than the minimum."""
        left: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = _job(candidate)
            if job.groups is not None:
                verdicts.append(self._verdict(mine, candidate, at_minimum(job)))
                continue
            ready = left.setdefault(job.uid, job.ready_count)
            if ready > job.min_available:
                left[job.uid] = ready - 1
                verdicts.append(Verdict.VICTIM)
            else:
                verdicts.append(at_minimum(job))
        return verdicts

    def _verdict(self, mine: JobState, candidate: TaskState, at_minimum: Verdict) -> Verdict:
        """Return the verdict on a candidate, given the verdict on the minimum of its job."""
        job = candidate.job
        if job is None or job.groups is None:
            return at_minimum
        unit = self._view.unit_of(candidate)
        if unit.is_surplus:
            return Verdict.VICTIM
        if unit.is_core:
            return at_minimum
        # A replica is evicted as a whole, but not for its own job.
        return Verdict.PROTECTED if job is mine else Verdict.WITH_JOB

    def _at_minimum(self, is_evictable: bool) -> Verdict:
        return Verdict.WITH_JOB if is_evictable and self._evicts_whole_jobs else Verdict.PROTECTED

    def close(self) -> Iterable[tuple[JobState, JobCondition]]:
        known: dict[tuple[int, int], JobCondition] = {}
        for job in self._view.jobs_short:
            if job.in_session:
                counts = (job.ready_count, job.min_available)
                if job.groups is None and counts in known:
                    yield job, known[counts]
                    continue
                of_job = MemberCount(has=job.ready_count, needs=job.min_available)
                missing = None if job.groups is None else job.groups.first_not_ready()
                of_group = () if missing is None else (missing.member_count(Counting.READY),)
                condition = not_enough_ready((of_job, *of_group), "gang")
                if job.groups is None:
                    known[counts] = condition
                yield job, condition


def _job(task: TaskState) -> JobState:
    assert task.job is not None
    return task.job


def _not_enough_tasks(job: JobState, groups: JobGroups) -> JobCondition:
    """Return the condition of a job with groups that can never start, naming the group."""
    missing = groups.first_out_of_reach()
    if missing is None:
        return not_enough_tasks(MemberCount(has=job.valid_count, needs=job.min_available), "gang")
    return not_enough_tasks(missing.member_count(Counting.VALID), "gang")
