"""A turn that fails is made once more, with the largest tasks first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from batchsched import JobInfo, TaskInfo
from tests.reference.session import Session
from tests.reference.shares import cluster_total, share

__all__ = ["largest_first", "tried_twice"]


def tried_twice(
    session: Session,
    job: JobInfo,
    tasks: list[TaskInfo],
    attempt: Callable[[], bool],
    *,
    retries: bool,
) -> bool:
    """Make an attempt with the tasks left, which it takes out of the list; return what it does.

    If it fails, it is made once more with all of them by decreasing size.
    """
    in_order = list(tasks)
    if session.statement(job, attempt):
        return True
    by_size = largest_first(session, in_order)
    if not retries or by_size == in_order:
        return False
    tasks[:] = by_size
    is_kept = session.statement(job, attempt)
    left = {task.uid for task in tasks}
    tasks[:] = [task for task in session.to_place(job) if task.uid in left]
    return is_kept


def largest_first(session: Session, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
    """Sort tasks by decreasing dominant share of the cluster, keeping the order of equals."""
    total = cluster_total(session.state)

    def size(task: TaskInfo) -> float:
        return max(
            share(task.start_request.get(name), amount) for name, amount in total.dimensions()
        )

    return sorted(tasks, key=size, reverse=True)
