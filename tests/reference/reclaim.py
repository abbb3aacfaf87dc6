"""The action reclaim: queues evict tasks of queues above their share."""

from __future__ import annotations

from batchsched import JobInfo, Queue, TaskInfo
from tests.reference.choose import place_without_evicting, searched_nodes
from tests.reference.claimant_turn import claimant_turn
from tests.reference.claims import reclaim_by_claims
from tests.reference.make_room import make_room
from tests.reference.session import Session

__all__ = ["reclaim"]


def reclaim(session: Session, *, retries: bool) -> None:
    """Take turns of queues and jobs until every queue is overused or has no jobs left."""
    if session.tiers.capacity is not None:
        reclaim_by_claims(session, session.tiers.capacity, retries=retries)
        return
    jobs = [job for job in session.jobs if session.to_place(job)]
    tasks = {job.uid: session.to_place(job) for job in jobs}
    waiting = {
        queue.name: [job for job in jobs if session.queue_of(job) is queue]
        for queue in session.queues.values()
    }
    queues = [queue for queue in session.queues.values() if waiting[queue.name]]
    while queues:
        queue = session.tiers.next_queue(queues)
        if session.tiers.overused(queue) or not waiting[queue.name]:
            queues.remove(queue)
            continue
        job = session.tiers.next_job(waiting[queue.name])
        waiting[queue.name].remove(job)
        if _turn(session, queue, job, tasks[job.uid], retries=retries):
            waiting[queue.name].append(job)


def _turn(
    session: Session, queue: Queue, job: JobInfo, tasks: list[TaskInfo], *, retries: bool
) -> bool:
    """Give a job its turn; return whether it gets another turn."""
    tasks[:] = session.possible(job, tasks)
    return claimant_turn(
        session,
        job,
        tasks,
        lambda task: _take_a_place(session, queue, task),
        lambda: not session.tiers.overused(queue),
        retries=retries,
    )


def _take_a_place(session: Session, queue: Queue, task: TaskInfo) -> bool:
    searched = searched_nodes(session, task)
    return place_without_evicting(session, task, searched) or make_room(
        session,
        "reclaim",
        task,
        searched,
        may_use_idle=True,
        is_candidate=lambda other: session.job_of(other).queue != queue.name,
        victims_of=session.tiers.reclaimable,
    )
