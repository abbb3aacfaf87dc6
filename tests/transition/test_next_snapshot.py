"""What becomes of each task in the next snapshot."""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.support.decided import (
    BINDING,
    RELEASING,
    RESERVED,
    RUNNING,
    result_of,
    snapshot_of,
    task,
    tasks_of,
)

from batchsched import (
    CycleResult,
    JobInfo,
    SchedulerConfig,
    TaskStatus,
    next_snapshot,
    schedule,
)


def test_bound_tasks_run_with_the_mark_that_was_decided() -> None:
    result = result_of(a=(BINDING, "n1", True), b=(BINDING, "n2", False))
    after = next_snapshot(snapshot_of(task("a"), task("b")), result, now=11)
    assert tasks_of(after) == {"a": ("Running", "n1", True), "b": ("Running", "n2", False)}
    assert after.now == 11


def test_tasks_that_have_not_started_are_bound_until_they_do() -> None:
    result = result_of(a=(BINDING, "n1", False))
    after = next_snapshot(snapshot_of(task("a")), result, now=11, not_started=["a"])
    assert tasks_of(after) == {"a": ("Bound", "n1", False)}
    again = next_snapshot(after, CycleResult(), now=12, not_started=["a"])
    assert again.jobs[0] is after.jobs[0]
    started = next_snapshot(again, CycleResult(), now=13)
    assert tasks_of(started) == {"a": ("Running", "n1", False)}


def test_an_evicted_task_comes_back_unmarked_once_it_is_gone() -> None:
    before = snapshot_of(task("a", RUNNING, "n1", mark=True))
    result = result_of(a=(RELEASING, "n1", True))
    leaving = next_snapshot(before, result, now=11, still_releasing=["a"])
    assert tasks_of(leaving) == {"a": ("Releasing", "n1", True)}
    assert tasks_of(next_snapshot(leaving, CycleResult(), now=12)) == {
        "a": ("Pending", None, False)
    }


def test_the_caller_says_what_replaces_a_task_that_is_gone() -> None:
    before = snapshot_of(task("a", RUNNING, "n1"), task("b", RUNNING, "n1"))
    after = next_snapshot(
        before,
        result_of(a=(RELEASING, "n1", False), b=(RELEASING, "n1", False)),
        now=11,
        replacement=lambda old: None if old.uid == "a" else task("b-again"),
    )
    assert tasks_of(after) == {"b-again": ("Pending", None, False)}


@pytest.mark.parametrize("status", [TaskStatus.PIPELINED, TaskStatus.CONDITIONAL])
def test_placements_of_a_session_are_forgotten_and_nothing_is_copied(status: TaskStatus) -> None:
    before = snapshot_of(task("a", mark=True))
    after = next_snapshot(before, result_of(a=(status, "n1", True)), now=11)
    assert tasks_of(after) == {"a": ("Pending", None, True)}
    assert after.jobs[0] is before.jobs[0]


def test_reservations_are_kept_or_given_up_as_a_whole() -> None:
    before = snapshot_of(task("a"), task("b", RESERVED, "n1"), task("c", RESERVED, "n1"))
    result = result_of(a=(RESERVED, "n2", False), b=(RESERVED, "n1", False))
    assert tasks_of(next_snapshot(before, result, now=11)) == {
        "a": ("Reserved", "n2", False),
        "b": ("Reserved", "n1", False),
        "c": ("Pending", None, False),
    }
    given_up = next_snapshot(before, result, now=11, keep_reservations=False)
    assert {place[0] for place in tasks_of(given_up).values()} == {"Pending"}


