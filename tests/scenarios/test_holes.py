"""Scenarios beyond the list: holes that the rules of waiting leave, and how they are closed."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import (
    Simulation,
    action,
    amount,
    bound,
    cluster,
    evicted,
    job,
    node,
    places,
    scheduler,
)

from batchsched import (
    JobInfo,
    Snapshot,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    next_snapshot,
)
from batchsched.live import NodeChanged


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


@pytest.mark.parametrize("evicts", [False, True])
def test_l3_room_beside_a_promise_is_lent_again_unless_loans_are_called_in(evicts: bool) -> None:
    """A limit that docs/waiting.md names: what new backfill tasks hold counts as accessible too."""
    simulation = Simulation(
        scheduler(
            action("allocate", evictBackfill=evicts),
            action("backfill", strategy="release"),
            without=["drf", "proportion"],
        ),
        cluster(
            [node("n1", "4C4G")],
            job("k", "2C2G@n1*"),
            job("p", "3C3G"),
            job("g", "1C1G", "9C9G", priority=10),
            job("y", "1C1G"),
            job("z", "1C1G"),
        ),
        ends={} if evicts else {"k-1": 2},
        duration=5,
    )
    result = simulation.cycle()
    assert evicted(result) == (["k-1"] if evicts else [])
    assert set(bound(result)) == ({"y-1"} if evicts else {"y-1", "z-1"})
    for _ in range(4):
        simulation.step()
        simulation.cycle()
    assert ("p-1" in simulation.started) is evicts


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


def lending(unready: str = "hold") -> list[dict[str, Any]]:
    return [
        action("allocate", unready=unready, evictBackfill=True),
        action("backfill", strategy="release"),
    ]


def test_l5_a_loan_that_was_called_in_is_not_lent_out_again() -> None:
    """With y gone, g's tasks are packed in another way, which does not hold all of them."""
    simulation = Simulation(
        scheduler(*lending("discard"), without=["drf", "proportion"]),
        cluster(
            [node("n0", "3C3G"), node("n1", "4C4G"), node("n2", "4C4G")],
            job("g", "3C3G", "1C1G", "4C4G", priority=10),
            job("y", "2C2G@n1*"),
        ),
    )
    result = simulation.cycle()
    assert evicted(result) == ["y-1"]
    kept = {uid: place.split()[1] for uid, place in places(result, "g").items()}
    simulation.step()
    result = simulation.cycle()
    assert kept.items() <= bound(result).items()
    for _ in range(4):
        simulation.step()
        assert not simulation.cycle().evictions


def test_l5_not_even_while_the_evicted_task_takes_its_time_to_leave() -> None:
    simulation = Simulation(
        scheduler(*lending(), without=["drf", "proportion"]),
        cluster([node("n1", "2C2G")], job("a", "1C1G", "1C1G"), job("b", "1C1G@n1*")),
    )
    assert evicted(simulation.cycle()) == ["b-1"]
    for _ in range(3):
        simulation.step(
            still_releasing=["b-1"],
            new_jobs=[job(f"i{simulation.snapshot.now:.0f}", "1C1G", priority=10)],
        )
        result = simulation.cycle()
        assert not result.binds
        assert set(places(result, "a").values()) == {"Pipelined n1"}
    simulation.step()
    assert bound(simulation.cycle()) == {"a-1": "n1", "a-2": "n1"}


def surplus_behind_a_gang() -> Simulation:
    """g never starts; until it has given back what it holds, x-2 has no place."""
    return Simulation(
        scheduler(),
        cluster(
            [node("n1", "4C4G"), node("n2", "4C4G"), node("n3", "0.5C0.5G")],
            job("g", *["1C1G"] * 8, "9C9G", priority=10),
            job("x", "0.5C0.5G@n3", "1C1G", minimum=1, priority=10),
            job("s", "4C4G"),
            *(job(f"k{n}", f"1C1G@n{1 + n % 2}") for n in range(4)),
            now=100,
        ),
        ends={f"k{n}-1": 101 + n for n in range(4)},
        duration=4,
    )


