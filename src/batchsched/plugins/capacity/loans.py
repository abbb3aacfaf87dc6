"""What leaves have on loan, kept up to date as tasks come and go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter

from attrs import define, field

from batchsched.model.status import TaskStatus
from batchsched.plugins.capacity.accounts import Accounts
from batchsched.plugins.capacity.cover import covered_units
from batchsched.state.live_queue import SortKey
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.units import EvictionUnit, units_of
from batchsched.state.vectors import Vector, plus

__all__ = ["LoanBook"]


@define
class _Leaf:
    """What is known of the units of a leaf."""

    jobs: Sequence[JobState]
    is_known: bool = False
    units: dict[str, list[EvictionUnit]] = field(factory=dict[str, "list[EvictionUnit]"])
    """Of each job, by UID, as far as they are known."""
    share: Sequence[int] = ()
    """The share by which it was found out what is covered."""
    covered: Collection[EvictionUnit] = ()
    covered_size: Vector = ()
    """What the covered units hold together."""
    loans: Mapping[int, list[EvictionUnit]] = {}
    """By index of the node where any of their own tasks runs; the least valuable first."""
    loaned: frozenset[str] = frozenset()
    """UIDs of the tasks that go with what is on loan."""
    gone: frozenset[str] = frozenset()
    """UIDs of those that were evicted since; all else is as it was."""


class LoanBook:
    """What is covered and what is on loan, leaf by leaf, found out when it is asked for."""

    def __init__(
        self,
        accounts: Accounts,
        queues: Sequence[QueueState],
        task_order_key: Callable[[TaskState], SortKey],
        tolerance: Fraction,
    ) -> None:
        """Begin with nothing known.

        Args:
            accounts: what queues hold and are entitled to.
            queues: all queues, by position.
            task_order_key: ranks tasks; the least is the most valuable.
            tolerance: by what part shares may be exceeded before anything is on loan.

        """
        self._accounts = accounts
        self._key = task_order_key
        self._tolerance = tolerance
        self._leaves = [_Leaf(queue.jobs) for queue in queues]

    def record_change(self, leaf: int, task: TaskState) -> None:
        """Record that a task of a leaf was placed, evicted, or that this was undone."""
        known = self._leaves[leaf]
        if task.job is not None:
            known.units.pop(task.job.uid, None)
        if not known.is_known:
            return
        if task.uid not in known.loaned:
            known.is_known = False
        # What is covered does not depend on what is on loan.
        elif task.status is TaskStatus.RUNNING:
            known.gone -= {task.uid}
        else:
            known.gone |= {task.uid}

    def forget(self, leaf: int, job: JobState) -> None:
        """Record that a job of a leaf came, went or stands otherwise, between cycles."""
        known = self._leaves[leaf]
        known.units.pop(job.uid, None)
        known.is_known = False

    def forget_nodes(self) -> None:
        """Record that nodes came or went between cycles, and others have their positions."""
        for known in self._leaves:
            known.is_known = False

    def follow(self, accounts: Accounts) -> None:
        """Go on in another cycle, of which everything that changed was told to `forget`."""
        self._accounts = accounts
        for leaf, known in enumerate(self._leaves):
            if not known.is_known:
                continue
            if known.share != [of_all[leaf] for of_all in accounts.share]:
                known.is_known = False

    @property
    def is_sorted(self) -> bool:
        """Whether tasks still have the ranks by which units were sorted."""
        for known in self._leaves:
            for units in known.units.values():
                if units:
                    return units[0].tasks[0].order_key is not None
        return True

    def has_backfill(self, leaf: int) -> bool:
        """Return whether anything of a leaf uses what is promised to others. O(jobs)."""
        return any(job.backfilling for job in self._leaves[leaf].jobs)

    def on_loan(self, leaf: int, node: NodeState) -> list[EvictionUnit]:
        """Return the units on loan of which something runs on a node, the least valuable first."""
        known = self._leaf(leaf)
        units = [unit for unit in known.loans.get(node.index, ()) if unit.job.in_session]
        if not known.gone:
            return units
        left: list[EvictionUnit] = []
        for unit in units:
            if any(task.uid in known.gone for task in unit.tasks):
                continue
            victims = [task for task in unit.victims if task.uid not in known.gone]
            if len(victims) < len(unit.victims):  # a core whose surplus has gone already
                left.append(EvictionUnit(unit.job, unit.tasks, victims, unit.value))
            else:
                left.append(unit)
        return left

    def covers(self, leaf: int, task: TaskState) -> bool:
        """Return whether a task belongs to a unit that a leaf's share covers. O(units)."""
        return any(task in unit.tasks for unit in self._leaf(leaf).covered)

    def nodes(self, leaf: int) -> Collection[int]:
        """Return the indices of the nodes where something on loan runs, or did."""
        return self._leaf(leaf).loans.keys()

    def covered_size(self, leaf: int) -> Vector:
        """Return what the units of a leaf hold that its share covers."""
        return self._leaf(leaf).covered_size

    def is_exposed(self, leaf: int, job: JobState) -> bool:
        """Return whether what a job needs at least is on loan.

        O(dimensions) if the leaf is within its share, else O(tasks of the leaf).
        """
        if not job.backfilling and self._accounts.is_covered(leaf):
            return False
        known = self._leaf(leaf)
        units = self._units(known, job)
        return bool(units) and units[0].is_core and units[0] not in known.covered

    def _units(self, known: _Leaf, job: JobState) -> list[EvictionUnit]:
        units = known.units.get(job.uid)
        if units is None:
            units = known.units[job.uid] = units_of(job, self._key)
        return units

    def _leaf(self, leaf: int) -> _Leaf:
        known = self._leaves[leaf]
        if known.is_known:
            return known
        units = [unit for job in known.jobs for unit in self._units(known, job)]
        share = [of_all[leaf] for of_all in self._accounts.share]
        units.sort(key=attrgetter("value"))
        covered = covered_units(units, share, self._tolerance)
        loans: dict[int, list[EvictionUnit]] = {}
        loaned: set[str] = set()
        for unit in reversed(units):
            if unit in covered or not unit.is_whole:
                continue
            loaned.update(task.uid for task in unit.victims)
            for node in {task.node: None for task in unit.tasks}:
                assert node is not None
                loans.setdefault(node.index, []).append(unit)
        size: Vector = (0,) * len(share)
        for unit in covered:
            size = plus(size, unit.size)
        known.share, known.covered, known.covered_size, known.loans = share, covered, size, loans
        known.loaned, known.gone, known.is_known = frozenset(loaned), frozenset(), True
        return known
