"""How the time of a cycle grows along one axis at a time, each of which is doubled.

    python -m benchmarks.axes [--scale 1] [--only AXIS,AXIS]

Each axis has many of something expensive: tasks that repel one another, jobs that each select a
node of their own, and so on. The exponent is the slope between the first size and the last, on
logarithmic scales: 1 is linear, and 2 is quadratic. Times are processor time, the best of two.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from functools import partial
from math import log
from random import Random
from time import process_time

from attrs import evolve, frozen

from batchsched import (
    HostPort,
    JobInfo,
    LabelSelector,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
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
    Toleration,
)
from benchmarks.workloads.nodes import GIB

__all__ = ["AXES", "Axis", "main", "measure"]

HOSTNAME = "kubernetes.io/hostname"
PLAIN = "allocate, backfill"
ALL_ACTIONS = "reclaim, allocate, backfill, preempt"
PREEMPT = "allocate, preempt"
DISPLACE: list[dict[str, object]] = [
    {"name": "allocate"},
    {"name": "backfill", "arguments": {"strategy": "displace"}},
]
ROUNDS = 2


@frozen(kw_only=True)
class Axis:
    """One thing whose number grows."""

    name: str
    make: Callable[[int], Snapshot]
    largest: int
    """The size at scale 1; the others are halves of it."""
    actions: str | list[dict[str, object]] = PLAIN
    sizes: int = 3


def amount(milli_cpu: int = 1000, memory: int = 4 * GIB) -> Resource:
    return Resource(milli_cpu=milli_cpu, memory=memory)


def nodes(count: int, size: int = 1) -> list[NodeInfo]:
    return [
        NodeInfo(
            name=f"n{number:05}",
            allocatable=amount(64_000 * size, 256 * GIB * size),
            max_tasks=110 if size == 1 else None,
            labels={HOSTNAME: f"n{number:05}", "zone": f"z{number % 3}"},
        )
        for number in range(count)
    ]


def job(name: str, *tasks: TaskInfo, queue: int = 0, minimum: int = 1) -> JobInfo:
    return JobInfo(name=name, queue=f"q{queue}", min_available=minimum, tasks=tasks)


def task(uid: str, request: Resource | None = None) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, resreq=amount() if request is None else request)


def running(uid: str, node: int, request: Resource) -> TaskInfo:
    return evolve(task(uid, request), status=TaskStatus.RUNNING, node_name=f"n{node:05}")


def cluster(there: list[NodeInfo], jobs: list[JobInfo], queues: int = 3) -> Snapshot:
    names = [Queue(name=f"q{number}", weight=number % 5 + 1) for number in range(queues)]
    return Snapshot(nodes=there, jobs=jobs, queues=names, now=1e6)


def repellers(count: int) -> Snapshot:
    """Apps of three tasks, each of which keeps away from the tasks of all other apps."""
    jobs: list[JobInfo] = []
    for app in range(count):
        others = LabelSelector(
            match_labels={"env": "prod"},
            match_expressions=[
                Requirement(key="app", operator=Operator.NOT_IN, values=[f"a{app}"])
            ],
        )
        away = PodAffinity(required=[PodAffinityTerm(selector=others, topology_key=HOSTNAME)])
        labels = {"app": f"a{app}", "env": "prod"}
        tasks = [
            evolve(task(f"j{app}-{k}"), labels=labels, pod_anti_affinity=away) for k in range(3)
        ]
        jobs.append(job(f"j{app}", *tasks))
    return cluster(nodes(400), jobs)


def own_labels(count: int) -> Snapshot:
    """Jobs whose tasks keep apart, by a label that only they have, whatever its value."""
    jobs: list[JobInfo] = []
    for number in range(count):
        key = f"job{number}"
        mine = LabelSelector(match_expressions=[Requirement(key=key, operator=Operator.EXISTS)])
        apart = PodAffinity(required=[PodAffinityTerm(selector=mine, topology_key=HOSTNAME)])
        tasks = [
            evolve(task(f"j{number}-{k}"), labels={key: "x"}, pod_anti_affinity=apart)
            for k in range(5)
        ]
        jobs.append(job(f"j{number}", *tasks, minimum=5))
    return cluster(nodes(500), jobs)


def own_nodes(count: int) -> Snapshot:
    """Jobs of two tasks, each of which selects a node of its own."""
    jobs = [
        job(
            f"j{number}",
            *(
                evolve(task(f"j{number}-{k}"), node_selector={HOSTNAME: f"n{number:05}"})
                for k in range(2)
            ),
        )
        for number in range(count)
    ]
    return cluster(nodes(count), jobs)


def own_taints(count: int) -> Snapshot:
    """Nodes with a taint of their own each, and jobs of two tasks that tolerate one of them."""
    effect = TaintEffect.NO_SCHEDULE
    there = [
        evolve(node, taints=[Taint(key="d", value=str(number), effect=effect)])
        for number, node in enumerate(nodes(count))
    ]
    jobs = [
        job(
            f"j{number}",
            *(
                evolve(task(f"j{number}-{k}"), tolerations=[Toleration(key="d", value=str(number))])
                for k in range(2)
            ),
        )
        for number in range(count)
    ]
    return cluster(there, jobs)


def own_ports(count: int) -> Snapshot:
    """Tasks with a host port of their own each, on few nodes."""
    jobs = [
        job(
            f"j{number}",
            evolve(task(f"j{number}", amount(1, 1)), host_ports=[HostPort(port=number + 1)]),
        )
        for number in range(count)
    ]
    return cluster(nodes(100, size=100), jobs)


def within_a_job(count: int) -> Snapshot:
    """A job all of whose running tasks are worth less than as many that wait."""
    request = amount(16_000, 64 * GIB)
    low = [
        evolve(running(f"r{number:05}", number // 4, request), priority=1)
        for number in range(count)
    ]
    high = [evolve(task(f"x{number:05}", request), priority=9) for number in range(count)]
    return cluster(nodes(count // 4), [job("g", *low, *high)], queues=1)


def displaced(count: int) -> Snapshot:
    """Gangs that hold half of what they need, and small jobs that wait."""
    gangs = [
        evolve(
            job(
                f"p{number}",
                *(task(f"p{number}-{k:02}", amount(1000 if k < 5 else 65_000)) for k in range(10)),
                queue=number % 3,
                minimum=10,
            ),
            priority=1,
        )
        for number in range(count)
    ]
    small = [
        job(f"s{number}", task(f"s{number}", amount(2000)), queue=number % 3)
        for number in range(count)
    ]
    return cluster(nodes(count * 5 // 64 + 1), gangs + small)


def claimants(count: int) -> Snapshot:
    """Unlike tasks of one queue that claim from another, which holds everything."""
    held = [
        job(f"r{number}", running(f"r{number}", number // 4, amount(16_000, 64 * GIB)), queue=1)
        for number in range(4 * count)
    ]
    held = [evolve(each, min_available=0) for each in held]
    come = [job(f"c{number}", task(f"c{number}", amount(8000 + number))) for number in range(count)]
    return cluster(nodes(count), held + come, queues=2)


def full(count: int, *, priorities: int) -> Snapshot:
    """Full nodes of twelve single tasks of some priorities, and tasks that are worth more.

    One comes for fifty nodes. The least important ones are on one node in ten.
    """
    random = Random(count)
    size, held = amount(5000, 20 * GIB), list[JobInfo]()
    for number in range(12 * count):
        place = number // 12
        least = 1 if place % 10 == 9 else min(2, priorities)
        uid, priority = f"r{number}", random.randint(least, priorities)
        one = evolve(running(uid, place, size), priority=priority)
        held.append(evolve(job(uid, one, minimum=0), priority=priority))
    come = [
        evolve(job(uid, evolve(task(uid, size), priority=9)), priority=9)
        for uid in (f"c{number}" for number in range(max(1, count // 50)))
    ]
    return cluster(nodes(count), held + come, queues=1)


def preferences(count: int) -> Snapshot:
    """Jobs of ten tasks with preferences of their own."""
    jobs: list[JobInfo] = []
    for number in range(count):
        zone = Requirement(key="zone", operator=Operator.IN, values=[f"z{number % 3}"])
        term = PreferredNodeTerm(
            weight=number % 100 + 1, term=NodeSelectorTerm(match_expressions=[zone])
        )
        tasks = [
            evolve(
                task(f"j{number}-{k}", amount(500 + number)),
                node_affinity=NodeAffinity(preferred=[term]),
            )
            for k in range(10)
        ]
        jobs.append(job(f"j{number}", *tasks))
    return cluster(nodes(500), jobs)


def own_shapes(count: int) -> Snapshot:
    """Queues with a job of ten tasks each, with a request that only they have."""
    jobs = [
        job(
            f"j{number}",
            *(task(f"j{number}-{k}", amount(500 + number)) for k in range(10)),
            queue=number,
        )
        for number in range(count)
    ]
    return cluster(nodes(500), jobs, queues=count)


AXES = (
    Axis(name="repellers", make=repellers, largest=400),
    Axis(name="own-labels", make=own_labels, largest=400),
    Axis(name="own-nodes", make=own_nodes, largest=2000),
    Axis(name="own-taints", make=own_taints, largest=2000),
    Axis(name="own-ports", make=own_ports, largest=4000),
    Axis(name="within-a-job", make=within_a_job, largest=800, actions=ALL_ACTIONS),
    Axis(name="displaced", make=displaced, largest=800, actions=DISPLACE),
    Axis(name="claimants", make=claimants, largest=800, actions=ALL_ACTIONS),
    Axis(name="one-priority", make=partial(full, priorities=1), largest=5000, actions=PREEMPT),
    Axis(name="five-priorities", make=partial(full, priorities=5), largest=5000, actions=PREEMPT),
    Axis(name="preferences", make=preferences, largest=400),
    Axis(name="own-shapes", make=own_shapes, largest=400),
)


def measure(axis: Axis, size: int) -> float:
    """Return the seconds of one cycle."""
    snapshot = axis.make(size)
    scheduler = Scheduler(SchedulerConfig.from_mapping({"actions": axis.actions}))
    spent: list[float] = []
    for _ in range(ROUNDS):
        gc.collect()
        begin = process_time()
        scheduler.schedule(snapshot, reasons=False)
        spent.append(process_time() - begin)
    return min(spent)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.axes", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="the part of the full sizes")
    parser.add_argument("--only", help="names of axes, with commas between them")
    given = parser.parse_args(arguments)
    names = None if given.only is None else given.only.split(",")
    print("| axis | sizes | ms | exponent |")
    print("| --- | --- | --- | ---: |")
    for axis in AXES:
        if names is not None and axis.name not in names:
            continue
        sizes = [int(axis.largest * given.scale) >> k for k in reversed(range(axis.sizes))]
        times = [measure(axis, size) for size in sizes]
        exponent = log(times[-1] / times[0]) / log(sizes[-1] / sizes[0])
        shown = ", ".join(f"{seconds * 1e3:,.0f}" for seconds in times)
        print(f"| {axis.name} | {', '.join(map(str, sizes))} | {shown} | {exponent:.2f} |")


if __name__ == "__main__":
    main()
