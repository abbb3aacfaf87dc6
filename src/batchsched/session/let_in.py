"""Tasks that a queue was found to be able to take together, and so one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batchsched.state.records import JobState, TaskState

__all__ = ["LetIn"]


class LetIn:
    """Which tasks need not be asked about again, for their queue can take all that their job lacks.

    That holds as long as nothing is charged but what was let in with them.
    """

    __slots__ = ("_charged", "_charges", "_last", "_tasks")

    def __init__(self, charged: Sequence[JobState]) -> None:
        """Begin with nothing let in.

        Args:
            charged: the record of charges, to which each is appended.

        """
        self._charged = charged
        self._tasks: dict[TaskState, None] = {}
        self._last: TaskState | None = None
        self._charges = 0
        """How many there were when a task was let in last."""

    def replace(self, tasks: Iterable[TaskState]) -> None:
        """Let tasks in, and no others."""
        self._tasks = dict.fromkeys(tasks)
        self._last = None
        self._charges = len(self._charged)

    def take(self, task: TaskState) -> bool:
        """Return whether a task was let in, and it still holds; it is not any more afterwards."""
        if task not in self._tasks or task.is_backfill:
            return False
        charges = len(self._charged)
        if charges - self._charges > (self._last is not None and self._last.status.charged):
            self._tasks.clear()
            return False
        del self._tasks[task]
        self._last, self._charges = task, charges
        return True
