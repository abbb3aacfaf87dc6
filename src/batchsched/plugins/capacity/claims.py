"""The rules of claims, which guarantee that reclaim terminates.

A queue claims by three rights: up to its fair share, up to what it deserves, and up to what it
deserves and can be met. It must stay within that on every level up to where it reaches, and takes
nothing that this share covers of others. So each claim within the fair share increases what is
covered of the claimant's queue, and nothing that is covered is lost; the number of claims is
finite in a cluster where nothing arrives and nothing ends.

A claim is one walk: always to the fullest queues, from the root down to a leaf, and there to the
least valuable unit that helps and that any right allows to take.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import le

from attrs import define, field, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import not_reclaimable
from batchsched.plugin.claims import ClaimStage, Lack, Shortage
from batchsched.plugins.capacity.accounts import (
    ROOT,
    Excess,
    Fullness,
    QueueAccounts,
    Share,
    fullness,
)
from batchsched.plugins.capacity.coverage import Coverage
from batchsched.state.needs import Need
from batchsched.state.records import NodeState, SortKey, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, minus, total_of


@frozen
class Right:
    """A right by which a queue claims."""

    within: Share
    """The share that the claimant's queues may not exceed."""
    leaves: tuple[Share, ...]
    """The shares that are left to others: what any of them covers is not taken."""
    above: tuple[Share, ...]
    """Only from queues is anything taken that hold more than each of these shares."""


FAIR = Right(Share.FAIR, (Share.FAIR,), (Share.FAIR,))
RIGHTS = (
    FAIR,
    Right(Share.NOMINAL, (Share.FAIR, Share.NOMINAL), (Share.FAIR, Share.NOMINAL)),
    Right(Share.MET, (Share.MET,), (Share.MET,)),
)
LEVELLING = Right(Share.FAIR, (Share.FAIR, Share.NOMINAL), (Share.FAIR,))
"""What a queue that levels with its siblings leaves to them; it is within no share itself."""

_TOLD = {FAIR: "fair", RIGHTS[1]: "deserved", RIGHTS[2]: "met", LEVELLING: "level"}
"""What a traced cycle calls rights."""

_COVERED = {
    Share.FAIR: "covered by the fair share of queue {queue}",
    Share.NOMINAL: "covered by what queue {queue} deserves",
    Share.MET: "covered by what queue {queue} deserves and can get",
}


