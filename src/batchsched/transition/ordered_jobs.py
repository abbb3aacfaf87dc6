"""Jobs in order of UID, updated incrementally."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable

from batchsched.model.cluster import JobInfo

__all__ = ["OrderedJobs"]

MANY = 8
"""If more than one in this many jobs changed, all are sorted again."""


class OrderedJobs:
    """The jobs of a cluster, updated on demand."""

    def __init__(self) -> None:
        self._uids: list[str] = []
        self._jobs: list[JobInfo] = []
        self._touched: dict[str, None] = {}

    def begin(self, jobs: Iterable[JobInfo]) -> None:
        """Set the initial jobs, which must be in order."""
        self._jobs = list(jobs)
        self._uids = [job.uid for job in self._jobs]
        self._touched.clear()

    def touch(self, uid: str) -> None:
        """Record that a job was added, removed or changed."""
        self._touched[uid] = None

    def brought_up_to_date(
        self, there: Container[str], made: Callable[[str], JobInfo]
    ) -> tuple[JobInfo, ...]:
        """Return all jobs in order.

        O(jobs), a pointer for each, plus O(log jobs) and a call of `made` for each touched job.

        Args:
            there: the UIDs of the existing jobs.
            made: returns a job by its UID.

        """
        if len(self._touched) * MANY > len(self._uids):
            self._uids = sorted({*self._uids, *self._touched})
            self._uids = [uid for uid in self._uids if uid in there]
            self._jobs = [made(uid) for uid in self._uids]
        else:
            for uid in self._touched:
                self._bring_up_to_date(uid, made(uid) if uid in there else None)
        self._touched.clear()
        return tuple(self._jobs)

    def _bring_up_to_date(self, uid: str, job: JobInfo | None) -> None:
        place = bisect_left(self._uids, uid)
        is_known = place < len(self._uids) and self._uids[place] == uid
        if job is None:
            if is_known:
                del self._uids[place], self._jobs[place]
        elif is_known:
            self._jobs[place] = job
        else:
            self._uids.insert(place, uid)
            self._jobs.insert(place, job)
