"""allocate: queue by queue, job by job, on the ladder."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from tests.support.clusters import action, bound, cluster, evicted, job, node, places, scheduler

from batchsched import Queue, Snapshot, TaskStatus
from batchsched.testing import snapshots

PLAIN = scheduler("allocate")


# Order


def test_the_queue_with_the_smaller_share_comes_next_as_of_now() -> None:
    snapshot = cluster(
        [node("n1", "6C0G")],
        job("a", *["1C0G"] * 6, minimum=1),
        job("b", *["1C0G"] * 6, minimum=1, queue="r"),
        queues=("q", "r"),
    )
    # A job that becomes ready goes back after each task: they take turns.
    order = [bind.task_uid for bind in PLAIN.schedule(snapshot).binds]
    assert order == ["a-1", "b-1", "a-2", "b-2", "a-3", "b-3"]


def test_queues_get_no_more_than_they_deserve() -> None:
    snapshot = cluster(
        [node("n1", "6C0G")],
        job("a", *["1C0G"] * 6, minimum=1),
        job("b", *["1C0G"] * 6, minimum=1, queue="r"),
        queues=("q", "r"),
    )
    weighted = evolve(snapshot, queues=[Queue(name="q", weight=2), Queue(name="r")])
    result = PLAIN.schedule(weighted)
    assert sorted(bound(result)) == ["a-1", "a-2", "a-3", "a-4", "b-1", "b-2"]


def test_a_gang_takes_all_it_needs_before_the_next_job_has_its_turn() -> None:
    snapshot = cluster(
        [node("n1", "4C9G")], job("a", *["1C1G"] * 3, minimum=2), job("b", "1C1G", "1C1G")
    )
    result = PLAIN.schedule(snapshot)
    # a is ready after 2 and goes back behind b, which is not ready yet.
    assert [bind.task_uid for bind in result.binds] == ["a-1", "a-2", "b-1", "b-2"]
    assert places(result, "a")["a-3"] == "Pending"


def test_a_task_that_cannot_be_placed_is_passed_over() -> None:
    snapshot = cluster(
        [node("n1", "4C9G")],
        job("a", "9C1G", "1C1G", "9C1G", "1C1G", minimum=1),
        job("b", "1C1G"),
    )
    result = PLAIN.schedule(snapshot)
    assert bound(result) == {"a-2": "n1", "a-4": "n1", "b-1": "n1"}


def test_a_gang_is_given_up_when_what_is_left_is_not_enough_for_it() -> None:
    snapshot = cluster(
        [node("n1", "4C9G")],
        job("a", "1C1G", "9C1G", "9C1G", "1C1G", "1C1G", minimum=4),
        job("b", "1C1G"),
    )
    result = PLAIN.schedule(snapshot)
    assert bound(result) == {"b-1": "n1"}
    # After the second that fits nowhere only three can have a place: it is not tried further.
    assert places(result, "a") == {
        "a-1": "Allocated n1",
        **{f"a-{number}": "Pending" for number in (2, 3, 4, 5)},
    }


def test_promises_that_are_enough_are_kept_when_unready_turns_are_undone() -> None:
    leaving = job("x", "1C1G@n1")
    snapshot = cluster(
        [node("n1", "2C9G")],
        evolve(leaving, tasks=[evolve(leaving.tasks[0], status=TaskStatus.RELEASING)]),
        job("a", "1C1G", "1C1G"),
        job("b", "1C1G"),
    )
    result = scheduler(action("allocate", unready="discard")).schedule(snapshot)
    assert not result.binds
    assert places(result, "a") == {"a-1": "Allocated n1", "a-2": "Pipelined n1"}
    assert places(result, "b") == {"b-1": "Pending"}


def test_best_effort_tasks_are_not_its_business() -> None:
    snapshot = cluster([node("n1", "4C9G")], job("a", "", "1C1G", minimum=1))
    assert bound(PLAIN.schedule(snapshot)) == {"a-2": "n1"}


def test_tasks_of_jobs_that_are_left_out_stay_where_they_are() -> None:
    snapshot = cluster(
        [node("n1", "2C9G")], job("a", "1C1G@n1", "1C1G", minimum=3), job("b", "2C1G")
    )
    result = PLAIN.schedule(snapshot)
    assert not result.binds


# Readiness


def test_a_gang_that_is_not_complete_binds_nothing_and_holds_what_it_has() -> None:
    snapshot = cluster([node("n1", "2C9G")], job("a", *["1C1G"] * 3), job("b", "1C1G"))
    result = PLAIN.schedule(snapshot)
    assert not result.binds
    assert places(result) == {
        "a-1": "Allocated n1",
        "a-2": "Allocated n1",
        "a-3": "Pending",
        "b-1": "Pending",
    }


def test_with_discard_it_holds_nothing_and_the_next_job_finds_room() -> None:
    snapshot = cluster([node("n1", "2C9G")], job("a", *["1C1G"] * 3), job("b", "1C1G"))
    result = scheduler(action("allocate", unready="discard")).schedule(snapshot)
    assert bound(result) == {"b-1": "n1"}
    assert set(places(result, "a").values()) == {"Pending"}


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_with_discard_no_job_is_left_half_placed(snapshot: Snapshot) -> None:
    result = scheduler(action("allocate", unready="discard"), without=["predicates"]).schedule(
        snapshot
    )
    for of in snapshot.jobs:
        statuses = [result.tasks[t.uid].status for t in of.tasks if t.uid in result.tasks]
        if TaskStatus.ALLOCATED in statuses:
            # Only promises and reservations may keep it waiting.
            assert TaskStatus.CONDITIONAL in statuses or TaskStatus.RESERVED in statuses


# The ladder


def leaving(name: str, *requests: str) -> object:
    of = job(name, *requests, minimum=0)
    return evolve(of, tasks=[evolve(t, status=TaskStatus.RELEASING) for t in of.tasks])


def test_a_node_where_it_can_start_now_is_preferred_to_one_where_it_must_wait() -> None:
    snapshot = cluster(
        [node("n1", "4C40G"), node("n2", "1C1G")], leaving("r", "4C1G@n1"), job("a", "1C1G")
    )
    assert places(PLAIN.schedule(snapshot), "a") == {"a-1": "Binding n2"}


def test_what_is_being_released_is_promised() -> None:
    snapshot = cluster([node("n1", "4C9G")], leaving("r", "3C1G@n1"), job("a", "2C1G", "1C1G"))
    result = PLAIN.schedule(snapshot)
    assert not result.binds
    assert places(result, "a") == {"a-1": "Pipelined n1", "a-2": "Allocated n1"}
    # Nobody takes what was promised.
    snapshot = cluster(
        [node("n1", "4C9G")], leaving("r", "3C1G@n1"), job("a", "4C1G"), job("b", "1C1G")
    )
    result = PLAIN.schedule(snapshot)
    assert places(result, "a", "b") == {"a-1": "Pipelined n1", "b-1": "Pending"}


def test_what_backfill_tasks_hold_is_promised_to_jobs_that_are_not_ready() -> None:
    def running(*more: object) -> Snapshot:
        return cluster([node("n1", "4C9G")], job("r", "3C1G@n1*"), *more)

    result = PLAIN.schedule(running(job("a", "2C1G")))
    assert places(result, "a") == {"a-1": "Conditional n1"}
    result = PLAIN.schedule(running(job("a", "1C1G", "2C1G", minimum=1)))
    assert places(result, "a") == {"a-1": "Binding n1", "a-2": "Pending"}  # ready by then
    of = job("a", "1C1G@n1*", "2C1G")
    result = PLAIN.schedule(running(of))
    assert places(result, "a")["a-2"] == "Pending"  # has backfill tasks of its own


def test_promises_are_made_real_where_that_is_asked_for() -> None:
    snapshot = cluster([node("n1", "4C9G")], job("r", "2C1G@n1*", "2C1G@n1*"), job("a", "2C1G"))
    result = scheduler(action("allocate", evictBackfill="true")).schedule(snapshot)
    assert evicted(result) == ["r-2"]
    assert result.evictions[0].for_task_uid == "a-1"
    assert places(result, "a") == {"a-1": "Pipelined n1"}
    result = PLAIN.schedule(snapshot)
    assert evicted(result) == []
    assert places(result, "a") == {"a-1": "Conditional n1"}


def test_promises_stay_promises_if_one_task_finds_not_enough() -> None:
    # The backfill task on n2 belongs to no job of the session: it is not evicted.
    snapshot = cluster(
        [node("n1", "2C9G"), node("n2", "2C9G")],
        job("r", "2C1G@n1*"),
        job("s", "2C1G@n2*", queue="gone"),
        job("a", "2C1G", "2C1G"),
    )
    result = scheduler(action("allocate", evictBackfill=True)).schedule(snapshot)
    assert evicted(result) == []
    assert places(result, "a") == {"a-1": "Conditional n1", "a-2": "Conditional n2"}


# Reservations


def test_jobs_with_reservations_come_first_and_start_on_their_nodes() -> None:
    snapshot = cluster(
        [node("n1", "2C9G"), node("n2", "2C9G")],
        job("a", "2C1G", "2C1G", priority=9, minimum=1),
        job("k", "2C1G>n2"),
    )
    result = PLAIN.schedule(snapshot)
    assert [(b.task_uid, b.node_name) for b in result.binds] == [("k-1", "n2"), ("a-1", "n1")]
    assert result.dropped_reservations == ()


def test_reservations_of_a_job_that_cannot_start_stay_and_close_their_node() -> None:
    snapshot = cluster(
        [node("n1", "4C9G"), node("n2", "1C9G")],
        job("r", "3C1G@n1"),
        job("k", "3C1G>n1"),
        job("a", "1C1G", "1C1G"),
    )
    result = PLAIN.schedule(snapshot)
    assert [p.task_uid for p in result.reserved] == ["k-1"]
    assert places(result, "a") == {"a-1": "Allocated n2", "a-2": "Pending"}
    assert "1 is reserved for other tasks" in result.pending["a-2"].text


@pytest.mark.parametrize(("age", "reserved"), [(101, ["a-1"]), (100, [])])
def test_a_node_is_reserved_for_a_starving_job(age: int, reserved: list[str]) -> None:
    waits = job("a", "3C1G", creation_time=1000.0 - age)
    snapshot = cluster(
        [node("n1", "2C9G"), node("n2", "4C9G"), node("n3", "4C9G")],
        job("r", "2C1G@n2", "2C1G@n3", creation_time=1.0),
        waits,
        now=1000.0,
    )
    result = scheduler(action("allocate", starvationThreshold=100)).schedule(snapshot)
    assert [p.task_uid for p in result.reserved] == reserved
    assert [p.node_name for p in result.reserved] == ["n2"] * len(reserved)


def test_reservations_that_do_not_complete_a_gang_are_undone() -> None:
    waits = job("a", "3C1G", "3C1G", creation_time=1.0)
    snapshot = cluster(
        [node("n1", "4C9G")], job("r", "2C1G@n1", creation_time=1.0), waits, now=1000.0
    )
    result = scheduler(action("allocate", starvationThreshold=100)).schedule(snapshot)
    assert result.reserved == ()
    assert places(result, "a") == {"a-1": "Pending", "a-2": "Pending"}
