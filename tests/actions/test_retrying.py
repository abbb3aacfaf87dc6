"""`retry: largest-first` of allocate: a turn that fails is tried again, the largest tasks first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from tests.reference import check_reference
from tests.support.clusters import action, bound, cluster, job, node
from tests.support.invariants import check_cycle

from batchsched import ConfigError, CycleResult, Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import snapshots

RETRYING = action("allocate", retry="largest-first")


def config(allocate: str | Mapping[str, Any]) -> SchedulerConfig:
    tiers = [
        {"plugins": ["priority", "gang", "conformance"]},
        {"plugins": ["drf", "predicates", "nodeorder"]},
    ]
    return SchedulerConfig.from_mapping({"actions": [allocate], "tiers": tiers})


def decide(snapshot: Snapshot, allocate: str | Mapping[str, Any]) -> CycleResult:
    return Scheduler(config(allocate)).schedule(snapshot)


def gang() -> Snapshot:
    """In task order 7 goes where 14 must, for that node scores highest."""
    nodes = [node(name, size) for name, size in (("n1", "16C0G"), ("n2", "8C0G"), ("n3", "8C0G"))]
    return cluster(nodes, job("g", "7C0G", "14C0G", "7C0G"))


def test_a_gang_starts_whose_small_tasks_take_the_place_of_its_large_one() -> None:
    assert bound(decide(gang(), "allocate")) == {}
    result = decide(gang(), RETRYING)
    assert bound(result) == {"g-1": "n2", "g-2": "n1", "g-3": "n3"}
    check_reference(gang(), result, config(RETRYING))


def test_what_is_left_of_a_job_comes_in_task_order_again() -> None:
    """Three of the five tasks are needed; the two that are left start one by one."""
    nodes = [node("n1", "16C0G"), node("n2", "8C0G"), node("n3", "8C0G")]
    snapshot = cluster(nodes, job("g", "7C0G", "14C0G", "7C0G", "1C0G", "1C0G", minimum=5))
    result = decide(snapshot, RETRYING)
    assert sorted(bound(result)) == ["g-1", "g-2", "g-3", "g-4", "g-5"]
    check_reference(snapshot, result, config(RETRYING))


def test_what_is_held_is_not_tried_again() -> None:
    with pytest.raises(ConfigError, match="retry"):
        Scheduler(config(action("allocate", unready="hold", retry="largest-first")))


@settings(max_examples=40)
@given(snapshots(max_jobs=1, max_tasks=6, min_tasks=2, running=False, unknown_queues=False))
def test_it_starts_whatever_started_without_it(snapshot: Snapshot) -> None:
    """Of one job: where there are several, one that starts takes room that others had."""
    result = decide(snapshot, RETRYING)
    assert bound(result).items() >= bound(decide(snapshot, "allocate")).items()
    check_cycle(snapshot, result, config(RETRYING))


@settings(max_examples=40)
@given(snapshots(max_nodes=3, max_jobs=4, max_tasks=4, constraints=False, affinity=False))
def test_it_decides_like_the_reference(snapshot: Snapshot) -> None:
    check_reference(snapshot, decide(snapshot, RETRYING), config(RETRYING))
