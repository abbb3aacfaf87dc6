"""The plugin capacity: the order and the limits of queues in a tree, and what each got.

Preempt never evicts, within a queue, what a share covers for what it would not cover. Otherwise a
preemption could put something on loan in the place of what is covered, a claim of another queue
could evict that, and so on for ever. With this rule each preemption for what a share covers makes
more, or more valuable, things covered, as claims do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from enum import IntEnum
from fractions import Fraction
from functools import partial, reduce
from itertools import compress, count
from operator import mul, ne

from attrs import define, evolve, field, frozen

from batchsched.causes import UnfitReason
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import (
    QueueExcess,
    Unfit,
    claims_no_backfill,
    minimum_on_loan,
    over_limit,
    over_share,
)
from batchsched.model.resources import Resource
from batchsched.model.result import QueueOutcome, QueueOutcomes
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.extension_points import Changes, Verdict
from batchsched.plugin.node_functions import EvictionHints
from batchsched.plugin.queues import QueueTree, QueueUses, reserved_tasks
from batchsched.plugin.session_view import SessionView
from batchsched.plugins.capacity.accounts import (
    EMPTY,
    ROOT,
    Ceiling,
    Excess,
    QueueAccounts,
    Share,
    use_of,
)
from batchsched.plugins.capacity.claims import FAIR, RIGHTS, NarrowedClaim, QueueClaim
from batchsched.plugins.capacity.coverage import Coverage, RememberedCoverage, by_value
from batchsched.plugins.capacity.supply import RememberedSupply, Supply
from batchsched.state.groups import Counting
from batchsched.state.needs import Need, needed_tasks, tasks_lacking
from batchsched.state.records import JobState, QueueState, SortKey, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.units import EvictionUnit, unit_once_placed
from batchsched.state.vectors import Vector, minus, plus, total_of

_Rows = tuple[list[int], ...]
"""The inputs of outcomes, as rows with a number for each position."""


class OutcomesOfQueues:
    """Computes the outcomes of queues in each cycle, and reuses those that have not changed."""

    def __init__(self, resource: Callable[[Vector], Resource]) -> None:
        self._resource = resource
        self._told = QueueOutcomes()
        self._rows: _Rows = ()
        self._promised: Mapping[int, Vector] = {}
        self._covered: list[Vector] = []
        """The covered amount of each queue."""
        self._present: list[Vector] = []
        """The amount that each queue holds on nodes."""
        self._above: set[int] = set()
        """The leaves that exceed their shares."""

    def outcomes(
        self, accounts: QueueAccounts, coverage: Coverage, promised: Mapping[int, Vector]
    ) -> QueueOutcomes:
        """Return the outcome of each queue, by name.

        O(queues x dimensions) to find those that have changed, plus the units of leaves that
        exceed their shares where they are not known yet: everything within a share is covered.

        Args:
            accounts: the shares and holdings of queues, of the same tree each time.
            coverage: what is covered.
            promised: what leaves are charged for that is not yet on nodes, by position.

        """
        tree = accounts.tree
        rows = tuple(map(list, (*accounts.share, *accounts.held, *accounts.guarantee)))
        if not self._rows:
            zero: Vector = (0,) * len(accounts.held)
            self._covered = [zero for _ in tree.names]
            self._present = [zero for _ in tree.names]
            changed = set(range(len(tree.names)))
        else:
            changed = _differing(self._rows, rows)
        self._rows = rows
        looked_at = changed | self._above | self._promised.keys() | promised.keys()
        self._promised = promised
        for leaf in list(looked_at):
            if not tree.children[leaf]:
                self._look_at(leaf, accounts, coverage, promised.get(leaf))
            looked_at.update(tree.path(leaf))
        inner = [position for position in looked_at if tree.children[position]]
        for position in sorted(inner, key=lambda position: -len(tree.path(position))):
            children = tree.children[position]
            self._covered[position] = reduce(plus, [self._covered[each] for each in children])
            self._present[position] = reduce(plus, [self._present[each] for each in children])
        new: dict[str, QueueOutcome] = {}
        for position in sorted(looked_at):  # in order of name, like all of them the first time
            outcome = self._outcome(accounts, position)
            name = tree.names[position]
            if self._told.get(name) != outcome:
                new[name] = outcome
        if new:
            self._told = QueueOutcomes({**self._told, **new})
        return self._told

    def _look_at(
        self, leaf: int, accounts: QueueAccounts, coverage: Coverage, promised: Vector | None
    ) -> None:
        held: Vector = tuple([of_all[leaf] for of_all in accounts.held])
        self._above.discard(leaf)
        if not any(held):
            self._covered[leaf] = self._present[leaf] = (0,) * len(held)
            return
        there = held if promised is None else minus(held, promised)
        self._present[leaf] = there
        if accounts.is_covered(leaf):
            self._covered[leaf] = there
        else:
            self._above.add(leaf)
            self._covered[leaf] = coverage.covered_size(leaf)

    def _outcome(self, accounts: QueueAccounts, position: int) -> QueueOutcome:
        resource, queue = self._resource, accounts.tree.queues[position]
        covered = self._covered[position]
        share, held, guarantee = (
            tuple([of_all[position] for of_all in rows])
            for rows in (accounts.share, accounts.held, accounts.guarantee)
        )
        # Of what no node has nothing can be kept free, whether or not anybody has asked for it.
        guarantee = tuple(map(mul, guarantee, map(bool, accounts.total)))
        return QueueOutcome(
            parent=queue.parent,
            fair_share=resource(share),
            allocated=resource(held),
            guarantee=resource(guarantee),
            limit=queue.limit,
            covered=resource(covered),
            on_loan=resource(minus(self._present[position], covered)),
        )


def _differing(before: _Rows, now: _Rows) -> set[int]:
    """Return the positions at which any of the rows differ."""
    found: set[int] = set()
    for old, new in zip(before, now, strict=True):
        if old != new:
            found.update(compress(count(), map(ne, old, new)))
    return found


class Rank(IntEnum):
    """Which share of its queue covers a unit; the lowest is the best."""

    FAIR = 0
    """Its fair share does."""
    NOMINAL = 1
    """What it deserves does."""
    ON_LOAN = 2
    """Neither does."""


@frozen
class Standing:
    """What covers a unit that is there, or one that waits once it is placed."""

    rank: Rank
    is_met: bool
    """Whether it is covered by what its queue deserves and can get."""
    order: tuple[int, int, SortKey]
    """Its place in value order; see `EvictionUnit.order`."""
    is_needed: bool = False
    """Whether its job needs it to run at all."""

    def may_replace(self, other: Standing) -> bool:
        """Return whether a unit that waits may take the place of another of its queue."""
        if other.is_met and not self.is_met:
            return False
        if self.rank != other.rank:
            return self.rank < other.rank
        return self.rank is Rank.ON_LOAN or self.order < other.order


def needed_unit(view: SessionView, claimant: TaskState) -> EvictionUnit:
    """Return the unit that a task would be in with what its job needs next.

    The job needs the task, and as many others as it lacks with that one to start, or to complete
    the replica that the task enters.
    """
    job = claimant.job
    assert job is not None
    others = view.in_task_order(
        task
        for task in job.having(TaskStatus.PENDING)
        if task is not claimant and not task.is_best_effort
    )
    needed: Sequence[TaskState] = ()
    if job.groups is None:
        lacks = 1 if job.has_minimum() else job.lacks(Counting.PROMISED)
        needed = others[: max(1, lacks) - 1]
    elif not job.has_minimum():
        needed = needed_tasks(job.groups, [claimant, *others])
    else:
        replica = job.groups.leaf_of(claimant).entered(Counting.HOPED)
        if replica is not None:
            needed = tasks_lacking(replica, job.groups, [claimant, *others])
    tasks = [claimant, *(task for task in needed if task is not claimant)]
    return unit_once_placed(job, tasks, view.task_order_key)


@define(eq=False)
class _Need:
    """What the job of a claimant needs next, and what it may take the place of."""

    leaf: int
    standing: Standing
    coverage: Coverage
    beside: JobState | None
    """Its job, if that has placed tasks that are not bound yet.

    They are not worth anything yet, so they must not take the cover from what runs: the shares are
    asked what they cover without them, as they did before the turn.
    """
    _covered: dict[Share, Collection[str]] = field(init=False, factory=dict[Share, Collection[str]])

    def standing_of(self, unit: EvictionUnit) -> Standing:
        """Return what covers a unit of the leaf."""
        return _standing(unit, partial(self._covers, unit))

    def _covers(self, unit: EvictionUnit, share: Share) -> bool:
        if self.beside is None:
            return self.coverage.covers(self.leaf, unit, share)
        covered = self._covered.get(share)
        if covered is None:
            covered = self.coverage.covered_beside(self.leaf, self.beside, share)
            self._covered[share] = covered
        return unit.tasks[0].uid in covered

    def may_replace(self, unit: EvictionUnit) -> bool:
        """Return whether it may take the place of a unit of the leaf."""
        return self.standing.may_replace(self.standing_of(unit))


def _standing(unit: EvictionUnit, covers: Callable[[Share], bool]) -> Standing:
    rank = Rank.ON_LOAN
    if covers(Share.FAIR):
        rank = Rank.FAIR
    elif covers(Share.NOMINAL):
        rank = Rank.NOMINAL
    return Standing(rank, covers(Share.MET), unit.order, unit.is_core)


def _counted_as(task: TaskState, units: Sequence[EvictionUnit], *, before: int = 0) -> EvictionUnit:
    """Return the unit of its job as which a task counts where it may be evicted alone.

    With groups that is its own. Else the least valuable surplus unit besides those as which as many
    tasks of its job count as are named `before` it, or the core, if its job can spare no more.
    """
    job = task.job
    assert job is not None
    if job.groups is not None:
        return next(unit for unit in units if task in unit.tasks)
    if before < job.spare:
        surplus = sorted((unit for unit in units if unit.is_surplus), key=by_value, reverse=True)
        return surplus[before]
    return next(unit for unit in units if unit.is_core)


_COVERED_BY = {
    Rank.FAIR: "covered by the fair share of its queue",
    Rank.NOMINAL: "covered by what its queue deserves",
}


def _why_not(need: Standing, other: Standing) -> str:
    """Return why a need may not replace a unit."""
    if other.is_met and not need.is_met:
        return "covered by what its queue deserves and can get"
    reason = _COVERED_BY[other.rank]
    if other.is_needed and not need.is_needed:  # whatever the priorities
        return f"{reason}, as the minimum of its job (CoveredByShare)"
    return reason if other.rank < need.rank else f"{reason}, and more valuable"


@frozen(kw_only=True)
class CapacityPlugin:
    """Divides the cluster among a tree of queues, and enforces their limits.

    It replaces proportion.
    """

    tolerance: Fraction = Fraction()
    """The fraction by which a fair share may be exceeded before anything of a queue is on loan."""
    levels: bool = False
    """Whether a queue above its share may reclaim from siblings that are even fuller."""
    is_graded: bool = False
    """Whether jobs come first with which all queues above them stay within their shares."""
    guards_shares: bool = True
    """Whether preempt takes nothing that a share covers for what it would not cover."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> CapacityPlugin:
        """Read ``tolerance``, ``level``, ``order`` and ``preemption``.

        ``tolerance`` is a fraction, such as 0.1 (default 0); ``level`` true or false (default);
        ``order`` is ``queue`` (the default) or ``graded``; ``preemption`` is ``shares`` (the
        default) or ``priority``: other plugins alone then say whom preempt evicts in a queue.
        """
        tolerance = arguments.number("tolerance", default=0, minimum=0)
        return cls(
            tolerance=Fraction(str(tolerance)),  # 0.1 is meant to be a tenth
            levels=arguments.boolean("level", default=False),
            is_graded=arguments.choice("order", ("queue", "graded"), default="queue") == "graded",
            guards_shares=arguments.choice("preemption", ("shares", "priority"), default="shares")
            == "shares",
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _GradedCapacity(view, self) if self.is_graded else _Capacity(view, self)


def _reserves(job: JobState) -> bool:
    return job.info.quota_reserved and job.queue is not None


class _Capacity:
    votes_on_jobs_alone = True
    refuses_alike = True

    def __init__(self, view: SessionView, plugin: CapacityPlugin) -> None:
        self._view = view
        view.ranks_by_past_use = True
        self._plugin = plugin
        self._dimensions = view.dimensions.names
        self._tree = QueueTree(queue.info for queue in view.queues.values())
        self._make_coverage: type[Coverage] = Coverage
        self._make_claim: type[QueueClaim] = QueueClaim
        self._supply = Supply(view)
        self._remembers = Shortcut.LOANS not in view.plain
        if self._remembers:
            self._make_coverage, self._make_claim = RememberedCoverage, NarrowedClaim
            self._supply = RememberedSupply(view)
        self._uses: QueueUses | None = None
        """What each job holds and requests; None until the state is kept from cycle to cycle."""
        self._held: dict[int, Vector] = {}
        """What leaves hold, by position."""
        self._requests: dict[int, Vector] = {}
        """What leaves hold and wait for, by position."""
        self._touched: set[str] = set()
        """The names of the leaves for which this has changed."""
        self._reserving = {job.uid: job for job in view.jobs.values() if _reserves(job)}
        """The jobs for which quota is reserved."""
        self._reserved: frozenset[str] = frozenset()
        """The UIDs of their tasks that were on no node when this was opened: they are charged."""
        self._ahead: Vector = view.dimensions.zero
        """What those of them request that are on no node yet."""
        self._accounts: QueueAccounts | None = None
        self._coverage: Coverage | None = None
        self._outcomes = OutcomesOfQueues(view.dimensions.resource)
        self._refusals: dict[tuple[int, Vector], Unfit | None] = {}
        """What was said of leaves and requests in addition, as long as nothing is charged."""
        self._needs: dict[tuple[str, bool, int], _Need] = {}
        """The need of a claimant, as long as nothing is placed or evicted and shares are the same.

        By its UID, or by that of its job if that lacks all of its Pending tasks, and by how many
        these are.
        """

    @property
    def accounts(self) -> QueueAccounts:
        """The shares and holdings of queues."""
        if self._accounts is None:
            self._accounts = self._opened()
        return self._accounts

    def jobs_admitted(self) -> None:
        self._accounts = self._opened()
        self._needs.clear()
        self._refusals.clear()
        if self._coverage is not None and not self._coverage.follow(self._accounts):
            self._coverage = None

    def resume(self, changes: Changes, /) -> bool:
        if self._coverage is not None:
            for jobs, are_gone in ((changes.jobs_gone, True), (changes.jobs, False)):
                for job in jobs:
                    if job.queue is not None:
                        leaf = self._tree.position[job.queue.name]
                        self._coverage.record_change(leaf, job, is_gone=are_gone)
            if changes.nodes or changes.nodes_gone:
                self._coverage.forget_nodes()
        for job in changes.jobs_gone:
            self._reserving.pop(job.uid, None)
        for job in changes.jobs:
            self._reserving.pop(job.uid, None)
            if _reserves(job):
                self._reserving[job.uid] = job
        self._supply.catch_up(changes)
        if self._uses is None:
            self._uses = QueueUses(partial(use_of, self._view), self._view.jobs.values())
            # The last job of a leaf may have left since this was opened.
            self._touched.update(self._uses.of_queue, map(self._tree.names.__getitem__, self._held))
        else:
            self._touched |= self._uses.catch_up(changes)
        return True

    def _opened(self) -> QueueAccounts:
        zero = self._view.dimensions.zero
        ahead = [task for job in self._reserving.values() for task in reserved_tasks(job)]
        self._reserved = frozenset(task.uid for task in ahead)
        self._ahead = total_of([task.resreq for task in ahead], zero)
        if self._uses is None:
            queues = self._view.queues.values()
            uses = {queue.name: use_of(self._view, queue.jobs) for queue in queues if queue.jobs}
        else:
            self._touched |= self._uses.admit()
            uses = self._uses.of_queue
        for name in uses if self._uses is None else self._touched:
            position, use = self._tree.position[name], uses.get(name)
            self._held[position] = zero if use is None else use.held
            self._requests[position] = zero if use is None else use.request
        self._touched.clear()
        return QueueAccounts(
            self._tree,
            self._dimensions,
            total=self._supply.total(),
            held=self._held,
            requests=self._requests,
            ceiling=self._ceiling(),
            before=self._accounts,
            weights=self._surplus_weights if self._view.knows_past else None,
        )

    def _ceiling(self) -> Ceiling:
        """Return the most that all queues may hold: quota that is only reserved takes no node."""
        if not self._reserved:
            return self._supply.ceiling
        return lambda leaving: plus(self._supply.ceiling(leaving), self._ahead)

    def _surplus_weights(self, positions: Sequence[int], dimension: int) -> Sequence[int]:
        names, queues = self._tree.names, self._view.queues
        return self._view.surplus_weights([queues[names[p]] for p in positions], dimension)

    # Order

    def queue_order_key(self, queue: QueueState, need: Need | None, /) -> SortKey:
        used = self._view.past_use_key(queue, need)
        if need is None:
            return 0, -queue.info.priority, used, EMPTY
        is_within, full = self.accounts.standing(need, self._tree.position[queue.name])
        return int(not is_within), -queue.info.priority, used, full

    # Limits

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        if self._reserved and self._reserved.issuperset(task.uid for task in need.tasks):
            return None  # it is charged already
        leaf = self._tree.position[queue.name]
        if need.leaving or not self._remembers:
            return self._refusal(leaf, need)
        asked = leaf, need.request
        try:
            return self._refusals[asked]
        except KeyError:
            refusal = self._refusals[asked] = self._refusal(leaf, need)
            return refusal

    def _refusal(self, leaf: int, need: Need) -> Unfit | None:
        accounts, refusal = self.accounts, None
        # The ceiling may be lower once tasks have left.
        departure = accounts.once_gone(need.leaving) if need.leaving else None
        for excess in accounts.excesses(leaf, need.request, need.dimensions, departure):
            refusal = self._over_limit(excess, need)
            if refusal.reason is not UnfitReason.INSUFFICIENT_RESOURCE:
                break  # a limit applies whatever becomes free
        return refusal

    def most_allocatable(self, queue: QueueState, /) -> Sequence[float]:
        return self.accounts.most(self._tree.position[queue.name])

    def _over_limit(self, excess: Excess, need: Need) -> Unfit:
        position, dimension, _, most = excess
        if position == ROOT:
            held = self.accounts.held[dimension]
            used = sum(held[top] for top in self._tree.tops)
            if used + need.request[dimension] > most:  # even without guarantees
                name = self._dimensions[dimension]
                return Unfit(UnfitReason.INSUFFICIENT_RESOURCE, plugin="capacity", detail=name)
        return over_limit(self.accounts.told(excess), "capacity", need.request[dimension])

    # Claims

    def claim(self, need: Need, terms: ClaimTerms, /) -> Claim | Unfit:
        """Return what a job may reclaim by the rights that its queue has, or by levelling."""
        accounts, coverage, queue = self.accounts, self.coverage, need.job.queue
        assert queue is not None
        leaf = self._tree.position[queue.name]
        if any(task.is_backfill for task in need.tasks):
            return claims_no_backfill(queue.name, "capacity")
        # What is charged nothing is no part of what a queue deserves.
        possible = RIGHTS if need.dimensions else (FAIR,)
        within = [each for each in possible if accounts.is_within_share(leaf, need, each.within)]
        rights = [each for each in within if coverage.covers_core(leaf, need.job, each.within)]
        if not rights and not self._plugin.levels:
            if within:
                return minimum_on_loan(queue.name, "capacity")
            return self._would_exceed_share(leaf, need)
        return self._make_claim(
            accounts=accounts,
            coverage=coverage,
            leaf=leaf,
            need=need,
            rights=rights,
            protected_by=terms.protected_by,
            why_protected=terms.why_protected,
            victim_key=terms.victim_key,
        )

    def _would_exceed_share(self, leaf: int, need: Need) -> Unfit:
        """Return the refusal of a claim for which a leaf has no right, by fair or nominal share."""
        fair = self._beyond(Share.FAIR, leaf, need)
        nominal = self._beyond(Share.NOMINAL, leaf, need)
        lacking = {each.dimension: each for each in nominal}
        excess = next((each for each in fair if each.dimension in lacking), fair[0])
        deserved = lacking.get(excess.dimension, next(iter(nominal), None))
        if deserved is not None and not deserved.most:
            deserved = None
        return over_share(excess, "capacity", deserved)

    def _beyond(self, share: Share, leaf: int, need: Need) -> list[QueueExcess]:
        """Return what a leaf would hold beyond a share, in each dimension of a need."""
        found: list[QueueExcess] = []
        for dimension in need.dimensions:
            held = self.accounts.held[dimension][leaf]
            most = self.accounts.amounts(share)[dimension][leaf]
            would_hold = held + need.request[dimension]
            if would_hold > most:
                excess = self.accounts.told((leaf, dimension, would_hold, most))
                found.append(evolve(excess, held=held))
        return found

    @property
    def coverage(self) -> Coverage:
        """What is covered and what is on loan now."""
        if self._coverage is None:
            self._coverage = self._make_coverage(
                self.accounts,
                list(self._view.queues.values()),
                self._view.task_order_key,
                self._view.protects_any,
                self._plugin.tolerance,
            )
        return self._coverage

    # Preemption within a queue

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        """Return PROTECTED for candidates that the claimant's need may not replace.

        Of the others it says at most that they may not be evicted with their jobs. As many tasks of
        a job as it has beyond its minimum count as its surplus units, in the order given, the first
        as the least valuable; the others as its core. With groups each counts as its own unit, so
        that no more need be said: whatever goes as a whole, each of its tasks is asked about.
        """
        if not self._plugin.guards_shares:
            return [Verdict.NO_SAY] * len(candidates)
        job = claimant.job
        assert job is not None
        need = self._need(claimant)
        counted: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            other = candidate.job
            assert other is not None
            if other.queue is not job.queue:
                verdicts.append(Verdict.NO_SAY)  # queues have their own shares
                continue
            units = need.coverage.units_of(need.leaf, other)
            before = counted.get(other.uid, 0)
            counted[other.uid] = before + 1
            unit = _counted_as(candidate, units, before=before)
            if not need.may_replace(unit):
                verdicts.append(Verdict.PROTECTED)
            elif other.groups is not None or all(map(need.may_replace, units)):
                verdicts.append(Verdict.NO_SAY)
            else:
                verdicts.append(Verdict.ALONE)
        return verdicts

    def verdict_reasons(
        self, claimant: TaskState, candidates: Sequence[TaskState], verdict: Verdict, /
    ) -> Sequence[str]:
        """Return for each candidate that is protected what covers it."""
        if verdict is not Verdict.PROTECTED:
            return [""] * len(candidates)
        need = self._need(claimant)
        reasons: list[str] = []
        for candidate in candidates:
            job = candidate.job
            assert job is not None
            units = need.coverage.units_of(need.leaf, job)
            unit = _counted_as(candidate, units)
            if need.may_replace(unit):  # alone it may go, but not with others of its job
                ordered = sorted(units, key=by_value, reverse=True)
                unit = next(each for each in ordered if not need.may_replace(each))
            reasons.append(_why_not(need.standing, need.standing_of(unit)))
        return reasons

    def _need(self, claimant: TaskState) -> _Need:
        """Return the need of a task's job, with what would cover it if it were placed now."""
        job = claimant.job
        assert job is not None
        waiting = job.count(TaskStatus.PENDING)
        # A job that lacks all that waits needs the same, whichever of it claims: where gangs wait,
        # a cycle with preempt costs a third (`gangs-100-preempt`).
        lacks_all = (
            waiting > 1
            and job.groups is None
            and not claimant.is_best_effort
            and not job.has_minimum()
            and job.lacks(Counting.PROMISED) >= waiting
        )
        asked = job.uid if lacks_all else claimant.uid, lacks_all, waiting
        known = self._needs.get(asked)
        if known is None:
            leaf, coverage = self._leaf_of(job), self.coverage
            unit = needed_unit(self._view, claimant)
            if coverage.fixes(unit):
                unit.fix()
            standing = _standing(unit, partial(coverage.would_cover, leaf, unit))
            is_begun = job.count(TaskStatus.ALLOCATED) > 0
            known = _Need(leaf, standing, coverage, job if is_begun else None)
            self._needs[asked] = known
        return known

    def hints(self) -> EvictionHints:
        if not self._plugin.guards_shares:
            return EvictionHints(claimant_key=_same_for_all)
        return EvictionHints(claimant_key=self.claimant_key)

    def claimant_key(self, claimant: TaskState, /) -> Hashable:
        """Return what verdicts depend on, besides the candidates and what their jobs hold."""
        need = self._need(claimant)
        beside = None if need.beside is None else (need.beside.uid, need.beside.ready_count)
        return need.leaf, need.coverage.version(need.leaf), need.standing, beside

    def _leaf_of(self, job: JobState) -> int:
        assert job.queue is not None
        return self._tree.position[job.queue.name]

    # Outcomes

    def queue_share(self, queue: QueueState, /) -> tuple[Vector, Vector] | None:
        """Return the fair share of any queue, and what it holds."""
        accounts, position = self.accounts, self._tree.position[queue.name]
        share = tuple([of_all[position] for of_all in accounts.share])
        return share, tuple([of_all[position] for of_all in accounts.held])

    def wants_of_queues(self) -> Mapping[str, tuple[Resource, Resource]]:
        """Return what each queue holds and asks for within limits, and what it deserves."""
        accounts, resource = self.accounts, self._view.dimensions.resource
        wanted, deserved = accounts.wanted(), accounts.amounts(Share.NOMINAL)
        return {
            name: (
                resource([of_all[position] for of_all in wanted]),
                resource([of_all[position] for of_all in deserved]),
            )
            for position, name in enumerate(self._tree.names)
        }

    def queue_outcomes(
        self, _task_order_key: Callable[[TaskState], SortKey], /
    ) -> Mapping[str, QueueOutcome]:
        zero = self._view.dimensions.zero
        promised: dict[int, Vector] = {}
        for job in self._reserving.values():
            leaf = self._leaf_of(job)
            for task in reserved_tasks(job):
                promised[leaf] = plus(promised.get(leaf, zero), task.resreq)
        for job in self._view.jobs_having(TaskStatus.PIPELINED, TaskStatus.CONDITIONAL):
            if job.queue is not None:
                leaf = self._tree.position[job.queue.name]
                tasks = (t for t in job.tasks if t.status.charged and not t.status.occupies)
                for task in tasks:
                    if not task.is_backfill:
                        promised[leaf] = plus(promised.get(leaf, zero), task.resreq)
        return self._outcomes.outcomes(self.accounts, self.coverage, promised)

    # Events

    def on_allocate(self, task: TaskState, /) -> None:
        self._charge(task, 1)

    def on_deallocate(self, task: TaskState, /) -> None:
        self._charge(task, -1)

    def _charge(self, task: TaskState, sign: int) -> None:
        if task.job is None or task.job.queue is None:
            return
        self._needs.clear()
        self._refusals.clear()
        leaf = self._tree.position[task.job.queue.name]
        if task.uid in self._reserved:
            self._ahead = (minus if sign > 0 else plus)(self._ahead, task.resreq)
        elif not task.is_backfill:
            self.accounts.charge(leaf, task.resreq, sign)
        if self._coverage is not None:
            self._coverage.record_change(leaf, task.job)


def _same_for_all(_claimant: TaskState, /) -> None:
    return None


class _GradedCapacity(_Capacity):
    """Takes jobs first, in the whole tree, with which all queues stay within their shares.

    Otherwise a job that would exceed a share can be the next job of its queue, and a job behind
    it that would not must wait although its queue is entitled to what it needs.
    """

    def need_order_key(self, need: Need, /) -> int:
        queue = need.job.queue
        assert queue is not None
        accounts = self.accounts
        for above in self._tree.path(self._tree.position[queue.name]):
            if not accounts.is_within_share(above, need):
                return 1
        return 0

    def queue_order_key(self, queue: QueueState, need: Need | None, /) -> SortKey:
        # Rank siblings by this too: otherwise the job of another subtree could come first.
        grade = 0 if need is None else self.need_order_key(need)
        return grade, *super().queue_order_key(queue, need)
