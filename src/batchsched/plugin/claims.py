"""Claims: what a queue may take back from others, and from whom."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Protocol

from attrs import frozen

from batchsched.state.live_queue import SortKey
from batchsched.state.needs import Need
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector

__all__ = ["Claim", "ClaimStage", "ClaimTerms", "Shortage"]


class ClaimStage(IntEnum):
    """Who may be evicted, from what costs least to what costs most."""

    SURPLUS_BEYOND_SHARE = 1
    """Tasks that their jobs do not need and their queues have beyond their fair shares."""
    BEYOND_SHARE = 2
    """Those, and replicas and whole jobs that their queues have beyond their fair shares."""
    ALL = 3
    """All that may be evicted."""


@frozen(eq=False)
class ClaimTerms:
    """What holds for a claim besides what its plugin says."""

    task_order_key: Callable[[TaskState], SortKey]
    """Ranks tasks; the least is the most valuable."""
    kept_by: Callable[[EvictionUnit], str | None]
    """Returns what protects a unit from the claimant: a plugin, by name, or ``minRuntime``."""

    def may_go(self, unit: EvictionUnit) -> bool:
        """Return whether nothing protects a unit from the claimant."""
        return self.kept_by(unit) is None


class Shortage(Protocol):
    """What a task lacks on a node, of room and of what limits let its queue have."""

    def __call__(self, taken: Sequence[EvictionUnit], /) -> Collection[int]:
        """Return the dimensions in which the task is short once some units are gone."""
        ...

    def may_be(self) -> Collection[int]:
        """Return the dimensions in which it may be short, whoever is gone."""
        ...

    def may_end_with(self, units: Iterable[EvictionUnit], /) -> bool:
        """Return False if the task is short whichever of some units are gone."""
        ...


class Claim(Protocol):
    """What a queue may take back for a need of one of its jobs, as of when it was made."""

    def nodes(self) -> Collection[int]:
        """Return the indices of the nodes where there may be victims now.

        Called before each search for room; the next calls of `victims` belong to it.
        """
        ...

    @property
    def changes(self) -> Sequence[int]:
        """A record of the indices of nodes, appended to when `at_most` changes there.

        In one cycle it is the same for all claims.
        """
        ...

    def at_most(self, node: NodeState, stage: ClaimStage, /) -> Vector:
        """Return what all victims on a node hold there at most, whoever claims.

        It may be more than any claim finds. Asked after `nodes`.
        """
        ...

    def short_of_limits(self, need: Need, /) -> tuple[int, ...]:
        """Return the dimensions in which limits keep a need out, once `need.leaving` are gone."""
        ...

    def victims(
        self,
        node: NodeState,
        stage: ClaimStage,
        short: Shortage,
        /,
    ) -> Iterator[EvictionUnit]:
        """Yield whom to evict on a node, one after the other, as long as the task is short.

        `short` is called with those that have been yielded.
        """
        ...

    def why_not(self, tasks: Sequence[TaskState], /) -> Sequence[str | None]:
        """Return why each of some running tasks is not a victim now, in words; None: it may be.

        For the reasons, at the end of the cycle.
        """
        ...
