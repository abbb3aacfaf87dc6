"""A share per user inside the cycle: in each turn the user who holds least comes next.

A key of job order is computed again when the amounts of its job change. What a user holds changes
with all of the user's jobs, which `job_order_shares` declares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from attrs import frozen

from batchsched import Arguments
from batchsched.plugin import JobState, SessionView, TaskState


@frozen
class UserShare:
    """Ranks jobs by what their users hold of one dimension."""

    dimension: str = "cpu"

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> UserShare:
        """Read ``dimension``, such as ``nvidia.com/gpu``."""
        return cls(arguments.text("dimension", default="cpu"))

    def open(self, view: SessionView, /) -> OpenUserShare:
        """Open for one cycle."""
        return OpenUserShare(self.dimension, view)


class OpenUserShare:
    """Counts what users hold."""

    def __init__(self, dimension: str, view: SessionView) -> None:
        """Count what users hold as the cycle begins."""
        self._dimension = dimension
        self._held = Counter[str]()
        for task in view.tasks.values():
            if task.status.charged and not task.is_held:
                self.on_allocate(task)

    def job_order_key(self, job: JobState, /) -> float:
        """Return what the job's user holds."""
        return self._held[job.info.user]

    def job_order_shares(self, job: JobState, /) -> Hashable:
        """Return the job's user, whose other jobs are ranked anew, too."""
        return job.info.user

    def on_allocate(self, task: TaskState, /) -> None:
        """Charge a task to its user."""
        if task.job is not None:
            self._held[task.job.info.user] += int(task.info.resreq.get(self._dimension))

    def on_deallocate(self, task: TaskState, /) -> None:
        """Charge it no more."""
        if task.job is not None:
            self._held[task.job.info.user] -= int(task.info.resreq.get(self._dimension))
