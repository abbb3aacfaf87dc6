"""The plugin capacity decides what plain loops over everything decide."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import capacity_config, crowded

from batchsched import Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import snapshots
from batchsched.testing.reference import reference_schedule

ACTIONS = st.lists(
    st.sampled_from(["reclaim", "allocate", "preempt", "backfill"]),
    min_size=1,
    max_size=4,
    unique=True,
)
ORDERS = st.sampled_from(
    [["reclaim"], ["reclaim", "allocate"], ["allocate", "reclaim", "preempt"], ["preempt"]]
)
ARGUMENTS = st.sampled_from(
    [
        {},
        {},
        {},
        {"tolerance": 0.5},
        {"level": True},
        {"level": True, "tolerance": 0.25},
        {"order": "graded"},
        {"order": "graded", "level": True},
    ]
)

SNAPSHOTS = snapshots(max_queues=6, reservations=False, affinity=False, always=["trees"])


def decided_by_both(snapshot: Snapshot, conf: dict[str, object]) -> None:
    expected = reference_schedule(snapshot, conf)
    result = Scheduler(SchedulerConfig.from_mapping(conf)).schedule(snapshot)
    assert result.evictions == expected.evictions
    assert result.binds == expected.binds
    assert result.pipelined == expected.pipelined
    assert result.tasks == expected.tasks
    assert {u: j.phase for u, j in result.jobs.items()} == {
        u: j.phase for u, j in expected.jobs.items()
    }


@settings(max_examples=50)
@given(SNAPSHOTS, ACTIONS, st.sampled_from(["whole-job", "protect"]), ARGUMENTS)
def test_a_cycle_on_a_tree_of_queues(
    snapshot: Snapshot, actions: list[str], at_minimum: str, arguments: dict[str, object]
) -> None:
    decided_by_both(snapshot, capacity_config(*actions, at_minimum=at_minimum, **arguments))


@settings(max_examples=50)
@given(
    crowded(states=True), ORDERS, st.sampled_from(["whole-job", "whole-job", "protect"]), ARGUMENTS
)
def test_clusters_where_most_is_used(
    snapshot: Snapshot, actions: list[str], at_minimum: str, arguments: dict[str, object]
) -> None:
    decided_by_both(snapshot, capacity_config(*actions, at_minimum=at_minimum, **arguments))
