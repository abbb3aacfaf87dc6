"""A turn that fails is made once more: the largest tasks first, or in reverse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from batchsched import JobInfo, TaskInfo
from tests.reference.session import Session
from tests.reference.shares import cluster_total, share

__all__ = ["in_another_order", "tried_twice"]


def tried_twice(
    session: Session,
    job: JobInfo,
    tasks: list[TaskInfo],
    attempt: Callable[[], bool],
    *,
    retries: bool,
) -> bool:
    """Make an attempt with the tasks left, which it takes out of the list; return what it does.

    If it fails, it is made once more with all of them in another order.
    """
    in_order = list(tasks)
    if session.statement(job, attempt):
        return True
    reordered = in_another_order(session, in_order)
    if not retries or reordered == in_order:
        return False
    tasks[:] = reordered
    is_kept = session.statement(job, attempt)
    left = {task.uid for task in tasks}
    tasks[:] = [task for task in session.to_place(job) if task.uid in left]
    return is_kept


def in_another_order(session: Session, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
    """Sort tasks by decreasing dominant share of the cluster, keeping the order of equals.

    Tasks of one size that are not alike are reversed.
    """
    if len({task.start_request for task in tasks}) == 1:
        alike = {
            (
                task.namespace,
                task.labels,
                task.node_selector,
                task.node_affinity,
                task.tolerations,
                task.pod_affinity,
                task.pod_anti_affinity,
                task.host_ports,
                task.claims,
            )
            for task in tasks
        }
        return list(tasks) if len(alike) == 1 else [*reversed(tasks)]
    total = cluster_total(session.state)

    def size(task: TaskInfo) -> float:
        return max(
            share(task.start_request.get(name), amount) for name, amount in total.dimensions()
        )

    return sorted(tasks, key=size, reverse=True)
