"""A scheduler that is attached to a living cluster."""

from __future__ import annotations

from typing import Protocol

from batchsched.live.cluster import Cluster
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot

__all__ = ["AttachedScheduler", "Policy"]


class Policy(Protocol):
    """What decides on snapshots: a `batchsched.Scheduler`."""

    def schedule(self, snapshot: Snapshot, /) -> CycleResult:
        """Run one cycle."""
        ...


class AttachedScheduler:
    """A scheduler that keeps what it remembers of one cluster; see `Scheduler.attach`."""

    __slots__ = ("_cluster", "_policy")

    def __init__(self, policy: Policy, cluster: Cluster) -> None:
        self._policy = policy
        self._cluster = cluster

    @property
    def cluster(self) -> Cluster:
        """The cluster that it decides on."""
        return self._cluster

    def schedule(self) -> CycleResult:
        """Run one cycle on the cluster as it is, and return what it decided.

        The cluster is not changed; `Cluster.carry_out` lets the decisions take effect. The result
        is that of ``scheduler.schedule(cluster.snapshot())``.

        Raises:
            PluginError: a plugin raised, or answered what it must not.
            ActionError: an action raised.

        """
        return self._policy.schedule(self._cluster.snapshot())
