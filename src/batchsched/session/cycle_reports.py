"""Records what actions tried in a cycle, and the outcome, for pending reasons.

The records are read at the end of the cycle. No decision depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from batchsched.model.reasons import GangNeed, PendingReason, QueueShare, Unfit, WhyPending
from batchsched.session.victims import EvictionSearch
from batchsched.state.records import JobState, TaskState

__all__ = ["NOT_CONSIDERED", "CycleReports", "OverusedQueues", "WaitingJob", "not_reached"]


class OverusedQueues:
    """The queues that an action skipped because they were overused, with their shares then."""

    __slots__ = ("_share_of", "_shares")

    def __init__(self, share_of: Callable[[str], QueueShare | None]) -> None:
        self._share_of = share_of
        self._shares: dict[str, QueueShare | None] = {}

    def add(self, name: str, /) -> None:
        """Record that a queue was skipped. Only the first time counts."""
        if name not in self._shares:
            self._shares[name] = self._share_of(name)

    def __contains__(self, name: str) -> bool:
        return name in self._shares

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queues, in the order in which they were skipped."""
        return tuple(self._shares)

    def share(self, name: str, /) -> QueueShare | None:
        """Return what the queue deserved and had then, if a plugin knows."""
        return self._shares.get(name)


class CycleReports:
    """What actions tried in one cycle, and the outcome."""

    __slots__ = (
        *("_asked_in_part", "_claim_refusals", "_refusals", "_rolled_back", "_unplaced"),
        "claim_refusals",
        *("_lacking_company", "lacking_company"),
        *("eviction_searches", "queues_overused", "refusals", "rolled_back", "unplaced"),
    )

    def __init__(self, share_of: Callable[[str], QueueShare | None]) -> None:
        """Create an empty record.

        Args:
            share_of: returns what a queue, by name, deserves and has now, if a plugin knows.

        """
        self._unplaced: dict[str, TaskState] = {}
        self.unplaced: Mapping[str, TaskState] = MappingProxyType(self._unplaced)
        """Tasks that an action tried to place and could not, by UID."""
        self._rolled_back: dict[str, TaskState] = {}
        self.rolled_back: Mapping[str, TaskState] = MappingProxyType(self._rolled_back)
        """Tasks whose placement was rolled back, by UID."""
        self._asked_in_part: set[str] = set()
        self._refusals: dict[str, Unfit] = {}
        self.refusals: Mapping[str, Unfit] = MappingProxyType(self._refusals)
        """Why queues could last not accept tasks, by UID."""
        self._claim_refusals: dict[str, Unfit] = {}
        self.claim_refusals: Mapping[str, Unfit] = MappingProxyType(self._claim_refusals)
        """Why queues could not reclaim resources for tasks, by UID."""
        self._lacking_company: dict[str, TaskState] = {}
        self.lacking_company: Mapping[str, TaskState] = MappingProxyType(self._lacking_company)
        """Tasks, by UID, that do not fit together although there is enough for one of them."""
        self.queues_overused = OverusedQueues(share_of)
        """Queues that an action skipped because they were overused, by name."""
        self.eviction_searches: dict[tuple[str, str], EvictionSearch] = {}
        """Failed searches for tasks to evict, by task and action."""

    def record_failure(self, task: TaskState) -> None:
        """Record that no node was found for a task."""
        self._unplaced[task.uid] = task

    def record_unasked(self, job: JobState) -> None:
        """Record that the turns of a job ended before all of its tasks were tried."""
        self._asked_in_part.add(job.uid)

    def asked_in_part(self, job: JobState) -> bool:
        """Return whether the turns of a job ended before all of its tasks were tried."""
        return job.uid in self._asked_in_part

    def record_refusal(self, task: TaskState, refusal: Unfit) -> None:
        """Record why a queue may not accept a task."""
        self._refusals[task.uid] = refusal

    def record_lack_of_company(self, tasks: Iterable[TaskState]) -> None:
        """Record tasks that do not fit together although there is enough for one of them."""
        for task in tasks:
            self._lacking_company[task.uid] = task

    def record_claim_refusal(self, tasks: Iterable[TaskState], refusal: Unfit) -> None:
        """Record why the queue of tasks may not reclaim resources for them."""
        for task in tasks:
            self._claim_refusals[task.uid] = refusal

    def record_rollback(self, tasks: Iterable[TaskState]) -> None:
        """Record tasks whose placements are rolled back, as when a statement is discarded."""
        for task in tasks:
            self._rolled_back[task.uid] = task

    def record_search(self, search: EvictionSearch) -> None:
        """Record a failed search for tasks to evict."""
        self.eviction_searches[search.task.uid, search.action] = search


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
