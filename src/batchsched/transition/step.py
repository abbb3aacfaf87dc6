"""The arguments of `next_snapshot`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import frozen

from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.result import CycleResult
from batchsched.transition.events import Event

__all__ = ["Step"]


@frozen(kw_only=True)
class Step:
    """The arguments of `next_snapshot`, which can be iterated more than once.

    Their types have not been checked.
    """

    result: CycleResult | None
    now: float
    happened: Mapping[str, Iterable[str]]
    """The UIDs of tasks by the name of the argument, such as ``succeeded``."""
    replacement: Callable[[TaskInfo], TaskInfo | None]
    new_jobs: Iterable[JobInfo]
    removed_jobs: Iterable[str]
    nodes: Iterable[NodeInfo] | None
    queues: Iterable[Queue] | None
    other_tasks: Iterable[TaskInfo] | None
    keep_reservations: bool
    events: Iterable[Event]
