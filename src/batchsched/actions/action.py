"""What an action is, and what actions share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from batchsched.model.status import TaskStatus
from batchsched.session.session import Session
from batchsched.state.records import JobState, QueueState, TaskState

__all__ = ["Action", "EvictsToCure", "has_task_to_place", "jobs_by_queue", "tasks_to_place"]


@runtime_checkable
class Action(Protocol):
    """A configured action. It holds its arguments and no state of any cycle."""

    def execute(self, session: Session, /) -> None:
        """Act on the session. Called once each time the action stands in the configuration."""
        ...


@runtime_checkable
class EvictsToCure(Action, Protocol):
    """An action that may promise nodes which accept the task only once others have left.

    Where such an action is configured, required anti-affinity counts tasks that a node is promised
    to like those that run there, so that nobody comes meanwhile who would keep them from starting.
    """

    @property
    def evicts_to_cure(self) -> bool:
        """Whether it does so, with the arguments that it has."""
        ...


def tasks_to_place(session: Session, job: JobState) -> list[TaskState]:
    """Return the job's Pending tasks that ask for something, in task order."""
    pending = [t for t in job.tasks if t.status is TaskStatus.PENDING and not t.is_best_effort]
    return session.in_task_order(pending) if len(pending) > 1 else pending


def jobs_by_queue(jobs: Iterable[JobState]) -> dict[QueueState, list[JobState]]:
    """Return `jobs`, in the order given, by queue."""
    by_queue: dict[QueueState, list[JobState]] = {}
    for job in jobs:
        assert job.queue is not None
        by_queue.setdefault(job.queue, []).append(job)
    return by_queue


def has_task_to_place(job: JobState) -> bool:
    """Return whether the job has a Pending task that asks for something."""
    return bool(job.count(TaskStatus.PENDING)) and any(
        task.status is TaskStatus.PENDING and not task.is_best_effort for task in job.tasks
    )
