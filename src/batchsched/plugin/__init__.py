"""The API for authors of plugins: the extension points and the types that they use.

A plugin is configuration plus a method `open` that returns an object for one cycle. That
object implements any combination of the extension points: it has the methods of the protocols
here. It is discarded after the cycle, so that no state leaks into the next one.
"""

from batchsched.plugin.changes import Changes, Resumes
from batchsched.plugin.claims import Claim, ClaimStage, ClaimTerms, Shortage
from batchsched.plugin.extension_points import (
    Allocatable,
    AllocateEvents,
    Claims,
    DeallocateEvents,
    Hints,
    JobConditionReady,
    JobOrder,
    JobPipelined,
    JobReady,
    JobsAdmitted,
    JobValid,
    NeedOrder,
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
    SessionClose,
    SurplusWeights,
    TaskOrder,
    VerdictReasons,
)
from batchsched.plugin.hints import EvictionHints, NodeKeys, PredicateHints, ScoreHints
from batchsched.plugin.node_functions import NodeScore, Predicate, Reads
from batchsched.plugin.points import ExtensionPoints
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict, Vote
from batchsched.state.change_log import Watch
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.units import EvictionUnit

__all__ = [
    "Allocatable",
    "AllocateEvents",
    "Changes",
    "Claim",
    "ClaimStage",
    "ClaimTerms",
    "Claims",
    "DeallocateEvents",
    "EvictionHints",
    "EvictionUnit",
    "ExtensionPoints",
    "Hints",
    "JobConditionReady",
    "JobOrder",
    "JobPipelined",
    "JobReady",
    "JobState",
    "JobValid",
    "JobsAdmitted",
    "Need",
    "NeedOrder",
    "NodeKeys",
    "NodeOrder",
    "NodeOrderOnResource",
    "NodeScore",
    "NodeState",
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
    "Verdict",
    "VerdictReasons",
    "Vote",
    "Watch",
]
