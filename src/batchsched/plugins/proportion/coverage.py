"""Coverage: which of the tasks of a queue its deserved share reaches.

What a queue holds is covered as far as its share reaches, the most valuable first. It
comes in units: of each job the first `min_available` tasks together, without which the
rest is of no use, and every further task by itself. What is covered is not reclaimed;
so who has claimed within the share cannot be made to give it back at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from batchsched.model.resources import EPSILON
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector, plus

__all__ = ["Coverage"]


class Coverage:
    """The covered tasks of one queue, found anew when something may have changed them."""

    __slots__ = (
        *("_changed", "_covered", "_deserved", "_in_task_order", "_jobs", "_minimum_of"),
        *("_queue", "_single", "_tasks_of", "_zero"),
    )

    def __init__(
        self,
        queue: QueueState,
        deserved: Sequence[float],
        zero: Vector,
        in_task_order: Callable[[Iterable[TaskState]], list[TaskState]],
    ) -> None:
        self._queue = queue
        self._deserved = deserved
        self._zero = zero
        self._in_task_order = in_task_order
        self._jobs: list[JobState] | None = None
        self._tasks_of: dict[str, list[TaskState]] = {}
        self._covered: set[str] | None = None
        self._single: set[str] = set()
        """UIDs of the tasks that are no part of a minimum and are not covered."""
        self._minimum_of: dict[str, list[TaskState]] = {}
        """UIDs of the tasks of minima that are not covered, to all tasks of the minimum."""
        self._changed: set[str] = set()
        """UIDs of such tasks that came or went since."""

    def covers(self, task: TaskState) -> bool:
        """Return whether the share reaches a task. O(1), or O(tasks of the queue) after changes."""
        if self._covered is None or not self._is_still_true():
            self._find()
            assert self._covered is not None
        return task.uid in self._covered

    def came(self, task: TaskState) -> None:
        """Take note that a task is charged to the queue."""
        if task.is_backfill or not task.status.occupies or task.uid in self._single:
            return
        if task.uid in self._minimum_of:
            self._changed.add(task.uid)
        else:
            self._covered = None

    def went(self, task: TaskState) -> None:
        """Take note that a task is charged to the queue no more."""
        if task.uid in self._minimum_of:
            self._changed.add(task.uid)
        elif self._covered is not None and task.uid in self._covered:
            self._covered = None

    def _is_still_true(self) -> bool:
        """Return whether all that came or went since makes no difference.

        What is not covered takes nothing from the share: if it goes, all else stays as it was.
        But what is left of a minimum could be covered where the whole was not.
        """
        for uid in self._changed:
            minimum = self._minimum_of[uid]
            there = sum(task.status.occupies for task in minimum)
            if there < len(minimum) and (there or self._holds_anything(minimum[0].job)):
                return False
        self._changed.clear()
        return True

    @staticmethod
    def _holds_anything(job: JobState | None) -> bool:
        assert job is not None
        return any(task.status.occupies and not task.is_backfill for task in job.tasks)

    def _find(self) -> None:
        if self._jobs is None:
            self._jobs = sorted(self._queue.jobs, key=_value)
        covered: set[str] = set()
        used = self._zero
        self._single.clear()
        self._minimum_of.clear()
        self._changed.clear()
        for job in self._jobs:
            held = self._held_by(job)
            minimum = held[: job.min_available]
            together = self._zero
            for task in minimum:
                together = plus(together, task.resreq)
            if not self._reaches(used, together):
                self._minimum_of.update(dict.fromkeys([task.uid for task in minimum], minimum))
                self._single.update(task.uid for task in held[job.min_available :])
                continue
            used = plus(used, together)
            covered.update(task.uid for task in minimum)
            for task in held[job.min_available :]:
                if self._reaches(used, task.resreq):
                    used = plus(used, task.resreq)
                    covered.add(task.uid)
                else:
                    self._single.add(task.uid)
        self._covered = covered

    def _held_by(self, job: JobState) -> list[TaskState]:
        """Return what a job holds, in task order."""
        if not job.ready_count:
            return []
        tasks = self._tasks_of.get(job.uid)
        if tasks is None:
            tasks = self._tasks_of[job.uid] = self._in_task_order(job.tasks)
        return [task for task in tasks if task.status.occupies and not task.is_backfill]

    def _reaches(self, used: Vector, more: Vector) -> bool:
        for there, amount, share in zip(used, more, self._deserved, strict=True):
            if amount > EPSILON and there + amount - share >= EPSILON:
                return False
        return True


def _value(job: JobState) -> tuple[int, float, str]:
    return -job.info.priority, job.info.creation_time, job.uid
