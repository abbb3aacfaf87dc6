"""The action reclaim with the plugin capacity, which decides what queues may claim."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import Factory, define, frozen

from batchsched import EPSILON, JobInfo, NodeInfo, TaskInfo, TaskStatus
from tests.reference.capacity import Capacity, Covers, Quotient, Right
from tests.reference.choose import (
    curable_nodes,
    place_without_evicting,
    searched_nodes,
)
from tests.reference.claimant_turn import claimant_turn
from tests.reference.devices import LATER
from tests.reference.holdings import Holdings
from tests.reference.make_room import evict_for, importance_among, members
from tests.reference.session import Session
from tests.reference.state import Saved
from tests.reference.units import Unit

__all__ = ["may_claim", "reclaim_by_claims"]

STAGES = (1, 2, 3, 4)


def reclaim_by_claims(session: Session, capacity: Capacity, *, retries: bool) -> None:
    """Take turns of queues and jobs until no job is left."""
    jobs = [job for job in session.jobs if session.to_place(job)]
    tasks = {job.uid: session.to_place(job) for job in jobs}
    while jobs:
        queues = [queue for queue in session.queues.values() if _of(jobs, queue.name)]
        queue = session.next_queue(queues, jobs, tasks)
        job = session.next_job(_of(jobs, queue.name), tasks)
        if not _turn(session, capacity, job, tasks[job.uid], retries=retries):
            jobs.remove(job)


def _of(jobs: Sequence[JobInfo], name: str) -> list[JobInfo]:
    return [job for job in jobs if job.queue == name]


def _turn(
    session: Session, capacity: Capacity, job: JobInfo, tasks: list[TaskInfo], *, retries: bool
) -> bool:
    """Give a job its turn; return whether it gets another turn."""
    tasks[:] = session.possible(job, tasks)
    need = session.need(job, tasks)
    if not need or any(session.state.is_backfill(task) for task in need):
        return False
    claim = _Claim(session, capacity, job, need, session.state.save())
    if not claim.begins():
        return False
    return claimant_turn(
        session,
        job,
        tasks,
        claim.take_a_place,
        finish=claim.spare_whole_units,
        retries=retries,
    )


def may_claim(session: Session, capacity: Capacity, job: JobInfo) -> bool:
    """Return whether a job that needs one task may take enough for it, in whatever order.

    A turn tries a few orders of units; this tries all.
    """
    need = session.need(job, session.to_place(job))
    if len(need) != 1 or session.state.is_backfill(need[0]):
        return False
    claim = _Claim(session, capacity, job, need, session.state.save())
    if not claim.begins():
        return False
    search = _Search(claim, need[0])
    return any(search.finds_any(node) for node in searched_nodes(session, need[0]))


@frozen
class _Shortage:
    """What a task lacks on a node."""

    dimension: str
    is_on_node: bool = False
    queue: str | None = None
    """The queue whose limit it is; None, if not on the node: the room for all."""


@frozen
class _Taken:
    """A unit that a claim took, for which task, and by what it was judged."""

    unit: Unit
    task: TaskInfo
    search: _Search


@define
class _Claim:
    """The turn of a job in reclaim."""

    session: Session
    capacity: Capacity
    job: JobInfo
    need: list[TaskInfo]
    at_beginning: Saved
    levels: bool = False
    """Whether it may only level with queues beside its own."""
    taken: list[_Taken] = Factory(list[_Taken])

    @property
    def asked(self) -> list[str]:
        """The dimensions of the need."""
        size = self.capacity.size(self.need)
        return [d for d in self.capacity.dimensions if size[d]]

    def begins(self) -> bool:
        """Return whether there is anything to claim at all."""
        search = _Search(self, self.need[0])
        if any(search.stays_within(right, [self.job.queue], ()) for right in Right):
            return True
        self.levels = self.capacity.levels
        return self.levels

    def take_a_place(self, task: TaskInfo) -> bool:
        """Place a task, evicting others if necessary; return whether it was."""
        session = self.session
        if len(session.state.evictions) == len(self.at_beginning.evictions):
            self.taken.clear()  # all was undone
        feasible = searched_nodes(session, task)
        if place_without_evicting(session, task, feasible):
            return True
        if not session.is_open_for(task):
            return False
        curable = curable_nodes(session, task) if session.cures else []
        search = _Search(self, task, frozenset(node.name for node in curable))
        for node in curable:
            if not search.short(node, []):
                session.place(task, TaskStatus.PIPELINED, node)
                return True
        for stage in STAGES:
            found: list[tuple[NodeInfo, list[Unit]]] = []
            for node in [*feasible, *curable]:
                units = search.victims_on(node, stage)
                if units:
                    found.append((node, units))
                    if stage == 1:
                        break
            if found:
                chosen, units = self._least_costly(found)
                if not session.may_take_task(task, self._tasks_of(units)):
                    return False  # what only others than capacity limit
                evict_for(session, "reclaim", task, self._tasks_of(units), chosen)
                self.taken += [_Taken(unit, task, search) for unit in units]
                return True
        return False

    def _least_costly(
        self, found: Sequence[tuple[NodeInfo, list[Unit]]]
    ) -> tuple[NodeInfo, list[Unit]]:
        """Return where the fewest are evicted; of equals, where the least important are.

        For that, only those count whose victims are all of one leaf queue, that of the first.
        """
        session = self.session
        costs = [session.evictions_of(self._tasks_of(units)) for _, units in found]
        equal = [choice for choice, cost in zip(found, costs, strict=True) if cost == min(costs)]

        def queues(choice: tuple[NodeInfo, list[Unit]]) -> set[str]:
            return {unit.job.queue for unit in choice[1]}

        first = equal[0]
        if not session.tiers.knows_priority or len(queues(first)) != 1:
            return first
        alike = [choice for choice in equal if queues(choice) == queues(first)]
        return min(alike, key=lambda one: importance_among(session, self._tasks_of(one[1])))

    def _tasks_of(self, units: Sequence[Unit]) -> list[TaskInfo]:
        """Return what leaves with units, in order, each once."""
        return members([self.session.tiers.victims_in_order(unit.victims) for unit in units])

    def spare_whole_units(self) -> None:
        """Spare units without which all tasks of the turn find a place, too."""
        state = self.session.state
        placed = [
            task
            for task in self.session.tiers.tasks_in_order(self.job.tasks)
            if state.places[task.uid] != self.at_beginning.places[task.uid]
        ]
        if len(placed) <= 1 or len({one.task.uid for one in self.taken}) <= 1:
            return
        best = state.save()
        for one in reversed(list(self.taken)):
            others = [other for other in self.taken if other is not one]
            state.restore(self.at_beginning)
            if any(self._takes_along(other.unit, one.unit) for other in others):
                continue
            if self._places_all(placed, others):
                self.taken = others
                best = state.save()
        state.restore(best)

    def _takes_along(self, unit: Unit, other: Unit) -> bool:
        """Return whether one unit cannot be evicted without another, by the state at the moment."""
        goes = [
            o for one in self.capacity.units(unit.job) if one.uid == unit.uid for o in one.victims
        ]
        return set(_uids(other.tasks)) <= set(_uids(goes))

    def _places_all(self, placed: Sequence[TaskInfo], taken: Sequence[_Taken]) -> bool:
        """Evict units from the state at the beginning, and place tasks; return if all were."""
        before: list[Unit] = []
        for one in taken:
            if not one.search.may_take(one.unit, before):
                return False
            before.append(one.unit)
        gone: set[str] = set()
        for one in taken:
            for victim in self._tasks_of([one.unit]):
                if victim.uid not in gone:
                    gone.add(victim.uid)
                    self.session.evict(victim, "reclaim", one.task)
        for task in placed:
            if not place_without_evicting(self.session, task, searched_nodes(self.session, task)):
                return False
        return self.session.promises_hold(self.at_beginning)


class _Search:
    """The search for victims for one task of a claim, by what is covered before it."""

    def __init__(
        self, claim: _Claim, task: TaskInfo, refusing: frozenset[str] = frozenset()
    ) -> None:
        self._claim = claim
        self._session = claim.session
        self._capacity = claim.capacity
        self._leaf = claim.job.queue
        self._task = task
        self._refusing = refusing
        """The names of the nodes that accept the task only after evictions."""
        capacity = claim.capacity
        in_order = {name: capacity.units_of_leaf(name) for name in capacity.leaves()}
        self._covers: dict[str, Covers] = {
            name: capacity.covers(name, units) for name, units in in_order.items()
        }
        self._place = {
            unit.uid: place for units in in_order.values() for place, unit in enumerate(units)
        }
        """The place of each unit in the value order of its leaf."""
        self._own_core = [
            unit for unit in in_order[self._leaf] if unit.is_core and unit.job is claim.job
        ]
        self._units = [
            unit
            for name, units in in_order.items()
            if name != self._leaf
            for unit in units
            if capacity.may_go(
                unit, lambda other: claim.session.may_leave(other, "reclaim", claim.job)
            )
            and claim.session.tiers.lets_go(
                task, list(unit.victims), is_whole_job=not unit.is_surplus
            )
        ]

    # By what right.

    def stays_within(self, right: Right, names: Sequence[str], taken: Sequence[Unit]) -> bool:
        """Return whether queues above the claimant stay within what a right gives them."""
        capacity, state = self._capacity, self._session.state
        if right is not Right.FAIR and not self._claim.asked:
            return False
        covered = self._covers[self._leaf].by(right)
        if any(unit.uid not in covered for unit in self._own_core):
            return False
        left = [t for t in self._claim.need if state.status(t) is TaskStatus.PENDING]
        size = capacity.size(left)
        holdings = self._holdings(taken)
        return all(
            holdings.allocated(name, d) + size[d] <= capacity.shares_by(right, d, name)
            for d in self._claim.asked
            for name in names
        )

    def may_take(self, unit: Unit, taken: Sequence[Unit]) -> bool:
        """Return whether the claimant is within a right that does not cover a unit."""
        if any(self._is_within(right, unit, taken) for right in Right):
            return True
        return self._claim.levels and self._levels_with(unit, taken)

    def _is_within(self, right: Right, unit: Unit, taken: Sequence[Unit]) -> bool:
        covers = self._covers[unit.job.queue]
        if right is Right.NOMINAL and unit.uid in covers.fair:
            return False
        mine, _ = self._up_to_fork(unit)
        return unit.uid not in covers.by(right) and self.stays_within(right, mine, taken)

    def _levels_with(self, unit: Unit, taken: Sequence[Unit]) -> bool:
        """Return whether the claimant stays emptier than the queue of a unit, beside its own."""
        capacity, other = self._capacity, unit.job.queue
        if capacity.queue(self._leaf).parent != capacity.queue(other).parent:
            return False
        if capacity.is_backfill(unit):
            return True
        if unit.uid in self._covers[other].fair | self._covers[other].nominal:
            return False
        left = [t for t in self._claim.need if self._session.state.status(t) is TaskStatus.PENDING]
        size, then = capacity.size(left), self._holdings([*taken, unit])

        def level(name: str, more: dict[str, int]) -> Quotient:
            return max(
                capacity.quotient(then.allocated(name, d) + more.get(d, 0), name, d)
                for d in capacity.dimensions
            )

        return level(self._leaf, size) < level(other, {})

    def _up_to_fork(self, unit: Unit) -> tuple[list[str], list[str]]:
        """Return the queues above the claimant, and above a unit, that are not above both."""
        mine, its = self._capacity.path(self._leaf), self._capacity.path(unit.job.queue)
        return [n for n in mine if n not in its], [n for n in its if n not in mine]

    def _holdings(self, taken: Sequence[Unit]) -> Holdings:
        return self._capacity.holdings(members([list(unit.victims) for unit in taken]))

    # What is short, and what helps.

    def short(self, node: NodeInfo, taken: Sequence[Unit]) -> list[_Shortage]:
        """Return what the task lacks on a node without some units.

        All that it requests, as long as a node that refuses it would refuse it even then.
        """
        capacity, session, task = self._capacity, self._session, self._task
        leaving = members([list(unit.victims) for unit in taken])
        freed = [other for other in leaving if session.state.node_name(other) == node.name]
        accounts = session.accounts(node)
        found: list[_Shortage] = []
        asked = [d for d in capacity.dimensions if task.start_request.get(d) >= EPSILON]
        for d in asked:
            now = accounts.future_idle.get(d) + sum(o.resreq.get(d) for o in freed)
            in_the_end = accounts.eventual.get(d) + sum(
                o.resreq.get(d) for o in freed if not session.state.is_backfill(o)
            )
            if task.start_request.get(d) - min(now, in_the_end) >= EPSILON:
                found.append(_Shortage(d, is_on_node=True))
        found += [
            _Shortage(d, queue=name)
            for d, name in capacity.limited(session.queues[self._leaf], [task], leaving)
        ]
        if not found and not session.has_devices(task, node, LATER, leaving):
            found = [_Shortage(d, is_on_node=True) for d in asked]
        refuses = node.name in self._refusing
        if refuses and not found and not session.accepts_without(task, node, leaving):
            found = [_Shortage(d, is_on_node=True) for d in asked]
        return found

    def _helps(
        self, unit: Unit, shortage: _Shortage, node: NodeInfo, taken: Sequence[Unit]
    ) -> bool:
        """Return whether something that is short leaves with a unit, after some others."""
        gone = {other.uid for one in taken for other in one.victims}
        leaving = [other for other in unit.victims if other.uid not in gone]
        d = shortage.dimension
        if shortage.is_on_node:
            state = self._session.state
            return any(o.resreq.get(d) > 0 for o in leaving if state.node_name(o) == node.name)
        if shortage.queue is not None:
            is_below = shortage.queue in self._capacity.path(unit.job.queue)
            return is_below and self._capacity.size(leaving)[d] > 0
        return self._holdings([*taken, unit]).excess(d) < self._holdings(taken).excess(d)

    # Whom from.

    def _is_victim(
        self,
        unit: Unit,
        stage: int,
        node: NodeInfo,
        short: Sequence[_Shortage],
        taken: Sequence[Unit],
    ) -> bool:
        capacity, leaf = self._capacity, unit.job.queue
        if not self.may_take(unit, taken):
            return False
        if capacity.is_backfill(unit):
            return any(s.is_on_node and self._helps(unit, s, node, taken) for s in short)
        now, then = self._holdings(taken), self._holdings([*taken, unit])
        if stage == 1 and not unit.is_surplus:
            return False
        if stage <= 2 and any(
            then.allocated(leaf, d) < capacity.share[d][leaf]
            for d in capacity.dimensions
            if then.allocated(leaf, d) < now.allocated(leaf, d)
        ):
            return False
        if stage <= 3 and unit.uid in self._covers[leaf].fair:
            return False
        _, its = self._up_to_fork(unit)

        def all_above(right: Right, d: str) -> bool:
            return all(now.hold(name, d) > capacity.shares_by(right, d, name) for name in its)

        helped = {s.dimension for s in short if self._helps(unit, s, node, taken)}
        for d in helped:
            if self._is_within(Right.FAIR, unit, taken) and all_above(Right.FAIR, d):
                return True
            if (
                self._is_within(Right.NOMINAL, unit, taken)
                and all_above(Right.FAIR, d)
                and all_above(Right.NOMINAL, d)
            ):
                return True
            if self._is_within(Right.MET, unit, taken) and all_above(Right.MET, d):
                return True
            if self._claim.levels and self._levels_with(unit, taken) and all_above(Right.FAIR, d):
                return True
        return False

    def victims_on(self, node: NodeInfo, stage: int) -> list[Unit]:
        """Return the units to evict on a node, without unnecessary ones; [] if not enough."""
        left_out: set[str] = set()
        while True:
            taken: list[Unit] = []
            while short := self.short(node, taken):
                unit = self._next_victim(node, stage, short, taken, left_out)
                if unit is None:
                    break
                taken.append(unit)
            if not short:
                break
            if not taken:
                return []
            left_out.add(taken[0].uid)
        for unit in list(reversed(taken)):
            without = [other for other in taken if other is not unit]
            if without and not self.short(node, without) and self._may_take_all(without):
                taken = without
        return taken

    def _may_take_all(self, units: Sequence[Unit]) -> bool:
        return all(self.may_take(unit, units[:place]) for place, unit in enumerate(units))

    def finds_any(self, node: NodeInfo) -> bool:
        """Return whether units are enough on a node that are victims in any order."""
        tried: set[frozenset[str]] = set()

        def leads_to_enough(taken: list[Unit]) -> bool:
            short, chosen = self.short(node, taken), frozenset(unit.uid for unit in taken)
            if not short or chosen in tried:
                return not short and bool(taken)
            tried.add(chosen)
            victims = self._victims(node, STAGES[-1], short, taken)
            return any(leads_to_enough([*taken, unit]) for unit in victims)

        return leads_to_enough([])

    def _victims(
        self, node: NodeInfo, stage: int, short: Sequence[_Shortage], taken: Sequence[Unit]
    ) -> list[Unit]:
        """Return the units that may be taken next."""
        state = self._session.state
        gone = {other.uid for unit in taken for other in unit.victims}
        everywhere = not any(shortage.is_on_node for shortage in short)
        return [
            unit
            for unit in self._units
            if unit.uid not in gone
            and (everywhere or any(state.node_name(t) == node.name for t in unit.tasks))
            and self._keeps(node, [unit])
            and self._keeps(node, [*taken, unit])
            and self._is_victim(unit, stage, node, short, taken)
        ]

    def _keeps(self, node: NodeInfo, units: Sequence[Unit]) -> bool:
        """Return whether units may leave a node that accepts the task, and have it accept it."""
        if node.name in self._refusing:
            return True
        leaving = members([list(unit.victims) for unit in units])
        return self._session.accepts_without(self._task, node, leaving)

    def _next_victim(
        self,
        node: NodeInfo,
        stage: int,
        short: Sequence[_Shortage],
        taken: Sequence[Unit],
        left_out: Collection[str],
    ) -> Unit | None:
        """Follow the fullest queues from the root; return the least valuable victim there."""
        capacity = self._capacity
        victims = [
            unit for unit in self._victims(node, stage, short, taken) if unit.uid not in left_out
        ]
        if not victims:
            return None
        holdings = self._holdings(taken)
        dimensions = {shortage.dimension for shortage in short}

        def fullness(name: str) -> tuple[Quotient, float, str]:
            parts = [capacity.quotient(holdings.allocated(name, d), name, d) for d in dimensions]
            return max(parts), capacity.queue(name).creation_time, name

        def below(name: str) -> list[Unit]:
            return [unit for unit in victims if name in capacity.path(unit.job.queue)]

        parent = None
        while children := [name for name in capacity.children(parent) if below(name)]:
            parent = max(children, key=fullness)
        assert parent is not None
        return max(below(parent), key=lambda unit: self._place[unit.uid])


def _uids(tasks: Sequence[TaskInfo]) -> list[str]:
    return [task.uid for task in tasks]
