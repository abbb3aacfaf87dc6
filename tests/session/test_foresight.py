"""Turns that are foreseen to fail come out as if their tasks had been placed and rolled back."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    Arguments,
    CycleResult,
    HostPort,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    ScoringRequest,
    Snapshot,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    Unfit,
    UnfitReason,
    default_registry,
)
from batchsched.live import Cluster, JobArrived, TaskSucceeded, TimePassed
from batchsched.plugin import JobState, Need, QueueState, SessionView


def cpus(count: float, **more: Any) -> Resource:
    return Resource(milli_cpu=int(count * 1000), memory=1 << 20, **more)


def node_of(name: str, count: int, **more: Any) -> NodeInfo:
    return NodeInfo(name=name, allocatable=Resource(milli_cpu=count * 1000, memory=1 << 30), **more)


def gang(name: str, size: int, count: float, **more: Any) -> JobInfo:
    of_task = {
        key: more.pop(key) for key in ("host_ports", "init_resreq", "tolerations") if key in more
    }
    tasks = [
        TaskInfo(uid=f"{name}-{k}", name=f"{name}-{k}", resreq=cpus(count), **of_task)
        for k in range(size)
    ]
    return JobInfo(name=name, tasks=tasks, **{"queue": "q0", "min_available": size, **more})


def snapshot_of(nodes: list[NodeInfo], jobs: list[JobInfo], **queue: Any) -> Snapshot:
    return Snapshot(nodes=nodes, queues=[Queue(name="q0", **queue), Queue(name="q1")], jobs=jobs)


PROPORTION = [
    {"plugins": ["priority", "gang"]},
    {"plugins": ["drf", "predicates", "proportion", "nodeorder"]},
]


def decided(snapshot: Snapshot, **config: Any) -> CycleResult:
    """Decide as the plain definitions do, which foresee nothing; return the result."""
    made = SchedulerConfig.from_mapping(config) if config else SchedulerConfig()
    expected = Scheduler(made, plain=True).schedule(snapshot)
    assert Scheduler(made).schedule(snapshot) == expected
    return expected


def test_a_gang_without_enough_room_is_not_placed_in_part() -> None:
    """The first gang of its kind is tried; of the others it is known that they lack room."""
    jobs = [gang(f"j{k}", 5, 2) for k in range(4)]
    result = decided(snapshot_of([node_of("n0", 4), node_of("n1", 5)], jobs), tiers=PROPORTION)
    assert not result.binds
    condition = result.jobs["default/j3"].condition
    assert condition is not None
    assert "4 placed, but rolled back since not enough others were" in condition.message


def test_gangs_that_need_not_be_complete_are_tried_as_long_as_they_could_start() -> None:
    """Of seven tasks of which five must start, three find no node before it is given up."""
    jobs = [gang(f"j{k}", 7, 2, min_available=5) for k in range(3)]
    decided(snapshot_of([node_of("n0", 4), node_of("n1", 5)], jobs), tiers=PROPORTION)


def test_the_limit_of_tasks_on_a_node_counts() -> None:
    nodes = [node_of("n0", 20, max_tasks=2), node_of("n1", 3)]
    decided(snapshot_of(nodes, [gang(f"j{k}", 4, 2) for k in range(3)]), tiers=PROPORTION)


def test_what_is_needed_to_start_counts_apart_from_what_is_held() -> None:
    """On each node the last of them needs more to start than it holds then."""
    jobs = [gang(f"j{k}", 6, 2, init_resreq=cpus(3)) for k in range(3)]
    decided(snapshot_of([node_of("n0", 6), node_of("n1", 7)], jobs), tiers=PROPORTION)


def test_a_gang_with_exactly_enough_room_starts() -> None:
    jobs = [gang(f"j{k}", 5, 2) for k in range(3)]
    result = decided(snapshot_of([node_of("n0", 8), node_of("n1", 12)], jobs), tiers=PROPORTION)
    assert len(result.binds) == 10


def test_tasks_that_hold_different_amounts_are_not_alike() -> None:
    """They need the same to start and count the same in scores, so they are of one kind."""
    jobs = [
        evolve(
            job,
            tasks=[
                evolve(
                    t, resreq=cpus(3 - k % 3), scoring_request=ScoringRequest(milli_cpu=1, memory=1)
                )
                for k, t in enumerate(job.tasks)
            ],
        )
        for job in [gang(f"j{k}", 6, 3, init_resreq=cpus(3)) for k in range(3)]
    ]
    decided(snapshot_of([node_of("n0", 5), node_of("n1", 6)], jobs), tiers=PROPORTION)


def test_tasks_that_ask_for_nothing_are_not_counted_on() -> None:
    """Three tasks of five ask for something; two of them fit, and the third finds no node."""
    jobs = [
        evolve(
            job,
            tasks=[evolve(t, resreq=Resource()) if k > 2 else t for k, t in enumerate(job.tasks)],
        )
        for job in [gang(f"j{k}", 5, 2) for k in range(3)]
    ]
    decided(snapshot_of([node_of("n0", 4)], jobs), tiers=PROPORTION)


def test_a_reservation_does_not_make_a_job_start() -> None:
    """It does not count when it is decided whether the rest could still make up the minimum."""
    jobs = [gang(f"j{k}", 7, 2, min_available=5) for k in range(3)]
    first, *others = jobs[2].tasks
    reserved = evolve(first, status=TaskStatus.RESERVED, node_name="n2")
    jobs[2] = evolve(jobs[2], tasks=[reserved, *others])
    there = TaskInfo(uid="r", name="r", resreq=cpus(2), status=TaskStatus.RUNNING, node_name="n2")
    jobs.append(JobInfo(name="r", queue="q1", tasks=[there]))
    nodes = [node_of("n0", 4), node_of("n1", 3), node_of("n2", 3)]
    result = decided(snapshot_of(nodes, jobs), tiers=PROPORTION)
    assert result.dropped_reservations  # at the end, since its gang is not complete


def test_what_a_queue_says_of_one_task_more_is_not_foreseen() -> None:
    """A plugin may refuse tasks beyond the minimum for reasons of its own."""
    registry = default_registry()
    registry.register_plugin("picky", Picky)
    config = SchedulerConfig.from_mapping(
        {"tiers": [*PROPORTION, {"plugins": ["picky"]}]}, registry=registry
    )
    jobs = [gang(f"j{k}", 7, 2, min_available=5) for k in range(3)]
    snapshot = snapshot_of([node_of("n0", 4), node_of("n1", 5)], jobs)
    expected = Scheduler(config, registry, plain={"engine"}).schedule(snapshot)
    assert Scheduler(config, registry).schedule(snapshot) == expected


class Picky:
    """Refuses all that a queue asks for alone."""

    votes_on_jobs_alone = True

    def __init__(self, _arguments: Arguments) -> None:
        pass

    def open(self, _view: SessionView, /) -> object:
        return self

    def allocatable(self, _queue: QueueState, need: Need, /) -> Unfit | None:
        if len(need.tasks) > 1:
            return None
        return Unfit(UnfitReason.QUEUE_LIMIT, plugin="picky", detail="alone")


@pytest.mark.parametrize("what", ["ports", "promises", "another vote", "first tier"])
def test_nothing_is_foreseen_where_the_room_is_not_known(what: str) -> None:
    """Tasks with host ports keep each other away, and what is being released is promised."""
    jobs = [gang(f"j{k}", 5, 2) for k in range(3)]
    registry = default_registry()
    if what == "ports":
        jobs = [gang(f"j{k}", 5, 2, host_ports=[HostPort(port=80)]) for k in range(3)]
    elif what == "promises":
        leaving = TaskInfo(
            uid="l", name="l", resreq=cpus(1), status=TaskStatus.RELEASING, node_name="n1"
        )
        jobs.append(JobInfo(name="l", queue="q1", tasks=[leaving]))
    else:
        registry.register_plugin("own-gang", OwnGang)
    snapshot = snapshot_of([node_of("n0", 4), node_of("n1", 5)], jobs)
    tiers = {
        "another vote": [{"plugins": ["own-gang"]}, PROPORTION[1]],
        "first tier": [{"plugins": ["own-gang"]}, *PROPORTION],
    }.get(what, PROPORTION)
    config = SchedulerConfig.from_mapping({"tiers": tiers}, registry=registry)
    expected = Scheduler(config, registry, plain=True).schedule(snapshot)
    assert Scheduler(config, registry).schedule(snapshot) == expected


class OwnGang:
    """Votes as a user's plugin may: one task less than the minimum is enough."""

    def __init__(self, _arguments: Arguments) -> None:
        pass

    def open(self, _view: SessionView, /) -> object:
        return _Votes()


