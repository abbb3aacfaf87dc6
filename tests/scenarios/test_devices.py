"""Which devices tasks get, and where: the scenarios of docs/devices.md that need a whole cycle."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from batchsched import (
    CycleResult,
    Hold,
    HoldKind,
    JobInfo,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    Queue,
    Requirement,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    explain,
    next_snapshot,
)
from batchsched.devices import (
    CounterSet,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
)
from batchsched.live import Cluster

CPU = Resource(milli_cpu=100)


def config(*actions: str | dict[str, Any], **plugins: dict[str, Any]) -> SchedulerConfig:
    names = ["priority", "gang", "predicates", "devices", *plugins]
    listed = [{"name": name, "arguments": plugins.get(name, {})} for name in dict.fromkeys(names)]
    acts = [{"name": each} if isinstance(each, str) else each for each in actions or ("allocate",)]
    return SchedulerConfig.from_mapping({"actions": acts, "tiers": [{"plugins": listed}]})


def decide(snapshot: Snapshot, given: SchedulerConfig) -> CycleResult:
    """Decide fast, plain and living, which must be one."""
    result = Scheduler(given).schedule(snapshot)
    assert Scheduler(given, plain=True).schedule(snapshot).full() == result.full()
    assert Scheduler(given).attach(Cluster(snapshot)).schedule().full() == result.full()
    return result


def gpu(count: int = 1, *select: str, **capacity: int) -> DeviceClaim:
    request = DeviceRequest(name="gpu", count=count, select=select, capacity=capacity)
    return DeviceClaim(name="c", requests=[request])


def pick(device: str, **amounts: int) -> DevicePick:
    return DevicePick(claim="c", request="gpu", device=("", "", device), amounts=amounts or None)


def task(uid: str, *claims: DeviceClaim, **more: Any) -> TaskInfo:
    if "devices" in more or "node_name" in more:
        more = {"status": TaskStatus.RUNNING, "node_name": "n", **more}
    return TaskInfo(uid=uid, name=uid, claims=claims, **{"resreq": CPU, **more})


def job(name: str, *tasks: TaskInfo, **more: Any) -> JobInfo:
    return JobInfo(name=name, tasks=tasks, **{"queue": "q", "min_available": len(tasks), **more})


def node(*devices: Device, name: str = "n", **more: Any) -> NodeInfo:
    return NodeInfo(
        name=name, devices=devices, **{"allocatable": Resource(milli_cpu=10_000), **more}
    )


def cluster(nodes: NodeInfo | list[NodeInfo], *jobs: JobInfo, **more: Any) -> Snapshot:
    nodes = [nodes] if isinstance(nodes, NodeInfo) else nodes
    return Snapshot(nodes=nodes, jobs=jobs, queues=[Queue(name="q")], **more)


def shared(name: str, **more: Any) -> Device:
    return Device(name=name, **{"capacity": {"milli": 1000}, "shared": True, **more})


def got(result: CycleResult) -> dict[str, list[str]]:
    """The names of the devices of what starts."""
    return {bind.task_uid: [p.device[2] for p in bind.devices or ()] for bind in result.binds}


def promised(result: CycleResult) -> dict[str, list[str]]:
    both = (*result.pipelined, *result.conditional)
    return {each.task_uid: [p.device[2] for p in each.devices or ()] for each in both}


G0, G1 = Device(name="g0"), Device(name="g1")
HELD = [Hold(HoldKind.GATE, "later")]


def test_d12_what_is_being_released_can_be_had_later_unless_it_is_promised() -> None:
    holder = task("x", gpu(), devices=[pick("g0")])
    leaving = evolve(holder, status=TaskStatus.RELEASING)
    waits = job("w", task("t", gpu()))
    assert not decide(cluster(node(G0), job("x", holder), waits), config()).binds
    result = decide(cluster(node(G0), job("x", leaving), waits), config())
    assert not result.binds
    assert promised(result) == {"t": ["g0"]}
    other = task("o", gpu(), status=TaskStatus.PIPELINED, devices=[pick("g0")])
    snapshot = cluster(node(G0), job("x", leaving), job("a", other), waits)
    result = decide(snapshot, config())
    assert promised(result) == {"o": ["g0"]}


def test_d13_what_backfill_tasks_hold_can_be_had_conditionally() -> None:
    filler = task("x", gpu(), devices=[pick("g0")], is_backfill=True)
    waits = [job(name, task(name, gpu())) for name in "ab"]
    result = decide(cluster(node(G0), job("x", filler), *waits), config())
    assert not result.binds
    assert not result.pipelined
    assert promised(result) == {"a": ["g0"]}


def memory(name: str, amount: int) -> Device:
    return Device(name=name, capacity={"memory": amount << 30})


def test_d14_a_gang_that_may_hold_a_part_undoes_choices_as_well() -> None:
    hold = {"name": "allocate", "arguments": {"unready": "hold"}}
    large = gpu(1, memory=2 << 30)
    gang = job("g", task("a", gpu()), task("b", large))
    snapshot = cluster(node(memory("two", 2), memory("one", 1)), gang)
    assert got(decide(snapshot, config(hold))) == {"a": ["one"], "b": ["two"]}
    # What finds no place in the end holds what it had.
    gang = job("g", task("a", gpu()), task("b", large), task("d", large))
    snapshot = cluster(node(memory("two", 2), memory("one", 1)), gang)
    result = decide(snapshot, config(hold))
    assert result.tasks["a"].devices == (pick("two"),)
    assert not result.binds


@pytest.mark.parametrize("undo", [200, 0])
def test_d14_a_gang_undoes_the_choices_of_devices_that_leave_one_of_it_without(undo: int) -> None:
    large = gpu(1, memory=2 << 30)
    gang = job("g", task("a", gpu()), task("b", large))
    snapshot = cluster(node(memory("two", 2), memory("one", 1)), gang)
    result = decide(snapshot, config(devices={"undo": undo}))
    assert got(result) == ({"a": ["one"], "b": ["two"]} if undo else {})


def test_a_gang_waits_for_a_device_that_is_being_released() -> None:
    large = gpu(1, memory=2 << 30)
    leaving = task("x", gpu(), devices=[pick("two")], status=TaskStatus.RELEASING)
    gang = job("g", task("a", gpu()), task("b", large))
    other = node(memory("three", 1), name="m", allocatable=Resource(milli_cpu=100))
    snapshot = cluster([node(memory("two", 2)), other], job("x", leaving), gang)
    result = decide(snapshot, config())
    assert not result.binds
    assert promised(result)["b"] == ["two"]


def test_d15_unknown_devices_are_taken_to_be_where_least_is_left() -> None:
    known = task("x", gpu(milli=600), devices=[pick("g1", milli=600)])
    unknown = task("u", gpu(milli=300), node_name="n")
    whole = job("w", task("w", gpu(milli=1000)))
    snapshot = cluster(node(shared("g0"), shared("g1")), job("x", known, unknown), whole)
    assert got(decide(snapshot, config())) == {"w": ["g0"]}


def test_d16_a_device_that_is_gone_counts_nowhere() -> None:
    holder = task("x", gpu(), devices=[pick("g0")])
    snapshot = cluster(node(G1), job("x", holder), job("w", task("t", gpu())))
    assert got(decide(snapshot, config())) == {"t": ["g1"]}


def test_d17_only_who_holds_the_device_that_is_claimed_is_evicted() -> None:
    devices = [Device(name=f"g{m}", attributes={"m": m}) for m in (1, 2)]
    low = task("low", gpu(), devices=[pick("g1")], priority=1)
    high = task("high", gpu(), devices=[pick("g2")], priority=2)
    claim = task("t", gpu(1, 'device.attributes[""].m == 2'), priority=3)
    snapshot = cluster(
        node(*devices),
        job("low", low, priority=1, min_available=0),
        job("high", high, priority=2, min_available=0),
        job("w", claim, priority=3),
    )
    result = decide(snapshot, config("allocate", "preempt"))
    assert [each.task_uid for each in result.evictions] == ["high"]
    assert promised(result) == {"t": ["g2"]}
    after = next_snapshot(snapshot, result, now=1, still_releasing=["high"])
    assert after.task("t").devices == (pick("g2"),)
    gone = next_snapshot(after, decide(after, config()), now=2)
    assert got(decide(gone, config())) == {"t": ["g2"]}


def placing(**arguments: Any) -> SchedulerConfig:
    return config(devices={"order": "scored"}, placement=arguments)


def test_d20_a_part_goes_to_the_device_that_is_of_no_more_use_already() -> None:
    held = task("x", gpu(milli=500), devices=[pick("g1", milli=500)], resreq=Resource())
    shapes = [task("w", gpu(milli=1000)), task("t", gpu(milli=500))]
    jobs = [job("x", held), job("j", shapes[1], priority=1), job("k", shapes[0])]
    snapshot = cluster(node(shared("g0"), shared("g1")), *jobs)
    assert got(decide(snapshot, placing(strategy="fgd"))) == {"t": ["g1"], "w": ["g0"]}


@pytest.mark.parametrize(("width", "device"), [(40, "g0"), (1, "g1")])
def test_d21_fragments_are_compared_in_classes(width: int, device: str) -> None:
    held = [
        task(f"x{n}", gpu(milli=890 + 5 * n), devices=[pick(f"g{n}", milli=890 + 5 * n)])
        for n in range(2)
    ]
    frequent = [job(f"f{n}", task(f"f{n}", gpu(milli=100), holds=HELD)) for n in range(60)]
    snapshot = cluster(
        node(shared("g0"), shared("g1")),
        job("x", *held),
        job("j", task("t", gpu(milli=20))),
        *frequent,
    )
    assert got(decide(snapshot, placing(strategy="fgd", width=width)))["t"] == [device]


MILLI = "milli"


def held_node(name: str, capacity: Resource, held: Resource) -> tuple[NodeInfo, JobInfo]:
    holder = TaskInfo(
        uid=f"on-{name}", name=name, resreq=held, node_name=name, status=TaskStatus.RUNNING
    )
    return NodeInfo(name=name, allocatable=capacity), job(f"on-{name}", holder)


@pytest.mark.parametrize(("strategy", "place"), [("binpack", "n1"), ("spread", "n2")])
def test_d22_parts_of_all_dimensions_are_weighted(strategy: str, place: str) -> None:
    capacity = Resource(milli_cpu=100, scalars={MILLI: 8})
    one = held_node("n1", capacity, Resource(milli_cpu=10, scalars={MILLI: 4}))
    two = held_node("n2", capacity, Resource(milli_cpu=90))
    asks = task("t", resreq=Resource(milli_cpu=4, scalars={MILLI: 1}))
    snapshot = cluster([one[0], two[0]], one[1], two[1], job("j", asks))
    weights = {MILLI: 5, "cpu": 1}
    [bind] = decide(snapshot, placing(strategy=strategy, weights=weights)).binds
    assert bind.node_name == place
    [bind] = decide(snapshot, placing(strategy=strategy, weights=f"{MILLI}=5, cpu=1")).binds
    assert bind.node_name == place


@pytest.mark.parametrize(
    ("strategy", "held", "place"),
    [("binpack", (300, 305, 309), "n2"), ("spread", (308, 301), "n1")],
)
def test_d23_within_a_class_the_fit_decides(
    strategy: str, held: tuple[int, ...], place: str
) -> None:
    capacity = Resource(milli_cpu=1000)
    there = [held_node(f"n{n}", capacity, Resource(milli_cpu=h)) for n, h in enumerate(held)]
    asks = job("j", task("t", resreq=Resource(milli_cpu=10)))
    snapshot = cluster([one for one, _ in there], *(job for _, job in there), asks)
    [bind] = decide(snapshot, placing(strategy=strategy)).binds
    assert bind.node_name == place


def test_claims_are_not_looked_at_without_the_plugin_and_the_result_says_so() -> None:
    snapshot = cluster(node(), job("j", task("t", gpu())))
    without = SchedulerConfig.from_mapping(
        {"actions": ["allocate"], "tiers": [{"plugins": [{"name": "predicates"}]}]}
    )
    result = decide(snapshot, without)
    assert got(result) == {"t": []}
    [notice] = result.notices
    assert str(notice) == (
        "1 x TaskInfo claims: ignored: plugin devices is not configured, "
        "so it does not matter who has which (t)"
    )
    assert not decide(snapshot, config()).notices


def test_why_a_task_gets_no_devices_is_told_by_what_refuses_them() -> None:
    taint = Taint(key="k", effect=TaintEffect.NO_SCHEDULE)
    nodes = [
        node(evolve(G0, attributes={"model": "A"}), name="n"),
        node(evolve(G0, attributes={"model": "A"}, taints=[taint]), name="m"),
        node(evolve(G0, attributes={"model": "B"}), name="o"),
    ]
    claim = gpu(1, 'device.attributes[""].model == "A"')
    holder = task("x", gpu(), devices=[pick("g0")])
    snapshot = cluster(nodes, job("x", holder), job("j", task("t", claim)))
    why = decide(snapshot, config()).why("t")
    assert why.tally.unfit_text == (
        '2 have no device for request gpu (device.attributes[""].model == "A"): '
        "1 not selected, 1 tainted k, "
        '1 has no free device for request gpu (device.attributes[""].model == "A"): 1 taken'
    )
    assert [unfit.devices.counts for unfit in why.tally.unfit] == [
        {"not selected": 1, "tainted k": 1},
        {"taken": 1},
    ]


def test_a_search_that_looks_at_too_many_devices_ends() -> None:
    devices = [Device(name=f"g{n}", attributes={"m": n % 2}) for n in range(8)]
    same = DeviceClaim(
        name="c",
        requests=[DeviceRequest(name="gpu", count=5)],
        constraints=[DeviceConstraint(same="m")],
    )
    snapshot = cluster(node(*devices), job("j", task("t", same)))
    result = decide(snapshot, config(devices={"tries": 20}))
    assert result.why("t").tally.unfit_text == "1 has too many devices to try: 20 were"


def switch(name: str, **more: Any) -> Device:
    return Device(name=name, driver="d", pool="p", counters={"link": {"lanes": 2}}, **more)


LANES = CounterSet(name="link", driver="d", pool="p", counters={"lanes": 4})


def test_what_other_nodes_hold_of_a_pool_counts() -> None:
    """Three nodes have a device each, whose counters allow two of them."""
    nodes = [node(switch(f"d{n}"), name=f"n{n}") for n in range(3)]
    jobs = [job(f"j{n}", task(f"t{n}", gpu())) for n in range(3)]
    result = decide(cluster(nodes, *jobs, counter_sets=[LANES]), config())
    assert got(result) == {"t0": ["d0"], "t1": ["d1"]}
    assert result.why("t2").tally.unfit_text == (
        "3 have no free device for request gpu: 2 taken, 1 no counter"
    )


def test_a_device_that_several_nodes_reach_goes_to_one_task() -> None:
    rack = NodeSelectorTerm(
        match_expressions=[Requirement(key="rack", operator=Operator.IN, values=["r"])]
    )
    nodes = [
        node(name="a"),
        node(name="b", labels={"rack": "r"}),
        node(name="c", labels={"rack": "r"}),
    ]
    jobs = [job(f"j{n}", task(f"t{n}", gpu())) for n in range(2)]
    snapshot = cluster(nodes, *jobs, devices=[evolve(G0, nodes=[rack])])
    result = decide(snapshot, config())
    assert [(bind.task_uid, bind.node_name) for bind in result.binds] == [("t0", "b")]
    held = evolve(snapshot, held=[pick("g0")])
    assert not decide(held, config()).binds


def test_who_is_evicted_for_devices_is_enough_and_none_could_be_spared() -> None:
    holders = [task(f"x{n}", gpu(), devices=[pick(f"g{n}")], priority=1) for n in range(4)]
    devices = [Device(name=f"g{n}", attributes={"numa": n // 2}) for n in range(4)]
    same = DeviceClaim(
        name="c",
        requests=[DeviceRequest(name="gpu", count=2)],
        constraints=[DeviceConstraint(same="numa")],
    )
    low = [job(f"x{n}", holder, priority=1, min_available=0) for n, holder in enumerate(holders)]
    snapshot = cluster(node(*devices), *low, job("w", task("t", same, priority=5), priority=5))
    result = decide(snapshot, config("allocate", "preempt"))
    [numa] = {int(each.task_uid[1]) // 2 for each in result.evictions}
    assert len(result.evictions) == 2
    assert promised(result) == {"t": [f"g{2 * numa}", f"g{2 * numa + 1}"]}


def test_explain_counts_nodes_without_free_devices_among_those_that_do_not_fit() -> None:
    nodes = [node(G0, name="m"), node(G0, name="n")]
    holder = task("x", gpu(), devices=[pick("g0")])
    taken = evolve(holder, uid="y", name="y", node_name="m")
    snapshot = cluster(nodes, job("x", holder, taken), job("w", task("t", gpu())))
    result = decide(snapshot, config())
    text = str(explain(snapshot, result, "default/w", config=config()))
    assert "task t fits on 0 of 2 nodes now" in text
    assert "2 of 2 nodes have no free device for request gpu: 2 taken" in text
