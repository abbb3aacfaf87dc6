"""Promises kept from cycle to cycle: claimants get what evicted tasks release."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from batchsched import JobInfo, NodeInfo, TaskInfo, TaskStatus
from tests.reference.choose import accepted_nodes, feasible_nodes, place_now
from tests.reference.groups import Groups, has_groups
from tests.reference.session import Session
from tests.reference.state import View
from tests.reference.waiting import Waiting

__all__ = ["end_promises", "keep_promises", "places_to_keep", "start_promised_jobs"]


def keep_promises(session: Session) -> None:
    """Keep, at open, the promises of each job that are still possible, if they are enough."""
    jobs = [
        job
        for job in session.jobs
        if any(task.status is TaskStatus.PIPELINED for task in job.tasks)
    ]
    while jobs:
        job = session.tiers.next_job(jobs)
        jobs.remove(job)
        session.statement(job, partial(_keep, session, job))


def _keep(session: Session, job: JobInfo) -> bool:
    promised = [
        task
        for task in job.tasks
        if task.status is TaskStatus.PIPELINED and task.uid not in session.state.held
    ]
    for task in session.tiers.tasks_in_order(promised):
        if has_groups(job) and not Groups(session.state, job).may_take(task):
            continue
        for node in session.nodes:
            if (
                node.name == task.node_name
                and not session.is_out_of_service(task, node)
                and session.accounts(node).fits_later(task.start_request)
            ):
                session.place(task, TaskStatus.PIPELINED, node)
    return session.tiers.job_pipelined(job)


def start_promised_jobs(session: Session) -> None:
    """Start, before the first action, each job whose promised resources are free."""
    jobs = [job for job in session.jobs if any(_is_kept(session, task) for task in job.tasks)]
    while jobs:
        job = session.tiers.next_job(jobs)
        jobs.remove(job)
        if not session.statement(job, partial(_start, session, job), is_earned=True):
            session.statement(job, partial(_start, session, job, anywhere=True), is_earned=True)
        refused = [task for task in job.tasks if _is_kept(session, task)]
        session.hopeless |= {task.uid for task in refused if _is_refused(session, task)}


def _is_refused(session: Session, task: TaskInfo) -> bool:
    """Return whether nothing leaves the node promised to a task, and yet it cannot have it."""
    node = _node_of(session, task)
    if any(
        session.state.status(other) is TaskStatus.RELEASING
        for other in session.state.tasks_on(node)
    ):
        return False
    saved = session.state.save()
    session.state.take_off(task)
    is_accepted = session.tiers.accepted(task, [node], View.LATER)
    fits = session.accounts(node).fits_now(task.start_request)
    session.state.restore(saved)
    return not (is_accepted and fits)


def _start(session: Session, job: JobInfo, *, anywhere: bool = False) -> bool:
    """Start tasks on the places promised to them; if not there, on others, if allowed."""
    tasks = session.tasks_with(job, TaskStatus.PIPELINED)
    promised = {task.uid: _node_of(session, task) for task in tasks}

    def accepts(task: TaskInfo) -> bool:
        nodes = accepted_nodes(session, task)
        return bool(nodes) if anywhere else promised[task.uid] in nodes

    waiting = Waiting(session, tasks, accepts)
    while tasks:
        task = tasks.pop(0)
        node = promised[task.uid]
        session.state.take_off(task)
        if _can_start(session, task, node):
            session.place(task, TaskStatus.ALLOCATED, node)
            waiting.try_again()
        elif anywhere and place_now(session, task, feasible_nodes(session, task)):
            waiting.try_again()
        else:
            waiting.set_aside(task)
            session.place(task, TaskStatus.PIPELINED, node)
    return session.tiers.job_ready(job)


def end_promises(session: Session) -> None:
    """Drop, at close, promises that became impossible, and those of jobs that then have too few."""
    kept = [task for job in session.jobs for task in job.tasks if _is_kept(session, task)]
    over = [task for task in kept if task.uid in session.hopeless]
    for task in over:
        session.state.take_off(task)
    for task in kept:
        job = session.job_of(task)
        if any(session.job_of(other) is job for other in over) and not session.tiers.job_pipelined(
            job
        ):
            session.state.take_off(task)


def places_to_keep(session: Session) -> Iterator[TaskInfo]:
    """Yield the tasks of claimants' jobs that have a place or a promise."""
    claimants = {eviction.for_task_uid for eviction in session.state.evictions}
    for job in session.jobs:
        if session.tiers.job_pipelined(job) and any(
            task.uid in claimants or _is_kept(session, task) for task in job.tasks
        ):
            yield from session.tasks_with(job, TaskStatus.PIPELINED, TaskStatus.ALLOCATED)


def _is_kept(session: Session, task: TaskInfo) -> bool:
    return (
        task.status is session.state.status(task) is TaskStatus.PIPELINED
        and session.state.node_name(task) == task.node_name
    )


def _node_of(session: Session, task: TaskInfo) -> NodeInfo:
    name = session.state.node_name(task)
    return next(node for node in session.nodes if node.name == name)


def _can_start(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    accounts = session.accounts(node)
    return node in accepted_nodes(session, task) and accounts.fits_now(task.start_request)
