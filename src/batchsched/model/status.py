"""Task statuses and what each of them implies.

What a status implies stands on the status itself, so
that there is one place to look it up: ``task.status.occupies``.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["JobPhase", "QueueStatus", "TaskStatus"]


class TaskStatus(Enum):
    """Where a task stands.

    >>> TaskStatus.RUNNING.occupies, TaskStatus.RELEASING.occupies, TaskStatus.RELEASING.holds
    (True, False, True)
    >>> TaskStatus("Pending")
    <TaskStatus.PENDING: 'Pending'>
    """

    PENDING = "Pending"
    """Waits for a node."""
    ALLOCATED = "Allocated"
    """Placed in this session, not bound yet; exists only inside a session."""
    PIPELINED = "Pipelined"
    """Promised resources of its node that are being released."""
    CONDITIONAL = "Conditional"
    """Promised resources that backfill tasks hold now; exists only inside a session."""
    RESERVED = "Reserved"
    """Wants its node, which is closed to others for it, and holds nothing."""
    BINDING = "Binding"
    """Decided to be bound; the cluster has not confirmed it yet."""
    BOUND = "Bound"
    """Bound to its node, not started yet."""
    RUNNING = "Running"
    """Runs on its node."""
    RELEASING = "Releasing"
    """Going away; still holds its resources."""
    SUCCEEDED = "Succeeded"
    """Ended well; is on no node."""
    FAILED = "Failed"
    """Ended badly; is on no node."""
    UNKNOWN = "Unknown"
    """Nothing is known of it; holds its resources and counts for nothing."""

    index: int
    """The position of the status in this list, for tables."""
    occupies: bool
    """Whether it holds resources and counts towards its job's readiness."""
    holds: bool
    """Whether it holds resources of its node."""
    charged: bool
    """Whether share-keeping plugins charge it to its job and queue."""
    ready: int
    """1 if it counts as *ready* for its job, else 0."""
    waiting: int
    """1 if it counts as *waiting* for its job, else 0."""
    conditionally_ready: int
    """1 if it counts towards conditional readiness, else 0."""
    valid: int
    """1 if it counts towards the job's validity, else 0."""
    in_snapshot: bool
    """Whether a snapshot may hold a task with it."""

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
    """How a job stands at the end of a cycle."""

    PENDING = "Pending"
    """Fewer of its tasks hold resources than it needs."""
    RUNNING = "Running"
    """Enough of its tasks hold resources."""
    UNKNOWN = "Unknown"
    """Some of its tasks run, but it could not be scheduled as a whole in this cycle."""
    COMPLETED = "Completed"
    """All of its tasks have Succeeded. Volcano's PodGroups know this phase; kube-batch's, which
    lack it, stay Pending, or Running if they need no tasks."""


class QueueStatus(Enum):
    """Whether a queue takes work. What holds for a queue holds for all queues below it."""

    OPEN = "open"
    """It takes work."""
    CLOSED = "closed"
    """It keeps what runs, and nothing new starts there."""
    DRAINING = "draining"
    """Nothing new starts there, and it has no claim to what still runs beyond its guarantee."""
