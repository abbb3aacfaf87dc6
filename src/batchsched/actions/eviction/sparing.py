"""Spare at the end of a turn what it can do without, all its tasks taken together.

What was taken for one task may leave room enough for another: then what was taken for that one
stays. The tasks are placed again for it, and plugins choose anew for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from batchsched.actions.placing import NOW_OR_LATER, place
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.session.session import Session
from batchsched.session.statements import Statement, TakenUnit
from batchsched.state.records import NodeState, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import Vector, minus, plus

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
