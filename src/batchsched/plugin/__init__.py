"""The API for authors of plugins: the extension points and the types that they use.

A plugin is configuration plus a method `open` that returns an object for one cycle. That
object implements any combination of the extension points: it has the methods of the protocols
here. It is discarded after the cycle, so that no state leaks into the next one.
"""

import batchsched.plugin as _itself
from batchsched.model.described import describe
from batchsched.plugin.extension_points import (
    Allocatable,
    AllocateEvents,
    Changes,
    Choices,
    Claim,
    Claims,
    ClaimStage,
    ClaimTerms,
    DeallocateEvents,
    ExtensionPoints,
    Hints,
    JobConditionReady,
    JobOrder,
    JobPipelined,
    JobReady,
    JobsAdmitted,
    JobValid,
    Lack,
    MostAllocatable,
    NeedOrder,
    NodeKey,
    NodeOrder,
    NodeOrderOnResource,
    Overused,
    PastUse,
    Plugin,
    Predicates,
    Preemptable,
    QueueOrder,
    QueueOrderByNeed,
    QueueReport,
    QueueShares,
    Reclaimable,
    Resumes,
    SessionClose,
    Shortage,
    SurplusWeights,
    TaskOrder,
    Verdict,
    VerdictReasons,
    Vote,
)
from batchsched.plugin.hints import (
    EvictionHints,
    NodeArrays,
    NodeKeys,
    Numbers,
    PredicateHints,
    ScoreHints,
)
from batchsched.plugin.node_functions import NodeScore, Predicate, Reads
from batchsched.plugin.session_view import SessionView
from batchsched.state.memory import Watch
from batchsched.state.needs import Need
from batchsched.state.records import Fit, JobState, NodeState, QueueState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Dimensions, Vector

__all__ = [
    "Allocatable",
    "AllocateEvents",
    "Changes",
    "Choices",
    "Claim",
    "ClaimStage",
    "ClaimTerms",
    "Claims",
    "DeallocateEvents",
    "Dimensions",
    "EvictionHints",
    "EvictionUnit",
    "ExtensionPoints",
    "Fit",
    "Hints",
    "JobConditionReady",
    "JobOrder",
    "JobPipelined",
    "JobReady",
    "JobState",
    "JobValid",
    "JobsAdmitted",
    "Lack",
    "MostAllocatable",
    "Need",
    "NeedOrder",
    "NodeArrays",
    "NodeKey",
    "NodeKeys",
    "NodeOrder",
    "NodeOrderOnResource",
    "NodeScore",
    "NodeState",
    "Numbers",
    "Overused",
    "PastUse",
    "Plugin",
    "Predicate",
    "PredicateHints",
    "Predicates",
    "Preemptable",
    "QueueOrder",
    "QueueOrderByNeed",
    "QueueReport",
    "QueueShares",
    "QueueState",
    "Reads",
    "Reclaimable",
    "Resumes",
    "ScoreHints",
    "SessionClose",
    "SessionView",
    "Shortage",
    "SurplusWeights",
    "TaskOrder",
    "TaskState",
    "Vector",
    "Verdict",
    "VerdictReasons",
    "Vote",
    "Watch",
]

_names = _itself.__dict__
describe(*(each for name in __all__ if isinstance(each := _names.get(name), type)))