@pytest.mark.parametrize("strategy", ["release", "displace"])
def test_l6_a_surplus_task_that_failed_does_not_stop_reserve(strategy: str) -> None:
    simulation = surplus_behind_a_gang()
    simulation.decide_with(
        scheduler(
            "allocate",
            action("backfill", strategy=strategy),
            reserve(),
            without=["drf", "proportion"],
        )
    )
    for time in range(100, 120):
        simulation.cycle()
        simulation.step(new_jobs=[job(f"t{time}", "1C1G", creation_time=time)])
    assert simulation.started["s-1"] < 110


def test_l6_but_it_does_if_reserve_comes_before_it_was_tried() -> None:
    """A limit that docs/waiting.md names: release makes room only after x-2 was passed over."""
    simulation = surplus_behind_a_gang()
    simulation.decide_with(
        scheduler(
            reserve(),
            "allocate",
            action("backfill", strategy="release"),
            without=["drf", "proportion"],
        )
    )
    for time in range(100, 120):
        simulation.cycle()
        simulation.step(new_jobs=[job(f"t{time}", "1C1G", creation_time=time)])
    assert "s-1" not in simulation.started


OUT_OF_SERVICE: list[dict[str, Any]] = [
    {"unschedulable": True},
    {"conditions": {"Ready": "False"}},
    {"conditions": {"Ready": "Unknown"}},
    {"conditions": {"NetworkUnavailable": "True"}},
]


@pytest.mark.parametrize("out_of_service", OUT_OF_SERVICE, ids=str)
def test_l7_a_reservation_on_a_node_that_is_out_of_service_is_dropped(
    out_of_service: dict[str, Any],
) -> None:
    snapshot = cluster(
        [node("n1", "4C4G", **out_of_service), node("n2", "4C4G")],
        *(job("r1", "1C1G@n1"), job("r2", "1C1G@n2")),
        job("s", "4C4G>n1"),
        now=100,
    )
    # 50 percent are one node: the claim to n1 must not count.
    result = scheduler("allocate", reserve(50), without=["proportion"]).schedule(snapshot)
    assert [(p.task_uid, p.node_name) for p in result.dropped_reservations] == [("s-1", "n1")]
    assert places(result, "s") == {"s-1": "Reserved n2"}


def test_l7_unless_nothing_keeps_tasks_off_such_nodes() -> None:
    snapshot = cluster(
        [node("n1", "4C4G", unschedulable=True)], job("r", "1C1G@n1"), job("s", "4C4G>n1")
    )
    result = scheduler("allocate", without=["predicates"]).schedule(snapshot)
    assert places(result, "s") == {"s-1": "Reserved n1"}


def test_l7_a_reservation_on_a_node_that_was_tainted_moves_to_another() -> None:
    simulation = Simulation(
        scheduler("allocate", reserve(50), without=["proportion"]),
        cluster(
            [node("n1", "4C4G"), node("n2", "4C4G")],
            *(job("r1", "1C1G@n1"), job("r2", "2C2G@n2")),
            job("s", "4C4G"),
            now=100,
        ),
    )
    assert places(simulation.cycle(), "s") == {"s-1": "Reserved n1"}
    n1, _ = simulation.snapshot.nodes
    drained = evolve(n1, taints=[Taint(key="drain", effect=TaintEffect.NO_SCHEDULE)])
    simulation.cluster.apply(NodeChanged(drained))
    simulation.step()
    assert places(simulation.cycle(), "s") == {"s-1": "Reserved n2"}


def with_daemon(snapshot: Snapshot, request: str, node_name: str) -> Snapshot:
    daemon = TaskInfo(
        uid="daemon",
        name="daemon",
        resreq=amount(request),
        status=TaskStatus.RUNNING,
        node_name=node_name,
    )
    return evolve(snapshot, other_tasks=[daemon])


@pytest.mark.parametrize("in_order", [True, False])
def test_l8_no_node_is_reserved_that_a_daemon_leaves_too_small(in_order: bool) -> None:
    nodes = [node("n1", "4C4G"), node("n2", "4C4G")]
    busy = [job("r1", "1C1G@n1"), job("r2", "2C2G@n2")]
    using = scheduler("allocate", reserve(50, in_order=in_order), without=["proportion"])
    snapshot = cluster(nodes, *busy, job("s", "4C4G"), now=100)
    assert places(using.schedule(snapshot), "s") == {"s-1": "Reserved n1"}
    result = using.schedule(with_daemon(snapshot, "0.5C0.5G", "n1"))
    assert places(result, "s") == {"s-1": "Reserved n2"}


