"""Computes what jobs and queues hold and want."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from attrs import frozen

from batchsched.model.cluster import TaskStatus
from batchsched.plugin.changes import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.records import JobState
from batchsched.state.vectors import Vector, minus, plus

__all__ = ["Use", "UsesOfJobs", "use_of"]


@frozen
class Use:
    """What jobs hold, and what they want in addition."""

    held: Vector
    wanted: Vector
    backfilling: int
    """How many of their tasks are marked as backfill and hold resources."""

    @property
    def request(self) -> Vector:
        """What they hold and want together."""
        return plus(self.held, self.wanted)

    def plus(self, other: Use) -> Use:
        """Return what both use together."""
        return Use(
            plus(self.held, other.held),
            plus(self.wanted, other.wanted),
            self.backfilling + other.backfilling,
        )

    def minus(self, other: Use) -> Use:
        """Return what is left without the other."""
        return Use(
            minus(self.held, other.held),
            minus(self.wanted, other.wanted),
            self.backfilling - other.backfilling,
        )


class UsesOfJobs:
    """The use of each job and each queue, updated job by job."""

    def __init__(self, view: SessionView) -> None:
        self._zero = view.dimensions.zero
        self._of_job: dict[str, tuple[str, Use]] = {}
        self._jobs: Counter[str] = Counter()
        """The number of jobs of each queue."""
        self.of_queue: dict[str, Use] = {}
        """The use of each queue that has jobs, by name."""
        for job in view.jobs.values():
            self._enter(job)

    def catch_up(self, changes: Changes) -> set[str]:
        """Update changed jobs; return the names of their queues."""
        touched: set[str] = set()
        for job in changes.jobs_gone:
            self._leave(job.uid, touched)
        for job in changes.jobs:
            self._leave(job.uid, touched)
            self._enter(job)
            if job.queue is not None:
                touched.add(job.queue.name)
        return touched

    def _enter(self, job: JobState) -> None:
        if job.queue is None:
            return
        name = job.queue.name
        use = Use(*use_of([job], self._zero), job.backfilling)
        self._of_job[job.uid] = name, use
        self._jobs[name] += 1
        known = self.of_queue.get(name)
        self.of_queue[name] = use if known is None else known.plus(use)

    def _leave(self, uid: str, touched: set[str]) -> None:
        known = self._of_job.pop(uid, None)
        if known is None:
            return
        name, use = known
        touched.add(name)
        self._jobs[name] -= 1
        if self._jobs[name]:
            self.of_queue[name] = self.of_queue[name].minus(use)
        else:
            del self._jobs[name], self.of_queue[name]


def use_of(jobs: Iterable[JobState], zero: Vector) -> tuple[Vector, Vector]:
    """Return what jobs hold, and what they want in addition."""
    held: dict[Vector, int] = {}
    wanted: dict[Vector, int] = {}
    for job in jobs:
        for task in job.tasks:
            if task.is_backfill:
                continue
            status = task.status
            if status.occupies:
                held[task.resreq] = held.get(task.resreq, 0) + 1
            elif status is TaskStatus.PENDING or status is TaskStatus.RESERVED:
                wanted[task.resreq] = wanted.get(task.resreq, 0) + 1
    return _total(held, zero), _total(wanted, zero)


def _total(counts: dict[Vector, int], zero: Vector) -> Vector:
    total = zero
    for vector, count in counts.items():
        total = plus(total, vector if count == 1 else tuple(amount * count for amount in vector))
    return total
