"""The protocol of actions, and helpers that several actions share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from batchsched.model.cluster import TaskStatus
from batchsched.session.session import Session
from batchsched.state.records import JobState, QueueState, TaskState

__all__ = ["Action", "EvictsToCure", "has_task_to_place", "jobs_by_queue", "tasks_to_place"]


@runtime_checkable
class Action(Protocol):
    """A configured action. It holds its arguments, and keeps no state between cycles."""

    def execute(self, session: Session, /) -> None:
        """Act on the session. Called once for each time the configuration lists the action."""
        ...


@runtime_checkable
class EvictsToCure(Action, Protocol):
    """An action that may pipeline a task to a node which accepts it only once others have left.

    Where such an action is configured, required anti-affinity treats tasks pipelined to a node
    like tasks that run there, so that no other task placed meanwhile keeps them from starting.
    """

    @property
    def evicts_to_cure(self) -> bool:
        """Whether it does so, given its arguments."""
        ...


def tasks_to_place(session: Session, job: JobState) -> list[TaskState]:
    """Return the job's Pending tasks that request any resources, in task order."""
    pending = [t for t in job.tasks if t.status is TaskStatus.PENDING and not t.is_best_effort]
    return session.in_task_order(pending) if len(pending) > 1 else pending


def jobs_by_queue(jobs: Iterable[JobState]) -> dict[QueueState, list[JobState]]:
    """Group `jobs` by queue, keeping their order."""
    by_queue: dict[QueueState, list[JobState]] = {}
    for job in jobs:
        assert job.queue is not None
        by_queue.setdefault(job.queue, []).append(job)
    return by_queue


def has_task_to_place(job: JobState) -> bool:
    """Return whether the job has a Pending task that requests any resources."""
    return bool(job.count(TaskStatus.PENDING)) and any(
        task.status is TaskStatus.PENDING and not task.is_best_effort for task in job.tasks
    )
