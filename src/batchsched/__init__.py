"""Batch scheduling algorithms: gangs, queues, fairness, preemption, reclaim, backfill.

A cluster's state goes in as a frozen `Snapshot`; `schedule` returns a
`CycleResult`: what to bind, what to evict, and why other tasks stay pending.
There is no I/O, no clock and no randomness: the same snapshot always gives the
same result.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from batchsched.causes import ConditionReason, HoldKind, UnfitReason, WhyPending
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
from batchsched.model.texts import describe, describe_exports
from batchsched.model.topology import Domain, Segment, Topology, TopologyRequest

if TYPE_CHECKING:
    from batchsched.actions.action import Action
    from batchsched.config.options import ActionOption, PluginOption, Tier
    from batchsched.config.registry import Registry, default_registry
    from batchsched.config.scheduler_config import SchedulerConfig
    from batchsched.plugin.arguments import Arguments
    from batchsched.plugin.extension_points import Plugin
    from batchsched.scheduler import Scheduler, schedule
    from batchsched.session.session import Session
    from batchsched.session.statements import Statement
    from batchsched.tools import cheapest, check_config, compare, explain, shrink, what_if
    from batchsched.transition.decisions import reservations_to_keep
    from batchsched.transition.next_snapshot import next_snapshot
    from batchsched.transition.rules import as_new
else:
    # Imported when first used: who reads or makes data needs no scheduler, and a scheduler needs
    # neither operators' tools nor transitions.
    _MODULES = ("action", "devices", "kubernetes", "live", "plugin", "simulation", "tools", "trace")
    _LATER = {
        "Action": "batchsched.actions.action",
        "ActionOption": "batchsched.config.options",
        "PluginOption": "batchsched.config.options",
        "Tier": "batchsched.config.options",
        "Registry": "batchsched.config.registry",
        "default_registry": "batchsched.config.registry",
        "SchedulerConfig": "batchsched.config.scheduler_config",
        "Arguments": "batchsched.plugin.arguments",
        "Plugin": "batchsched.plugin.extension_points",
        "Scheduler": "batchsched.scheduler",
        "schedule": "batchsched.scheduler",
        "Session": "batchsched.session.session",
        "Statement": "batchsched.session.statements",
        "cheapest": "batchsched.tools",
        "check_config": "batchsched.tools",
        "compare": "batchsched.tools",
        "explain": "batchsched.tools",
        "shrink": "batchsched.tools",
        "what_if": "batchsched.tools",
        "reservations_to_keep": "batchsched.transition.decisions",
        "as_new": "batchsched.transition.rules",
        "next_snapshot": "batchsched.transition.next_snapshot",
    }

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return import_module(f"batchsched.{name}")
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_LATER[name]), name)
        if isinstance(found, type):
            describe(found)
        return found

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
