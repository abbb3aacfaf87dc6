"""Scheduling constraints as typed values, with matching.

The matching rules are those of Kubernetes. The values are not validated here: a
`batchsched.Snapshot` validates all of its constraints at once when it is created.
"""

from batchsched.model.constraints.node_affinity import (
    NodeAffinity,
    NodeSelectorTerm,
    PreferredNodeTerm,
)
from batchsched.model.constraints.pod_affinity import PodAffinity, PodAffinityTerm, WeightedPodTerm
from batchsched.model.constraints.ports import HostPort
from batchsched.model.constraints.selectors import LabelSelector, Operator, Requirement
from batchsched.model.constraints.taints import Taint, TaintEffect, Toleration, TolerationOperator

__all__ = [
    "HostPort",
    "LabelSelector",
    "NodeAffinity",
    "NodeSelectorTerm",
    "Operator",
    "PodAffinity",
    "PodAffinityTerm",
    "PreferredNodeTerm",
    "Requirement",
    "Taint",
    "TaintEffect",
    "Toleration",
    "TolerationOperator",
    "WeightedPodTerm",
]
