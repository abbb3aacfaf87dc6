"""Claims: what a queue may take back from others, stage by stage, and what its tasks lack.

A plugin that knows shares answers the extension point `batchsched.plugin.Claims` with a `Claim`;
the search for victims asks it which units of which nodes may go, and is asked in return what the
task still lacks (`Shortage`) and what protects a unit (`ClaimTerms`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from attrs import frozen

from batchsched.state.needs import Need
from batchsched.state.records import NodeState, SortKey, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector


class ClaimStage(IntEnum):
    """Which tasks may be evicted, in stages of increasing cost."""

    SURPLUS_BEYOND_SHARE = 1
    """Tasks that their jobs do not need and that are beyond their queues' fair shares."""
    BEYOND_SHARE = 2
    """Also replicas and whole jobs that are beyond their queues' fair shares."""
    ON_LOAN = 3
    """All tasks on loan."""
    ALL = 4
    """Also what fair shares cover, as far as it may be evicted."""

    @property
    def keeps_shares(self) -> bool:
        """Whether queues must hold their fair shares without what is evicted."""
        return self <= ClaimStage.BEYOND_SHARE


class Lack(NamedTuple):
    """Something that keeps a task from a node."""

    dimension: int
    queue: int | None
    """None: the task does not fit on the node. Else a queue, as its plugin numbers it, whose
    limit would be exceeded."""


@frozen(eq=False)
class ClaimTerms:
    """The conditions of a claim that do not depend on its plugin."""

    task_order_key: Callable[[TaskState], SortKey]
    """Ranks tasks; the task with the smallest key is the most valuable."""
    why_protected: Callable[[EvictionUnit], str]
    """Returns in a few words why a unit is protected, if it is."""
    protected_by: Callable[[EvictionUnit], str | None]
    """Returns what protects a unit from the claimant: a plugin, by name, or ``minRuntime``."""
    victim_key: Callable[[TaskState], SortKey] | None = None
    """Ranks tasks by what their evictions cost, too, where a plugin says that: of units that are
    equal in all but their ties, the one with the largest key leaves first. None: the ties count."""

    def is_evictable(self, unit: EvictionUnit) -> bool:
        """Return whether nothing protects a unit from the claimant."""
        return self.protected_by(unit) is None


class Shortage(Protocol):
    """What a task lacks on a node: room there, and what limits let its queue have."""

    def __call__(self, taken: Sequence[EvictionUnit], /) -> Collection[Lack]:
        """Return what the task lacks once some units are gone."""
        ...

    def may_end_with(self, units: Iterable[EvictionUnit], /) -> bool:
        """Return False if the task lacks something whichever of some units are gone."""
        ...

    def may_be_gone(self, units: Sequence[EvictionUnit], /) -> bool:
        """Return whether the node still accepts the task once some units are gone.

        A unit of which that is not so, alone or with those taken already, is passed over.
        """
        ...


class Claim(Protocol):
    """What a queue may reclaim for a need of one of its jobs, at the time of its creation.

    Few plugins need one: verdicts on single tasks (`Reclaimable`) say who may go, too. The page on
    writing plugins has the smallest claim.
    """

    def begin(self) -> None:
        """Begin a search; the following calls of `nodes_at` and `victims` belong to it."""
        ...

    def nodes_at(self, stage: ClaimStage, /) -> Collection[int]:
        """Return the indices of the nodes where there may be victims at a stage now.

        A stage without any is skipped. To return those of all nodes is always right.
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

        It may be more than any claim finds. Asked after `begin`.
        """
        ...

    def may_take(self, node: NodeState, stage: ClaimStage, /) -> Vector:
        """Return what the victims of this claim on a node hold there at most, in this search.

        To return `at_most` is always right.
        """
        ...

    def short_of_limits(self, need: Need, /) -> Collection[Lack]:
        """Return which limits forbid a need, after `need.leaving` have left."""
        ...

    def victims(
        self, node: NodeState, stage: ClaimStage, short: Shortage, /
    ) -> Sequence[EvictionUnit]:
        """Return the units to evict, in the order in which they were found.

        Nothing is short once all of them are gone. Empty: there are no such units.
        """
        ...

    def allows(self, units: Iterable[EvictionUnit], /) -> bool:
        """Return whether some of the units that `victims` returned may be taken without the others.

        They are in the order in which they were returned. Asked while none of them is evicted.
        """
        ...

    def why_not(
        self, node: NodeState, tasks: Sequence[TaskState], short: Shortage, /
    ) -> Sequence[str | None]:
        """Return, for each running task on a node, why it is not evicted for a task there now.

        None: it would be evicted, though all such tasks are not enough. Called at the end of the
        cycle, for reports, after `begin`.
        """
        ...
