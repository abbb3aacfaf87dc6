"""An index of the parts of a snapshot by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from attrs import frozen

from batchsched.errors import UnknownNameError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.validation.values import shown

__all__ = ["SnapshotIndex", "found"]

PartT = TypeVar("PartT")


@frozen
class SnapshotIndex:
    """The parts of a snapshot by name or UID."""

    jobs: Mapping[str, JobInfo]
    tasks: Mapping[str, TaskInfo]
    nodes: Mapping[str, NodeInfo]
    queues: Mapping[str, Queue]

    @classmethod
    def of(
        cls,
        *,
        jobs: Iterable[JobInfo],
        other_tasks: Iterable[TaskInfo],
        nodes: Iterable[NodeInfo],
        queues: Iterable[Queue],
    ) -> SnapshotIndex:
        """Index the parts of a snapshot. O(size)."""
        jobs = tuple(jobs)
        tasks = {task.uid: task for task in other_tasks}
        for job in jobs:
            tasks.update((task.uid, task) for task in job.tasks)
        return cls(
            {job.uid: job for job in jobs},
            tasks,
            {node.name: node for node in nodes},
            {queue.name: queue for queue in queues},
        )


def found(what: str, parts: Mapping[str, PartT], name: str) -> PartT:
    """Return the part with this name.

    Raises:
        UnknownNameError: there is none.

    """
    try:
        return parts[name]
    except (KeyError, TypeError):
        raise UnknownNameError(f"the snapshot has no {what} {shown(name)}") from None
