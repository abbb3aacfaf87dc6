"""Jobs in order of UID, updated incrementally."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable

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
        self._is_outdated = False
        """Whether so many jobs changed that it no longer matters which: all are sorted again."""

    def begin(self, jobs: Iterable[JobInfo]) -> None:
        """Set the initial jobs, which must be in order."""
        self._jobs = list(jobs)
        self._uids = [job.uid for job in self._jobs]
        self._touched.clear()
        self._is_outdated = False

    def touch(self, uid: str) -> None:
        """Record that a job was added, removed or changed."""
        if self._is_outdated:
            return
        self._touched[uid] = None
        if len(self._touched) * MANY > len(self._uids):
            # Jobs come and go for as long as nobody reads the order; their UIDs must not pile up.
            self._is_outdated = True
            self._touched.clear()

    def brought_up_to_date(
        self, there: Collection[str], made: Callable[[str], JobInfo]
    ) -> tuple[JobInfo, ...]:
        """Return all jobs in order.

        O(jobs), a pointer for each, plus O(log jobs) and a call of `made` for each touched job.
        Where more than one in `MANY` was touched, all are sorted, and `made` is called for all.

        Args:
            there: the UIDs of the existing jobs.
            made: returns a job by its UID.

        """
        if self._is_outdated:
            self.begin(made(uid) for uid in sorted(there))
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
