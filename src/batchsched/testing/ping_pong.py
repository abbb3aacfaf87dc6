"""Watches a cluster from cycle to cycle for loops."""

from __future__ import annotations

from attrs import define, field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.tools.ping_pong import PingPong, without_times


@frozen
class _Seen:
    state: Snapshot
    snapshot: Snapshot
    result: CycleResult


@define
class Watcher:
    """Follows a cluster from cycle to cycle, and detects loops.

    Time does not count as a change, so a loop is reported only after `times` passes: a waiting job
    may become starving in the meantime, and end it.
    """

    times: int = 2
    """The number of passes after which a loop is reported."""
    config: SchedulerConfig = field(factory=SchedulerConfig)
    """The policy, for the report."""
    registry: Registry | None = None
    """The registry of the names in `config`; None: the default registry."""
    _seen: list[_Seen] = field(factory=list["_Seen"])

    def forget(self) -> None:
        """Record that something else changed."""
        self._seen.clear()

    def watch(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Record a cycle.

        Raises:
            PingPong: the cycles form a loop with evictions.

        """
        state = without_times(snapshot)
        before = [position for position, seen in enumerate(self._seen) if seen.state == state]
        if len(before) >= self.times:
            loop = self._seen[before[-1] :]
            if any(seen.result.evictions for seen in loop):
                snapshots = [*(seen.snapshot for seen in loop), snapshot]
                results = [seen.result for seen in loop]
                raise PingPong(snapshots, results, self.config, self.registry)
        self._seen.append(_Seen(state, snapshot, result))
