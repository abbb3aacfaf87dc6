"""The action preempt: tasks evict others of their queue."""

from __future__ import annotations

from functools import partial

from attrs import Factory, define

from batchsched import JobInfo, Queue, TaskInfo, TaskStatus
from tests.reference.choose import (
    by_score,
    is_searched,
    place_without_evicting,
    searched_nodes,
)
from tests.reference.group_turns import group_turn
from tests.reference.groups import has_groups
from tests.reference.make_room import Unit, make_room
from tests.reference.retrying import tried_twice
from tests.reference.session import Session
from tests.reference.state import Saved
from tests.reference.unblock import unblock
from tests.reference.waiting import Waiting

__all__ = ["preempt"]


def preempt(session: Session, *, unblocks: bool, retries: bool) -> None:
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
        _between_jobs(session, queue, jobs_of_queue, tasks, retries=retries)
        _within_jobs(session, jobs_of_queue, found)
    if unblocks:
        unblock(session, found)


def _between_jobs(
    session: Session,
    queue: Queue,
    jobs: list[JobInfo],
    tasks: dict[str, list[TaskInfo]],
    *,
    retries: bool,
) -> None:
    """Phase 1: jobs evict tasks of other jobs."""
    waiting = list(jobs)
    while waiting:
        job = session.next_job(waiting, tasks)
        waiting.remove(job)
        if _turn(session, queue, job, tasks[job.uid], retries=retries):
            waiting.append(job)


def _turn(
    session: Session, queue: Queue, job: JobInfo, tasks: list[TaskInfo], *, retries: bool
) -> bool:
    """Give a job its turn; return whether it gets another turn."""
    turn = _Turn(session, queue, job, session.state.save())
    if has_groups(job):
        return group_turn(
            session,
            job,
            tasks,
            turn.take_a_place,
            turn.finish,
            is_accepted=is_searched,
            retries=retries,
        )
    placed: list[TaskInfo] = []

    def attempt() -> bool:
        placed.clear()
        waiting = Waiting(session, tasks, partial(is_searched, session))
        while tasks:
            task = tasks.pop(0)
            if turn.take_a_place(task):
                placed.append(task)
                waiting.try_again()
            else:
                session.failed_tasks.add(task.uid)
                waiting.set_aside(task)
            if session.tiers.job_pipelined(job):
                break
        return turn.finish()

    return tried_twice(session, job, tasks, attempt, retries=retries) and bool(placed)


@define
class _Turn:
    """The turn of a job in phase 1."""

    session: Session
    queue: Queue
    job: JobInfo
    at_beginning: Saved
    taken: list[tuple[Unit, TaskInfo]] = Factory(list[tuple[Unit, TaskInfo]])
    """The units that were taken, and for which tasks."""
    swaps: bool = False
    """Whether the queue was overused: then a task takes the place of others, and no more."""

    def take_a_place(self, task: TaskInfo) -> bool:
        """Place a task, evicting others if necessary; return whether it was placed."""
        session, job = self.session, self.job
        if not self._has_taken():
            self.taken.clear()  # all was undone
        searched = searched_nodes(session, task)
        may_use_idle = not session.tiers.overused(self.queue)
        self.swaps = self.swaps or not may_use_idle
        if may_use_idle and place_without_evicting(session, task, searched):
            return True
        return make_room(
            session,
            "preempt",
            task,
            searched,
            may_use_idle=may_use_idle,
            is_candidate=lambda other: (
                session.job_of(other) is not job and session.job_of(other).queue == self.queue.name
            ),
            victims_of=session.tiers.preemptable,
            in_order=partial(by_score, session, task),
            others_give_way=True,
            spares_important=session.tiers.knows_priority,
            note=lambda units: self.taken.extend((unit, task) for unit in units),
        )

    def _has_taken(self) -> bool:
        now, before = self.session.state, self.at_beginning
        return (len(now.evictions), len(now.taken_back), len(now.given_up)) != (
            *(len(before.evictions), len(before.taken_back), len(before.given_up)),
        )

    def finish(self) -> bool:
        """Spare what the job can do without; return whether it will be able to start."""
        session, state = self.session, self.session.state
        if not session.tiers.job_pipelined(self.job):
            return False
        if self.swaps or not self._has_taken() or len({task.uid for _, task in self.taken}) < 2:
            return True
        placed = [
            task
            for task in session.tiers.tasks_in_order(self.job.tasks)
            if state.places[task.uid] != self.at_beginning.places[task.uid]
        ]
        best = state.save()
        for one in reversed(list(self.taken)):
            others = [other for other in self.taken if other is not one]
            runs = any(victim.status is TaskStatus.RUNNING for victim in one[0])
            if runs and self._is_enough(placed, others):
                self.taken, best = others, state.save()
        state.restore(best)
        return True

    def _is_enough(self, placed: list[TaskInfo], taken: list[tuple[Unit, TaskInfo]]) -> bool:
        """Evict units from the state at the beginning; return whether the tasks find places."""
        session, gone = self.session, set[str]()
        session.state.restore(self.at_beginning)
        for unit, task in taken:
            for victim in unit:
                if victim.uid not in gone:
                    gone.add(victim.uid)
                    session.evict(victim, "preempt", task)
        return (
            all(place_without_evicting(session, t, searched_nodes(session, t)) for t in placed)
            and session.tiers.job_pipelined(self.job)
            and session.promises_hold(self.at_beginning)
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
        spares_important=session.tiers.knows_priority,
    )
