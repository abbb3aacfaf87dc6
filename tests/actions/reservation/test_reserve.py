"""reserve: who comes first, whom it passes over, and which node it chooses."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.books import closed
from tests.support.clusters import action, bound, cluster, job, node, places, scheduler

from batchsched import JobInfo, Resource, Snapshot
from batchsched.session.cycle import drop_reservations


def reserve(**more: Any) -> dict[str, Any]:
    return action("reserve", **{"starvingJobTimeThreshold": 10, "reservedNodePercent": 100, **more})


def test_a_job_of_an_overused_queue_is_passed_over_though_it_could_be_scheduled() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("r", "2C2G@n1", queue="rich"),
        job("h", "1C1G", queue="rich", priority=10, creation_time=99),
        job("s", "4C4G", queue="poor"),
        queues=("rich", "poor"),
        now=100,
    )
    result = scheduler(reserve()).schedule(snapshot)
    assert places(result, "s") == {"s-1": "Reserved n1"}
    # Without shares nobody is overused, and h comes first.
    assert not scheduler(reserve(), without=["proportion"]).schedule(snapshot).reserved


def test_a_ready_job_for_which_one_more_task_fits_comes_first() -> None:
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "1C1G")],
        job("r", "3C3G@n1"),
        job("x", "0.5C0.5G@n2", "1C1G", minimum=1, priority=10),
        job("s", "4C4G"),
        now=100,
    )
    using = scheduler(reserve(), without=["proportion"])
    assert not using.schedule(snapshot).reserved
    large = job("x", "0.5C0.5G@n2", "3C3G", minimum=1, priority=10)
    jobs = [
        evolve(large, creation_time=one.creation_time) if one.name == "x" else one
        for one in snapshot.jobs
    ]
    assert using.schedule(evolve(snapshot, jobs=jobs)).reserved


def test_a_gang_that_comes_first_must_fit_as_a_whole_to_stop_the_action() -> None:
    def snapshot(request: str, minimum: int = 2) -> Snapshot:
        return cluster(
            [node("n1", "4C4G")],
            job("r", "2C2G@n1"),
            job("h", "1C1G", request, minimum=minimum, priority=10, creation_time=99),
            job("s", "4C4G"),
            now=100,
        )

    using = scheduler(reserve(), without=["proportion"])
    assert not using.schedule(snapshot("1C1G")).reserved
    assert using.schedule(snapshot("2C2G")).reserved
    # What it does not need to start does not matter.
    assert not using.schedule(snapshot("2C2G", minimum=1)).reserved


def test_a_job_whose_task_failed_in_this_cycle_does_not_come_first() -> None:
    """allocate tries h before the gang g gives its place back; only then could h have it."""
    jobs = [
        job("r", "2C2G@n1"),
        job("g", "2C2G", "9C9G", priority=20),
        job("h", "0.5C0.5G@n2", "2C2G", minimum=1, priority=10),
        job("s", "4C4G"),
    ]
    snapshot = cluster([node("n1", "4C4G"), node("n2", "0.5C0.5G")], *jobs, now=100)
    release = action("backfill", strategy="release")
    without = ["proportion", "drf"]
    result = scheduler("allocate", release, reserve(), without=without).schedule(snapshot)
    assert places(result, "s") == {"s-1": "Reserved n1"}
    # If nothing has tried it yet, it comes first.
    assert not scheduler(reserve(), without=without).schedule(snapshot).reserved


def with_gpus(one: JobInfo, number: int) -> JobInfo:
    def more(amount: Resource) -> Resource:
        return amount + Resource(scalars={"gpu": 1000 * number})

    return evolve(one, tasks=[evolve(task, resreq=more(task.resreq)) for task in one.tasks])


@pytest.mark.parametrize(("gpus", "chosen"), [(0, "n1"), (4, "n2")])
def test_scalars_weigh_twice_as_much_as_cpu_and_memory_together(gpus: int, chosen: str) -> None:
    """n1 lacks less cpu and memory, n2 fewer gpus: -40 against -70 and -75 against -50 percent.

    For a task with gpus, n1 comes to (-40 + 2 * -75) / 3 and n2 to (-70 + 2 * -50) / 3; if
    scalars weighed no more than the rest, n1 would win by -115 against -120.
    """
    nodes = [
        evolve(
            node(name, "10C10G"),
            allocatable=node(name, "10C10G").allocatable + Resource(scalars={"gpu": 4000}),
        )
        for name in ("n1", "n2")
    ]
    snapshot = cluster(
        nodes,
        with_gpus(job("r1", "4C4G@n1"), 3),
        with_gpus(job("r2", "7C7G@n2"), 2),
        with_gpus(job("s", "10C10G"), gpus),
        now=100,
    )
    result = scheduler("allocate", reserve(), without=["proportion"]).schedule(snapshot)
    assert places(result, "s") == {"s-1": f"Reserved {chosen}"}


def test_a_job_of_a_queue_that_was_overused_at_the_beginning_is_no_starving_job() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("r", "2C2G@n1", queue="rich"),
        job("s", "4C4G", queue="rich"),
        job("p", "2C2G", queue="poor", creation_time=99),
        queues=("rich", "poor"),
        now=100,
    )
    assert not scheduler(reserve()).schedule(snapshot).reserved
    result = scheduler(reserve(), without=["proportion"]).schedule(snapshot)
    assert places(result, "s") == {"s-1": "Reserved n1"}


def test_a_gang_is_allocated_what_is_free_now_and_reserved_the_rest() -> None:
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "4C4G")],
        job("r", "1C1G@n1"),
        job("s", "4C4G", "4C4G"),
        now=100,
    )
    result = scheduler(reserve(inOrder=True), without=["proportion"]).schedule(snapshot)
    assert places(result, "s") == {"s-1": "Allocated n2", "s-2": "Reserved n1"}
    assert not bound(result)


def test_a_reservation_that_is_given_up_twice_is_listed_once() -> None:
    snapshot = cluster([node("n1", "4C4G")], job("r", "1C1G@n1"), job("s", "4C4G>n1"))
    session = scheduler("allocate").open(snapshot)
    (on,) = session.nodes
    drop_reservations(session, session.jobs["default/s"])
    session.reserve(session.task("s-1"), on)
    drop_reservations(session, session.jobs["default/s"])
    dropped = closed(session).dropped_reservations
    assert [(promise.task_uid, promise.node_name) for promise in dropped] == [("s-1", "n1")]
