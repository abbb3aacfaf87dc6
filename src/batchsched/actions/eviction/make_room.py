"""Make room for a task by evicting others, within the limits of an action.

See `batchsched.actions.eviction.searching` for where, and whom.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from math import inf

from attrs import frozen

from batchsched.actions.eviction.choosing import (
    Unit,
)
from batchsched.actions.eviction.remembered_search import (
    RememberedSearch,
    SearchWhereSomeGiveWay,
    SearchWithinLimits,
)
from batchsched.actions.eviction.searching import (
    Claimant,
    Opening,
    Search,
    SearchOn,
    find_victims,
    sparing_at_first,
)
from batchsched.actions.eviction.telling import told_of_search
from batchsched.actions.placing import NOW_OR_LATER, place
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.plugin.arguments import Arguments
from batchsched.session.candidates import MayGo
from batchsched.session.outlook import (
    promises_stand,
    refusals_beside_promises,
)
from batchsched.session.session import Session
from batchsched.session.statements import Statement, TakenUnit
from batchsched.session.turns import limit_on, record_refusal
from batchsched.session.victims import (
    EvictionScope,
    EvictionSearch,
    RecentStarts,
    WhyNot,
    giving_way,
)
from batchsched.state.records import NodeState, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, minus, plus

# Limits


@frozen(kw_only=True)
class EvictionRules:
    """Limits on an action's evictions, which hold whatever plugins say."""

    most: float = inf
    """The most tasks that a cycle may evict in all; a turn that would exceed it is rolled back."""
    min_runtime: float = 0.0
    """Tasks that started less than this many seconds ago are not evicted; 0: no such rule.

    A job or replica that is evicted only as a whole is spared if any of its tasks is. The start
    times of tasks must be known.
    """

    curable: bool = False
    """Whether to search also nodes that refuse the claimant only for reasons evicting can cure.

    See `batchsched.plugin.Predicate.curable`. By default, only in configurations that name no
    tiers.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> EvictionRules:
        """Read ``maxEvictions`` and ``minRuntime``, numbers from 0, and ``curable``."""
        most = arguments.integer("maxEvictions", default=0, minimum=0)
        return cls(
            most=most if arguments.is_given("maxEvictions") else inf,
            min_runtime=arguments.number("minRuntime", default=0, minimum=0),
            curable=arguments.boolean("curable", default=arguments.has_default_tiers),
        )

    def recent(self, session: Session) -> RecentStarts | None:
        """Return the rule for tasks that started recently; None if there is no such rule."""
        return RecentStarts(session.now, self.min_runtime) if self.min_runtime > 0 else None

    def may_go(self, session: Session, scope: EvictionScope) -> MayGo:
        """Return what says whom plugins and the rule for recent starts let leave, each alone."""
        judges = session.plugins.judges[scope.point]
        return partial(judges.possible_victims, recent=self.recent(session))

    def allow(self, session: Session, statement: Statement) -> bool:
        """Return whether a statement makes no task leave, or may be committed.

        It must keep the cycle within `most`, and nodes must accept what it has placed, and what
        others were evicted for before it, once all that leaves has left: a later eviction may take
        what an earlier promise is to stand beside. O(tasks that it has placed).
        """
        if not statement.nodes_given_up():
            return True
        evictions = statement.evictions
        within = not evictions or len(session.evictions) + len(evictions) <= self.most
        return within and promises_stand(session, statement)


DEFAULT_RULES = EvictionRules()
"""No limits: any number of tasks, whenever started, but only on nodes that accept the claimant."""


# Making room


def make_room(
    session: Session,
    statement: Statement,
    task: TaskState,
    *,
    scope: EvictionScope,
    may_use_idle: bool,
    rules: EvictionRules = DEFAULT_RULES,
) -> bool:
    """Evict the tasks that are in the way of a task, and pipeline it to the node.

    Nodes are tried best first, or in node order for `EvictionScope.OTHER_QUEUES`. Single tasks are
    evicted on the first node where that is enough; only if there is none, whole jobs too, on the
    node where the fewest tasks are evicted in all. With the plugin ``priority``, in preemption, of
    all nodes those first whose most important victim is least important.

    Args:
        session: the session.
        statement: records the evictions and the placement.
        task: the claimant, Pending.
        scope: which Running tasks may be evicted, if plugins agree.
        may_use_idle: whether the task may take idle resources too; if not, it must fit in what
            its victims hold.
        rules: what holds whatever plugins say. If nodes that are searched because evicting can
            cure them (`EvictionRules.curable`) include one that will accept it once the tasks that
            are leaving have left, none is evicted; else feasible nodes go first.

    Returns:
        Whether room was made. If not, nothing was changed.

    """
    assert task.job is not None
    if scope is EvictionScope.SAME_JOB and not task.job.count(TaskStatus.RUNNING):
        return False
    claimant = claimant_for(session, statement, task, scope, rules, may_use_idle=may_use_idle)
    opening = sparing_at_first(claimant, _search)
    limit = claimant.limit
    if opening is None:
        if limit is not None:
            record_refusal(session, task, limit)
        record_search(session, task, scope, rules, may_use_idle=may_use_idle)
        return False
    node = opening.node

    def told(taken: Sequence[TakenUnit]) -> Sequence[TakenUnit]:
        is_limited = limit is not None and claimant.room_on(node).is_there_without(())
        return told_of_search(
            session,
            node,
            taken,
            scope=scope,
            candidates=claimant.candidates_on(node),
            recent=claimant.recent,
            limit=limit if is_limited else None,
        )

    return claimant.take(statement, opening, told)


def claimant_for(
    session: Session,
    statement: Statement,
    task: TaskState,
    scope: EvictionScope,
    rules: EvictionRules,
    *,
    may_use_idle: bool = True,
    units: Sequence[EvictionUnit] | None = None,
) -> Claimant:
    """Return a task as a claimant, as it is asked about in a statement now.

    `units`: those who may leave, and nobody else; None: whom plugins let go. See `make_room`.
    """
    return Claimant(
        session=session,
        task=task,
        scope=scope,
        judges=session.plugins.judges[scope.point],
        may_use_idle=may_use_idle,
        recent=rules.recent(session),
        curable=rules.curable,
        limit=limit_on(session, task),
        within=statement.within,
        kept=statement.kept_for(task),
        giving_way=_giving_way(session, task, scope),
        units=units,
    )


def _search(claimant: Claimant) -> Opening | None:
    """Search all nodes for a claimant, with what earlier searches have found out."""
    # What is remembered of a search holds for all nodes, not for those of a set.
    if (
        claimant.is_plain
        or claimant.within is not None
        or (claimant.giving_way and claimant.limit is not None)
    ):
        return find_victims(claimant, SearchOn(claimant, claimant.feasible()))
    known = RememberedSearch(claimant)
    opening: Opening | None = None
    if not known.fails_again():
        found: Search = known
        if claimant.limit is not None:
            found = SearchWithinLimits(claimant, known)
        elif claimant.giving_way:
            found = SearchWhereSomeGiveWay(claimant, known)
        opening = find_victims(claimant, found)
    if opening is None:
        known.remember_failure()
    return opening


def record_search(
    session: Session,
    task: TaskState,
    scope: EvictionScope,
    rules: EvictionRules,
    *,
    may_use_idle: bool,
    why_not: Callable[[], WhyNot] | None = None,
) -> None:
    """Record that an action searched for tasks to evict and found too few; see `EvictionSearch`."""
    session.reports.record_search(
        EvictionSearch(
            task=task,
            action=session.action_name or scope.point,
            scope=scope,
            may_use_idle=may_use_idle,
            recent=rules.recent(session),
            curable=rules.curable,
            beside_promises=refusals_beside_promises(session, task),
            why_not=why_not,
        )
    )


def _giving_way(session: Session, task: TaskState, scope: EvictionScope) -> Sequence[Unit]:
    """Return what other jobs of its queue give up for a task, the least important job first."""
    if scope is not EvictionScope.OTHER_JOBS or not session.plugins.judges[scope.point].by_priority:
        return ()
    jobs = session.jobs_having(TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
    if not jobs:
        return ()
    units = giving_way(task, jobs, [*session.evictions, *session.moves])
    return [session.in_victim_order(unit) for unit in units]


# Sparing at the end of a turn what it can do without, all its tasks taken together.
#
# What was taken for one task may leave room enough for another: then what was taken for that one
# stays. The tasks are placed again for it, and plugins choose anew for all of them.


_Place = tuple[TaskState, TaskStatus, NodeState, Mapping[str, Hashable]]


def spare_units(
    session: Session,
    statement: Statement,
    placed: Sequence[TaskState],
    *,
    may_be_dropped: Callable[[TakenUnit, Sequence[TakenUnit]], bool] | None = None,
    is_allowed: Callable[[Sequence[TakenUnit]], bool] | None = None,
    is_enough: Callable[[], bool] | None = None,
    may_be_of_one: bool = False,
) -> bool:
    """Drop units without which all tasks of a turn find a place, the last taken first.

    The tasks are placed again, where they can start now or later, in task order, each in the set
    of nodes in which it was placed.

    Args:
        session: the session.
        statement: has taken the units and placed the tasks, and done nothing else.
        placed: the tasks that it has placed.
        may_be_dropped: returns whether a unit may be, given the others; None: each may be.
        is_allowed: returns whether a claim allows the others alone, none of what it takes being
            evicted yet; None: it does.
        is_enough: returns whether it is enough that the tasks are placed as they are then; None:
            it is.
        may_be_of_one: whether to spare what was taken for a single task: each search spares by
            itself, but not what was taken before it.

    Returns:
        False if a claim is allowed only without a unit of its own queue whose room is not needed.

    O(units x tasks) searches for nodes that evict nobody.

    """
    claimants = {each.claimant.uid for each in statement.units}
    if not claimants or (len(claimants) == 1 and not may_be_of_one):
        return True
    in_order = session.in_task_order(placed)
    needed, places = statement.units, _places(in_order)
    room = RoomForAll(session, in_order, statement.nodes_given_up())
    changed = False
    for one in reversed(needed):
        without = [other for other in needed if other is not one]
        if may_be_dropped is not None and not may_be_dropped(one, without):
            continue
        gone = {victim.uid for other in without for victim in other.victims}
        staying = [victim for victim in one.victims if victim.uid not in gone]
        if not room.may_be_enough_with(staying):
            continue
        changed = True
        statement.rollback(0)
        for unit in without:
            if unit.unit is None:
                statement.take(unit)
        allows = is_allowed is None or is_allowed(without)
        if not allows and one.unit is not None:
            continue
        for unit in without:
            if unit.unit is not None:
                statement.take(unit)
        is_placed = all(_place_again(session, statement, task) for task in in_order)
        if is_placed and (is_enough is None or is_enough()):
            if not allows:
                return False
            needed, places = without, _places(in_order)
            room.keep(staying)
    if changed:
        statement.rollback(0)
        for unit in needed:
            statement.take(unit)
        for task, status, node, choices in places:
            put = Statement.allocate if status is TaskStatus.ALLOCATED else Statement.pipeline
            statement.within = statement.within_of.get(task)
            put(statement, task, node, kept=choices)
    return True


def _place_again(session: Session, statement: Statement, task: TaskState) -> bool:
    """Place a task in the set of nodes in which it was, with what plugins had to choose for it."""
    statement.within = statement.within_of.get(task)
    statement.kept = statement.kept_of
    is_placed = place(session, statement, task, NOW_OR_LATER, looks_ahead=True)
    statement.kept = EMPTY
    return is_placed


def _places(tasks: Iterable[TaskState]) -> list[_Place]:
    found: list[_Place] = []
    for task in tasks:
        assert task.node is not None
        found.append((task, task.status, task.node, task.choices))
    return found


class RoomForAll:
    """At most how many of the tasks of a turn have room, whatever else keeps them from nodes.

    A unit without which too few would have is not worth trying to spare. Where four gangs of 20
    reclaim from 60 nodes, a cycle costs 3 times less.
    """

    __slots__ = ("_count", "_free", "_given_up", "_is_plain", "_least")

    def __init__(
        self,
        session: Session,
        placed: Sequence[TaskState],
        given_up: Mapping[TaskState, NodeState],
    ) -> None:
        """Begin with tasks that are placed, and the nodes that others leave for them. O(nodes)."""
        self._given_up = given_up
        self._is_plain = Shortcut.ROOM in session.plain
        self._count = len(placed)
        requests = [amounts for task in placed for amounts in (task.resreq, task.init_resreq)]
        self._least = tuple(map(min, zip(*requests, strict=True)))
        """By dimension, what each of the tasks asks for at least."""
        held: dict[int, Vector] = {}
        for task in placed:
            assert task.node is not None
            slot = task.node.slot
            held[slot] = plus(held[slot], task.resreq) if slot in held else task.resreq
        self._free: dict[int, Vector] = {}
        """What nodes would have free for the tasks, by slot, as far as it is enough for any."""
        for node in () if self._is_plain else session.nodes:
            room = node.future_idle
            if node.slot in held:
                room = plus(room, held[node.slot])
            if self._most_in(room):
                self._free[node.slot] = room

    def may_be_enough_with(self, staying: Iterable[TaskState]) -> bool:
        """Return False if too few of the tasks would have room if some others stayed."""
        free = {**self._free, **self._less_by(staying)}
        return self._is_plain or sum(map(self._most_in, free.values())) >= self._count

    def keep(self, staying: Iterable[TaskState]) -> None:
        """Record that some tasks stay that would have left."""
        self._free.update(self._less_by(staying))

    def _less_by(self, staying: Iterable[TaskState]) -> dict[int, Vector]:
        less: dict[int, Vector] = {}
        for task in staying:
            slot = self._given_up[task].slot
            if slot in self._free:
                less[slot] = minus(less.get(slot, self._free[slot]), task.resreq)
        return less

    def _most_in(self, room: Vector) -> int:
        """Return the most of the tasks that fit in some room together, or more."""
        amounts = zip(self._least, room, strict=True)
        return min(
            (max(0, there) // asked for asked, there in amounts if asked), default=self._count
        )
