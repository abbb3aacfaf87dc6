"""Which events, results and other arguments are refused."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from attrs import evolve
from tests.support.decided import (
    BINDING,
    ONE,
    RELEASING,
    RESERVED,
    RUNNING,
    result_of,
    snapshot_of,
    task,
)

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
    Scheduler,
    Segment,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskOutcome,
    TaskStatus,
    next_snapshot,
    reservations_to_keep,
)


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


@pytest.mark.parametrize(
    ("before", "result", "problem"),
    [
        (
            task("a", TaskStatus.SUCCEEDED),
            result_of(a=(BINDING, "n1", False)),
            "it binds the task, which is Succeeded",
        ),
        (
            task("a", RUNNING, "n2"),
            result_of(a=(BINDING, "n1", False)),
            "it binds the task, which is Running",
        ),
        (
            task("a"),
            result_of(a=(BINDING, "n9", False)),
            "it binds the task to 'n9', which was not there",
        ),
        (
            task("a"),
            result_of(a=(RELEASING, "n1", False)),
            "it evicts the task, which is Pending",
        ),
        (
            task("a", RUNNING, "n2"),
            result_of(a=(RELEASING, "n1", False)),
            "it evicts the task from 'n1', which is on 'n2'",
        ),
        (
            task("a", RUNNING, "n1"),
            result_of(a=(RESERVED, "n1", False)),
            "it keeps a place for the task, which is Running",
        ),
    ],
)
def test_a_result_of_another_snapshot_is_refused(
    before: TaskInfo, result: CycleResult, problem: str
) -> None:
    message = re.escape(f"result.tasks['a']: {problem}; the result is of another snapshot")
    with pytest.raises(EventError, match=f"^{message}$"):
        next_snapshot(snapshot_of(before), result, now=11)


def test_decisions_that_contradict_each_other_are_refused() -> None:
    result = CycleResult(
        binds=result_of(a=(BINDING, "n1", False)).binds,
        reserved=result_of(a=(RESERVED, "n1", False)).reserved,
    )
    with pytest.raises(EventError, match=r"^result.tasks\['a'\]: two decisions name the task$"):
        next_snapshot(snapshot_of(task("a")), result, now=11)


def test_two_reservations_of_one_task_are_refused() -> None:
    (once,) = result_of(a=(RESERVED, "n1", False)).reserved
    result = CycleResult(reserved=[once, evolve(once, node_name="n2")])
    with pytest.raises(
        EventError, match=r"^result.reserved\['a'\]: two reservations name the task$"
    ):
        next_snapshot(snapshot_of(task("a")), result, now=11)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"keep_reservations": "no"}, "keep_reservations: expected True or False, got 'no'"),
        (
            {"succeeded": "ab"},
            "succeeded: expected a collection such as a list, got 'ab'; use ['ab']",
        ),
        (
            {"removed_jobs": "ab"},
            "removed_jobs: expected a collection such as a list, got 'ab'; use ['ab']",
        ),
        ({"gone": 5}, "gone: expected a collection such as a list, got 5"),
        ({"failed": [["a"]]}, "failed[0]: expected a string, got ['a']"),
        ({"removed_tasks": [None]}, "removed_tasks[0]: expected a string, got None"),
        ({"new_jobs": [None]}, "new_jobs[0]: expected a JobInfo, got None"),
        ({"nodes": [None]}, "nodes[0]: expected a NodeInfo, got None"),
        ({"nodes": "n1"}, "nodes: expected a collection such as a list or None, got 'n1'"),
        (
            {"new_jobs": {"a": 1}},
            "new_jobs: expected a collection such as a list, got {'a': 1}",
        ),
        ({"queues": 5}, "queues: expected a collection such as a list or None, got 5"),
        ({"queues": [1]}, "queues[0]: expected a Queue, got 1"),
        ({"other_tasks": [{}]}, "other_tasks[0]: expected a TaskInfo, got {}"),
        ({"now": None}, "now: expected a number, got None"),
        ({"now": math.inf}, "now: expected a time (a finite number of seconds), got inf"),
        ({"result": "bound"}, "result: expected a CycleResult or None, got 'bound'"),
        ({"snapshot": None}, "snapshot: expected a Snapshot, got None"),
        (
            {"replacement": lambda _task: 5, "gone": ["r"]},
            "replacement['r']: expected a TaskInfo, which comes in the place of the task, got 5",
        ),
    ],
)
def test_arguments_that_are_not_what_they_should_be_are_faults(arguments: Any, fault: str) -> None:
    given = {
        "snapshot": snapshot_of(task("r", RUNNING, "n1")),
        "result": CycleResult(),
        "now": 11,
        **arguments,
    }
    snapshot, result = given.pop("snapshot"), given.pop("result")
    with pytest.raises(EventError) as caught:
        next_snapshot(snapshot, result, **given)
    assert [str(one) for one in caught.value.faults] == [fault]


def test_arguments_of_the_wrong_type_are_told_all_at_once_and_before_anything_else() -> None:
    wrong: Any = None
    with pytest.raises(EventError) as caught:
        next_snapshot(
            wrong,
            5,  # type: ignore[arg-type]
            now=wrong,
            replacement=wrong,
            keep_reservations=1,  # type: ignore[arg-type]
            gone="a",
            failed=["nobody"],
            nodes=[wrong],
            new_jobs=[wrong],
        )
    paths = [fault.path for fault in caught.value.faults]
    assert paths == [
        *("snapshot", "result", "now", "gone", "replacement", "new_jobs[0]", "nodes[0]"),
        "keep_reservations",
    ]


@pytest.mark.parametrize("broken", [{"name": ["n1"]}, {"name": "n1", "labels": None}], ids=str)
def test_what_is_wrong_with_nodes_themselves_is_a_fault_of_the_snapshot(broken: Any) -> None:
    nodes = [NodeInfo(**{"allocatable": ONE, **broken})]
    before = snapshot_of(evolve(task("a", RESERVED, "n1"), node_selector={"disk": "ssd"}))
    result = result_of(a=(RESERVED, "n1", False))
    with pytest.raises(SnapshotError, match=r"^nodes\["):
        next_snapshot(before, result, now=11, nodes=nodes)
    with pytest.raises(EventError, match=r"^gone\['x'\]: there is no such task$"):
        next_snapshot(before, result, now=11, nodes=nodes, gone=["x"])


def test_tasks_on_a_node_that_is_no_more_must_be_accounted_for() -> None:
    before = snapshot_of(task("a", RUNNING, "n1"))
    with pytest.raises(EventError, match="the task is on 'n1', which is no more"):
        next_snapshot(before, CycleResult(), now=11, nodes=before.nodes[1:])


def test_a_task_that_is_not_going_cannot_be_still_releasing() -> None:
    before = snapshot_of(task("a", RUNNING, "n1"))
    with pytest.raises(EventError, match="only one that is Releasing has yet to leave"):
        next_snapshot(before, CycleResult(), now=11, still_releasing=["a"])


def test_what_is_wrong_with_new_jobs_themselves_is_a_fault_of_the_snapshot() -> None:
    with pytest.raises(SnapshotError, match="expected 0 or more, got -1"):
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


def test_a_reservation_on_a_node_that_was_not_there_is_of_another_snapshot() -> None:
    before = snapshot_of(task("a"))
    with pytest.raises(EventError, match=re.escape("result.reserved['a']: 'n9' was not there")):
        next_snapshot(before, result_of(a=(RESERVED, "n9", False)), now=11)


def test_a_replacement_that_cannot_be_called_is_refused_before_it_is_needed() -> None:
    nothing: Any = None
    with pytest.raises(EventError, match="replacement: expected a function, got None"):
        next_snapshot(snapshot_of(task("a")), None, now=11, replacement=nothing)


# Results made by hand


def faults_of(result: CycleResult, *tasks: TaskInfo, **events: Any) -> list[str]:
    before = snapshot_of(*(tasks or (task("a"), task("b", RUNNING, "n1"))))
    with pytest.raises(EventError) as caught:
        next_snapshot(before, result, **{"now": 11, **events})
    return [str(fault) for fault in caught.value.faults]


EVICTION = Eviction(task_uid="b", node_name="n1", action="preempt", for_task_uid="a")
PROMISE = Promise(task_uid="a", node_name="n1")


@pytest.mark.parametrize(
    ("part", "kind"), [("binds", "Bind"), ("evictions", "Eviction"), ("reserved", "Promise")]
)
@pytest.mark.parametrize("wrong", [None, 5, "ab", b"ab", {"a": "n1"}, {}], ids=str)
def test_decisions_that_are_no_collection_are_faults(part: str, kind: str, wrong: Any) -> None:
    result = CycleResult(**{part: wrong})
    message = f"result.{part}: expected a collection of {kind}, got {wrong!r}; use a list"
    assert faults_of(result) == [message]
    with pytest.raises(EventError) as caught:
        reservations_to_keep(result, snapshot_of(task("a")))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"binds": (("a", "n1"),)}, ["binds[0]: expected a Bind, got ('a', 'n1')"]),
        (
            {"binds": [Bind(task_uid="a", node_name="n1"), Bind(task_uid=["a"], node_name="n1")]},  # type: ignore[arg-type]
            ["binds[1].task_uid: expected a string, got ['a']"],
        ),
        (
            {"binds": [Bind(task_uid="a", node_name=["n1"], is_backfill=1)]},  # type: ignore[arg-type]
            [
                "binds[0].node_name: expected a string, got ['n1']",
                "binds[0].is_backfill: expected True or False, got 1",
            ],
        ),
        (
            {
                "evictions": [
                    evolve(EVICTION, task_uid=5, node_name=None, action=5, for_task_uid=[])
                ]
            },
            [
                "evictions[0].task_uid: expected a string, got 5",
                "evictions[0].node_name: expected a string, got None",
                "evictions[0].action: expected a string, got 5",
                "evictions[0].for_task_uid: expected a string, got []",
            ],
        ),
        (
            {"reserved": [evolve(PROMISE, task_uid=["a"]), evolve(PROMISE, node_name={})]},
            [
                "reserved[0].task_uid: expected a string, got ['a']",
                ("reserved[1].node_name: expected a string, got {}"),
            ],
        ),
        (
            {"reserved": [PROMISE], "tasks": None},
            [("tasks: expected a mapping such as a dict, got None")],
        ),
        (
            {"reserved": [PROMISE], "tasks": {"a": "Allocated", 5: "x"}},
            [
                "tasks['a']: expected a TaskOutcome, got 'Allocated'",
                "tasks[5]: expected a UID (a string), got 5",
                "tasks[5]: expected a TaskOutcome, got 'x'",
            ],
        ),
        (
            {"tasks": {"a": TaskOutcome(status="Allocated", node_name=["n1"])}},  # type: ignore[arg-type]
            [
                (
                    "tasks['a'].status: expected a TaskStatus, got 'Allocated'; use "
                    "TaskStatus.ALLOCATED"
                ),
                "tasks['a'].node_name: expected a string or None, got ['n1']",
            ],
        ),
    ],
    ids=str,
)
def test_decisions_that_cannot_be_read_are_faults(result: Any, expected: list[str]) -> None:
    given = CycleResult(**result)
    expected = [f"result.{fault}" for fault in expected]
    assert faults_of(given) == expected
    with pytest.raises(EventError) as caught:
        reservations_to_keep(given, snapshot_of(task("a")))
    assert [str(fault) for fault in caught.value.faults] == expected


def test_a_result_that_cannot_be_read_is_told_alone() -> None:
    unreadable: Any = ("a", "n1")
    result = CycleResult(binds=[unreadable])
    said = faults_of(result, not_started=["a"], succeeded=["ghost"], nodes=[], now=9)
    assert said == ["result.binds[0]: expected a Bind, got ('a', 'n1')"]


@pytest.mark.parametrize("warm", [False, True])
def test_past_use_of_queues_does_not_hide_that_a_result_cannot_be_read(warm: bool) -> None:
    wrong: Any = Segment(2, "rack")
    scheduler = Scheduler(warm=warm)
    snapshot = evolve(_running_on("n1"), queues=[Queue(name="q", usage_half_life=5.0)])
    for now in (1, 2):
        snapshot = next_snapshot(snapshot, scheduler.schedule(snapshot), now=now)
    result = evolve(scheduler.schedule(snapshot), evictions=(wrong,))
    with pytest.raises(EventError, match=r"^result.evictions\[0\]: expected an Eviction, got Seg"):
        next_snapshot(snapshot, result, now=3)


def test_what_is_wrong_with_what_a_new_job_depends_on_is_a_fault_of_the_snapshot() -> None:
    wrong: Any = 5
    job = evolve(JobInfo(name="new", queue="q"), depends_on=wrong)
    with pytest.raises(SnapshotError, match=r"^jobs\['default/new'\].depends_on: expected a coll"):
        next_snapshot(snapshot_of(task("a")), None, now=11, new_jobs=[job])


def test_an_eviction_for_a_task_that_is_not_there_is_of_another_snapshot() -> None:
    result = CycleResult(evictions=[EVICTION, evolve(EVICTION, task_uid="c", for_task_uid="ghost")])
    tasks = task("a"), task("b", RUNNING, "n1"), task("c", RUNNING, "n1")
    assert faults_of(result, *tasks) == [
        (
            "result.evictions['c'].for_task_uid: expected a task of a job, got 'ghost'; the "
            "result is of another snapshot"
        )
    ]


def test_a_job_that_is_removed_twice_is_refused_like_an_event_that_is_named_twice() -> None:
    said = faults_of(CycleResult(), removed_jobs=["default/j-a", "default/j-b", "default/j-a"])
    assert said == ["removed_jobs['default/j-a']: the job is named twice"]


# Replacements


@pytest.mark.parametrize("event", ["gone", "by itself"])
def test_a_replacement_that_is_on_a_node_is_refused(event: str) -> None:
    status = RUNNING if event == "gone" else RELEASING
    before = task("b", status, "n1")
    events = {"gone": ["b"]} if event == "gone" else {}
    for wrong, message in (
        (before, "it is on 'n1'; what comes new is on no node, see as_new"),
        (task("c", RESERVED, "n2"), "it is on 'n2'; what comes new is on no node, see as_new"),
        (
            task("c", RELEASING),
            "it is Releasing; what comes new is Pending, see as_new, or has ended",
        ),
    ):
        said = faults_of(CycleResult(), before, replacement=lambda _task, to=wrong: to, **events)
        assert said == [f"replacement['b']: {message}"]


def test_a_replacement_may_be_another_task_that_is_pending_or_has_ended() -> None:
    before = snapshot_of(task("b", RUNNING, "n1"))
    for status in (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED):
        comes = task("new", status)
        after = next_snapshot(
            before, None, now=11, gone=["b"], replacement=lambda _task, to=comes: to
        )
        assert after.jobs[0].tasks == (comes,)


def test_a_replacement_that_raises_is_a_fault_with_its_cause() -> None:
    before = snapshot_of(task("a", RUNNING, "n1"), task("b", RUNNING, "n1"))

    def fails(of: TaskInfo) -> TaskInfo:
        raise KeyError(of.uid)

    with pytest.raises(EventError) as caught:
        next_snapshot(before, None, now=9, gone=["a", "b"], replacement=fails)
    assert [str(fault) for fault in caught.value.faults] == [
        "now: 9 is before the last cycle, which was at 10",
        "replacement['a']: it raised KeyError: 'a'",
        "replacement['b']: it raised KeyError: 'b'",
    ]
    assert repr(caught.value.__cause__) == "KeyError('a')"


# What is given to reservations_to_keep


def test_what_reservations_to_keep_is_given_is_checked_all_at_once() -> None:
    wrong: Any = None
    with pytest.raises(EventError) as caught:
        reservations_to_keep(wrong, wrong, nodes=[wrong])
    assert [str(fault) for fault in caught.value.faults] == [
        "result: expected a CycleResult, got None",
        "snapshot: expected a Snapshot, got None",
        "nodes[0]: expected a NodeInfo, got None",
    ]
    broken = NodeInfo(name="n1", labels=wrong)
    with pytest.raises(
        SnapshotError,
        match=(
            r"^nodes\['n1'\].labels: expected a mapping such as a dict, got "
            r"None"
        ),
    ):
        reservations_to_keep(
            CycleResult(reserved=[PROMISE]), snapshot_of(task("a")), nodes=[broken]
        )


def _running_on(name: str) -> Snapshot:
    """Two nodes, a task that runs on one of them, and one that waits."""
    running = TaskInfo(
        uid="r",
        name="r",
        resreq=Resource(milli_cpu=1000),
        status=TaskStatus.RUNNING,
        node_name=name,
    )
    waiting = TaskInfo(uid="w", name="w", resreq=Resource(milli_cpu=1000))
    return Snapshot(
        nodes=[NodeInfo(name=n, allocatable=Resource(milli_cpu=4000)) for n in ("n1", "n2")],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="j", queue="q", tasks=[running, waiting])],
    )


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_a_result_of_a_snapshot_with_the_same_names_is_recognised(kept: bool, warm: bool) -> None:
    """All that is decided, a bind to n2, would fit; but another task stood elsewhere."""
    result = Scheduler(warm=warm).schedule(_running_on("n1"))
    assert [bind.node_name for bind in result.binds] == ["n2"]
    if kept:
        result = CycleResult.from_dict(result.to_dict())
    problem = "Running on 'n1' by it, and Running on 'n2'; the result is of another snapshot"
    with pytest.raises(EventError, match=re.escape(f"result.tasks['r']: {problem}")):
        next_snapshot(_running_on("n2"), result, now=1)
    following = next_snapshot(_running_on("n1"), result, now=1)
    assert all(task.status is TaskStatus.RUNNING for task in following.jobs[0].tasks)


def test_a_result_without_decisions_is_recognised_by_where_tasks_stand() -> None:
    full = _running_on("n1")
    full = evolve(full, nodes=[evolve(node, unschedulable=True) for node in full.nodes])
    result = Scheduler().schedule(full)
    assert not result.binds
    later = next_snapshot(full, result, now=1, succeeded=["r"])
    with pytest.raises(EventError, match="Running on 'n1' by it, and Succeeded"):
        next_snapshot(later, result, now=2)
    [job] = later.jobs
    fewer = evolve(later, jobs=[evolve(job, tasks=job.tasks[:1])])
    with pytest.raises(EventError, match=r"result.tasks\['w'\]: no job has such a task"):
        next_snapshot(fewer, result, now=2)
    started = evolve(job.tasks[1], status=TaskStatus.RUNNING, node_name="n2")
    other = evolve(full, jobs=[evolve(job, tasks=[full.jobs[0].tasks[0], started])])
    with pytest.raises(EventError, match="Pending by it, and Running on 'n2'"):
        next_snapshot(other, result, now=2)


def test_a_result_may_lack_outcomes() -> None:
    """Who makes results by hand, or keeps the decisions alone, has none."""
    snapshot = _running_on("n1")
    result = evolve(Scheduler().schedule(snapshot), tasks={})
    following = next_snapshot(snapshot, result, now=1)
    assert all(task.status is TaskStatus.RUNNING for task in following.jobs[0].tasks)
