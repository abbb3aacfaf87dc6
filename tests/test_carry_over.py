"""The next snapshot: what becomes of each task, and which events are refused."""

from __future__ import annotations

import pytest
from attrs import evolve

from batchsched import (
    Bind,
    CycleResult,
    EventError,
    Eviction,
    FaultsError,
    JobInfo,
    NodeInfo,
    Promise,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskOutcome,
    TaskStatus,
    next_snapshot,
    schedule,
)

ONE = Resource(milli_cpu=1000)


def task(
    uid: str, status: TaskStatus = TaskStatus.PENDING, node: str | None = None, mark: bool = False
) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, status=status, node_name=node, is_backfill=mark, resreq=ONE)


def snapshot_of(*tasks: TaskInfo, other_tasks: tuple[TaskInfo, ...] = ()) -> Snapshot:
    return Snapshot(
        nodes=[NodeInfo(name=name, allocatable=ONE * 4) for name in ("n1", "n2")],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name=f"j-{one.uid}", queue="q", tasks=[one]) for one in tasks],
        other_tasks=other_tasks,
        now=10,
    )


def tasks_of(snapshot: Snapshot) -> dict[str, tuple[str, str | None, bool]]:
    return {
        one.uid: (one.status.value, one.node_name, one.is_backfill)
        for job in snapshot.jobs
        for one in job.tasks
    }


def result_of(**outcomes: tuple[TaskStatus, str | None, bool]) -> CycleResult:
    """A result in which tasks, by UID, end with a status, on a node, marked or not."""
    binds, evictions, reserved = [], [], []
    for uid, (status, node, mark) in outcomes.items():
        if status is TaskStatus.BINDING:
            binds.append(Bind(task_uid=uid, node_name=node, is_backfill=mark))
        elif status is TaskStatus.RELEASING:
            evictions.append(
                Eviction(task_uid=uid, node_name=node, action="preempt", for_task_uid="x")
            )
        elif status is TaskStatus.RESERVED:
            reserved.append(Promise(task_uid=uid, node_name=node))
    return CycleResult(
        binds=tuple(binds),
        evictions=tuple(evictions),
        reserved=tuple(reserved),
        tasks={
            uid: TaskOutcome(status=status, node_name=node, is_backfill=mark)
            for uid, (status, node, mark) in outcomes.items()
        },
    )


BINDING, RELEASING = TaskStatus.BINDING, TaskStatus.RELEASING
RESERVED, RUNNING = TaskStatus.RESERVED, TaskStatus.RUNNING


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


def test_all_wrong_events_are_reported_at_once() -> None:
    before = snapshot_of(
        task("p"), task("r", RUNNING, "n1"), task("r2", RUNNING, "n1"), task("v", RESERVED, "n1")
    )
    result = result_of(v=(RESERVED, "n1", False), ghost=(BINDING, "n1", False))
    with pytest.raises(EventError) as caught:
        next_snapshot(
            before,
            result,
            now=9,
            succeeded=["p", "nobody"],
            failed=["r", "v"],
            gone=["r"],
            not_started=["r2"],
            new_jobs=[JobInfo(name="j-p", queue="q")],
            removed_jobs=["default/none"],
        )
    assert isinstance(caught.value, FaultsError)
    assert isinstance(caught.value, ValueError)
    assert [str(fault) for fault in caught.value.faults] == [
        "gone['r']: 'failed' names the task already",
        "now: 9 is before the last cycle, which was at 10",
        "removed_jobs['default/none']: there is no such job",
        "new_jobs['default/j-p']: there is such a job already",
        "succeeded['nobody']: there is no such task",
        "result.tasks['ghost']: there is no such task; the result is of another snapshot",
        "succeeded['p']: the task is Pending; only one that is on a node can have succeeded",
        "not_started['r2']: the task is Running; only one that is bound has yet to start",
        "failed['v']: the task is Reserved; only one that is on a node can have failed",
    ]


def test_tasks_on_a_node_that_is_no_more_must_be_accounted_for() -> None:
    before = snapshot_of(task("a", RUNNING, "n1"))
    with pytest.raises(EventError, match="the task is on 'n1', which is no more"):
        next_snapshot(before, CycleResult(), now=11, nodes=before.nodes[1:])


def test_a_task_that_is_not_going_cannot_be_still_releasing() -> None:
    before = snapshot_of(task("a", RUNNING, "n1"))
    with pytest.raises(EventError, match="only one that is Releasing has yet to leave"):
        next_snapshot(before, CycleResult(), now=11, still_releasing=["a"])


def test_what_is_wrong_with_new_jobs_themselves_is_a_fault_of_the_snapshot() -> None:
    with pytest.raises(SnapshotError, match="is negative"):
        next_snapshot(
            snapshot_of(),
            CycleResult(),
            now=11,
            new_jobs=[
                JobInfo(
                    name="new",
                    queue="q",
                    tasks=[TaskInfo(uid="u", name="u", resreq=Resource(milli_cpu=-1))],
                )
            ],
        )


def test_a_real_cycle_is_carried_on() -> None:
    before = snapshot_of(task("a"), task("b", RUNNING, "n2"))
    config = SchedulerConfig.from_mapping({"actions": "allocate"})
    result = schedule(before, config)
    after = next_snapshot(before, result, now=11, succeeded=["b"])
    assert tasks_of(after)["a"][0] == "Running"
    assert tasks_of(after)["b"] == ("Succeeded", None, False)
