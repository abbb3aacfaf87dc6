"""Choose which tasks leave: what units free, and the fewest of them with which a task fits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from attrs import define, field

from batchsched.actions.eviction.telling import told_as
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.session.outlook import (
    accepting_nodes,
    accepts_without,
    accepts_without_each,
    curable_nodes,
    looks_ahead,
    promises_stand,
)
from batchsched.session.session import Session
from batchsched.session.statements import Statement, TakenUnit
from batchsched.session.victims import Victims
from batchsched.state.records import Fit, JobState, NodeState, TaskState
from batchsched.state.vectors import Vector, fits, is_empty, minus, plus, total_of

Unit = Sequence[TaskState]
"""Tasks that are evicted together or not at all, on any nodes."""
UnitT = TypeVar("UnitT", bound=Unit)
Choose = Callable[[Sequence[Unit], Callable[[Sequence[Unit]], bool]], "list[Unit] | None"]
"""Returns the fewest of some units that are enough; None: they are too few."""


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
    needed: list[Unit] = []
    for position in reversed(range(taken)):
        drop(on_node[position])
        if not is_enough(freed):
            take(on_node[position])
            needed.append(units[position])
    return needed[::-1]


@define(kw_only=True, eq=False)
class RoomOn:
    """The room for a task on a node, once some units have left.

    It is enough if the task fits then, plugins have a choice for it, limits allow it, and the node
    accepts it although it may refuse it now.
    """

    session: Session
    task: TaskState
    node: NodeState
    fit: Fit = Fit.LATER
    """How it is to fit."""
    may_use_idle: bool = True
    """Whether it may take idle resources too; if not, it must fit in what the units hold."""
    kept: Mapping[str, Hashable] = EMPTY
    """What plugins must choose for it."""
    is_refused: bool = False
    """Whether the node refuses it as it is."""
    looks_ahead: bool = False
    """Whether the node may refuse it because of who leaves, if it does not refuse it now."""
    limits: Callable[[Sequence[TaskState]], bool] | None = None
    """Returns whether limits allow it once some tasks have left; None: they always do."""
    shortfall: Shortfall = field(init=False)
    """What it lacks of room."""
    _may_choose: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.shortfall = Shortfall(self.task, self.node, self.fit, may_use_idle=self.may_use_idle)
        self._may_choose = self.session.may_choose(self.task)

    def is_there_without(self, gone: Sequence[TaskState]) -> bool:
        """Return whether it fits, and plugins have a choice for it, without tasks of the node.

        O(tasks x dimensions).
        """
        return self.shortfall.is_enough_with(gone) and self.has_choice_without(gone)

    def has_choice_without(self, gone: Sequence[TaskState]) -> bool:
        """Return whether plugins have a choice for it without tasks of the node."""
        if not self._may_choose:
            return True
        task, node, kept = self.task, self.node, self.kept
        return self.session.no_choice(task, node, self.fit, gone=gone, kept=kept) is None

    def is_accepted_without(self, gone: Iterable[TaskState]) -> bool:
        """Return whether the node will accept it, once others have left, too."""
        return accepts_without(self.session, self.task, self.node, gone)

    def is_enough(self, taken: Sequence[Unit]) -> bool:
        """Return whether there is enough without some units."""
        gone = members_of(taken)
        return (
            self.is_there_without([each for each in gone if each.node is self.node])
            and (self.limits is None or self.limits(gone))
            and (not self.is_refused or self.is_accepted_without(gone))
        )

    def may_leave(self, units: Sequence[UnitT]) -> Sequence[UnitT]:
        """Return the units without each of which, alone, the node still accepts it."""
        if self.is_refused or not self.looks_ahead:
            return units
        alone = accepts_without_each(self.session, self.task, self.node, units)
        return [unit for unit, accepts in zip(units, alone, strict=True) if accepts]

    def fewest(self, units: Sequence[Unit], choose: Choose | None = None) -> list[Unit] | None:
        """Return the fewest of some units that are enough, in order; None: they are too few.

        Where the node may come to refuse the task, a unit without which it would with those taken
        already is passed over. `choose`: finds the fewest; None: `fewest_units`, or what is as good
        where amounts alone count.
        """
        if self.looks_ahead and not self.is_refused:
            units = self.may_leave(units)
            # To take a unit, and to ask whether that is enough, is to ask about the same units.
            known = {frozenset(each.uid for each in unit): True for unit in units}

            def accepts(taken: Sequence[Unit]) -> bool:
                gone = members_of(taken)
                key = frozenset(each.uid for each in gone)
                if key not in known:
                    known[key] = self.is_accepted_without(gone)
                return known[key]

            def is_enough(taken: Sequence[Unit]) -> bool:
                return self.is_enough(taken) and accepts(taken)

            return fewest_units(units, is_enough, accepts)
        if choose is None and not (self.is_refused or self._may_choose or self.limits):
            return choose_units(units, self.node, self.shortfall.is_enough_with)
        return (choose or fewest_units)(units, self.is_enough)


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
    needed: list[Unit] = []
    enough = len(units)  # so many of the first units are enough with those that are needed
    while not is_enough(needed):
        too_few = 0
        while enough - too_few > 1:
            half = (too_few + enough) // 2
            if is_enough([*units[:half], *needed]):
                enough = half
            else:
                too_few = half
        enough -= 1
        needed.insert(0, units[enough])
    return needed


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

    def makes_real(statement: Statement) -> bool:
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
        return session.plugins.job_pipelined(job) and promises_stand(session, statement)

    return session.attempt(makes_real)


def _backfill_to_evict(session: Session, task: TaskState, node: NodeState) -> Sequence[Unit] | None:
    """Return the backfill tasks that leave for a task; None: not even all of them are enough."""
    accepting = accepting_nodes(session, task)
    if accepting is not None:
        accepts = node in accepting
    else:
        accepts = session.placement.refusal(task, node) is None
    ahead = looks_ahead(session, task)
    room = RoomOn(session=session, task=task, node=node, is_refused=not accepts, looks_ahead=ahead)
    lent = [one for (one,) in room.may_leave([(each,) for each in lent_on(node)])]
    victims = session.plugins.revocable(task, session.in_victim_order(lent))
    return room.fewest(units_in_order(session, victims))


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