def test_l8_nor_by_allocate_and_a_reservation_ends_when_a_daemon_takes_its_room() -> None:
    nodes = [node("n1", "4C4G"), node("n2", "4C4G")]
    busy = [job("r1", "1C1G@n1"), job("r2", "2C2G@n2")]
    using = scheduler(action("allocate", starvationThreshold=10), without=["proportion"])
    snapshot = cluster(nodes, *busy, job("s", "4C4G>n1"), now=100)
    assert places(using.schedule(snapshot), "s") == {"s-1": "Reserved n1"}
    result = using.schedule(with_daemon(snapshot, "0.5C0.5G", "n1"))
    assert [(p.task_uid, p.node_name) for p in result.dropped_reservations] == [("s-1", "n1")]
    assert places(result, "s") == {"s-1": "Reserved n2"}


def test_l8_a_daemon_that_is_leaving_does_not_count() -> None:
    snapshot = with_daemon(
        cluster([node("n1", "4C4G")], job("r", "1C1G@n1"), job("s", "4C4G"), now=100), "1C1G", "n1"
    )
    leaving = evolve(snapshot.other_tasks[0], status=TaskStatus.RELEASING)
    using = scheduler("allocate", reserve(), without=["proportion"])
    result = using.schedule(evolve(snapshot, other_tasks=[leaving]))
    assert places(result, "s") == {"s-1": "Reserved n1"}


def test_l9_a_gang_keeps_what_it_could_have_at_once_beyond_the_percentage() -> None:
    simulation = Simulation(
        scheduler("allocate", reserve(1), without=["proportion"]),
        cluster(
            [*(node(f"n{n}", "1C1G") for n in range(1, 5)), node("n5", "4C4G")],
            job("r", "4C4G@n5"),
            job("s", "4C4G", *["1C1G"] * 4),
            now=100,
        ),
    )
    result = simulation.cycle()
    assert {promise.node_name for promise in result.reserved} == {"n5"}  # one percent: one node
    simulation.step()
    reserved = {
        task.node_name
        for one in simulation.snapshot.jobs
        for task in one.tasks
        if task.status is TaskStatus.RESERVED
    }
    assert reserved == {"n1", "n2", "n3", "n4", "n5"}


@pytest.mark.parametrize("backfill_comes_first", [True, False])
def test_l10_a_gang_with_a_task_that_asks_for_nothing_needs_backfill_before_reserve(
    backfill_comes_first: bool,
) -> None:
    """docs/waiting.md says so: only placed, such a task counts towards what the gang needs."""
    middle = ["backfill", reserve()] if backfill_comes_first else [reserve(), "backfill"]
    simulation = Simulation(
        scheduler("allocate", *middle, without=["drf", "proportion"]),
        cluster(
            [node("n1", "4C4G")],
            *(job(f"k{n}", "1C1G@n1") for n in range(4)),
            job("s", "4C4G", "", minimum=2),
            now=100,
        ),
        ends={f"k{n}-1": 101 + n for n in range(4)},
        duration=4,
    )
    for time in range(100, 140):
        simulation.cycle()
        simulation.step(new_jobs=[job(f"t{time}", "1C1G", creation_time=time)])
    assert ("s-1" in simulation.started) is backfill_comes_first


def test_l11_what_is_left_of_a_gang_that_was_lent_to_runs_on_until_the_caller_ends_it() -> None:
    """No more is evicted than is short; who wants gangs whole says so."""
    using = scheduler(*lending(), without=["drf", "proportion"])
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "2C2G")],
        job("r", "1C1G@n2"),
        job("a", "1C1G", "1C1G"),
        job("b", "2C2G@n1*", "1C1G@n2*"),
    )
    result = using.schedule(snapshot)
    assert len(result.evictions) == 1
    left = next_snapshot(snapshot, result, now=1)
    assert [task.status.value for task in left.jobs[1].tasks].count("Running") == 1
    needed = {one.uid: one.min_available for one in snapshot.jobs}
    broken = [
        task.uid
        for one in left.jobs
        for task in one.tasks
        if task.is_backfill
        and task.status is TaskStatus.RUNNING
        and sum(other.status.occupies for other in one.tasks) < needed[one.uid]
    ]
    whole = next_snapshot(snapshot, result, now=1, gone=broken)
    assert {task.status for task in whole.jobs[1].tasks} == {TaskStatus.PENDING}


