"""The annotations that carry scheduling decisions and groups."""

from __future__ import annotations

__all__ = ["BACKFILL", "GROUP_NAMES", "RESERVED_NODE", "ROLE_NAMES"]

GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""The annotations of kube-batch and Volcano for the pod's PodGroup; the first one set is used."""
BACKFILL = "scheduling.k8s.io/kube-batch-backfill"
"""``"true"`` marks a pod that runs on resources that are promised to other jobs."""
RESERVED_NODE = "scheduling.k8s.io/kube-batch-reserved-node"
"""The node that is reserved for a pending pod."""
ROLE_NAMES = ("volcano.sh/task-spec", "kai.scheduler/subgroup-name")
"""The pod's role in its PodGroup, by Volcano's annotation and KAI Scheduler's label."""
