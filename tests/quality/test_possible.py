"""In tiny clusters what is possible happens, and nobody is evicted for what is not.

`python -m tests.quality.possible` looks further, and says what kinds of faults there are.
"""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.quality.possible import Found, law_of_seed
from tests.support.nightly import IS_NIGHTLY
from tests.support.possible import Answer, Question, broken_law, claimant_of
from tests.support.tiny_clusters import FEATURES, near

from batchsched import (
    JobInfo,
    NodeInfo,
    Preemptible,
    Queue,
    Resource,
    Segment,
    Snapshot,
    TaskInfo,
    TaskStatus,
    Topology,
    TopologyRequest,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest

ONE = Resource(milli_cpu=1000)
CLAIM = DeviceClaim(name="c", requests=[DeviceRequest(name="r")])
PICK = DevicePick(claim="c", request="r", device=("", "", "g"))
LO = TaskInfo(uid="lo", name="lo", priority=1, resreq=ONE)
ON_N0 = evolve(LO, status=TaskStatus.RUNNING, node_name="n0")
HI = TaskInfo(uid="hi", name="hi", priority=9, resreq=ONE)


def full(
    *, lo: TaskInfo = ON_N0, hi: TaskInfo = HI, node: NodeInfo | None = None, queue: str = "a"
) -> Snapshot:
    """One task runs on a node of which another one needs all."""
    return Snapshot(
        nodes=[
            node or NodeInfo(name="n0", allocatable=ONE, labels={"block": "b0", "rack": "r0"}),
        ],
        queues=[Queue(name="a", deserved=None), Queue(name="b")],
        topologies=[Topology("net", ["block", "rack"])],
        jobs=[
            JobInfo(name="lo", queue=queue, priority=lo.priority, tasks=[lo]),
            JobInfo(name="hi", queue="a", priority=9, tasks=[hi]),
        ],
    )


def answer(snapshot: Snapshot, actions: str) -> str:
    question = Question(snapshot, claimant_of(snapshot), tuple(actions.split(",")))
    return question.answer().value


def test_brute_force_asks_who_may_go() -> None:
    assert answer(full(), "allocate,preempt") == "can"
    assert answer(full(), "allocate") == "cannot"
    assert answer(full(), "reclaim") == "cannot"
    assert answer(full(queue="b"), "reclaim") == "can"
    assert answer(full(queue="b"), "allocate,preempt") == "cannot"
    alike = evolve(ON_N0, priority=9)
    assert answer(full(lo=alike), "preempt") == "cannot"
    for kind in (Preemptible.NEVER, Preemptible.SURPLUS):
        hi, lo = full().jobs
        kept = evolve(full(), jobs=[hi, evolve(lo, preemptible=kind)])
        assert answer(kept, "preempt") == "cannot"


def test_brute_force_asks_all_that_a_node_has() -> None:
    roomy = Resource(milli_cpu=9000)
    slot = NodeInfo(name="n0", allocatable=roomy, max_tasks=1)
    assert answer(full(node=slot), "allocate") == "cannot"
    assert answer(full(node=evolve(slot, max_tasks=2)), "allocate") == "can"
    device = NodeInfo(name="n0", allocatable=roomy, devices=[Device(name="g")])
    holds = evolve(ON_N0, claims=[CLAIM], devices=[PICK])
    wants = evolve(HI, claims=[CLAIM])
    assert answer(full(lo=holds, hi=wants, node=device), "allocate") == "cannot"
    assert answer(full(lo=holds, hi=wants, node=device), "preempt") == "can"
    apart = evolve(HI, pod_anti_affinity=near("x", "host"))
    there = NodeInfo(name="n0", allocatable=roomy, labels={"host": "n0"})
    lo = evolve(ON_N0, labels={"app": "x"})
    assert answer(full(lo=lo, hi=apart, node=there), "allocate") == "cannot"
    beside = evolve(HI, pod_affinity=near("x", "host"))
    assert answer(full(lo=lo, hi=beside, node=there), "allocate") == "can"
    assert answer(full(lo=lo, hi=beside), "preempt") == "cannot"


def test_brute_force_asks_for_domains() -> None:
    racks = [
        NodeInfo(name=f"n{n}", allocatable=ONE, labels={"block": "b0", "rack": f"r{n}"})
        for n in range(2)
    ]
    two = [evolve(HI, uid=f"hi-{n}", name=f"hi-{n}") for n in range(2)]
    for request, expected in (
        (None, "can"),
        (TopologyRequest("net", required="block"), "can"),
        (TopologyRequest("net", required="rack"), "cannot"),
        (TopologyRequest(required="block"), "can"),
        (TopologyRequest("net", preferred="rack"), "can"),
        (TopologyRequest("net", segments=[Segment(2, "rack")]), "cannot"),
        (TopologyRequest("net", segments=[Segment(2, "block")]), "can"),
    ):
        job = JobInfo(
            name="hi", queue="a", priority=9, min_available=2, tasks=two, topology=request
        )
        snapshot = evolve(full(), nodes=racks, jobs=[job])
        assert answer(snapshot, "allocate") == expected


def test_it_is_told_who_never_runs_and_who_is_evicted_in_vain() -> None:
    assert broken_law(full(), "allocate,preempt") is None
    assert broken_law(full(), "allocate") is None
    assert Answer.MUST.value == "can"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4 if IS_NIGHTLY else 1))
def test_what_is_possible_happens(part: int) -> None:
    first = 90_000_000 + 250 * part
    asked = [law_of_seed(seed, None, FEATURES) for seed in range(first, first + 250)]
    faults = [each for each in asked if isinstance(each, Found)]
    assert sum(each is not None for each in asked) > 200
    assert len(faults) <= 2, faults
