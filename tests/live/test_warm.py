"""A warm scheduler decides on each snapshot what a cold one decides."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.living import Life, apply_plainly

from batchsched import (
    BatchschedError,
    ConfigError,
    Domain,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    Topology,
    TopologyRequest,
    as_new,
    next_snapshot,
)
from batchsched.devices import CounterSet, Device, DeviceClaim, DevicePick, DeviceRequest
from batchsched.testing import configs

seeds = st.integers(0, 1 << 32)
CPU = Resource(milli_cpu=1000)


def shaken(life: Life, snapshot: Snapshot) -> Snapshot:
    """The same cluster, or nearly: equal objects, tasks in other jobs, or another cluster."""
    match life.random.randrange(4):
        case 0:
            return pickle.loads(pickle.dumps(snapshot))
        case 1:
            return life.start()
        case 2 if len(snapshot.jobs) > 1:
            one, other, *rest = life.random.sample(snapshot.jobs, len(snapshot.jobs))
            joined: JobInfo = evolve(one, tasks=[*one.tasks, *other.tasks])
            return evolve(snapshot, jobs=[joined, evolve(other, tasks=()), *rest])
        case _:
            return snapshot


@pytest.mark.slow
@settings(max_examples=30)
@given(seed=seeds, config=configs())
def test_law_a_warm_scheduler_decides_what_a_cold_one_does(seed: int, config: Any) -> None:
    life = Life(seed)
    cold, warm = Scheduler(config), Scheduler(config, warm=True)
    snapshot = life.start()
    for _ in range(6):
        result = cold.schedule(snapshot)
        decided = warm.schedule(snapshot)
        assert decided == result
        snapshot = next_snapshot(snapshot, decided, now=snapshot.now)
        assert warm.schedule(snapshot, reasons=False).binds == cold.schedule(snapshot).binds
        for event in life.events(snapshot):
            snapshot = apply_plainly(snapshot, event)
        if life.random.random() < 0.3:
            snapshot = shaken(life, snapshot)
        assert decided == result


@pytest.mark.slow
@settings(max_examples=25)
@given(seed=seeds, config=configs())
def test_law_steps_in_part_are_those_of_the_whole(seed: int, config: Any) -> None:
    life = Life(seed)
    random = life.random
    warm = Scheduler(config, warm=True)
    snapshot = life.start()
    for _ in range(8):
        result = warm.schedule(snapshot)
        plain = pickle.loads(pickle.dumps(snapshot))
        tasks = [task for job in snapshot.jobs for task in job.tasks]
        running = [task.uid for task in tasks if task.status is TaskStatus.RUNNING]
        running += [bind.task_uid for bind in result.binds]
        random.shuffle(running)
        arguments: dict[str, Any] = {
            "now": snapshot.now + random.choice((0, 1, 5)),
            "succeeded": running[:2],
            "failed": running[2:3],
            "gone": running[3:4],
            "not_started": life.some([bind.task_uid for bind in result.binds], 0.1),
            "removed_tasks": life.some([task.uid for task in tasks], 0.04),
            "removed_jobs": life.some([job.uid for job in snapshot.jobs], 0.1),
            "new_jobs": [life.job(snapshot.now) for _ in range(random.choice((0, 1, 2)))],
            "keep_reservations": random.random() < 0.9,
        }
        if random.random() < 0.2:
            arguments["replacement"] = renamed
        if random.random() < 0.15 and tasks and arguments["new_jobs"]:
            # What is at fault: by whoever looks at all, it is told in the same words.
            come = arguments["new_jobs"][0]
            arguments["new_jobs"][0] = evolve(come, tasks=[*come.tasks, random.choice(tasks)])
        if random.random() < 0.1:
            arguments["succeeded"] = [*running[:2], "nobody"]
        try:
            expected = next_snapshot(plain, result, **arguments)
        except BatchschedError as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                next_snapshot(snapshot, result, **arguments)
            snapshot = next_snapshot(snapshot, result, now=snapshot.now)
            continue
        branch = snapshot
        snapshot = next_snapshot(snapshot, result, **arguments)
        assert snapshot == expected
        assert next_snapshot(branch, result, **arguments) == expected


def renamed(task: TaskInfo) -> TaskInfo | None:
    return evolve(as_new(task), uid=f"{task.uid}x") if len(task.uid) % 3 else None


def small(job: JobInfo, *others: TaskInfo) -> Snapshot:
    node = NodeInfo(name="n", allocatable=Resource(milli_cpu=2000))
    return Snapshot(nodes=[node], queues=[Queue(name="q")], jobs=[job], other_tasks=others)


def running(uid: str, **more: Any) -> TaskInfo:
    status = TaskStatus.RUNNING
    return TaskInfo(uid=uid, name=uid, resreq=CPU, status=status, node_name="n", **more)


def test_the_room_of_tasks_of_nobody_is_free_once_they_are_gone() -> None:
    job = JobInfo(name="j", queue="q", tasks=[TaskInfo(uid="t", name="t", resreq=CPU)])
    warm = Scheduler(warm=True)
    assert not warm.schedule(small(job, running("a"), running("b"))).binds
    result = warm.schedule(small(job, running("b")))
    assert [bind.task_uid for bind in result.binds] == ["t"]


def test_a_task_that_changes_its_group_counts_for_its_new_one() -> None:
    groups = [TaskGroup(name="x", min=1), TaskGroup(name="y", min=1)]
    tasks = [
        running("r", group="x"),
        TaskInfo(uid="t", name="t", resreq=Resource(milli_cpu=9000), group="y"),
        TaskInfo(uid="u", name="u", resreq=CPU, group="x"),
    ]
    job = JobInfo(name="j", queue="q", min_available=1, tasks=tasks, groups=groups)
    moved = evolve(job, tasks=[evolve(tasks[0], group="y"), *tasks[1:]])
    cold, warm = Scheduler(), Scheduler(warm=True)
    for each in (small(job), small(moved), small(job)):
        result = warm.schedule(each)
        assert result == cold.schedule(each)
        assert len(result.binds) == (each.jobs[0] == moved)


def test_what_a_cycle_that_failed_has_left_is_not_used_again() -> None:
    life = Life(3)
    snapshot = life.start()
    scheduler = Scheduler(warm=True)
    expected = scheduler.schedule(snapshot)
    with pytest.raises(Exception, match="Snapshot"):
        scheduler.schedule("surprise")  # type: ignore[arg-type]
    assert scheduler.schedule(snapshot) == expected
    with pytest.raises(ConfigError, match="warm"):
        Scheduler(warm="yes")  # type: ignore[arg-type]


def in_racks(*racks: str) -> Snapshot:
    """Four nodes, of which those named are one rack, and two tasks that must be in one."""
    tasks = [TaskInfo(uid=f"t{number}", name=f"t{number}", resreq=CPU) for number in range(2)]
    request = TopologyRequest("net", required="rack")
    return Snapshot(
        nodes=[NodeInfo(name=f"n{number}", allocatable=CPU) for number in range(4)],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="j", queue="q", min_available=2, topology=request, tasks=tasks)],
        topologies=[Topology("net", ["rack"], [Domain("rack", "r", racks)])],
    )


def with_devices(*devices: Device, held: int = 0, memory: int = 8) -> Snapshot:
    """A task that claims a device which several nodes reach."""
    claim = DeviceClaim(name="c", requests=[DeviceRequest(name="r")])
    task = TaskInfo(uid="t", name="t", resreq=CPU, claims=[claim])
    picks = [DevicePick(claim="x", request="r", device=each.key) for each in devices[:held]]
    return Snapshot(
        nodes=[NodeInfo(name="n", allocatable=CPU)],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="j", queue="q", tasks=[task])],
        devices=devices,
        counter_sets=[CounterSet(name="s", counters={"memory": memory})],
        held=picks,
    )


DRAWS = Device(name="b", counters={"s": {"memory": 8}})


@pytest.mark.parametrize(
    "snapshots",
    [
        [in_racks("n0"), in_racks("n2", "n3"), in_racks("n0", "n1")],
        [with_devices(), with_devices(Device(name="a")), with_devices(Device(name="b"))],
        [with_devices(Device(name="a"), held=1), with_devices(Device(name="a"))],
        [with_devices(DRAWS, memory=8), with_devices(DRAWS, memory=4), with_devices(DRAWS)],
    ],
    ids=["topologies", "devices", "held", "counter sets"],
)
def test_a_warm_scheduler_follows_every_part_of_a_snapshot(snapshots: list[Snapshot]) -> None:
    names = ("gang", "predicates", "devices", "topology")
    tiers = [{"plugins": [{"name": name} for name in names]}]
    config = SchedulerConfig.from_mapping({"actions": "allocate", "tiers": tiers})
    warm = Scheduler(config, warm=True)
    decided = [warm.schedule(snapshot) for snapshot in snapshots]
    assert decided == [Scheduler(config).schedule(snapshot) for snapshot in snapshots]
    assert len({len(cycle.binds) for cycle in decided}) > 1
