"""Jobs, tasks and events are plain data by themselves, as snapshots and logs have them."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from batchsched import JobInfo, NodeInfo, Queue, Resource, TaskInfo, TaskStatus
from batchsched.errors import FormatError
from batchsched.live import (
    Event,
    JobArrived,
    JobChanged,
    NodeAdded,
    QueueChanged,
    TaskFound,
    TaskStarted,
    TimePassed,
)

TASK = TaskInfo(
    uid="t",
    name="t",
    resreq=Resource(milli_cpu=5, scalars={"nvidia.com/gpu": 1000}),
    status=TaskStatus.RUNNING,
    node_name="n",
    node_selector={"pool": "a"},
)
JOB = JobInfo(name="j", queue="q", min_available=1, tasks=[TASK], labels={"user": "ann"})


@pytest.mark.parametrize(
    "part",
    [
        TASK,
        JOB,
        TimePassed(5.0),
        JobArrived(JOB),
        JobChanged("default/j", priority=3),
        NodeAdded(NodeInfo(name="n", allocatable=Resource(milli_cpu=9))),
        QueueChanged(Queue(name="q", weight=2)),
        TaskStarted("t"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_part_is_read_as_it_was_written(part: JobInfo | TaskInfo | Event) -> None:
    written = json.loads(json.dumps(part.to_dict()))
    assert type(part).from_dict(written) == part


def test_every_event_can_be_read() -> None:
    assert all(callable(kind.from_dict) for kind in get_args(Event))
    assert TaskFound in get_args(Event)


def test_all_faults_of_a_part_are_told_with_their_paths() -> None:
    with pytest.raises(FormatError) as told:
        JobInfo.from_dict({"name": "j", "tasks": [{"uid": 3, "name": "t"}], "quee": "q"})
    assert [fault.path for fault in told.value.faults] == ["quee", "queue", "tasks[0].uid"]
    assert "did you mean 'queue'?" in str(told.value)
