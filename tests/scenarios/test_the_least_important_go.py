"""The scenarios of "the least important go": Z1 to Z7, Z16 to Z18, Z20 and Z21."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import evicted, job, node, places
from tests.support.cycles import Cycles

from batchsched import (
    JobInfo,
    LabelSelector,
    NodeInfo,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskStatus,
    Topology,
    TopologyRequest,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest

ONE, TWO = "1C0G", "2C0G"
GANG = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
FIRST_TIER = ["priority", GANG, "conformance"]
SHARES = {
    "capacity": ["predicates", "capacity", "nodeorder"],
    "proportion": ["predicates", "proportion", "nodeorder"],
    "neither": ["predicates", "nodeorder"],
}
PREEMPT = ("allocate", "preempt")
RACKS = Topology("net", ["rack"])
plain_or_not = pytest.mark.parametrize("plain", [False, True])
each_share = pytest.mark.parametrize("share", SHARES)


def deciding(*actions: str, share: str = "neither", plain: bool = False) -> Scheduler:
    second = [*SHARES.get(share, []), "devices", "topology"]
    named = {} if share == "default" else {"tiers": [{"plugins": p} for p in (FIRST_TIER, second)]}
    return Scheduler(SchedulerConfig.from_mapping({"actions": [*actions], **named}), plain=plain)


def world(
    nodes: Iterable[NodeInfo], *jobs: JobInfo, queues: Iterable[Queue] = (Queue(name="q"),)
) -> Snapshot:
    """Jobs came in the order in which they are given."""
    came = [evolve(one, creation_time=place / 1000) for place, one in enumerate(jobs)]
    return Snapshot(nodes=nodes, jobs=came, queues=queues, topologies=[RACKS])


def nodes(*sizes: int, **more: Any) -> list[NodeInfo]:
    return [node(f"n{place}", f"{size}C0G", **more) for place, size in enumerate(sizes, 1)]


def deserving(**cpus: int) -> list[Queue]:
    return [
        Queue(name=name, deserved=Resource(milli_cpu=1000 * count)) for name, count in cpus.items()
    ]


def lived(using: Scheduler, start: Snapshot, cycles: int = 8) -> tuple[list[str], set[str]]:
    """Who was evicted, in order, and who runs in the end; each cycle as from scratch."""
    living, gone = Cycles(using, start), list[str]()
    for _ in range(cycles):
        before = living.snapshot
        result = living.cycle()
        assert using.schedule(before).full() == result.full()
        gone += evicted(result)
        living.step()
    runs = {
        task.uid
        for one in living.snapshot.jobs
        for task in one.tasks
        if task.status is TaskStatus.RUNNING
    }
    return gone, runs


@plain_or_not
@pytest.mark.parametrize("share", [*SHARES, "default"])
def test_z1_the_least_important_goes_on_whichever_node(share: str, plain: bool) -> None:
    five, one = job("five", f"{ONE}@n1", priority=5), job("one", f"{ONE}@n2", priority=1)
    start = world(nodes(1, 1), five, one, job("nine", ONE, priority=9))
    gone, runs = lived(deciding(*PREEMPT, share=share, plain=plain), start)
    assert (gone, runs) == (["one-1"], {"five-1", "nine-1"})


@plain_or_not
@each_share
def test_z2_two_of_little_importance_go_rather_than_one_of_more(share: str, plain: bool) -> None:
    five = job("five", f"{TWO}@n1", priority=5)
    ones = [job(f"one{place}", f"{ONE}@n2", priority=1) for place in range(2)]
    start = world(nodes(2, 2), five, *ones, job("nine", TWO, priority=9))
    gone, runs = lived(deciding(*PREEMPT, share=share, plain=plain), start)
    assert sorted(gone) == ["one0-1", "one1-1"]
    assert runs == {"five-1", "nine-1"}


@plain_or_not
@each_share
def test_z3_a_whole_gang_goes_rather_than_one_that_is_more_important(
    share: str, plain: bool
) -> None:
    gang = job("gang", *(f"{ONE}@n{place}" for place in (2, 3, 4)), priority=1)
    five = job("five", f"{ONE}@n1", priority=5)
    start = world(nodes(1, 1, 1, 1), five, gang, job("nine", ONE, priority=9))
    gone, runs = lived(deciding(*PREEMPT, share=share, plain=plain), start)
    assert sorted(gone) == ["gang-1", "gang-2", "gang-3"]
    assert runs == {"five-1", "nine-1"}


def racks(*sizes: int, of: int = 1) -> list[NodeInfo]:
    return [
        node(f"r{rack}{place}", f"{of}C0G", labels={"rack": f"r{rack}"})
        for rack, size in enumerate(sizes, 1)
        for place in range(size)
    ]


@plain_or_not
@each_share
@pytest.mark.parametrize("order", [(5, 1), (1, 5)])
def test_z4_of_two_racks_the_less_important_one_is_emptied(
    share: str, plain: bool, order: tuple[int, int]
) -> None:
    lows = [
        job(f"p{priority}-{place}", f"{ONE}@r{rack}{place}", priority=priority)
        for rack, priority in enumerate(order, 1)
        for place in range(4)
    ]
    gang = job("gang", *[ONE] * 4, priority=9)
    gang = evolve(gang, topology=TopologyRequest(required="rack", topology="net"))
    gone, runs = lived(
        deciding(*PREEMPT, share=share, plain=plain), world(racks(4, 4), *lows, gang)
    )
    assert sorted(gone) == [f"p1-{place}-1" for place in range(4)]
    assert {f"gang-{place}" for place in range(1, 5)} <= runs


@plain_or_not
def test_a_rack_where_fewer_are_evicted_is_emptied_first(plain: bool) -> None:
    lows = [job(f"a{place}", f"{ONE}@r1{place}", priority=1) for place in range(2)]
    pair = job("b", f"{ONE}@r20", priority=1)
    gang = job("gang", ONE, ONE, priority=9)
    gang = evolve(gang, topology=TopologyRequest(required="rack", topology="net"))
    blocked = [job("x", f"{ONE}@r21", priority=99)]
    start = world([*racks(2, 2), node("r22", ONE, labels={"rack": "r2"})], *lows, pair, gang)
    start = evolve(start, jobs=[*start.jobs, *blocked])
    gone, _ = lived(deciding(*PREEMPT, plain=plain), start)
    assert gone == ["b-1"]


@plain_or_not
@each_share
def test_z5_what_others_were_evicted_for_gives_no_way(share: str, plain: bool) -> None:
    idle, victim = nodes(1, 1), job("v", f"{ONE}@n2", priority=1)
    low, high = job("low", ONE, ONE, priority=5), job("high", *[ONE] * 3, priority=9)
    using = deciding("allocate", "preempt", share=share, plain=plain)
    gone, runs = lived(using, world(idle, victim, low, high))
    assert (gone, runs) == (["v-1"], {"low-1", "low-2"})


@plain_or_not
def test_z6_a_gang_that_claimed_keeps_what_it_was_allocated(plain: bool) -> None:
    own = job("v", f"{ONE}@n1", priority=1, queue="q")
    other = job("w", f"{ONE}@n2", priority=1, queue="o")
    low = job("low", *[ONE] * 3, priority=5, queue="q")
    high = job("high", *[ONE] * 3, priority=9, queue="q")
    start = world(nodes(3, 1), own, other, low, high, queues=deserving(q=4, o=0))
    using = deciding("reclaim", "preempt", share="capacity", plain=plain)
    result = using.schedule(start)
    kept = {uid for uid, standing in places(result, "low").items() if standing != "Pending"}
    assert kept in (set(), {"low-1", "low-2", "low-3"})


@plain_or_not
def test_z7_a_promise_beside_a_task_keeps_that_task(plain: bool) -> None:
    def near(one: JobInfo) -> JobInfo:
        selector = LabelSelector(match_labels={"app": "s"})
        terms = [PodAffinityTerm(selector=selector, topology_key="host")]
        tasks = [evolve(t, pod_affinity=PodAffinity(required=terms)) for t in one.tasks]
        return evolve(one, tasks=tasks)

    on = nodes(2, labels={"host": "n1"})
    s = job("s", f"{ONE}@n1", priority=1)
    s = evolve(s, tasks=[evolve(task, labels={"app": "s"}) for task in s.tasks])
    x = job("x", f"{ONE}@n1", priority=1)
    g1, g2 = near(job("g1", ONE, priority=100)), job("g2", ONE, priority=50)
    start = world(on, s, x, g1, g2)
    living = Cycles(deciding(*PREEMPT, plain=plain), start, leaving=4)
    for cycle in range(4):
        result = living.cycle()
        assert evicted(result) == ([] if cycle else ["x-1"])
        assert places(result, "g1") == {"g1-1": "Pipelined n1"}
        assert places(result, "g2") == {"g2-1": "Pending"}
        living.step()


@plain_or_not
@each_share
@pytest.mark.parametrize(("other", "gone"), [(1, ["low-1", "lower-1"]), (10, [])])
def test_z16_who_share_a_device_go_together_or_not_at_all(
    share: str, other: int, gone: list[str], plain: bool
) -> None:
    claim = DeviceClaim(name="c", requests=[DeviceRequest(name="gpu")], shared="ns/gpu")
    pick = DevicePick(claim="c", request="gpu", device=("", "", "g0"), shared="ns/gpu")
    own = evolve(claim, shared=None)

    def claiming(one: JobInfo, what: DeviceClaim, *picks: DevicePick) -> JobInfo:
        tasks = [evolve(task, claims=[what], devices=picks or None) for task in one.tasks]
        return evolve(one, tasks=tasks)

    jobs = [
        claiming(job("low", f"{ONE}@n1", priority=1), claim, pick),
        claiming(job("lower", f"{ONE}@n1", priority=other), claim, pick),
        claiming(job("high", ONE, priority=9), own),
    ]
    start = world([evolve(node("n1", "9C0G"), devices=[Device(name="g0")])], *jobs)
    left, runs = lived(deciding(*PREEMPT, share=share, plain=plain), start)
    assert sorted(left) == gone
    assert runs == ({"high-1"} if gone else {"low-1", "lower-1"})


@plain_or_not
@pytest.mark.parametrize("share", ["capacity", "neither"])
def test_z17_a_preemption_is_spared_as_a_whole(share: str, plain: bool) -> None:
    x, y = job("x", f"{ONE}@n1", priority=1), job("y", f"{TWO}@n2", priority=1)
    gang = job("gang", ONE, ONE, priority=9)
    gone, runs = lived(deciding(*PREEMPT, share=share, plain=plain), world(nodes(1, 2), x, y, gang))
    assert gone == ["y-1"]
    assert {"x-1", "gang-1", "gang-2"} <= runs


@plain_or_not
@pytest.mark.parametrize("actions", [("allocate",), ("preempt",), ("reclaim",)])
def test_z18_large_tasks_are_tried_first_once_more(actions: tuple[str, ...], plain: bool) -> None:
    gang = job("gang", ONE, "3C0G")
    result = deciding(*actions, share="default", plain=plain).schedule(world(nodes(3, 1), gang))
    assert places(result, "gang") == {"gang-1": "Binding n2", "gang-2": "Binding n1"}


@plain_or_not
@pytest.mark.parametrize("order", [(50, 10), (10, 50)])
def test_z20_a_claim_takes_the_least_important_of_a_queue(
    order: tuple[int, int], plain: bool
) -> None:
    lows = [
        job(f"p{priority}", f"{ONE}@n{place}", priority=priority, queue="a")
        for place, priority in enumerate(order, 1)
    ]
    start = world(nodes(1, 1), *lows, job("b", ONE, queue="b"), queues=deserving(a=0, b=2))
    using = deciding("reclaim", "allocate", share="capacity", plain=plain)
    assert evicted(using.schedule(start)) == ["p10-1"]


@plain_or_not
@each_share
def test_z21_a_single_task_goes_rather_than_surplus_that_is_more_important(
    share: str, plain: bool
) -> None:
    elastic = job("elastic", f"{ONE}@n1", f"{ONE}@n1", priority=5, minimum=1)
    single = job("single", f"{ONE}@n2", priority=1)
    start = world(nodes(2, 1), elastic, single, job("nine", ONE, priority=9))
    gone, runs = lived(deciding(*PREEMPT, share=share, plain=plain), start)
    assert (gone, runs) == (["single-1"], {"elastic-1", "elastic-2", "nine-1"})
