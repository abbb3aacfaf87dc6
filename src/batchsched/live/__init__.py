"""A live cluster: events change it, and the cost of a cycle depends on what has changed.

`Cluster` is the mutable counterpart of `batchsched.Snapshot`, and just as deterministic: it is in
memory, has no input or output, and its time advances only by `TimePassed`.
"""

from batchsched.live.attached import AttachedScheduler
from batchsched.live.cluster import Cluster
from batchsched.transition.events import (
    BindRefused,
    EndedJobsRemoved,
    Event,
    EvictionRefused,
    JobArrived,
    JobChanged,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    OtherTaskArrived,
    QueueAdded,
    QueueChanged,
    QueueRemoved,
    TaskFailed,
    TaskGone,
    TaskReleasing,
    TaskRemoved,
    TasksAdded,
    TaskStarted,
    TaskSucceeded,
    TimePassed,
)

__all__ = [
    "AttachedScheduler",
    "BindRefused",
    "Cluster",
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
