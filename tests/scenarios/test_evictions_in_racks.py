"""Jobs that ask for racks evict as others do: nothing is left behind, and a wish takes no right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import created_in_order, evicted, job, node, places
from tests.support.cycles import Cycles
from tests.support.invariants import check_decisions

from batchsched import (
    CycleResult,
    HostPort,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Segment,
    Snapshot,
    TaskGroup,
    Topology,
    TopologyRequest,
)

ONE = "1C0G"
GANG = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
ACTIONS = ["allocate", "preempt", "reclaim"]
RACKS = Topology("net", ["rack"])
REQUIRED = TopologyRequest(required="rack", topology="net")
PREFERRED = TopologyRequest(preferred="rack", topology="net")
BALANCED = TopologyRequest(preferred="rack", topology="net", balanced=True)
SEGMENTS = TopologyRequest(
    preferred="rack", topology="net", segments=[Segment(size=2, level="rack")]
)


def mapping(*actions: Any, share: str = "capacity") -> dict[str, Any]:
    cures = [
        each if isinstance(each, dict) or each == "allocate"
        else {"name": each, "arguments": {"curable": True}}
        for each in actions or ACTIONS
    ]  # fmt: skip
    plugins = [["priority", GANG, "conformance"], ["predicates", share, "nodeorder", "topology"]]
    return {"actions": cures, "tiers": [{"plugins": each} for each in plugins]}


def decided(snapshot: Snapshot, *actions: Any, share: str = "capacity") -> CycleResult:
    """The decisions, which are the same plainly and on a living cluster, and keep all laws."""
    config = SchedulerConfig.from_mapping(mapping(*actions, share=share))
    result = Scheduler(config).schedule(snapshot)
    assert Scheduler(config, plain=True).schedule(snapshot).full() == result
    assert Cycles(Scheduler(config), snapshot).cycle() == result
    check_decisions(snapshot, result, config)
    return result


def racks(**sizes: Iterable[str]) -> list[NodeInfo]:
    return [
        node(f"{rack}{place}", size, labels={"rack": rack})
        for rack, of_rack in sizes.items()
        for place, size in enumerate(of_rack, 1)
    ]


def world(nodes: Iterable[NodeInfo], *jobs: JobInfo, now: float = 0, **deserved: int) -> Snapshot:
    queues = [
        Queue(name=name, deserved=Resource(milli_cpu=1000 * cpus))
        for name, cpus in (deserved or {"q": 99}).items()
    ]
    in_order = created_in_order(jobs)
    return Snapshot(nodes=nodes, jobs=in_order, queues=queues, topologies=[RACKS], now=now)


def test_what_a_rack_that_was_tried_in_vain_would_have_given_up_is_forgotten() -> None:
    group = TaskGroup(name="g", min=2, topology=REQUIRED)
    waiting = job("j", ONE, ONE, queue="a", groups=[group])
    waiting = evolve(waiting, tasks=[evolve(task, group="g") for task in waiting.tasks])
    lent = [job(f"lo-{name}", f"{ONE}@{name}", queue="b") for name in ("a1", "b1", "b2")]
    critical = job("lo-a2", f"{ONE}@a2", queue="b", namespace="kube-system")
    start = world(racks(a=[ONE, ONE], b=[ONE, ONE]), *lent, critical, waiting, a=3, b=1)
    result = decided(start, "allocate", "reclaim")
    assert sorted(evicted(result)) == ["lo-b1-1", "lo-b2-1"]
    assert set(places(result, "j").values()) == {"Pipelined b1", "Pipelined b2"}


WISHES = pytest.mark.parametrize(
    "wish",
    [
        pytest.param(None, id="none"),
        pytest.param(PREFERRED, id="preferred"),
        pytest.param(BALANCED, id="balanced"),
        pytest.param(SEGMENTS, id="segments"),
        pytest.param(REQUIRED, id="required"),
    ],
)


@WISHES
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_a_wish_takes_no_right_away(wish: TopologyRequest | None, action: str) -> None:
    other = "q" if action == "preempt" else "r"
    lo = job("lo", f"{ONE}@a1", priority=1, queue=other)
    hi = job("hi", ONE, priority=9, topology=wish)
    result = decided(world(racks(a=[ONE]), lo, hi, q=1, r=0), "allocate", action)
    assert evicted(result) == ["lo-1"]
    assert places(result, "hi") == {"hi-1": "Pipelined a1"}


@WISHES
def test_a_gang_with_a_wish_heals_by_eviction(wish: TopologyRequest | None) -> None:
    lo = job("lo", f"{ONE}@a2", priority=1)
    hi = job("hi", f"{ONE}@a1", ONE, priority=9, topology=wish)
    result = decided(world(racks(a=[ONE, ONE]), lo, hi), "allocate", "preempt")
    assert evicted(result) == ["lo-1"]


@WISHES
def test_an_elastic_job_with_a_wish_grows_by_eviction(wish: TopologyRequest | None) -> None:
    lo = job("lo", f"{ONE}@a2", priority=1)
    hi = job("hi", f"{ONE}@a1", ONE, priority=9, minimum=1, topology=wish)
    start = world(racks(a=[ONE, ONE]), lo, hi)
    result = decided(start, "allocate", "preempt", share="proportion")
    assert evicted(result) == ["lo-1"]


@WISHES
def test_nodes_are_reserved_for_a_starving_job_whatever_it_wishes(
    wish: TopologyRequest | None,
) -> None:
    running = job("r", f"{ONE}@a1", priority=9)
    waiting = job("w", ONE, priority=9, topology=wish)
    allocate = {"name": "allocate", "arguments": {"starvationThreshold": 5}}
    config = SchedulerConfig.from_mapping(mapping(allocate, share="drf"))
    start = world(racks(a=[ONE]), running, waiting, now=100)
    result = Scheduler(config).schedule(start)
    assert places(result, "w") == {"w-1": "Reserved a1"}


@WISHES
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize("count", [1, 2])
def test_evictions_free_pod_slots_whatever_is_asked_of_racks(
    wish: TopologyRequest | None, action: str, count: int
) -> None:
    other = "q" if action == "preempt" else "r"
    nodes = [evolve(each, max_tasks=count) for each in racks(a=["8C0G"])]
    lo = [job(f"lo{number}", f"{ONE}@a1", priority=1, queue=other) for number in range(count)]
    hi = job("hi", *[ONE] * count, priority=9, topology=wish)
    result = decided(world(nodes, *lo, hi, q=8, r=0), "allocate", action)
    assert len(evicted(result)) == count
    assert set(places(result, "hi").values()) == {"Pipelined a1"}


@WISHES
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_evictions_free_ports_whatever_is_asked_of_racks(
    wish: TopologyRequest | None, action: str
) -> None:
    def listening(one: JobInfo) -> JobInfo:
        ports = [HostPort(port=80)]
        return evolve(one, tasks=[evolve(task, host_ports=ports) for task in one.tasks])

    other = "q" if action == "preempt" else "r"
    lo = listening(job("lo", f"{ONE}@a1", priority=1, queue=other))
    hi = listening(job("hi", ONE, priority=9, topology=wish))
    result = decided(world(racks(a=["8C0G"]), lo, hi, q=8, r=0), "allocate", action)
    assert evicted(result) == ["lo-1"]


def test_a_segment_evicts_in_another_rack_where_those_of_the_first_may_not_go() -> None:
    """Both racks lack as much, and who runs in the first one is as important as who waits."""
    peer = job("peer", f"{ONE}@a1", priority=9)
    lo = job("lo", f"{ONE}@b1", priority=1)
    hi = job("hi", ONE, priority=9, topology=SEGMENTS)
    result = decided(world(racks(a=[ONE], b=[ONE]), peer, lo, hi), "allocate", "preempt")
    assert evicted(result) == ["lo-1"]
    assert places(result, "hi") == {"hi-1": "Pipelined b1"}


def test_no_task_takes_the_place_of_another_of_its_job_away_from_its_segment() -> None:
    """The segment of the first two would be in two racks, and what was promised not be kept."""
    parts = job("g", ONE, f"{ONE}@a1", f"{ONE}@b1", minimum=1)
    first, second, third = parts.tasks
    in_order = [evolve(first, priority=2), evolve(second, priority=1), evolve(third, priority=2)]
    wanted = evolve(parts, tasks=in_order, topology=SEGMENTS)
    start = world(racks(a=[ONE], b=[ONE]), wanted)
    living = Cycles(Scheduler(SchedulerConfig.from_mapping(mapping("preempt"))), start)
    result = decided(start, "preempt")
    if result.evictions:
        living.cycle()
        living.step()
        assert living.cycle().binds


STRICT = pytest.mark.parametrize(
    "request_",
    [
        REQUIRED,
        TopologyRequest(required="rack"),
        TopologyRequest(topology="net", segments=[Segment(size=2, level="rack")]),
    ],
    ids=["required", "by key", "segments"],
)


@STRICT
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_racks_of_those_who_may_not_go_are_not_tried(
    request_: TopologyRequest, action: str
) -> None:
    """More racks than are tried are held by those who stay; in the last one others may go."""
    nodes = racks(**{f"r{number:02}": ["2C0G"] for number in range(12)})
    queue, stays = ("q", {"priority": 9}) if action == "preempt" else ("r", {})
    if action == "reclaim":
        stays = {"priority_class_name": "system-node-critical"}
    others = [
        job(f"o{place}", f"2C0G@{each.name}", queue=queue, **(stays if place < 11 else {}))
        for place, each in enumerate(nodes)
    ]
    gang = job("k", ONE, ONE, priority=5, topology=request_)
    result = decided(world(nodes, *others, gang, q=24, r=0), "allocate", action)
    assert evicted(result) == ["o11-1"]
    assert set(places(result, "k").values()) == {"Pipelined r111"}


@STRICT
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_it_is_told_until_when_nobody_in_any_rack_may_go(
    request_: TopologyRequest, action: str
) -> None:
    young = job("lo", "2C0G@a1", priority=1, queue="q" if action == "preempt" else "r")
    lo = evolve(young, tasks=[evolve(task, start_time=0.0) for task in young.tasks])
    gang = job("k", ONE, ONE, priority=5, topology=request_)
    start = world(racks(a=["2C0G"]), lo, gang, q=2, r=0, now=10)
    protects = [
        evolve(queue, preempt_min_runtime=60, reclaim_min_runtime=60) for queue in start.queues
    ]
    decides = Scheduler(SchedulerConfig.from_mapping({"actions": ["allocate", action]}))
    result = decides.schedule(evolve(start, queues=protects))
    assert (result.wake_at, evicted(result)) == (60, [])
    reasons = [reason.text for reason in result.pending.values()]
    assert any("minimum-runtime" in each for each in reasons)
