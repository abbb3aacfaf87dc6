"""Names in Volcano's configurations that are not supported here, and the consequences.

Names and meanings are taken from Volcano's documentation, up to version 1.12.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from batchsched.model.texts import did_you_mean

__all__ = [
    "consequence_of_action",
    "consequence_of_argument",
    "consequence_of_flag",
    "consequence_of_key",
    "consequence_of_plugin",
    "is_volcano_flag",
]

_NO_POINT = "has no effect: there is no such extension point"

_FLAGS: Mapping[str, str] = {
    "enableHierarchy": "has no effect: shares are not divided along a hierarchy by this flag",
    "enableNamespaceOrder": _NO_POINT,
    "enableBestNode": _NO_POINT,
    "enableJobEnqueued": "has no effect: every job is considered in every cycle",
    "enableJobStarving": "has no effect: every job with pending tasks may preempt",
    "enablePreemptive": _NO_POINT,
    "enableTargetJob": _NO_POINT,
    "enableReservedNodes": _NO_POINT,
    "enabledVictim": _NO_POINT,
    "enabledOverused": "has no effect: the plugin says which queues are overused",
    "enabledAllocatable": "has no effect: the plugin says what queues may take",
    "enableClusterOrder": _NO_POINT,
    "enableHyperNodeOrder": "has no effect: network topology is not considered",
    "enableHyperNodeGradient": "has no effect: network topology is not considered",
    "enableSubJobReady": "has no effect: a job is one gang",
    "enableSubJobPipelined": "has no effect: a job is one gang",
    "enableSubJobOrder": "has no effect: a job is one gang",
}

_ACTIONS: Mapping[str, str] = {
    "enqueue": "does not run: every job is considered in every cycle, none is held back",
    "elect": "does not run: no job is chosen to have nodes reserved for it",
    "shuffle": "does not run: running tasks are not moved to other nodes",
    "gangpreempt": "does not run: preempt evicts whole gangs if gang has atMinimum: whole-job",
    "gangreclaim": "does not run: reclaim evicts whole gangs if gang has atMinimum: whole-job",
}

_NO_LOAD = (
    "left out: the measured load of nodes is not considered; "
    "the plugin usage here is about the past use of queues"
)
_PLUGINS: Mapping[str, str] = {
    "binpack": "left out: nodes are not packed; mostrequested.weight of nodeorder is similar",
    "capacity": "left out: queues have no deserved amounts and no limits",
    "cdp": "left out: tasks may be evicted right after they started",
    "deviceshare": "left out: devices are not shared, and all are alike",
    "extender": "left out: no webhooks are called",
    "network-topology-aware": "left out: network topology is not considered",
    "nodegroup": "left out: queues may use all nodes",
    "numaaware": "left out: nodes are not split by NUMA zone",
    "overcommit": "left out: nothing limits how many jobs are considered",
    "pdb": "left out: disruption budgets do not protect tasks from eviction",
    "rescheduling": "left out: running tasks are not moved to other nodes",
    "resource-strategy-fit": "left out: nodes are not packed by resource",
    "resourcequota": "left out: quotas of namespaces are not considered",
    "sla": "left out: jobs do not gain priority by waiting",
    "task-topology": "left out: tasks are not placed near one another by role",
    "tdm": "left out: all nodes count as permanent",
}

_ARGUMENTS: Mapping[str, str] = {
    "tainttoleration.weight": "left out: taints with the effect PreferNoSchedule do not count",
    "imagelocality.weight": "left out: the images on a node do not count",
    "podtopologyspread.weight": "left out: tasks are not spread over topology domains",
    "selectorspread.weight": "left out: tasks of one service are not spread",
    "predicate.NodeAffinityEnable": "left out: node affinity always counts",
    "predicate.NodePortsEnable": "left out: host ports always count",
    "predicate.TaintTolerationEnable": "left out: taints always count",
    "predicate.PodAffinityEnable": "left out: inter-pod affinity always counts",
    "predicate.NodeVolumeLimitsEnable": "left out: volumes do not count",
    "predicate.VolumeZoneEnable": "left out: volumes do not count",
    "predicate.VolumeBindingEnable": "left out: volumes do not count",
    "predicate.PodTopologySpreadEnable": "left out: tasks are not spread over topology domains",
    "predicate.CacheEnable": "left out: results are always cached, without effect on decisions",
    "predicate.ProportionalEnable": "left out: cpu and memory are not kept free for devices",
    "predicate.GPUSharingEnable": "left out: devices are not shared",
    "predicate.GPUNumberEnable": "left out: devices count as extended resources",
    "enablePredicateErrorCache": "left out: results are always cached",
    "thresholds": _NO_LOAD,
    "usage.weight": _NO_LOAD,
}

_KEYS: Mapping[str, str] = {
    "metrics": "left out: the measured load of nodes is not considered",
}


def is_volcano_flag(name: str, /) -> bool:
    """Return whether this is a flag of Volcano that is not supported here."""
    return name in _FLAGS


def consequence_of_flag(name: str, known: Collection[str]) -> str:
    """Return the consequence of ignoring a flag."""
    return _FLAGS.get(name) or _left_out(name, known)


def consequence_of_action(name: str, known: Collection[str]) -> str:
    """Return the consequence of ignoring an action."""
    return _ACTIONS.get(name) or _left_out(name, known)


def consequence_of_plugin(name: str, known: Collection[str]) -> str:
    """Return the consequence of ignoring a plugin."""
    return _PLUGINS.get(name) or _left_out(name, known)


def consequence_of_argument(name: str, known: Collection[str]) -> str:
    """Return the consequence of ignoring an argument."""
    return _ARGUMENTS.get(name) or _left_out(name, known)


def consequence_of_key(name: str, known: Collection[str]) -> str:
    """Return the consequence of ignoring any other key."""
    return _KEYS.get(name) or _left_out(name, known)


def _left_out(name: str, known: Collection[str]) -> str:
    hint = did_you_mean(name, known)
    return f"left out; {hint}" if hint else "left out"
