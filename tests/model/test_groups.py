"""What is wrong with groups and maxima is said at once, with paths; what is right is kept."""

from __future__ import annotations

from tests.support.elastic import elastic, room

from batchsched import (
    Dependency,
    JobEvent,
    JobInfo,
    Scheduler,
    Snapshot,
    SnapshotError,
    TaskGroup,
    TaskInfo,
)
from batchsched.model.rules import unmet_dependencies


def faults(job: JobInfo) -> list[str]:
    try:
        room(9, [job])
    except SnapshotError as error:
        start = "jobs['default/e']."
        return [f"{fault.path.removeprefix(start)}: {fault.message}" for fault in error.faults]
    return []


def test_all_faults_are_told_at_once() -> None:
    groups = [
        TaskGroup("a", parent="nobody", min=1),
        TaskGroup("b", parent="c"),
        TaskGroup("c", parent="b"),
        TaskGroup("d", min=3, max=2),
        TaskGroup("d", min=1),
        TaskGroup("e"),
        TaskGroup("f", min=-1),
        TaskGroup("g", min=2),
        TaskGroup("g.0", parent="g", min=0),
        "no group",
    ]
    job = elastic("e", {"a": "P", "g": "P", "x": "P", None: "P"}, groups=groups)
    assert faults(job) == [
        "groups['d']: expected a unique name, got it again",
        "groups[9]: expected a TaskGroup, got 'no group'",
        "groups['a'].parent: there is no group 'nobody' in this job",
        "groups['d'].max: expected at least its minimum, 3, got 2",
        (
            "groups['e'].min: expected a number of tasks (an integer, 0 or more) for a group of "
            "tasks, got None; use 0 for optional tasks"
        ),
        "groups['f'].min: expected a number of tasks (an integer, 0 or more), got -1",
        "groups['b'].parent: expected a tree, got a cycle: 'b' -> 'c' -> 'b'",
        (
            "tasks['e-0'].group: expected a leaf of the job's groups ("
            "'a', 'd', 'e', 'f', 'g.0'), got None"
        ),
        "tasks['e-g-0'].group: expected a leaf of the job's groups, got 'g', which has subgroups",
        "tasks['e-x-0'].group: there is no group 'x' in this job",
    ]


def test_a_maximum_is_no_less_than_what_must_start_together() -> None:
    one = TaskGroup("a", min=2)
    assert faults(elastic("e", {None: "P"}, min_available=2, max_available=1)) == [
        "max_available: expected at least its minimum, 2, got 1"
    ]
    assert faults(elastic("e", {"a": "P"}, groups=[one], max_available=1)) == [
        "max_available: expected at least 2, the tasks that its groups need, got 1"
    ]


def test_a_job_may_need_more_groups_than_exist_and_waits_for_them() -> None:
    one = TaskGroup("a", min=1)
    inner = [TaskGroup("r", min=2), TaskGroup("a", parent="r", min=1)]
    assert faults(elastic("e", {"a": "P"}, groups=[one], min_groups=2)) == []
    assert faults(elastic("e", {"a": "P"}, groups=inner)) == []
    assert faults(elastic("e", {None: "P"}, min_groups=2)) == []


def test_groups_are_nested_in_at_most_100_levels() -> None:
    def chain(levels: int) -> JobInfo:
        groups = [
            TaskGroup(f"g{level}", parent=f"g{level - 1}" if level > 1 else None, min=1)
            for level in range(1, levels + 1)
        ]
        return elastic("e", {f"g{levels}": "P"}, groups=groups)

    result = Scheduler().schedule(room(1, [chain(100)]))
    assert [bind.task_uid for bind in result.binds] == ["e-g100-0"]
    assert faults(chain(2000)) == [
        "groups['g101'].parent: expected at most 100 levels of groups, got one in a further level"
    ]


def test_a_group_without_groups_of_the_job_is_a_fault() -> None:
    assert faults(elastic("e", {"a": "P"})) == [
        "tasks['e-a-0'].group: there is no group 'a' in this job; known: none"
    ]


def test_a_task_of_no_job_is_in_no_group() -> None:
    try:
        Snapshot(other_tasks=[TaskInfo(uid="u", name="u", group="a")])
    except SnapshotError as error:
        (fault,) = error.faults
    assert fault.path == "other_tasks['u'].group"


def test_groups_are_kept_as_plain_data() -> None:
    groups = [TaskGroup("a", min=1, max=2), TaskGroup("r"), TaskGroup("r.0", parent="r", min=0)]
    of = {"a": "RP", "r.0": "P"}
    snapshot = room(3, [elastic("e", of, groups=groups, min_groups=1, max_available=2)])
    assert Snapshot.from_dict(snapshot.to_dict()) == snapshot


def test_a_job_has_started_for_others_once_its_groups_have() -> None:
    groups = [TaskGroup("a", min=1), TaskGroup("b", min=1)]
    after = JobInfo(
        name="f", queue="a", depends_on=[Dependency(job="default/e", on=JobEvent.STARTED)]
    )
    half = elastic("e", {"a": "RR", "b": "P"}, groups=groups)
    whole = elastic("e", {"a": "R", "b": "R"}, groups=groups)
    assert "default/f" in unmet_dependencies([half, after])
    assert "default/f" not in unmet_dependencies([whole, after])
