"""A scheduler that is attached to a live cluster."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from batchsched.live.cluster import Cluster
from batchsched.live.content_at import ContentAt
from batchsched.live.kept_state import KeptState
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.session.outcomes import Unchanged
from batchsched.session.session import Session
from batchsched.transition.content import Content

__all__ = ["AttachedScheduler", "Policy"]


class Policy(Protocol):
    """The part of `batchsched.Scheduler` that runs cycles in a given session."""

    def run(
        self, session: Session, /, *, reasons: bool = True, unchanged: Unchanged | None = None
    ) -> CycleResult:
        """Run all actions in a session, close it, and return the decisions."""
        ...

    def keep(self, content: Content, /) -> KeptState:
        """Return the state that is kept up to date with a cluster."""
        ...

    def open(self, snapshot: Snapshot, /) -> Session:
        """Open a session on a snapshot."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether anything is kept between cycles."""
        ...


class AttachedScheduler:
    """A scheduler that keeps its state of one cluster between cycles; see `Scheduler.attach`."""

    __slots__ = ("_cluster", "_kept_state", "_policy")

    def __init__(self, policy: Policy, cluster: Cluster) -> None:
        self._policy = policy
        self._cluster = cluster
        self._kept_state: KeptState | None = None

    @property
    def cluster(self) -> Cluster:
        """The cluster that it schedules."""
        return self._cluster

    def schedule(self, *, reasons: bool = True) -> CycleResult:
        """Run one cycle on the cluster in its present state, and return the decisions.

        The cluster is not changed; `Cluster.carry_out` applies the decisions. The result equals
        ``scheduler.schedule(cluster.snapshot())``. The first cycle has the same cost; the cost of
        a later one depends on what has changed since the last cycle, and on the waiting jobs.

        Outcomes of tasks and jobs that the cycle did not change are computed when they are read.
        They show the state of the cluster in the cycle, even if it has changed since.

        Args:
            reasons: whether to determine why tasks are pending. If False, `CycleResult.pending`
                is empty, and conditions do not say why nodes were rejected.

        Raises:
            PluginError: a plugin raised an exception or returned an invalid value. The state kept
                of the cluster is dropped, and the next cycle builds it again.
            ActionError: an action raised an exception; its effect is the same.

        """
        if not self._policy.keeps:
            return self._policy.run(self._policy.open(self._cluster.snapshot()), reasons=reasons)
        kept_state = self._take_kept_state()
        result = self._policy.run(
            kept_state.session(), reasons=reasons, unchanged=ContentAt(self._cluster.content)
        )
        kept_state.end()
        self._kept_state = kept_state
        return result

    @contextmanager
    def open(self) -> Generator[Session]:
        """Open a session on the cluster without running any action, for inspection.

        All changes in the session are undone at the end. The cost is that of `schedule`, without
        the actions.

        Raises:
            PluginError: a plugin raised an exception when it was opened, or its `open` returned
                an invalid object.

        """
        if not self._policy.keeps:
            yield self._policy.open(self._cluster.snapshot())
            return
        kept_state = self._take_kept_state()
        yield kept_state.session()
        kept_state.end()
        self._kept_state = kept_state

    def _take_kept_state(self) -> KeptState:
        """Take the kept state, so that it is not used again if the cycle raises."""
        kept_state, self._kept_state = self._kept_state, None
        return self._policy.keep(self._cluster.content) if kept_state is None else kept_state
