"""Build nodes from drawn bytes."""

from __future__ import annotations

from attrs import evolve

from batchsched.model.cluster import NodeInfo
from batchsched.testing.drafts.features import HIGHEST, Features
from batchsched.testing.drafts.pools import NODE_LABELS, NODE_SIZES, TROUBLES, with_devices

__all__ = ["NodeDraft", "build_node", "shrunk"]

NodeDraft = bytes
"""Labels and size, devices and trouble."""

_SHRINKS_ONE_IN = 7
"""Three of this many nodes have lost resources, if nodes may be overcommitted."""


def build_node(draft: NodeDraft, name: str, features: Features) -> NodeInfo:
    """Return the node that a draft describes."""
    labels, size = divmod(draft[0], 16)
    devices, trouble = divmod(draft[1], 16)
    allocatable = NODE_SIZES[size % len(NODE_SIZES)]
    if features.scalars:
        allocatable = with_devices(allocatable, (0, 2, 1, 4)[devices % 4], int(devices % 3 == 2))
    wrong = TROUBLES[trouble % len(TROUBLES)] if features.constraints else TROUBLES[0]
    named: dict[str, str] = {}
    if features.constraints or features.affinity:
        named.update(NODE_LABELS[labels % len(NODE_LABELS)])
    if features.affinity and labels < HIGHEST:
        named["host"] = name
    return NodeInfo(
        name=name,
        allocatable=allocatable,
        max_tasks=wrong.max_tasks,
        labels=named,
        taints=wrong.taints,
        unschedulable=wrong.unschedulable,
        conditions=wrong.conditions,
    )


def shrunk(node: NodeInfo, draft: NodeDraft) -> NodeInfo:
    """Return a node, possibly with fewer resources than when its tasks were placed there."""
    there = node.allocatable
    match (draft[0] + draft[1]) % _SHRINKS_ONE_IN:
        case 1:
            left = evolve(there, milli_cpu=there.milli_cpu // 2)
        case 2:
            left = evolve(there, memory=there.memory // 2)
        case 3:
            left = evolve(there, scalars={})
        case _:
            return node
    return evolve(node, allocatable=left)
