"""Tasks that a queue can accept together, and so also one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchsched.state.records import JobState, TaskState

__all__ = ["AcceptedTasks"]


class AcceptedTasks:
    """The tasks that need no further check, as their queue can accept everything their job lacks.

    This is valid while nothing else is charged.
    """

    __slots__ = ("_charged", "_charges", "_last", "_others", "_rest")

    def __init__(self, charged: Sequence[JobState]) -> None:
        """Create an empty set.

        Args:
            charged: the log of charges, to which each is appended.

        """
        self._charged = charged
        self._rest: Iterator[TaskState] = iter(())
        """Those not looked at yet: they are mostly taken in order."""
        self._others: dict[TaskState, None] = {}
        """Those that others were taken before."""
        self._last: TaskState | None = None
        self._charges = 0
        """The length of the log when a task was last taken."""

    def replace(self, tasks: Sequence[TaskState]) -> None:
        """Set the tasks. O(1)."""
        self._rest = iter(tasks)
        self._others.clear()
        self._last = None
        self._charges = len(self._charged)

    def take(self, task: TaskState) -> bool:
        """Remove a task; return whether it was in the set and the set is still valid.

        O(1) for tasks in the order in which they were given.
        """
        if task.is_backfill:
            return False
        if task not in self._others:
            for other in self._rest:
                if other is task:
                    break
                self._others[other] = None
            else:
                return False
        charges = len(self._charged)
        if charges - self._charges > (self._last is not None and self._last.status.charged):
            self.replace(())
            return False
        self._others.pop(task, None)
        self._last, self._charges = task, charges
        return True