class ProjectedAccounts:
    """What queues would hold once some units are evicted."""

    def __init__(self, accounts: QueueAccounts) -> None:
        """Create accounts without evicted units."""
        self._accounts = accounts
        self._gone: dict[str, TaskState] = {}
        """The tasks that would be gone, by UID."""
        self._jobs: set[str] = set()
        """The UIDs of their jobs."""
        self._less: dict[int, list[int]] = {}
        """By queue position and dimension, how much less would be held."""
        self._kept_changes: dict[int, Mapping[int, int]] = {}
        """By dimension, how much more would be kept by queues and for `ROOT`, until one is taken.
        """

    def take(self, leaf: int, unit: EvictionUnit) -> None:
        """Take off a unit of a leaf, with all tasks that are evicted with it."""
        size = self.size_of(unit)
        self._kept_changes.clear()
        self._gone.update((task.uid, task) for task in unit.victims)
        self._jobs.add(unit.job.uid)
        for position in self._accounts.tree.path(leaf):
            less = self._less.setdefault(position, [0] * len(size))
            for dimension, amount in enumerate(size):
                less[dimension] += amount

    def has_taken(self, unit: EvictionUnit) -> bool:
        """Return whether a unit's own tasks were taken off."""
        return unit.tasks[0].uid in self._gone

    def left_of(self, unit: EvictionUnit) -> Sequence[TaskState]:
        """Return the tasks that are evicted with a unit and were not taken off before."""
        if unit.job.uid not in self._jobs:
            return unit.victims
        return [task for task in unit.victims if task.uid not in self._gone]

    def size_of(self, unit: EvictionUnit) -> Sequence[int]:
        """Return how much less its queue would hold without a unit too."""
        if unit.job.uid not in self._jobs:
            return unit.size_of_victims
        left = [task.resreq for task in self.left_of(unit) if not task.is_backfill]
        return total_of(left, (0,) * len(unit.size))

    def held(self, position: int, dimension: int) -> int:
        """Return what a queue would hold."""
        less = self._less.get(position)
        held = self._accounts.held[dimension][position]
        return held if less is None else held - less[dimension]

    def kept(self, position: int, dimension: int) -> int:
        """Return what a queue would keep from others: what it holds or is guaranteed."""
        changes = self._kept_changes.get(dimension)
        if changes is None:
            changes = self._kept_changes[dimension] = self._changes_of_kept(dimension, {})
        return self._accounts.kept[dimension][position] + changes.get(position, 0)

    def _changes_of_kept(self, dimension: int, change: Mapping[int, int]) -> Mapping[int, int]:
        """Return how much more queues and `ROOT` would keep; `change`: what leaves get besides."""
        leaves = filter(self._accounts.tree.is_leaf, self._less)
        of_leaves = {leaf: change.get(leaf, 0) - self._less[leaf][dimension] for leaf in leaves}
        return dict(self._accounts.kept_changes(dimension, {**change, **of_leaves}))

    def is_above(self, queues: Iterable[int], dimension: int, shares: Iterable[Share]) -> bool:
        """Return whether each of some queues would still keep more than each of some shares."""
        amounts = [self._accounts.amounts(share)[dimension] for share in shares]
        return all(
            self.kept(queue, dimension) > of_all[queue] for queue in queues for of_all in amounts
        )

    def relieves_root(self, leaf: int, unit: EvictionUnit, dimension: int) -> bool:
        """Return whether, without a unit too, queues would keep less beyond the ceiling of all."""
        gone, ceiling = list(self._gone.values()), self._accounts.ceiling
        lower = ceiling(gone)[dimension] - ceiling([*gone, *self.left_of(unit)])[dimension]
        change = {leaf: -self.size_of(unit)[dimension]}
        before = self._changes_of_kept(dimension, {}).get(ROOT, 0)
        return before - self._changes_of_kept(dimension, change).get(ROOT, 0) > lower

    def keeps_share(self, leaf: int, size: Sequence[int]) -> bool:
        """Return whether a leaf would hold its share, in what a unit holds, without it too."""
        share = self._accounts.share
        return all(
            self.held(leaf, dimension) - amount >= share[dimension][leaf]
            for dimension, amount in enumerate(size)
            if amount
        )

    def fullness_without(self, leaf: int, size: Sequence[int]) -> Fullness:
        """Return how full a leaf would be without a unit too, in the fullest dimension."""
        share, total = self._accounts.share, self._accounts.total
        return fullness(
            (self.held(leaf, d) - amount, share[d][leaf], total[d]) for d, amount in enumerate(size)
        )

    def fullest(self, leaves: Iterable[int], dimensions: Collection[int]) -> int:
        """Walk down from the root to the leaf of the fullest queues, in some dimensions.

        Ties: the younger queue, then the later one in order of name.
        """
        accounts = self._accounts
        tree = accounts.tree
        paths = {leaf: tree.path(leaf) for leaf in leaves}
        step = 1
        while len(paths) > 1:
            branches = {path[-step] for path in paths.values()}
            best = max(branches, key=lambda position: self._rank(position, dimensions))
            paths = {leaf: path for leaf, path in paths.items() if path[-step] == best}
            step += 1
        return next(iter(paths))

    def _rank(self, position: int, dimensions: Collection[int]) -> tuple[Fullness, float, str]:
        share, total = self._accounts.share, self._accounts.total
        fullest = fullness(
            (self.held(position, d), share[d][position], total[d]) for d in dimensions
        )
        queue = self._accounts.tree.queues[position]
        return fullest, queue.creation_time, queue.name


@frozen
class _Walk:
    """The units that one walk has taken, in order."""

    taken: Sequence[EvictionUnit]
    lacks: Collection[Lack]
    """What is still short without them."""


