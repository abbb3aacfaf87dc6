"""What searches for tasks to evict have found out, so that later ones find the same sooner.

Nothing here decides: without it, nodes would be visited in vain.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from itertools import islice

from attrs import frozen

from batchsched.actions.eviction.choosing import (
    Unit,
    fewest_by_halving,
    room_with,
    units_in_order,
)
from batchsched.actions.eviction.searching import (
    NOBODY,
    Claimant,
    Importance,
    Opening,
    SearchOn,
    sums_by_importance,
)
from batchsched.session.session import Session
from batchsched.session.victims import (
    EvictionScope,
    Victims,
)
from batchsched.state.memory import DependsOn, Remembered, forget, reopening, running_slots
from batchsched.state.records import NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, fits, minus, total_of

MOST_AT_ONCE = 256
"""The most nodes about which plugins are asked at once."""


@frozen(slots=False)
class _Unshielded:
    """The tasks on a node that no plugin shields."""

    tasks: Sequence[TaskState]
    total: Vector
    """What they hold together."""

    @cached_property
    def by_importance(self) -> Sequence[tuple[Importance, Vector]]:
        """What those up to each importance hold."""
        return sums_by_importance(self.tasks, minus(self.total, self.total))


def slots_of_queue(session: Session, queue: QueueState) -> AbstractSet[int]:
    """Return the slots of the nodes where jobs of a queue run. O(these nodes, and changes)."""

    def look_again(slots: set[int], stale: set[int] | None) -> None:
        assert stale is not None
        for slot in stale:
            has_any = session.running_on(session.slots[slot]).has_any_of(queue)
            (slots.add if has_any else slots.discard)(slot)

    def look() -> set[int]:
        return set[int]().union(*map(running_slots, queue.jobs))

    return session.remembered.recall(("slots of", queue), look, look_again, DependsOn.NODES)


class RememberedSearch:
    """The room that evictions can make on the nodes that accept a claimant; see `SearchOn`.

    A node is left out of a search until something has changed there, if one of these was too
    small:

    - what it has if all tasks leave that plugins do not shield from the claimant, which holds until
      more is charged to the jobs that run there (`batchsched.plugin.EvictionHints`). Plugins are
      asked about many nodes at once, first about one, then about twice as many each time: most
      searches end after a few nodes, but those that fail visit all;
    - the victims themselves, for claimants that plugins cannot tell apart, which holds until what
      is charged to a job there changes.
    """

    def __init__(self, claimant: Claimant) -> None:
        session, task = claimant.session, claimant.task
        job = task.job
        assert job is not None
        assert job.queue is not None
        self._claimant = claimant
        self._job = job
        own = job.uid if claimant.scope is EvictionScope.SAME_JOB else None
        reads_priority = claimant.judges.by_priority and (session.binds or claimant.giving_way)
        above = job.info.priority if reads_priority else None
        self._who = claimant.scope, job.queue.name, own, claimant.recent, above, claimant.spares
        """Claimants of whom these are equal have the same candidates, but for their own jobs."""
        self._key, self._kind = claimant.judges.claimant_key(task), session.placement.kind(task)
        remembered = session.remembered
        self._alike = remembered if self._key is not None else Remembered(session.log)
        """What was found out for claimants that plugins cannot tell apart."""
        self._same = self._alike if self._kind is not None else Remembered(session.log)
        """What was found out for those of them that ask for the same."""
        self._failures = self._same.recall("failures", set[Hashable], forget, DependsOn.EVERYTHING)
        # What limits a job, such as its turn, may be no limit to another one of its queue.
        is_alone = bool(running_slots(job)) or claimant.limit is not None
        self._search = (
            *(self._who, job.uid if is_alone else "", self._kind, self._key),
            *(claimant.may_use_idle, claimant.curable, task.resreq),
        )

    def fails_again(self) -> bool:
        """Return whether the same search has failed, and nothing has changed since."""
        return self._search in self._failures

    def remember_failure(self) -> None:
        """Record that this search has failed."""
        self._failures.add(self._search)

    def _recall(self) -> None:
        """Recall what searches for like claimants have found out about nodes."""
        claimant, job = self._claimant, self._job
        session, task, scope = claimant.session, claimant.task, claimant.scope
        assert job.queue is not None
        runs_on = running_slots(job)
        self._own_nodes: AbstractSet[int] = frozenset()
        """The nodes where claimants of other jobs have candidates that this one has not."""
        if scope in (EvictionScope.OTHER_JOBS, EvictionScope.ANY_OTHER_JOB):
            self._own_nodes = runs_on
        large_enough: AbstractSet[int] = session.state.node_room.large_enough(task.init_resreq)
        if scope is EvictionScope.SAME_JOB:
            large_enough = large_enough & runs_on
        elif scope is EvictionScope.OTHER_JOBS:
            large_enough = large_enough & slots_of_queue(session, job.queue)
        among = job.queue if scope is EvictionScope.OTHER_JOBS else None
        shields = self._who, () if self._key is None else claimant.judges.shield_key(self._key)
        charges = partial(self._alike.recall, reads=DependsOn.CHARGES, among=among)
        self._unshielded = charges(("unshielded", shields), dict[int, _Unshielded], forget)
        self._nobody = charges(("nobody", shields), set[int], forget)
        """The nodes where all are shielded, or nobody runs."""
        self._open = charges(
            ("open", shields, task.init_resreq, claimant.may_use_idle),
            lambda: set(large_enough - self._nobody),
            reopening(large_enough),
        )
        """The nodes where those that are not shielded may be enough."""
        self._closed = self._same.recall(
            ("closed", self._who, self._key, self._kind, claimant.may_use_idle),
            set[int],
            forget,
            DependsOn.QUEUES if scope is EvictionScope.OTHER_QUEUES else DependsOn.ACCOUNTS,
            among,
        )
        """The nodes where the victims of a like search were not enough."""
        self._above: dict[Importance, set[int]] = {}
        """The nodes that are known to need victims that are more important, if that matters."""
        self._least: dict[int, Importance | None] = {}
        """How important victims are at least, shielded or not; None: they are not enough."""
        if len(claimant.importances) > 1:
            asked = task.init_resreq, claimant.may_use_idle, job.queue
            of_nodes = partial(session.remembered.recall, reads=DependsOn.NODES)
            self._above = of_nodes(("above", *asked), dict[Importance, set[int]], _forget_in_each)
            self._least = of_nodes(("least", *asked), dict[int, Importance | None], forget)
        self._too_small: list[int] = []
        self._undecided: set[int] = set()
        """The nodes where it depends on limits too whether the victims are enough."""
        self._visited: set[int] = set()
        """The nodes on which room was looked for."""
        self._with_jobs: list[tuple[NodeState, Victims]] = []
        """The nodes where single tasks were not enough, but whole jobs may be."""

    def where_others_give_way(self) -> Opening | None:
        """Return None: nobody gives way on these nodes."""
        return None

    def best(self, found: Opening | None) -> Opening | None:
        """Return the first of the best openings.

        One importance of victims after the other: all nodes where those up to it may be enough.
        """
        self._recall()
        claimant, best = self._claimant, found
        among = self._open - (self._closed - self._own_nodes) if self._closed else self._open
        among = among - claimant.slots_giving_way if claimant.giving_way else among
        with_jobs: set[int] = set()
        for importance in claimant.importances:
            if best is not None and best.importance < importance:
                break
            best = first_on_nodes(claimant, [best, *self._up_to(importance, among)])
            with_jobs.update(node.slot for node, _ in self._with_jobs)
        if best is None:
            # Infeasible nodes are left out too, until they change.
            self._close(among - with_jobs)
        self._open.difference_update(self._too_small)
        return best

    def _up_to(self, importance: Importance, among: AbstractSet[int]) -> Iterator[Opening]:
        """Yield openings on the nodes that are left where victims up to an importance may do.

        The last one of single tasks is the first on these nodes of such victims alone.
        """
        left = among - self._visited if self._visited else among
        if importance in self._above:
            left = left - self._above[importance]
        if importance is NOBODY and self._claimant.by_importance:
            left = left & self._claimant.session.bound_on
        self._with_jobs.clear()
        for node, unshielded in self._promising(left, importance):
            self._visited.add(node.slot)
            tasks = unshielded
            if node.slot in self._own_nodes:
                tasks = [other for other in tasks if other.job is not self._job]
            victims = self._claimant.victims_among(tasks, node)
            opening = self._single_tasks(node, victims)
            if opening is not None:
                yield opening
                if opening.importance <= importance:
                    return
            elif not victims.is_all_alone:
                self._with_jobs.append((node, victims))
            else:
                self._close({node.slot})
        yield from self._of_jobs()

    def _of_jobs(self) -> Iterator[Opening]:
        """Yield openings with whole jobs, on the nodes where single tasks were not enough."""
        session = self._claimant.session
        cheaper: AbstractSet[int] | None = None
        for node, victims in self._with_jobs:
            if cheaper is not None and node.slot not in cheaper:
                continue
            opening = self._fewest(node, units_in_order(session, victims), is_alone=False)
            if opening is None:
                self._close({node.slot})
                continue
            yield opening
            if not self._claimant.by_importance:
                cheaper = opening.cheaper_on(session)

    def _close(self, slots: AbstractSet[int]) -> None:
        """Leave nodes out of like searches, where what all claimants may evict is not enough."""
        self._closed |= slots - self._own_nodes - self._undecided

    def _single_tasks(self, node: NodeState, victims: Victims) -> Opening | None:
        if not victims.alone:
            return None
        if not self._claimant.shortfall(node).is_enough_with(victims.alone):
            return None  # usually not even all of them are enough
        return self._fewest(node, [[one] for one in victims.alone], is_alone=True)

    def _fewest(self, node: NodeState, units: Sequence[Unit], *, is_alone: bool) -> Opening | None:
        if self._claimant.may_tighten_limits(task for unit in units for task in unit):
            self._undecided.add(node.slot)
        return self._claimant.fewest(node, units, is_alone=is_alone)

    # Which nodes are worth asking about

    def _promising(
        self, among: Collection[int], importance: Importance
    ) -> Iterator[tuple[NodeState, Sequence[TaskState]]]:
        """Yield the nodes where all who are not shielded would be enough, with these tasks.

        Not those where victims up to an importance are not enough.
        """
        claimant = self._claimant
        request, may_use_idle = claimant.task.init_resreq, claimant.may_use_idle
        nodes = iter(claimant.feasible(among) if among else ())
        is_last = importance == claimant.importances[-1]
        if not is_last:
            nodes = (node for node in nodes if self._may_do(node, importance))
        at_once = 1
        while some := list(islice(nodes, at_once)):
            self._ask_about(some)
            for node in some:
                known = self._unshielded.get(node.slot)
                if known is None or not fits(
                    request, room_with(node, known.total, may_use_idle=may_use_idle)
                ):
                    self._too_small.append(node.slot)
                    self._visited.add(node.slot)
                elif is_last or claimant.is_enough_up_to(importance, known.by_importance, node):
                    yield node, known.tasks
            at_once = min(2 * at_once, MOST_AT_ONCE)

    def nodes_to_clear(self) -> Iterator[NodeState]:
        """Yield the nodes where all who are not shielded would be enough, in order."""
        self._recall()
        for node, _ in self._promising(set(self._open), self._claimant.importances[-1]):
            self._open.difference_update(self._too_small)
            yield node
        self._open.difference_update(self._too_small)

    def _may_do(self, node: NodeState, importance: Importance) -> bool:
        """Return whether victims up to an importance may be enough on a node, shielded or not."""
        if node.slot not in self._least:
            least = self._least[node.slot] = self._claimant.least_on(node)
            for each in self._claimant.importances:
                if least is None or each < least:
                    self._above.setdefault(each, set()).add(node.slot)
        least = self._least[node.slot]
        return least is not None and least <= importance

    def _ask_about(self, nodes: Sequence[NodeState]) -> None:
        """Ask plugins which tasks they shield on those of some nodes that are not known."""
        claimant, recent = self._claimant, self._claimant.recent
        known, nobody = self._unshielded, self._nobody
        free: dict[int, list[TaskState]] = {}
        candidates: list[TaskState] = []
        for node in nodes:
            if node.slot in known or node.slot in nobody:
                continue
            tasks = claimant.candidates_on(node, with_own_job=True)
            free[node.slot] = []
            if node.slot in self._own_nodes:
                # Plugins may shield tasks from their own job but not from others, or the reverse.
                free[node.slot] = [task for task in tasks if task.job is self._job]
                tasks = [task for task in tasks if task.job is not self._job]
            candidates += tasks
        if not free:
            return
        for other in claimant.judges.unshielded(claimant.task, candidates):
            if recent is None or other not in recent:
                assert other.node is not None
                free[other.node.slot].append(other)
        zero = claimant.session.dimensions.zero
        for slot, left in free.items():
            if left:
                known[slot] = _Unshielded(left, total_of([task.resreq for task in left], zero))
            else:
                nobody.add(slot)


def first_on_nodes(claimant: Claimant, openings: Iterable[Opening | None]) -> Opening | None:
    """Return the best of some openings; of equals, that on the node that is tried first."""
    found = [opening for opening in openings if opening is not None]
    if len(found) < 2:  # noqa: PLR2004
        return found[0] if found else None
    least = min(opening.rank for opening in found)
    by_slot = {each.node.slot: each for each in reversed(found) if each.rank == least}
    if len(by_slot) == 1:
        return next(iter(by_slot.values()))
    return by_slot[next(iter(claimant.feasible(by_slot.keys()))).slot]


def _forget_in_each(answer: dict[Importance, set[int]], stale: set[int] | None) -> None:
    for slots in answer.values():
        forget(slots, stale)


class SearchWhereSomeGiveWay:
    """The room on nodes where others give something up, and on all others as it is remembered."""

    def __init__(self, claimant: Claimant, others: RememberedSearch) -> None:
        self._claimant = claimant
        self._where_some_do = SearchOn(claimant, claimant.feasible(claimant.slots_giving_way))
        self._others = others

    def where_others_give_way(self) -> Opening | None:
        """Return the first node where it is enough that others give way."""
        return self._where_some_do.where_others_give_way()

    def best(self, found: Opening | None) -> Opening | None:
        """Return the first of the best openings."""
        openings = [found, self._where_some_do.best(None), self._others.best(None)]
        return first_on_nodes(self._claimant, openings)


class SearchWithinLimits(SearchOn):
    """The room that evictions can make for a claimant that limits keep out; see `SearchOn`.

    All nodes that would take it as they are share one search, that for the first of them. Where
    there is none, as on a full cluster, nodes are found one by one as they are asked for, among
    those where all whom plugins do not shield would be enough, as they are remembered: 100,000
    tasks that run, and 50 gangs of four that preempt 400 of them, cost FACTOR times less.
    """

    def __init__(self, claimant: Claimant, remembered: RememberedSearch) -> None:
        """Find the nodes that are worth searching. O(nodes + candidates) where one has room."""
        super().__init__(claimant, ())
        self._remembered = remembered
        worth_it = self._worth_searching if claimant.has_room else self._worth_clearing
        self._nodes = worth_it(claimant)

    def where_others_give_way(self) -> Opening | None:
        """Return None: where others give way, limits are not searched so."""
        return None

    @staticmethod
    def _worth_searching(claimant: Claimant) -> Iterator[NodeState]:
        if not _may_ever_suffice(claimant):
            return
        shares_search = False
        for node in claimant.feasible():
            candidates = claimant.candidates_on(node)
            if shares_search and not candidates:
                continue
            shortfall = claimant.shortfall(node)
            if shortfall.is_enough_with(()) and claimant.room_on(node).has_choice_without(()):
                if not shares_search:
                    yield node
                shares_search = True
            elif candidates and shortfall.is_enough_with(candidates):
                yield node

    def _worth_clearing(self, claimant: Claimant) -> Iterator[NodeState]:
        for number, node in enumerate(self._remembered.nodes_to_clear()):
            # Mostly the first node is enough, and to look at all who may leave takes long.
            if number == 1 and not _may_ever_suffice(claimant):
                return
            yield node

    def _fewest(
        self, node: NodeState, units: Sequence[Unit], *, is_alone: bool = True
    ) -> Opening | None:
        claimant = self._claimant
        grows = not (
            claimant.may_choose or claimant.may_tighten_limits(t for unit in units for t in unit)
        )
        choose = fewest_by_halving if grows else None
        return claimant.fewest(node, units, is_alone=is_alone, choose=choose)


def _may_ever_suffice(claimant: Claimant) -> bool:
    """Return whether limits would allow a claimant if all who may leave did. O(candidates)."""
    everybody = claimant.candidates_everywhere()
    return bool(everybody) and (
        claimant.is_within_limits(everybody) or claimant.may_tighten_limits(everybody)
    )
