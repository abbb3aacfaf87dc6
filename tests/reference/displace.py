"""Backfill's strategy displace: jobs take the places that unready jobs hold."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from batchsched import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from tests.reference.choose import best, feasible_nodes
from tests.reference.group_turns import needed_tasks
from tests.reference.groups import has_groups
from tests.reference.make_room import enough_victims
from tests.reference.plugins import RawScore
from tests.reference.session import Session

__all__ = ["displace"]


@frozen
class _Chance:
    """A node where a task can start once some tasks are removed, with its scores then."""

    node: NodeInfo
    taken_off: list[TaskInfo]
    raw_scores: Mapping[str, list[RawScore]]


def displace(session: Session) -> None:
    """Start jobs with Pending tasks in the places of tasks of unready jobs."""
    jobs = [job for job in session.jobs if session.tasks_with(job, TaskStatus.PENDING)]
    queues = [
        queue
        for queue in session.queues.values()
        if any(session.queue_of(job) is queue for job in jobs)
    ]
    while queues:
        queue = session.next_queue(queues, jobs, {})
        queues.remove(queue)
        waiting = [job for job in jobs if session.queue_of(job) is queue]
        while waiting:
            job = session.next_job(waiting, {})
            waiting.remove(job)
            if _turn(session, queue, job):
                waiting.append(job)


def _turn(session: Session, queue: Queue, job: JobInfo) -> bool:
    """Give a job its turn; return whether it gets another turn."""
    placed: list[TaskInfo] = []

    def attempt() -> bool:
        for task in needed_tasks(session, job):
            if _displace_for(session, queue, task):
                placed.append(task)
            else:
                session.failed_tasks.add(task.uid)
                if has_groups(job):
                    return False
            if not has_groups(job) and session.tiers.job_ready(job):
                break
        return session.tiers.job_ready(job)

    return session.statement(job, attempt) and bool(placed)


def _displace_for(session: Session, queue: Queue, task: TaskInfo) -> bool:
    if not session.may_take_task(task):
        return False
    free = [
        node
        for node in feasible_nodes(session, task)
        if session.accounts(node).fits_now(task.start_request)
    ]
    if free:
        session.place(task, TaskStatus.ALLOCATED, best(session, task, free))
        return True
    chances = [
        chance
        for node in session.nodes
        if (chance := _chance(session, queue, task, node)) is not None
    ]
    if not chances:
        return False
    raw = {name: scores for chance in chances for name, scores in chance.raw_scores.items()}
    scores = session.tiers.scores(raw)
    chosen = max(chances, key=lambda chance: scores[chance.node.name])  # the first of equals
    for victim in chosen.taken_off:
        session.state.take_off(victim)
    session.place(task, TaskStatus.ALLOCATED, chosen.node)
    return True


def _chance(session: Session, queue: Queue, task: TaskInfo, node: NodeInfo) -> _Chance | None:
    releasable = session.tiers.victims_in_order(
        other
        for other in session.state.tasks_on(node)
        if session.state.status(other) is TaskStatus.ALLOCATED
        and _is_releasable(session, queue, session.job_of(other), session.job_of(task))
    )
    saved = session.state.save()

    def fits_without(taken_off: list[TaskInfo]) -> bool:
        for victim in taken_off:
            session.state.take_off(victim)
        fits = session.accounts(node).fits_now(task.start_request)
        session.state.restore(saved)
        return fits

    taken_off = enough_victims(releasable, fits_without)
    if taken_off is None:
        return None
    for victim in taken_off:
        session.state.take_off(victim)
    chance = None
    if node in feasible_nodes(session, task):
        chance = _Chance(node, taken_off, session.tiers.raw_scores(task, [node]))
    session.state.restore(saved)
    return chance


def _is_releasable(session: Session, queue: Queue, job: JobInfo, claimant: JobInfo) -> bool:
    return (
        job is not claimant
        and job.queue == queue.name
        and not session.tiers.job_ready(job)
        and not session.tiers.job_condition_ready(job)
    )
