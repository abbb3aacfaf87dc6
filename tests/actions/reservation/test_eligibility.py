"""Which nodes are kept for whom: what is reserved and allocated there counts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.books import closed, opened
from tests.support.clusters import action, cluster, job, node, places, scheduler

from batchsched import CycleResult, JobInfo, Session, Snapshot, TaskStatus
from batchsched.actions.allocate import AllocateAction
from batchsched.actions.placing import start_reserved_jobs
from batchsched.actions.reserve import can_keep_for_one_job

# One node for one job


def with_jobs(*jobs: JobInfo) -> Session:
    return opened(cluster([node("n1", "4C4G"), node("n2", "9C9G")], *jobs), ["gang"])


def can_keep_n1(session: Session, uid: str) -> bool:
    return can_keep_for_one_job(session, session.task(uid), session.node("n1"))


@pytest.mark.parametrize(("request_", "expected"), [("2C2G", True), ("3C3G", False)])
def test_what_is_reserved_for_the_job_itself_counts(request_: str, expected: bool) -> None:
    session = with_jobs(job("s", "2C2G>n1", request_))
    assert can_keep_n1(session, "s-2") is expected


@pytest.mark.parametrize(("request_", "expected"), [("2C2G", True), ("3C3G", False)])
def test_what_the_job_was_allocated_there_counts(request_: str, expected: bool) -> None:
    session = with_jobs(job("s", "2C2G", request_))
    session.allocate(session.task("s-1"), session.node("n1"))
    assert can_keep_n1(session, "s-2") is expected


def test_a_node_with_a_reservation_for_another_job_is_not_kept() -> None:
    assert not can_keep_n1(with_jobs(job("k", "1C1G>n1"), job("s", "1C1G")), "s-1")


@pytest.mark.parametrize(("other", "expected"), [("9C9G", True), ("9C9G>n2", False)])
def test_a_node_that_another_job_with_reservations_was_allocated_is_not_kept(
    other: str, expected: bool
) -> None:
    session = with_jobs(job("k", "1C1G", other), job("s", "4C4G"))
    session.allocate(session.task("k-1"), session.node("n1"))
    assert can_keep_n1(session, "s-1") is expected


def test_tasks_that_run_will_leave() -> None:
    session = with_jobs(job("r", "4C4G@n1"), job("s", "4C4G", "5C5G"))
    assert can_keep_n1(session, "s-1")
    assert not can_keep_n1(session, "s-2")


# allocate


def test_a_starving_task_is_reserved_no_node_that_was_promised_to_others() -> None:
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "4C4G")],
        job("b", "3C3G@n1*", "3C3G@n2"),
        job("p", "2C2G", priority=10, creation_time=999),
        job("s", "4C4G", creation_time=1),
        now=1000,
    )
    using = scheduler(action("allocate", starvationThreshold=100), without=["proportion"])
    result = using.schedule(snapshot)
    assert places(result, "p", "s") == {"p-1": "Conditional n1", "s-1": "Reserved n2"}


def test_reservations_that_do_not_complete_a_gang_are_given_back_at_once() -> None:
    session = scheduler("allocate", without=["proportion"]).open(
        cluster(
            [node("n1", "4C4G"), node("n2", "4C4G")],
            job("r", "2C2G@n1", "4C4G@n2"),
            job("s", "3C3G", "9C9G", creation_time=1),
            now=1000,
        )
    )
    AllocateAction(starvation_threshold=100).execute(session)
    assert [task.status for task in session.jobs["default/s"].tasks] == [TaskStatus.PENDING] * 2


def test_a_job_that_cannot_start_on_its_nodes_yet_keeps_nobody_from_starting() -> None:
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "4C4G")],
        job("r", "2C2G@n1"),
        job("k", "4C4G>n1", priority=10),
        job("s", "4C4G>n2"),
    )
    session = scheduler("allocate").open(snapshot)
    start_reserved_jobs(session, session.jobs_having(TaskStatus.RESERVED))
    assert session.task("k-1").status is TaskStatus.RESERVED
    assert session.task("s-1").status is TaskStatus.BINDING
    assert closed(session).dropped_reservations == ()


def test_promises_of_an_earlier_turn_are_made_real_though_nothing_is_left_to_place() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("k", "1C1G@n1*"), job("p", "2C2G"))
    using = scheduler(
        "allocate", action("allocate", evictBackfill=True), without=["drf", "proportion"]
    )
    assert places(using.schedule(snapshot), "p") == {"p-1": "Pipelined n1"}


# reserve


def reserved(
    snapshot: Snapshot, *before: str, in_order: bool = True, percent: float = 100
) -> CycleResult:
    arguments: dict[str, Any] = {"starvingJobTimeThreshold": 10, "reservedNodePercent": percent}
    reserve = action("reserve", **arguments, inOrder=in_order)
    return scheduler(*before, reserve, without=["proportion", "drf"]).schedule(snapshot)


def busy(*jobs: JobInfo, nodes: int = 2) -> Snapshot:
    """Nodes of 4 cpu, on each of which a task of 3 cpu runs."""
    return cluster(
        [node(f"n{n}", "4C4G") for n in range(1, nodes + 1)],
        *(job(f"r{n}", f"3C3G@n{n}") for n in range(1, nodes + 1)),
        *jobs,
        now=100,
    )


@pytest.mark.parametrize(
    ("requests", "stands"),
    [
        # It needs both nodes and finds one: it is next in order, and so all others wait.
        (["4C4G", "4C4G"], "Pending"),
        # Both nodes would not be enough: it keeps nobody waiting.
        (["4C4G", "4C4G", "4C4G"], "Reserved n2"),
    ],
)
def test_in_order_who_waits_for_other_reservations_keeps_those_behind_waiting(
    requests: list[str], stands: str
) -> None:
    snapshot = busy(job("k", "4C4G>n1"), job("s", *requests, priority=10), job("t", "2C2G"))
    result = reserved(snapshot)
    assert places(result, "k", "t") == {"k-1": "Reserved n1", "t-1": stands}
    assert set(places(result, "s").values()) == {"Pending"}
    # Not in order, it keeps nobody waiting, and nodes are shared.
    assert places(reserved(snapshot, in_order=False), "t") == {"t-1": "Reserved n2"}


def test_in_order_who_is_reserved_for_keeps_nobody_waiting() -> None:
    snapshot = busy(job("k", "4C4G>n1"), job("s", "4C4G", priority=10), job("t", "4C4G"), nodes=3)
    assert places(reserved(snapshot), "k", "s", "t") == {
        "k-1": "Reserved n1",
        "s-1": "Reserved n2",
        "t-1": "Reserved n3",
    }


def test_in_order_what_was_allocated_where_another_job_is_reserved_for_is_taken_back() -> None:
    snapshot = cluster(
        [node(f"n{n}", "4C4G") for n in (1, 2, 3)],
        *(job(f"r{n}", request) for n, request in enumerate(["1C1G@n1", "3C3G@n2", "3C3G@n3"])),
        job("k", "4C4G", priority=10),
        job("s", "2C2G", "4C4G"),
        now=100,
    )
    assert places(reserved(snapshot, "allocate"), "k", "s") == {
        "k-1": "Reserved n1",
        "s-1": "Reserved n2",
        "s-2": "Reserved n3",
    }


def test_in_order_what_was_allocated_elsewhere_stays_where_it_is() -> None:
    """s-1 would find more room on n2, which is all that s-2 can have."""
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "8C8G")],
        job("r", "3C3G@n2"),
        job("s", "1C1G", "8C8G"),
        now=100,
    )
    assert places(reserved(snapshot, "allocate"), "s") == {
        "s-1": "Allocated n1",
        "s-2": "Reserved n2",
    }


@pytest.mark.parametrize(("percent", "expected"), [(50, "Pending"), (50.1, "Reserved n2")])
def test_the_number_of_nodes_that_may_be_reserved_is_rounded_up(
    percent: float, expected: str
) -> None:
    snapshot = busy(job("s", "4C4G", priority=10), job("t", "4C4G"))
    result = reserved(snapshot, in_order=False, percent=percent)
    assert places(result, "s", "t") == {"s-1": "Reserved n1", "t-1": expected}


def test_a_job_that_is_not_ready_with_all_that_can_be_placed_does_not_come_first() -> None:
    """The best-effort task that h needs as well is not reserve's to place."""
    snapshot = busy(job("h", "1C1G", "", priority=10, creation_time=99), job("s", "4C4G"))
    assert places(reserved(snapshot), "s") == {"s-1": "Reserved n1"}


@pytest.mark.parametrize(
    ("on_n2", "chosen"), [("3C3G@n2", "n1"), ("2C2G@n2", "n2"), ("3.5C3.5G@n2", "n1")]
)
def test_the_node_with_most_room_is_reserved_the_first_of_those_with_as_much(
    on_n2: str, chosen: str
) -> None:
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "4C4G")],
        job("r1", "3C3G@n1"),
        job("r2", on_n2),
        job("s", "4C4G"),
        now=100,
    )
    assert places(reserved(snapshot), "s") == {"s-1": f"Reserved {chosen}"}
