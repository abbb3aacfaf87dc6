"""The scenarios H1 to H19: what reservations and promises meet with."""

from __future__ import annotations

import pytest
from tests.support.clusters import (
    Simulation,
    action,
    bound,
    cluster,
    evicted,
    job,
    node,
    places,
    scheduler,
)

from batchsched import NodeInfo, Scheduler, SchedulerConfig


def reserve(percent: float = 100) -> dict[str, object]:
    return action("reserve", starvingJobTimeThreshold=10, reservedNodePercent=percent)


def test_h1_the_only_job_of_a_queue_starts_on_its_node_when_that_is_free() -> None:
    result = scheduler("allocate").schedule(cluster([node("n1", "2C2G")], job("s", "2C2G>n1")))
    assert bound(result) == {"s-1": "n1"}


@pytest.mark.parametrize(
    "closed",
    [node("n1", "4C4G", unschedulable=True), node("n1", "4C4G", max_tasks=1)],
    ids=["cordoned", "pod limit"],
)
def test_h2_a_reserved_task_does_not_start_where_the_predicates_refuse(closed: NodeInfo) -> None:
    snapshot = cluster([closed], job("r", "1C1G@n1"), job("s", "2C2G>n1"))
    result = scheduler("allocate").schedule(snapshot)
    assert not result.binds


def test_h4_the_node_of_a_job_that_is_no_longer_valid_is_open_to_others() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("s", "2C2G>n1", minimum=2), job("z", "1C1G"))
    result = scheduler("allocate").schedule(snapshot)
    assert bound(result) == {"z-1": "n1"}
    assert [(p.task_uid, p.node_name) for p in result.dropped_reservations] == [("s-1", "n1")]


def test_h5_a_reservation_on_a_node_that_is_gone_is_dropped() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("s", "2C2G>n0"))
    result = scheduler("allocate").schedule(snapshot)
    assert bound(result) == {"s-1": "n1"}
    assert [(p.task_uid, p.node_name) for p in result.dropped_reservations] == [("s-1", "n0")]


def test_h6_a_more_important_job_that_allocate_cannot_place_does_not_stop_reserve() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("r", "3C3G@n1"),
        job("s", "4C4G"),
        job("x", "9C9G", "1C1G", minimum=1, priority=10, creation_time=99),
        now=100,
    )
    result = scheduler("allocate", reserve()).schedule(snapshot)
    assert places(result, "s") == {"s-1": "Reserved n1"}


def test_h7_no_more_is_reserved_than_the_job_needs_to_start() -> None:
    snapshot = cluster(
        [node(f"n{n}", "4C4G") for n in range(1, 5)],
        *(job(f"r{n}", f"3C3G@n{n}") for n in range(1, 5)),
        job("s", *["4C4G"] * 4, minimum=1),
        now=100,
    )
    result = scheduler("allocate", reserve()).schedule(snapshot)
    assert len(result.reserved) == 1


def test_h8_a_node_that_preempt_has_evicted_on_is_not_reserved_for_another() -> None:
    # Without proportion, for whom the queue would be overused, so that s could not reserve.
    simulation = Simulation(
        scheduler("allocate", "preempt", reserve(), without=["proportion"]),
        cluster(
            [node("n1", "4C4G")],
            job("r", "2C2G@n1", "2C2G@n1", minimum=1),
            job("s", "4C4G"),
            job("x", "2C2G", priority=10),
            now=100,
        ),
    )
    result = simulation.cycle()
    assert evicted(result) == ["r-2"]
    assert places(result, "s", "x") == {"s-1": "Pending", "x-1": "Pipelined n1"}
    simulation.step()
    assert bound(simulation.cycle()) == {"x-1": "n1"}


def test_h9_a_gang_keeps_the_node_that_is_free_first_until_the_other_is_free() -> None:
    simulation = Simulation(
        scheduler("allocate", reserve()),
        cluster(
            [node("n1", "2C2G"), node("n2", "2C2G")],
            job("r1", "2C2G@n1"),
            job("r2", "2C2G@n2"),
            job("s", "2C2G>n1", "2C2G>n2"),
            now=100,
        ),
        ends={"r1-1": 101, "r2-1": 106},
    )
    for time in range(100, 106):
        result = simulation.cycle()
        assert not result.binds
        assert places(result, "s") == {"s-1": "Reserved n1", "s-2": "Reserved n2"}
        simulation.step(new_jobs=[job(f"i{time}", "1C1G", priority=10, creation_time=time)])
    assert bound(simulation.cycle()) == {"s-1": "n1", "s-2": "n2"}


def test_h10_a_job_whose_node_stays_busy_starts_on_another_that_is_free() -> None:
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "2C2G")], job("r", "2C2G@n1"), job("s", "2C2G>n1")
    )
    result = scheduler("allocate").schedule(snapshot)
    assert bound(result) == {"s-1": "n2"}
    assert [(p.task_uid, p.node_name) for p in result.dropped_reservations] == [("s-1", "n1")]


def test_h13_a_job_is_not_promised_what_its_own_backfill_task_holds() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("a", "1C1G@n1*", "2C2G"))
    result = scheduler(action("allocate", evictBackfill=True)).schedule(snapshot)
    assert not result.evictions
    assert places(result) == {"a-1": "Running n1*", "a-2": "Pending"}


def test_h14_one_backfill_task_is_evicted_once_for_two_tasks() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("a", "1C1G", "1C1G"), job("b", "2C2G@n1*"))
    result = scheduler(action("allocate", evictBackfill=True)).schedule(snapshot)
    assert evicted(result) == ["b-1"]
    assert places(result, "a") == {"a-1": "Pipelined n1", "a-2": "Pipelined n1"}


def test_h17_what_the_cluster_runs_on_is_not_evicted() -> None:
    critical = job(
        "c",
        *["1C1G@n1"] * 4,
        minimum=1,
        namespace="kube-system",
        priority_class_name="system-node-critical",
    )
    snapshot = cluster([node("n1", "4C4G")], critical, job("z", "1C1G"))
    using = Scheduler(SchedulerConfig.from_mapping({"actions": "allocate, preempt"}))
    assert not using.schedule(snapshot).evictions


def test_h19_a_ready_job_does_not_block_idle_room_by_what_it_cannot_be_promised() -> None:
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "1C1G")],
        job("k", "2C2G@n1*"),
        job("r", "1C1G@n2", "3C3G", minimum=1, priority=10),
        job("z", "2C2G"),
    )
    result = scheduler(action("allocate", evictBackfill=True)).schedule(snapshot)
    assert bound(result) == {"z-1": "n1"}
    assert not result.evictions
