"""Batch scheduling algorithms: gangs, queues, fairness, preemption, reclaim, backfill.

A cluster's state goes in as a frozen `Snapshot`; `schedule` gives back a
`CycleResult` with what to bind and what to evict, and why the rest waits.
There is no I/O, no clock and no randomness: the same snapshot always gives the
same result.
"""

from batchsched.actions.action import Action
from batchsched.arguments import Arguments
from batchsched.carry_over import as_new, next_snapshot
from batchsched.config import ActionOption, PluginOption, SchedulerConfig, Tier
from batchsched.constraints import (
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
from batchsched.defaults import default_registry
from batchsched.errors import (
    ActionError,
    BatchschedError,
    ConfigError,
    EventError,
    Fault,
    FaultsError,
    InvariantError,
    KubernetesObjectError,
    PluginError,
    QuantityError,
    RegistryError,
    ResourceError,
    SnapshotError,
    StatementError,
    UnknownNameError,
)
from batchsched.keeping import reservations_to_keep
from batchsched.model import JobInfo, NodeInfo, Queue, ScoringRequest, TaskInfo
from batchsched.reasons import (
    ConditionReason,
    JobCondition,
    NodeTally,
    PendingReason,
    Unfit,
    UnfitReason,
    WhyPending,
)
from batchsched.registry import Registry
from batchsched.resources import EPSILON, Resource, sum_resources
from batchsched.result import Bind, CycleResult, Eviction, JobOutcome, Promise, TaskOutcome
from batchsched.scheduler import Scheduler, schedule
from batchsched.session import Session
from batchsched.snapshot import Snapshot
from batchsched.statement import Statement
from batchsched.status import JobPhase, TaskStatus

__version__ = "0.1.0"

__all__ = [
    "EPSILON",
    "Action",
    "ActionError",
    "ActionOption",
    "Arguments",
    "BatchschedError",
    "Bind",
    "ConditionReason",
    "ConfigError",
    "CycleResult",
    "EventError",
    "Eviction",
    "Fault",
    "FaultsError",
    "HostPort",
    "InvariantError",
    "JobCondition",
    "JobInfo",
    "JobOutcome",
    "JobPhase",
    "KubernetesObjectError",
    "LabelSelector",
    "NodeAffinity",
    "NodeInfo",
    "NodeSelectorTerm",
    "NodeTally",
    "Operator",
    "PendingReason",
    "PluginError",
    "PluginOption",
    "PodAffinity",
    "PodAffinityTerm",
    "PreferredNodeTerm",
    "Promise",
    "QuantityError",
    "Queue",
    "Registry",
    "RegistryError",
    "Requirement",
    "Resource",
    "ResourceError",
    "Scheduler",
    "SchedulerConfig",
    "ScoringRequest",
    "Session",
    "Snapshot",
    "SnapshotError",
    "Statement",
    "StatementError",
    "Taint",
    "TaintEffect",
    "TaskInfo",
    "TaskOutcome",
    "TaskStatus",
    "Tier",
    "Toleration",
    "TolerationOperator",
    "Unfit",
    "UnfitReason",
    "UnknownNameError",
    "WeightedPodTerm",
    "WhyPending",
    "as_new",
    "default_registry",
    "next_snapshot",
    "reservations_to_keep",
    "schedule",
    "sum_resources",
]