def test_l12_a_reservation_that_comes_back_to_its_place_was_not_dropped() -> None:
    using = scheduler("allocate", reserve(), without=["proportion"])
    # Together they are too large for the node, so that both lose their reservations.
    both = [job("a", "3C3G>n1"), job("b", "3C3G>n1")]
    result = using.schedule(cluster([node("n1", "4C4G")], *both, now=100))
    assert bound(result) == {"a-1": "n1"}
    assert places(result, "b") == {"b-1": "Reserved n1"}
    assert not result.dropped_reservations
    busy = cluster([node("n1", "4C4G")], *both, job("k", "3C3G@n1"), now=100)
    result = using.schedule(busy)
    assert places(result, "a", "b") == {"a-1": "Reserved n1", "b-1": "Pending"}
    assert [promise.task_uid for promise in result.dropped_reservations] == ["b-1"]


@pytest.mark.parametrize("in_order", [False, True])
def test_l13_a_gang_that_no_node_can_hold_is_in_the_way_unless_in_order(in_order: bool) -> None:
    """docs/waiting.md says so: what a gang has already does not count against its reservations."""
    simulation = Simulation(
        scheduler(
            action("allocate", unready="discard"),
            reserve(threshold=2, in_order=in_order),
            without=["proportion", "drf"],
        ),
        cluster(
            [node("n1", "2C2G")],
            job("large", "2C2G", creation_time=0.01),
            job("never", "1C1G", "1C1G", "1C1G", creation_time=0.001),
            job("t0000", "1C1G", priority=9, creation_time=0.0001),
            now=1,
        ),
        duration=3,
    )
    for time in range(1, 100):
        simulation.cycle()
        small = [task for task in simulation.started if task.startswith("t")]
        waits = any(
            one.name.startswith("t") and one.tasks[0].uid not in small
            for one in simulation.snapshot.jobs
        )
        runs_on = any(simulation.ends.get(task, 0) > time + 1 for task in small)
        comes = [] if waits or runs_on else [job(f"t{time:04}", "1C1G", creation_time=time)]
        simulation.step(new_jobs=[evolve(one, priority=1) for one in comes])
    assert ("large-1" in simulation.started) is in_order
    assert "never-1" not in simulation.started


@pytest.mark.parametrize("backfill_comes_first", [False, True])
def test_l14_a_gang_with_a_task_that_asks_for_nothing_and_discard_need_backfill_first(
    backfill_comes_first: bool,
) -> None:
    """docs/waiting.md says so: allocate discards what the gang has without that task."""
    discard = action("allocate", unready="discard")
    simulation = Simulation(
        scheduler(*(["backfill", discard] if backfill_comes_first else [discard, "backfill"])),
        cluster([node("n1", "4C4G")], job("g", "1C1G", ""), now=1),
    )
    for _ in range(10):
        simulation.cycle()
        simulation.step()
    assert ("g-1" in simulation.started) is backfill_comes_first


@pytest.mark.parametrize("allocate_comes_first", [False, True])
def test_l15_promises_are_kept_by_backfill_only_if_it_comes_after_them(
    allocate_comes_first: bool,
) -> None:
    """docs/waiting.md says so: promises are made anew in each cycle."""
    release = action("backfill", strategy="release")
    simulation = Simulation(
        scheduler(
            *(["allocate", release] if allocate_comes_first else [release, "allocate"]),
            without=["drf", "proportion"],
        ),
        cluster(
            [node("n1", "2C2G")],
            job("b", "1C1G@n1*"),
            job("a", "1C1G", "1C1G", creation_time=0.001),
            now=1,
        ),
        ends={"b-1": 3},
        duration=2,
    )
    for time in range(1, 60):
        simulation.cycle()
        simulation.step(new_jobs=[job(f"t{time:03}", "1C1G", creation_time=time)])
    assert ("a-1" in simulation.started) is allocate_comes_first
