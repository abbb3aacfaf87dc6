"""`retry: largest-first` of allocate: a turn that fails is tried again, the largest tasks first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from tests.reference import check_reference
from tests.support.clusters import action, bound, cluster, job, node
from tests.support.invariants import check_cycle

from batchsched import (
    ConfigError,
    CycleResult,
    JobInfo,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
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


def on(zone: str, uid: str, **more: Any) -> TaskInfo:
    """A task of 1 cpu that selects a zone, if one is named."""
    selector = {"zone": zone} if zone else {}
    return TaskInfo(
        uid=uid, name=uid, resreq=Resource(milli_cpu=1000), node_selector=selector, **more
    )


def test_tasks_of_one_size_that_are_not_alike_are_tried_in_reverse() -> None:
    """In task order the first takes the only node that the second may have."""
    nodes = [node("n1", "1C0G", labels={"zone": "a"}), node("n2", "1C0G", labels={"zone": "b"})]
    gang = JobInfo(name="g", queue="q", min_available=2, tasks=[on("", "g-1"), on("a", "g-2")])
    snapshot = cluster(nodes, gang)
    assert bound(decide(snapshot, "allocate")) == {}
    result = decide(snapshot, RETRYING)
    assert bound(result) == {"g-1": "n2", "g-2": "n1"}
    check_reference(snapshot, result, config(RETRYING))
    assert Scheduler(config(RETRYING), plain=True).schedule(snapshot).full() == result
    alike = evolve(gang, tasks=[on("a", "g-1"), on("a", "g-2")])
    assert bound(decide(cluster(nodes, alike), RETRYING)) == {}


def test_who_must_be_near_another_of_the_job_comes_after_it_if_there_is_no_room_beside_others() -> (
    None
):
    """The one that runs is near enough, and its node full; the other one makes a new place."""
    nodes = [node("n1", "1C0G", labels={"zone": "a"}), node("n2", "2C0G", labels={"zone": "b"})]
    term = PodAffinityTerm(selector=LabelSelector(match_labels={"app": "y"}), topology_key="zone")
    first = on("", "g-1", pod_affinity=PodAffinity(required=[term]))
    gang = JobInfo(
        name="g", queue="q", min_available=2, tasks=[first, on("", "g-2", labels={"app": "y"})]
    )
    there = on("", "r-1", labels={"app": "y"}, status=TaskStatus.RUNNING, node_name="n1")
    snapshot = cluster(nodes, gang, JobInfo(name="r", queue="q", tasks=[there]))
    assert bound(decide(snapshot, RETRYING)) == {"g-1": "n2", "g-2": "n2"}


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
