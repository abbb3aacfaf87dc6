"""Task statuses and their properties.

Properties are attributes of the status, so that they are defined
in one place: ``task.status.occupies``.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["JobPhase", "QueueStatus", "TaskStatus"]


class TaskStatus(Enum):
    """The status of a task.

    >>> TaskStatus.RUNNING.occupies, TaskStatus.RELEASING.occupies, TaskStatus.RELEASING.holds
    (True, False, True)
    >>> TaskStatus("Pending")
    <TaskStatus.PENDING: 'Pending'>
    """

    PENDING = "Pending"
    """Waits for a node."""
    ALLOCATED = "Allocated"
    """Placed in this session and not yet bound; exists only inside a session."""
    PIPELINED = "Pipelined"
    """Promised resources on its node that are being released."""
    CONDITIONAL = "Conditional"
    """Promised resources on its node that backfill tasks hold; exists only inside a session."""
    RESERVED = "Reserved"
    """Pending, with a node that is reserved for it; holds no resources."""
    BINDING = "Binding"
    """To be bound to its node; the cluster has not confirmed it yet."""
    BOUND = "Bound"
    """Bound to its node and not yet started."""
    RUNNING = "Running"
    """Runs on its node."""
    RELEASING = "Releasing"
    """Terminating; still holds its resources."""
    SUCCEEDED = "Succeeded"
    """Ended successfully; on no node."""
    FAILED = "Failed"
    """Ended with a failure; on no node."""
    UNKNOWN = "Unknown"
    """In an unknown state; holds its resources, but does not count towards its job."""

    index: int
    """The position of the status in this list, an index for tables."""
    occupies: bool
    """Whether it holds resources and counts towards its job's readiness."""
    holds: bool
    """Whether it holds resources on its node."""
    charged: bool
    """Whether plugins that compute shares charge it to its job and queue."""
    ready: int
    """1 if it counts as *ready* for its job, else 0."""
    waiting: int
    """1 if it counts as *waiting* for its job, else 0."""
    conditionally_ready: int
    """1 if it counts towards conditional readiness, else 0."""
    valid: int
    """1 if it counts towards the job's validity, else 0."""
    in_snapshot: bool
    """Whether a task in a snapshot may have it."""

    def __init__(self, value: str) -> None:
        active = value in ("Allocated", "Binding", "Bound", "Running")
        self.index = len(type(self).__members__)
        self.occupies = active
        self.holds = active or value in ("Releasing", "Unknown")
        self.charged = active or value in ("Pipelined", "Conditional")
        self.ready = int(active or value == "Succeeded")
        self.waiting = int(value == "Pipelined")
        self.conditionally_ready = int(
            active or value in ("Succeeded", "Pipelined", "Conditional", "Reserved")
        )
        self.valid = int(self.conditionally_ready or value == "Pending")
        self.in_snapshot = value not in ("Allocated", "Conditional")


class JobPhase(Enum):
    """The phase of a job at the end of a cycle."""

    PENDING = "Pending"
    """Fewer of its tasks hold resources than it needs."""
    RUNNING = "Running"
    """Enough of its tasks hold resources."""
    UNKNOWN = "Unknown"
    """Some of its tasks run, but it could not be scheduled as a whole in this cycle."""
    COMPLETED = "Completed"
    """All of its tasks have Succeeded. Volcano's PodGroups have this phase; those of kube-batch
    do not, and stay Pending, or Running if they need no tasks."""


class QueueStatus(Enum):
    """Whether tasks may start in a queue. A state also applies to all queues below."""

    OPEN = "open"
    """Tasks may start."""
    CLOSED = "closed"
    """No new tasks start; running tasks continue."""
    DRAINING = "draining"
    """No new tasks start, and only its guarantee protects the tasks that still run."""
