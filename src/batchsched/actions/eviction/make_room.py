"""Make room for a task by evicting others.

First by evicting single tasks, on the first node where that is enough. Only if there is no such
node, by evicting replicas and whole jobs too, on the node where that evicts the fewest tasks.
`RoomOn` is the definition; `batchsched.actions.eviction.remembered_room` finds the same on the
nodes that accept the task, with what earlier searches have found out.

Nodes may also be searched that refuse the task for a reason that evicting can cure, such as too
many tasks on the node, a host port in use, or a task that it must not run beside. Tasks are then
evicted until the claimant fits and the node accepts it, both judged without all tasks that are
leaving the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from batchsched.actions.eviction.remembered_room import RememberedRoom
from batchsched.actions.eviction.victims import (
    Claimant,
    EvictionScope,
    Room,
    Shortfall,
    Unit,
    candidates_on,
    choose_units,
)
from batchsched.model.cluster import TaskStatus
from batchsched.session.curing import accepts_without
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.victims import EvictionSearch, RecentStarts, Victims
from batchsched.state.doors import Door
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import fits


def make_room(
    session: Session,
    statement: Statement,
    task: TaskState,
    *,
    scope: EvictionScope,
    may_use_idle: bool,
    recent: RecentStarts | None = None,
    curable: bool = False,
) -> bool:
    """Evict the tasks that are in the way of a task, and pipeline it to the node.

    Nodes are tried best first, or in node order for `EvictionScope.OTHER_QUEUES`. Single tasks are
    evicted on the first node where that is enough; only if there is none, whole jobs too, on the
    node where the fewest tasks are evicted in all.

    Args:
        session: the session.
        statement: records the evictions and the placement.
        task: the claimant, Pending.
        scope: which Running tasks may be evicted, if plugins agree.
        may_use_idle: whether the task may take idle resources too; if not, it must fit in what
            its victims hold.
        recent: the rule that spares recently started tasks, whatever plugins say.
        curable: whether to search also nodes that refuse the task only for reasons that evicting
            can cure (`batchsched.plugin.Predicate.curable`). If one of them will accept it once
            the tasks that are leaving have left, none is evicted; else feasible nodes go first.

    Returns:
        Whether room was made. If not, nothing was changed.

    """
    assert task.job is not None
    if scope is EvictionScope.SAME_JOB and not task.job.count(TaskStatus.RUNNING):
        return False
    is_plain = Door.ROOM in session.plain
    claimant = Claimant(
        session=session,
        task=task,
        scope=scope,
        may_use_idle=may_use_idle,
        recent=recent,
        curable=curable,
        whole_jobs=None if is_plain else {},
    )
    if is_plain:
        room = find_room(claimant, RoomOn(claimant, claimant.feasible()))
    else:
        known = RememberedRoom(claimant)
        room = None if known.fails_again() else find_room(claimant, known)
        if room is None:
            known.remember_failure()
    if room is None:
        session.record_eviction_search(
            EvictionSearch(
                task=task,
                action=session.action_name or scope.point,
                point=scope.point,
                among=scope.value,
                may_use_idle=may_use_idle,
                candidates_on=partial(candidates_on, session, task, scope),
                recent=recent,
                curable=curable,
            )
        )
        return False
    if not session.may_take_task(task, leaving=room.victims):
        return False
    for victim in room.victims:
        statement.evict(victim, claimant=task)
    statement.pipeline(task, room.node)
    return True


def find_room(claimant: Claimant, feasible: RoomOn | RememberedRoom) -> Room | None:
    """Return the node where least has to be evicted for a task, and whom to evict there.

    `feasible`: what can be found on the nodes that accept it as they are.
    """
    refusing = claimant.refusing()
    for node in refusing:
        if _is_enough_on(claimant, node, cures=True)(()):
            return Room(node, ())  # enough is leaving already
    cured = RoomOn(claimant, refusing, cures=True)
    for among in (feasible, cured):
        room = among.alone()
        if room is not None:
            return room
    return _cheapest(among.with_jobs() for among in (feasible, cured))


class RoomOn:
    """The room that evictions can make on some nodes, which are tried in order."""

    def __init__(
        self, claimant: Claimant, nodes: Iterable[NodeState], *, cures: bool = False
    ) -> None:
        """Ask on each node whom plugins let go; `cures`: whether the nodes refuse the claimant."""
        self._claimant = claimant
        self._cures = cures
        candidates = partial(candidates_on, claimant.session, claimant.task, claimant.scope)
        self._victims = [(node, claimant.victims_among(candidates(node))) for node in nodes]

    def alone(self) -> Room | None:
        """Return the first node where evicting single tasks is enough."""
        for node, victims in self._victims:
            room = self._fewest(node, [[victim] for victim in victims.alone])
            if room is not None:
                return room
        return None

    def with_jobs(self) -> Room | None:
        """Return the first of the nodes where, with whole jobs, the fewest tasks are evicted."""
        return _cheapest(
            self._fewest(node, self._claimant.units(victims))
            for node, victims in self._victims
            if not victims.is_all_alone
        )

    def _fewest(self, node: NodeState, units: Sequence[Unit]) -> Room | None:
        if not units:
            return None  # room that is there without victims is not made
        chosen = fewest_units(units, _is_enough_on(self._claimant, node, cures=self._cures))
        return None if chosen is None else Room(node, _members(chosen))


def _cheapest(rooms: Iterable[Room | None]) -> Room | None:
    """Return the first of the rooms for which the fewest tasks are evicted, if there is any."""
    return min((room for room in rooms if room is not None), key=lambda r: r.cost, default=None)


def _is_enough_on(
    claimant: Claimant, node: NodeState, *, cures: bool
) -> Callable[[Sequence[Unit]], bool]:
    """Return whether a claimant fits on a node, and is accepted, once some units have left."""
    shortfall = claimant.shortfall(node)

    def is_enough(taken: Sequence[Unit]) -> bool:
        gone = _members(taken)
        here = [victim for victim in gone if victim.node is node]
        return shortfall.is_enough_with(here) and (
            not cures or accepts_without(claimant.session, claimant.task, node, gone)
        )

    return is_enough


def fewest_units(
    units: Sequence[Unit], is_enough: Callable[[Sequence[Unit]], bool]
) -> list[Unit] | None:
    """Take units in order until they are enough, then drop those not needed; None if too few.

    Dropping one unit may make it possible to drop another, so it repeats until none can go.
    """
    taken: list[Unit] = []
    remaining = iter(units)
    while not is_enough(taken):
        unit = next(remaining, None)
        if unit is None:
            return None
        taken.append(unit)
    has_dropped = True
    while has_dropped:
        has_dropped = False
        for unit in reversed(taken[:]):
            without = [other for other in taken if other is not unit]
            if is_enough(without):
                taken, has_dropped = without, True
    return taken


def _members(units: Sequence[Unit]) -> list[TaskState]:
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
            victims = _backfill_to_evict(session, task, node)
            if victims is None:
                return False
            for victim in victims:
                statement.evict(victim, claimant=task)
            statement.pipeline(task, node)
        if not session.job_pipelined(job):
            return False
        statement.commit()
    return True


def _backfill_to_evict(
    session: Session, task: TaskState, node: NodeState
) -> Sequence[TaskState] | None:
    """Return the backfill tasks that leave for a task; None: not even all of them are enough."""
    # `eventual` already includes what backfill tasks hold, so evicting them does not change it.
    if not fits(task.init_resreq, node.eventual):
        return None
    candidates = session.in_victim_order(
        other for other in node.tasks.values() if _is_lent_to(other)
    )
    victims = session.plugin_set.eviction.revocable(task, candidates)
    units = _units_in_order(session, candidates, victims)
    room = Shortfall(task.init_resreq, node, may_use_idle=True)
    return choose_units(units, node, room.is_enough_for_now_with)


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


def _units_in_order(
    session: Session, candidates: Sequence[TaskState], victims: Victims
) -> list[Unit]:
    """Return the units that may be evicted, in victim order: single tasks, replicas, whole jobs."""
    alone = {victim.uid for victim in victims.alone}
    replica_of = {task.uid: unit for unit in victims.replicas for task in unit.victims}
    units: list[Unit] = []
    for candidate in candidates:
        job = candidate.job
        if job is not None and job in victims.whole_jobs:
            units.append(session.whole_job(job))
        elif candidate.uid in alone:
            units.append([candidate])
        elif candidate.uid in replica_of:
            units.append(session.in_victim_order(replica_of[candidate.uid].victims))
    return units
