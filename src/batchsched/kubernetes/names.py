"""The annotations that carry scheduling decisions and groups."""

from __future__ import annotations

__all__ = ["BACKFILL", "GROUP_NAMES", "RESERVED_NODE", "ROLE_NAMES"]

GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""The pod's PodGroup, by kube-batch's annotation and Volcano's; the first that is there counts."""
BACKFILL = "scheduling.k8s.io/kube-batch-backfill"
"""``"true"`` marks a pod that runs in resources which others wait for."""
RESERVED_NODE = "scheduling.k8s.io/kube-batch-reserved-node"
"""The node that is kept closed for a pending pod."""
ROLE_NAMES = ("volcano.sh/task-spec", "kai.scheduler/subgroup-name")
"""The pod's role in its PodGroup, by Volcano's annotation and KAI Scheduler's label."""
