"""The scenarios R1 to R9 and S1: starvation and reservation, most over several cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.clusters import Simulation, action, bound, cluster, job, node, places, scheduler

from batchsched import JobInfo, Snapshot, UnfitReason

LAST_STEP = 9


def start_times(
    *actions: str | Mapping[str, Any], keep_reservations: bool = True
) -> tuple[dict[str, float], dict[float, dict[str, str]]]:
    """Run the seven pods of R1; return when each started, and where all stood after each cycle."""
    pods = [job(f"pod{n}", "3C3G" if n == 4 else "1C1G") for n in range(1, 8)]
    simulation = Simulation(
        scheduler(*actions),
        cluster([node("n1", "3C3G")], *pods, now=1),
        duration=3,
        ends={"pod1-1": 2, "pod2-1": 4, "pod3-1": 4},
        keep_reservations=keep_reservations,
    )
    stood: dict[float, dict[str, str]] = {}
    while True:
        now = simulation.snapshot.now
        if now != 2:  # the cycle of t = 2 is skipped
            stood[now] = places(simulation.cycle())
        if now == LAST_STEP:
            return {uid[3]: at for uid, at in simulation.started.items()}, stood
        simulation.step()


def test_r1_small_jobs_overtake_a_large_one() -> None:
    started, _ = start_times("allocate")
    assert started == {"1": 1, "2": 1, "3": 1, "5": 3, "6": 4, "7": 4, "4": 7}


def test_r2_a_reservation_ends_the_overtaking() -> None:
    started, stood = start_times(
        "allocate", action("reserve", starvingJobTimeThreshold=2, reservedNodePercent=100)
    )
    assert started == {"1": 1, "2": 1, "3": 1, "5": 3, "4": 6, "6": 9, "7": 9}
    assert stood[3]["pod4-1"] == "Reserved n1"
    for time in (4, 5):
        assert stood[time]["pod4-1"] == "Reserved n1"
        assert stood[time]["pod6-1"] == stood[time]["pod7-1"] == "Pending"


def test_r3_reserving_first_needs_nothing_carried_over() -> None:
    started, _ = start_times(
        action("reserve", starvingJobTimeThreshold=3, reservedNodePercent=100),
        "allocate",
        keep_reservations=False,
    )
    assert started == {"1": 1, "2": 1, "3": 1, "5": 3, "4": 6, "6": 9, "7": 9}


def test_r9_allocate_reserves_for_starving_jobs_by_itself() -> None:
    started, _ = start_times(action("allocate", starvationThreshold=3), keep_reservations=False)
    assert started["4"] == 6


def nearly_full_cluster(*jobs: JobInfo) -> Snapshot:
    return cluster(
        [node(f"n{n}", "4C4G") for n in range(1, 5)],
        *(job(f"r{n}", f"3C3G@n{n}") for n in range(1, 5)),
        *jobs,
        now=100,
    )


def reserve(percent: float) -> dict[str, Any]:
    return action("reserve", starvingJobTimeThreshold=10, reservedNodePercent=percent)


def test_r4_no_more_nodes_are_reserved_than_the_percentage_allows() -> None:
    simulation = Simulation(
        scheduler("allocate", reserve(50)), nearly_full_cluster(job("s", "2C2G", "2C2G", "2C2G"))
    )
    result = simulation.cycle()
    reserved = {promise.node_name for promise in result.reserved}
    assert len(result.reserved) == 3
    assert len(reserved) == 2
    simulation.step(new_jobs=[job(f"small{n}", "1C1G", creation_time=100.5) for n in range(1, 5)])
    result = simulation.cycle()
    assert len(result.reserved) == 3
    assert sorted(bound(result).values()) == sorted({"n1", "n2", "n3", "n4"} - reserved)


def test_r5_a_gang_that_the_allowed_nodes_cannot_hold_gets_no_reservation() -> None:
    snapshot = nearly_full_cluster(job("s", "2C2G", "2C2G", "2C2G"))
    result = scheduler("allocate", reserve(25)).schedule(snapshot)
    assert set(places(result, "s").values()) == {"Pending"}
    assert not result.reserved


def test_r6_a_job_that_goes_first_and_can_be_scheduled_stops_the_action() -> None:
    snapshot = nearly_full_cluster(
        job("s", "2C2G", "2C2G", "2C2G"), job("h", "1C1G", priority=10, creation_time=99)
    )
    result = scheduler(reserve(50)).schedule(snapshot)
    assert not result.reserved
    assert not result.binds


def test_r7_nothing_is_reserved_where_no_node_is_large_enough() -> None:
    snapshot = nearly_full_cluster(job("s", "9C9G"))
    result = scheduler("allocate", reserve(50)).schedule(snapshot)
    assert not result.reserved
    assert "no node is large enough" in result.pending["s-1"].text


def test_r8_a_best_effort_task_may_use_a_reserved_node() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("r", "1C1G@n1"), job("s", "2C2G>n1"), job("e", ""))
    result = scheduler("allocate", "backfill").schedule(snapshot)
    assert bound(result) == {"e-1": "n1"}
    assert places(result, "s") == {"s-1": "Reserved n1"}


def test_r8_no_other_task_may_and_the_reason_says_so() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")], job("r", "1C1G@n1"), job("s", "2C2G>n1"), job("z", "1C1G")
    )
    result = scheduler("allocate", "backfill").schedule(snapshot)
    assert not result.binds
    tally = result.pending["z-1"].tally
    assert tally is not None
    assert [unfit.reason for unfit in tally.unfit] == [UnfitReason.RESERVED]


@pytest.mark.parametrize("reserving", [True, False])
def test_s1_a_starving_job_waits_for_a_bounded_time(reserving: bool) -> None:
    threshold, duration, submitted = 10, 3, 5
    actions: list[str | Mapping[str, Any]] = ["allocate"]
    if reserving:
        actions.append(
            action("reserve", starvingJobTimeThreshold=threshold, reservedNodePercent=50)
        )
    simulation = Simulation(
        scheduler(*actions, without=["drf", "proportion"]),
        cluster([node("n1", "4C4G"), node("n2", "4C4G")], *arriving(0)),
        duration=duration,
    )
    for time in range(1, 61):
        simulation.cycle()
        more = arriving(time)
        if time == submitted:
            more.append(job("large", "4C4G", creation_time=time))
        simulation.step(new_jobs=more)
    simulation.cycle()
    if reserving:
        assert simulation.started["large-1"] <= submitted + threshold + duration + 2
    else:
        assert "large-1" not in simulation.started


def arriving(time: int) -> list[JobInfo]:
    return [job(f"t{time:03}x{n}", "1C1G", creation_time=time) for n in range(3)]
