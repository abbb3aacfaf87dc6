"""Where tasks go: the ladder, by which actions place them, and nodes that are reserved for them.

A task goes where it can start now, else where it can later, else where it can conditionally.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.placement import Fit
from batchsched.plugin.candidates import NodeSet
from batchsched.session.attempts import tasks_needed
from batchsched.session.candidates import (
    may_go_anywhere,
    refusal_beside_its_job,
    try_in_order,
    try_in_turn,
)
from batchsched.session.outlook import accepting_nodes
from batchsched.session.session import Session
from batchsched.session.statements import Statement, TakenUnit
from batchsched.session.tracing import tell_best
from batchsched.session.turns import may_take_task
from batchsched.state.needs import need_of_job
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import fits, plus

NOW = (Fit.NOW,)
"""Only where a task can start now."""
NOW_OR_LATER = (Fit.NOW, Fit.LATER)
"""Where a task can start now; else on resources that are being released."""
LADDER = (Fit.NOW, Fit.LATER, Fit.CONDITIONALLY)
"""The same; else on resources that backfill tasks hold, if the job is not ready without them."""

_CONDITIONALLY = Fit.CONDITIONALLY
_STEP = {
    Fit.NOW: Statement.allocate,
    Fit.LATER: Statement.pipeline,
    Fit.CONDITIONALLY: Statement.promise,
}


def place(
    session: Session,
    statement: Statement,
    task: TaskState,
    ladder: Sequence[Fit] = LADDER,
    *,
    looks_ahead: bool = False,
) -> bool:
    """Place a task on the best node of the first step that has one; return whether there was one.

    Args:
        session: the session.
        statement: records the placement, in its nodes alone.
        task: the task, Pending.
        ladder: how the task may fit, in order of preference.
        looks_ahead: whether nodes must accept it as they will be, too, and with what is promised
            in place, as for those who evict.

    """
    if not may_take_task(session, task):
        return False
    job = task.job
    assert job is not None
    ahead = accepting_nodes(session, task) if looks_ahead else None
    is_free = ahead is None and statement.within is None and session.guard is None
    best = session.best_node
    for fit in ladder:
        if fit is _CONDITIONALLY and not _waits_for_loans(session, job):
            continue
        node = best(task, fit) if is_free else best_for(session, statement, task, fit, ahead)
        if node is not None:
            _STEP[fit](statement, task, node)
            return True
    return False


def may_promise_conditionally(session: Session, task: TaskState) -> bool:
    """Return whether a task may be promised what backfill tasks hold, if there is enough."""
    job = task.job
    return job is not None and _waits_for_loans(session, job) and may_take_task(session, task)


def _waits_for_loans(session: Session, job: JobState) -> bool:
    return not (job.backfilling or session.plugins.job_ready(job))


def take_room(
    session: Session,
    statement: Statement,
    task: TaskState,
    node: NodeState,
    units: Iterable[TakenUnit],
) -> None:
    """Evict units for a task, and promise it a node.

    If nothing was evicted, for the binds of all of them were taken back, it is Allocated where it
    fits now and no plan closes the node.
    """
    victims: list[TaskState] = []
    for unit in units:
        statement.take(unit)
        victims += unit.victims
    guard = session.guard
    if (
        victims
        and all(victim.status is TaskStatus.PENDING for victim in victims)
        and session.can_start(task, node, kept=statement.kept_for(task))
        and (guard is None or guard.allows(task, node))
    ):
        statement.allocate(task, node)
    else:
        statement.pipeline(task, node)


def best_for(
    session: Session,
    statement: Statement,
    task: TaskState,
    fit: Fit,
    ahead: Sequence[NodeState] | None = None,
) -> NodeState | None:
    """Return the best node where a task fits and that no plan closes to it.

    Args:
        session: the session.
        statement: has the set of nodes among which it chooses, if any.
        task: the task.
        fit: how it is to fit.
        ahead: the nodes that accept it as they will be; None: that makes no difference.

    """
    guard, placement, within = session.guard, session.placement, statement.within
    if ahead is None and within is None:
        node = session.best_node(task, fit)
        if node is None or guard is None:
            return node
    slots = None if within is None else within.slots
    kept = statement.kept_for(task) if statement.kept else EMPTY
    is_plain = ahead is None and guard is None and session.teller is None and not kept
    if slots is not None and is_plain:
        return placement.best(task, fit, slots)
    nodes = [
        node
        for node in (placement.feasible(task, slots) if ahead is None else ahead)
        if session.fits(task, node, fit, kept=kept)
        and (slots is None or node.slot in slots)
        and (guard is None or guard.allows(task, node))
        and not (ahead and fit is Fit.NOW and placement.refusal(task, node))
    ]
    best = session.best_among(task, nodes) if nodes else None
    if (ahead is not None or within is not None) and session.teller is not None:
        tell_best(session.teller, session.plugins.node_scores, task, fit, best, nodes)
    return best


# Reservations


def start_reserved_jobs(session: Session, jobs: Iterable[JobState]) -> None:
    """Give each job with Reserved tasks a turn to start, on its reserved nodes or elsewhere."""
    waiting = session.live_jobs(jobs)
    while waiting:
        job = waiting.pop()
        session.attempt(partial(_start, session, job), fulfils=True)


def _start(session: Session, job: JobState, statement: Statement) -> bool:
    nodes = {task: task.node for task in session.in_task_order(job.having(TaskStatus.RESERVED))}
    # The job's own reservations must not block it.
    for task in nodes:
        statement.unallocate(task)

    def starts_there(task: TaskState) -> bool:
        node = nodes[task]
        starts = node is not None and session.can_start(task, node) and may_take_task(session, task)
        if not starts or node is None:
            return False
        before = len(statement)
        statement.allocate(task, node)
        if refusal_beside_its_job(session, task) is None:
            return True
        statement.rollback(before)
        return False

    try_in_order(nodes, starts_there)
    rest = tasks_needed(session, job)
    if may_go_anywhere(session, job):
        try_in_order(
            rest,
            lambda task: (
                not session.plugins.job_ready(job) and place(session, statement, task, NOW)
            ),
        )
        return session.plugins.job_ready(job)
    need = None if session.plugins.job_ready(job) else need_of_job(job, rest)
    if need is not None:
        try_in_turn(session, statement, need, lambda on, task: place(session, on, task, NOW))
    return session.plugins.job_ready(job)


def can_hold_reservation(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether the node is large enough for the task in addition to what is reserved there.

    What daemons and other tasks without a job hold is subtracted, for they may never leave.
    """
    wanted = plus(node.reserved, task.init_resreq)
    return fits(wanted, session.state.node_room.for_jobs(node)) and has_choice_if_empty(
        session, task, node
    )


