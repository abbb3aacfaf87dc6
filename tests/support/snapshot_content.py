"""Content of snapshots, sound and not, and the faults that it has."""

from __future__ import annotations

import pytest

from batchsched import (
    HostPort,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
)

NAN, INF = float("nan"), float("inf")


HUGE = 10**400  # no float can hold it


N1 = NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000, memory=1000, scalars={"x": 2}))


Q = Queue(name="q")


def cut(value: object) -> str:
    """Return what a message shows of a value: 80 characters at most."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def task(uid: str = "t", **content: object) -> TaskInfo:
    return TaskInfo(**{"uid": uid, "name": "worker", **content})


def job(name: str = "j", *tasks: TaskInfo, **content: object) -> JobInfo:
    return JobInfo(**{"name": name, "queue": "q", "tasks": tasks, **content})


def with_task(**content: object) -> dict[str, object]:
    """A snapshot's content with one task, after a sound one: what it shares is known by then."""
    tasks = task("a", labels={"a": "b"}), task(**content)
    return {"nodes": [N1], "queues": [Q], "jobs": [job("j", *tasks)]}


def faults_of(content: dict[str, object]) -> list[str]:
    with pytest.raises(SnapshotError) as caught:
        Snapshot(**content)
    return [str(fault) for fault in caught.value.faults]


TEN_FAULTS = {
    "now": NAN,
    "nodes": [
        NodeInfo(name="n2", allocatable=Resource(milli_cpu=-1)),
        NodeInfo(name="n1", max_tasks=-1),
    ],
    "queues": [Queue(name="q", weight=-1)],
    "jobs": [
        job("k", task("d", status=TaskStatus.RUNNING)),
        job(
            "j",
            task("b", status=TaskStatus.BOUND, node_name="gone"),
            task("a", host_ports=[HostPort(port=0)]),
            min_available=-1,
            queue="",
        ),
    ],
    "other_tasks": [
        task("z", status=TaskStatus.RESERVED, node_name="n1"),
        task("a", name="again"),
    ],
}


TEN_LINES = [
    "now: expected a time (a finite number of seconds), got nan",
    ("nodes['n1'].max_tasks: expected a number of tasks (an integer, 0 or more, or None), got -1"),
    "nodes['n2'].allocatable.milli_cpu: expected 0 or more, got -1",
    "queues['q'].weight: expected a weight (an integer, 0 or more), got -1",
    "jobs['default/j'].queue: is empty",
    ("jobs['default/j'].min_available: expected a number of tasks (an integer, 0 or more), got -1"),
    (
        "jobs['default/j'].tasks['a'].host_ports[0].port: expected a port (an integer in "
        "1..65535), got 0"
    ),
    (
        "jobs['default/j'].tasks['b'].node_name: there is no node 'gone' in this snapshot; "
        "known: 'n1', 'n2'"
    ),
    "jobs['default/k'].tasks['d'].node_name: expected a node for a task that is Running, got None",
    "other_tasks['a'].uid: expected a unique UID, got 'a', which is also in jobs['default/j']",
    (
        "other_tasks['z'].status: "
        "expected another status for a task without a job, which is never placed, got Reserved"
    ),
]
