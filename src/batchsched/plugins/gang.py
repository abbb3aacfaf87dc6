"""gang: a job starts with at least `min_available` tasks together, or not at all.

A job with groups starts when the minima of as many groups as it needs are met; beyond that it
grows and shrinks by single tasks and by whole replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import (
    JobCondition,
    MemberCount,
    not_enough_ready,
    not_enough_tasks,
)
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, Verdict
from batchsched.plugin.node_functions import EvictionHints
from batchsched.plugin.session_view import SessionView
from batchsched.state.groups import Counting, JobGroups
from batchsched.state.records import JobState, TaskState

_AT_MINIMUM = "protected by gang (atMinimum: protect)"


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
        return _Gang(view, self.evicts_whole_jobs, _any_whole(view.jobs.values()))


def _any_whole(jobs: Iterable[JobState]) -> bool:
    return bool([job for job in jobs if job.info.evict_whole])


@define(eq=False)
class _Gang:
    _view: SessionView
    _evicts_whole_jobs: bool
    _has_whole_jobs: bool
    """Whether any job is evicted as a whole, whatever the argument says."""
    votes_on_jobs_alone = True
    refuses_alike = True

    def resume(self, changes: Changes, /) -> bool:
        return self._has_whole_jobs or not _any_whole(changes.jobs)

    def job_valid(self, job: JobState, /) -> JobCondition | None:
        if job.has_minimum(Counting.VALID):
            return None
        group = None if job.groups is None else job.groups.first_out_of_reach()
        if group is None and job.groups is not None and job.groups.lacks_groups:
            group = job.groups.root
        of_job = MemberCount(has=job.counted[Counting.VALID], needs=job.min_available)
        lacking = of_job if group is None else group.member_count(Counting.VALID)
        return not_enough_tasks(lacking, "gang")

    def job_order_key(self, job: JobState, /) -> int:
        # Jobs that have lost tasks of their minimum go first: what they still hold is of no use.
        # Then those that are not ready; those with more tasks than their groups need go last.
        if not job.has_minimum():
            return -1 if job.is_broken else 0
        return 1 if job.groups is None else 1 + self._has_more(job, job.groups)

    def _has_more(self, job: JobState, groups: JobGroups) -> bool:
        """Return whether a ready job has more tasks or groups than it needs.

        O(groups); O(tasks) for a job that needs more tasks than its groups do.
        """
        if not groups.groups:
            return job.lacks() < 0 and job.ready_count > job.count(TaskStatus.SUCCEEDED)
        if not groups.asks_for_more:
            return groups.root.has_more_than_needed()
        there = (task for task in job.tasks if task.status.occupies)
        return any(not self._view.unit_of(task).is_core for task in there)

    def job_ready(self, job: JobState, /) -> bool:
        return job.has_minimum()

    def job_pipelined(self, job: JobState, /) -> bool:
        return job.has_minimum(Counting.PROMISED)

    def job_condition_ready(self, job: JobState, /) -> bool:
        return job.has_minimum(Counting.RESERVED)

    # Eviction: what a job has beyond its minimum, or all of it.

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        mine = _job(claimant)
        return self._verdicts(
            mine, candidates, lambda job: self._at_minimum(job, _is_below(job, mine))
        )

    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        mine = _job(claimant)
        return self._verdicts(mine, candidates, lambda job: self._at_minimum(job, job is not mine))

    def revocable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        if not self._evicts_whole_jobs:  # loans are revoked even so
            return [Verdict.VICTIM] * len(candidates)
        # The rest of a gang would be of no use.
        return self._verdicts(_job(claimant), candidates, lambda _job: Verdict.WITH_JOB)

    def _at_minimum(self, job: JobState, is_evictable: bool) -> Verdict:
        goes_whole = self._evicts_whole_jobs or job.info.evict_whole
        return Verdict.WITH_JOB if is_evictable and goes_whole else Verdict.PROTECTED

    def _verdicts(
        self,
        mine: JobState,
        candidates: Sequence[TaskState],
        at_minimum: Callable[[JobState], Verdict],
    ) -> Sequence[Verdict]:
        """Return VICTIM for candidates as long as their jobs have more than the minimum."""
        spare: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = _job(candidate)
            if job.groups is not None:
                unit = self._view.unit_of(candidate)
                if unit.is_surplus:
                    verdicts.append(Verdict.VICTIM)
                elif unit.is_core:
                    verdicts.append(at_minimum(job))
                else:  # a replica is evicted as a whole, but not for its own job
                    verdicts.append(Verdict.PROTECTED if job is mine else Verdict.WITH_JOB)
                continue
            left = spare.get(job.uid)
            if left is None:
                # This is `JobState.spare` without a call: it is asked of every candidate.
                left = 0 if job.info.evict_whole else job.ready_count - job.min_available
            if left > 0:
                spare[job.uid] = left - 1
                verdicts.append(Verdict.VICTIM)
            else:
                verdicts.append(at_minimum(job))
        return verdicts

    def verdict_reasons(
        self, claimant: TaskState, candidates: Sequence[TaskState], _verdict: Verdict, /
    ) -> Sequence[str]:
        mine = _job(claimant)
        return [self._why_it_stays(_job(candidate), mine) for candidate in candidates]

    def _why_it_stays(self, job: JobState, mine: JobState) -> str:
        """Return why a task at the minimum of its job is not evicted; empty: for another reason."""
        if not (self._evicts_whole_jobs or job.info.evict_whole):
            return _AT_MINIMUM
        if job is mine or job.queue is not mine.queue or _is_below(job, mine):
            return ""
        is_equal = job.info.priority == mine.info.priority
        return "equal priority" if is_equal else "higher priority"

    def hints(self) -> EvictionHints:
        return EvictionHints(claimant_key=self.claimant_key, shielded=self.shielded)

    def claimant_key(self, claimant: TaskState, /) -> int | None:
        reads_priority = self._evicts_whole_jobs or self._has_whole_jobs
        return _job(claimant).info.priority if reads_priority else None

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[bool]:
        # Asked of most of a full cluster (the benchmark tree-flat): `lacks` written out.
        mine, ready, unit_of = _job(claimant), Counting.READY, self._view.unit_of
        return [
            job is not None
            and (
                (job.counted[ready] <= job.min_available or job.info.evict_whole)
                if job.groups is None
                else unit_of(candidate).is_core
            )
            and not (
                (self._evicts_whole_jobs or job.info.evict_whole) and self._may_go_whole(job, mine)
            )
            for candidate in candidates
            for job in (candidate.job,)
        ]

    @staticmethod
    def _may_go_whole(job: JobState, mine: JobState) -> bool:
        return _is_below(job, mine) if mine.queue is job.queue else job is not mine

    # Outcomes

    def close(self) -> Iterable[tuple[JobState, JobCondition]]:
        known: dict[tuple[int, int], JobCondition] = {}
        for job in self._view.jobs_short:
            if not job.in_session:
                continue
            counts = job.ready_count, job.min_available
            condition = known.get(counts) if job.groups is None else None
            if condition is None:
                of_job = MemberCount(has=job.ready_count, needs=job.min_available)
                group = None if job.groups is None else job.groups.first_not_ready()
                of_group = () if group is None else (group.member_count(Counting.READY),)
                condition = not_enough_ready((of_job, *of_group), "gang")
                if job.groups is None:
                    known[counts] = condition
            yield job, condition


def _job(task: TaskState) -> JobState:
    assert task.job is not None
    return task.job


def _is_below(job: JobState, mine: JobState) -> bool:
    """Return whether a job may go as a whole for another one of its queue.

    Only for one of higher priority: otherwise two equal gangs could evict each other in turn.
    """
    return mine.info.priority > job.info.priority
