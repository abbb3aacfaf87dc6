"""Batch scheduling algorithms: gangs, queues, fairness, preemption, reclaim, backfill.

A cluster's state goes in as a frozen `Snapshot`; `schedule` returns a
`CycleResult`: what to bind, what to evict, and why other tasks stay pending.
There is no I/O, no clock and no randomness: the same snapshot always gives the
same result.
"""

from typing import TYPE_CHECKING

from batchsched.actions.action import Action
from batchsched.causes import ConditionReason, HoldKind, UnfitReason, WhyPending
from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.registry import Registry, default_registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import (
    ActionError,
    ArgumentError,
    BatchschedError,
    ConfigError,
    EventError,
    Fault,
    FaultsError,
    FormatError,
    InvariantError,
    KubernetesObjectError,
    PluginError,
    QuantityError,
    RegistryError,
    ResourceError,
    SerialisationError,
    SnapshotError,
    StatementError,
    UnknownNameError,
)
from batchsched.model.cluster import (
    Budget,
    Dependency,
    Hold,
    JobEvent,
    JobInfo,
    JobPhase,
    NodeInfo,
    PastEviction,
    Plan,
    Preemptible,
    Queue,
    QueueStatus,
    ScoringRequest,
    TaskGroup,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
)
from batchsched.model.described import describe_exports
from batchsched.model.notice import Notice, NoticeCode
from batchsched.model.reasons import (
    EvictionReport,
    JobCondition,
    MemberCount,
    NodeTally,
    NoDomain,
    PendingReason,
    PlacementFailure,
    PlannedWait,
    QueueExcess,
    QueueShare,
    Refusal,
    Unfit,
)
from batchsched.model.resources import EPSILON, Resource, ResourceLimit, decayed, sum_resources
from batchsched.model.result import (
    Bind,
    CycleResult,
    DroppedPromise,
    Eviction,
    JobOutcome,
    Move,
    Promise,
    QueueOutcome,
    QueueOutcomes,
    TakenBack,
    TaskOutcome,
)
from batchsched.model.snapshot import Snapshot
from batchsched.model.topology import Domain, Segment, Topology, TopologyRequest
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Plugin
from batchsched.scheduler import Scheduler, schedule
from batchsched.session.session import Session
from batchsched.session.statements import Statement

if TYPE_CHECKING:
    from batchsched.tools import cheapest, check_config, compare, explain, shrink, what_if
    from batchsched.transition.decisions import reservations_to_keep
    from batchsched.transition.event_rules import as_new
    from batchsched.transition.next_snapshot import next_snapshot
else:
    # Imported when first used: a cycle needs neither operators' tools nor transitions.
    _TOOLS = ("cheapest", "check_config", "compare", "explain", "shrink", "what_if")

    def __getattr__(name: str) -> object:
        if name == "tools" or name in _TOOLS:
            import batchsched.tools  # noqa: PLC0415

            return batchsched.tools if name == "tools" else getattr(batchsched.tools, name)
        if name == "as_new":
            from batchsched.transition.event_rules import as_new  # noqa: PLC0415

            return as_new
        if name == "next_snapshot":
            from batchsched.transition.next_snapshot import next_snapshot  # noqa: PLC0415

            return next_snapshot
        if name == "reservations_to_keep":
            from batchsched.transition.decisions import reservations_to_keep  # noqa: PLC0415

            return reservations_to_keep
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted([*__all__, "__version__"])


__version__ = "0.2.0"

__all__ = [
    "EPSILON",
    "Action",
    "ActionError",
    "ActionOption",
    "ArgumentError",
    "Arguments",
    "BatchschedError",
    "Bind",
    "Budget",
    "ConditionReason",
    "ConfigError",
    "CycleResult",
    "Dependency",
    "Domain",
    "DroppedPromise",
    "EventError",
    "Eviction",
    "EvictionReport",
    "Fault",
    "FaultsError",
    "FormatError",
    "Hold",
    "HoldKind",
    "HostPort",
    "InvariantError",
    "JobCondition",
    "JobEvent",
    "JobInfo",
    "JobOutcome",
    "JobPhase",
    "KubernetesObjectError",
    "LabelSelector",
    "MemberCount",
    "Move",
    "NoDomain",
    "NodeAffinity",
    "NodeInfo",
    "NodeSelectorTerm",
    "NodeTally",
    "Notice",
    "NoticeCode",
    "Operator",
    "PastEviction",
    "PendingReason",
    "PlacementFailure",
    "Plan",
    "PlannedWait",
    "Plugin",
    "PluginError",
    "PluginOption",
    "PodAffinity",
    "PodAffinityTerm",
    "Preemptible",
    "PreferredNodeTerm",
    "Promise",
    "QuantityError",
    "Queue",
    "QueueExcess",
    "QueueOutcome",
    "QueueOutcomes",
    "QueueShare",
    "QueueStatus",
    "Refusal",
    "Registry",
    "RegistryError",
    "Requirement",
    "Resource",
    "ResourceError",
    "ResourceLimit",
    "Scheduler",
    "SchedulerConfig",
    "ScoringRequest",
    "Segment",
    "SerialisationError",
    "Session",
    "Snapshot",
    "SnapshotError",
    "Statement",
    "StatementError",
    "Taint",
    "TaintEffect",
    "TakenBack",
    "TaskGroup",
    "TaskInfo",
    "TaskOutcome",
    "TaskStatus",
    "Tier",
    "Toleration",
    "TolerationOperator",
    "Topology",
    "TopologyRequest",
    "Unfit",
    "UnfitReason",
    "UnknownNameError",
    "WeightedPodTerm",
    "WhyPending",
    "as_new",
    "cheapest",
    "check_config",
    "compare",
    "decayed",
    "default_registry",
    "explain",
    "next_snapshot",
    "reservations_to_keep",
    "schedule",
    "shrink",
    "sum_resources",
    "what_if",
]

describe_exports(__name__)
