"""The rules of claims, which guarantee that reclaim terminates.

A queue claims only within its fair share, on every level up to where it reaches, and only
resources on loan are taken. So each claim increases what is covered of the claimant's queue, and
covered resources are never lost: the number of claims is finite in a cluster where nothing
arrives and nothing ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from attrs import define, field

from batchsched.plugin.extension_points import ClaimStage, Shortage
from batchsched.plugins.capacity.accounts import Accounts, Fullness, ProjectedAccounts, Share
from batchsched.plugins.capacity.loans import Loans
from batchsched.state.needs import Need
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector


@define(eq=False, kw_only=True)
class QueueClaim:
    """What a leaf may reclaim for a need; see `batchsched.plugin.extension_points.Claim`.

    It is valid while no queue on the leaf's path holds more than at its creation, except for
    the need itself.
    """

    accounts: Accounts
    loans: Loans
    leaf: int
    reach: Collection[int]
    """The queues on the leaf's path that would stay within their shares."""
    protected_by: Callable[[EvictionUnit], str | None]
    """Returns what protects a unit from the claimant, if anything."""
    dimensions: tuple[int, ...]
    """The dimensions of the need."""
    level: Fullness | None
    """The fullness of the leaf with the need, if it would exceed its share and levels."""
    _lenders: Mapping[int, Collection[int]] = field(
        init=False, factory=dict[int, "Collection[int]"]
    )
    """The leaves that may give anything in this search, and in which dimensions."""
    _sparing: Collection[int] = field(init=False, factory=set[int])
    """Those that may give something and still hold their shares."""
    _free: dict[EvictionUnit, bool] = field(init=False, factory=dict[EvictionUnit, bool])
    """Whether nothing protects a unit, as far as it was asked."""

    # Where

    def nodes(self) -> Collection[int]:
        """Return the indices of the nodes where there may be victims now.

        O(queues whose parents may give anything, and nodes).
        """
        lenders = lenders_above_shares(
            self.accounts, self.leaf, self.reach, siblings_alone=self.level is not None
        )
        for leaf in self.loans.backfilling:
            if leaf != self.leaf and self._chain(leaf) is not None:
                lenders[leaf] = range(len(self.accounts.held))  # backfill goes whatever is short
        self._lenders = lenders
        self._sparing = {leaf for leaf in lenders if self.loans.may_keep_share(leaf)}
        return self._nodes_of(lenders)

    def nodes_at(self, stage: ClaimStage, /) -> Collection[int]:
        """Return those of these nodes where there may be victims at a stage."""
        return self._nodes_of(self._leaves_at(stage))

    def _leaves_at(self, stage: ClaimStage) -> Collection[int]:
        return self._lenders if stage is ClaimStage.ALL else self._sparing

    def _nodes_of(self, leaves: Iterable[int]) -> Collection[int]:
        of_each = [self.loans.nodes(leaf) for leaf in leaves]
        return of_each[0] if len(of_each) == 1 else set[int]().union(*of_each)

    @property
    def changes(self) -> Sequence[int]:
        """The record of the indices of nodes where loans changed."""
        return self.loans.changes

    def at_most(self, node: NodeState, stage: ClaimStage, /) -> Vector:
        """Return what units on loan on a node hold there that may be evicted at a stage."""
        surplus, everything = self.loans.at_most(node)
        return surplus if stage is ClaimStage.SURPLUS_BEYOND_SHARE else everything

    def short_of_limits(self, need: Need, /) -> tuple[int, ...]:
        """Return the dimensions in which limits forbid a need, after `need.leaving` have left."""
        departure = self.accounts.once_gone(need.leaving) if need.leaving else None
        found = self.accounts.excesses(self.leaf, need.request, need.dimensions, departure)
        return tuple(dict.fromkeys(dimension for _, dimension, _, _ in found))

    # Whom

    def victims(
        self, node: NodeState, stage: ClaimStage, short: Shortage, /
    ) -> Iterator[EvictionUnit]:
        """Yield the units to evict on a node, one by one, as long as something is short.

        The next is always of the fullest queues, from the root down to a leaf, and there the
        least valuable unit on loan that helps.
        """
        candidates = self._candidates(node, stage, short)
        after = ProjectedAccounts(self.accounts)
        taken: list[EvictionUnit] = []
        while candidates and (dimensions := short(taken)):
            eligible: dict[int, EvictionUnit] = {}
            for leaf, units in candidates.items():
                unit = self._least_valuable(leaf, units, stage, dimensions, after)
                if unit is not None:
                    eligible[leaf] = unit
            if not eligible:
                return
            leaf = after.fullest(eligible, dimensions)
            unit = eligible[leaf]
            after.take(leaf, unit)
            taken.append(unit)
            candidates[leaf] = [each for each in candidates[leaf] if not after.has_taken(each)]
            yield unit

    def _candidates(
        self, node: NodeState, stage: ClaimStage, short: Shortage
    ) -> dict[int, list[EvictionUnit]]:
        """Return whom leaves may lose on a node, if all of that could be enough."""
        may_be_short = short.may_be()
        leaves = self._leaves_at(stage)
        candidates: dict[int, list[EvictionUnit]] = {}
        for leaf in self.loans.leaves_on(node):
            if leaf in leaves and any(d in self._lenders[leaf] for d in may_be_short):
                units = [
                    unit
                    for unit in self.loans.on_loan(leaf, node)
                    if (unit.is_surplus or unit.is_backfill or stage != _SURPLUS)
                    and self._is_free(unit)
                ]
                if units:
                    candidates[leaf] = units
        everyone = [unit for units in candidates.values() for unit in units]
        return candidates if everyone and short.may_end_with(everyone) else {}

    def _least_valuable(
        self,
        leaf: int,
        units: Sequence[EvictionUnit],
        stage: ClaimStage,
        dimensions: Collection[int],
        after: ProjectedAccounts,
    ) -> EvictionUnit | None:
        """Return the first unit of a leaf that may go and helps in the short dimensions, if any."""
        chain = self._chain(leaf)
        assert chain is not None
        above = [d for d in dimensions if all(after.is_above(queue, d) for queue in chain)]
        for unit in units:
            if unit.is_backfill:
                return unit
            size = after.size_of(unit)
            if (
                any(size[d] for d in above)
                and (stage is ClaimStage.ALL or after.keeps_share(leaf, size))
                and (self.level is None or self.level < after.fullness_without(leaf, size))
            ):
                return unit
        return None

    def _is_free(self, unit: EvictionUnit) -> bool:
        known = self._free.get(unit)
        if known is None:
            known = self._free[unit] = self.protected_by(unit) is None
        return known

    def _chain(self, leaf: int) -> tuple[int, ...] | None:
        """Return a leaf and its ancestors below the common ancestor; None: it is out of reach."""
        tree = self.accounts.tree
        mine, theirs = tree.branches(self.leaf, leaf)
        is_in_reach = mine in self.reach
        if self.level is not None:
            is_in_reach = mine == self.leaf and theirs == leaf
        path = tree.path(leaf)
        return path[: path.index(theirs) + 1] if is_in_reach else None

    # Why not

    def why_not(self, tasks: Sequence[TaskState], /) -> list[str | None]:
        """Return, for each running task, a text why it is not a victim now; None: it may be."""
        return [self._why_not(task) for task in tasks]

    def _why_not(self, task: TaskState) -> str | None:
        accounts, names = self.accounts, self.accounts.tree.names
        assert task.job is not None
        assert task.job.queue is not None
        assert task.node is not None
        leaf = accounts.tree.position[task.job.queue.name]
        chain = self._chain(leaf) if leaf != self.leaf else None
        if chain is None:
            return self._why_out_of_reach(leaf)
        unit = next((u for u in self.loans.on_loan(leaf, task.node) if task in u.victims), None)
        if unit is None:
            if any(task in each.tasks for each in self.loans.covered(leaf, Share.FAIR)):
                return f"covered by the fair share of queue {names[leaf]!r}"
            return "on loan, but some of the tasks that would leave with it are not running"
        if unit.is_backfill:
            return None
        left = [d for d in self.dimensions if unit.size[d]]
        if not left:
            return "holds nothing of the requested resources"
        for position in chain:
            above = [d for d in left if accounts.held[d][position] > accounts.share[d][position]]
            if not above:
                asked = ", ".join(accounts.dimensions[d] for d in left)
                queue = names[position]
                return f"of queue {queue!r}, which has no more than its fair share of {asked}"
            left = above
        if self.level is not None and self.level >= ProjectedAccounts(accounts).fullness_without(
            leaf, unit.size
        ):
            return f"queue {names[leaf]!r} would be no fuller than {names[self.leaf]!r} without it"
        keeper = self.protected_by(unit)
        return None if keeper is None else f"protected by {keeper}"

    def _why_out_of_reach(self, leaf: int) -> str:
        names = self.accounts.tree.names
        if leaf == self.leaf:
            return "of the queue that claims"
        if self.level is not None:
            return f"out of reach, as queue {names[self.leaf]!r} levels with its siblings alone"
        path = self.accounts.tree.path(self.leaf)
        first_beyond = next(position for position in path if position not in self.reach)
        return f"out of reach, as queue {names[first_beyond]!r} would exceed its fair share"


