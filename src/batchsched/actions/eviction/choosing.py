"""Choose which tasks leave: what units free, and the fewest of them with which a task fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from batchsched.actions.eviction.telling import told_as
from batchsched.model.cluster import TaskStatus
from batchsched.session.ahead import looks_ahead
from batchsched.session.outlook import (
    accepting_nodes,
    accepts_without,
    accepts_without_each,
    curable_nodes,
    promises_stand,
)
from batchsched.session.session import Session
from batchsched.session.statements import TakenUnit
from batchsched.session.victims import Victims
from batchsched.state.records import Fit, JobState, NodeState, TaskState
from batchsched.state.vectors import Vector, fits, is_empty, minus, plus, total_of

Unit = Sequence[TaskState]
"""Tasks that are evicted together or not at all, on any nodes."""
UnitT = TypeVar("UnitT", bound=Unit)


def units_in_order(session: Session, victims: Victims) -> list[Unit]:
    """Return what may be evicted: single tasks, then replicas, then whole jobs, broken ones last.

    Broken jobs are the last ones because they lost tasks already, and wait to be completed.
    """
    whole_jobs = sorted(victims.whole_jobs, key=lambda job: job.is_broken)
    return [
        *([victim] for victim in victims.alone),
        *(session.in_victim_order(unit.victims) for unit in victims.replicas),
        *(session.in_victim_order(job.may_leave()) for job in whole_jobs),
    ]


class FreedResources:
    """The resources that some victims hold together, updated as victims are added and removed."""

    __slots__ = ("_all", "_for_good")

    def __init__(self, victims: Sequence[TaskState] = ()) -> None:
        self._all = self._for_good = total_of([victim.resreq for victim in victims], ())
        for_good = [victim.resreq for victim in victims if not victim.is_backfill]
        if len(for_good) < len(victims):
            self._for_good = total_of(for_good, ())

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


class Shortfall:
    """What a task lacks on a node to fit there in a way, and whether victims would free it."""

    __slots__ = ("_missing", "_missing_for_good", "_request")

    def __init__(
        self, task: TaskState, node: NodeState, fit: Fit, *, may_use_idle: bool = True
    ) -> None:
        self._missing, self._missing_for_good = node.lacking(task.init_resreq, fit)
        self._request = None if may_use_idle else task.init_resreq

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


def room_with(node: NodeState, freed: Vector, *, may_use_idle: bool) -> Vector:
    """Return the most that a request may ask for on a node if victims free some resources.

    Amounts are exact, so that a request which does not fit in it is not met by any victims that
    together hold at most `freed`; see `Shortfall`. O(dimensions).
    """
    room = plus(node.room(Fit.LATER), freed)
    return room if may_use_idle else tuple(map(min, room, freed))


def choose_units(
    units: Sequence[Unit], node: NodeState, is_enough: Callable[[FreedResources], bool]
) -> list[Unit] | None:
    """Take units in order until they are enough, then drop those that are not needed.

    Returns the units that are left; None if all units are not enough. A task may be in several.
    Only what tasks on the node hold counts. O(tasks of the units x dimensions).
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
    return kept[::-1]


def choose_units_for(
    session: Session,
    task: TaskState,
    node: NodeState,
    units: Sequence[Unit],
    shortfall: Shortfall,
    fit: Fit,
) -> list[Unit] | None:
    """Return what `choose_units` does, of units that leave enough to choose from, too."""
    if not session.may_choose(task):
        return choose_units(units, node, shortfall.is_enough_with)

    def is_enough(taken: Sequence[Unit]) -> bool:
        gone = [each for each in members_of(taken) if each.node is node]
        return shortfall.is_enough_with(gone) and (
            session.no_choice(task, node, fit, gone=gone) is None
        )

    return fewest_units(units, is_enough)


def fewest_ahead(
    session: Session,
    task: TaskState,
    node: NodeState,
    units: Sequence[Unit],
    has_room: Callable[[Sequence[Unit]], bool],
) -> list[Unit] | None:
    """Return the fewest of some units without which a node has room and still accepts a task.

    One without which, alone, it would not is no candidate, and one without which it would not with
    those taken already is passed over.
    """
    units = curing_units(session, task, node, units)

    def accepts(taken: Sequence[Unit]) -> bool:
        return accepts_without(session, task, node, members_of(taken))

    return fewest_units(units, lambda taken: has_room(taken) and accepts(taken), accepts)


def curing_units(
    session: Session, task: TaskState, node: NodeState, units: Sequence[UnitT]
) -> list[UnitT]:
    """Return the units with each of which gone a node still accepts a task."""
    alone = accepts_without_each(session, task, node, units)
    return [unit for unit, accepts in zip(units, alone, strict=True) if accepts]


