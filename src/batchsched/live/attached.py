"""A scheduler that is attached to a living cluster."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from batchsched.live.cluster import Cluster
from batchsched.live.keeper import Keeper
from batchsched.live.past import Past
from batchsched.model.result import CycleResult
from batchsched.session.outcomes import Unchanged
from batchsched.session.session import Session
from batchsched.transition.content import Content

__all__ = ["AttachedScheduler", "Policy"]


class Policy(Protocol):
    """What decides in a session: a `batchsched.Scheduler`."""

    def run(
        self, session: Session, /, *, reasons: bool = True, unchanged: Unchanged | None = None
    ) -> CycleResult:
        """Run all actions in a session, close it, and return what was decided."""
        ...

    def keep(self, content: Content, /) -> Keeper:
        """Return books that follow a cluster."""
        ...


class AttachedScheduler:
    """A scheduler that keeps what it remembers of one cluster; see `Scheduler.attach`."""

    __slots__ = ("_cluster", "_keeper", "_policy")

    def __init__(self, policy: Policy, cluster: Cluster) -> None:
        self._policy = policy
        self._cluster = cluster
        self._keeper: Keeper | None = None

    @property
    def cluster(self) -> Cluster:
        """The cluster that it decides on."""
        return self._cluster

    def schedule(self, *, reasons: bool = True) -> CycleResult:
        """Run one cycle on the cluster as it is, and return what it decided.

        The cluster is not changed; `Cluster.carry_out` lets the decisions take effect. The result
        is that of ``scheduler.schedule(cluster.snapshot())``. The first cycle costs what that
        costs; a later one costs what has changed since the last, and what waits.

        Outcomes of tasks and jobs that the cycle has left as they were are made when they are
        asked for, from what was true in the cycle, however the cluster has changed since.

        Args:
            reasons: whether it is to be found out why tasks are pending. If not,
                `CycleResult.pending` is empty, and conditions do not say what nodes lack.

        Raises:
            PluginError: a plugin raised, or answered what it must not. What was remembered of the
                cluster is forgotten, and found out again by the next cycle.
            ActionError: an action raised; the same applies.

        """
        keeper = self._take_keeper()
        result = self._policy.run(
            keeper.session(), reasons=reasons, unchanged=Past(self._cluster.content)
        )
        keeper.end()
        self._keeper = keeper
        return result

    @contextmanager
    def open(self) -> Generator[Session]:
        """Open a session on the cluster as it is without running any action, to look around.

        What is done in it is undone at the end. The cost is that of `schedule`, without actions.

        Raises:
            PluginError: a plugin raised, or opened what it must not.

        """
        keeper = self._take_keeper()
        yield keeper.session()
        keeper.end()
        self._keeper = keeper

    def _take_keeper(self) -> Keeper:
        """Return the books. Whatever is raised next, what half a cycle leaves is not used again."""
        keeper, self._keeper = self._keeper, None
        return self._policy.keep(self._cluster.content) if keeper is None else keeper
