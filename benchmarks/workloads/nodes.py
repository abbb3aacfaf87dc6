"""Nodes in a few sizes, as clusters have them after some years."""

from __future__ import annotations

from random import Random

from batchsched import NodeInfo, Resource, Taint, TaintEffect

__all__ = ["DEDICATED", "GIB", "mixed_nodes"]

GIB = 1 << 30
DEDICATED = "dedicated"
"""The key of the taint of nodes that only tasks which tolerate it may use."""

_SIZES = ((16_000, 64 * GIB), (32_000, 128 * GIB), (64_000, 256 * GIB), (96_000, 384 * GIB))
_HOW_MANY = (30, 40, 20, 10)
"""How many of a hundred nodes are of each size."""


def mixed_nodes(random: Random, count: int, *, zones: int = 3) -> list[NodeInfo]:
    """Return nodes of four sizes; some with fast disks, some dedicated, a few out of order."""
    nodes: list[NodeInfo] = []
    for number in range(count):
        milli_cpu, memory = random.choices(_SIZES, _HOW_MANY)[0]
        labels = {
            "kubernetes.io/hostname": f"node-{number:05}",
            "topology.kubernetes.io/zone": f"zone-{random.randrange(zones)}",
            "disk": "ssd" if random.random() < 0.6 else "hdd",
        }
        taints = []
        if random.random() < 0.05:
            taints.append(Taint(key=DEDICATED, value="yes", effect=TaintEffect.NO_SCHEDULE))
        nodes.append(
            NodeInfo(
                name=f"node-{number:05}",
                allocatable=Resource(milli_cpu=milli_cpu, memory=memory),
                max_tasks=110,
                labels=labels,
                taints=taints,
                conditions={"Ready": "False" if random.random() < 0.01 else "True"},
                unschedulable=random.random() < 0.01,
            )
        )
    return nodes
