"""Promises that outlive a cycle: the room that evicted tasks leave is their claimant's.

What is evicted takes time to leave. If the task that it makes room for were merely Pending in
the next cycle, others could take the room, or the evicted task itself could come back to it and
be evicted again, for ever. So a snapshot may have tasks that are Pipelined; they keep their
places while the session opens, start before the first action if they can, and give up at close
what nobody will release any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.model.status import TaskStatus
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import JobState, NodeState, TaskState

__all__ = ["end_promises", "keep_promises", "places_of_claimants", "start_promised_jobs"]


def keep_promises(session: Session) -> None:
    """Promise to tasks what the last cycle has promised them, job by job in live job order.

    A promise holds if its node is there and in service, and if it still fits what will be idle.
    If those that hold are not enough for a job, all of its promises end.
    """
    promised: dict[JobState, dict[TaskState, NodeState]] = {}
    for task, node_name in session.ledger.initial_promises:
        job, node = task.job, session.ledger.node_named.get(node_name)
        if job is not None and job.in_session and node is not None:
            promised.setdefault(job, {})[task] = node
    waiting = session.live_jobs(promised)
    while waiting:
        job = waiting.pop()
        with session.statement(is_trial=True) as statement:
            for task in session.in_task_order(promised[job]):
                node = promised[job][task]
                if job.groups is not None and not job.groups.may_take(task):
                    continue
                if not session.reservations.is_out_of_service(task, node) and node.fits_later(
                    task.init_resreq
                ):
                    statement.pipeline(task, node)
            if session.job_pipelined(job):
                statement.commit()


def start_promised_jobs(session: Session) -> None:
    """Start the jobs whose promises have come true, in live job order; the others go on waiting."""
    waiting = session.live_jobs({task.job: None for task in _kept(session) if task.job is not None})
    while waiting:
        job = waiting.pop()
        with session.statement(is_trial=True) as statement:
            for task in session.in_task_order(job.having(TaskStatus.PIPELINED)):
                node = task.node
                assert node is not None
                before = len(statement)
                if _fits_without_its_promise(session, statement, task, node):
                    statement.allocate(task, node)
                else:
                    statement.rollback(before)
            if session.job_ready(job):
                statement.commit()


def end_promises(session: Session) -> None:
    """End the promises of the last cycle that cannot come true any more.

    Such a promise is on a node where nothing is being released any more and where the task can
    still not start. If what is left is not enough for its job, all of its promises end.
    """
    kept = _kept(session)
    over = [task for task in kept if _is_over(session, task)]
    for task in over:
        _end(session, task)
    for job in {task.job: None for task in over}:
        if job is not None and not session.job_pipelined(job):
            for task in kept:
                if task.job is job and task.status is TaskStatus.PIPELINED:
                    _end(session, task)


def places_of_claimants(session: Session) -> Iterator[TaskState]:
    """Yield the tasks that are to be Pipelined where they are in the next cycle.

    These are the Pipelined and the Allocated tasks of jobs for which tasks were evicted, in this
    cycle or in an earlier one, if what they have been promised is enough for them.
    """
    claimants = {eviction.for_task_uid for eviction in session.evictions}
    tasks = [*(session.ledger.tasks[uid] for uid in sorted(claimants)), *_kept(session)]
    for job in {task.job: None for task in tasks}:
        if job is not None and job.in_session and session.job_pipelined(job):
            yield from job.having(TaskStatus.PIPELINED)
            yield from job.having(TaskStatus.ALLOCATED)


def _kept(session: Session) -> list[TaskState]:
    """Return the tasks that have what the last cycle has promised them."""
    return [
        task
        for task, node_name in session.ledger.initial_promises
        if task.status is TaskStatus.PIPELINED
        and task.node is not None
        and task.node.name == node_name
    ]


def _is_over(session: Session, task: TaskState) -> bool:
    node = task.node
    assert node is not None
    if any(other.status is TaskStatus.RELEASING for other in node.tasks.values()):
        return False
    with session.statement(is_trial=True) as statement:
        return not _fits_without_its_promise(session, statement, task, node)


def _fits_without_its_promise(
    session: Session, statement: Statement, task: TaskState, node: NodeState
) -> bool:
    """Take a promise off, and return whether the task can start in its place."""
    statement.unallocate(task)
    accepts = session.placement.refusal(task, node) is None
    return accepts and node.fits_now(task.init_resreq)


def _end(session: Session, task: TaskState) -> None:
    session.ledger.move(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)
