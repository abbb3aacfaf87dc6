"""Scenarios beyond the list: holes that sections 10 and 11 leave, and how they are closed."""

from __future__ import annotations

import pytest
from clusters import Simulation, action, bound, cluster, job, node, places, scheduler

from batchsched import JobInfo


def reserve(percent: float = 100, *, threshold: float = 10, in_order: bool = False) -> object:
    return action(
        "reserve",
        starvingJobTimeThreshold=threshold,
        reservedNodePercent=percent,
        inOrder=in_order,
    )


def test_l1_a_gang_keeps_the_half_that_it_could_have_at_once() -> None:
    """One half is Allocated, the other Reserved: the first must not go to others meanwhile."""
    simulation = Simulation(
        scheduler("allocate", reserve(50, in_order=True), without=["proportion"]),
        cluster(
            [node("n1", "2C2G"), node("n2", "2C2G")],
            job("r", "2C2G@n2"),
            job("s", "2C2G", "2C2G"),
            now=100,
        ),
        ends={"r-1": 103},
    )
    result = simulation.cycle()
    assert places(result, "s") == {"s-1": "Allocated n1", "s-2": "Reserved n2"}
    for time in (101, 102):
        simulation.step(new_jobs=[job(f"i{time}", "1C1G", priority=10, creation_time=time)])
        result = simulation.cycle()
        assert not result.binds
        assert places(result, "s") == {"s-1": "Reserved n1", "s-2": "Reserved n2"}
    simulation.step()
    assert bound(simulation.cycle()) == {"s-1": "n1", "s-2": "n2"}


def small_jobs(time: int) -> list[JobInfo]:
    return [job(f"t{time:03}", "2C2G", creation_time=time)]


@pytest.mark.parametrize("in_order", [True, False])
def test_l2_small_starving_jobs_do_not_overtake_a_large_one_in_order(in_order: bool) -> None:
    """A gang needs two nodes; single tasks starve as well, and one of them always has a node."""
    threshold, duration, submitted = 1, 4, 5
    simulation = Simulation(
        scheduler(
            "allocate",
            reserve(100, threshold=threshold, in_order=in_order),
            without=["drf", "proportion"],
        ),
        cluster([node("n1", "2C2G"), node("n2", "2C2G")], *small_jobs(0)),
        duration=duration,
    )
    for time in range(1, 100):
        simulation.cycle()
        more = small_jobs(time)
        if time == submitted:
            more.append(job("large", "2C2G", "2C2G", creation_time=time))
        simulation.step(new_jobs=more)
    ahead = submitted + 1
    bound_of_wait = threshold + 1 + (ahead + 2) * (duration + 1)
    if in_order:
        assert simulation.started["large-1"] <= submitted + bound_of_wait
    else:
        assert simulation.started.get("large-1", 1000) > submitted + bound_of_wait


def test_l3_no_more_is_backfilled_where_a_gang_waits_for_backfill_tasks_to_leave() -> None:
    """Room beside the promise would be filled again and again, for it counts as accessible."""
    simulation = Simulation(
        scheduler(
            "allocate", action("backfill", strategy="release"), without=["drf", "proportion"]
        ),
        cluster(
            [node("n1", "4C4G")],
            job("g", "1C1G", "9C9G"),
            job("k", "2C2G@n1*"),
            job("p", "3C3G"),
            job("y", "1C1G"),
            job("z", "1C1G"),
        ),
        ends={"k-1": 2},
        duration=5,
    )
    assert places(simulation.cycle(), "p") == {"p-1": "Conditional n1"}
    simulation.step()
    simulation.cycle()
    simulation.step()
    assert bound(simulation.cycle())["p-1"] == "n1"


def test_l4_a_gang_is_not_reserved_the_same_room_twice() -> None:
    """What it has been allocated on a node counts, in order, when more is reserved there."""
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "2C2G")],
        job("r", "2C2G@n2"),
        job("s", "2C2G", "2C2G", "2C2G"),
        now=100,
    )
    using = scheduler("allocate", reserve(100, in_order=True), without=["proportion"])
    result = using.schedule(snapshot)
    assert not result.reserved  # three never fit on two nodes
