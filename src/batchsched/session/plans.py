"""What was planned in a session, for its result and for the actions that come later."""

from __future__ import annotations

from typing import Protocol

from attrs import Factory, define

from batchsched.model.reasons import PendingReason
from batchsched.model.timing import Plan
from batchsched.state.records import NodeState, TaskState

__all__ = ["Guard", "Plans"]


class Guard(Protocol):
    """Tells whether planned starts would still be possible."""

    def allows(self, task: TaskState, node: NodeState, /) -> bool:
        """Return whether all plans fit if a task is placed on a node now, until its end."""
        ...


@define
class Plans:
    """The plans of a session."""

    made: dict[str, Plan] = Factory(dict[str, Plan])
    """By UID of the job."""
    late: list[str] = Factory(list[str])
    """UIDs of jobs whose planned start is too late for them."""
    reasons: dict[str, PendingReason] = Factory(dict[str, PendingReason])
    """Why jobs wait that were planned, or cannot be, by UID."""
    guard: Guard | None = None
    """What nodes are closed to tasks by plans; None: none is."""
