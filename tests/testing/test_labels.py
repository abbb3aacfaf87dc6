"""Labels that policies read are drawn where they are asked for, and else nothing changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from batchsched import FaultsError, JobInfo, NodeInfo, Snapshot, TaskInfo
from batchsched.testing import jobs, nodes, snapshots, tasks

TEAMS = {"team": ["red", "blue"], "tier": [""]}
FOUND = settings(max_examples=40)


def objects(snapshot: Snapshot) -> list[NodeInfo | JobInfo | TaskInfo]:
    of_jobs = [task for job in snapshot.jobs for task in job.tasks]
    return [*snapshot.nodes, *snapshot.jobs, *of_jobs, *snapshot.other_tasks]


def test_every_kind_of_object_has_and_lacks_each_label() -> None:
    seen: set[tuple[str, str, str | None]] = set()
    alike: set[bool] = set()

    @FOUND
    @given(snapshots(labels=TEAMS, min_tasks=2))
    def run(snapshot: Snapshot) -> None:
        for each in objects(snapshot):
            for key, values in TEAMS.items():
                value = each.labels.get(key)
                assert value is None or value in values
                seen.add((type(each).__name__, key, value))
        for job in snapshot.jobs:
            alike.add(len({task.labels.get("team") for task in job.tasks}) == 1)

    run()
    expected = {
        (kind, key, value)
        for kind in ("NodeInfo", "JobInfo", "TaskInfo")
        for key, values in TEAMS.items()
        for value in (None, *values)
    }
    assert seen == expected
    assert alike == {True, False}


def test_other_labels_are_kept() -> None:
    keys: set[str] = set()

    @FOUND
    @given(snapshots(labels=TEAMS, always=["constraints"]))
    def run(snapshot: Snapshot) -> None:
        keys.update(key for node in snapshot.nodes for key in node.labels)

    run()
    assert {"team", "zone", "disk"} <= keys


@pytest.mark.parametrize("drawn", [jobs(labels=TEAMS), tasks(labels=TEAMS), nodes(labels=TEAMS)])
def test_parts_are_labelled_too(
    drawn: SearchStrategy[JobInfo] | SearchStrategy[TaskInfo] | SearchStrategy[NodeInfo],
) -> None:
    seen: set[str | None] = set()

    @FOUND
    @given(drawn)
    def run(part: JobInfo | TaskInfo | NodeInfo) -> None:
        seen.add(part.labels.get("team"))

    run()
    assert seen == {None, "red", "blue"}


@pytest.mark.parametrize("strategy", [snapshots, jobs, tasks, nodes])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"team": []}, "must be one at least"),
        ({"team": "red"}, "expected a collection such as a list, got 'red'"),
        ({"": ["red"]}, "key '' is empty"),
        (["team"], "expected a mapping such as a dict"),
        ({"team": [1]}, "expected a string, got 1"),
    ],
)
def test_labels_that_cannot_be_are_refused(
    strategy: Callable[..., object], labels: object, message: str
) -> None:
    with pytest.raises(FaultsError, match=message):
        strategy(labels=labels)
