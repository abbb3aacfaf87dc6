"""What the shares of a queue cover, and what it has on loan: the definition, and what remembers it.

Covered units are never reclaimed. All others are on loan: they use resources that other queues
have not claimed so far. `Coverage` computes everything anew for each question;
`RememberedCoverage` gives the same answers with less work, as tasks are placed and evicted.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, count, islice
from operator import attrgetter

from attrs import define, field

from batchsched.model.cluster import TaskStatus
from batchsched.plugins.capacity.accounts import QueueAccounts, Share
from batchsched.state.records import JobState, NodeState, QueueState, SortKey, TaskState
from batchsched.state.units import EvictionUnit, units_of
from batchsched.state.vectors import Vector, minus, plus, total_of

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


@define(eq=False)
class Coverage:
    """What is covered and what is on loan, by leaf."""

    _accounts: QueueAccounts
    """The shares and holdings of queues."""
    _queues: Sequence[QueueState]
    """All queues, by position."""
    _key: Callable[[TaskState], SortKey]
    """Ranks tasks; the task with the smallest key is the most valuable."""
    _protects_any: Callable[[Sequence[TaskState]], bool]
    """Returns whether a plugin protects any of some tasks from every claim."""
    _tolerance: Fraction
    """The fraction by which fair shares may be exceeded before anything is on loan."""
    _versions: Iterator[int] = field(init=False, factory=count)

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
        return self._covered(leaf, share, self.units(leaf))

    def _covered(
        self, leaf: int, share: Share, units: Iterable[EvictionUnit]
    ) -> list[EvictionUnit]:
        if share is Share.MET:
            units = covered_units(self._most(leaf, Share.FAIR), units)
        return covered_units(self._most(leaf, share), units)

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
        """Return what a share of a leaf covers if what a job is Allocated and not bound uses none.

        Each unit by the UID of its first task. O(units log units).
        """
        units = [unit for unit in self.units(leaf) if unit.job is not job]
        own = self._units_of(job, but=TaskStatus.ALLOCATED)
        if own:
            units = sorted([*units, *own], key=by_value)
        return {unit.tasks[0].uid for unit in self._covered(leaf, share, units)}

    def would_cover(self, leaf: int, unit: EvictionUnit, share: Share) -> bool:
        """Return whether a share of a leaf would cover a unit that is not there yet.

        It is asked at its place in value order; a core counts instead of what its job has now.
        """
        units = [
            other for other in self.units(leaf) if not (unit.is_core and other.job is unit.job)
        ]
        return unit in self._covered(leaf, share, sorted([*units, unit], key=by_value))

    def version(self, _leaf: int, /) -> int:
        """Return a number that changes with the covers of units whose jobs do not change."""
        return next(self._versions)  # they may have changed whenever it is asked

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

    def may_have_on_loan(self, _leaf: int, /) -> bool:
        """Return False only if a leaf has nothing on loan, nor any backfill tasks."""
        return True

    def may_keep_share(self, _leaf: int, /) -> bool:
        """Return False only if a leaf would hold less than its share without any unit on loan."""
        return True

    def _units_of(self, job: JobState, *, but: TaskStatus | None = None) -> list[EvictionUnit]:
        """Return the units of a job; it is known of each whether nobody may evict it.

        `but`: tasks of this status do not count.
        """
        units = units_of(job, self._key, but=but)
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


class Cover:
    """The units of one queue that its share covers, updated as units come and go.

    The most valuable units are mostly covered, one and all. How many they are is known, and what
    they hold together, so that a change among them is a sum; `covered_units` is gone through again
    for the units behind them only.
    """

    __slots__ = ("_covered", "_held", "_least", "_sure", "size", "units")

    def __init__(
        self, units: Iterable[EvictionUnit], dimensions: int, *, are_in_order: bool = False
    ) -> None:
        """Begin with some units, of which none is covered yet. O(units log units).

        `are_in_order`: whether the most valuable ones are given first. O(units) then.
        """
        self.units = [unit for unit in units if not unit.is_backfill]
        if not are_in_order:
            self.units.sort(key=by_value)
        """All of them, the most valuable first, without backfill units, which are never covered."""
        sizes = {unit.size for unit in self.units}  # mostly few
        self._least: Vector = tuple(map(min, zip(*sizes, strict=True)))
        """By dimension, at most what any unit holds; empty: there was none yet."""
        self._covered: set[EvictionUnit] = set()
        self._sure = 0
        """How many units, from the first on, are all covered."""
        self._held: Vector = (0,) * dimensions
        """What these hold together."""
        self.size = self._held
        """What the covered units hold together."""

    def __contains__(self, unit: EvictionUnit) -> bool:
        """Return whether a unit is covered."""
        return unit in self._covered

    def covered(self) -> list[EvictionUnit]:
        """Return the covered units, the most valuable first. O(units)."""
        covered = self._covered
        return [unit for unit in self.units if unit in covered]

    def would_cover(self, unit: EvictionUnit, share: Vector) -> bool:
        """Return whether a unit that is not there would be covered at its place.

        All units must be up to date. O(units between its place and the first not covered, or the
        first of all).
        """
        place = bisect_left(self.units, unit.order, key=by_value)
        if 2 * place < self._sure:
            taken = total_of([other.size for other in self.units[:place]], (0,) * len(share))
        else:
            taken = self._held
            for other in self.units[place : self._sure]:
                taken = minus(taken, other.size)
        for other in self.units[self._sure : place]:
            if other in self._covered:
                taken = plus(taken, other.size)
        amounts = zip(unit.size, taken, share, strict=True)
        return all(not amount or there + amount <= most for amount, there, most in amounts)

    def add(self, unit: EvictionUnit) -> None:
        """Add a unit."""
        if unit.is_backfill:
            return
        place = bisect_left(self.units, unit.order, key=by_value)
        self.units.insert(place, unit)
        self._least = tuple(map(min, self._least or unit.size, unit.size))
        if place < self._sure:
            self._sure += 1
            self._held = plus(self._held, unit.size)
            self._covered.add(unit)

    def remove(self, unit: EvictionUnit) -> None:
        """Remove a unit."""
        if unit.is_backfill:
            return
        place = bisect_left(self.units, unit.order, key=by_value)
        if self.units[place] is not unit:
            raise AssertionError(f"expected {unit!r} at the position of its value")
        del self.units[place]
        if place < self._sure:
            self._sure -= 1
            self._held = minus(self._held, unit.size)
        self._covered.discard(unit)

    def update(self, share: Vector) -> list[EvictionUnit]:
        """Find out what a share covers; return the units for which the answer has changed.

        Units that were added need not be among these. O(dimensions) for each unit from the first
        that is not covered to where nothing is left that any could use (`steady:waiting`).
        """
        units, covered, least = self.units, self._covered, self._least
        sure, taken = self._sure, self._held
        while any(there and there > most for there, most in zip(taken, share, strict=True)):
            sure -= 1
            taken = minus(taken, units[sure].size)
        exposed: set[str] = set()
        changed: list[EvictionUnit] = []
        are_all_covered = True
        self._held, count = taken, sure
        for unit in islice(units, sure, None):
            fits = unit.job.uid not in exposed
            if fits:
                for amount, there, most in zip(unit.size, taken, share, strict=True):
                    if amount and there + amount > most:
                        fits = False
                        break
            if fits:
                taken = plus(taken, unit.size)
                count += 1
                if are_all_covered:
                    sure += 1
                    self._held = taken
            else:
                are_all_covered = False
                if unit.is_core:
                    exposed.add(unit.job.uid)
            if fits is not (unit in covered):
                (covered.add if fits else covered.discard)(unit)
                changed.append(unit)
            if (
                not fits
                and count == len(covered)  # no unit behind it was covered before
                and any(
                    one and there + one > most
                    for one, there, most in zip(least, taken, share, strict=True)
                )
            ):
                break
        self._sure = sure
        self.size = taken
        return changed


@define(eq=False)
class _Leaf:
    """What is known of the units of a leaf."""

    units: dict[str, list[EvictionUnit]]
    """The units of each job, by UID, at the last update."""
    cover: Cover
    """What the fair share covers."""
    left_out: set[str]
    """The jobs, by UID, that were not in the session when their units were made."""
    others: dict[Share, Cover] = field(factory=dict[Share, Cover])
    """The covers by other shares than the fair one, as far as they were asked for since."""
    changed: dict[str, JobState | None] = field(factory=dict[str, JobState | None])
    """The jobs that have changed since, by UID; None: it is gone."""
    is_current: bool = False
    """Whether no job has changed since, and neither has the share."""
    version: int = 0
    """How often the covers of units may have changed although their jobs have not."""
    nodes_of: dict[EvictionUnit, Collection[int]] | None = None
    """The units on loan, with the indices of the nodes where they run; None: unknown."""
    nodes: set[int] = field(factory=set[int])
    """The indices of the nodes where units on loan run."""
    least: Vector | None = None
    """By dimension, the least that the first task of any unit on loan has ever held.

    Backfill units, which are not charged, do not count; None: there was no other.
    """


@define(eq=False)
class RememberedCoverage(Coverage):
    """What is covered and what is on loan, remembered for the leaves that were asked about.

    The plugin says which jobs change. Nodes are known by their index.
    """

    _leaves: dict[int, _Leaf] = field(init=False, factory=dict[int, _Leaf])
    _there: dict[int, dict[int, list[EvictionUnit]]] = field(
        init=False, factory=dict[int, dict[int, list[EvictionUnit]]]
    )
    """What is on loan by node and leaf, the most valuable first."""
    _sums: dict[tuple[int, int, bool], Vector] = field(
        init=False, factory=dict[tuple[int, int, bool], Vector]
    )
    """By leaf, node and whether surplus alone counts, what units on loan there hold there, until
    they change."""
    _changes: list[int] = field(init=False, factory=list[int])
    _allocated: dict[int, dict[str, JobState]] = field(
        init=False, factory=dict[int, dict[str, JobState]]
    )
    """By leaf, the jobs that had Allocated tasks, by UID."""
    _backfilling: frozenset[int] | None = field(init=False, default=None)

    # What changes

    def record_change(self, leaf: int, job: JobState, *, is_gone: bool = False) -> None:
        if job.allocated:
            self._allocated.setdefault(leaf, {})[job.uid] = job
        known = self._leaves.get(leaf)
        if known is not None:
            known.changed[job.uid] = None if is_gone else job
            known.is_current = False

    def _bound(self, leaf: int) -> Sequence[JobState]:
        """Return the jobs of which tasks were bound: these may leave now, and no charge tells it.

        Where jobs below their minimum count as ready, as without gang, they may be broken now.
        """
        allocated = self._allocated.get(leaf, {})
        bound = [job for job in allocated.values() if job.has_bind or not job.allocated]
        for job in bound:
            if not job.allocated:
                del allocated[job.uid]
        return bound

    def forget_nodes(self) -> None:
        self._there.clear()
        for known in self._leaves.values():
            known.nodes_of = None
            known.nodes.clear()
            known.is_current = False

    def follow(self, accounts: QueueAccounts) -> bool:
        for known in self._leaves.values():
            for units in known.units.values():
                if units[0].tasks[0].order_key is None:
                    return False  # tasks have lost the keys by which their units were sorted
                break
        self._accounts = accounts
        self._backfilling = None
        self._changes.clear()
        self._allocated.clear()
        self._sums.clear()
        for known in self._leaves.values():
            known.is_current = False
            for uid, units in known.units.items():
                job = units[0].job
                if job.in_session is (uid in known.left_out):
                    known.changed.setdefault(uid, job)
        return True

    # What policy asks

    def beyond(
        self, leaf: int, node: NodeState | None, share: Share = Share.FAIR
    ) -> list[EvictionUnit]:
        if share is not Share.FAIR:
            return super().beyond(leaf, node, share)
        known = self._up_to_date(leaf)
        if node is not None:
            return self._list(leaf, node)
        assert known.nodes_of is not None
        units = sorted(known.nodes_of, key=by_value, reverse=True)
        return [unit for unit in units if unit.job.in_session]

    def nodes(self, leaf: int, share: Share = Share.FAIR) -> Collection[int]:
        return self._up_to_date(leaf).nodes if share is Share.FAIR else super().nodes(leaf, share)

    def leaves_on(self, node: NodeState, /) -> Iterable[int]:
        return self._there.get(node.index, ())

    def units(self, leaf: int) -> list[EvictionUnit]:
        units = chain.from_iterable(self._up_to_date(leaf).units.values())
        return sorted(units, key=by_value)

    def covered(self, leaf: int, share: Share) -> list[EvictionUnit]:
        return self._cover(leaf, share).covered()

    def covers(self, leaf: int, unit: EvictionUnit, share: Share = Share.FAIR) -> bool:
        return unit in self._cover(leaf, share)

    def would_cover(self, leaf: int, unit: EvictionUnit, share: Share) -> bool:
        units = self.units_of(leaf, unit.job)
        if unit.is_core and units:  # without these, others may be covered
            return super().would_cover(leaf, unit, share)
        cores = [one for one in units if one.is_core and one.order < unit.order]
        if unit.is_backfill or not all(
            core.is_backfill or self.covers(leaf, core, share) for core in cores
        ):
            return False  # it is of no use without the core of its job
        if share is Share.MET and not self.would_cover(leaf, unit, Share.FAIR):
            return False
        return self._cover(leaf, share).would_cover(unit, self._most(leaf, share))

    def units_of(self, leaf: int, job: JobState) -> list[EvictionUnit]:
        return self._up_to_date(leaf).units.get(job.uid, [])

    def version(self, leaf: int) -> int:
        return self._up_to_date(leaf).version

    def covers_core(self, leaf: int, job: JobState, share: Share = Share.FAIR) -> bool:
        if not job.backfilling and self._accounts.is_covered(leaf, share):
            return True  # where a leaf is within its share, everything is covered
        return super().covers_core(leaf, job, share)

    def covered_size(self, leaf: int) -> Vector:
        return self._up_to_date(leaf).cover.size

    @property
    def backfilling(self) -> Collection[int]:
        if self._backfilling is None:  # within a cycle, nothing begins to run
            self._backfilling = frozenset(super().backfilling)
        return self._backfilling

    @property
    def changes(self) -> Sequence[int]:
        return self._changes

    def catch_up(self, leaves: Iterable[int], /) -> None:
        for leaf in leaves:
            self._up_to_date(leaf)

    def at_most(
        self, node: NodeState, leaves: Collection[int] | None = None, *, is_surplus: bool
    ) -> Vector:
        # Asked of most nodes in each search (the benchmark tree).
        there, known, index = self._there.get(node.index, ()), self._sums, node.index
        found = [
            known.get((leaf, index, is_surplus)) or self._sum_of(leaf, node, is_surplus)
            for leaf in there
            if leaves is None or leaf in leaves
        ]
        return found[0] if len(found) == 1 else total_of(found, (0,) * len(node.allocatable))

    def may_have_on_loan(self, leaf: int, /) -> bool:
        return leaf in self.backfilling or not self._accounts.is_covered(leaf)

    def may_keep_share(self, leaf: int, /) -> bool:
        least = self._up_to_date(leaf).least
        if least is None or leaf in self.backfilling:
            return True
        amounts = zip(least, self._accounts.held, self._accounts.share, strict=True)
        return all(not part or held[leaf] - part >= share[leaf] for part, held, share in amounts)

    # What is remembered

    def _up_to_date(self, leaf: int) -> _Leaf:
        """Return what is known of a leaf, after all changes.

        O(units log units) the first time, then O(changed jobs and their effects).
        """
        if leaf in self._allocated:
            for job in self._bound(leaf):
                self.record_change(leaf, job)
        known = self._leaves.get(leaf)
        if known is None:
            units = {job.uid: self._units_of(job) for job in self._queues[leaf].jobs}
            units = {uid: found for uid, found in units.items() if found}
            left_out = {uid for uid, found in units.items() if not found[0].job.in_session}
            cover = Cover(chain.from_iterable(units.values()), len(self._accounts.held))
            known = self._leaves[leaf] = _Leaf(units, cover, left_out)
        elif known.is_current:
            return known
        came, went = self._enter_changes(known)
        changed = known.cover.update(self._most(leaf, Share.FAIR))
        touched = [*came, *changed]
        if known.others or set(changed) - set(came):
            known.version += 1
        known.others.clear()
        if known.nodes_of is None:
            known.nodes_of = {}
            touched = sorted(chain.from_iterable(known.units.values()), key=by_value)
        for unit in went:
            self._discard(leaf, known, unit)
        for unit in touched:
            if unit.is_whole and unit not in known.cover:
                self._add(leaf, known, unit)
            else:
                self._discard(leaf, known, unit)
        known.is_current = True
        return known

    def _cover(self, leaf: int, share: Share) -> Cover:
        """Return what a share of a leaf covers, after all changes."""
        known = self._up_to_date(leaf)
        if share is Share.FAIR:
            return known.cover
        cover = known.others.get(share)
        if cover is None:
            units = known.cover.covered() if share is Share.MET else known.cover.units
            cover = known.others[share] = Cover(units, len(self._accounts.held), are_in_order=True)
            cover.update(self._most(leaf, share))
        return cover

    def _enter_changes(self, known: _Leaf) -> tuple[list[EvictionUnit], list[EvictionUnit]]:
        """Replace the units of changed jobs; return those that came, and those that went.

        Units that are as they were stay, so that what is known of them stays too.
        """
        came: list[EvictionUnit] = []
        went: list[EvictionUnit] = []
        for uid, job in known.changed.items():
            before = {_content(unit): unit for unit in known.units.pop(uid, ())}
            now: list[EvictionUnit] = []
            for unit in () if job is None else self._units_of(job):
                same = before.get(_content(unit))
                if same is not None and same.order == unit.order:
                    del before[_content(unit)]
                    now.append(same)
                else:
                    now.append(unit)
                    came.append(unit)
            known.left_out.discard(uid)
            if now:
                known.units[uid] = now
                if not now[0].job.in_session:
                    known.left_out.add(uid)
            went += before.values()
        known.changed.clear()
        for unit in went:
            known.cover.remove(unit)
        for unit in came:
            known.cover.add(unit)
        return came, went

    def _add(self, leaf: int, known: _Leaf, unit: EvictionUnit) -> None:
        """Add a unit to those on loan, if it is not there yet."""
        assert known.nodes_of is not None
        if unit in known.nodes_of:
            return
        nodes = {task.node.index: None for task in unit.tasks if task.node is not None}
        known.nodes_of[unit] = nodes
        known.nodes.update(nodes)
        if not unit.is_backfill:
            size = unit.tasks[0].resreq
            known.least = size if known.least is None else tuple(map(min, known.least, size))
        for node in nodes:
            insort(self._there.setdefault(node, {}).setdefault(leaf, []), unit, key=by_value)
            self._note_change(leaf, node)

    def _discard(self, leaf: int, known: _Leaf, unit: EvictionUnit) -> None:
        """Remove a unit from those on loan, if it is there."""
        assert known.nodes_of is not None
        for node in known.nodes_of.pop(unit, ()):
            there = self._there[node][leaf]
            del there[bisect_left(there, unit.order, key=by_value)]
            if not there:
                del self._there[node][leaf]
                known.nodes.discard(node)
            self._note_change(leaf, node)

    def _note_change(self, leaf: int, node: int) -> None:
        self._sums.pop((leaf, node, True), None)
        self._sums.pop((leaf, node, False), None)
        self._changes.append(node)

    def _list(self, leaf: int, node: NodeState) -> list[EvictionUnit]:
        there = self._there.get(node.index, {}).get(leaf, ())
        return [unit for unit in reversed(there) if unit.job.in_session]

    def _sum_of(self, leaf: int, node: NodeState, is_surplus: bool) -> Vector:
        """Return what units on loan on a node hold there, with what goes with them."""
        units = self._list(leaf, node)
        if is_surplus:
            units = [unit for unit in units if unit.is_surplus or unit.is_backfill]
        victims = {task.uid: task for unit in units for task in unit.victims}.values()
        here = [task.resreq for task in victims if task.node is node]
        found = total_of(here, (0,) * len(node.allocatable))
        self._sums[leaf, node.index, is_surplus] = found
        return found


def _content(unit: EvictionUnit) -> tuple[object, ...]:
    """Return what units have in common that make no difference to a share, nor to a claim."""
    kind = unit.order[:2]
    tasks, victims = tuple(unit.tasks), tuple(unit.victims)
    return kind, unit.is_whole, unit.is_backfill, unit.size, tasks, victims
