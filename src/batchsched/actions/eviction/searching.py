"""The search for a node where others leave for a task: the definition.

Of all nodes where it is enough that others leave, that one is chosen whose most important victim is
least important, where priorities count; then one where single tasks are enough, the first of these;
then the first where, with replicas and whole jobs, the fewest tasks are evicted.

`SearchOn` is the definition; see `batchsched.actions.eviction.remembered_search` for what finds the
same with what earlier searches have found out.

Nodes may also be searched that refuse the task for a reason that evicting can cure, such as too
many tasks on the node, a host port in use, or a task that it must not run beside. Tasks are then
evicted until the claimant fits and the node accepts it, both judged without all tasks that are
leaving the node.

Where limits of queues keep the claimant out, tasks are evicted until these allow it too. On a node
that would take it as it is, anybody may be evicted for that who is within its scope, on any node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from typing import Protocol, TypeVar

from attrs import define, field, frozen

from batchsched.actions.eviction.choosing import (
    Choose,
    RoomOn,
    Shortfall,
    Unit,
    fewest_units,
    members_of,
    room_with,
    units_in_order,
)
from batchsched.actions.placing import take_room
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import Unfit
from batchsched.model.rules import out_of_service
from batchsched.plugin.candidates import NodeSet
from batchsched.session.outlook import curable_nodes, looks_ahead, nodes_for
from batchsched.session.session import Session
from batchsched.session.statements import Statement, TakenUnit
from batchsched.session.turns import limit_on, may_take_task
from batchsched.session.victims import (
    EvictionScope,
    Judges,
    RecentStarts,
    Victims,
    WholeJobs,
)
from batchsched.state.memory import DependsOn, forget
from batchsched.state.records import Fit, JobState, NodeState, QueueState, TaskState, counts_leaving
from batchsched.state.shortcuts import Shortcut
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, fits, total_of

Importance = tuple[float, ...]
"""The priority of a job, and of its task; empty: of nobody."""

NOBODY: Importance = ()
"""Below all others: nobody is evicted, only binds are taken back."""


def importance_of(task: TaskState) -> Importance:
    """Return how important a task is as a victim; what has only been bound costs nothing."""
    if task.status is not TaskStatus.RUNNING or task.job is None:
        return NOBODY
    return task.job.info.priority, task.info.priority


def importance_among(victims: Iterable[TaskState]) -> Importance:
    """Return how important the most important of some victims is."""
    return max(map(importance_of, victims), default=NOBODY)


@frozen(slots=False)
class Opening:
    """A node, and the units to evict to make room there."""

    node: NodeState
    units: Sequence[Unit]
    is_alone: bool = True
    """Whether they are single tasks."""
    by_importance: bool = False
    """Whether it matters how important they are."""
    claimed: Sequence[EvictionUnit] = ()
    """What the units are to a claim, if one takes them."""
    stage: int = 0
    """At which stage a claim takes them."""

    @cached_property
    def victims(self) -> Sequence[TaskState]:
        """The tasks of the units, each once."""
        return members_of(self.units)

    @cached_property
    def cost(self) -> int:
        """How many tasks are evicted; what is taken back costs nothing, for no one has seen it."""
        return len([victim for victim in self.victims if victim.status is TaskStatus.RUNNING])

    @cached_property
    def importance(self) -> Importance:
        """How important the most important victim is, if that matters."""
        if not self.by_importance:
            return NOBODY
        return importance_among(self.victims)

    @property
    def rank(self) -> tuple[Importance, bool, int]:
        """The smallest is the best: least important, single tasks, then as few as possible."""
        return self.importance, not self.is_alone, 0 if self.is_alone else self.cost

    def taken_for(self, task: TaskState) -> list[TakenUnit]:
        """Return the units as they are taken for a task."""
        claimed: Sequence[EvictionUnit | None] = self.claimed or [None] * len(self.units)
        return [
            TakenUnit(unit, task, each, self.stage)
            for unit, each in zip(self.units, claimed, strict=True)
        ]

    def cheaper_on(self, session: Session) -> AbstractSet[int] | None:
        """Return the slots of the nodes where room may cost less; None: of all nodes.

        Only where this cycle has bound tasks may it cost nothing, if room on the node is lacking.
        """
        return None if self.cost > 1 else session.bound_on if self.cost else frozenset()


def first_of_best(openings: Iterable[Opening | None]) -> Opening | None:
    """Return the first of the best openings, if there is any."""
    found = (opening for opening in openings if opening is not None)
    return min(found, key=lambda opening: opening.rank, default=None)


@define(kw_only=True, eq=False)
class NodeSearch(ABC):
    """A search for a node where others are evicted for a task."""

    session: Session
    task: TaskState
    within: NodeSet | None = None
    """The only nodes on which it may be placed, and others evicted; None: any."""
    kept: Mapping[str, Hashable] = EMPTY
    """What plugins must choose for it."""
    may_use_idle: bool = True
    """Whether it may take idle resources too; if not, it must fit in what its victims hold."""
    curable: bool = False
    """Whether nodes that refuse it for reasons that evicting can cure are searched too."""
    spares: bool = False
    """Whether what plugins allow at need alone is not taken; see `batchsched.plugin`."""
    is_plain: bool = field(init=False)
    """Whether nothing is foreseen or remembered: each node is tried to the end."""
    may_choose: bool = field(init=False)
    """Whether plugins may choose something for it, of which others may hold too much."""
    ahead: Sequence[NodeState] | None = field(init=False, default=None)
    """The nodes that accept it as they will be, in the order in which they are searched.

    None: it makes no difference to it who leaves or comes.
    """

    def __attrs_post_init__(self) -> None:
        session, task = self.session, self.task
        self.is_plain = Shortcut.ROOM in session.plain
        self.may_choose = session.may_choose(task)
        if looks_ahead(session, task):
            self.ahead = list(nodes_for(session, task))

    @property
    def looks_ahead(self) -> bool:
        """Whether nodes may accept it otherwise once others have left or come."""
        return self.ahead is not None

    def of_set(self, nodes: Iterable[NodeState]) -> list[NodeState]:
        """Return those of some nodes on which it may be placed."""
        slots = None if self.within is None else self.within.slots
        return [node for node in nodes if slots is None or node.slot in slots]

    def slots_of_set(self, among: Collection[int] | None) -> Collection[int] | None:
        """Return those of some slots on which it may be placed; None: all are meant."""
        if self.within is None:
            return among
        return self.within.slots if among is None else self.within.slots.intersection(among)

    def feasible(self, among: Collection[int] | None = None) -> Iterable[NodeState]:
        """Return the nodes that accept it, in the order of the search; `among` these, if given."""
        among = self.slots_of_set(among)
        if self.ahead is None:
            return self.session.placement.feasible(self.task, among)
        return [node for node in self.ahead if among is None or node.slot in among]

    def refusing(self) -> list[NodeState]:
        """Return the nodes that may accept it once others are evicted, in the same order."""
        return self.of_set(curable_nodes(self.session, self.task)) if self.curable else []

    def shortfall(self, node: NodeState) -> Shortfall:
        """Return what it lacks of room on a node."""
        return Shortfall(self.task, node, Fit.LATER, may_use_idle=self.may_use_idle)

    def room_on(
        self,
        node: NodeState,
        *,
        refuses: bool = False,
        limits: Callable[[Sequence[TaskState]], bool] | None = None,
    ) -> RoomOn:
        """Return the room for it on a node; `refuses`: whether that refuses it as it is."""
        return RoomOn(
            session=self.session,
            task=self.task,
            node=node,
            may_use_idle=self.may_use_idle,
            kept=self.kept,
            is_refused=refuses,
            looks_ahead=self.looks_ahead,
            limits=limits,
        )

    @cached_property
    def has_room(self) -> bool:
        """Whether it fits on a node although nobody is evicted."""
        if self.ahead is None and self.within is None and not self.may_choose and self.may_use_idle:
            return self.session.best_node(self.task, Fit.LATER) is not None
        return any(self.room_on(node).is_there_without(()) for node in self.feasible())

    @abstractmethod
    def has_room_soon(self, node: NodeState) -> bool:
        """Return whether on a node that refuses it enough is leaving already."""

    def may_leave_together(self, tasks: Collection[TaskState]) -> bool:
        """Return whether plugins let some tasks leave for it together."""
        asked = self.session.plugins.may_leave_together
        return asked is None or asked(self.task, tasks, self.spares)

    def take(
        self,
        statement: Statement,
        opening: Opening,
        told: Callable[[Sequence[TakenUnit]], Sequence[TakenUnit]],
    ) -> bool:
        """Evict the units of an opening and promise it the node, or nothing if limits forbid that.

        `told`: returns the units with what a traced cycle tells of them.
        """
        session, task = self.session, self.task
        if not may_take_task(session, task, leaving=opening.victims):
            return False
        taken: Sequence[TakenUnit] = opening.taken_for(task)
        if session.teller is not None:
            taken = told(taken)
        take_room(session, statement, task, opening.node, taken)
        return True


SearchT = TypeVar("SearchT", bound=NodeSearch)


@define(kw_only=True, eq=False)
class Claimant(NodeSearch):
    """A task for which room is to be made, and whom that may cost."""

    scope: EvictionScope
    judges: Judges
    """The plugins whose verdicts count."""
    recent: RecentStarts | None
    limit: Unfit | None
    """Why the limits of queues forbid it as long as nobody is evicted, if they do."""
    giving_way: Sequence[Unit] = ()
    """What others give up for it before anybody is evicted; see `giving_way`."""
    units: Sequence[EvictionUnit] | None = None
    """Those who may leave, the first to go first, and nobody else; None: whom plugins let go."""
    _whole_jobs: WholeJobs | None = field(init=False)
    """What was found out about whole jobs in this search; None: each is asked about anew."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._whole_jobs = None if self.is_plain else {}
        if self.ahead is not None:
            self.ahead = self._in_order(self.of_set(self.ahead))

    def allowed(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Return the units that may leave, each with those before it that may."""
        if self.session.plugins.may_leave_together is None:
            return units
        taken: list[TaskState] = []
        allowed: list[Unit] = []
        for unit in units:
            if self.may_leave_together([*taken, *unit]):
                allowed.append(unit)
                taken += unit
        return allowed

    @property
    def by_importance(self) -> bool:
        """Whether it matters how important its victims are: in preemption by priorities."""
        return self.judges.by_priority and self.scope in _WITHIN_QUEUE

    @cached_property
    def importances(self) -> Sequence[Importance]:
        """How important its victims may be, and perhaps more than that, the least first.

        O(tasks of the jobs that run in its queue) once in a session.
        """
        session, job = self.session, self.task.job
        if not self.by_importance or job is None or job.queue is None:
            return (NOBODY,)
        is_within = self.scope is EvictionScope.SAME_JOB
        known = _importances_of([job]) if is_within else importances_in(session, job.queue)
        return (NOBODY, *known) if session.bound_on or not known else known

    def may_be_better_on(self, node: NodeState, than: Opening | None) -> bool:
        """Return False if no room on a node can be better than what was found elsewhere.

        That is so where all who may leave there are more important.
        """
        if than is None or not self.by_importance or (self.limit is not None and self.has_room):
            return True  # where only limits are short, victims may be anywhere
        if self.is_plain or node.slot in self.slots_giving_way:
            return True
        assert self.task.job is not None
        held = held_by_importance(self.session, self.task.job.queue, node)
        if not held:
            return False
        least = held[0][0]
        return least < than.importance or (least == than.importance and not than.is_alone)

    def least_on(self, node: NodeState) -> Importance | None:
        """Return how important its most important victim on a node is at least; None: too little.

        However much plugins let go. O(importances there).
        """
        assert self.task.job is not None
        return self._least_of(held_by_importance(self.session, self.task.job.queue, node), node)

    def _least_of(
        self, sums: Iterable[tuple[Importance, Vector]], node: NodeState
    ) -> Importance | None:
        request, may_use_idle = self.task.init_resreq, self.may_use_idle
        for importance, held in sums:
            if fits(request, room_with(node, held, may_use_idle=may_use_idle)):
                return importance
        return None

    def is_enough_up_to(
        self, importance: Importance, sums: Sequence[tuple[Importance, Vector]], node: NodeState
    ) -> bool:
        """Return whether tasks up to an importance may be enough on a node, given their sums.

        `sums`: as of `sums_by_importance`. O(importances there).
        """
        least = self._least_of(sums, node)
        return least is not None and least <= importance

    def is_within_limits(self, gone: Sequence[TaskState]) -> bool:
        """Return whether the limits of queues allow it once some tasks have left."""
        if self.limit is None and not self.may_tighten_limits(gone):
            return True
        return limit_on(self.session, self.task, leaving=gone) is None

    def may_tighten_limits(self, gone: Iterable[TaskState]) -> bool:
        """Return whether limits may forbid it once tasks have left, though they allow it now.

        That is so only on nodes that are out of service, or have lost devices under these tasks:
        there is less to be had then.
        """
        if not self.session.plugins.limits_queues:
            return False
        lost = lost_nodes(self.session)
        return bool(lost) and any(t.node is not None and t.node.slot in lost for t in gone)

    @cached_property
    def slots_giving_way(self) -> AbstractSet[int]:
        """The slots of the nodes where others give something up."""
        return {
            task.node.slot for unit in self.giving_way for task in unit if task.node is not None
        }

    def giving_way_on(self, node: NodeState, *, is_everywhere: bool) -> list[Unit]:
        """Return what others give up on a node; where only limits are short, on any node."""
        if is_everywhere or node.slot not in self.slots_giving_way:
            return list(self.giving_way) if is_everywhere else []
        return [unit for unit in self.giving_way if any(task.node is node for task in unit)]

    def feasible(self, among: Collection[int] | None = None) -> Iterable[NodeState]:
        """Return the nodes that accept it: best first, or in node order for other queues."""
        if self.ahead is None and self.scope is not EvictionScope.OTHER_QUEUES:
            return self.session.placement.ranked(self.task, self.slots_of_set(among))
        return super().feasible(among)

    def refusing(self) -> list[NodeState]:
        """Return the nodes that may accept it once others are evicted, in the same order."""
        return self._in_order(super().refusing())

    def _in_order(self, nodes: list[NodeState]) -> list[NodeState]:
        """Return nodes, given in node order, in the order in which they are searched."""
        if self.scope is EvictionScope.OTHER_QUEUES or not nodes:
            return nodes
        task, placement = self.task, self.session.placement
        scores = placement.totals(task, [placement.raw_scores(task, node) for node in nodes])
        order = sorted(range(len(nodes)), key=lambda place: (-scores[place], place))
        return [nodes[place] for place in order]

    def candidates_on(self, node: NodeState, *, with_own_job: bool = False) -> Sequence[TaskState]:
        """Return the tasks on a node that may leave and are within its scope."""
        running = self.session.running_on(node)
        return self.scope.candidates(self.task, running, self.judges, with_own_job=with_own_job)

    def candidates_for(self, node: NodeState, *, refuses: bool) -> Sequence[TaskState]:
        """Return the Running tasks that may be evicted for a place on a node, if plugins agree.

        If only limits forbid that place, they are on all nodes.

        Args:
            node: the node.
            refuses: whether it refuses the claimant as it is.

        """
        if self.lacks_limits_alone(node, refuses=refuses):
            return self.candidates_everywhere()
        return self.candidates_on(node)

    def lacks_limits_alone(self, node: NodeState, *, refuses: bool) -> bool:
        """Return whether nothing but limits keeps it from a node."""
        return (
            self.limit is not None
            and (room := self.room_on(node)).is_there_without(())
            and not (refuses and not room.is_accepted_without(()))
        )

    def has_room_soon(self, node: NodeState) -> bool:
        """Return whether on a node that refuses it enough is leaving already."""
        return self.room_on(node, refuses=True, limits=self.is_within_limits).is_enough(())

    def candidates_everywhere(self) -> list[TaskState]:
        """Return the Running tasks on all nodes that are within its scope."""
        session, job = self.session, self.task.job
        assert job is not None
        nodes: Iterable[NodeState] = self.of_set(session.nodes)
        if self.scope in {EvictionScope.OTHER_JOBS, EvictionScope.SAME_JOB}:
            nodes = [node for node in nodes if session.running_on(node).has_any_of(job.queue)]
        return [task for node in nodes for task in self.candidates_on(node)]

    def victims_on(self, node: NodeState, *, refuses: bool) -> Victims:
        """Return who may leave for a place on a node; `refuses`: whether that refuses it now."""
        if self.units is not None:
            anywhere = self.limit is not None and self.room_on(node).is_there_without(())
            there = [
                unit
                for unit in self.units
                if anywhere or any(task.node is node for task in unit.victims)
            ]
            return Victims(replicas=there)
        candidates = self.candidates_for(node, refuses=refuses)
        return self.victims_among(candidates, node, refuses=refuses)

    def victims_among(
        self, candidates: Sequence[TaskState], node: NodeState, *, refuses: bool = False
    ) -> Victims:
        """Return whom plugins let go of some candidates for a place on a node.

        `refuses`: whether it refuses the claimant as it is. If not, the last ones that it must be
        near are no candidates.
        """
        if self.looks_ahead and not refuses:
            units = self.room_on(node).may_leave([(each,) for each in candidates])
            candidates = [candidate for (candidate,) in units]
        if not candidates:
            return Victims()
        in_order = self.session.in_victim_order(candidates)
        return self.judges.victims(self.task, in_order, self._whole_jobs, self.recent)

    def fewest(
        self,
        node: NodeState,
        units: Sequence[Unit],
        *,
        refuses: bool = False,
        is_alone: bool = True,
        choose: Choose | None = None,
    ) -> Opening | None:
        """Return the fewest of some units that may leave and are enough on a node."""
        units = self.allowed(units)
        if not units:
            return None  # room that is there without victims is not made
        is_limited = self.limit is not None or self.may_tighten_limits(
            task for unit in units for task in unit
        )
        limits = self.is_within_limits if is_limited else None
        if choose is None and self.is_plain:
            choose = fewest_units
        chosen = self.room_on(node, refuses=refuses, limits=limits).fewest(units, choose)
        return None if chosen is None else Opening(node, chosen, is_alone, self.by_importance)


def lost_nodes(session: Session) -> AbstractSet[int]:
    """Return the slots of nodes that are out of service, or where tasks hold more than there is.

    O(nodes) once in a session, then O(nodes changed since).
    """

    def look_again(lost: set[int], stale: set[int] | None) -> None:
        assert stale is not None
        lost -= stale
        lost.update(slot for slot in stale if _has_lost(session.slots[slot]))

    def look() -> set[int]:
        return {node.slot for node in session.nodes if _has_lost(node)}

    return session.remembered.recall("lost nodes", look, look_again, DependsOn.NODES)


def _has_lost(node: NodeState) -> bool:
    return min(node.idle) < 0 or out_of_service(node.info) is not None


_WITHIN_QUEUE = (EvictionScope.OTHER_JOBS, EvictionScope.SAME_JOB)


def _importances_of(jobs: Iterable[JobState]) -> list[Importance]:
    found: set[Importance] = set()
    for job in jobs:
        if any(counts_leaving(job.counts)):
            priority = job.info.priority
            found.update([(priority, task.info.priority) for task in job.tasks])
    return sorted(found)


def importances_in(session: Session, queue: QueueState) -> Sequence[Importance]:
    """Return how important tasks are that run in a queue, and perhaps more, the least first.

    O(tasks of the jobs that run there) once in a session.
    """
    return session.remembered.recall(
        ("importances", queue), lambda: _importances_of(queue.jobs), _stay, DependsOn.NODES
    )


def held_by_importance(
    session: Session, queue: QueueState | None, node: NodeState
) -> Sequence[tuple[Importance, Vector]]:
    """Return what tasks of a queue that may leave hold on a node, up to each importance.

    By importance, the least first. O(tasks on the node) once.
    """
    of_nodes = session.remembered.recall(
        ("held by importance", queue),
        dict[int, Sequence[tuple[Importance, Vector]]],
        forget,
        DependsOn.NODES,
    )
    known = of_nodes.get(node.slot)
    if known is None:
        known = of_nodes[node.slot] = sums_by_importance(
            session.running_on(node).of_queue(queue), session.dimensions.zero
        )
    return known


def sums_by_importance(
    tasks: Iterable[TaskState], zero: Vector
) -> Sequence[tuple[Importance, Vector]]:
    """Return what tasks up to each importance hold, by importance, the least first. O(tasks)."""
    by_importance: dict[Importance, list[Vector]] = {}
    for task in tasks:
        by_importance.setdefault(importance_of(task), []).append(task.resreq)
    sums: list[tuple[Importance, Vector]] = []
    held = zero
    for importance in sorted(by_importance):
        held = total_of([held, *by_importance[importance]], zero)
        sums.append((importance, held))
    return sums


def _stay(*_: object) -> None:
    """Correct nothing: who comes to run in a cycle was only bound."""


def find_opening(
    search: NodeSearch, best: Callable[[Sequence[NodeState]], Opening | None]
) -> Opening | None:
    """Return the node where it costs least to evict others for a task, and whom to evict there.

    `best`: returns that, given the nodes that refuse the task, but may accept it once others left.
    """
    refusing = search.refusing()
    for node in refusing:
        if search.has_room_soon(node):
            return Opening(node, ())
    return best(refusing)


def sparing_at_first(search: SearchT, find: Callable[[SearchT], Opening | None]) -> Opening | None:
    """Return what a search finds, if need be with what plugins allow at need alone."""
    for spares in (True, False) if search.session.plugins.spares_first else (False,):
        search.spares = spares
        opening = find(search)
        if opening is not None:
            return opening
    return None


def find_victims(claimant: Claimant, feasible: Search) -> Opening | None:
    """Return the best node, and who leaves there, of those whom plugins let go.

    `feasible`: what can be found on the nodes that accept the claimant as they are.
    """
    return find_opening(claimant, partial(_best_of, claimant, feasible))


def _best_of(claimant: Claimant, feasible: Search, refusing: Sequence[NodeState]) -> Opening | None:
    searched = [feasible, SearchOn(claimant, refusing, cures=True)]
    for among in searched if claimant.giving_way else ():
        opening = among.where_others_give_way()
        if opening is not None:
            return opening
    best: Opening | None = None
    for among in searched:
        best = first_of_best([best, among.best(best)])
        if best is not None and _is_least(claimant, best):
            break
    return best


def _is_least(claimant: Claimant, opening: Opening) -> bool:
    """Return whether nothing better than an opening can be found on nodes that come later."""
    return opening.is_alone and opening.importance <= claimant.importances[0]


class Search(Protocol):
    """A search on some nodes, which are tried in order."""

    def where_others_give_way(self) -> Opening | None:
        """Return the first node where it is enough that others give way."""
        ...

    def best(self, found: Opening | None) -> Opening | None:
        """Return the first of the best openings; or None if what was found before is as good."""
        ...


class SearchOn:
    """The room that evictions can make on some nodes, which are tried in order."""

    def __init__(
        self, claimant: Claimant, nodes: Iterable[NodeState], *, cures: bool = False
    ) -> None:
        """Ask on each node whom plugins let go; `cures`: whether the nodes refuse the claimant."""
        self._claimant = claimant
        self._cures = cures
        self._nodes: Iterable[NodeState] = nodes if isinstance(nodes, Sequence) else list(nodes)
        self._victims: dict[int, Victims] = {}

    def where_others_give_way(self) -> Opening | None:
        """Return the first node where it is enough that others give way."""
        openings = (self._fewest(node, self._giving_way_on(node)) for node in self._nodes)
        return next((opening for opening in openings if opening is not None), None)

    def _giving_way_on(self, node: NodeState) -> list[Unit]:
        claimant = self._claimant
        if not claimant.giving_way:
            return []
        is_everywhere = claimant.lacks_limits_alone(node, refuses=self._cures)
        return claimant.giving_way_on(node, is_everywhere=is_everywhere)

    def best(self, found: Opening | None) -> Opening | None:
        """Return the first of the best openings; or None if what was found before is as good.

        On each node single tasks are evicted, and whole jobs too where these are not enough.
        """
        claimant, best = self._claimant, found
        if best is not None and _is_least(claimant, best):
            return None
        others: list[NodeState] = []
        for node in self._nodes:
            if not claimant.may_be_better_on(node, best):
                continue
            opening = self._alone_on(node)
            if opening is None:
                others.append(node)
                continue
            best = first_of_best([best, opening])
            if _is_least(claimant, opening):
                return best
        for node in others:
            if claimant.may_be_better_on(node, best):
                best = first_of_best([best, self._with_jobs_on(node)])
        return best

    def _alone_on(self, node: NodeState) -> Opening | None:
        alone = self._victims_on(node).alone
        first = self._giving_way_on(node) if alone else []
        return self._fewest(node, [*first, *([victim] for victim in alone)])

    def _with_jobs_on(self, node: NodeState) -> Opening | None:
        victims = self._victims_on(node)
        if victims.is_all_alone:
            return None
        units = units_in_order(self._claimant.session, victims)
        return self._fewest(node, [*self._giving_way_on(node), *units], is_alone=False)

    def _victims_on(self, node: NodeState) -> Victims:
        known = self._victims.get(node.slot)
        if known is None:
            known = self._claimant.victims_on(node, refuses=self._cures)
            self._victims[node.slot] = known
        return known

    def _fewest(
        self, node: NodeState, units: Sequence[Unit], *, is_alone: bool = True
    ) -> Opening | None:
        """Return the fewest of some units that are enough on a node."""
        return self._claimant.fewest(node, units, refuses=self._cures, is_alone=is_alone)
