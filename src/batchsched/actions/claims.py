"""Making room for the tasks of a queue, and remembering where that was in vain.

Specification: section 7, "Evicting for a task". It decides what
`batchsched.actions.make_room.make_room` decides; `batchsched.room_search` keeps what
was found out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import Enum
from typing import Literal

from batchsched.actions.make_room import Room, evict_for, take_until
from batchsched.room_search import Claims, RoomSearch
from batchsched.session import Session
from batchsched.statement import Statement
from batchsched.states import NodeState, TaskState
from batchsched.status import TaskStatus
from batchsched.vectors import fits

__all__ = ["Among", "make_room_among"]

Point = Literal["preemptable", "reclaimable"]
"""Which verdicts count: those on tasks of the claimant's queue, or of other queues."""


class Among(Enum):
    """Which Running tasks may be evicted for a claimant, before any plugin is asked."""

    OTHER_JOBS = "other jobs of the same queue"
    SAME_JOB = "the same job"
    OTHER_QUEUES = "other queues"


def make_room_among(
    session: Session,
    statement: Statement,
    task: TaskState,
    *,
    among: Among,
    may_grow: bool,
) -> bool:
    """Evict on the first node where that is enough, and promise the task its place there.

    Nodes are tried the best first; in node order where room is made among other queues.

    Args:
        session: where this happens.
        statement: what records it.
        task: the claimant, Pending.
        among: which Running tasks may be evicted, if plugins agree.
        may_grow: whether the task may take idle resources too; if not, it must find
            room in what its victims hold alone.

    Returns:
        Whether room was made. If not, nothing was changed.

    """
    job = task.job
    assert job is not None
    if among is Among.SAME_JOB and not job.count(TaskStatus.RUNNING):
        return False
    claims = _claims_like(session, task, among)
    search: RoomSearch | None = None
    still_open: set[int] | None = None
    if claims is not None:
        search = claims.search((session.placement.kind(task), may_grow))
        still_open = search.open_nodes - claims.hopeless
        anybody = _claims_of_anybody(session, task, among)
        if anybody is not None:
            still_open -= anybody.hopeless
        if not still_open:
            return False
    if among is Among.OTHER_QUEUES:
        nodes: Iterable[NodeState] = session.placement.feasible(task, still_open)
    else:
        nodes = session.placement.ranked(task, still_open)
    asked: list[int] = []
    for node in nodes:
        chosen = _victims_on(session, node, task, among, claims, may_grow=may_grow)
        if chosen is not None:
            if search is not None:
                search.open_nodes.difference_update(asked)
            evict_for(task, chosen, node, statement)
            return True
        asked.append(node.index)
    if search is not None:
        # What is not feasible is closed too: it opens again when it changes.
        search.open_nodes.clear()
    return False


def _claims_like(session: Session, task: TaskState, among: Among) -> Claims | None:
    """Return what is known for claimants that plugins cannot tell from this one."""
    claimant_key = session.tiers.claimant_key(_point(among), task)
    if claimant_key is None or session.placement.kind(task) is None:
        return None
    job = task.job
    assert job is not None
    # Jobs without running tasks have the same candidates.
    own = job.uid if among is Among.SAME_JOB or job.count(TaskStatus.RUNNING) else None
    return _claims(session, task, among, (own, claimant_key))


def _claims_of_anybody(session: Session, task: TaskState, among: Among) -> Claims | None:
    """Return what is known for all claimants of the task's queue, whoever they are."""
    job = task.job
    assert job is not None
    if among is Among.SAME_JOB or job.count(TaskStatus.RUNNING):
        return None
    return _claims(session, task, among, None)


def _claims(session: Session, task: TaskState, among: Among, who: Hashable) -> Claims:
    job = task.job
    assert job is not None
    assert job.queue is not None
    key = (among, job.queue.name, who)
    claims = session.claims.get(key)
    if claims is None:
        across = job.queue if among is Among.OTHER_QUEUES else None
        position = session.ledger.position()
        claims = Claims(session.ledger, across, session.tiers.may_give, position)
        session.claims[key] = claims
    else:
        claims.catch_up()
    return claims


def _point(among: Among) -> Point:
    return "reclaimable" if among is Among.OTHER_QUEUES else "preemptable"


def _victims_on(
    session: Session,
    node: NodeState,
    task: TaskState,
    among: Among,
    claims: Claims | None,
    *,
    may_grow: bool,
) -> list[TaskState] | None:
    """Return whom to evict on a node, or None if that cannot be enough."""
    if not fits(task.init_resreq, node.allocatable):
        return None
    victims = None if claims is None else claims.victims.get(node.index)
    if victims is None:
        candidates = _candidates_on(session, node, task, among)
        is_hopeless = claims is not None and _is_hopeless(session, node, task, among, candidates)
        if not candidates or is_hopeless:
            victims = []
        elif among is Among.OTHER_QUEUES:
            victims = session.reclaimable(task, candidates)
        else:
            victims = session.preemptable(task, candidates)
        if claims is not None:
            claims.keep(node.index, victims)
    if not victims:
        return None
    room = Room(task.init_resreq, node, may_grow=may_grow)
    # All of them first: mostly not even that is enough.
    if not room.is_enough_with(victims):
        return None
    return take_until(victims, room.is_enough_with)


def _candidates_on(
    session: Session, node: NodeState, task: TaskState, among: Among
) -> list[TaskState]:
    running = session.running_on(node)
    job = task.job
    assert job is not None
    if among is Among.SAME_JOB:
        return [other for other in running if other.job is job]
    queue = job.queue
    if among is Among.OTHER_QUEUES:
        return [o for o in running if o.job is not None and o.job.queue is not queue]
    return [o for o in running if o.job is not None and o.job.queue is queue and o.job is not job]


def _is_hopeless(
    session: Session, node: NodeState, task: TaskState, among: Among, candidates: list[TaskState]
) -> bool:
    """Return whether nobody on the node can be evicted, for any claimant of the task's queue."""
    anybody = _claims_of_anybody(session, task, among)
    if anybody is None:
        return False
    if node.index not in anybody.victims:
        is_hopeless = session.tiers.never_victims(_point(among), task, candidates)
        anybody.keep(node.index, [] if is_hopeless else candidates)
    return node.index in anybody.hopeless
