"""Claims: what a queue may reclaim, and from which tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Protocol

from attrs import frozen

from batchsched.state.needs import Need
from batchsched.state.records import NodeState, SortKey, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector

__all__ = ["Claim", "ClaimStage", "ClaimTerms", "Shortage"]


class ClaimStage(IntEnum):
    """Which tasks may be evicted, in stages of increasing cost."""

    SURPLUS_BEYOND_SHARE = 1
    """Tasks that their jobs do not need and that are beyond their queues' fair shares."""
    BEYOND_SHARE = 2
    """Also replicas and whole jobs that are beyond their queues' fair shares."""
    ALL = 3
    """All tasks that may be evicted."""


@frozen(eq=False)
class ClaimTerms:
    """The conditions of a claim that do not depend on its plugin."""

    task_order_key: Callable[[TaskState], SortKey]
    """Ranks tasks; the task with the smallest key is the most valuable."""
    protected_by: Callable[[EvictionUnit], str | None]
    """Returns what protects a unit from the claimant: a plugin, by name, or ``minRuntime``."""

    def is_evictable(self, unit: EvictionUnit) -> bool:
        """Return whether nothing protects a unit from the claimant."""
        return self.protected_by(unit) is None


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
    """What a queue may reclaim for a need of one of its jobs, at the time of its creation."""

    def nodes(self) -> Collection[int]:
        """Return the indices of the nodes where there may be victims now.

        Called before each search; the following calls of `nodes_at` and `victims` belong to this
        search.
        """
        ...

    def nodes_at(self, stage: ClaimStage, /) -> Collection[int]:
        """Return the indices of those of these nodes where there may be victims at a stage.

        A stage without any is skipped. To return all `nodes` is always right.
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
        """Return the dimensions in which limits forbid a need, after `need.leaving` have left."""
        ...

    def victims(
        self,
        node: NodeState,
        stage: ClaimStage,
        short: Shortage,
        /,
    ) -> Iterator[EvictionUnit]:
        """Yield the units to evict on a node, one by one, as long as the task is short.

        `short` is called with those that have been yielded.
        """
        ...

    def why_not(self, tasks: Sequence[TaskState], /) -> Sequence[str | None]:
        """Return, for each running task, a text why it is not a victim now; None: it may be.

        Called at the end of the cycle, for reports.
        """
        ...
