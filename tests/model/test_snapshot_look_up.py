"""Finding parts of a snapshot by name, and how a snapshot presents itself."""

from __future__ import annotations

import pickle
from string import ascii_lowercase
from typing import Any, cast

import pytest
from hypothesis import given

from batchsched import (
    Fault,
    JobInfo,
    NodeInfo,
    Queue,
    Scheduler,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
    UnknownNameError,
    schedule,
)
from batchsched.testing import snapshots

TASKS = [TaskInfo(uid="u1", name="p1"), TaskInfo(uid="u2", name="p2")]
OTHER = TaskInfo(uid="u3", name="daemon", status=TaskStatus.RUNNING, node_name="n1")
SNAPSHOT = Snapshot(
    nodes=[NodeInfo(name="n1")],
    queues=[Queue(name="q")],
    jobs=[JobInfo(name="j<1>", namespace="team", queue="q", tasks=TASKS)],
    other_tasks=[OTHER],
    now=5,
)


@given(snapshots())
def test_every_part_is_found_by_its_name(snapshot: Snapshot) -> None:
    assert all(snapshot.node(node.name) is node for node in snapshot.nodes)
    assert all(snapshot.queue(queue.name) is queue for queue in snapshot.queues)
    assert all(snapshot.job(job.uid) is job for job in snapshot.jobs)
    tasks = [task for job in snapshot.jobs for task in job.tasks]
    assert all(snapshot.task(task.uid) is task for task in (*tasks, *snapshot.other_tasks))


@pytest.mark.parametrize(
    ("look_up", "what"),
    [
        (SNAPSHOT.job, "job"),
        (SNAPSHOT.task, "task"),
        (SNAPSHOT.node, "node"),
        (SNAPSHOT.queue, "queue"),
    ],
)
@pytest.mark.parametrize("name", ["gone", "", None, []])
def test_a_name_that_is_not_there_is_told(look_up: Any, what: str, name: Any) -> None:
    with pytest.raises(UnknownNameError) as caught:
        look_up(name)
    assert str(caught.value) == f"the snapshot has no {what} {name!r}"


def test_having_looked_something_up_makes_no_difference() -> None:
    fresh = Snapshot(
        nodes=SNAPSHOT.nodes,
        queues=SNAPSHOT.queues,
        jobs=SNAPSHOT.jobs,
        other_tasks=SNAPSHOT.other_tasks,
        now=5,
    )
    before = pickle.dumps(fresh)
    fresh.job("team/j<1>")
    assert fresh == SNAPSHOT
    assert hash(fresh) == hash(SNAPSHOT)
    assert pickle.dumps(fresh) == before
    assert pickle.loads(before).task("u1") == TASKS[0]


def test_a_snapshot_is_one_line_with_counts() -> None:
    assert repr(SNAPSHOT) == ("<Snapshot at 5: 1 nodes, 1 queues, 1 jobs, 2 tasks, 1 other tasks>")


def test_a_result_and_a_session_are_one_line_with_counts() -> None:
    assert repr(schedule(SNAPSHOT)) == (
        "<CycleResult: 2 bound, 0 evicted, 0 pipelined, 0 conditional, 0 reserved, 0 pending>"
    )
    assert repr(Scheduler().open(SNAPSHOT)) == (
        "<Session: 1 nodes, 1 queues, 1 jobs, 2 tasks; 0 bound, 0 evicted>"
    )


def test_notebooks_get_tables() -> None:
    table = SNAPSHOT._repr_html_()
    assert "<td>team/j&lt;1&gt;</td><td>q</td>" in table
    assert "2 Pending" in table
    decisions = schedule(SNAPSHOT)._repr_html_()
    assert "<td>bind</td><td>default/p1</td><td>n1</td>" in decisions


def test_tables_show_the_first_rows_and_how_many_more_there_are() -> None:
    jobs = [JobInfo(name=f"j{i:02}", queue="q") for i in range(25)]
    table = Snapshot(jobs=jobs)._repr_html_()
    assert "default/j19" in table
    assert "default/j20" not in table
    assert "... and 5 more" in table


def test_people_read_names_and_not_uids() -> None:
    text = str(schedule(SNAPSHOT))
    assert "bind: default/p1 -> n1" in text
    assert "u1" not in text


def test_a_uid_that_is_the_name_is_shown_as_it_is() -> None:
    assert TaskInfo(uid="t1", name="t1").display_name == "t1"
    assert TaskInfo(uid="x", name="t1", namespace="a").display_name == "a/t1"
    assert TaskInfo(uid="a/t1", name="t1", namespace="a").display_name == "a/t1"


def test_the_same_fault_of_many_items_is_one_line() -> None:
    wrong = cast("Any", "high")
    tasks = [TaskInfo(uid=f"t{n:04}", name="t", priority=wrong) for n in range(3_000)]
    job = JobInfo(name="j", queue="q", tasks=tasks)
    with pytest.raises(SnapshotError) as caught:
        Snapshot(queues=[Queue(name="q", weight=-1)], jobs=[job])
    faults = caught.value.faults
    assert len(faults) == 3_001
    weight, *priorities = sorted(faults, key=lambda fault: "queues" not in fault.path)
    paths = ", ".join(fault.path for fault in priorities[1:3])
    said = {str(weight), f"{priorities[0]} (and 2,999 more: {paths}, ...)"}
    assert {*str(caught.value).splitlines()} == said
    assert {*caught.value.lines} == said


def test_an_error_shows_twenty_lines_and_has_all_faults() -> None:
    faults = [Fault(letter, "is wrong") for letter in ascii_lowercase[:25]]
    error = SnapshotError(faults)
    assert error.faults == tuple(faults)
    assert error.lines == tuple(map(str, faults))
    assert str(error).splitlines() == [*error.lines[:20], "... and 5 more; see `faults`"]
    assert pickle.loads(pickle.dumps(error)).faults == error.faults
    assert str(SnapshotError(faults[:20])).splitlines() == [*error.lines[:20]]


def test_a_name_is_compared_with_those_without_their_namespaces() -> None:
    jobs = [JobInfo(name=name, namespace="team", queue="q") for name in ("adam", "eve")]
    with pytest.raises(UnknownNameError, match="did you mean 'team/adam'"):
        Snapshot(queues=[Queue(name="q")], jobs=jobs).job("ada")
