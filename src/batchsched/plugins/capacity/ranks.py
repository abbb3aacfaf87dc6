"""Whom preempt may evict within a queue: never what a share covers for what it would not cover.

Otherwise a preemption could put something on loan in the place of what is covered, a claim of
another queue could evict that, and so on for ever. With this rule each preemption for what a share
covers makes more, or more valuable, things covered, as claims do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from enum import IntEnum
from functools import partial

from attrs import define, field, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.plugin.extension_points import Verdict
from batchsched.plugin.session_view import SessionView
from batchsched.plugins.capacity.accounts import Share
from batchsched.plugins.capacity.loans import Loans, by_value
from batchsched.state.groups import Counting
from batchsched.state.needs import needed_tasks, tasks_lacking
from batchsched.state.records import JobState, SortKey, TaskState
from batchsched.state.units import EvictionUnit, unit_once_placed


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
    loans: Loans
    beside: JobState | None
    """Its job, if that has placed a part of the need in this cycle.

    That part is not yet worth anything, so it must not take the cover from what runs: the shares
    are asked what they would cover without it.
    """
    _covered: dict[Share, Collection[str]] = field(init=False, factory=dict[Share, Collection[str]])

    def standing_of(self, unit: EvictionUnit) -> Standing:
        """Return what covers a unit of the leaf."""
        return _standing(unit, partial(self._covers, unit))

    def _covers(self, unit: EvictionUnit, share: Share) -> bool:
        if self.beside is None:
            return self.loans.covers(self.leaf, unit, share)
        covered = self._covered.get(share)
        if covered is None:
            covered = self.loans.covered_beside(self.leaf, self.beside, share)
            self._covered[share] = covered
        return unit.tasks[0].uid in covered

    def may_replace(self, unit: EvictionUnit) -> bool:
        """Return whether it may take the place of a unit of the leaf."""
        return self.standing.may_replace(self.standing_of(unit))


@define(eq=False)
class Preemption:
    """What capacity says of preemption within a queue."""

    _view: SessionView
    _leaf_of: Callable[[JobState], int]
    _loans: Callable[[], Loans]
    """Returns what is covered and what is on loan now."""
    _needs: dict[tuple[str, int], _Need] = field(init=False, factory=dict[tuple[str, int], _Need])
    """The need of a claimant, as long as nothing changes.

    By its UID and the number of Pending tasks of its job.
    """

    def forget(self) -> None:
        """Forget what covers needs: something was placed or evicted, or shares are new."""
        self._needs.clear()

    # Verdicts

    def verdicts(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Sequence[Verdict]:
        """Return PROTECTED for candidates that the claimant's need may not replace.

        Of the others it says at most that they may not be evicted with their jobs. As many tasks of
        a job as it has beyond its minimum count as its surplus units, in the order given, the first
        as the least valuable; the others as its core. With groups each counts as its own unit, so
        that no more need be said: whatever goes as a whole, each of its tasks is asked about.
        """
        job = claimant.job
        assert job is not None
        need = self.need(claimant)
        counted: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            other = candidate.job
            assert other is not None
            if other.queue is not job.queue:
                verdicts.append(Verdict.NO_SAY)  # queues have their own shares
                continue
            units = need.loans.units_of(need.leaf, other)
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

    def reasons(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Sequence[str]:
        """Return for each candidate that is protected what covers it."""
        need = self.need(claimant)
        reasons: list[str] = []
        for candidate in candidates:
            job = candidate.job
            assert job is not None
            units = need.loans.units_of(need.leaf, job)
            unit = _counted_as(candidate, units)
            if need.may_replace(unit):  # alone it may go, but not with others of its job
                ordered = sorted(units, key=by_value, reverse=True)
                unit = next(each for each in ordered if not need.may_replace(each))
            reasons.append(_why_not(need.standing, need.standing_of(unit)))
        return reasons

    # What covers units and needs

    def need(self, claimant: TaskState) -> _Need:
        """Return the need of a task's job, with what would cover it if it were placed now."""
        job = claimant.job
        assert job is not None
        asked = claimant.uid, job.count(TaskStatus.PENDING)
        known = self._needs.get(asked)
        if known is None:
            leaf, loans = self._leaf_of(job), self._loans()
            unit = needed_unit(self._view, claimant)
            if loans.fixes(unit):
                unit.fix()
            standing = _standing(unit, partial(loans.would_cover, leaf, unit))
            is_begun = unit.is_core and not unit.is_broken and job.ready_count > 0
            known = _Need(leaf, standing, loans, job if is_begun else None)
            self._needs[asked] = known
        return known

    # Hints

    def key(self, claimant: TaskState) -> Hashable:
        """Return what verdicts depend on, besides the candidates and what their jobs hold."""
        need = self.need(claimant)
        leaf, loans, standing = need.leaf, need.loans, need.standing
        if need.beside is not None:
            return leaf, loans.version(leaf), standing, need.beside.uid, need.beside.ready_count
        first: EvictionUnit | None = None
        if standing.rank is Rank.FAIR:
            first = loans.first_covered_behind(leaf, standing.order, Share.FAIR)
        elif standing.rank is Rank.NOMINAL:
            first = loans.first_covered_behind(leaf, standing.order, Share.NOMINAL, but=Share.FAIR)
        # Of its own rank, a need may replace the units from that one on.
        place = None if first is None else first.order
        return leaf, loans.version(leaf), standing.rank, standing.is_met, place


def _standing(unit: EvictionUnit, covers: Callable[[Share], bool]) -> Standing:
    rank = Rank.ON_LOAN
    if covers(Share.FAIR):
        rank = Rank.FAIR
    elif covers(Share.NOMINAL):
        rank = Rank.NOMINAL
    return Standing(rank, covers(Share.MET), unit.order)


def _counted_as(task: TaskState, units: Sequence[EvictionUnit], *, before: int = 0) -> EvictionUnit:
    """Return the unit of its job as which a task counts where it may be evicted alone.

    With groups that is its own. Else the least valuable surplus unit besides those as which as many
    tasks of its job count as are named `before` it, or the core, if its job can spare no more.
    """
    job = task.job
    assert job is not None
    if job.groups is not None:
        return next(unit for unit in units if task in unit.tasks)
    if before < job.ready_count - job.min_available:
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
    return reason if other.rank < need.rank else f"{reason}, and more valuable"
