"""Laws of cycles with devices, on drawn clusters."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.doctoring import evicted
from tests.support.invariants import check_decisions

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.devices import (
    CounterSet,
    Device,
    DeviceClaim,
    DevicePick,
    DeviceRequest,
    allocate,
)
from batchsched.live import Cluster
from batchsched.testing import InvariantViolation, snapshots, with_devices

CPU = Resource(milli_cpu=100)
PARTS: dict[str, Any] = {"capacity": {"milli": 1000}, "shared": True}
ORDERS = ("listed", "tight", "spread", "scored")


def config(
    actions: tuple[str | dict[str, Any], ...], order: str, strategy: str | None
) -> SchedulerConfig:
    plugins: list[dict[str, Any]] = [
        {"name": name} for name in ("priority", "gang", "predicates", "proportion", "nodeorder")
    ]
    plugins.append({"name": "devices", "arguments": {"order": order}})
    if strategy is not None:
        plugins.append({"name": "placement", "arguments": {"strategy": strategy}})
    return SchedulerConfig.from_mapping({"actions": list(actions), "tiers": [{"plugins": plugins}]})


configs = st.builds(
    config,
    st.sampled_from(
        [
            ("allocate",),
            ({"name": "allocate", "arguments": {"unready": "hold"}},),
            ("allocate", "backfill"),
            ("allocate", "preempt"),
            ("allocate", "reclaim", "preempt"),
            ("allocate", "reserve"),
            ("plan", "allocate"),
        ]
    ),
    st.sampled_from(ORDERS),
    st.sampled_from([None, "binpack", "fgd"]),
)
clusters = with_devices(snapshots(max_nodes=3, max_jobs=4))


@given(clusters, configs)
@settings(max_examples=60, deadline=None)
def test_shortcuts_and_living_clusters_decide_the_same(
    snapshot: Snapshot, given_config: SchedulerConfig
) -> None:
    result = Scheduler(given_config).schedule(snapshot)
    assert Scheduler(given_config, plain=True).schedule(snapshot).full() == result
    cluster = Cluster(snapshot)
    live = Scheduler(given_config).attach(cluster)
    assert live.schedule().full() == result
    cluster.carry_out(live.schedule(), at_once=True)
    assert live.schedule().full() == Scheduler(given_config).schedule(cluster.snapshot())


@given(clusters, configs)
@settings(max_examples=60, deadline=None)
def test_decisions_about_devices_keep_the_invariants(
    snapshot: Snapshot, given_config: SchedulerConfig
) -> None:
    result = Scheduler(given_config).schedule(snapshot)
    check_decisions(snapshot, result, given_config)


_KINDS = (
    Device(name="g", attributes={"m": 0}),
    Device(name="g", attributes={"m": 1}),
    Device(name="g", attributes={"m": 1}, **PARTS),
)
_CLAIMED = (
    DeviceRequest(name="r"),
    DeviceRequest(name="r", count=2),
    DeviceRequest(name="r", select=['device.attributes[""].m == 1']),
    DeviceRequest(name="r", capacity={"milli": 400}),
)


@st.composite
def full(draw: st.DrawFn) -> Snapshot:
    """Draw nodes whose devices are all taken, by jobs of low priority, and jobs of a higher one."""
    nodes: list[NodeInfo] = []
    jobs: list[JobInfo] = []

    def one(uid: str, priority: int, request: DeviceRequest | None, **more: Any) -> JobInfo:
        claims = [] if request is None else [DeviceClaim(name="c", requests=[request])]
        task = TaskInfo(uid=uid, name=uid, resreq=CPU, priority=priority, claims=claims, **more)
        return JobInfo(name=uid, queue="q", priority=priority, min_available=1, tasks=[task])

    for name in ("m", "n"):
        kinds = draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=3))
        devices = [evolve(kind, name=f"g{place}") for place, kind in enumerate(kinds)]
        cpus = draw(st.sampled_from([3, 50]))
        nodes.append(NodeInfo(name=name, allocatable=cpus * CPU, devices=devices))
        held: list[DevicePick] = []
        for number in range(cpus if cpus == 3 else 6):
            request = draw(st.sampled_from([*_CLAIMED, None]))
            claims = [] if request is None else [DeviceClaim(name="c", requests=[request])]
            picks = allocate(claims, devices, held=held)
            if picks is None:
                continue
            held += picks
            on: dict[str, Any] = {"status": TaskStatus.RUNNING, "node_name": name}
            priority = draw(st.sampled_from([0, 0, 1, 9]))
            jobs.append(one(f"r{name}{number}", priority, request, devices=picks, **on))
    jobs += [
        one(f"w{number}", draw(st.integers(1, 2)), draw(st.sampled_from(_CLAIMED)))
        for number in range(draw(st.integers(1, 3)))
    ]
    return Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=jobs)


EVICTING = SchedulerConfig.from_mapping(
    {"actions": "allocate, preempt", "tiers": [{"plugins": ["priority", "predicates", "devices"]}]}
)


@given(full())
@settings(max_examples=60, deadline=None)
def test_what_is_evicted_for_devices_is_enough_and_none_of_it_could_have_been_spared(
    snapshot: Snapshot,
) -> None:
    result = Scheduler(EVICTING).schedule(snapshot)
    check_decisions(snapshot, result, EVICTING)
    claimants = {each.for_task_uid for each in result.evictions}
    for uid in claimants:
        assert fits(snapshot, result, uid)
        # What is left of others by then is only known where nobody else got anything there.
        if len(claimants) == 1 and not result.binds and len(result.pipelined) == 1:
            victims = [each.task_uid for each in result.evictions]
            assert not any(fits(snapshot, result, uid, kept=victim) for victim in victims)


def fits(snapshot: Snapshot, result: CycleResult, uid: str, kept: str = "") -> bool:
    """Return whether a promised task has room and devices, also if one that was evicted stays."""
    [node] = [snapshot.node(each.node_name) for each in result.pipelined if each.task_uid == uid]
    gone = {each.task_uid for each in result.evictions} - {kept}
    stay = [
        task
        for job in snapshot.jobs
        for task in job.tasks
        if task.node_name == node.name and task.uid not in gone
    ]
    placed = [
        each
        for each in (*result.pipelined, *result.binds)
        if each.node_name == node.name and each.task_uid != uid
    ]
    held = [pick for each in (*stay, *placed) for pick in each.devices or ()]
    room = len(stay) + len(placed) < node.allocatable.milli_cpu // 100
    return room and allocate(snapshot.task(uid).claims, node.devices, held=held) is not None


def test_an_eviction_that_left_a_device_free_is_found() -> None:
    picks = {
        uid: DevicePick(claim="c", request="r", device=("", "", device))
        for uid, device in (("low", "g0"), ("lower", "g1"))
    }
    claim = DeviceClaim(name="c", requests=[DeviceRequest(name="r")])
    running = [
        TaskInfo(
            uid=uid, name=uid, resreq=CPU, claims=[claim], devices=[pick],
            status=TaskStatus.RUNNING, node_name="n",
        )
        for uid, pick in picks.items()
    ]  # fmt: skip
    waiting = TaskInfo(uid="high", name="high", resreq=CPU, claims=[claim])
    devices = [Device(name=f"g{number}") for number in range(2)]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n", allocatable=9 * CPU, devices=devices)],
        queues=[Queue(name="q")],
        jobs=[
            *(JobInfo(name=task.uid, queue="q", tasks=[task]) for task in running),
            JobInfo(name="high", queue="q", tasks=[waiting], priority=1),
        ],
    )
    result = Scheduler(EVICTING).schedule(snapshot)
    [eviction] = result.evictions
    check_decisions(snapshot, result, EVICTING)
    other = ({"low", "lower"} - {eviction.task_uid}).pop()
    both = evicted(result, other, "high")
    said = "is evicted from 'n' by preempt for 'high', which would have fitted there without that"
    with pytest.raises(InvariantViolation, match=said):
        check_decisions(snapshot, both, EVICTING)


@pytest.mark.parametrize(
    ("device", "milli"), [(Device(name="g"), None), (Device(name="g", **PARTS), 600)]
)
def test_a_device_that_two_tasks_have_is_found(device: Device, milli: int | None) -> None:
    amounts = None if milli is None else {"milli": milli}
    request = DeviceRequest(name="r", capacity=amounts or {})
    tasks = [
        TaskInfo(uid=uid, name=uid, resreq=CPU, claims=[DeviceClaim(name="c", requests=[request])])
        for uid in ("a", "b")
    ]
    snapshot = Snapshot(
        nodes=[
            NodeInfo(name="n", allocatable=10 * CPU, devices=[device, evolve(device, name="h")])
        ],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name=task.uid, queue="q", tasks=[task]) for task in tasks],
    )
    given_config = config(("allocate",), "listed", None)
    result = Scheduler(given_config).schedule(snapshot)
    check_decisions(snapshot, result, given_config)
    same = (DevicePick(claim="c", request="r", device=device.key, amounts=amounts),)
    wrong = evolve(
        result,
        tasks={uid: evolve(outcome, devices=same) for uid, outcome in result.tasks.items()},
        binds=[evolve(bind, devices=same) for bind in result.binds],
    )
    with pytest.raises(InvariantViolation, match=r"devices: .*is held by a, b"):
        check_decisions(snapshot, wrong, given_config, invariants=["devices"])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("g",), "a: request 'r' has 1 of 2 devices"),
        (("g", "i"), "3 of ('', '', 'link', 'lanes') are drawn, of 2"),
    ],
)
def test_too_few_devices_and_counters_drawn_on_too_often_are_found(
    names: tuple[str, ...], said: str
) -> None:
    request = DeviceRequest(name="r", count=2)
    claims = [DeviceClaim(name="c", requests=[request])]
    devices = [
        Device(name=name, counters={"link": {"lanes": lanes}})
        for name, lanes in (("g", 1), ("h", 1), ("i", 2))
    ]
    node = NodeInfo(
        name="n",
        allocatable=10 * CPU,
        devices=devices,
        counter_sets=[CounterSet(name="link", counters={"lanes": 2})],
    )
    job = JobInfo(
        name="a", queue="q", tasks=[TaskInfo(uid="a", name="a", resreq=CPU, claims=claims)]
    )
    snapshot = Snapshot(nodes=[node], queues=[Queue(name="q")], jobs=[job])
    given_config = config(("allocate",), "listed", None)
    result = Scheduler(given_config).schedule(snapshot)
    check_decisions(snapshot, result, given_config)
    picks = [
        DevicePick(claim="c", request="r", device=device.key)
        for device in devices
        if device.name in names
    ]
    wrong = evolve(
        result,
        tasks={"a": evolve(result.tasks["a"], devices=picks)},
        binds=[evolve(bind, devices=picks) for bind in result.binds],
    )
    with pytest.raises(InvariantViolation, match="devices: ") as caught:
        check_decisions(snapshot, wrong, given_config, invariants=["devices"])
    assert said in caught.value.problem


@pytest.mark.parametrize("count", [1, 2])
def test_evictions_for_devices_are_not_in_vain_though_all_else_fits(count: int) -> None:
    def task(uid: str, devices: int, *on: str) -> TaskInfo:
        request = DeviceRequest(name="r", count=devices)
        return TaskInfo(
            uid=uid,
            name=uid,
            resreq=CPU,
            claims=[DeviceClaim(name="c", requests=[request])],
            status=TaskStatus.RUNNING if on else TaskStatus.PENDING,
            node_name="n" if on else None,
            devices=[DevicePick(claim="c", request="r", device=("", "", name)) for name in on]
            if on
            else None,
        )

    names = [f"g{number}" for number in range(count)]
    low = [task(f"low-{name}", 1, name) for name in names]
    snapshot = Snapshot(
        nodes=[
            NodeInfo(name="n", allocatable=10 * CPU, devices=[Device(name=name) for name in names])
        ],
        queues=[Queue(name="q")],
        jobs=[
            *(JobInfo(name=each.uid, queue="q", priority=1, tasks=[each]) for each in low),
            JobInfo(name="high", queue="q", priority=9, tasks=[task("high", count)]),
        ],
    )
    given_config = SchedulerConfig.from_mapping(
        {
            "actions": ["allocate", "preempt"],
            "tiers": [{"plugins": [{"name": n} for n in ("priority", "predicates", "devices")]}],
        }
    )
    result = Scheduler(given_config).schedule(snapshot)
    assert len(result.evictions) == count
    check_decisions(snapshot, result, given_config)
