"""The action reserve: nodes are kept for starving jobs (section 11)."""

from __future__ import annotations

from functools import partial
from math import ceil

from batchsched.model import JobInfo, TaskInfo
from batchsched.status import TaskStatus
from batchsched.testing.reference.choose import accepted_nodes, feasible_nodes, place_now
from batchsched.testing.reference.conf import Arguments
from batchsched.testing.reference.reservations import can_be_reserved, is_promised_to_others
from batchsched.testing.reference.session import Session

__all__ = ["reserve"]

DEFAULT_THRESHOLD = 172800.0
DEFAULT_PERCENT = 50.0


def reserve(session: Session, arguments: Arguments) -> None:
    """Reserve for starving jobs, down to the first other job that could be scheduled now."""
    threshold = arguments.number("starvingJobTimeThreshold", DEFAULT_THRESHOLD)
    percent = arguments.number("reservedNodePercent", DEFAULT_PERCENT)
    limit = ceil(percent * len(session.nodes) / 100)
    waiting = [job for job in session.jobs if session.to_place(job)]
    while waiting:
        job = session.tiers.next_job(waiting)
        waiting.remove(job)
        is_starving = session.is_starving(job, threshold)
        if is_starving and job.queue not in session.overused_at_open:
            session.statement(job, partial(_try_to_reserve, session, job, limit))
        elif not session.tiers.overused(session.queue_of(job)) and _could_be_scheduled(
            session, job
        ):
            return


def _could_be_scheduled(session: Session, job: JobInfo) -> bool:
    """Return whether a job would become ready now, or one more task of a ready job fits."""
    was_ready = session.tiers.job_ready(job)
    saved = session.state.save()
    could = False
    for task in session.to_place(job):
        if not place_now(session, task, feasible_nodes(session, task)):
            break
        if was_ready or session.tiers.job_ready(job):
            could = True
            break
    session.state.restore(saved)
    return could


def _try_to_reserve(session: Session, job: JobInfo, limit: int) -> bool:
    for task in session.to_place(job):
        if _is_satisfied(session, job):
            break
        _find_node(session, task, limit)
    return _is_satisfied(session, job)


def _is_satisfied(session: Session, job: JobInfo) -> bool:
    return session.tiers.job_ready(job) or session.tiers.job_condition_ready(job)


def _find_node(session: Session, task: TaskInfo, limit: int) -> None:
    """Allocate the task on an open node, or reserve an eligible node for it."""
    possible = [
        node
        for node in accepted_nodes(session, task)
        if not is_promised_to_others(session, task, node) and can_be_reserved(session, task, node)
    ]
    scores = session.tiers.resource_scores(task, possible)
    ranked = sorted(possible, key=lambda node: (-scores[node.name], node.name))
    reserved = [node for node in session.nodes if session.reserved_on(node)]
    for node in ranked:
        if node not in reserved and session.accounts(node).fits_now(task.start_request):
            session.place(task, TaskStatus.ALLOCATED, node)
            return
    fresh = [node for node in ranked if node not in reserved][: max(0, limit - len(reserved))]
    for node in ranked:
        if node in reserved or node in fresh:
            session.place(task, TaskStatus.RESERVED, node)
            return
