"""The plans of a session, for its result and for later actions."""

from __future__ import annotations

from typing import Protocol

from attrs import Factory, define

from batchsched.model.cluster import Plan
from batchsched.model.reasons import PendingReason
from batchsched.state.records import NodeState, TaskState

__all__ = ["Guard", "Plans"]


class Guard(Protocol):
    """Checks whether planned starts are still possible."""

    def allows(self, task: TaskState, node: NodeState, /) -> bool:
        """Return whether all plans still fit if a task runs on a node from now to its end."""
        ...


@define
class Plans:
    """The plans of a session."""

    made: dict[str, Plan] = Factory(dict[str, Plan])
    """The plans by UID of the job."""
    late: list[str] = Factory(list[str])
    """UIDs of jobs whose planned start is too late."""
    reasons: dict[str, PendingReason] = Factory(dict[str, PendingReason])
    """Why jobs wait that are planned or cannot be planned, by UID."""
    guard: Guard | None = None
    """Keeps tasks from delaying planned starts; None: there is nothing to check."""
