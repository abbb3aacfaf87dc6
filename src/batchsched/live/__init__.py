"""A live cluster: events change it, and the cost of a cycle depends on what has changed.

`Cluster` is the mutable counterpart of `batchsched.Snapshot`, and just as deterministic: it is in
memory, has no input or output, and its time advances only by `TimePassed`.
"""

from typing import TYPE_CHECKING

from batchsched.live.attached import AttachedScheduler

if TYPE_CHECKING:
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
        if name == "Reconciler":
            from batchsched.live.reconciler import Reconciler  # noqa: PLC0415

            return Reconciler
        if name in _SEEN:
            from batchsched.live import seen  # noqa: PLC0415

            return getattr(seen, name)
        from batchsched.transition import events  # noqa: PLC0415

        return getattr(events, name)

    def __dir__() -> list[str]:
        return sorted(__all__)


_SEEN = ("Correction", "CorrectionKind", "Deleted", "HeldDevices", "InFlight", "Seen")

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