def test_the_other_half_of_a_reserved_gang_is_reserved_where_it_fits() -> None:
    gang = JobInfo(name="g", queue="q", tasks=[task(uid) for uid in "abcdefgh"])
    before = evolve(snapshot_of(), jobs=[gang])
    allocated = (TaskStatus.ALLOCATED, "n1", False)
    after = next_snapshot(
        before,
        result_of(
            **dict.fromkeys("abc", (RESERVED, "n1", False)),
            **dict.fromkeys("de", allocated),
            f=(TaskStatus.PENDING, None, False),
            g=(TaskStatus.PENDING, None, False),
            h=(TaskStatus.ALLOCATED, "n2", False),
        ),
        now=11,
    )
    places = {uid: place[:2] for uid, place in tasks_of(after).items()}
    assert places["d"] == ("Reserved", "n1")
    assert places["e"] == ("Pending", None)  # a to d fill the node
    assert places["h"] == ("Reserved", "n2")


def test_without_a_cycle_everything_stays_but_what_was_on_its_way() -> None:
    before = snapshot_of(
        task("a", RESERVED, "n1"), task("b", TaskStatus.BOUND, "n1"), task("c", RUNNING, "n1")
    )
    after = next_snapshot(before, None, now=11, failed=["c"])
    assert tasks_of(after) == {
        "a": ("Reserved", "n1", False),
        "b": ("Running", "n1", False),
        "c": ("Failed", None, False),
    }


def test_tasks_that_wait_can_be_withdrawn_and_those_that_ended_deleted() -> None:
    before = snapshot_of(
        *(task("pending"), task("reserved", RESERVED, "n1"), task("bound now")),
        *(task("running", RUNNING, "n1"), task("done", TaskStatus.SUCCEEDED), task("left")),
        other_tasks=(task("daemon", RUNNING, "n1"),),
    )
    result = result_of(**{"reserved": (RESERVED, "n1", False), "bound now": (BINDING, "n1", False)})
    removed = ["pending", "reserved", "bound now", "running", "done", "daemon"]
    after = next_snapshot(before, result, now=11, removed_tasks=removed)
    assert tasks_of(after) == {"left": ("Pending", None, False)}
    assert after.other_tasks == ()
    assert len(after.jobs) == len(before.jobs)


def test_nodes_come_and_go_and_reservations_on_them_stay_for_the_session_to_drop() -> None:
    before = snapshot_of(task("a", RUNNING, "n1"), task("b", RESERVED, "n1"))
    result = result_of(a=(RUNNING, "n1", False), b=(RESERVED, "n1", False))
    after = next_snapshot(before, result, now=11, nodes=before.nodes[1:], gone=["a"])
    assert tasks_of(after) == {"a": ("Pending", None, False), "b": ("Reserved", "n1", False)}
    dropped = schedule(after).dropped_reservations
    assert [(promise.task_uid, promise.node_name) for promise in dropped] == [("b", "n1")]


def test_a_job_may_end_and_be_removed_at_once_and_its_name_used_again() -> None:
    before = snapshot_of(task("a", RUNNING, "n1"))
    again = JobInfo(name="j-a", queue="q", tasks=[task("a2")])
    after = next_snapshot(
        before,
        CycleResult(),
        now=11,
        succeeded=["a"],
        removed_jobs=["default/j-a"],
        new_jobs=[again],
    )
    assert after.jobs == (again,)


def test_other_tasks_end_and_go() -> None:
    others = (task("x", RUNNING, "n1"), task("y", RUNNING, "n1"), task("z", RUNNING, "n1"))
    after = next_snapshot(
        snapshot_of(other_tasks=others), CycleResult(), now=11, succeeded=["x"], gone=["y"]
    )
    assert [(one.uid, one.status.value) for one in after.other_tasks] == [
        ("x", "Succeeded"),
        ("z", "Running"),
    ]


def test_a_real_cycle_is_carried_on() -> None:
    before = snapshot_of(task("a"), task("b", RUNNING, "n2"))
    config = SchedulerConfig.from_mapping({"actions": "allocate"})
    result = schedule(before, config=config)
    after = next_snapshot(before, result, now=11, succeeded=["b"])
    assert tasks_of(after)["a"][0] == "Running"
    assert tasks_of(after)["b"] == ("Succeeded", None, False)
