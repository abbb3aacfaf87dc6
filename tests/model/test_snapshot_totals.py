"""Amounts that are sound one by one, and too large to compute with together."""

from __future__ import annotations

from sys import float_info

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
    schedule,
)

LARGEST = float_info.max
MOST = LARGEST / 2**20
TOO_MUCH = "expected a sum of at most 1.7e+302 of {}, got more"


Amount = int | float


def resource(amount: Amount) -> Resource:
    return Resource(milli_cpu=amount, memory=amount, scalars={"gpu": amount})


def node(name: str, amount: Amount) -> NodeInfo:
    return NodeInfo(name=name, allocatable=resource(amount))


def task(uid: str, amount: Amount, **content: object) -> TaskInfo:
    return TaskInfo(**{"uid": uid, "name": uid, "resreq": resource(amount), **content})


def faults(**content: object) -> list[tuple[str, str]]:
    with pytest.raises(SnapshotError) as caught:
        Snapshot(**content)
    return [(fault.path, fault.message) for fault in caught.value.faults]


@pytest.mark.parametrize("amount", [1.7e308, 10**308, MOST * 0.75], ids=str)
def test_nodes_that_have_too_much_together_are_a_fault(amount: Amount) -> None:
    assert faults(nodes=[node("n1", amount), node("n2", amount)]) == [
        ("nodes", TOO_MUCH.format(dimension)) for dimension in ("cpu", "gpu", "memory")
    ]


def test_a_dimension_of_which_there_is_too_much_is_named_and_no_other() -> None:
    many = [NodeInfo(name=name, allocatable=Resource(memory=1e308)) for name in ("n1", "n2")]
    assert faults(nodes=many) == [("nodes", TOO_MUCH.format("memory"))]
    many = [NodeInfo(name=name, allocatable=Resource(scalars={name: 1e308})) for name in "ab"]
    assert faults(nodes=many) == [("nodes", TOO_MUCH.format(name)) for name in "ab"]


def test_tasks_that_ask_for_too_much_together_are_a_fault() -> None:
    jobs = [JobInfo(name=name, queue="q", tasks=[task(name, MOST * 0.75)]) for name in "ab"]
    others = [task(name, 1, init_resreq=resource(1e308)) for name in "cd"]
    expected = [TOO_MUCH.format(dimension) for dimension in ("cpu", "gpu", "memory")]
    assert faults(jobs=jobs) == [("jobs", message) for message in expected]
    assert faults(other_tasks=others) == [("other_tasks", message) for message in expected]
    Snapshot(jobs=jobs[:1], other_tasks=[task("c", 1)])


def test_too_much_together_is_told_with_all_other_faults() -> None:
    broken = NodeInfo(name="n3", allocatable=Resource(milli_cpu=-1, memory=1e308))
    found = faults(nodes=[node("n1", 1e308), node("n2", 1e308), broken], now="x")
    assert [path for path, _ in found] == [
        *("now", "nodes['n3'].allocatable.milli_cpu", "nodes", "nodes", "nodes"),
    ]


@given(
    st.lists(st.sampled_from([1, 2.0, 1e300, 10**301, MOST / 4, int(MOST) // 4]), max_size=3),
    st.lists(st.sampled_from([0, 1, 2.0, 1e300, 10**301, MOST / 4]), max_size=3),
    st.sampled_from([1, 10**6]),
)
def test_a_snapshot_that_is_not_refused_can_be_scheduled(
    capacities: list[Amount], requests: list[Amount], weight: int
) -> None:
    held = min([*capacities[:1], 1])
    running = (
        task("r", held, status=TaskStatus.RUNNING, node_name="n0") if capacities else task("r", 0)
    )
    snapshot = Snapshot(
        nodes=[node(f"n{i}", amount) for i, amount in enumerate(capacities)],
        queues=[Queue(name="q"), Queue(name="p", weight=weight)],
        jobs=[
            JobInfo(name="r", queue="p", tasks=[running]),
            *(
                JobInfo(name=f"j{i}", queue="qp"[i % 2], tasks=[task(f"t{i}", amount)])
                for i, amount in enumerate(requests)
            ),
        ],
        now=1e6,
    )
    best = {"starvingJobTimeThreshold": 0, "reservedNodePercent": 100}
    every = {"leastrequested.weight": 1, "mostrequested.weight": 1, "balancedresource.weight": 1}
    names = ("priority", "gang", "conformance", "drf", "predicates", "proportion")
    plugins = [*names, {"name": "nodeorder", "arguments": every}]
    schedule(
        snapshot,
        config=SchedulerConfig.from_mapping(
            {
                "actions": [
                    {"name": "reserve", "arguments": best},
                    *("allocate", "backfill", "preempt", "reclaim"),
                ],
                "tiers": [{"plugins": plugins}],
            }
        ),
    )
