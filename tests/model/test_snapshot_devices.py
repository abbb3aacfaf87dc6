"""What is wrong with devices, claims and picks of a snapshot is told at once, and where it is."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from batchsched import (
    EventError,
    JobInfo,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    Queue,
    Requirement,
    Scheduler,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
    next_snapshot,
    schedule,
)
from batchsched.devices import (
    CapacityPolicy,
    CounterSet,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
    Milli,
    Version,
)
from batchsched.live import Cluster, DevicesChanged, NodeAdded, NodeChanged, TimePassed

GPU = DeviceRequest(name="gpu")


def claim(*requests: DeviceRequest, name: str = "c", **more: object) -> DeviceClaim:
    return DeviceClaim(name=name, requests=requests or [GPU], **more)


def of_task(*claims: DeviceClaim, **more: object) -> Snapshot:
    task = TaskInfo(uid="t", name="t", claims=claims, **more)
    job = JobInfo(name="j", queue="q", tasks=[task])
    return Snapshot(nodes=[NodeInfo(name="n")], queues=[Queue(name="q")], jobs=[job])


def of_node(*devices: Device, **more: object) -> Snapshot:
    return Snapshot(nodes=[NodeInfo(name="n", devices=devices, **more)])


def faults(make: object, *given: object, **more: object) -> list[str]:
    with pytest.raises(SnapshotError) as caught:
        make(*given, **more)
    return [str(fault) for fault in caught.value.faults]


POLICIES = [
    CapacityPolicy(default=1, min=3, max=2),
    CapacityPolicy(default=1, step=0),
    CapacityPolicy(default=1, values=[2, 1]),
    CapacityPolicy(default=1, values=[1], min=1),
    CapacityPolicy(values=[1]),
    CapacityPolicy(step=1),
    CapacityPolicy(default=-1),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_that_contradicts_itself(policy: CapacityPolicy) -> None:
    [fault] = faults(of_node, Device(name="g", capacity={"m": 4}, policies={"m": policy}))
    assert fault.startswith("nodes['n'].devices[0].policies['m']")


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (Device(name="g", capacity={"m": -1}), "capacity['m']: expected an integer, 0 or more"),
        (Device(name="g", driver="d", attributes={"x": 1, "d/x": 2}), "has both 'x' and 'd/x'"),
        (Device(name="g", counters={"s": {"a": 1}}), "pool '' has no such counter set"),
        (Device(name="g", counters={"c": {"b": 1}}), "its counter set has no such counter"),
        (Device(name="g", attributes={"x": 1.5}), "expected a text, an integer, True"),
        (Device(name=""), "name: is empty"),
        (Device(name="here"), "2 devices are called '//here'"),
        (Device(name="common"), "is one of the snapshot's, too"),
    ],
)
def test_a_device_that_is_wrong(device: Device, said: str) -> None:
    node = NodeInfo(
        name="n",
        devices=[Device(name="here"), device],
        counter_sets=[CounterSet(name="c", counters={"a": 1})],
    )
    [fault] = faults(Snapshot, nodes=[node], devices=[Device(name="common")])
    assert fault.startswith("nodes['n'].devices")
    assert said in fault


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (claim(evolve(GPU, count=0)), "count: expected an integer, 1 or more, or 'all', got 0"),
        (claim(evolve(GPU, admin=True, capacity={"m": 1})), "expected nothing for an admin"),
        (claim(evolve(GPU, capacity={"m": Milli(-1)})), "expected a number of thousandths"),
        (claim(GPU, GPU), "2 requests are called 'gpu'"),
        (claim(evolve(GPU, select=["device.size"])), "got 'size' at position 8"),
        (claim(constraints=[DeviceConstraint(same="a", requests=["x"])]), "no request 'x'"),
        (claim(constraints=[DeviceConstraint()]), "expected either same or distinct, got neither"),
        (
            claim(constraints=[DeviceConstraint(same="a", distinct="a")]),
            "expected either same or distinct, got both",
        ),
        (claim(evolve(GPU, count=33)), "need 33 devices; a claim has at most 32"),
        (
            claim(DeviceRequest(name="r", count=2, alternatives=[GPU])),
            "expected only a name beside them",
        ),
        (
            claim(DeviceRequest(name="r", alternatives=[evolve(GPU, alternatives=[GPU])])),
            "alternatives are not nested",
        ),
    ],
)
def test_a_claim_that_is_wrong(wrong: DeviceClaim, said: str) -> None:
    [fault] = faults(of_task, wrong)
    assert fault.startswith("jobs['default/j'].tasks['t'].claims[0]")
    assert said in fault


def test_all_that_is_wrong_is_told_at_once() -> None:
    pick = DevicePick(claim="c", request="other", device=("", "", "g"))
    task = TaskInfo(
        uid="t",
        name="t",
        status=TaskStatus.RUNNING,
        node_name="n",
        claims=[claim(), claim()],
        devices=[evolve(pick, amounts={"m": -1})],
    )
    node = NodeInfo(name="n", devices=[Device(name="g", capacity={"m": -1})], closed_pools=["d"])
    found = faults(
        Snapshot,
        nodes=[node],
        other_tasks=[task],
        devices=[Device(name="g", counters={"c": {"a": 1}})],
        held=[evolve(pick, device=("g",))],
    )
    assert [fault.partition(": ")[0] for fault in found] == [
        "held[0].device",
        "devices['g'].counters['c']",
        "nodes['n'].devices[0].capacity['m']",
        "nodes['n'].closed_pools[0]",
        "other_tasks['t'].claims",
        "other_tasks['t'].devices[0].amounts['m']",
    ]
    one = evolve(task, claims=[claim()], devices=[pick])
    [fault] = faults(Snapshot, nodes=[NodeInfo(name="n")], other_tasks=[one])
    assert "other_tasks['t'].devices[0]: the task has no request 'other' of a claim 'c'" in fault


def test_a_device_with_several_faults_tells_all_of_them_and_so_do_its_neighbours() -> None:
    wrong = Device(
        name="a",
        driver=5,  # type: ignore[arg-type]
        capacity={"m": -1},
        policies={"n": CapacityPolicy(min=-1, default=3, values=[2, 1])},
    )
    apart = Device(name="b", policies={"n": CapacityPolicy()}, shared=1)  # type: ignore[arg-type]
    twin = Device(name="c", counters={"s": {"k": 1}})
    assert [fault.partition(": ")[0] for fault in faults(of_node, wrong, apart, twin, twin)] == [
        "nodes['n'].devices[0].driver",
        "nodes['n'].devices[0].capacity['m']",
        "nodes['n'].devices[0].policies['n'].min",
        "nodes['n'].devices[0].policies['n'].values",
        "nodes['n'].devices[1].shared",
        "nodes['n'].devices[1].policies['n']",
        "nodes['n'].devices",
        "nodes['n'].devices['c'].counters['s']",
        "nodes['n'].devices['c'].counters['s']",
    ]


COUNTERS = CounterSet(name="c", pool="p", counters={"slices": 7})
PARTS = [Device(name=f"m{n}", pool="p", counters={"c": {"slices": 1}}) for n in range(2)]
RACK = NodeSelectorTerm(
    match_expressions=[Requirement(key="rack", operator=Operator.IN, values=["r1"])]
)
FULL = Snapshot(
    nodes=[
        NodeInfo(
            name="n",
            devices=[
                Device(
                    name="g0",
                    attributes={"model": "A", "firmware": Version("1.2.3"), "links": ("x", 1)},
                    capacity={"memory": 80},
                    policies={"memory": CapacityPolicy(default=40, min=10, step=10)},
                    shared=True,
                ),
                PARTS[0],
            ],
            closed_pools=[("d", "q")],
        )
    ],
    queues=[Queue(name="q")],
    jobs=[
        JobInfo(
            name="j",
            queue="q",
            tasks=[
                TaskInfo(
                    uid="t",
                    name="t",
                    status=TaskStatus.RUNNING,
                    node_name="n",
                    claims=[
                        claim(
                            DeviceRequest(name="r", alternatives=[evolve(GPU, count="all")]),
                            evolve(GPU, capacity={"memory": Milli(500)}),
                            constraints=[DeviceConstraint(distinct="rail", requests=["r/gpu"])],
                        )
                    ],
                    devices=[
                        DevicePick(
                            claim="c", request="gpu", device=("", "", "g0"), amounts={"memory": 40}
                        )
                    ],
                )
            ],
        )
    ],
    devices=[evolve(PARTS[1], nodes=[RACK])],
    counter_sets=[COUNTERS],
    held=[DevicePick(claim="", request="", device=("", "p", "m0"))],
)


def test_devices_come_back_from_plain_data_the_same() -> None:
    again = Snapshot.from_dict(json.loads(json.dumps(FULL.to_dict())))
    assert again == FULL
    assert isinstance(again.nodes[0].closed_pools[0][0], str)


def test_what_several_nodes_reach_stays_from_cycle_to_cycle() -> None:
    after = next_snapshot(FULL, schedule(FULL), now=1)
    assert after == evolve(FULL, now=1)
    warm = Scheduler()
    attached = Cluster(FULL)
    assert warm.attach(attached).schedule().full() == schedule(FULL)
    attached.apply(TimePassed(1))
    assert attached.snapshot() == after


def test_devices_of_a_living_cluster_change() -> None:
    cluster = Cluster(nodes=[NodeInfo(name="m")])
    live = Scheduler().attach(cluster)
    live.schedule()
    cluster.apply(
        NodeAdded(NodeInfo(name="n", devices=[PARTS[0]])),  # its counters come after it
        DevicesChanged(devices=[PARTS[1]], counter_sets=[COUNTERS], held=FULL.held),
    )
    live.schedule()
    now = cluster.snapshot()
    assert (now.devices, now.counter_sets, now.held) == ((PARTS[1],), (COUNTERS,), FULL.held)
    cluster.apply(NodeChanged(NodeInfo(name="n")), DevicesChanged(held=()))
    now = cluster.snapshot()
    assert (now.devices, now.counter_sets, now.held) == ((PARTS[1],), (COUNTERS,), ())
    with pytest.raises(EventError, match=r"has no such counter set"):
        cluster.apply(DevicesChanged(counter_sets=()))
    with pytest.raises(EventError, match=r"devices\[0\]: expected a Device, got 3"):
        cluster.apply(DevicesChanged(devices=[3]))
    assert cluster.snapshot() == now
    assert Cluster(now).snapshot() == now


def test_a_cluster_is_made_of_a_snapshot_or_of_parts() -> None:
    parts = Cluster(devices=[PARTS[1]], counter_sets=[COUNTERS], held=FULL.held)
    assert parts.snapshot().devices == (PARTS[1],)
    with pytest.raises(SnapshotError, match="devices: expected a snapshot or its parts, got both"):
        Cluster(FULL, devices=[PARTS[1]])
