"""Where tasks want things of each other: evictions end, and each one's claimant starts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.actions.eviction.test_curable import crowded
from tests.support.cycles import Cycles

from batchsched import Scheduler, SchedulerConfig

CYCLES = 14
_GANG = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}


def named(shares: str) -> list[dict[str, object]]:
    return [
        {"plugins": ["priority", _GANG, "conformance"]},
        {"plugins": ["predicates", shares, "nodeorder"]},
    ]


CONFIGS: dict[str, dict[str, object]] = {
    "default": {"actions": "reclaim, allocate, preempt, backfill"},
    "allocate first": {"actions": "allocate, preempt"},
    "capacity": {"actions": "reclaim, allocate, preempt", "tiers": named("capacity")},
    "proportion": {"actions": "reclaim, allocate, preempt", "tiers": named("proportion")},
}


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=25)
@given(st.integers(0, 1 << 30))
def test_in_a_closed_system_evictions_end_and_each_ones_claimant_starts(
    name: str, seed: int
) -> None:
    using = Scheduler(SchedulerConfig.from_mapping(CONFIGS[name]))
    living = Cycles(using, crowded(seed))
    waiting: set[str] = set()
    last = 0
    for number in range(CYCLES):
        result = living.cycle()
        started = {bind.task_uid for bind in result.binds}
        gave_way = {taken.task_uid for taken in result.taken_back}
        gave_way |= {each.task_uid for each in result.dropped_promises if each.for_task_uid}
        waiting -= started | gave_way
        waiting |= {eviction.for_task_uid for eviction in result.evictions} - started
        last = number if result.evictions else last
        living.step()
    assert last < CYCLES - 4
    assert not waiting
