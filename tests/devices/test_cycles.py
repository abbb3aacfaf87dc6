"""Laws of cycles with devices, on drawn clusters."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
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
    TaskStatus,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest
from batchsched.live import Cluster
from batchsched.testing import InvariantViolation, check_cycle, snapshots, with_devices

CPU = Resource(milli_cpu=100)
PARTS: dict[str, Any] = {"capacity": {"milli": 1000}, "shared": True}
ORDERS = ("listed", "tight", "spread", "scored")


def config(actions: tuple[str, ...], order: str, strategy: str | None) -> SchedulerConfig:
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
    check_cycle(snapshot, result, given_config)


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
    check_cycle(snapshot, result, given_config)
    same = (DevicePick(claim="c", request="r", device=device.key, amounts=amounts),)
    wrong = evolve(
        result,
        tasks={uid: evolve(outcome, devices=same) for uid, outcome in result.tasks.items()},
        binds=[evolve(bind, devices=same) for bind in result.binds],
    )
    with pytest.raises(InvariantViolation, match=r"devices: .*is held by a, b"):
        check_cycle(snapshot, wrong, given_config)


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
    check_cycle(snapshot, result, given_config)
