"""What a cycle records for its reasons: what was tried, and what came of it.

It is read when the cycle is over. No decision depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from batchsched.model.reasons import Unfit
from batchsched.model.shortage import QueueShare
from batchsched.session.eviction_search import EvictionSearch
from batchsched.state.records import JobState, TaskState

__all__ = ["CycleReports", "OverusedQueues"]


class OverusedQueues:
    """The queues that an action passed over because they were overused, and their shares then."""

    __slots__ = ("_share_of", "_shares")

    def __init__(self, share_of: Callable[[str], QueueShare | None]) -> None:
        self._share_of = share_of
        self._shares: dict[str, QueueShare | None] = {}

    def add(self, name: str, /) -> None:
        """Record that a queue was passed over. Only the first time counts."""
        if name not in self._shares:
            self._shares[name] = self._share_of(name)

    def __contains__(self, name: str) -> bool:
        return name in self._shares

    @property
    def names(self) -> tuple[str, ...]:
        """The queues by name, in the order in which they were passed over."""
        return tuple(self._shares)

    def share(self, name: str, /) -> QueueShare | None:
        """Return what the queue deserved and had then, if a plugin knows."""
        return self._shares.get(name)


class CycleReports:
    """What actions tried in one cycle, and what came of it."""

    __slots__ = (
        *("_asked_in_part", "_claim_refusals", "_refusals", "_rolled_back", "_unplaced"),
        "claim_refusals",
        *("_lacking_company", "lacking_company"),
        *("eviction_searches", "queues_overused", "refusals", "rolled_back", "unplaced"),
    )

    def __init__(self, share_of: Callable[[str], QueueShare | None]) -> None:
        """Begin with nothing.

        Args:
            share_of: what a queue of this name deserves and has now, if a plugin knows.

        """
        self._unplaced: dict[str, TaskState] = {}
        self.unplaced: Mapping[str, TaskState] = MappingProxyType(self._unplaced)
        """Tasks that an action tried to place and could not, by UID."""
        self._rolled_back: dict[str, TaskState] = {}
        self.rolled_back: Mapping[str, TaskState] = MappingProxyType(self._rolled_back)
        """Tasks that had a place in a turn that was undone, by UID."""
        self._asked_in_part: set[str] = set()
        self._refusals: dict[str, Unfit] = {}
        self.refusals: Mapping[str, Unfit] = MappingProxyType(self._refusals)
        """Why queues could not take tasks, by UID, when last asked."""
        self._claim_refusals: dict[str, Unfit] = {}
        self.claim_refusals: Mapping[str, Unfit] = MappingProxyType(self._claim_refusals)
        """Why queues could claim nothing for tasks, by UID."""
        self._lacking_company: dict[str, TaskState] = {}
        self.lacking_company: Mapping[str, TaskState] = MappingProxyType(self._lacking_company)
        """Tasks by UID that are more than there is together, though there is enough for one."""
        self.queues_overused = OverusedQueues(share_of)
        """Queues that an action passed over because they were overused, by name."""
        self.eviction_searches: dict[tuple[str, str], EvictionSearch] = {}
        """Searches for tasks to evict that came to nothing, by task and action."""

    def record_failure(self, task: TaskState) -> None:
        """Record that no place was found for a task."""
        self._unplaced[task.uid] = task

    def record_unasked(self, job: JobState) -> None:
        """Record that the turns of a job ended before it asked for all of its tasks."""
        self._asked_in_part.add(job.uid)

    def asked_in_part(self, job: JobState) -> bool:
        """Return whether the turns of a job ended before it asked for all of its tasks."""
        return job.uid in self._asked_in_part

    def record_refusal(self, task: TaskState, refusal: Unfit) -> None:
        """Record why queues may not take a task."""
        self._refusals[task.uid] = refusal

    def record_lack_of_company(self, tasks: Iterable[TaskState]) -> None:
        """Record tasks that are more than there is together, though there is enough for one."""
        for task in tasks:
            self._lacking_company[task.uid] = task

    def record_claim_refusal(self, tasks: Iterable[TaskState], refusal: Unfit) -> None:
        """Record why the queue of tasks may claim nothing for them."""
        for task in tasks:
            self._claim_refusals[task.uid] = refusal

    def record_rollback(self, tasks: Iterable[TaskState]) -> None:
        """Record tasks whose places are taken back; statements do so when they are discarded."""
        for task in tasks:
            self._rolled_back[task.uid] = task

    def record_search(self, search: EvictionSearch) -> None:
        """Record a search for tasks to evict that came to nothing."""
        self.eviction_searches[search.task.uid, search.action] = search
