"""A live cluster: events change it, and the cost of a cycle depends on what has changed.

`Cluster` is the mutable counterpart of `batchsched.Snapshot`, and just as deterministic: it is in
memory, has no input or output, and its time advances only by `TimePassed`.
"""

from batchsched.live.attached import AttachedScheduler
from batchsched.live.cluster import Cluster
from batchsched.live.reconciler import Reconciler
from batchsched.live.seen import (
    Correction,
    CorrectionKind,
    Deleted,
    HeldDevices,
    InFlight,
    Seen,
)
from batchsched.model.texts import describe_exports
from batchsched.transition.events import (
    NO_LIMIT,
    BindRefused,
    BudgetsChanged,
    DevicesChanged,
    EndedJobsRemoved,
    Event,
    EvictionRefused,
    JobArrived,
    JobChanged,
    JobEnded,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    NoLimit,
    OtherTaskArrived,
    QueueAdded,
    QueueChanged,
    QueueRemoved,
    TaskChanged,
    TaskFailed,
    TaskFound,
    TaskGone,
    TaskHoldsChanged,
    TaskReleasing,
    TaskRemoved,
    TasksAdded,
    TaskStarted,
    TaskSucceeded,
    TimePassed,
    TopologiesChanged,
)

__all__ = [
    "NO_LIMIT",
    "AttachedScheduler",
    "BindRefused",
    "BudgetsChanged",
    "Cluster",
    "Correction",
    "CorrectionKind",
    "Deleted",
    "DevicesChanged",
    "EndedJobsRemoved",
    "Event",
    "EvictionRefused",
    "HeldDevices",
    "InFlight",
    "JobArrived",
    "JobChanged",
    "JobEnded",
    "JobRemoved",
    "NoLimit",
    "NodeAdded",
    "NodeChanged",
    "NodeRemoved",
    "OtherTaskArrived",
    "QueueAdded",
    "QueueChanged",
    "QueueRemoved",
    "Reconciler",
    "Seen",
    "TaskChanged",
    "TaskFailed",
    "TaskFound",
    "TaskGone",
    "TaskHoldsChanged",
    "TaskReleasing",
    "TaskRemoved",
    "TaskStarted",
    "TaskSucceeded",
    "TasksAdded",
    "TimePassed",
    "TopologiesChanged",
]

describe_exports(__name__)
