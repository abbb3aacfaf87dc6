"""Promises that outlive a cycle: resources of evicted tasks are kept for their claimants.

Evicted tasks take time to leave. If the claimant were only Pending in the next cycle, other tasks
could use the resources, or the evicted task could return and be evicted again, for ever. So a
snapshot may have Pipelined tasks. Their promises are restored when the session opens, they start
before the first action if they can, and promises that can no longer be fulfilled end at close.
"""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.model.cluster import TaskStatus
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import JobState, NodeState, TaskState

__all__ = ["end_promises", "keep_promises", "places_of_claimants", "start_promised_jobs"]


def keep_promises(session: Session) -> None:
    """Restore the promises of the last cycle, job by job in live job order.

    A promise is restored if its node exists and is in service, and the task still fits the future
    idle amount. If these are not enough for a job, all of its promises end.
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
    """Start the jobs whose promised resources are free, in live job order; others keep waiting."""
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
    """End the promises of the last cycle that can no longer be fulfilled.

    These are promises on nodes without Releasing tasks, where the task still cannot start. If
    the other promises are not enough for a job, all of its promises end.
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
    """Yield the tasks that will be Pipelined on their present nodes in the next cycle.

    These are the Pipelined and Allocated tasks of jobs for which tasks were evicted, in this
    cycle or an earlier one, if the job's promises are enough for it.
    """
    claimants = {eviction.for_task_uid for eviction in session.evictions}
    tasks = [*(session.ledger.tasks[uid] for uid in sorted(claimants)), *_kept(session)]
    for job in {task.job: None for task in tasks}:
        if job is not None and job.in_session and session.job_pipelined(job):
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
    """Remove a promise, and return whether the task can start on its node."""
    statement.unallocate(task)
    accepts = session.placement.refusal(task, node) is None
    return accepts and node.fits_now(task.init_resreq)


def _end(session: Session, task: TaskState) -> None:
    session.ledger.move(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)
