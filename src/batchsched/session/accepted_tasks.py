"""Tasks that a queue can accept together, and so also one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batchsched.state.records import JobState, TaskState

__all__ = ["AcceptedTasks"]


class AcceptedTasks:
    """The tasks that need no further check, as their queue can accept everything their job lacks.

    This is valid while nothing else is charged.
    """

    __slots__ = ("_charged", "_charges", "_last", "_tasks")

    def __init__(self, charged: Sequence[JobState]) -> None:
        """Create an empty set.

        Args:
            charged: the log of charges, to which each is appended.

        """
        self._charged = charged
        self._tasks: dict[TaskState, None] = {}
        self._last: TaskState | None = None
        self._charges = 0
        """The length of the log when a task was last taken."""

    def replace(self, tasks: Iterable[TaskState]) -> None:
        """Set the tasks."""
        self._tasks = dict.fromkeys(tasks)
        self._last = None
        self._charges = len(self._charged)

    def take(self, task: TaskState) -> bool:
        """Remove a task; return whether it was in the set and the set is still valid."""
        if task not in self._tasks or task.is_backfill:
            return False
        charges = len(self._charged)
        if charges - self._charges > (self._last is not None and self._last.status.charged):
            self._tasks.clear()
            return False
        del self._tasks[task]
        self._last, self._charges = task, charges
        return True
