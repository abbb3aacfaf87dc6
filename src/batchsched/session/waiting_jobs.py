"""What reasons need of a job that waits, kept while the job stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchsched.model.reasons import PendingReason, WhyPending
from batchsched.state.records import TaskState

__all__ = ["NOT_CONSIDERED", "WaitingJob", "not_reached"]

NOT_CONSIDERED = PendingReason(
    WhyPending.NOT_CONSIDERED, detail="no action of the cycle came to it"
)


class WaitingJob:
    """The Pending tasks of a job in task order, and the reasons of those behind one that failed."""

    __slots__ = ("_behind", "_blocked_by", "asks_for_all", "uids")

    def __init__(self, pending: Sequence[TaskState]) -> None:
        self.uids = [task.uid for task in pending]
        """Their UIDs, in task order."""
        self.asks_for_all = not any(task.is_best_effort for task in pending)
        """Whether every one of them asks for something."""
        self._blocked_by: TaskState | None = None
        self._behind: Mapping[str, PendingReason] = {}

    def around(self, blocked_by: TaskState) -> Mapping[str, PendingReason]:
        """Return reasons of all, given which one found no place; its own is left to be said.

        O(1) if it was the same one the last time.
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
    """Return that tasks come after one that found no place."""
    name = blocked_by.info.display_name
    detail = f"task {name!r} of its job could not be placed before it"
    return PendingReason(WhyPending.NOT_REACHED, detail=detail)
