"""The action preempt: tasks evict others of their queue."""

from __future__ import annotations

from functools import partial

from batchsched import JobInfo, Queue, TaskInfo
from tests.reference.choose import (
    by_score,
    is_searched,
    place_without_evicting,
    searched_nodes,
)
from tests.reference.group_turns import group_turn
from tests.reference.groups import has_groups
from tests.reference.make_room import make_room
from tests.reference.session import Session
from tests.reference.unblock import unblock
from tests.reference.waiting import Waiting

__all__ = ["preempt"]


def preempt(session: Session, *, unblocks: bool = False) -> None:
    """Take each queue with waiting tasks once, in the queue order at that moment."""
    jobs = session.tiers.jobs_in_order(job for job in session.jobs if session.to_place(job))
    queues = [
        queue
        for queue in session.queues.values()
        if any(session.queue_of(job) is queue for job in jobs)
    ]
    tasks = {job.uid: session.to_place(job) for job in jobs}
    found = {job.uid: session.to_place(job) for job in jobs}
    while queues:
        queue = session.next_queue(queues, jobs, tasks)
        queues.remove(queue)
        jobs_of_queue = [job for job in jobs if session.queue_of(job) is queue]
        _between_jobs(session, queue, jobs_of_queue, tasks)
        _within_jobs(session, jobs_of_queue, found)
    if unblocks:
        unblock(session, found)


def _between_jobs(
    session: Session, queue: Queue, jobs: list[JobInfo], tasks: dict[str, list[TaskInfo]]
) -> None:
    """Phase 1: jobs evict tasks of other jobs."""
    waiting = list(jobs)
    while waiting:
        job = session.next_job(waiting, tasks)
        waiting.remove(job)
        if _turn(session, queue, job, tasks[job.uid]):
            waiting.append(job)


def _turn(session: Session, queue: Queue, job: JobInfo, tasks: list[TaskInfo]) -> bool:
    """Give a job its turn; return whether it gets another turn."""
    if has_groups(job):
        return group_turn(
            session,
            job,
            tasks,
            lambda task: _take_a_place(session, queue, task),
            lambda: session.tiers.job_pipelined(job),
            is_accepted=is_searched,
        )
    placed: list[TaskInfo] = []

    def attempt() -> bool:
        waiting = Waiting(session, tasks, partial(is_searched, session))
        while tasks:
            task = tasks.pop(0)
            if _take_a_place(session, queue, task):
                placed.append(task)
                waiting.try_again()
            else:
                session.failed_tasks.add(task.uid)
                waiting.set_aside(task)
            if session.tiers.job_pipelined(job):
                break
        return session.tiers.job_pipelined(job)

    return session.statement(job, attempt) and bool(placed)


def _take_a_place(session: Session, queue: Queue, task: TaskInfo) -> bool:
    searched = searched_nodes(session, task)
    may_use_idle = not session.tiers.overused(queue)
    if may_use_idle and place_without_evicting(session, task, searched):
        return True
    job = session.job_of(task)
    return make_room(
        session,
        "preempt",
        task,
        searched,
        may_use_idle=may_use_idle,
        is_candidate=lambda other: (
            session.job_of(other) is not job and session.job_of(other).queue == queue.name
        ),
        victims_of=session.tiers.preemptable,
        in_order=partial(by_score, session, task),
        others_give_way=True,
    )


def _within_jobs(session: Session, jobs: list[JobInfo], found: dict[str, list[TaskInfo]]) -> None:
    """Phase 2: tasks, of those found to place, evict other tasks of their own job."""
    for job in jobs:
        tasks = [task for task in session.to_place(job) if task in found[job.uid]]
        if has_groups(job):
            tasks = session.need(job, tasks)
        if has_groups(job) and len(tasks) > 1:
            continue
        for task in tasks:
            if not session.statement(job, partial(_swap, session, task)):
                session.failed_tasks.add(task.uid)
                break


def _swap(session: Session, task: TaskInfo) -> bool:
    job = session.job_of(task)
    return make_room(
        session,
        "preempt",
        task,
        searched_nodes(session, task),
        may_use_idle=False,
        is_candidate=lambda other: session.job_of(other) is job,
        victims_of=session.tiers.preemptable,
        in_order=partial(by_score, session, task),
        others_give_way=True,
    )