@define(eq=False, kw_only=True)
class QueueClaim:
    """What a leaf may reclaim for a need; see `batchsched.plugin.extension_points.Claim`."""

    accounts: QueueAccounts
    coverage: Coverage
    leaf: int
    need: Need
    rights: Sequence[Right]
    """The rights that the leaf itself has for the need; none: it levels with its siblings."""
    protected_by: Callable[[EvictionUnit], str | None]
    """Returns what protects a unit from the claimant, if anything."""
    why_protected: Callable[[EvictionUnit], str]
    """Returns the same in a few words, if anything does."""
    victim_key: Callable[[TaskState], SortKey] | None = None
    """Ranks tasks by what their evictions cost, too; see `ClaimTerms`."""
    _pools: dict[tuple[int, ClaimStage], Mapping[int, Sequence[EvictionUnit]]] = field(
        init=False, factory=dict[tuple[int, ClaimStage], "Mapping[int, Sequence[EvictionUnit]]"]
    )
    """Whom leaves may lose, by node (-1: on any) and stage, as far as this search has asked."""
    _losing: Collection[int] = field(init=False, default=())
    """The leaves that may lose anything in this search."""
    _request: Vector = field(init=False, default=())
    """What the tasks of the need would hold that had no place yet when the search began."""
    _at_stage: dict[ClaimStage, Collection[int]] = field(
        init=False, factory=dict[ClaimStage, "Collection[int]"]
    )
    """Which of them may lose anything at a stage."""
    _nodes_of: dict[ClaimStage, Collection[int]] = field(
        init=False, factory=dict[ClaimStage, "Collection[int]"]
    )
    """The answers of `nodes_at` in this search."""
    _taken: dict[EvictionUnit, Sequence[Right]] = field(
        init=False, factory=dict[EvictionUnit, "Sequence[Right]"]
    )
    """The units that searches have found, with the rights by which they may be taken."""
    _open_to: dict[EvictionUnit, Sequence[Right]] = field(
        init=False, factory=dict[EvictionUnit, "Sequence[Right]"]
    )
    """The rights that do not leave a unit to its queue, as of the search that asked."""
    _keepers: dict[EvictionUnit, str | None] = field(
        init=False, factory=dict[EvictionUnit, "str | None"]
    )
    """What protects a unit, as far as it was asked."""
    _branches_to: dict[int, tuple[Sequence[int], Sequence[int]]] = field(
        init=False, factory=dict[int, "tuple[Sequence[int], Sequence[int]]"]
    )
    """The answers of `_branches`: the tree stays as it is."""

    @property
    def levels(self) -> bool:
        """Whether it claims by no right, but from siblings that are fuller."""
        return not self.rights

    # Where

    def begin(self) -> None:
        """Begin a search. O(queues whose parents may give anything)."""
        self._pools.clear()
        self._at_stage.clear()
        self._nodes_of.clear()
        self._open_to.clear()
        self._request = self._still_to_place()
        self._losing = self._may_lose()
        self.coverage.catch_up(self._losing)

    def nodes_at(self, stage: ClaimStage, /) -> Collection[int]:
        """Return the indices of the nodes where there may be victims at a stage. O(nodes)."""
        share = self._beyond(stage)
        if stage is ClaimStage.ALL and share is Share.FAIR:
            return ()  # it takes what the stage before has taken
        stage = max(stage, ClaimStage.BEYOND_SHARE)
        found = self._nodes_of.get(stage)
        if found is None:
            of_each = [self.coverage.nodes(leaf, share) for leaf in self._may_lose_at(stage)]
            found = of_each[0] if len(of_each) == 1 else set[int]().union(*of_each)
            self._nodes_of[stage] = found
        return found

    @property
    def changes(self) -> Sequence[int]:
        """The record of the indices of nodes where what is on loan changed."""
        return self.coverage.changes

    def at_most(self, node: NodeState, stage: ClaimStage, /) -> Vector:
        """Return what units on a node hold there that may be evicted at a stage."""
        if stage is not ClaimStage.ALL:
            return self.coverage.at_most(node, is_surplus=stage is ClaimStage.SURPLUS_BEYOND_SHARE)
        leaving = [task.resreq for task in node.tasks.values() if task.may_leave]
        return total_of(leaving, (0,) * len(node.allocatable))

    def may_take(self, node: NodeState, stage: ClaimStage, /) -> Vector:
        """Return what those of them hold there that leaves may lose to this claim."""
        if stage is ClaimStage.ALL:
            return self.at_most(node, stage)
        is_surplus = stage is ClaimStage.SURPLUS_BEYOND_SHARE
        return self.coverage.at_most(node, self._may_lose_at(stage), is_surplus=is_surplus)

    def short_of_limits(self, need: Need, /) -> Collection[Lack]:
        """Return which limits forbid a need, after `need.leaving` have left."""
        departure = self.accounts.once_gone(need.leaving) if need.leaving else None
        found = self.accounts.excesses(self.leaf, need.request, need.dimensions, departure)
        return [Lack(dimension, position) for position, dimension, _, _ in found]

    def _may_lose(self) -> Collection[int]:
        """Return the leaves that may lose anything; never too few."""
        tree = self.accounts.tree
        return [leaf for leaf in filter(tree.is_leaf, range(len(tree.names))) if leaf != self.leaf]

    def _may_lose_at(self, stage: ClaimStage) -> Collection[int]:
        stage = max(stage, ClaimStage.BEYOND_SHARE)  # in both stages up to it, shares are kept
        found = self._at_stage.get(stage)
        if found is None:
            found, coverage = self._losing, self.coverage
            if stage.keeps_shares:
                found = {leaf for leaf in found if coverage.may_keep_share(leaf)}
            elif stage is not ClaimStage.ALL:
                found = {leaf for leaf in found if coverage.may_have_on_loan(leaf)}
            self._at_stage[stage] = found
        return found

    def _beyond(self, stage: ClaimStage) -> Share:
        """Return the share such that what it covers is never taken at a stage."""
        if stage is ClaimStage.ALL and any(right.within is Share.MET for right in self.rights):
            return Share.MET
        return Share.FAIR

    # Whom

    def victims(
        self, node: NodeState, stage: ClaimStage, short: Shortage, /
    ) -> Sequence[EvictionUnit]:
        """Return the units to evict so that a task fits on a node; empty: there are none.

        If a walk ends short, it is repeated without the unit that it took first.
        """
        lacks = short(())
        everyone = self._everyone(node, stage, lacks)
        if not short.may_end_with(everyone):
            return ()
        everyone = list(filter(self._is_free, everyone))  # plugins are asked last: it costs most
        everyone = [unit for unit in everyone if short.may_be_gone((unit,))]
        if everyone and short.may_end_with(everyone):
            for walk in self._walks(node, stage, short, lacks, everyone):
                if not walk.lacks:
                    rights = self._open_to
                    self._taken.update((unit, rights.get(unit, self.rights)) for unit in walk.taken)
                    return walk.taken
        return ()

    def _walks(
        self,
        node: NodeState,
        stage: ClaimStage,
        short: Shortage,
        lacks: Collection[Lack],
        everyone: Sequence[EvictionUnit],
    ) -> Iterator[_Walk]:
        """Yield one walk after the other, until one takes nothing or not even all are enough.

        `lacks`: what is short before any.
        """
        left_out: set[str] = set()
        while (walk := self._walk(node, stage, short, lacks, left_out)).taken:
            yield walk
            if not left_out and short(everyone):
                # Under a lower ceiling for all queues, fewer may be enough although all are not.
                victims = {victim.uid: victim for unit in everyone for victim in unit.victims}
                if self.accounts.ceiling(list(victims.values())) == self.accounts.ceiling(()):
                    return
            left_out.add(walk.taken[0].tasks[0].uid)

    def _walk(
        self,
        node: NodeState,
        stage: ClaimStage,
        short: Shortage,
        lacks: Collection[Lack],
        left_out: Collection[str],
    ) -> _Walk:
        """Take one unit after the other, as long as something is short and any unit helps."""
        after = ProjectedAccounts(self.accounts)
        taken: list[EvictionUnit] = []
        while lacks:
            here = node if any(lack.queue is None for lack in lacks) else None
            eligible: dict[int, EvictionUnit] = {}
            for leaf, units in self._candidates(here, stage).items():
                for unit in units:
                    if (
                        unit.tasks[0].uid not in left_out
                        and not after.has_taken(unit)
                        and self._is_free(unit)
                        and self._may_take(leaf, unit, stage, node, lacks, after)
                        and short.may_be_gone((unit,))
                        and (not taken or short.may_be_gone((*taken, unit)))
                    ):
                        eligible[leaf] = unit
                        break
            if not eligible:
                break
            leaf = after.fullest(eligible, {lack.dimension for lack in lacks})
            taken.append(eligible[leaf])
            lacks = short(taken)
            if lacks:
                after.take(leaf, eligible[leaf])
        return _Walk(taken, lacks)

    def _may_take(
        self,
        leaf: int,
        unit: EvictionUnit,
        stage: ClaimStage,
        node: NodeState,
        lacks: Collection[Lack],
        after: ProjectedAccounts,
    ) -> bool:
        """Return whether a unit helps, after others were taken, and any right allows to take it."""
        if unit.is_backfill:  # it is charged to nobody
            return any(
                lack.queue is None and any(task.node is node for task in after.left_of(unit))
                for lack in lacks
            ) and any(self._reaches(right, leaf, after) for right in self.rights or (LEVELLING,))
        if stage.keeps_shares and not after.keeps_share(leaf, after.size_of(unit)):
            return False
        helped = {lack.dimension for lack in lacks if self._helps(leaf, unit, node, lack, after)}
        if not helped:
            return False
        chain = self._branches(leaf)[1]
        return any(
            self._reaches(right, leaf, after)
            and any(after.is_above(chain, d, right.above) for d in helped)
            for right in self._rights_to(leaf, unit)
        ) and not (self.levels and not self._is_emptier(leaf, unit, after))

    def _helps(
        self, leaf: int, unit: EvictionUnit, node: NodeState, lack: Lack, after: ProjectedAccounts
    ) -> bool:
        """Return whether evicting a unit relieves what is lacking."""
        d = lack.dimension
        if lack.queue is None:
            return any(task.resreq[d] for task in after.left_of(unit) if task.node is node)
        if lack.queue == ROOT:
            return after.relieves_root(leaf, unit, d)
        return bool(after.size_of(unit)[d]) and lack.queue in self.accounts.tree.path(leaf)

    def _rights_to(self, leaf: int, unit: EvictionUnit) -> Sequence[Right]:
        """Return the rights of the claimant that do not leave a unit to its queue."""
        known = self._open_to.get(unit)
        if known is None:
            known = self._open_to[unit] = [
                right
                for right in self.rights or (LEVELLING,)
                if not any(self.coverage.covers(leaf, unit, share) for share in right.leaves)
            ]
        return known

    def _reaches(self, right: Right, leaf: int, after: ProjectedAccounts) -> bool:
        """Return whether the claimant stays within a right on its own branch."""
        mine, theirs = self._branches(leaf)
        if self.levels:
            return len(mine) == len(theirs) == 1
        return not any(self._beyond_right(right, mine, after))

    def _beyond_right(
        self, right: Right, queues: Iterable[int], after: ProjectedAccounts
    ) -> Iterator[Excess]:
        """Yield by what queues on the claimant's path would exceed a right with the need."""
        most = self.accounts.amounts(right.within)
        for queue in queues:
            for d in self.need.dimensions:
                would_hold = after.held(queue, d) + self._request[d]
                if would_hold > most[d][queue]:
                    yield queue, d, would_hold, most[d][queue]

    def _is_emptier(self, leaf: int, unit: EvictionUnit, after: ProjectedAccounts) -> bool:
        """Return whether the claimant with its need is emptier than a leaf without a unit."""
        without = after.fullness_without(leaf, after.size_of(unit))
        return self.accounts.fullness(self.leaf, self._request) < without

    def _branches(self, leaf: int) -> tuple[Sequence[int], Sequence[int]]:
        """Return the queues from the claimant, and from another leaf, up to where they meet."""
        known = self._branches_to.get(leaf)
        if known is None:
            tree = self.accounts.tree
            mine, theirs = tree.branches(self.leaf, leaf)
            path, other = tree.path(self.leaf), tree.path(leaf)
            known = path[: path.index(mine) + 1], other[: other.index(theirs) + 1]
            self._branches_to[leaf] = known
        return known

    def _still_to_place(self) -> Vector:
        """Return what the tasks of the need would hold that have no place yet."""
        waiting = (task for task in self.need.tasks if task.status is TaskStatus.PENDING)
        charged = [task.resreq for task in waiting if not task.is_backfill]
        return total_of(charged, (0,) * len(self.need.request))

    def allows(self, units: Iterable[EvictionUnit], /) -> bool:
        """Return whether rights allow to take units that were found, in this order alone."""
        after = ProjectedAccounts(self.accounts)
        self._request = self._still_to_place()
        for unit in units:
            leaf, rights = self._leaf_of(unit), self._taken[unit]
            if not (self.levels or any(self._reaches(right, leaf, after) for right in rights)):
                return False
            after.take(leaf, unit)
        return True

    def rights_of(self, units: Iterable[EvictionUnit], /) -> Sequence[str]:
        """Return by which right each of some units that were found is taken, in this order."""
        after, told = ProjectedAccounts(self.accounts), list[str]()
        for unit in units:
            leaf = self._leaf_of(unit)
            rights, chain = self._taken[unit] or (LEVELLING,), self._branches(leaf)[1]
            used = (
                right
                for right in rights
                if self._reaches(right, leaf, after)
                and any(after.is_above(chain, d, right.above) for d in self.need.dimensions)
            )
            told.append(_TOLD[next(used, rights[0])])
            after.take(leaf, unit)
        return told

    def _leaf_of(self, unit: EvictionUnit) -> int:
        assert unit.job.queue is not None
        return self.accounts.tree.position[unit.job.queue.name]

    # Candidates

    def _candidates(
        self, node: NodeState | None, stage: ClaimStage
    ) -> Mapping[int, Sequence[EvictionUnit]]:
        """Return whom leaves may lose at a stage, on a node or on any: the least valuable first."""
        key = -1 if node is None else node.slot, stage
        pool = self._pools.get(key)
        if pool is None:
            share = self._beyond(stage)
            leaves = self._may_lose_at(stage)
            if node is not None and share is Share.FAIR:
                leaves = [leaf for leaf in self.coverage.leaves_on(node) if leaf in leaves]
            pool = self._pools[key] = {
                leaf: units for leaf in leaves if (units := self._units(leaf, node, stage, share))
            }
        return pool

    def _units(
        self, leaf: int, node: NodeState | None, stage: ClaimStage, share: Share
    ) -> Sequence[EvictionUnit]:
        beyond = self._in_victim_order(self.coverage.beyond(leaf, node, share))
        takes_jobs = stage is not ClaimStage.SURPLUS_BEYOND_SHARE
        if takes_jobs and any(right.leaves == (share,) for right in self.rights):
            return beyond
        return [
            unit
            for unit in beyond
            if unit.is_backfill or ((takes_jobs or unit.is_surplus) and self._rights_to(leaf, unit))
        ]

    def _in_victim_order(self, units: Sequence[EvictionUnit]) -> Sequence[EvictionUnit]:
        """Return units, given the least valuable first, with the cheapest of equals first."""
        key = self.victim_key
        if key is None:
            return units
        return sorted(units, key=lambda unit: (*unit.order[:2], key(unit.tasks[0])), reverse=True)

    def _is_free(self, unit: EvictionUnit) -> bool:
        return self._keeper_of(unit) is None

    def _keeper_of(self, unit: EvictionUnit) -> str | None:
        if unit not in self._keepers:
            self._keepers[unit] = self.protected_by(unit)
        return self._keepers[unit]

    def _everyone(
        self, node: NodeState, stage: ClaimStage, lacks: Collection[Lack]
    ) -> list[EvictionUnit]:
        """Return all candidates: those on a node, or on any where limits are short too.

        Some may be protected.
        """
        is_limited = any(lack.queue is not None for lack in lacks)
        pool = self._candidates(None if is_limited else node, stage)
        return [unit for units in pool.values() for unit in units]

    # Why not

    def why_not(
        self, node: NodeState, tasks: Sequence[TaskState], short: Shortage, /
    ) -> Sequence[str | None]:
        """Return why evicting tasks of a node does not help now; None: they would be evicted.

        It is the first reason that holds when the last walk has ended.
        """
        stage, lacks = ClaimStage.ALL, short(())
        walk = _Walk((), lacks)
        tried: set[str] = set()
        everyone = [
            unit
            for unit in self._everyone(node, stage, lacks)
            if self._is_free(unit) and short.may_be_gone((unit,))
        ]
        for walk in self._walks(node, stage, short, lacks, everyone):
            tried.update(victim.uid for unit in walk.taken for victim in unit.victims)
        after = ProjectedAccounts(self.accounts)
        for unit in walk.taken:
            after.take(self._leaf_of(unit), unit)
        return [
            None if task.uid in tried else self._why_not(task, node, walk.lacks, short, after)
            for task in tasks
        ]

    def _why_not(
        self,
        task: TaskState,
        node: NodeState,
        lacks: Collection[Lack],
        short: Shortage,
        after: ProjectedAccounts,
    ) -> str:
        assert task.job is not None
        assert task.job.queue is not None
        leaf = self.accounts.tree.position[task.job.queue.name]
        if leaf == self.leaf:
            return "of the queue that claims"
        unit = next(unit for unit in self.coverage.units_of(leaf, task.job) if task in unit.tasks)
        if not unit.is_whole:
            return "some of the tasks that would leave with it are not running"
        if task.job.queue.kept_by is not None:
            return not_reclaimable(task.job.queue.kept_by.name)
        if self._keeper_of(unit) is not None:
            return self.why_protected(unit)
        rights = self.rights or (LEVELLING,)
        if not unit.is_backfill:
            rights = self._rights_to(leaf, unit)
            if not rights:
                return self._why_covered(leaf, unit)
            rights, poor = self._rights_above(leaf, rights, lacks, after)
            if not rights:
                return poor
        if not any(self._reaches(right, leaf, after) for right in rights):
            return self._why_out_of_reach(leaf, rights[0], after)
        if not short.may_be_gone((unit,)):
            return "needed there by the task that claims"
        helps = any(self._helps(leaf, unit, node, lack, after) for lack in lacks)
        if helps and self.levels:
            names = self.accounts.tree.names
            return f"queue {names[leaf]!r} would be no fuller than {names[self.leaf]!r} without it"
        return "would not help"

    def _why_covered(self, leaf: int, unit: EvictionUnit) -> str:
        shares = (share for right in self.rights or (LEVELLING,) for share in right.leaves)
        share = next(share for share in shares if self.coverage.covers(leaf, unit, share))
        return _COVERED[share].format(queue=repr(self.accounts.tree.names[leaf]))

    def _rights_above(
        self,
        leaf: int,
        rights: Sequence[Right],
        lacks: Collection[Lack],
        after: ProjectedAccounts,
    ) -> tuple[Sequence[Right], str]:
        """Return the rights by which all queues of a leaf's branch have more than they are left.

        Only what is lacking counts; the text is that for the case that there are none.
        """
        chain = self._branches(leaf)[1]
        lacking = dict.fromkeys(lack.dimension for lack in lacks) or self.need.dimensions
        above = [
            right for right in rights if any(after.is_above(chain, d, right.above) for d in lacking)
        ]
        if above or not lacking:
            return above or rights, ""
        poor = {
            (queue, share): [d for d in lacking if not after.is_above((queue,), d, (share,))]
            for queue in chain
            for share in rights[0].above
        }
        # A share of which it has no more of all that is lacking explains most.
        queue, share = max(poor, key=lambda each: len(poor[each]))
        asked = ", ".join(self.accounts.dimensions[d] for d in poor[queue, share])
        name = self.accounts.tree.names[queue]
        return [], f"of queue {name!r}, which has no more than {share.value} of {asked}"

    def _why_out_of_reach(self, leaf: int, right: Right, after: ProjectedAccounts) -> str:
        if self.levels:
            name = self.accounts.tree.names[self.leaf]
            return f"out of reach, as queue {name!r} levels with its siblings alone"
        excess = next(self._beyond_right(right, self._branches(leaf)[0], after))
        return f"out of reach, as {self.accounts.told(excess).text(right.within.value)}"


