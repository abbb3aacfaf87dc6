"""Reserving looks again at the nodes that changed, and decides what a loop over all decides."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clusters import action, cluster, job, node, scheduler

from batchsched import Scheduler, SchedulerConfig, Snapshot
from batchsched.actions import reserve as reserve_module
from batchsched.testing import snapshots

RESERVE = st.builds(
    dict,
    starvingJobTimeThreshold=st.sampled_from([0, 20]),
    reservedNodePercent=st.sampled_from([0, 25, 50, 100]),
    inOrder=st.sampled_from([False, False, True]),
)
BEFORE = st.sampled_from(["allocate", "preempt", "backfill"])


@pytest.mark.parametrize("most_kinds", [1, 64])
@given(
    snapshot=snapshots(max_nodes=8, max_jobs=8, max_tasks=6, running=True),
    before=st.lists(BEFORE, max_size=2, unique=True),
    arguments=st.lists(RESERVE, min_size=1, max_size=2),
)
@settings(max_examples=150, deadline=None)
def test_it_reserves_what_the_plain_loop_reserves(
    most_kinds: int, snapshot: Snapshot, before: list[str], arguments: list[dict[str, object]]
) -> None:
    actions = [*before, *[{"name": "reserve", "arguments": given} for given in arguments]]
    config = SchedulerConfig.from_mapping({"actions": actions})
    expected = Scheduler(config, plain={"engine"}).schedule(snapshot)
    with patch.object(reserve_module, "MOST_KINDS", most_kinds):
        assert Scheduler(config).schedule(snapshot) == expected


@pytest.mark.parametrize(("size", "expected"), [(2, ["n2", "n3"]), (3, [])])
def test_what_is_promised_to_another_job_is_not_reserved_for_any_task_of_a_kind(
    size: int, expected: list[str]
) -> None:
    """Whatever is kept for tasks of one kind, what is promised differs from job to job."""
    snapshot = cluster(
        [node(f"n{i}", "2C2G") for i in (1, 2, 3)],
        job("low", "2C2G@n1", priority=0, minimum=0),
        job("full", "2C2G@n2", "2C2G@n3", priority=50),
        job("high", "2C2G", priority=20),
        job("gang", *["2C2G"] * size, priority=0),
        now=1e6,
    )
    reserve = action("reserve", starvingJobTimeThreshold=100, reservedNodePercent=100)
    result = scheduler("preempt", reserve, without=["drf", "proportion"]).schedule(snapshot)
    assert [promise.task_uid for promise in result.pipelined] == ["high-1"]
    assert sorted(promise.node_name for promise in result.reserved) == expected
