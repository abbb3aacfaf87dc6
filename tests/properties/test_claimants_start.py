"""Laws of evictions and promises: nothing leaves, and nothing is kept free, in vain."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import check_reference
from tests.support.closed_systems import run
from tests.support.clusters import cluster, job, node, places, scheduler
from tests.support.histories import size

from batchsched import (
    HostPort,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.testing import configs, snapshots

pytestmark = pytest.mark.slow

APPS = ("x", "y")


def near(app: str, key: str) -> PodAffinity:
    selector = LabelSelector(match_labels={"app": app})
    return PodAffinity(required=[PodAffinityTerm(selector=selector, topology_key=key)])


def wants(random: Random) -> dict[str, Any]:
    """What a task wants of others: to be near them or apart, or a port."""
    terms = near(random.choice(APPS), random.choice(("zone", "zone", "host")))
    return random.choice(
        (
            {},
            {"pod_affinity": terms},
            {"pod_anti_affinity": terms},
            {"pod_anti_affinity": terms},
            {"host_ports": [HostPort(port=80)]},
        )
    )


def world(seed: int) -> Snapshot:
    """A few nodes full of unimportant tasks, and a gang whose tasks want something of others."""
    random = Random(seed)
    nodes = [
        NodeInfo(
            name=f"n{number}",
            allocatable=size(random.choice((1, 1, 2, 3))),
            labels={"host": f"n{number}", "zone": random.choice("ab")},
            max_tasks=random.choice((None, None, 1, 2)),
        )
        for number in range(random.randint(2, 4))
    ]
    queues = [Queue(name=name) for name in ("q", "r")[: random.randint(1, 2)]]
    jobs: list[JobInfo] = []

    def add(
        places: list[str | None],
        cpus: int,
        priority: int,
        more: Callable[[], dict[str, Any]] = dict[str, Any],
        *,
        is_gang: bool = False,
    ) -> None:
        name = f"j{len(jobs)}"
        tasks = [
            TaskInfo(
                uid=f"{name}-{number}",
                name=f"{name}-{number}",
                labels={"app": random.choice(APPS)},
                resreq=size(cpus),
                status=TaskStatus.RUNNING if place else TaskStatus.PENDING,
                node_name=place,
                **more(),
            )
            for number, place in enumerate(places)
        ]
        jobs.append(
            JobInfo(
                name=name,
                queue=random.choice(queues).name,
                priority=priority,
                min_available=len(tasks) if is_gang else random.choice((1, len(tasks))),
                creation_time=len(jobs),
                tasks=tasks,
            )
        )

    free: list[str | None] = []
    for each in nodes:
        room = each.allocatable.milli_cpu // 1000
        free += [each.name] * (room if each.max_tasks is None else min(room, each.max_tasks))
    random.shuffle(free)
    while free:
        count = random.choice((1, 1, 2))
        add(free[:count], 1, random.choice((0, 0, 1)))
        del free[:count]
    gang: list[str | None] = [None] * random.choice((1, 2, 2, 3))
    add(gang, random.choice((1, 1, 2)), 9, lambda: wants(random), is_gang=True)
    return Snapshot(nodes=nodes, queues=queues, jobs=jobs)


@pytest.mark.parametrize("name", ["as it comes", "capacity", "curable", "proportion"])
@settings(max_examples=80)
@given(st.integers(0, 1 << 30))
def test_in_a_closed_system_nothing_loops_and_every_claimant_starts_once_others_have_left(
    name: str, seed: int
) -> None:
    history = run(name, world(seed))
    assert not history.faults
    assert not history.in_vain


def test_a_worker_starts_where_it_was_promised_beside_its_leader_whoever_else_it_is_near() -> None:
    """Another node, which is full, would accept the worker before its leader has started."""
    worker, leader = job("g", "1C0G~n1", "1C0G~n1", priority=9).tasks
    gang = [
        evolve(worker, pod_affinity=near("x", "zone")),
        evolve(leader, labels={"app": "x"}),
    ]
    other = job("other", "2C0G@n2", priority=10)
    snapshot = cluster(
        [node("n1", "2C0G", labels={"zone": "a"}), node("n2", "2C0G", labels={"zone": "b"})],
        evolve(job("g", priority=9, minimum=2), tasks=gang),
        evolve(other, tasks=[evolve(task, labels={"app": "x"}) for task in other.tasks]),
    )
    result = scheduler("allocate").schedule(snapshot)
    assert places(result, "g") == {"g-1": "Binding n1", "g-2": "Binding n1"}
    check_reference(snapshot, result, scheduler("allocate").config)


@settings(max_examples=100)
@given(
    snapshots(affinity=False, always=["running"]),
    configs(actions=["allocate", "preempt", "reclaim"]),
)
def test_who_wants_nothing_of_anybody_there_is_decided_like_who_wants_nothing(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    apart = near("nobody has this name", "zone")
    jobs = [
        evolve(each, tasks=[evolve(task, pod_anti_affinity=apart) for task in each.tasks])
        for each in snapshot.jobs
    ]
    wanting = Scheduler(config).schedule(evolve(snapshot, jobs=jobs))
    assert wanting == Scheduler(config).schedule(snapshot)
