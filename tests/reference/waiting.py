"""The tasks that a job has to place in its turn: leaders before the workers near them."""

from __future__ import annotations

from collections.abc import Callable

from batchsched import TaskInfo
from tests.reference.session import Session

__all__ = ["Waiting"]


class Waiting:
    """Tasks to place in order; those set aside are tried again after each placement.

    Set aside is a task with required inter-pod affinity that no node accepts: one near which it
    wants to be may be of its own job, and not be placed yet.
    """

    def __init__(
        self, session: Session, tasks: list[TaskInfo], is_accepted: Callable[[TaskInfo], bool]
    ) -> None:
        self._session = session
        self._is_accepted = is_accepted
        self.tasks = tasks
        """Those to try next; the caller may take from them."""
        self.aside: list[TaskInfo] = []

    def set_aside(self, task: TaskInfo) -> bool:
        """Set a task that found no place aside, if it may find one later in the turn."""
        if task.pod_affinity is None or not task.pod_affinity.required or self._is_accepted(task):
            return False
        self.aside.append(task)
        return True

    def try_again(self) -> None:
        """Put what was set aside before all others, since a task was placed."""
        self.tasks[:0] = self._session.tiers.tasks_in_order(self.aside)
        self.aside.clear()
