"""A live cluster: events change it, and the cost of a cycle depends on what has changed.

`Cluster` is the mutable counterpart of `batchsched.Snapshot`, and just as deterministic: it is in
memory, has no input or output, and its time advances only by `TimePassed`.
"""

from typing import TYPE_CHECKING

from batchsched.live.attached import AttachedScheduler

if TYPE_CHECKING:
    from batchsched.live.cluster import Cluster
    from batchsched.live.reconciler import (
        Correction,
        CorrectionKind,
        Deleted,
        InFlight,
        Reconciler,
        Seen,
    )
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
else:
    # Imported when first used: every scheduler loads this package, and few have a live cluster.
    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "Cluster":
            from batchsched.live.cluster import Cluster  # noqa: PLC0415

            return Cluster
        if name in _OF_RECONCILER:
            from batchsched.live import reconciler  # noqa: PLC0415

            return getattr(reconciler, name)
        from batchsched.transition import events  # noqa: PLC0415

        return getattr(events, name)

    def __dir__() -> list[str]:
        return sorted(__all__)


_OF_RECONCILER = ("Correction", "CorrectionKind", "Deleted", "InFlight", "Reconciler", "Seen")

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
