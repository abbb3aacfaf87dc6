"""What the fair share of a queue covers, and what it has on loan: the definition.

Covered units are never reclaimed. All others are on loan: they use resources that other queues
have not claimed so far. Here everything is computed anew for each question; `RememberedLoans`
gives the same answers with less work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from operator import attrgetter

from batchsched.plugins.capacity.accounts import QueueAccounts, Share
from batchsched.state.records import JobState, NodeState, QueueState, SortKey, TaskState
from batchsched.state.units import EvictionUnit, units_of
from batchsched.state.vectors import Vector, minus, total_of

by_value: Callable[[EvictionUnit], tuple[int, int, SortKey]] = attrgetter("order")
"""Sorts units, the most valuable first; see `EvictionUnit.order`."""


def covered_units(share: Vector, units: Iterable[EvictionUnit]) -> list[EvictionUnit]:
    """Return those units of a queue that a share covers, given all, the most valuable first.

    A unit is covered if it and the units covered before it fit in the share, in every dimension
    that it uses; other units use nothing of the share. Units of a job beyond its core are covered
    only if the core is. Backfill units are never covered.
    """
    covered: list[EvictionUnit] = []
    left, exposed = share, set[str]()
    for unit in units:
        if unit.is_backfill or unit.job.uid in exposed:
            continue
        pairs = zip(unit.size, left, strict=True)
        if not [amount for amount, there in pairs if amount and amount > there]:
            covered.append(unit)
            left = minus(left, unit.size)
        elif unit.is_core:
            exposed.add(unit.job.uid)
    return covered


class Loans:
    """What is covered and what is on loan, by leaf."""

    knows_lenders = False
    """Whether leaves are left out that have nothing to lose."""

    def __init__(
        self,
        accounts: QueueAccounts,
        queues: Sequence[QueueState],
        task_order_key: Callable[[TaskState], SortKey],
        protects_any: Callable[[Sequence[TaskState]], bool],
        tolerance: Fraction,
    ) -> None:
        """Begin with the state of a session.

        Args:
            accounts: the shares and holdings of queues.
            queues: all queues, by position.
            task_order_key: ranks tasks; the task with the smallest key is the most valuable.
            protects_any: returns whether a plugin protects any of some tasks from every claim.
            tolerance: the fraction by which fair shares may be exceeded before anything is on loan.

        """
        self._accounts = accounts
        self._queues = queues
        self._key = task_order_key
        self._protects_any = protects_any
        self._tolerance = tolerance

    # What changes; here nothing is kept that it could affect

    def record_change(self, leaf: int, job: JobState, *, is_gone: bool = False) -> None:
        """Record that a task of a job was placed or evicted, or that the job came or went."""

    def forget_nodes(self) -> None:
        """Record that nodes came or went, so that others have their indices."""

    def follow(self, _accounts: QueueAccounts, /) -> bool:
        """Go on in another cycle, which may schedule other jobs and have other shares.

        Returns whether it can; if not, it is to be made anew.
        """
        return False

    # What policy asks

    def units(self, leaf: int) -> list[EvictionUnit]:
        """Return all units of a leaf in value order: the most valuable first.

        Those that nobody may evict come first of all, since they use the share anyway.
        """
        found = [unit for job in self._queues[leaf].jobs for unit in self._units_of(job)]
        return sorted(found, key=by_value)

    def covered(self, leaf: int, share: Share) -> list[EvictionUnit]:
        """Return the units of a leaf that a share covers, the most valuable first.

        What can be met covers only units that the fair share covers too.
        """
        units, most = self.units(leaf), self._most(leaf, share)
        if share is Share.MET:
            units = covered_units(self._most(leaf, Share.FAIR), units)
        return covered_units(most, units)

    def beyond(
        self, leaf: int, node: NodeState | None, share: Share = Share.FAIR
    ) -> list[EvictionUnit]:
        """Return the units with tasks on a node that a share does not cover, or on any node.

        Beyond the fair share they are on loan. Only those of jobs of the session that can be
        evicted completely, the least valuable first.
        """
        covered = {unit.tasks[0].uid for unit in self.covered(leaf, share)}
        return [
            unit
            for unit in reversed(self.units(leaf))
            if unit.job.in_session
            and unit.is_whole
            and unit.tasks[0].uid not in covered
            and (node is None or any(task.node is node for task in unit.tasks))
        ]

    def nodes(self, leaf: int, share: Share = Share.FAIR) -> Collection[int]:
        """Return the indices of the nodes where units run that a share does not cover."""
        units = self.beyond(leaf, None, share)
        return {task.node.index for unit in units for task in unit.tasks if task.node is not None}

    def leaves_on(self, _node: NodeState, /) -> Iterable[int]:
        """Return the leaves that may have units on loan on a node."""
        return range(len(self._queues))

    def covers(self, leaf: int, unit: EvictionUnit, share: Share = Share.FAIR) -> bool:
        """Return whether a share covers a unit of a leaf."""
        return any(other.tasks == unit.tasks for other in self.covered(leaf, share))

    def covered_beside(self, leaf: int, job: JobState, share: Share) -> Collection[str]:
        """Return what a share of a leaf would cover if a job of it had nothing on nodes.

        Each unit by the UID of its first task. O(units log units).
        """
        units = [unit for unit in self.units(leaf) if unit.job is not job]
        if share is Share.MET:
            units = covered_units(self._most(leaf, Share.FAIR), units)
        return {unit.tasks[0].uid for unit in covered_units(self._most(leaf, share), units)}

    def would_cover(self, leaf: int, unit: EvictionUnit, share: Share) -> bool:
        """Return whether a share of a leaf would cover a unit that is not there yet.

        It is asked at its place in value order; a core counts instead of what its job has now.
        """
        units = [
            other for other in self.units(leaf) if not (unit.is_core and other.job is unit.job)
        ]
        units = sorted([*units, unit], key=by_value)
        if share is Share.MET:
            units = covered_units(self._most(leaf, Share.FAIR), units)
        return unit in covered_units(self._most(leaf, share), units)

    def first_covered_behind(
        self, leaf: int, order: tuple[int, int, SortKey], share: Share, *, but: Share | None = None
    ) -> EvictionUnit | None:
        """Return the most valuable unit behind a place that a share covers, and another does not.

        O(units log units).
        """
        out = set[EvictionUnit]() if but is None else set(self.covered(leaf, but))
        behind = (unit for unit in self.covered(leaf, share) if unit.order >= order)
        return next((unit for unit in behind if unit not in out), None)

    def version(self, _leaf: int, /) -> int:
        """Return a number that changes with the covers of units whose jobs do not change."""
        return 0

    def units_of(self, leaf: int, job: JobState) -> list[EvictionUnit]:
        """Return the units of a job of a leaf in value order."""
        return [unit for unit in self.units(leaf) if unit.job is job]

    def fixes(self, unit: EvictionUnit) -> bool:
        """Return whether nobody may evict a unit: a plugin protects a task that goes with it."""
        return self._protects_any(unit.victims)

    def covers_core(self, leaf: int, job: JobState, share: Share = Share.FAIR) -> bool:
        """Return whether a share covers the core of a job; True if it has none on nodes."""
        cores = [unit for unit in self.units_of(leaf, job) if unit.is_core]
        return all(self.covers(leaf, core, share) for core in cores)

    def covered_size(self, leaf: int) -> Vector:
        """Return what the units hold that the fair share of a leaf covers."""
        covered = self.covered(leaf, Share.FAIR)
        return total_of([unit.size for unit in covered], (0,) * len(self._accounts.held))

    @property
    def backfilling(self) -> Collection[int]:
        """The leaves of which anything that runs uses what is promised to others."""
        leaves = enumerate(self._queues)
        return {leaf for leaf, queue in leaves if any(job.backfilling for job in queue.jobs)}

    # What spares the search for room some nodes; here it spares none.

    def catch_up(self, leaves: Iterable[int], /) -> None:
        """Bring what is known of leaves up to date, before `leaves_on` and `at_most` are asked."""

    @property
    def changes(self) -> Sequence[int]:
        """A record of the indices of nodes where `at_most` changed, though no task there did."""
        return ()

    def at_most(
        self,
        node: NodeState,
        leaves: Collection[int] | None = None,  # noqa: ARG002
        *,
        is_surplus: bool,  # noqa: ARG002
    ) -> Vector:
        """Return what units on loan, or surplus units alone, may hold on a node; never too little.

        `leaves`: whose units count; None: those of all.
        """
        leaving = [task.resreq for task in node.tasks.values() if task.may_leave]
        return total_of(leaving, (0,) * len(node.allocatable))

    def gone_with(self, leaf: int, _node: NodeState, *, is_surplus: bool) -> Vector:  # noqa: ARG002
        """Return what a leaf may hold less without its units on loan on a node; never too little.

        Anywhere: tasks leave other nodes with them. `is_surplus`: whether surplus units alone go.
        """
        return tuple([of_all[leaf] for of_all in self._accounts.held])

    def may_lend(self, _leaf: int, /) -> bool:
        """Return False only if a leaf has nothing on loan, nor any backfill tasks."""
        return True

    def may_keep_share(self, _leaf: int, /) -> bool:
        """Return False only if a leaf would hold less than its share without any unit on loan."""
        return True

    def _units_of(self, job: JobState) -> list[EvictionUnit]:
        """Return the units of a job; it is known of each whether nobody may evict it."""
        units = units_of(job, self._key)
        there = [task for task in job.tasks if task.status.occupies]
        if units and (not job.in_session or self._protects_any(there)):
            for unit in units:
                if not job.in_session or self.fixes(unit):
                    unit.fix()
        return units

    def _most(self, leaf: int, share: Share) -> Vector:
        """Return a share of a leaf, in whole numbers; fair ones with their tolerance."""
        amounts = [of_all[leaf] for of_all in self._accounts.amounts(share)]
        if share is Share.NOMINAL:
            return tuple(amounts)
        more = self._tolerance
        return tuple([most + most * more.numerator // more.denominator for most in amounts])