def fewest_units(
    units: Sequence[Unit],
    is_enough: Callable[[Sequence[Unit]], bool],
    may_take: Callable[[Sequence[Unit]], bool] = lambda _: True,
) -> list[Unit] | None:
    """Take units in order until they are enough, then drop those not needed; None if too few.

    One that may not be taken with those taken before is passed over until another was taken.
    Dropping one unit may make it possible to drop another, so it repeats until none can go.
    """
    taken: list[Unit] = []
    left = list(units)
    while not is_enough(taken):
        unit = next((each for each in left if may_take([*taken, each])), None)
        if unit is None:
            return None
        taken.append(unit)
        left = [each for each in left if each is not unit]
    has_dropped = True
    while has_dropped:
        has_dropped = False
        for unit in reversed(taken[:]):
            without = [other for other in taken if other is not unit]
            if is_enough(without):
                taken, has_dropped = without, True
    return taken


def fewest_by_halving(
    units: Sequence[Unit], is_enough: Callable[[Sequence[Unit]], bool]
) -> list[Unit] | None:
    """Return what `fewest_units` does, where more units are never worse than fewer.

    O(log units) questions for each unit of the answer.
    """
    if not is_enough(units):
        return None
    kept: list[Unit] = []
    enough = len(units)  # so many of the first units are enough with those that are kept
    while not is_enough(kept):
        too_few = 0
        while enough - too_few > 1:
            half = (too_few + enough) // 2
            if is_enough([*units[:half], *kept]):
                enough = half
            else:
                too_few = half
        enough -= 1
        kept.insert(0, units[enough])
    return kept


def members_of(units: Sequence[Unit]) -> list[TaskState]:
    """Return the tasks of some units, each once, in order."""
    return list({task.uid: task for unit in units for task in unit}.values())


# Loans to backfill tasks


def make_promises_real(session: Session, job: JobState) -> bool:
    """Evict backfill tasks so that all Conditional tasks of a job can be Pipelined, or evict none.

    Returns:
        Whether the tasks are Pipelined now. If not, nothing was changed.

    """
    promised = [
        (task, task.node) for task in session.in_task_order(job.having(TaskStatus.CONDITIONAL))
    ]
    with session.statement() as statement:
        for task, _ in promised:
            statement.unallocate(task)
        for task, node in promised:
            assert node is not None
            chosen = _backfill_to_evict(session, task, node)
            if chosen is None:
                return False
            taken = [TakenUnit(unit, task) for unit in chosen]
            for unit in told_as("backfill", session, node, taken):
                statement.take(unit)
            statement.pipeline(task, node)
        if not (session.plugins.job_pipelined(job) and promises_stand(session, statement)):
            return False
        statement.commit()
    return True


def _backfill_to_evict(session: Session, task: TaskState, node: NodeState) -> Sequence[Unit] | None:
    """Return the backfill tasks that leave for a task; None: not even all of them are enough."""
    lent = lent_on(node)
    ahead = looks_ahead(session, task)
    accepting = accepting_nodes(session, task)
    if accepting is not None:
        accepts = node in accepting
    else:
        accepts = session.placement.refusal(task, node) is None
    if ahead and accepts:
        lent = [one for (one,) in curing_units(session, task, node, [(t,) for t in lent])]
    candidates = session.in_victim_order(lent)
    units = units_in_order(session, session.plugins.revocable(task, candidates))
    room = Shortfall(task, node, Fit.LATER)
    if accepts and not ahead:
        return choose_units_for(session, task, node, units, room, Fit.LATER)

    def has_room(taken: Sequence[Unit]) -> bool:
        gone = [each for each in members_of(taken) if each.node is node]
        return (
            room.is_enough_with(gone)
            and session.no_choice(task, node, Fit.LATER, gone=gone) is None
        )

    if accepts:
        return fewest_ahead(session, task, node, units, has_room)
    return fewest_units(
        units,
        lambda taken: has_room(taken) and accepts_without(session, task, node, members_of(taken)),
    )


def nodes_once_called_in(session: Session, task: TaskState) -> list[NodeState]:
    """Return the nodes that refuse a task, but not once all that is lent there is called in.

    In node order. O(nodes x predicates).
    """
    return [
        node
        for node in curable_nodes(session, task)
        if session.fits(task, node, Fit.CONDITIONALLY)
        and (lent := lent_on(node))
        and accepts_without(session, task, node, lent)
    ]


def lent_on(node: NodeState) -> list[TaskState]:
    """Return the backfill tasks that run on what may be called in on a node."""
    return [other for other in node.tasks.values() if _is_lent_to(other)]


def _is_lent_to(task: TaskState) -> bool:
    """Return whether a backfill task runs on what may be called in."""
    job = task.job
    return (
        task.status is TaskStatus.RUNNING
        and task.is_backfill
        and job is not None
        and job.in_session
        and not job.has_bind
    )
