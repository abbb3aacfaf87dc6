"""R7 over whole histories: clusters that live, with trees of queues of up to four levels.

Between events cycles run until all is at rest; where they come back to where they were, and evict
on the way, the machine says so. All actions take turns. That drf names victims for preempt is left
out, as in the tiers that are recommended: these may be covered by a share.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from hypothesis.strategies import SearchStrategy
from tests.plugins.capacity.worlds import SHAPES, full, job
from tests.support.invariants import INVARIANTS

from batchsched import (
    CycleResult,
    JobInfo,
    QueueStatus,
    SchedulerConfig,
    Snapshot,
    next_snapshot,
)
from batchsched.plugin.queues import QueueTree
from batchsched.testing import ClusterMachine

pytestmark = pytest.mark.slow

QUICK = settings(
    stateful_step_count=5,
    max_examples=8,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
ORDERS = (
    "reclaim, allocate, backfill",
    "allocate, preempt, reclaim",
    "preempt, reclaim, allocate, backfill, reserve",
)


def policy(actions: str) -> SchedulerConfig:
    return SchedulerConfig.from_mapping({"actions": actions})


class FullTree(ClusterMachine):
    """A full cluster with a tree of queues, of which some change."""

    cycle_invariants = tuple(law for law in INVARIANTS if law.__name__ != "reasons")
    evictions = 0
    deepest = 0

    def starts(self) -> SearchStrategy[Snapshot]:
        return st.integers(0, 1 << 30).map(full)

    def teardown(self) -> None:
        self.settle()

    def arrivals(self, name: str, queues: Sequence[str]) -> SearchStrategy[JobInfo]:
        inner = {queue.parent for queue in self.snapshot.queues}
        leaves = st.sampled_from([queue for queue in queues if queue not in inner])
        whole = st.booleans()
        return st.builds(
            lambda leaf, shape, is_whole, priority: job(
                leaf,
                name,
                shape[2],
                size=shape[0],
                gpus=shape[1],
                minimum=shape[2] if is_whole else 1,
                priority=priority,
            ),
            leaves,
            st.sampled_from(SHAPES),
            whole,
            st.integers(1, 2),
        )

    def run_cycle(self) -> CycleResult:
        result = super().run_cycle()
        type(self).evictions += len(result.evictions)
        tree = QueueTree(self.snapshot.queues)
        levels = [len(tree.path(position)) for position in range(len(tree.names))]
        type(self).deepest = max(self.deepest, *levels)
        return result

    @precondition(lambda self: self.snapshot.queues)  # type: ignore[arg-type]
    @rule(which=st.integers(0, 15), weight=st.integers(0, 3), state=st.sampled_from(QueueStatus))
    def change_queue(self, which: int, weight: int, state: QueueStatus) -> None:
        chosen = self.snapshot.queues[which % len(self.snapshot.queues)]
        changed = evolve(chosen, weight=weight, state=state)
        queues = [changed if queue is chosen else queue for queue in self.snapshot.queues]
        now = next_snapshot(self.snapshot, None, now=self.snapshot.now)
        self.change(evolve(now, queues=queues))


@pytest.mark.parametrize("actions", ORDERS)
def test_r7_no_history_of_a_tree_of_queues_comes_round_in_circles(actions: str) -> None:
    class Machine(FullTree):
        config = policy(actions)

    run_state_machine_as_test(Machine, settings=QUICK)
    assert Machine.evictions  # otherwise nothing was shown
    assert Machine.deepest == 4
