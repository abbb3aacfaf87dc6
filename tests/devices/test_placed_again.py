"""Tasks that are placed again have the devices that they had, or all of them choose anew."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.cycles import Cycles
from tests.support.invariants import check_decisions

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

ONE = 'device.attributes[""].m == 1'


def gpus(count: int) -> Resource:
    return Resource(milli_cpu=100, scalars={"gpu": 1000 * count})


def claiming(uid: str, *held: str, on: str | None = None, **request: Any) -> TaskInfo:
    """A task with one request; it runs on a node with the devices that it holds, or waits."""
    asked = DeviceRequest(name="r", **request)
    picks = [DevicePick(claim="c", request="r", device=("", "", name)) for name in held]
    running: dict[str, Any] = {"status": TaskStatus.RUNNING, "node_name": on, "devices": picks}
    return TaskInfo(
        uid=uid,
        name=uid,
        resreq=gpus(request.get("count", 1)),
        claims=[DeviceClaim(name="c", requests=[asked])],
        **(running if on else {}),
    )


def machine(name: str, *models: int) -> NodeInfo:
    devices = [Device(name=f"g{i}", attributes={"m": model}) for i, model in enumerate(models)]
    amounts = Resource(milli_cpu=9000, scalars={"gpu": 1000 * len(models)})
    return NodeInfo(name=name, allocatable=amounts, devices=devices)


def deciding(actions: str, share: str = "capacity", **more: Any) -> Scheduler:
    gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    tiers = [["priority", gang], ["predicates", share, "devices", "nodeorder"]]
    mapping = {"actions": actions, "tiers": [{"plugins": plugins} for plugins in tiers]}
    return Scheduler(SchedulerConfig.from_mapping(mapping), **more)


def queues(**deserved: int) -> list[Queue]:
    return [
        Queue(name=name, deserved=Resource(milli_cpu=9000, scalars={"gpu": 1000 * count}))
        for name, count in deserved.items()
    ]


@pytest.mark.parametrize("plain", [False, True])
def test_a_claim_that_cannot_spare_anything_leaves_each_task_its_device(plain: bool) -> None:
    """Placed again, the first task, which takes any device, would choose what the other needs."""
    loans = [
        JobInfo(name=uid, queue="b", tasks=[claiming(uid, held, on="n")])
        for uid, held in [("b0", "g0"), ("b1", "g1")]
    ]
    gang = JobInfo(
        name="a",
        queue="a",
        min_available=2,
        tasks=[claiming("a0"), claiming("a1", select=[ONE])],
    )
    snapshot = Snapshot(nodes=[machine("n", 1, 0)], queues=queues(a=2, b=0), jobs=[*loans, gang])
    result = deciding("allocate, reclaim", plain=plain).schedule(snapshot)
    had = {each.task_uid: each.devices for each in result.pipelined}
    assert [had[uid][0].device[2] for uid in ("a0", "a1")] == ["g1", "g0"]


def world(seed: int) -> Snapshot:
    """Nodes whose devices most tasks of two queues hold, and gangs of a third one."""
    random = Random(seed)
    kinds = [0, 1] if random.random() < 0.5 else [0]
    nodes = [
        machine(f"n{place}", *random.choices(kinds, k=random.randint(2, 4)))
        for place in range(random.choice([1, 1, 2, 3]))
    ]
    jobs: list[JobInfo] = []
    for node in nodes:
        free = [device.name for device in node.devices]
        random.shuffle(free)
        while free and random.random() < 0.85:
            held = [free.pop() for _ in range(min(len(free), random.choice([1, 1, 1, 2])))]
            uid = f"r{len(jobs)}"
            jobs.append(
                JobInfo(
                    name=uid,
                    queue=random.choice("bbc"),
                    priority=random.choice([1, 5]),
                    tasks=[claiming(uid, *held, on=node.name, count=len(held))],
                    creation_time=len(jobs),
                )
            )
    requests: list[dict[str, Any]] = [{}, {}, {"count": 2}]
    requests += [{"select": [ONE]}] * 2 if len(kinds) > 1 else []
    for number in range(random.randint(1, 3)):
        count = random.randint(1, 4)
        tasks = [claiming(f"w{number}-{i}", **random.choice(requests)) for i in range(count)]
        jobs.append(
            JobInfo(
                name=f"w{number}",
                queue=random.choice("aaab"),
                priority=random.choice([1, 9]),
                min_available=random.choice([count, count, 1]),
                tasks=tasks,
                creation_time=50 + number,
            )
        )
    shares = {name: random.randint(0, 6) for name in "abc"}
    return Snapshot(nodes=nodes, queues=queues(**shares), jobs=jobs)


@settings(max_examples=60)
@example(85, "capacity", "allocate, reclaim")
@example(602, "capacity", "allocate, reclaim")
@given(
    st.integers(0, 1 << 30),
    st.sampled_from(["capacity", "proportion"]),
    st.sampled_from(["allocate, reclaim", "reclaim, allocate, preempt", "allocate, preempt"]),
)
def test_gangs_that_evict_for_devices_decide_the_same_in_every_way(
    seed: int, share: str, actions: str
) -> None:
    start, using = world(seed), deciding(actions, share)
    plain, living = deciding(actions, share, plain=True), Cycles(using, start)
    for _ in range(4):
        before = living.snapshot
        result = living.cycle()
        check_decisions(before, result, using.config)
        assert result == using.schedule(before) == plain.schedule(before).full()
        living.step()
