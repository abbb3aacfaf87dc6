"""The release strategy of backfill: unready gangs release what they hold.

Follows the design document "Backfill and Starvation Prevention".
"""

from __future__ import annotations

from batchsched.model.cluster import TaskStatus
from batchsched.placement import Fit
from batchsched.session.attempts import tasks_needed
from batchsched.session.session import Session
from batchsched.state.records import JobState

__all__ = ["release"]


def release(session: Session, starvation_threshold: float | None) -> None:
    """Unallocate what unready jobs hold, and start whole jobs there, marked as backfill."""
    candidates = [
        job
        for job in session.jobs_having(TaskStatus.PENDING)
        if job.count(TaskStatus.PENDING) == len(job.tasks)
    ]
    for job in session.jobs_having(TaskStatus.ALLOCATED, TaskStatus.CONDITIONAL):
        if _releases(session, job, starvation_threshold):
            for status in (TaskStatus.ALLOCATED, TaskStatus.CONDITIONAL):
                for task in job.having(status):
                    session.unallocate(task)
                    session.reports.record_rollback([task])
    waiting = session.live_jobs(candidates)
    while waiting:
        job = waiting.pop()
        if not session.job_ready(job):
            _start_as_backfill(session, job)


def _releases(session: Session, job: JobState, threshold: float | None) -> bool:
    if not job.count(TaskStatus.ALLOCATED) and not job.count(TaskStatus.CONDITIONAL):
        return False
    if session.job_ready(job) or session.job_condition_ready(job):
        return False
    return threshold is None or not session.is_starving(job, threshold)


def _start_as_backfill(session: Session, job: JobState) -> None:
    with session.statement() as statement:
        for task in tasks_needed(session, job):
            node = session.best_node(task, Fit.NOW) if session.may_take_task(task) else None
            if node is None:
                session.record_failure(task)
            else:
                statement.allocate(task, node, is_backfill=True)
        if session.job_ready(job):
            statement.commit()
