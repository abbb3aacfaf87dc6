"""The scenarios V1 to V12: who is evicted, alone or with the whole job, and who stays."""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.support.clusters import Simulation, bound, cluster, evicted, job, node, places

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
from batchsched.tools import standings

GPU = "nvidia.com/gpu"
GIB = 1 << 30


def scheduler(*actions: object, at_minimum: str = "whole-job") -> Scheduler:
    gang = {"name": "gang", "arguments": {"atMinimum": at_minimum}}
    tiers = [
        {"plugins": [{"name": "priority"}, gang, {"name": "conformance"}]},
        {"plugins": [{"name": n} for n in ("drf", "predicates", "proportion", "nodeorder")]},
    ]
    return Scheduler(SchedulerConfig.from_mapping({"actions": list(actions), "tiers": tiers}))


def amount(cpu: float, gib: float, gpus: int = 0) -> Resource:
    scalars = {GPU: gpus * 1000} if gpus else {}
    return Resource(milli_cpu=int(cpu * 1000), memory=int(gib * GIB), scalars=scalars)


def with_gpus(name: str, cpu: float, gib: float, gpus: int) -> NodeInfo:
    return NodeInfo(name=name, allocatable=amount(cpu, gib, gpus), max_tasks=110)


def tasks(
    name: str, request: Resource, *nodes: str | None, priority_class: str = ""
) -> list[TaskInfo]:
    return [
        TaskInfo(
            uid=f"{name}-{number}",
            name=f"{name}-{number}",
            status=TaskStatus.PENDING if where is None else TaskStatus.RUNNING,
            node_name=where,
            resreq=request,
            priority_class_name=priority_class if number == 1 else "",
        )
        for number, where in enumerate(nodes, start=1)
    ]


def of(
    name: str,
    request: Resource,
    *nodes: str | None,
    minimum: int | None = None,
    queue: str = "q",
    **more: object,
) -> JobInfo:
    least = len(nodes) if minimum is None else minimum
    return JobInfo(
        name=name, queue=queue, min_available=least, tasks=tasks(name, request, *nodes), **more
    )


def singles(
    name: str, count: int, request: Resource, where: str | None, queue: str
) -> list[JobInfo]:
    return [of(f"{name}{n:02}", request, where, queue=queue) for n in range(count)]


def one_gpu() -> Snapshot:
    gpu = amount(1, 1, 1)
    return cluster(
        [with_gpus("n1", 8, 8, 1)], of("a", gpu, "n1"), of("b", gpu, None, priority=1000)
    )


def test_v1_a_job_of_one_task_goes_for_one_of_higher_priority() -> None:
    result = scheduler("allocate", "preempt").schedule(one_gpu())
    assert evicted(result) == ["a-1"]
    assert places(result, "b") == {"b-1": "Pipelined n1"}


def test_v1_with_protect_nothing_happens() -> None:
    result = scheduler("allocate", "preempt", at_minimum="protect").schedule(one_gpu())
    assert not result.evictions
    assert places(result, "b") == {"b-1": "Pending"}


def sixteen_and_eight(gib: float) -> Snapshot:
    one = amount(1, gib)
    return cluster(
        [NodeInfo(name="n1", allocatable=amount(16, 64))],
        *singles("a", 16, one, "n1", "a"),
        *singles("b", 8, one, None, "b"),
        queues=("a", "b"),
    )


@pytest.mark.parametrize("gib", [0, 1, 2, 3, 4])
def test_v2_a_queue_gets_its_share_however_much_memory_there_is(gib: float) -> None:
    result = scheduler("reclaim").schedule(sixteen_and_eight(gib))
    assert len(result.evictions) == 8
    assert len(result.pipelined) == 8


def test_v3_a_queue_gets_its_share_of_devices_beside_plentiful_cpu() -> None:
    one = amount(1, 4, 1)
    snapshot = cluster(
        [with_gpus(name, 64, 256, 8) for name in ("n1", "n2")],
        *singles("a1-", 8, one, "n1", "a"),
        *singles("a2-", 8, one, "n2", "a"),
        *singles("b", 8, one, None, "b"),
        queues=("a", "b"),
    )
    result = scheduler("reclaim").schedule(snapshot)
    assert len(result.evictions) == len(result.pipelined) == 8


def test_v4_in_the_cycles_that_follow_nothing_more_is_evicted() -> None:
    simulation = Simulation(scheduler("reclaim", "allocate"), sixteen_and_eight(1))
    assert len(simulation.cycle().evictions) == 8
    for _ in range(5):
        simulation.step()
        assert not simulation.cycle().evictions
    running = [
        task.uid
        for one in simulation.snapshot.jobs
        if one.queue == "b"
        for task in one.tasks
        if task.status is TaskStatus.RUNNING
    ]
    assert len(running) == 8


