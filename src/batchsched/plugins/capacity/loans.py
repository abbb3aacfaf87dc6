"""Tracks what leaf queues have on loan as tasks are placed and evicted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import cast

from attrs import define, field

from batchsched.model.cluster import TaskStatus
from batchsched.plugins.capacity.accounts import Accounts
from batchsched.plugins.capacity.cover import Cover
from batchsched.plugins.capacity.loan_index import LoanIndex
from batchsched.plugins.capacity.node_loans import NodeLoans
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.turn_order import SortKey
from batchsched.state.units import EvictionUnit, units_of
from batchsched.state.vectors import Vector, total_of

__all__ = ["LoanBook"]

_UNKNOWN: Vector = ()
"""In place of what `may_keep_share` was found for, once the accounts of the leaf have changed."""


@define
class _Leaf:
    """The cached state of the units of a leaf."""

    jobs: Sequence[JobState]
    is_known: bool = False
    units: dict[str, list[EvictionUnit]] = field(factory=dict[str, "list[EvictionUnit]"])
    """The units of each job, by UID, at the last update of what is covered."""
    changed: dict[str, JobState | None] = field(factory=dict[str, "JobState | None"])
    """The jobs that have changed since, by UID; None: the job was removed."""
    share: Sequence[int] = ()
    """The share at the last update."""
    cover: Cover | None = None
    loans: NodeLoans | None = None
    """None until it is needed."""
    gone: dict[str, set[str]] = field(factory=dict[str, "set[str]"])
    """UIDs of tasks on loan that were evicted since, by job; nothing else has changed."""


class LoanBook:
    """What is covered and what is on loan, by leaf, computed on demand."""

    def __init__(
        self,
        accounts: Accounts,
        queues: Sequence[QueueState],
        task_order_key: Callable[[TaskState], SortKey],
        tolerance: Fraction,
    ) -> None:
        """Create an empty book.

        Args:
            accounts: the shares and holdings of queues.
            queues: all queues, by position.
            task_order_key: ranks tasks; the task with the smallest key is the most valuable.
            tolerance: the fraction by which shares may be exceeded before anything is on loan.

        """
        self._accounts = accounts
        self._key = task_order_key
        self._tolerance = tolerance
        self._leaves = [_Leaf(queue.jobs) for queue in queues]
        self._covered: dict[int, _Leaf] = {}
        """Those of which it was asked what is covered, by position."""
        self.index = LoanIndex()
        """What leaves have on loan, node by node."""
        self._backfilling: frozenset[int] | None = None
        self._keeping: dict[int, tuple[Vector | None, bool]] = {}
        """By leaf, the `NodeLoans.least` for which `may_keep_share` was found, and its answer."""

    def record_change(self, leaf: int, task: TaskState) -> None:
        """Record that a task of a leaf was placed or evicted, or that this was undone."""
        if leaf in self._keeping:
            _, is_keeping = self._keeping[leaf]
            self._keeping[leaf] = _UNKNOWN, is_keeping
        known = self._leaves[leaf]
        if known.cover is None:
            return
        if task.job is not None:
            known.changed[task.job.uid] = task.job
        if not known.is_known:
            return
        # Loans that are not computed yet cannot be computed now, while the task is moved.
        if known.loans is None or not known.loans.has_victim(task.uid):
            known.is_known = False
        # What is covered does not depend on what is on loan.
        elif task.job is not None:
            gone = known.gone.setdefault(task.job.uid, set())
            (gone.discard if task.status is TaskStatus.RUNNING else gone.add)(task.uid)
            self._touch(leaf, known.loans, task.job.uid)

    def forget(self, leaf: int, job: JobState, *, is_gone: bool) -> None:
        """Record that a job of a leaf was added, removed or changed between cycles."""
        known = self._leaves[leaf]
        if known.cover is not None:
            known.changed[job.uid] = None if is_gone else job
            known.is_known = False

    def forget_nodes(self) -> None:
        """Record that nodes were added or removed between cycles, so that indices have changed."""
        for known in self._covered.values():
            known.is_known = False
            known.loans = None
        self.index.clear()

    def follow(self, accounts: Accounts) -> None:
        """Continue in another cycle, after all changes have been passed to `forget`."""
        self._accounts = accounts
        self._backfilling = None
        self._keeping.clear()
        self.index.begin_cycle()
        for leaf, known in self._covered.items():
            if known.is_known and known.share != [of_all[leaf] for of_all in accounts.share]:
                known.is_known = False

    @property
    def is_sorted(self) -> bool:
        """Whether tasks still have the order keys by which units were sorted."""
        for known in self._covered.values():
            for units in known.units.values():
                if units:
                    return units[0].tasks[0].order_key is not None
        return True

    @property
    def backfilling(self) -> Collection[int]:
        """The leaves of which anything that runs uses what is promised to others.

        O(jobs) once in a cycle: nothing begins to run within one.
        """
        if self._backfilling is None:
            self._backfilling = frozenset(
                leaf
                for leaf, known in enumerate(self._leaves)
                if any(job.backfilling for job in known.jobs)
            )
        return self._backfilling

    def on_loan(self, leaf: int, node: NodeState) -> list[EvictionUnit]:
        """Return the units on loan with tasks on a node, the least valuable first."""
        self._loans(leaf)
        return self._listed(leaf, node)

    def at_most(self, node: NodeState) -> tuple[Vector, Vector, Vector]:
        """Return what units on loan hold on a node: surplus, all that leaves may spare, and all.

        Surplus and what leaves may spare are of leaves that may keep their shares. Only of leaves
        whose loans were listed, as they were then. O(units on loan there) if anything has changed
        since, else O(leaves with loans there).
        """
        zero = (0,) * len(node.allocatable)
        of_surplus: list[Vector] = []
        to_spare: list[Vector] = []
        of_all: list[Vector] = []
        for leaf in self.index.leaves_on(node.index):
            surplus, total = self._sums(leaf, node)
            of_all.append(total)
            if self.may_keep_share(leaf):
                of_surplus.append(surplus)
                to_spare.append(total)
        return total_of(of_surplus, zero), total_of(to_spare, zero), total_of(of_all, zero)

    def _sums(self, leaf: int, node: NodeState) -> tuple[Vector, Vector]:
        """Return what surplus and all units of a leaf on loan on a node hold there."""
        known = self.index.sums.get((leaf, node.index))
        if known is None:
            surplus: dict[str, Vector] = {}
            others: dict[str, Vector] = {}
            for unit in self._listed(leaf, node):
                held = surplus if unit.is_surplus or unit.is_backfill else others
                held.update((v.uid, v.resreq) for v in unit.victims if v.node is node)
            zero = (0,) * len(node.allocatable)
            of_surplus = total_of(surplus.values(), zero)
            of_all = total_of({**surplus, **others}.values(), zero) if others else of_surplus
            known = self.index.sums[leaf, node.index] = of_surplus, of_all
        return known

    def _listed(self, leaf: int, node: NodeState) -> list[EvictionUnit]:
        units = self.index.units.get((leaf, node.index))
        if units is None:
            units = self.index.units[leaf, node.index] = self._list(self._leaves[leaf], node)
        return units

    @staticmethod
    def _list(known: _Leaf, node: NodeState) -> list[EvictionUnit]:
        loans = known.loans
        assert loans is not None
        units = [unit for unit in loans.on_node(node.index) if unit.job.in_session]
        if not known.gone:
            return units
        left: list[EvictionUnit] = []
        for unit in units:
            gone = known.gone.get(unit.job.uid)
            if not gone:
                left.append(unit)
                continue
            if any(task.uid in gone for task in unit.tasks):
                continue
            victims = [task for task in unit.victims if task.uid not in gone]
            if len(victims) < len(unit.victims):  # a core whose surplus was evicted already
                left.append(EvictionUnit(unit.job, unit.tasks, victims, unit.value))
            else:
                left.append(unit)
        return left

    def covers(self, leaf: int, task: TaskState) -> bool:
        """Return whether a task belongs to a unit that a leaf's share covers.

        O(tasks of its job), plus an update of what is covered.
        """
        cover = self._cover(leaf)
        units = () if task.job is None else self._leaves[leaf].units.get(task.job.uid, ())
        return any(task in unit.tasks for unit in units if unit in cover)

    def nodes(self, leaf: int) -> Collection[int]:
        """Return the indices of the nodes where units on loan run, or have run."""
        return self._loans(leaf).nodes

    def may_keep_share(self, leaf: int) -> bool:
        """Return False if a leaf would hold less than its share without any one unit on loan.

        Always True for a leaf with backfill units, which are not charged to it. As of when its
        loans were listed. When it becomes True again, this is a change on all nodes with loans of
        the leaf. O(dimensions).
        """
        loans = self._leaves[leaf].loans
        if loans is None:
            return True
        known = self._keeping.get(leaf)
        if known is not None and known[0] is loans.least:
            return known[1]
        may_keep = self._may_spare(leaf, loans.least)
        if may_keep and known is not None and not known[1]:
            self.index.changes.extend(loans.nodes)
        self._keeping[leaf] = loans.least, may_keep
        return may_keep

    def _may_spare(self, leaf: int, least: Vector | None) -> bool:
        if least is None or leaf in self.backfilling:
            return True
        held, share = self._accounts.held, self._accounts.share
        return all(
            held[dimension][leaf] - amount >= share[dimension][leaf]
            for dimension, amount in enumerate(least)
            if amount
        )

    def covered_size(self, leaf: int) -> Vector:
        """Return what the covered units of a leaf hold."""
        return self._cover(leaf).size

    def is_exposed(self, leaf: int, job: JobState) -> bool:
        """Return whether the core of a job is on loan.

        O(dimensions) if the leaf is within its share; otherwise plus an update of what is covered.
        """
        if not job.backfilling and self._accounts.is_covered(leaf):
            return False
        cover = self._cover(leaf)
        known = self._leaves[leaf]
        if job.uid in known.changed:
            units = units_of(job, self._key)
        else:
            units = known.units.get(job.uid, [])
        if not units or not units[0].is_core:
            return False
        return units[0].is_backfill or cover.is_exposed(job.uid)

    def _cover(self, leaf: int) -> Cover:
        """Return what is covered of a leaf, up to date.

        O(units log units) the first time; then O(changed jobs and their effects).
        """
        known = self._leaves[leaf]
        cover = known.cover
        if cover is not None and known.is_known:
            return cover
        share = [of_all[leaf] for of_all in self._accounts.share]
        if cover is None:
            known.units = {job.uid: units_of(job, self._key) for job in known.jobs}
            cover = known.cover = Cover(known.units.items(), len(share))
            self._covered[leaf] = known
            affected: list[EvictionUnit] = []
        else:
            affected = self._enter_changes(known, cover)
        affected += cover.update(self._most(share))
        if known.loans is not None:
            for unit in affected:
                if unit.is_whole and unit not in cover:
                    known.loans.add(unit)
                else:
                    known.loans.discard(unit)
            for uid in known.gone:
                self._touch(leaf, known.loans, uid)
        known.share = share
        known.gone.clear()
        known.is_known = True
        return cover

    def _touch(self, leaf: int, loans: NodeLoans, uid: str) -> None:
        """Drop what is cached about the nodes where a job has tasks on loan."""
        for unit in self._leaves[leaf].units.get(uid, ()):
            for node in loans.nodes_of(unit):
                self.index.change(leaf, node)

    def _enter_changes(self, known: _Leaf, cover: Cover) -> list[EvictionUnit]:
        """Update the units of a leaf; return the new ones."""
        entered: list[EvictionUnit] = []
        for uid, job in known.changed.items():
            before = known.units.pop(uid, [])
            now = [] if job is None else units_of(job, self._key)
            same = {unit.value: unit for unit in before}
            now = [_kept(same.get(unit.value), unit) for unit in now]
            cover.replace(uid, now)
            if job is not None:
                known.units[uid] = now
            if known.loans is not None:
                for unit in before:
                    known.loans.discard(unit)
                entered += now
        known.changed.clear()
        return entered

    def _most(self, share: Sequence[int]) -> Sequence[int]:
        """Return the share with its tolerance, as fractions where it is not an integer."""
        if not self._tolerance:
            return share
        return cast("Sequence[int]", [amount + amount * self._tolerance for amount in share])

    def _loans(self, leaf: int) -> NodeLoans:
        """Return what a leaf has on loan, brought up to date."""
        cover = self._cover(leaf)
        known = self._leaves[leaf]
        if known.loans is None:
            units = (unit for found in known.units.values() for unit in found)
            on_loan = (unit for unit in units if unit.is_whole and unit not in cover)
            known.loans = NodeLoans(leaf, on_loan, self.index)
        return known.loans


def _kept(before: EvictionUnit | None, now: EvictionUnit) -> EvictionUnit:
    """Return the old unit if it equals the new one of the same value, else the new one."""
    if before is None or before.is_whole is not now.is_whole:
        return now
    if before.is_backfill is not now.is_backfill or before.size != now.size:
        return now
    if list(before.tasks) != list(now.tasks) or list(before.victims) != list(now.victims):
        return now
    return before
