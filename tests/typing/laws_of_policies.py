"""What the pages on testing write about laws; it is checked by type checkers alone."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched import CycleResult, SchedulerConfig, Snapshot
from batchsched.testing import INVARIANTS, ClusterMachine, Cycle, check_cycle, invariant


@invariant
def losers_keep_enough(cycle: Cycle) -> Iterator[str]:
    """A law of one's own."""
    yield from (eviction.task_uid for eviction in cycle.result.evictions)


def test_cycles(snapshot: Snapshot, result: CycleResult, config: SchedulerConfig) -> None:
    check_cycle(snapshot, result, config, invariants=[*INVARIANTS, losers_keep_enough])
    check_cycle(snapshot, result, config, invariants=[*INVARIANTS, "queues_keep_apart"])


class MyCluster(ClusterMachine):
    cycle_invariants = (*INVARIANTS, losers_keep_enough, "queues_keep_apart")