def gang_of_eight(*more: JobInfo) -> Snapshot:
    one = amount(1, 1, 1)
    names = ["n1", "n2", "n3"] if more else ["n1", "n2"]
    return cluster(
        [with_gpus(name, 16, 16, 4) for name in names],
        of("gang", one, *["n1"] * 4, *["n2"] * 4, queue="a"),
        *more,
        of("b", one, None, queue="b"),
        queues=("a", "b"),
    )


def test_v5_a_gang_at_its_minimum_goes_as_a_whole_or_not_at_all() -> None:
    result = scheduler("reclaim").schedule(gang_of_eight())
    assert sorted(evicted(result)) == [f"gang-{n}" for n in range(1, 9)]
    assert places(result, "b") == {"b-1": "Pipelined n1"}
    assert not scheduler("reclaim", at_minimum="protect").schedule(gang_of_eight()).evictions


def test_v6_surplus_goes_before_a_gang() -> None:
    elastic = of("elastic", amount(1, 1, 1), *["n3"] * 4, minimum=2, queue="a")
    result = scheduler("reclaim").schedule(gang_of_eight(elastic))
    assert evicted(result) == ["elastic-4"]


@pytest.mark.parametrize("names", [("x", "y"), ("y", "x")])
def test_v7_who_is_safe_does_not_use_up_what_a_gang_can_spare(names: tuple[str, str]) -> None:
    critical, other = (
        TaskInfo(
            uid=uid,
            name=uid,
            status=TaskStatus.RUNNING,
            node_name="n1",
            resreq=amount(1, 1),
            priority_class_name=name,
        )
        for uid, name in zip(names, ("system-node-critical", ""), strict=True)
    )
    snapshot = cluster(
        [node("n1", "2C2G")],
        JobInfo(name="a", queue="q", min_available=1, tasks=[critical, other]),
        of("b", amount(1, 1), None, priority=1000),
    )
    assert evicted(scheduler("preempt").schedule(snapshot)) == [other.uid]


def test_v8_a_node_that_lost_its_devices_takes_what_needs_none() -> None:
    gpu = amount(1, 1, 1)
    snapshot = cluster(
        [with_gpus("n1", 16, 16, 0), with_gpus("n2", 16, 16, 8)],
        of("running", gpu, *["n1"] * 8, minimum=1),
        of("wants-gpu", gpu, None),
        of("wants-cpu", amount(1, 1), None),
    )
    result = scheduler("allocate").schedule(snapshot)
    assert bound(result)["wants-gpu-1"] == "n2"
    assert "wants-cpu-1" in bound(result)
    assert not result.evictions


def test_v9_a_gang_that_can_never_fit_keeps_nobody_out_and_is_told_so() -> None:
    snapshot = cluster(
        [node(f"n{n}", "1C9G") for n in range(10)],
        job("gang", *["1C1G"] * 11),
        job("small", "1C1G"),
    )
    result = scheduler("allocate").schedule(snapshot)
    assert set(bound(result)) == {"small-1"}
    gang, _ = standings(snapshot, result)
    assert gang.text == (
        "default/gang waits, never fits: only 10 of the 11 tasks that it needs have room, "
        "even if these nodes were empty: for one more, 10 of 10 nodes lack free cpu"
    )


def test_v10_one_task_that_fits_nowhere_does_not_hold_up_the_others() -> None:
    first, second = tasks("a", amount(1, 1), None, None)
    snapshot = cluster(
        [node("n1", "2C2G")],
        JobInfo(
            name="a",
            queue="q",
            min_available=1,
            tasks=[evolve(first, node_selector={"disk": "none"}), second],
        ),
    )
    assert bound(scheduler("allocate").schedule(snapshot)) == {"a-2": "n1"}


def test_v11_a_gang_is_promised_what_is_being_released() -> None:
    gpu = amount(1, 1, 1)
    leaving = of("x", gpu, "n1")
    snapshot = cluster(
        [with_gpus("n1", 8, 8, 2)],
        evolve(leaving, tasks=[evolve(leaving.tasks[0], status=TaskStatus.RELEASING)]),
        of("gang", gpu, None, None, priority=5),
        of("small", gpu, None),
    )
    result = scheduler("allocate").schedule(snapshot)
    assert not result.binds
    assert sorted(places(result, "gang").values()) == ["Allocated n1", "Pipelined n1"]
    assert places(result, "small") == {"small-1": "Pending"}


def test_v12_the_claimant_starts_when_its_victim_has_left_and_nobody_comes_between() -> None:
    snapshot = one_gpu()
    snapshot = evolve(snapshot, queues=[Queue(name="q"), Queue(name="r")])
    simulation = Simulation(scheduler("allocate", "preempt"), snapshot)
    assert evicted(simulation.cycle()) == ["a-1"]
    late = of("late", amount(1, 1, 1), None, queue="r")
    for step in range(3):
        simulation.step(still_releasing=["a-1"], new_jobs=[late] if step == 0 else [])
        result = simulation.cycle()
        assert not result.evictions
        assert not result.binds
    simulation.step()
    result = simulation.cycle()
    assert bound(result) == {"b-1": "n1"}
    assert not result.evictions
