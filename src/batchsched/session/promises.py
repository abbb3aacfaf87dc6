"""Reservations and promises of the last cycle: which are kept, started, ended."""

from __future__ import annotations

from collections.abc import (
    Iterator,
)
from functools import partial
from operator import attrgetter

from batchsched.model.cluster import TaskStatus, choices_of
from batchsched.model.reasons import (
    Unfit,
)
from batchsched.model.rules import out_of_service
from batchsched.placement import Fit
from batchsched.session.ahead import refusal_ahead
from batchsched.session.candidates import (
    may_go_anywhere,
    refusal_beside_its_job,
    try_in_order,
    try_in_turn,
)
from batchsched.session.limits import limit_on
from batchsched.session.outlook import can_start
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.state.needs import need_of_task
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import fits

_uid = attrgetter("uid")


# Reservations


def drop_stale_reservations(session: Session) -> None:
    """Drop reservations on nodes that cannot hold them, and of jobs that need none.

    All of a job are dropped if plugins do not let one of them be beside the others.
    """
    ledger = session.ledger
    for _, node in sorted(ledger.reserved_nodes.items()):
        tasks = sorted(node.reserved_tasks.values(), key=_uid)
        # It is not known for how long a node is out of service; others can be reserved until then.
        fit = fits(node.reserved, session.state.node_room.for_jobs(node))
        for task in tasks:
            if not fit or _is_out_of_service(session, task, node):
                _end(session, task)
    reserving = ledger.jobs_having[TaskStatus.RESERVED.index]
    for _, job in sorted(reserving.items()):
        if (
            not job.in_session
            or session.plugins.job_ready(job)
            or any(map(partial(refusal_beside_its_job, session), job.having(TaskStatus.RESERVED)))
        ):
            drop_reservations(session, job)


def drop_reservations(session: Session, job: JobState) -> None:
    """Make all Reserved tasks of a job Pending again."""
    for task in job.having(TaskStatus.RESERVED):
        _end(session, task)


