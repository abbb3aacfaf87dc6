"""Backfill's strategy release: unready jobs release resources, which others use meanwhile."""

from __future__ import annotations

from functools import partial

from batchsched import JobInfo, TaskStatus
from tests.reference.choose import feasible_nodes, place_now
from tests.reference.group_turns import needed_tasks
from tests.reference.session import Session

__all__ = ["release"]


def release(session: Session, starvation_threshold: float) -> None:
    """Unallocate what unready jobs hold, and start whole jobs there, marked as backfill."""
    candidates = [
        job
        for job in session.jobs
        if all(
            session.state.status(task) is TaskStatus.PENDING or task.uid in session.state.held
            for task in job.tasks
        )
        and any(session.state.status(task) is TaskStatus.PENDING for task in job.tasks)
    ]
    for job in session.jobs:
        if not (
            session.is_starving(job, starvation_threshold)
            or session.tiers.job_ready(job)
            or session.tiers.job_condition_ready(job)
        ):
            for task in session.tasks_with(job, TaskStatus.ALLOCATED, TaskStatus.CONDITIONAL):
                session.state.take_off(task)
    while candidates:
        job = session.tiers.next_job(candidates)
        candidates.remove(job)
        if not session.tiers.job_ready(job):
            session.statement(job, partial(_start_as_backfill, session, job))


def _start_as_backfill(session: Session, job: JobInfo) -> bool:
    for task in needed_tasks(session, job):
        if place_now(session, task, feasible_nodes(session, task)):
            session.state.mark_backfill(task)
        else:
            session.failed_tasks.add(task.uid)
    return session.tiers.job_ready(job)
