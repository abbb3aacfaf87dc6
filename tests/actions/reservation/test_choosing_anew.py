"""reserve chooses anew: reservations move to nodes where more tasks fit now, and only there."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from attrs import evolve
from tests.reference import reference_schedule
from tests.support.clusters import action, cluster, job, node, places
from tests.support.cycles import Cycles
from tests.support.invariants import check_cycle

from batchsched import (
    CycleResult,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
    TaskStatus,
    next_snapshot,
)
from batchsched.live import JobArrived, TaskSucceeded


def mapping(*actions: Any, **more: Any) -> dict[str, Any]:
    arguments = {"starvingJobTimeThreshold": 0, "reservedNodePercent": 100, **more}
    return {
        "actions": [*actions, action("reserve", **arguments)],
        "tiers": [
            {"plugins": [{"name": n} for n in ("priority", "gang", "predicates", "nodeorder")]}
        ],
    }


def decide(snapshot: Snapshot, using: dict[str, Any]) -> CycleResult:
    """Run a cycle; the plain reference must decide the same, and all invariants hold."""
    return checked(
        snapshot, using, Scheduler(SchedulerConfig.from_mapping(using)).schedule(snapshot)
    )


def checked(snapshot: Snapshot, using: dict[str, Any], result: CycleResult) -> CycleResult:
    """Return what was decided, when it is what the plain reference decides and sound."""
    config = SchedulerConfig.from_mapping(using)
    expected = reference_schedule(snapshot, using)
    assert (result.reserved, dict(result.tasks)) == (expected.reserved, dict(expected.tasks))
    check_cycle(snapshot, result, config)
    return result


def reserved(result: CycleResult, name: str = "s") -> dict[str, str]:
    return {
        uid: place.removeprefix("Reserved ")
        for uid, place in places(result, name).items()
        if place.startswith("Reserved")
    }


@pytest.mark.parametrize("in_order", [True, False])
def test_a_reservation_moves_to_a_node_where_the_task_fits_now(in_order: bool) -> None:
    """n1 and n2 are busy; n3 has become free. One of the two moves, the other stays."""
    snapshot = cluster(
        [node(name, "1C1G") for name in ("n1", "n2", "n3")],
        job("r", "1C1G@n1", "1C1G@n2"),
        job("s", "1C1G>n1", "1C1G>n2"),
        now=100,
    )
    result = decide(snapshot, mapping(inOrder=in_order))
    assert reserved(result) == {"s-1": "n3", "s-2": "n2"}
    assert [p.task_uid for p in result.dropped_reservations] == ["s-1"]
    # The next cycle finds nothing better.
    again = decide(next_snapshot(snapshot, result, now=101), mapping(inOrder=in_order))
    assert reserved(again) == {"s-1": "n3", "s-2": "n2"}


def test_a_reservation_where_the_task_fits_stays_whatever_else_is_free() -> None:
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "1C1G"), node("n3", "9C9G")],
        job("r", "1C1G@n2"),
        job("s", "1C1G>n1", "1C1G>n2", "1C1G>n2", minimum=3),
        now=100,
    )
    assert reserved(decide(snapshot, mapping()))["s-1"] == "n1"


def test_what_fits_nowhere_stays() -> None:
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "1C1G")],
        job("r", "1C1G@n1"),
        job("s", "2C2G>n1"),
        now=100,
    )
    assert reserved(decide(snapshot, mapping())) == {"s-1": "n1"}


@pytest.mark.parametrize(
    "change",
    [
        {"unschedulable": True},
        {"taints": [Taint(key="k", effect=TaintEffect.NO_SCHEDULE)]},
        {"max_tasks": 0},
    ],
)
def test_no_reservation_moves_to_a_node_that_refuses_the_task(change: dict[str, Any]) -> None:
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "1C1G", **change)],
        job("r", "1C1G@n1"),
        job("s", "1C1G>n1"),
        now=100,
    )
    assert reserved(decide(snapshot, mapping())) == {"s-1": "n1"}


def test_no_reservation_moves_to_a_node_that_is_closed_for_another_job() -> None:
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "2C2G"), node("n3", "1C1G")],
        job("r", "1C1G@n1", "1C1G@n3"),
        job("s", "1C1G>n1"),
        job("t", "1C1G>n2", "1C1G>n3"),
        now=100,
    )
    assert reserved(decide(snapshot, mapping())) == {"s-1": "n1"}


def test_no_more_nodes_are_closed_than_before() -> None:
    """s-1 and s-2 wait for n1. One of them would fit on n2, but n1 would stay closed."""
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "1C1G")],
        job("r", "2C2G@n1"),
        job("s", "1C1G>n1", "1C1G>n1"),
        now=100,
    )
    assert reserved(decide(snapshot, mapping())) == {"s-1": "n1", "s-2": "n1"}
    larger = evolve(snapshot, nodes=[snapshot.nodes[0], node("n2", "2C2G")])
    assert reserved(decide(larger, mapping())) == {"s-1": "n2", "s-2": "n2"}


def test_a_more_important_job_that_could_be_scheduled_comes_first() -> None:
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "1C1G")],
        job("r", "1C1G@n1"),
        job("h", "1C1G", priority=9, creation_time=100),
        job("s", "1C1G>n1"),
        now=100,
    )
    assert reserved(decide(snapshot, mapping())) == {"s-1": "n1"}


@pytest.mark.parametrize("in_order", [True, False])
def test_what_was_moved_goes_back_where_the_rest_of_the_job_gets_no_place(in_order: bool) -> None:
    """n2 is free: s-1 would move there, but for s-2 there is no node. So t has it."""
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "1C1G")],
        job("r", "1C1G@n1"),
        job("s", "1C1G>n1", "5C5G"),
        job("t", "1C1G", priority=-1),
        now=100,
    )
    result = decide(snapshot, mapping(inOrder=in_order))
    assert places(result, "t") == {"t-1": "Binding n2"}
    assert reserved(result) == {}
    assert [(p.task_uid, p.node_name) for p in result.dropped_reservations] == [("s-1", "n1")]


def history(seed: int) -> tuple[int, int]:
    """Let gangs come and go on nodes; return how many cycles moved reservations, and how many ran.

    Reservations that fit never get fewer by choosing anew: where one fits, it stays.
    """
    random = Random(seed)
    using = mapping(
        action("allocate", unready="discard"),
        inOrder=random.choice((True, False)),
        reservedNodePercent=random.choice((30, 60, 100)),
        starvingJobTimeThreshold=random.choice((0, 2)),
    )
    living = Cycles(
        Scheduler(SchedulerConfig.from_mapping(using)),
        cluster([node(f"n{n}", random.choice(("1C1G", "2C2G"))) for n in range(5)]),
    )
    moved = number = 0
    for now in range(1, 15):
        jobs = []
        for _ in range(random.choice((0, 1, 2))):
            number += 1
            size = random.choice((1, 1, 2, 3, 4))
            request = random.choice(("1C1G", "1C1G", "2C2G"))
            jobs.append(job(f"j{number:02}", *[request] * size, creation_time=now))
        running = [
            task.uid
            for one in living.snapshot.jobs
            for task in one.tasks
            if task.status is TaskStatus.RUNNING
        ]
        over = [uid for uid in running if random.random() < 0.3]
        living.step(*map(TaskSucceeded, over), *map(JobArrived, jobs), now=now)
        snapshot = living.snapshot
        result = checked(snapshot, using, living.cycle())
        before = {
            task.uid: task.node_name
            for one in snapshot.jobs
            for task in one.tasks
            if task.status is TaskStatus.RESERVED
        }
        moved += any(
            result.tasks[uid].status is TaskStatus.RESERVED and result.tasks[uid].node_name != name
            for uid, name in before.items()
        )
        living.step(now=now + 0.5)
    return moved, number


@pytest.mark.slow
def test_histories_of_gangs_are_decided_as_by_the_reference_and_move_reservations() -> None:
    assert sum(history(seed)[0] for seed in range(10)) > 2