def _is_out_of_service(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether a node accepts no tasks at all for now, including this one."""
    if out_of_service(node.info) is None:
        return False
    return session.placement.refusal(task, node) is not None


# Promises


def keep_promises(session: Session) -> None:
    """Restore the promises of the last cycle, job by job in live job order.

    A promise is restored if its node exists and is in service, the task still fits the future
    idle amount, and plugins let it be beside the others of its job. If these are not enough for a
    job, all of its promises end.
    """
    promised: dict[JobState, dict[TaskState, NodeState]] = {}
    for task, node_name in session.ledger.initial_promises:
        job, node = task.job, session.ledger.node_named.get(node_name)
        if job is not None and job.in_session and node is not None and not task.is_held:
            promised.setdefault(job, {})[task] = node
    waiting = session.live_jobs(promised)
    while waiting:
        job = waiting.pop()
        with session.statement(is_trial=True) as statement:
            for task in session.in_task_order(promised[job]):
                node = promised[job][task]
                if job.groups is not None and not job.groups.may_take(task):
                    continue
                kept = choices_of(task.info)
                if _is_out_of_service(session, task, node) or not session.fits(
                    task, node, Fit.LATER, kept=kept
                ):
                    continue
                before = len(statement)
                statement.pipeline(task, node, kept=kept)
                refusal = refusal_beside_its_job(session, task)
                if refusal is not None:
                    session.reports.of_task(task).broken_promise = refusal
                    statement.rollback(before)
            if session.plugins.job_pipelined(job):
                statement.commit()
    for task in list(session.ledger.leaving.values()):
        moving = session.ledger.tasks[task.uid]
        if moving.status is TaskStatus.PENDING and not moving.is_held:
            session.ledger.end_promise(moving)  # what is promised no place only leaves


def start_promised_jobs(session: Session) -> None:
    """Start the jobs whose promised resources are free, in live job order; others keep waiting.

    A job that cannot start so is tried once more with other places for the tasks that lack theirs.
    """
    waiting = session.live_jobs({task.job: None for task in _kept(session) if task.job is not None})
    while waiting:
        job = waiting.pop()
        with session.statement(is_trial=True) as statement:
            promised = session.in_task_order(job.having(TaskStatus.PIPELINED))
            for starts in (_starts_as_promised, _starts_anywhere):
                try_in_order(promised, partial(starts, session, statement))
                if session.plugins.job_ready(job):
                    statement.commit(fulfils=True)
                    break
                statement.rollback(0)
        for task in job.having(TaskStatus.PIPELINED):
            refusal = _cannot_be_kept(session, task)
            if refusal is not None:
                session.reports.of_task(task).broken_promise = refusal


def _cannot_be_kept(session: Session, task: TaskState) -> Unfit | None:
    """Return why a node where nothing is leaving any more refuses a task that is promised it."""
    node = task.node
    assert node is not None
    if any(other.status is TaskStatus.RELEASING for other in node.tasks.values()):
        return None
    refusal = refusal_ahead(session, task)
    if refusal is not None or task.moves:
        return refusal
    kept = task.choices
    with session.statement(is_trial=True) as statement:
        statement.unallocate(task)
        lacking = session.state.evaluator.lacking(task.init_resreq, node)
        return lacking[0] if lacking else session.no_choice(task, node, Fit.NOW, kept=kept)


def _starts_as_promised(session: Session, statement: Statement, task: TaskState) -> bool:
    """Start a task on its promised node, if it fits there now; return whether it does."""
    node, before, kept = task.node, len(statement), task.choices
    assert node is not None
    if task.moves:
        return False  # it cannot run twice
    statement.unallocate(task)
    if can_start(session, task, node, kept=kept):
        statement.allocate(task, node, kept=kept)
        return True
    statement.rollback(before)
    return False


def _starts_anywhere(session: Session, statement: Statement, task: TaskState) -> bool:
    """Start a task on its promised node, or else where it fits now; return whether it does."""
    job = task.job
    assert job is not None
    if _starts_as_promised(session, statement, task):
        return True
    if task.moves:
        return False
    before = len(statement)
    statement.unallocate(task)
    if not may_go_anywhere(session, job):
        return _starts_in_sets(session, statement, task, before)
    node = session.best_node(task, Fit.NOW) if limit_on(session, task) is None else None
    if node is None:
        statement.rollback(before)
        return False
    statement.allocate(task, node)
    return True


def _starts_in_sets(session: Session, statement: Statement, task: TaskState, before: int) -> bool:
    def place(on: Statement, one: TaskState) -> bool:
        within = None if on.within is None else on.within.slots
        node = session.placement.best(one, Fit.NOW, within)
        if node is not None:
            on.allocate(one, node)
        return node is not None

    if limit_on(session, task) is None and try_in_turn(
        session, statement, need_of_task(task), place
    ):
        return True
    statement.rollback(before)
    return False


def end_promises(session: Session) -> None:
    """End the promises of the last cycle that cannot be kept; see `_cannot_be_kept`.

    If the other promises are not enough for a job, all of its promises end.
    """
    kept = _kept(session)
    over = [task for task in kept if session.reports.about(task).broken_promise is not None]
    for task in over:
        _end(session, task)
    for job in {task.job: None for task in over}:
        if job is not None and not session.plugins.job_pipelined(job):
            for task in kept:
                if task.job is job and task.status is TaskStatus.PIPELINED:
                    _end(session, task)


def kept_for_claimants(session: Session) -> Iterator[TaskState]:
    """Yield the tasks that will be Pipelined on their present nodes in the next cycle.

    These are the Pipelined and Allocated tasks of jobs for which tasks were evicted or moved, or
    of which tasks were moved, in this cycle or an earlier one, if the job's promises are enough for
    it.
    """
    claimants = {eviction.for_task_uid for eviction in session.evictions}
    for move in session.moves:
        claimants.update({move.task_uid, move.for_task_uid or move.task_uid})
    tasks = [*(session.ledger.tasks[uid] for uid in sorted(claimants)), *_kept(session)]
    for job in {task.job: None for task in tasks}:
        if job is not None and job.in_session and session.plugins.job_pipelined(job):
            yield from job.having(TaskStatus.PIPELINED)
            yield from job.having(TaskStatus.ALLOCATED)


def _kept(session: Session) -> list[TaskState]:
    """Return the tasks whose promises of the last cycle still hold."""
    return [
        task
        for task, node_name in session.ledger.initial_promises
        if task.status is TaskStatus.PIPELINED
        and task.node is not None
        and task.node.name == node_name
    ]


def _end(session: Session, task: TaskState) -> None:
    session.ledger.end_promise(task)
