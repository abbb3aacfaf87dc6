"""What changes do is told in words, with regard to the cluster."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    Hold,
    HoldKind,
    JobInfo,
    NodeInfo,
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    Snapshot,
    TaskInfo,
    TaskStatus,
    TopologyRequest,
    what_if,
)
from batchsched.live import (
    JobChanged,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    QueueChanged,
    TaskGone,
    TaskHoldsChanged,
    TaskSucceeded,
    TimePassed,
)
from batchsched.testing import snapshots
from batchsched.tools import CycleRun, Released, describe_changes

GPU = Resource(milli_cpu=8000, scalars={"nvidia.com/gpu": 8000})
GATE = Hold(HoldKind.GATE, "example.com/license")


def runs(uid: str) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, status=TaskStatus.RUNNING, node_name="gpu-1")


CLUSTER = Snapshot(
    now=100.0,
    nodes=[NodeInfo(name=name, allocatable=GPU) for name in ("gpu-1", "gpu-2")],
    queues=[Queue(name="q", weight=2), Queue(name="r")],
    jobs=[
        JobInfo(name="train", namespace="team", queue="q", tasks=map(runs, ("a", "b", "c"))),
        JobInfo(
            name="wait",
            namespace="team",
            queue="q",
            tasks=[TaskInfo(uid="w", name="w", holds=[GATE])],
        ),
    ],
)
FIRST = CLUSTER.nodes[0]
Q = CLUSTER.queues[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([NodeChanged(evolve(FIRST, unschedulable=True))], ["cordon gpu-1"]),
        (
            [NodeChanged(evolve(node, unschedulable=True)) for node in CLUSTER.nodes],
            ["cordon 2 nodes: gpu-1, gpu-2"],
        ),
        (
            [
                NodeChanged(evolve(FIRST, unschedulable=True)),
                NodeChanged(evolve(FIRST, unschedulable=False)),
            ],
            ["cordon gpu-1", "uncordon gpu-1"],
        ),
        (
            [NodeChanged(evolve(FIRST, allocatable=2 * GPU))],
            [
                "node gpu-1: 16 cpu, 16 GPUs instead of 8 cpu, 8 GPUs",
            ],
        ),
        ([NodeAdded(evolve(FIRST, name="new"))], ["1 more node like gpu-1"]),
        ([NodeAdded(evolve(FIRST, name="gpu-2-x"))], ["1 more node like gpu-2"]),
        (
            [NodeAdded(evolve(FIRST, name=name)) for name in ("x", "y", "z")],
            ["3 more nodes like gpu-1"],
        ),
        (
            [NodeAdded(NodeInfo(name="x", allocatable=Resource(milli_cpu=1000)))],
            ["1 more node x with 1 cpu"],
        ),
        ([NodeRemoved("gpu-2")], ["remove node gpu-2"]),
        ([JobChanged("team/wait", priority=9)], ["job team/wait: priority 9 instead of 0"]),
        (
            [JobChanged("team/wait", priority=9), JobChanged("team/wait", priority=3, queue="r")],
            [
                "job team/wait: priority 9 instead of 0",
                "job team/wait: priority 3 instead of 9, queue r instead of q",
            ],
        ),
        (
            [JobChanged("team/train", min_available=2)],
            ["job team/train: minimum 2 instead of 1"],
        ),
        (
            [
                JobChanged("team/wait", topology=TopologyRequest(preferred="rack")),
                JobChanged("team/wait", topology=TopologyRequest(preferred="rack", balanced=True)),
            ],
            [
                "job team/wait: topology rack preferred instead of none",
                "job team/wait: topology rack preferred and balanced instead of rack preferred",
            ],
        ),
        (
            [QueueChanged(evolve(Q, limit=ResourceLimit(scalars={"nvidia.com/gpu": 80_000})))],
            ["queue q: limit 80 GPUs instead of no limit"],
        ),
        (
            [QueueChanged(evolve(Q, weight=1, state=QueueStatus.CLOSED))],
            ["queue q: weight 1 instead of 2, state closed instead of open"],
        ),
        ([TaskSucceeded("a")], ["end task a of job team/train"]),
        ([TaskSucceeded("a"), TaskSucceeded("b")], ["end 2 tasks of job team/train"]),
        ([TaskSucceeded(uid) for uid in "abc"], ["end job team/train"]),
        (
            [TaskGone("a"), TaskGone("b"), NodeRemoved("gpu-1")],
            ["2 tasks leave node gpu-1, and wait again", "remove node gpu-1"],
        ),
        (
            [TaskHoldsChanged("w", ())],
            ["task w: no longer held (it waits for the gate example.com/license)"],
        ),
        ([Released("team/wait")], ["release job team/wait"]),
        ([CycleRun(3700), TimePassed(160.0)], ["a cycle runs, and 1 h 1 min pass", "1 min pass"]),
    ],
)
def test_changes_are_told_as_what_they_do(changes: Sequence[object], words: list[str]) -> None:
    assert list(describe_changes(CLUSTER, changes)) == words  # type: ignore[arg-type]


@given(snapshots(), st.data())
@settings(max_examples=25)
def test_a_what_if_tells_each_change_as_what_it_does(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    job = data.draw(st.sampled_from(snapshot.jobs))
    node = data.draw(st.sampled_from(snapshot.nodes))
    answer = what_if(
        snapshot,
        JobChanged(job.uid, priority=job.priority + 1),
        NodeChanged(evolve(node, unschedulable=not node.unschedulable)),
    )
    assert answer.words == (
        f"job {job.uid}: priority {job.priority + 1} instead of {job.priority}",
        f"{'uncordon' if node.unschedulable else 'cordon'} {node.name}",
    )
    first = str(answer).splitlines()[0]
    assert first == answer.difference.summary[:97] + "..." or first == answer.difference.summary