class _Votes:
    votes_on_jobs_alone = True

    def job_ready(self, job: JobState, /) -> bool:
        return job.ready_count + 1 >= job.min_available

    job_pipelined = job_condition_ready = job_ready


TAINTS = [[], [Taint(key="k", value="v", effect=TaintEffect.NO_SCHEDULE)]]

node_infos = st.builds(
    lambda count, limit, taints: {"count": count, "max_tasks": limit, "taints": taints},
    st.integers(0, 9),
    st.sampled_from([None, None, 1, 2, 3]),
    st.sampled_from(TAINTS),
)
gangs = st.builds(
    lambda size, count, more, start, queue, priority: {
        "size": size,
        "count": count,
        "min_available": max(1, size - more),
        "init_resreq": None if start is None else cpus(start),
        "queue": queue,
        "priority": priority,
    },
    st.integers(1, 6),
    st.sampled_from([1, 1, 2, 1.5]),
    st.sampled_from([0, 0, 1, 3]),
    st.sampled_from([None, None, 2]),
    st.sampled_from(["q0", "q1"]),
    st.integers(0, 1),
)
CONFIGS = [{}, {"tiers": PROPORTION}, {"actions": "reclaim, allocate, backfill, preempt, reserve"}]


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.lists(node_infos, min_size=1, max_size=4),
    jobs=st.lists(gangs, min_size=2, max_size=8),
    limit=st.sampled_from([None, 5, 12]),
    config=st.sampled_from(CONFIGS),
)
def test_law_what_is_foreseen_is_what_the_plain_loop_finds(
    nodes: list[dict[str, Any]], jobs: list[dict[str, Any]], limit: int | None, config: Any
) -> None:
    most = None if limit is None else ResourceLimit(milli_cpu=limit * 1000)
    snapshot = snapshot_of(
        [node_of(f"n{k}", **more) for k, more in enumerate(nodes)],
        [gang(f"j{k}", **more) for k, more in enumerate(jobs)],
        limit=most,
    )
    decided(snapshot, **config)


