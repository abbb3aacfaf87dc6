"""The rules of claims, which guarantee that reclaim terminates.

A queue claims only within its fair share, on every level up to where it reaches, and only
resources on loan are taken. So each claim increases what is covered of the claimant's queue, and
covered resources are never lost: the number of claims is finite in a cluster where nothing
arrives and nothing ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from attrs import field, frozen

from batchsched.plugin.claims import Claim, ClaimStage, ClaimTerms, Shortage
from batchsched.plugins.capacity.accounts import Accounts, Excess
from batchsched.plugins.capacity.lenders import lenders_above_shares
from batchsched.plugins.capacity.loans import LoanBook
from batchsched.plugins.capacity.projected_accounts import ProjectedAccounts
from batchsched.state.needs import Need
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector

__all__ = ["QueueClaim", "charged_to", "claim_for"]


def claim_for(
    need: Need,
    terms: ClaimTerms,
    *,
    accounts: Accounts,
    book: LoanBook,
    leaf: int,
    levels: bool,
) -> Claim | Excess:
    """Return what a leaf may reclaim for a need, or how it would exceed its fair share.

    Args:
        need: the need of a job in the leaf.
        terms: conditions that do not depend on this plugin.
        accounts: the shares and holdings of queues.
        book: what is covered and what is on loan.
        leaf: the queue of the job.
        levels: whether a leaf above its share may reclaim from siblings that are fuller.

    """
    reach: list[int] = []
    for position in accounts.tree.path(leaf):
        if not accounts.is_within_share(position, need.request, need.dimensions):
            break
        reach.append(position)
    if reach or levels:
        level = None if reach else accounts.fullness(leaf, need.request)
        return QueueClaim(
            accounts, book, leaf, frozenset(reach), terms.protected_by, need.dimensions, level
        )
    for dimension in need.dimensions:
        wanted = accounts.held[dimension][leaf] + need.request[dimension]
        if wanted > accounts.share[dimension][leaf]:
            return leaf, dimension, wanted, accounts.share[dimension][leaf]
    raise AssertionError("a leaf that is not within its share exceeds it in some dimension")


@frozen(eq=False)
class QueueClaim:
    """What a leaf may reclaim for a need; see `batchsched.plugin.claims.Claim`.

    It is valid while no queue on the leaf's path holds more than at its creation, except for
    the need itself.
    """

    accounts: Accounts
    book: LoanBook
    leaf: int
    reach: Collection[int]
    """The queues on the leaf's path that would stay within their shares."""
    protected_by: Callable[[EvictionUnit], str | None]
    """Returns what protects a unit from the claimant, if anything."""
    dimensions: tuple[int, ...]
    """The dimensions of the need."""
    level: float | None = None
    """The fullness of the leaf with the need, if it would exceed its share and levels."""
    _lenders: dict[int, Collection[int]] = field(init=False, factory=dict[int, "Collection[int]"])
    """The leaves that may give anything in this search, and of what."""
    _hopeless: set[int] = field(init=False, factory=set[int])
    """The indices of nodes where evicting everything allowed is not enough, in this search."""
    _chains: dict[int, tuple[int, ...] | None] = field(
        init=False, factory=dict[int, "tuple[int, ...] | None"]
    )
    _may_go: dict[EvictionUnit, bool] = field(init=False, factory=dict[EvictionUnit, bool])

    def nodes(self) -> Collection[int]:
        """Return the indices of the nodes where there may be victims now.

        O(queues whose parents may give anything, and nodes).
        """
        self._lenders.clear()
        self._lenders.update(self._find_lenders())
        self._hopeless.clear()
        return self._nodes_of(self._lenders)

    def nodes_at(self, stage: ClaimStage, /) -> Collection[int]:
        """Return those of these nodes where there may be victims at a stage.

        Before the last stage only leaves that may lose a unit and still hold their shares count.
        """
        if stage is ClaimStage.ALL:
            return self._nodes_of(self._lenders)
        return self._nodes_of(filter(self.book.may_keep_share, self._lenders))

    def _nodes_of(self, leaves: Iterable[int]) -> Collection[int]:
        of_each = [self.book.nodes(leaf) for leaf in leaves]
        return of_each[0] if len(of_each) == 1 else set[int]().union(*of_each)

    def _find_lenders(self) -> Mapping[int, Collection[int]]:
        """Return the leaves within reach that have something to give, and of what."""
        found = lenders_above_shares(
            self.accounts, self.leaf, self.reach, siblings_alone=self.level is not None
        )
        for leaf in self.book.backfilling:
            if leaf != self.leaf and self._chain(leaf) is not None:
                found[leaf] = ()  # what it has of backfill may go whatever is short
        return found

    @property
    def changes(self) -> Sequence[int]:
        """The record of the indices of nodes where loans changed."""
        return self.book.index.changes

    def at_most(self, node: NodeState, stage: ClaimStage, /) -> Vector:
        """Return what units on loan on a node hold there that may be evicted at a stage."""
        return self.book.at_most(node)[stage - 1]

    def short_of_limits(self, need: Need, /) -> tuple[int, ...]:
        """Return the dimensions in which limits forbid a need, after `need.leaving` have left."""
        leaving = charged_to(self.accounts, need.leaving)
        found = self.accounts.excesses(self.leaf, need.request, need.dimensions, leaving)
        return tuple([dimension for _, dimension, _, _ in found])

    def victims(
        self, node: NodeState, stage: ClaimStage, short: Shortage, /
    ) -> Iterator[EvictionUnit]:
        """Yield the units to evict on a node, one by one, as long as something is short."""
        if node.index in self._hopeless:
            return
        with_cores = stage is not ClaimStage.SURPLUS_BEYOND_SHARE
        candidates = self._candidates(node, short.may_be(), with_cores=with_cores)
        if not candidates or not short.may_end_with(
            unit for units in candidates.values() for unit in units
        ):
            if with_cores:
                self._hopeless.add(node.index)
            return
        if stage is not ClaimStage.ALL:
            may_keep = self.book.may_keep_share
            candidates = {leaf: units for leaf, units in candidates.items() if may_keep(leaf)}
        after = ProjectedAccounts(self.accounts)
        taken: list[EvictionUnit] = []
        while candidates and (dimensions := short(taken)):
            eligible: dict[int, EvictionUnit] = {}
            for leaf, units in candidates.items():
                victim = self._least_valuable(leaf, units, dimensions, after, stage)
                if victim is not None:
                    eligible[leaf] = victim
            if not eligible:
                return
            leaf = after.fullest(eligible, dimensions)
            unit = eligible[leaf]
            after.take(leaf, unit)
            taken.append(unit)
            candidates[leaf] = [u for u in candidates[leaf] if not after.has_taken(u)]
            yield unit

    def _candidates(
        self, node: NodeState, dimensions: Collection[int], *, with_cores: bool
    ) -> dict[int, list[EvictionUnit]]:
        """Return whom leaves that may give anything in some dimensions may lose on a node."""
        candidates: dict[int, list[EvictionUnit]] = {}
        for leaf in self.book.index.leaves_on(node.index):
            given = self._lenders.get(leaf)
            if given is None or (given and not any(d in given for d in dimensions)):
                continue
            units = [
                unit
                for unit in self.book.on_loan(leaf, node)
                if (unit.is_backfill or unit.is_surplus or with_cores) and self._is_free(unit)
            ]
            if units:
                candidates[leaf] = units
        return candidates

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
        unit = next((u for u in self.book.on_loan(leaf, task.node) if task in u.victims), None)
        if unit is None:
            if self.book.covers(leaf, task):
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

    def _least_valuable(
        self,
        leaf: int,
        units: Sequence[EvictionUnit],
        dimensions: Collection[int],
        after: ProjectedAccounts,
        stage: ClaimStage,
    ) -> EvictionUnit | None:
        """Return the first unit that is a victim in the short dimensions, if any."""
        chain = self._chain(leaf)
        assert chain is not None
        above = [d for d in dimensions if all(after.is_above(queue, d) for queue in chain)]
        for unit in units:
            if unit.is_backfill or (
                any(after.size_of(unit)[d] for d in above)
                and self._is_at_stage(leaf, unit, after, stage)
            ):
                return unit
        return None

    def _is_at_stage(
        self, leaf: int, unit: EvictionUnit, after: ProjectedAccounts, stage: ClaimStage
    ) -> bool:
        size = after.size_of(unit)
        if stage is not ClaimStage.ALL and not after.keeps_share(leaf, size):
            return False
        return self.level is None or self.level < after.fullness_without(leaf, size)

    def _is_free(self, unit: EvictionUnit) -> bool:
        known = self._may_go.get(unit)
        if known is None:
            known = self._may_go[unit] = self.protected_by(unit) is None
        return known

    def _chain(self, leaf: int) -> tuple[int, ...] | None:
        """Return a leaf and its ancestors below the common ancestor; None: it is out of reach."""
        if leaf not in self._chains:
            tree = self.accounts.tree
            mine, theirs = tree.branches(self.leaf, leaf)
            path = tree.path(leaf)
            if self.level is None:
                is_in_reach = mine in self.reach
            else:
                is_in_reach = mine == self.leaf and theirs == leaf
            self._chains[leaf] = path[: path.index(theirs) + 1] if is_in_reach else None
        return self._chains[leaf]


def charged_to(accounts: Accounts, tasks: Iterable[TaskState]) -> Iterator[tuple[int, Vector]]:
    """Yield the leaf and the amount charged for each task that is charged to a leaf."""
    for task in tasks:
        if not task.is_backfill and task.job is not None and task.job.queue is not None:
            yield accounts.tree.position[task.job.queue.name], task.resreq
