"""Data of waiting jobs for pending reasons, cached while a job does not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchsched.model.reasons import PendingReason, WhyPending
from batchsched.state.records import TaskState

__all__ = ["NOT_CONSIDERED", "WaitingJob", "not_reached"]

NOT_CONSIDERED = PendingReason(
    WhyPending.NOT_CONSIDERED, detail="no action of the cycle considered it"
)


class WaitingJob:
    """The Pending tasks of a job in task order, and their reasons if one could not be placed."""

    __slots__ = ("_behind", "_blocked_by", "asks_for_all", "uids")

    def __init__(self, pending: Sequence[TaskState]) -> None:
        self.uids = [task.uid for task in pending]
        """Their UIDs, in task order."""
        self.asks_for_all = not any(task.is_best_effort for task in pending)
        """Whether all of them request resources."""
        self._blocked_by: TaskState | None = None
        self._behind: Mapping[str, PendingReason] = {}

    def around(self, blocked_by: TaskState) -> Mapping[str, PendingReason]:
        """Return the reasons of all tasks, given the one that failed; its own is a placeholder.

        O(1) if it is the same task as in the last call.
        """
        if blocked_by is not self._blocked_by:
            self._blocked_by = blocked_by
            before = self.uids.index(blocked_by.uid) + 1
            self._behind = {
                **dict.fromkeys(self.uids[:before], NOT_CONSIDERED),
                **dict.fromkeys(self.uids[before:], not_reached(blocked_by)),
            }
        return self._behind


def not_reached(blocked_by: TaskState) -> PendingReason:
    """Return the reason that an earlier task could not be placed."""
    name = blocked_by.info.display_name
    detail = f"task {name!r} of its job could not be placed before it"
    return PendingReason(WhyPending.NOT_REACHED, detail=detail, behind_task=blocked_by.uid)
