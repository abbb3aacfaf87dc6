"""Units of eviction: what of a job is evicted together or not at all.

A job that needs several tasks at once loses all of its use with one of them. So the tasks that
it needs at least are one unit, its core; each further task is a unit by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from batchsched.model.status import TaskStatus
from batchsched.state.live_queue import SortKey
from batchsched.state.records import JobState, TaskState
from batchsched.state.vectors import Vector, plus

__all__ = ["EvictionUnit", "units_of"]


class EvictionUnit:
    """Tasks of a job that are evicted together or not at all, on whichever nodes."""

    __slots__ = (
        *("is_backfill", "is_core", "is_whole", "job", "size", "tasks", "value", "victims"),
    )

    def __init__(
        self,
        job: JobState,
        tasks: Sequence[TaskState],
        victims: Sequence[TaskState],
        value: tuple[int, SortKey],
    ) -> None:
        self.job = job
        self.tasks = tasks
        """The tasks that it consists of; all of them occupy nodes."""
        self.victims = victims
        """The tasks that go when it does: with a core, all that the job has."""
        self.value = value
        """The smaller, the more valuable: cores first, then its most valuable task."""
        self.is_core = value[0] == 0
        self.is_whole = all(task.status is TaskStatus.RUNNING for task in victims)
        """Whether all that would go is Running, so that nothing is left behind."""
        self.is_backfill = any(task.is_backfill for task in tasks)
        """Whether it uses what is promised to others."""
        size: Vector = (0,) * len(tasks[0].resreq)
        for task in tasks:
            if not task.is_backfill:
                size = plus(size, task.resreq)
        self.size = size
        """What its tasks hold together of what their queue is charged for."""

    def __repr__(self) -> str:
        kind = "core" if self.is_core else "surplus"
        return f"<{kind} of {self.job.uid}: {', '.join(task.uid for task in self.tasks)}>"


def units_of(
    job: JobState, task_order_key: Callable[[TaskState], SortKey], /
) -> list[EvictionUnit]:
    """Return the units of a job, the most valuable first. O(tasks log tasks).

    Its core is the first tasks in task order that occupy nodes, as many as its minimum asks for
    besides those that have succeeded; of a job that is not ready, all of them.
    """
    there = [task for task in job.tasks if task.status.occupies]
    if not there:
        return []
    if len(there) > 1:
        there.sort(key=task_order_key)
    needed = job.min_available - job.count(TaskStatus.SUCCEEDED)
    units: list[EvictionUnit] = []
    core, surplus = there[: max(0, needed)], there[max(0, needed) :]
    if core:
        units.append(EvictionUnit(job, core, there, (0, task_order_key(core[0]))))
    units += [EvictionUnit(job, (t,), (t,), (1, task_order_key(t))) for t in surplus]
    return units
