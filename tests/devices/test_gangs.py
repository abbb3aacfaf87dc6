"""A gang is placed if any choice of nodes and devices places it, and then by the first of them."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TopologyRequest,
)
from batchsched.devices import (
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
    allocate,
)
from batchsched.live import Cluster


def config(unready: str) -> SchedulerConfig:
    plugins = [{"name": name} for name in ("gang", "predicates", "devices", "topology")]
    allocate = {"name": "allocate", "arguments": {"unready": unready}}
    return SchedulerConfig.from_mapping({"actions": [allocate], "tiers": [{"plugins": plugins}]})


KINDS = ("", 'device.attributes[""].m == 0', 'device.attributes[""].m == 1')
asked = st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from(KINDS), st.booleans())
nodes = st.lists(st.lists(st.integers(0, 1), min_size=0, max_size=3), min_size=1, max_size=2)


def claim_of(count: int, selector: str, alike: bool) -> DeviceClaim:
    request = DeviceRequest(name="r", count=count, select=[selector] if selector else [])
    same = [DeviceConstraint(same="m")] if alike else []
    return DeviceClaim(name="c", requests=[request], constraints=same)


def has_place(nodes: list[tuple[Device, ...]], claims: list[DeviceClaim]) -> bool:
    """Try all nodes for all claims, and on each all orders of its devices."""

    def place(at: int, held: list[list[DevicePick]]) -> bool:
        if at == len(claims):
            return True
        for number, devices in enumerate(nodes):
            # Each set of devices is the first in some order: drop any of those before it.
            for kept in product([True, False], repeat=len(devices)):
                offered = [device for device, is_kept in zip(devices, kept, strict=True) if is_kept]
                picks = allocate([claims[at]], offered, held=held[number])
                if picks is not None:
                    after = [list(each) for each in held]
                    after[number] += picks
                    if place(at + 1, after):
                        return True
        return False

    return place(0, [[] for _ in nodes])


@given(
    nodes,
    st.lists(asked, min_size=2, max_size=3),
    st.sampled_from(["discard", "hold"]),
    st.sampled_from([None, "rack", "zone"]),
)
@settings(max_examples=100)
def test_a_gang_is_placed_if_any_choice_of_devices_places_it(
    models: list[list[int]],
    wanted: list[tuple[int, str, bool]],
    unready: str,
    level: str | None,
) -> None:
    """Also where it may hold a part, and in the domains that it requires: each node is a rack."""
    given_config = config(unready)
    there = [
        tuple(Device(name=f"g{n}", attributes={"m": model}) for n, model in enumerate(of_node))
        for of_node in models
    ]
    claims = [claim_of(*each) for each in wanted]
    cpu = Resource(milli_cpu=1)
    tasks = [
        TaskInfo(uid=f"t{n}", name=f"t{n}", resreq=cpu, claims=[claim])
        for n, claim in enumerate(claims)
    ]
    snapshot = Snapshot(
        nodes=[
            NodeInfo(
                name=f"n{n}",
                allocatable=100 * cpu,
                devices=devices,
                labels={"zone": "z", "rack": f"r{n}"},
            )
            for n, devices in enumerate(there)
        ],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(
                name="g",
                queue="q",
                min_available=len(tasks),
                tasks=tasks,
                topology=level and TopologyRequest(required=level),
            )
        ],
    )
    result = Scheduler(given_config).schedule(snapshot)
    domains = [[each] for each in there] if level == "rack" else [there]
    has_some = any(has_place(domain, claims) for domain in domains)
    assert len(result.binds) == (len(tasks) if has_some else 0)
    held = [(bind.node_name, pick.device) for bind in result.binds for pick in bind.devices or ()]
    assert len(set(held)) == len(held)
    assert Scheduler(given_config, plain=True).schedule(snapshot) == result
    live = Scheduler(given_config).attach(Cluster(snapshot))
    assert live.schedule().full() == live.schedule().full() == result
