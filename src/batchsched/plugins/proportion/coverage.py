"""Coverage: determines which tasks of a queue are covered by its deserved share.

A queue's tasks are covered in order of value as long as the share is sufficient. They are
covered in units: the first `min_available` tasks of a job together, and each further task by
itself; for a job with groups, the minima of its groups together, its replicas, and each further
task. Covered tasks are not reclaimed, so that resources claimed within a share cannot be
reclaimed again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from batchsched.model.resources import EPSILON
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, plus

__all__ = ["Coverage"]


class Coverage:
    """The covered tasks of one queue, recomputed when they may have changed."""

    __slots__ = (
        *("_changed", "_covered", "_deserved", "_in_task_order", "_is_stale", "_jobs"),
        *("_losses", "_queue", "_single", "_tasks_of", "_uncovered", "_unit_of", "_zero"),
    )

    def __init__(
        self,
        queue: QueueState,
        deserved: Sequence[float],
        zero: Vector,
        in_task_order: Callable[[Iterable[TaskState]], list[TaskState]],
        unit_of: Callable[[TaskState], EvictionUnit],
    ) -> None:
        self._queue = queue
        self._deserved = deserved
        self._zero = zero
        self._in_task_order = in_task_order
        self._unit_of = unit_of
        self._jobs: list[JobState] | None = None
        self._tasks_of: dict[str, list[TaskState]] = {}
        self._covered: dict[str, TaskState] | None = None
        """The covered tasks by UID; None: not computed yet."""
        self._is_stale = False
        self._losses = 0
        self._single: set[str] = set()
        """UIDs of tasks beyond a covered minimum that are not covered themselves."""
        self._uncovered: dict[str, Vector] = {}
        """For each job whose minimum is not covered, by UID, the used part of the share then."""
        self._changed: dict[str, JobState] = {}
        """Those of these jobs whose tasks were placed or evicted since."""

    def covers(self, task: TaskState) -> bool:
        """Return whether a task is covered. O(1), or O(tasks of the queue) after changes."""
        return task.uid in self.covered()

    def covered(self) -> Collection[str]:
        """Return the UIDs of the covered tasks. O(1), or O(tasks of the queue) after changes."""
        if self._covered is None or self._is_stale or (self._changed and not self._is_still_true()):
            self._find()
            assert self._covered is not None
        return self._covered.keys()

    @property
    def may_have_changed(self) -> bool:
        """Whether tasks were placed or evicted since the covered tasks were computed."""
        return self._is_stale or bool(self._changed)

    def take_losses(self) -> int:
        """Return how often tasks have lost their coverage since the last call.

        Tasks that no longer hold resources do not count.
        """
        if self._covered is not None and (self._is_stale or not self._is_still_true()):
            self._find()
        losses, self._losses = self._losses, 0
        return losses

    def came(self, task: TaskState) -> None:
        """Record that a task is charged to the queue."""
        if self._covered is None or task.is_backfill or not task.status.occupies:
            return
        job = task.job
        assert job is not None
        if job.uid in self._uncovered:
            self._changed[job.uid] = job
        elif task.uid not in self._single:
            self._is_stale = True

    def went(self, task: TaskState) -> None:
        """Record that a task is no longer charged to the queue."""
        if self._covered is None:
            return
        job = task.job
        assert job is not None
        if job.uid in self._uncovered:
            self._changed[job.uid] = job
        elif task.uid in self._covered or (job.groups is not None and task.uid not in self._single):
            self._is_stale = True

    def _is_still_true(self) -> bool:
        """Return whether the changes since the last computation make no difference.

        Uncovered tasks use nothing of the share, so that the eviction of one does not affect
        others. But a job's new minimum may be covered where the old one was not.
        """
        for job in self._changed.values():
            held = self._held_by(job)
            if held and self._reaches(
                self._uncovered[job.uid], self._sum(held[: job.min_available])
            ):
                return False
        self._changed.clear()
        return True

    def _find(self) -> None:
        if self._jobs is None:
            self._jobs = sorted(self._queue.jobs, key=_value)
        covered: dict[str, TaskState] = {}
        used = self._zero
        self._single.clear()
        self._uncovered.clear()
        self._changed.clear()
        for job in self._jobs:
            held = self._held_by(job)
            if job.groups is not None:
                used = self._cover_groups(held, used, covered)
                continue
            minimum = held[: job.min_available]
            together = self._sum(minimum)
            if not self._reaches(used, together):
                self._uncovered[job.uid] = used
                continue
            used = plus(used, together)
            covered.update((task.uid, task) for task in minimum)
            for task in held[job.min_available :]:
                if self._reaches(used, task.resreq):
                    used = plus(used, task.resreq)
                    covered[task.uid] = task
                else:
                    self._single.add(task.uid)
        if self._covered is not None and any(
            uid not in covered and task.status.occupies for uid, task in self._covered.items()
        ):
            self._losses += 1
        self._covered = covered
        self._is_stale = False

    def _cover_groups(
        self, held: list[TaskState], used: Vector, covered: dict[str, TaskState]
    ) -> Vector:
        """Cover the units of a job with groups; return the used part of the share."""
        units: dict[EvictionUnit, list[TaskState]] = {}
        for task in held:
            units.setdefault(self._unit_of(task), []).append(task)
        is_exposed = False
        for unit, tasks in sorted(units.items(), key=_value_of_unit):
            together = self._sum(tasks)
            if not is_exposed and self._reaches(used, together):
                used = plus(used, together)
                covered.update((task.uid, task) for task in tasks)
                continue
            is_exposed = is_exposed or unit.is_core
            if unit.is_surplus:
                self._single.add(tasks[0].uid)
        return used

    def _held_by(self, job: JobState) -> list[TaskState]:
        """Return the tasks of a job that hold resources, in task order."""
        if not job.ready_count:
            return []
        tasks = self._tasks_of.get(job.uid)
        if tasks is None:
            tasks = self._tasks_of[job.uid] = self._in_task_order(job.tasks)
        return [task for task in tasks if task.status.occupies and not task.is_backfill]

    def _sum(self, tasks: Iterable[TaskState]) -> Vector:
        together = self._zero
        for task in tasks:
            together = plus(together, task.resreq)
        return together

    def _reaches(self, used: Vector, more: Vector) -> bool:
        for there, amount, share in zip(used, more, self._deserved, strict=True):
            if amount > EPSILON and there + amount - share >= EPSILON:
                return False
        return True


def _value_of_unit(item: tuple[EvictionUnit, list[TaskState]]) -> tuple[object, ...]:
    return item[0].value


def _value(job: JobState) -> tuple[int, float, str]:
    return -job.info.priority, job.info.creation_time, job.uid