@settings(max_examples=15, deadline=None)
@given(
    nodes=st.lists(node_infos, min_size=1, max_size=3),
    jobs=st.lists(gangs, min_size=6, max_size=12),
    ends=st.lists(st.integers(0, 99), max_size=12),
    config=st.sampled_from(CONFIGS),
)
def test_law_it_is_also_on_a_live_cluster(
    nodes: list[dict[str, Any]], jobs: list[dict[str, Any]], ends: list[int], config: Any
) -> None:
    made = SchedulerConfig.from_mapping(config) if config else SchedulerConfig()
    cluster = Cluster(snapshot_of([node_of(f"n{k}", **more) for k, more in enumerate(nodes)], []))
    live = Scheduler(made).attach(cluster)
    plain = Scheduler(made, plain=True)
    for number, more in enumerate(jobs):
        cluster.apply(JobArrived(gang(f"j{number}", **more)), TimePassed(number))
        running = [
            task.uid
            for job in cluster.snapshot().jobs
            for task in job.tasks
            if task.status is TaskStatus.RUNNING
        ]
        if running and number < len(ends) and ends[number] % 2:
            cluster.apply(TaskSucceeded(running[ends[number] % len(running)]))
        cycle = live.schedule()
        assert cycle == plain.schedule(cluster.snapshot())
        cluster.carry_out(cycle, at_once=True)