_SURPLUS = ClaimStage.SURPLUS_BEYOND_SHARE


def lenders_above_shares(
    accounts: Accounts, claimant: int, reach: Collection[int], *, siblings_alone: bool = False
) -> dict[int, Collection[int]]:
    """Return the leaves that may lose resources to a leaf, each with the dimensions concerned.

    A leaf may lose of a dimension only if it and all queues above it, up to where its path meets
    the claimant's, hold more of it than their shares. The search does not go below other queues:
    O(dimensions x children of the queues that are, and of those above the claimant).

    Args:
        accounts: what queues hold and are entitled to.
        claimant: the leaf that claims, by position.
        reach: the queues of its path that would stay within their shares.
        siblings_alone: whether only leaves beside the claimant count, whatever its reach.

    """
    tree, held, share = accounts.tree, accounts.held, accounts.share
    dimensions = range(len(held))
    found: dict[int, Collection[int]] = {}
    below: list[tuple[int, Collection[int]]] = []
    for position in (claimant,) if siblings_alone else tree.path(claimant):
        if siblings_alone or position in reach:
            parent = tree.parents[position]
            beside = tree.tops if parent < 0 else tree.children[parent]
            below += [(other, dimensions) for other in beside if other != position]
    while below:
        position, candidates = below.pop()
        above = [d for d in candidates if held[d][position] > share[d][position]]
        if not above:
            continue
        children = tree.children[position]
        if not children:
            found[position] = above
        elif not siblings_alone:
            below += [(child, above) for child in children]
    return found