def has_choice_if_empty(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether plugins have a choice for a task on a node, once all tasks of jobs left."""
    if not session.may_choose(task):
        return True
    gone = [other for other in node.tasks.values() if other.of_job is not None]
    return session.no_choice(task, node, Fit.LATER, gone=gone) is None


def _can_hold_beside_its_job(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether the node is large enough in addition to what the task's job has there.

    Without this rule a gang that can never fit would have the room of its own tasks reserved,
    and close nodes for ever.
    """
    wanted = plus(node.reserved, task.init_resreq)
    for other in node.tasks.values():
        if other.job is task.job and other.status is TaskStatus.ALLOCATED:
            wanted = plus(wanted, other.init_resreq)
    return fits(wanted, session.state.node_room.for_jobs(node)) and has_choice_if_empty(
        session, task, node
    )


def first_node_to_reserve(
    session: Session, task: TaskState, within: NodeSet | None, *, beside_its_job: bool
) -> NodeState | None:
    """Return the first node that may be reserved for a starving task, in node order.

    Args:
        session: the session.
        task: the task.
        within: the only nodes that count; None: all.
        beside_its_job: whether the room must not include what its job is Allocated there.

    """
    can_hold = _can_hold_beside_its_job if beside_its_job else can_hold_reservation
    for node in session.nodes:
        if (
            (within is None or node.slot in within.slots)
            and can_hold(session, task, node)
            and not promised_to_others(task, node)
            and session.placement.refusal(task, node) is None
        ):
            return node
    return None


def promised_to_others(task: TaskState, node: NodeState) -> bool:
    """Return whether resources of the node are promised to tasks of other jobs."""
    return bool(node.divergence_count) and any(
        other.job is not task.job
        for other in node.tasks.values()
        if other.status is TaskStatus.PIPELINED or other.status is TaskStatus.CONDITIONAL
    )
