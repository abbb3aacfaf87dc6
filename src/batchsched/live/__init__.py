"""A cluster that lives: events change it, and a cycle on it costs what has changed.

`Cluster` is the living counterpart of `batchsched.Snapshot`. It is as deterministic as that: in
memory, without input or output, and its time is what `TimePassed` says.
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
