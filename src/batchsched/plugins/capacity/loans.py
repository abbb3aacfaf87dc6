"""What the fair share of a queue covers, and what it has on loan: the definition.

Covered units are never reclaimed. All others are on loan: they use resources that other queues
have not claimed so far. Here everything is computed anew for each question; `RememberedLoans`
gives the same answers with less work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from operator import attrgetter

from batchsched.model.cluster import TaskStatus
from batchsched.plugins.capacity.accounts import Accounts
from batchsched.state.records import JobState, NodeState, QueueState, SortKey, TaskState
from batchsched.state.units import EvictionUnit, units_of
from batchsched.state.vectors import Vector, minus, total_of

by_value: Callable[[EvictionUnit], tuple[int, SortKey]] = attrgetter("value")
"""Sorts units, the most valuable first; see `EvictionUnit.value`."""


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
        if all(
            not amount or amount <= there for amount, there in zip(unit.size, left, strict=True)
        ):
            covered.append(unit)
            left = minus(left, unit.size)
        elif unit.is_core:
            exposed.add(unit.job.uid)
    return covered


class Loans:
    """What is covered and what is on loan, by leaf."""

    def __init__(
        self,
        accounts: Accounts,
        queues: Sequence[QueueState],
        task_order_key: Callable[[TaskState], SortKey],
        tolerance: Fraction,
    ) -> None:
        """Begin with the state of a session.

        Args:
            accounts: the shares and holdings of queues.
            queues: all queues, by position.
            task_order_key: ranks tasks; the task with the smallest key is the most valuable.
            tolerance: the fraction by which shares may be exceeded before anything is on loan.

        """
        self._accounts = accounts
        self._queues = queues
        self._key = task_order_key
        self._tolerance = tolerance

    # What policy asks

    def everywhere(self, leaf: int) -> list[EvictionUnit]:
        """Return the units on loan on all nodes, the most valuable first."""
        units, covered = self._walk(leaf)
        return [unit for unit in units if unit.is_whole and unit not in covered]

    def on_loan(self, leaf: int, node: NodeState) -> list[EvictionUnit]:
        """Return the units on loan with tasks on a node, the least valuable first.

        Only those of jobs of the session that can be evicted completely.
        """
        return [
            unit
            for unit in reversed(self.everywhere(leaf))
            if unit.job.in_session and any(task.node is node for task in unit.tasks)
        ]

    def nodes(self, leaf: int) -> Collection[int]:
        """Return the indices of the nodes where units on loan run."""
        units = self.everywhere(leaf)
        return {task.node.index for unit in units for task in unit.tasks if task.node is not None}

    def leaves_on(self, _node: NodeState, /) -> Iterable[int]:
        """Return the leaves that may have units on loan on a node."""
        return range(len(self._queues))

    def covers(self, leaf: int, task: TaskState) -> bool:
        """Return whether a task belongs to a unit that a leaf's share covers."""
        _, covered = self._walk(leaf)
        return any(task in unit.tasks for unit in covered)

    def covered_size(self, leaf: int) -> Vector:
        """Return what the covered units of a leaf hold."""
        _, covered = self._walk(leaf)
        return total_of([unit.size for unit in covered], (0,) * len(self._accounts.held))

    def is_exposed(self, leaf: int, job: JobState) -> bool:
        """Return whether the core of a job is on loan; False if it has none on nodes."""
        units, covered = self._walk(leaf)
        return any(unit.is_core and unit.job is job and unit not in covered for unit in units)

    @property
    def backfilling(self) -> Collection[int]:
        """The leaves of which anything that runs uses what is promised to others."""
        leaves = enumerate(self._queues)
        return {leaf for leaf, queue in leaves if any(job.backfilling for job in queue.jobs)}

    # What spares the search for room some nodes; here it spares none.

    @property
    def changes(self) -> Sequence[int]:
        """A record of the indices of nodes where `at_most` changed, though no task there did."""
        return ()

    def at_most(self, node: NodeState) -> tuple[Vector, Vector]:
        """Return what surplus, and what all units on loan, may hold on a node; never too little."""
        running = [task for task in node.tasks.values() if task.status is TaskStatus.RUNNING]
        held = total_of([task.resreq for task in running], (0,) * len(node.allocatable))
        return held, held

    def may_keep_share(self, _leaf: int, /) -> bool:
        """Return False only if a leaf would hold less than its share without any unit on loan."""
        return True

    def _walk(self, leaf: int) -> tuple[list[EvictionUnit], Collection[EvictionUnit]]:
        """Return all units of a leaf, the most valuable first, and those that are covered."""
        jobs = self._queues[leaf].jobs
        units = sorted((unit for job in jobs for unit in units_of(job, self._key)), key=by_value)
        return units, set(covered_units(self._share(leaf), units))

    def _share(self, leaf: int) -> Vector:
        """Return the share of a leaf with its tolerance, in whole numbers."""
        more = self._tolerance
        shares = [of_all[leaf] for of_all in self._accounts.share]
        return tuple([share + share * more.numerator // more.denominator for share in shares])