@define(eq=False, kw_only=True)
class NarrowedClaim(QueueClaim):
    """Looks only at leaves that can lose something to the claim: the same answers, sooner."""

    def _may_lose(self) -> Collection[int]:
        share = self._beyond(ClaimStage.ALL)
        if self.levels:
            found = set(leaves_above(self.accounts, self.leaf, share, siblings_alone=True))
            in_reach = {self.leaf}
        else:
            found, in_reach = self._losing_in_reach(share)
        for leaf in self.coverage.backfilling:  # backfill goes whatever is short
            if leaf != self.leaf and self._branches(leaf)[0][-1] in in_reach:
                found.add(leaf)
        return found

    def _losing_in_reach(self, share: Share) -> tuple[set[int], set[int]]:
        """Return the leaves, and the queues on the claimant's path that may be in reach."""
        found, in_reach = set[int](), set[int]()
        rights, given = self.rights, (0,) * len(self._request)
        uncounted: list[int] = []  # leaves of which it is not yet in `given` what they may lose
        for position in self.accounts.tree.path(self.leaf):
            excess = {right: self._excess_of(right, position) for right in rights}
            if any(map(any, excess.values())):
                # What is taken first may bring queues above within reach.
                most = [self._most_of(leaf, share) for leaf in uncounted]
                given, uncounted = total_of([given, *most], given), []
                rights = [right for right in rights if all(map(le, excess[right], given))]
                if not rights:
                    break
            in_reach.add(position)
            losing = list(leaves_above(self.accounts, position, share))
            found.update(losing)
            uncounted += losing
        return found, in_reach

    def _most_of(self, leaf: int, share: Share) -> Vector:
        """Return the most that a leaf may lose, if what a share covers is left to it."""
        held: Vector = tuple([of_all[leaf] for of_all in self.accounts.held])
        return minus(held, self.coverage.covered_size(leaf)) if share is Share.FAIR else held

    def _excess_of(self, right: Right, position: int) -> Vector:
        """Return by how much a queue with the need would exceed what a right allows; 0: it fits."""
        most, held, request = self.accounts.amounts(right.within), self.accounts.held, self._request
        excess = [0] * len(request)
        for d in self.need.dimensions:
            excess[d] = max(0, held[d][position] + request[d] - most[d][position])
        return tuple(excess)


def leaves_above(
    accounts: QueueAccounts, position: int, share: Share, *, siblings_alone: bool = False
) -> Iterator[int]:
    """Yield the leaves below the siblings of a queue that may lose resources to it.

    A leaf may lose of a dimension only if it and all queues above it, up to that sibling, keep
    more of it than a share. The search does not go below other queues: O(dimensions x children of
    the queues that do).

    Args:
        accounts: what queues hold and are entitled to.
        position: the queue.
        share: the share.
        siblings_alone: whether only those siblings count that are leaves.

    """
    tree, most = accounts.tree, accounts.amounts(share)
    dimensions = range(len(most))
    parent = tree.parents[position]
    siblings = tree.tops if parent < 0 else tree.children[parent]
    below: list[tuple[int, Collection[int]]] = [
        (other, dimensions) for other in siblings if other != position
    ]
    while below:
        other, candidates = below.pop()
        above = [d for d in candidates if accounts.kept[d][other] > most[d][other]]
        if not above:
            continue
        children = tree.children[other]
        if not children:
            yield other
        elif not siblings_alone:
            below += [(child, above) for child in children]
