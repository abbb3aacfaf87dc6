"""Records what actions tried in a cycle, and the outcome, for pending reasons.

The records are read at the end of the cycle. No decision depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import Factory, define

from batchsched.model.reasons import GangNeed, PendingReason, QueueShare, Unfit, WhyPending
from batchsched.session.victims import EvictionSearch
from batchsched.state.records import TaskState

__all__ = ["NOT_CONSIDERED", "CycleReports", "WaitingJob", "not_reached"]


@define(eq=False)
class CycleReports:
    """What actions tried in one cycle, and the outcome."""

    unplaced: dict[str, TaskState] = Factory(dict)
    """Tasks that an action tried to place and could not, by UID."""
    rolled_back: dict[str, TaskState] = Factory(dict)
    """Tasks whose placement was rolled back, by UID."""
    asked_in_part: set[str] = Factory(set)
    """The UIDs of jobs whose turns ended before all of their tasks were tried."""
    refusals: dict[str, Unfit] = Factory(dict)
    """Why queues could last not accept tasks, by UID."""
    claim_refusals: dict[str, Unfit] = Factory(dict)
    """Why queues could not reclaim resources for tasks, by UID."""
    lacking_company: set[str] = Factory(set)
    """The UIDs of tasks that do not fit together although there is enough for one of them."""
    queues_overused: dict[str, QueueShare | None] = Factory(dict)
    """Queues that an action skipped because they were overused, by name, in that order.

    With what each deserved and had when it was first skipped, if a plugin knows.
    """
    eviction_searches: dict[tuple[str, str], EvictionSearch] = Factory(dict)
    """Failed searches for tasks to evict, by task and action."""

    def record_rollback(self, tasks: Iterable[TaskState]) -> None:
        """Record tasks whose placements are rolled back, as when a statement is discarded."""
        for task in tasks:
            self.rolled_back[task.uid] = task


NOT_CONSIDERED = PendingReason(
    WhyPending.NOT_CONSIDERED, detail="no action of the cycle considered it"
)


class WaitingJob:
    """What is known about a waiting job, valid while neither it nor any node changes."""

    __slots__ = ("_behind", "_blocked_by", "asks_for_all", "gang_need", "uids")

    def __init__(self, pending: Sequence[TaskState], gang_need: GangNeed | None) -> None:
        self.uids = [task.uid for task in pending]
        """Its Pending tasks, in task order."""
        self.asks_for_all = not any(task.is_best_effort for task in pending)
        """Whether all of them request resources."""
        self.gang_need = gang_need
        """What it needs at once, if it could not start even on an empty cluster."""
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
