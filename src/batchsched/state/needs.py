"""Needs: the tasks that a job needs next, which are accepted or rejected as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby, islice

from attrs import frozen

from batchsched.state.group_needs import needed_tasks
from batchsched.state.groups import Counting
from batchsched.state.records import JobState, TaskState
from batchsched.state.vectors import Vector, plus

__all__ = ["Need", "need_of_job", "need_of_task"]


@frozen(eq=False)
class Need:
    """What a job needs next: the tasks that it lacks for its minimum, or its next task."""

    job: JobState
    tasks: tuple[TaskState, ...]
    """The tasks, in task order."""
    request: Vector
    """What they would hold together, by dimension."""
    dimensions: tuple[int, ...]
    """The dimensions in which `request` is not 0."""
    leaving: tuple[TaskState, ...] = ()
    """Tasks that would be evicted for them."""


def need_of_job(
    job: JobState, tasks: Collection[TaskState], counting: Counting = Counting.HOPED, /
) -> Need | None:
    """Return what a job needs next, given its tasks to place in task order.

    None if there is nothing to place. A job at its minimum needs one more task; another job needs
    as many as it lacks, or all that are left. For jobs with groups, and for `counting`, see
    `needed_tasks`.
    """
    if not tasks:
        return None
    if job.groups is not None:
        needed = needed_tasks(job.groups, tasks, counting)
        return _need(job, needed) if needed else None
    lacks = job.min_available - job.ready_count - job.waiting_count
    return _need(job, tuple(islice(tasks, max(1, lacks))))


def need_of_task(task: TaskState, /, *, leaving: Iterable[TaskState] = ()) -> Need:
    """Return the need of a single task, given the tasks that would be evicted for it."""
    assert task.job is not None
    return _need(task.job, (task,), tuple(leaving))


def _need(job: JobState, tasks: tuple[TaskState, ...], leaving: tuple[TaskState, ...] = ()) -> Need:
    first = tasks[0]
    if len(tasks) == 1 and not first.is_backfill:
        request = first.resreq
    else:
        request = (0,) * len(first.resreq)
        # Most tasks of a job have equal requests.
        for vector, alike in groupby(tasks, key=_charge):
            if vector is not None:
                count = len(list(alike))
                request = plus(
                    request, vector if count == 1 else tuple([a * count for a in vector])
                )
    dimensions = tuple([d for d, amount in enumerate(request) if amount > 0])
    return Need(job, tasks, request, dimensions, leaving)


def _charge(task: TaskState) -> Vector | None:
    """Return what the task's queue would be charged for; None: nothing."""
    return None if task.is_backfill else task.resreq
