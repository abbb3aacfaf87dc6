"""Choose victims on a node: no more than are needed to make room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from batchsched.model.cluster import TaskStatus
from batchsched.model.resources import EPSILON
from batchsched.session.statement import Statement
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, fits, is_empty, minus, plus, total_of

__all__ = [
    "FreedResources",
    "Shortfall",
    "Unit",
    "choose_units",
    "evict_for",
    "room_with",
    "running_tasks",
    "spare",
    "take_until",
]


def evict_for(
    task: TaskState, victims: Iterable[TaskState], node: NodeState, statement: Statement
) -> None:
    """Evict `victims`, and pipeline `task` to `node`."""
    for victim in victims:
        statement.evict(victim, claimant=task)
    statement.pipeline(task, node)


class FreedResources:
    """The resources that some victims hold together, updated as victims are added and removed."""

    __slots__ = ("_all", "_for_good")

    def __init__(self, victims: Sequence[TaskState] = ()) -> None:
        self._all = _sum_of(victims)
        for_good = [victim for victim in victims if not victim.is_backfill]
        self._for_good = self._all if len(for_good) == len(victims) else _sum_of(for_good)

    def add(self, victim: TaskState) -> None:
        """Count one more victim. O(dimensions)."""
        amounts = victim.resreq
        self._all = plus(self._all, amounts) if self._all else amounts
        if not victim.is_backfill:
            self._for_good = plus(self._for_good, amounts) if self._for_good else amounts

    def remove(self, victim: TaskState) -> None:
        """Stop counting a victim. O(dimensions)."""
        self._all = minus(self._all, victim.resreq)
        if not victim.is_backfill:
            self._for_good = minus(self._for_good, victim.resreq)

    def covers(self, missing: Vector) -> bool:
        """Return whether the victims hold at least `missing`."""
        return fits(missing, self._all) if self._all else is_empty(missing)

    def covers_for_good(self, missing: Vector) -> bool:
        """Return whether the victims that are not backfill tasks hold at least `missing`.

        A node's `accessible` and `eventual` already include what backfill tasks hold.
        """
        return fits(missing, self._for_good) if self._for_good else is_empty(missing)


def _sum_of(victims: Sequence[TaskState]) -> Vector:
    """Return the sum of what victims hold; an empty tuple if there are none."""
    return total_of([victim.resreq for victim in victims], ())


def room_with(node: NodeState, freed: Vector, *, may_use_idle: bool) -> Vector:
    """Return the most that a request may ask for on a node if victims free some resources.

    Amounts are exact, so that a request which does not fit in it is not met by any victims that
    together hold at most `freed`; see `Shortfall`. O(dimensions).
    """
    if node.divergence_count:
        now, finally_free = plus(node.future_idle, freed), plus(node.eventual, freed)
        room = tuple(map(min, now, finally_free))
    else:
        room = plus(node.idle, freed)
    return room if may_use_idle else tuple(map(min, room, freed))


class Shortfall:
    """The resources that a request lacks on a node, and whether victims would free them."""

    __slots__ = ("_missing", "_missing_for_good", "_request")

    def __init__(self, request: Vector, node: NodeState, *, may_use_idle: bool) -> None:
        self._missing = _missing(request, node.future_idle if node.divergence_count else node.idle)
        self._missing_for_good = (
            _missing(request, node.eventual) if node.divergence_count else self._missing
        )
        self._request = None if may_use_idle else request

    def is_enough_with(self, victims: Sequence[TaskState] | FreedResources) -> bool:
        """Return whether there is room without `victims`.

        O(victims x dimensions); O(dimensions) given their `FreedResources`.
        """
        freed = victims if isinstance(victims, FreedResources) else FreedResources(victims)
        return (
            freed.covers(self._missing)
            and (self._request is None or freed.covers(self._request))
            and freed.covers_for_good(self._missing_for_good)
        )

    def is_enough_for_now_with(self, freed: FreedResources) -> bool:
        """Return whether there is room without the victims, ignoring conditional promises."""
        return freed.covers(self._missing)


def _missing(request: Vector, there: Vector) -> Vector:
    """Return what a request lacks; 0 in dimensions that it does not request."""
    return tuple(
        wanted - amount if wanted >= EPSILON else 0
        for wanted, amount in zip(request, there, strict=True)
    )


def running_tasks(node: NodeState, is_candidate: Callable[[TaskState], bool]) -> list[TaskState]:
    """Return the Running tasks on a node that pass a filter."""
    return [
        task
        for task in node.tasks.values()
        if task.status is TaskStatus.RUNNING and is_candidate(task)
    ]


def take_until(
    victims: Iterable[TaskState], is_enough: Callable[[FreedResources], bool]
) -> list[TaskState] | None:
    """Take victims in order until they are enough, then drop those that are not needed.

    Returns None if all of them are not enough. O(victims x dimensions).
    """
    taken: list[TaskState] = []
    freed = FreedResources()
    remaining = iter(victims)
    while not is_enough(freed):
        victim = next(remaining, None)
        if victim is None:
            return None
        taken.append(victim)
        freed.add(victim)
    return spare(taken, is_enough)


def spare(
    taken: Sequence[TaskState], is_enough: Callable[[FreedResources], bool]
) -> list[TaskState]:
    """Drop, from the last taken to the first, each victim without which the rest is enough."""
    freed = FreedResources(taken)
    kept: list[TaskState] = []
    for victim in reversed(taken):
        freed.remove(victim)
        if not is_enough(freed):
            freed.add(victim)
            kept.append(victim)
    kept.reverse()
    return kept


Unit = Sequence[TaskState]
"""Tasks that are evicted together or not at all, on any nodes."""


def choose_units(
    units: Sequence[Unit], node: NodeState, is_enough: Callable[[FreedResources], bool]
) -> list[TaskState] | None:
    """Take units in order until they are enough, then drop those that are not needed.

    Returns the tasks of the units that are left; None if all units are not enough. A task may be
    in several units. Only what tasks on the node hold counts. O(tasks of the units x dimensions).
    """
    on_node = [[task for task in unit if task.node is node] for unit in units]
    freed = FreedResources()
    times: dict[str, int] = {}

    def take(tasks: Unit) -> None:
        for task in tasks:
            times[task.uid] = times.get(task.uid, 0) + 1
            if times[task.uid] == 1:
                freed.add(task)

    def drop(tasks: Unit) -> None:
        for task in tasks:
            times[task.uid] -= 1
            if not times[task.uid]:
                freed.remove(task)

    taken = 0
    while not is_enough(freed):
        if taken == len(units):
            return None
        take(on_node[taken])
        taken += 1
    kept: list[Unit] = []
    for position in reversed(range(taken)):
        drop(on_node[position])
        if not is_enough(freed):
            take(on_node[position])
            kept.append(units[position])
    return list({task.uid: task for unit in reversed(kept) for task in unit}.values())
