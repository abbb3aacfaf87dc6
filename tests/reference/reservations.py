"""Reservations from cycle to cycle, and how allocate uses them."""

from __future__ import annotations

from functools import partial

from batchsched import JobInfo, NodeInfo, TaskInfo, TaskStatus
from tests.reference.choose import accepted_nodes, feasible_nodes, is_accepted, place_now
from tests.reference.group_turns import needed_tasks
from tests.reference.session import Session
from tests.reference.state import total_of
from tests.reference.waiting import Waiting

__all__ = [
    "can_be_kept_for_one_job",
    "can_be_reserved",
    "can_be_reserved_beside_its_job",
    "drop_useless_reservations",
    "is_promised_to_others",
    "serve_reserved_jobs",
]


def can_be_reserved(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether a node is large enough for one more reservation."""
    reserved = [other.start_request for other in session.reserved_on(node)]
    return total_of([*reserved, task.start_request]).fits(session.room_for_jobs(node))


def can_be_reserved_beside_its_job(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether a node is large enough in addition to what the task's job has there."""
    wanted = [other.start_request for other in session.reserved_on(node)]
    wanted += [
        other.start_request
        for other in session.state.tasks_on(node)
        if session.state.status(other) is TaskStatus.ALLOCATED
        and session.state.job_of.get(other.uid) is session.job_of(task)
    ]
    return total_of([*wanted, task.start_request]).fits(session.room_for_jobs(node))


def can_be_kept_for_one_job(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether a node can be kept for the task's job alone, with all that it has there.

    A node kept for another job cannot, even if only for that job's Allocated tasks.
    """
    job = session.job_of(task)
    wanted = [task.start_request]
    for other in session.state.tasks_on(node):
        status = session.state.status(other)
        owner = session.state.job_of.get(other.uid)
        if owner is job and status in (TaskStatus.RESERVED, TaskStatus.ALLOCATED):
            wanted.append(other.start_request)
        elif status is TaskStatus.RESERVED or (
            status is TaskStatus.ALLOCATED
            and owner is not None
            and session.tasks_with(owner, TaskStatus.RESERVED)
        ):
            return False
    return total_of(wanted).fits(session.room_for_jobs(node))


def is_promised_to_others(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether a node has Pipelined or Conditional tasks of other jobs."""
    return any(
        session.state.status(other) in (TaskStatus.PIPELINED, TaskStatus.CONDITIONAL)
        and session.job_of(other) is not session.job_of(task)
        for other in session.state.tasks_on(node)
    )


def serve_reserved_jobs(session: Session) -> None:
    """Start each job with Reserved tasks, if it becomes ready; one statement for each job."""
    jobs = [job for job in session.jobs if session.tasks_with(job, TaskStatus.RESERVED)]
    while jobs:
        job = session.tiers.next_job(jobs)
        jobs.remove(job)
        session.statement(job, partial(_use_reservations, session, job), is_earned=True)


def _use_reservations(session: Session, job: JobInfo) -> bool:
    reserved = session.tasks_with(job, TaskStatus.RESERVED)
    nodes = {task.uid: session.state.node_name(task) for task in reserved}
    for task in reserved:
        session.state.take_off(task)

    def accepting(task: TaskInfo) -> list[NodeInfo]:
        """Return the node that is reserved for a task, if it accepts it."""
        return [node for node in accepted_nodes(session, task) if node.name == nodes[task.uid]]

    waiting = Waiting(session, reserved, lambda task: bool(accepting(task)))
    while reserved:
        task = reserved.pop(0)
        fits = [n for n in accepting(task) if session.accounts(n).fits_now(task.start_request)]
        if fits and session.may_take_task(task):
            session.place(task, TaskStatus.ALLOCATED, fits[0])
            waiting.try_again()
        else:
            waiting.set_aside(task)
    tasks = needed_tasks(session, job)
    waiting = Waiting(session, tasks, partial(is_accepted, session))
    while tasks and not session.tiers.job_ready(job):
        task = tasks.pop(0)
        if place_now(session, task, feasible_nodes(session, task)):
            waiting.try_again()
        else:
            waiting.set_aside(task)
    return session.tiers.job_ready(job)


def drop_useless_reservations(session: Session) -> None:
    """Drop, at close, the reservations of jobs that could not start even with them."""
    for job in session.jobs:
        if not session.tiers.job_ready(job) and not session.tiers.job_condition_ready(job):
            for task in session.tasks_with(job, TaskStatus.RESERVED):
                session.state.take_off(task)
