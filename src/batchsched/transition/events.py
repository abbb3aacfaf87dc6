"""What can happen to a cluster: one frozen class for each event.

An event says what happened, not what to do about it. `batchsched.live.Cluster.apply` and
`batchsched.next_snapshot` take events; what each makes of a cluster is told in one place,
`batchsched.transition.content`.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.immutable import kept_tuple

__all__ = [
    "BindRefused",
    "EndedJobsRemoved",
    "Event",
    "EvictionRefused",
    "JobArrived",
    "JobChanged",
    "JobRemoved",
    "NodeAdded",
    "NodeChanged",
    "NodeRemoved",
    "OtherTaskArrived",
    "QueueAdded",
    "QueueChanged",
    "QueueRemoved",
    "TaskFailed",
    "TaskGone",
    "TaskReleasing",
    "TaskRemoved",
    "TaskStarted",
    "TaskSucceeded",
    "TasksAdded",
    "TimePassed",
]


@frozen
class TimePassed:
    """It is `now`, in seconds; never before the last time."""

    now: float


# Jobs


@frozen
class JobArrived:
    """A job came, with its tasks, whatever their statuses."""

    job: JobInfo


@frozen
class JobChanged:
    """A job has another priority, queue, minimum or maximum; None: as before.

    Its tasks and their groups stay as they are.
    """

    uid: str
    priority: int | None = field(default=None, kw_only=True)
    queue: str | None = field(default=None, kw_only=True)
    min_available: int | None = field(default=None, kw_only=True)
    max_available: int | None = field(default=None, kw_only=True)


@frozen
class JobRemoved:
    """A job is there no more, with all its tasks."""

    uid: str


@frozen
class EndedJobsRemoved:
    """All jobs that have tasks, all of which Succeeded or Failed, are there no more."""


def _tasks(items: Iterable[TaskInfo], /) -> tuple[TaskInfo, ...]:
    return kept_tuple(items)


@frozen
class TasksAdded:
    """A job has more tasks."""

    job_uid: str
    tasks: tuple[TaskInfo, ...] = field(converter=_tasks)


# Tasks


@frozen
class OtherTaskArrived:
    """A task came that is not this scheduler's business: it only occupies its node."""

    task: TaskInfo


@frozen
class TaskStarted:
    """A task that was Binding or Bound runs."""

    uid: str


@frozen
class BindRefused:
    """A task that was Binding or Bound could not be started: it waits again, on no node."""

    uid: str


@frozen
class TaskSucceeded:
    """A task that was on a node ended well."""

    uid: str


@frozen
class TaskFailed:
    """A task that was on a node ended badly, and is not made anew."""

    uid: str


@frozen
class TaskReleasing:
    """A task that was on a node is going away, because somebody else said so."""

    uid: str


@frozen
class EvictionRefused:
    """A task that was Releasing goes on running."""

    uid: str


@frozen
class TaskGone:
    """A task left its node without having ended: its eviction is done, or it was deleted.

    Its controller makes it anew: it waits again, under the same UID. A task of no job just goes.
    """

    uid: str


@frozen
class TaskRemoved:
    """A task is there no more, whatever its status, and nothing replaces it."""

    uid: str


# Nodes and queues


@frozen
class NodeAdded:
    """A node came."""

    node: NodeInfo


@frozen
class NodeChanged:
    """A node is described anew: labels, taints, conditions, what it has, or whether it is open."""

    node: NodeInfo


@frozen
class NodeRemoved:
    """A node is there no more. What held resources there must have ended or gone."""

    name: str


@frozen
class QueueAdded:
    """A queue came; jobs that name it may have been there before."""

    queue: Queue


@frozen
class QueueChanged:
    """A queue is described anew."""

    queue: Queue


@frozen
class QueueRemoved:
    """A queue is there no more. Jobs that name it stay, and are left out of cycles."""

    name: str


Event = (
    TimePassed
    | JobArrived
    | JobChanged
    | JobRemoved
    | EndedJobsRemoved
    | TasksAdded
    | OtherTaskArrived
    | TaskStarted
    | BindRefused
    | TaskSucceeded
    | TaskFailed
    | TaskReleasing
    | EvictionRefused
    | TaskGone
    | TaskRemoved
    | NodeAdded
    | NodeChanged
    | NodeRemoved
    | QueueAdded
    | QueueChanged
    | QueueRemoved
)
"""Anything that can happen to a cluster."""
