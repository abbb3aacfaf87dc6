"""preempt: within a queue, the more deserving take the place of the less deserving."""

from __future__ import annotations

from collections import deque

from attrs import frozen

from batchsched.actions.action import has_task_to_place, jobs_by_queue, tasks_to_place
from batchsched.actions.eviction.search import EvictionScope, make_room
from batchsched.actions.placing import place_now_or_later
from batchsched.model.status import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import JobState, QueueState, TaskState

__all__ = ["PreemptAction"]


@frozen
class PreemptAction:
    """Evicts Running tasks for Pending ones of the same queue, and then of the same job."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> PreemptAction:
        """Take no arguments."""
        return cls()

    def execute(self, session: Session, /) -> None:
        """Serve each queue that has something to place, the next queue first."""
        collected = sorted(
            filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING)),
            key=session.job_order_key,
        )
        jobs = jobs_by_queue(collected)
        queues = session.live_queues(jobs)
        while queues:
            queue = queues.pop()
            _between_jobs(session, queue, jobs[queue])
            for job in jobs[queue]:
                _within_job(session, job)


def _between_jobs(session: Session, queue: QueueState, jobs: list[JobState]) -> None:
    left = {job.uid: deque(tasks_to_place(session, job)) for job in jobs}
    waiting = session.live_jobs(jobs)
    while waiting:
        job = waiting.pop()
        with session.statement() as statement:
            placed = _take_turn(session, statement, queue, job, left[job.uid])
            if not session.job_pipelined(job):
                continue
            statement.commit()
        if placed:
            waiting.push(job)


def _take_turn(
    session: Session,
    statement: Statement,
    queue: QueueState,
    job: JobState,
    tasks: deque[TaskState],
) -> bool:
    placed = False
    while tasks:
        task = tasks.popleft()
        may_use_idle = not session.overused(queue)
        if not may_use_idle:
            session.queues_overused.add(queue.name)
        if (may_use_idle and place_now_or_later(session, statement, task)) or make_room(
            session,
            statement,
            task,
            scope=EvictionScope.OTHER_JOBS,
            may_use_idle=may_use_idle,
        ):
            placed = True
        else:
            session.record_failure(task)
        if session.job_pipelined(job):
            break
    return placed


def _within_job(session: Session, job: JobState) -> None:
    for task in tasks_to_place(session, job):
        with session.statement() as statement:
            if not make_room(
                session,
                statement,
                task,
                scope=EvictionScope.SAME_JOB,
                may_use_idle=False,
            ):
                session.record_failure(task)
                return
            statement.commit()
