"""The action allocate: queue by queue, job by job, task by task."""

from __future__ import annotations

from functools import partial
from math import inf

from attrs import frozen

from batchsched import JobInfo, NodeInfo, TaskInfo, TaskStatus
from tests.reference.choose import (
    accepted_nodes,
    feasible_nodes,
    is_accepted,
    place_conditionally,
    place_later,
    place_now,
)
from tests.reference.conf import Arguments
from tests.reference.group_turns import group_turn, keep_part
from tests.reference.groups import has_groups
from tests.reference.plugins import ready_count, waiting_count
from tests.reference.promises import make_promises_real, place_on_loans
from tests.reference.reservations import (
    can_be_reserved,
    can_be_reserved_beside_its_job,
    is_promised_to_others,
    serve_reserved_jobs,
)
from tests.reference.retrying import tried_twice
from tests.reference.session import Session
from tests.reference.waiting import Waiting

__all__ = ["allocate", "can_still_start"]


@frozen
class _Options:
    discards: bool
    """Whether each turn is a statement, discarded if the job is not ready at its end."""
    evict_backfill: bool
    cures: bool
    """Whether also where nodes refuse a task only for what evicting can cure."""
    starvation_threshold: float
    retries: bool
    """Whether a discarded turn is tried once more, with the largest tasks first."""


def allocate(session: Session, arguments: Arguments, *, retries: bool, cures: bool) -> None:
    """Serve the jobs with Reserved tasks, then all jobs in turn."""
    options = _Options(
        discards=arguments.word("unready", ("discard", "hold")) == "discard",
        evict_backfill=arguments.boolean("evictBackfill"),
        cures=cures,
        starvation_threshold=arguments.number("starvationThreshold", inf),
        retries=retries,
    )
    serve_reserved_jobs(session)
    waiting = {
        queue.name: [job for job in session.jobs if session.queue_of(job) is queue]
        for queue in session.queues.values()
    }
    queues = [queue for queue in session.queues.values() if waiting[queue.name]]
    tasks: dict[str, list[TaskInfo]] = {}
    while queues:
        jobs = [job for name in waiting for job in waiting[name]]
        queue = session.next_queue(queues, jobs, tasks)
        if session.tiers.overused(queue) or not waiting[queue.name]:
            queues.remove(queue)
            continue
        job = session.next_job(waiting[queue.name], tasks)
        waiting[queue.name].remove(job)
        tasks_of_job = tasks.setdefault(job.uid, session.to_place(job))
        if _turn(
            session,
            options,
            job,
            tasks_of_job
            if has_groups(job)
            or session.may_take(
                job,
                tasks_of_job,
                may_reserve=session.is_starving(job, options.starvation_threshold),
            )
            else [],
        ):
            waiting[queue.name].append(job)


def _turn(session: Session, options: _Options, job: JobInfo, tasks: list[TaskInfo]) -> bool:
    """Give a job its turn; return whether it gets another turn."""
    gets_another = False

    def is_enough() -> bool:
        return (
            session.tiers.job_ready(job)
            or session.tiers.job_pipelined(job)
            or (
                session.tiers.job_condition_ready(job)
                and bool(session.tasks_with(job, TaskStatus.CONDITIONAL, TaskStatus.RESERVED))
            )
        )

    def attempt() -> bool:
        nonlocal gets_another
        gets_another = _place_tasks(session, options, job, tasks)
        return is_enough()

    if has_groups(job):
        is_placed = group_turn(
            session,
            job,
            tasks,
            lambda task: _place_task(session, options, task),
            is_enough,
            asks_queue=True,
            retries=options.retries,
        )
        gets_another = is_placed and bool(tasks) and session.tiers.job_ready(job)
        if not is_placed and not session.tiers.job_ready(job):
            keep_part(
                session,
                job,
                lambda task: _place_task(session, options, task),
                is_enough,
                holds=not options.discards,
                may_reserve=session.is_starving(job, options.starvation_threshold),
                reserve=lambda task: (
                    session.is_starving(job, options.starvation_threshold)
                    and _reserve(session, task, beside_its_job=options.discards)
                ),
            )
    elif options.discards:
        tried_twice(session, job, tasks, attempt, retries=options.retries)
    else:
        attempt()
    if options.evict_backfill:
        make_promises_real(session, job)
    return gets_another


def _place_task(session: Session, options: _Options, task: TaskInfo) -> bool:
    feasible = feasible_nodes(session, task)
    return (
        place_now(session, task, feasible)
        or place_later(session, task, feasible)
        or _place_conditionally(session, options, task, feasible)
    )


def _place_conditionally(
    session: Session, options: _Options, task: TaskInfo, feasible: list[NodeInfo]
) -> bool:
    if options.evict_backfill:
        return place_on_loans(session, task, cures=options.cures)
    return place_conditionally(session, task, feasible)


def _place_tasks(session: Session, options: _Options, job: JobInfo, tasks: list[TaskInfo]) -> bool:
    """Place tasks until the job is ready or cannot become so; return whether it gets another turn.

    Tasks that cannot be placed are skipped.
    """
    waiting = Waiting(session, tasks, partial(is_accepted, session))
    reserved: list[TaskInfo] = []
    gets_another = False
    while tasks:
        task = tasks.pop(0)
        feasible = feasible_nodes(session, task)
        if place_now(session, task, feasible):
            if not options.discards:
                session.bind_if_ready(job)
        elif place_later(session, task, feasible) or _place_conditionally(
            session, options, task, feasible
        ):
            pass
        else:
            session.failed_tasks.add(task.uid)
            if session.is_starving(job, options.starvation_threshold) and _reserve(
                session, task, beside_its_job=options.discards
            ):
                reserved.append(task)
                continue
            waiting.set_aside(task)
            if not can_still_start(session, job, [*tasks, *waiting.aside]):
                tasks.clear()
                break
            continue
        waiting.try_again()
        if session.tiers.job_ready(job) and tasks:
            gets_another = True
            break
    if not session.tiers.job_ready(job) and not session.tiers.job_condition_ready(job):
        for task in reserved:
            session.state.take_off(task)
    return gets_another


def can_still_start(session: Session, job: JobInfo, left: list[TaskInfo]) -> bool:
    """Return whether a job is ready, or could be if all remaining tasks were placed."""
    placed = (
        ready_count(session.state, job)
        + waiting_count(session.state, job)
        + len(session.tasks_with(job, TaskStatus.CONDITIONAL))
    )
    return session.tiers.job_ready(job) or placed + len(left) >= job.min_available


def _reserve(session: Session, task: TaskInfo, *, beside_its_job: bool) -> bool:
    """Reserve the first possible node for a starving job's task."""
    can_hold = can_be_reserved_beside_its_job if beside_its_job else can_be_reserved
    for node in accepted_nodes(session, task):
        if not is_promised_to_others(session, task, node) and can_hold(session, task, node):
            session.place(task, TaskStatus.RESERVED, node)
            return True
    return False
