"""drf: the job with the smallest dominant share comes first.

Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource
Types" (NSDI 2011).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, Verdict
from batchsched.plugin.node_functions import EvictionHints
from batchsched.plugin.session_view import SessionView
from batchsched.state.groups import Counting
from batchsched.state.records import JobState, TaskState
from batchsched.state.vectors import Vector, dominant_share, minus, plus

SHARE_TOLERANCE = 1e-6
"""Shares that differ by no more than this count as equal in verdicts."""


@frozen
class DrfPlugin:
    """Orders jobs by dominant share; lets a job preempt jobs that would still have more."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> DrfPlugin:
        """Take no arguments."""
        return cls()

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Drf(view)


class _Drf:
    votes_on_jobs_alone = True
    refuses_alike = True

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._total = view.cluster[: view.dimensions.in_cluster]
        self._zero = view.dimensions.zero
        self._allocated: dict[str, Vector] = {}
        """What jobs hold and were promised, by UID, as far as it was asked for."""

    def resume(self, changes: Changes, /) -> bool:
        self._total = self._view.cluster[: self._view.dimensions.in_cluster]
        for job in (*changes.jobs_gone, *changes.jobs):
            self._allocated.pop(job.uid, None)
        return True

    def _of(self, job: JobState) -> Vector:
        """Return what a job holds and was promised. O(tasks) when first asked, then O(1)."""
        known = self._allocated.get(job.uid)
        if known is None:
            if not job.counted[Counting.RESERVED]:
                # No task is charged. Most jobs are asked about once before that changes.
                return self._zero
            known = self._zero
            for task in job.tasks:
                if task.status.charged:
                    known = plus(known, task.resreq)
            self._allocated[job.uid] = known
        return known

    def job_order_key(self, job: JobState, /) -> float:
        # Computed once a turn: updating it with each placement would cost fifty times as much.
        allocated = self._of(job)
        return 0.0 if allocated is self._zero else dominant_share(allocated, self._total)

    def on_allocate(self, task: TaskState, /) -> None:
        # What was not asked for yet is counted when it is.
        if task.job is not None and task.job.uid in self._allocated:
            uid = task.job.uid
            self._allocated[uid] = plus(self._allocated[uid], task.resreq)

    def on_deallocate(self, task: TaskState, /) -> None:
        if task.job is not None and task.job.uid in self._allocated:
            uid = task.job.uid
            self._allocated[uid] = minus(self._allocated[uid], task.resreq)

    def hints(self) -> EvictionHints:
        return EvictionHints(claimant_key=self.claimant_key)

    def claimant_key(self, claimant: TaskState, /) -> float:
        assert claimant.job is not None
        return dominant_share(plus(self._of(claimant.job), claimant.resreq), self._total)

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        mine = self.claimant_key(claimant)
        left: dict[str, Vector] = {}
        """What each job would have left without the victims among the candidates so far."""
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = candidate.job
            assert job is not None
            allocated = left.get(job.uid)
            if allocated is None:
                allocated = self._of(job)
            without = minus(allocated, candidate.resreq)
            share = dominant_share(without, self._total)
            if mine < share or abs(mine - share) <= SHARE_TOLERANCE:
                left[job.uid] = without
                verdicts.append(Verdict.VICTIM)
            else:
                verdicts.append(Verdict.PASS)
        return verdicts

    def verdict_reasons(
        self, _claimant: TaskState, candidates: Sequence[TaskState], _verdict: Verdict, /
    ) -> Sequence[str]:
        return ["of a job with a smaller share"] * len(candidates)
