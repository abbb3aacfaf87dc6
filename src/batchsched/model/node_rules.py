"""Rules on a node's description, whatever runs there."""

from __future__ import annotations

from batchsched.model.cluster import NodeInfo, TaskInfo
from batchsched.model.constraints.taints import untolerated
from batchsched.model.reasons import UnfitReason

__all__ = ["accepts_by_description", "has_what_is_selected", "out_of_service", "tolerates"]


def out_of_service(node: NodeInfo) -> UnfitReason | None:
    """Return why a node accepts no tasks at all at present; None: it is in service."""
    if node.conditions.get("Ready", "True") != "True":
        return UnfitReason.NODE_NOT_READY
    if node.conditions.get("NetworkUnavailable", "False") != "False":
        return UnfitReason.NETWORK_UNAVAILABLE
    return UnfitReason.NODE_UNSCHEDULABLE if node.unschedulable else None


def has_what_is_selected(node: NodeInfo, task: TaskInfo) -> bool:
    """Return whether a node has what a task's selector and node affinity require."""
    labels = node.labels
    for key, value in task.node_selector.items():
        if labels.get(key) != value:
            return False
    affinity = task.node_affinity
    return affinity is None or affinity.accepts(labels, node.name)


def tolerates(task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether a task tolerates the NoSchedule and NoExecute taints of a node."""
    return not node.taints or untolerated(node.taints, task.tolerations) is None


def accepts_by_description(node: NodeInfo, task: TaskInfo) -> bool:
    """Return whether the labels and taints of a node accept a task."""
    return has_what_is_selected(node, task) and tolerates(task, node)
