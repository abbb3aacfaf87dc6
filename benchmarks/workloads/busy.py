"""Workloads (d) and (g): clusters that are full already."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from attrs import frozen

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from benchmarks.workloads.nodes import GIB
from benchmarks.workloads.scenario import Scenario, protecting, scaled

__all__ = [
    "ALL_ACTIONS",
    "busy",
    "fill",
    "full_nodes",
    "nothing_fits",
    "pending_jobs",
    "running_jobs",
]

ALL_ACTIONS = "reclaim, allocate, backfill, preempt"
_SIZES = ((16_000, 64 * GIB), (32_000, 128 * GIB), (64_000, 256 * GIB))
_HOW_MANY = (40, 40, 20)
_REQUESTS = (250, 500, 1000, 2000, 4000, 8000, 16_000)
"""What tasks ask of cpu, in thousandths; of memory they ask about four GiB a cpu."""


@frozen(kw_only=True)
class _QueueUse:
    """How a queue uses the cluster: in parts of all running and all pending tasks."""

    name: str
    weight: int
    running: float
    pending: float


_QUEUES = (
    _QueueUse(name="production", weight=4, running=0.20, pending=0.35),
    _QueueUse(name="research", weight=3, running=0.25, pending=0.30),
    _QueueUse(name="batch", weight=2, running=0.35, pending=0.20),
    _QueueUse(name="development", weight=1, running=0.20, pending=0.15),
)
"""The first two have less than they deserve, the others more."""


def busy(scale: float, *, nodes: int, running: int, pending: int, seed: int = 4) -> Scenario:
    """Return a full cluster where some can take the place of others, and some cannot.

    Nodes are full but for crumbs, except for three in a hundred that are new. Of the
    running jobs four in ten are gangs that cannot spare a task; the others can spare
    some. Two queues have more than they deserve. Priorities go from 1 to 5, on the
    whole higher for what waits. Some waiting tasks are larger than any node can make
    room for, and some ask for nothing at all.

    Args:
        scale: 1 for the full size.
        nodes: how many nodes there are at full size.
        running: how many tasks run at full size; spread evenly.
        pending: how many tasks wait at full size.
        seed: of the generator.
    """
    random = Random(seed)
    cluster = full_nodes(random, scaled(nodes, scale))
    new = max(1, round(len(cluster) * 0.03))
    placed = fill(random, random.sample(cluster, len(cluster) - new), scaled(running, scale))
    random.shuffle(placed)
    jobs: list[JobInfo] = []
    start = 0
    for queue in _QUEUES:
        end = start + round(len(placed) * queue.running)
        jobs += running_jobs(random, queue.name, placed[start:end])
        start = end
    for queue in _QUEUES:
        jobs += pending_jobs(random, queue.name, scaled(round(pending * queue.pending), scale))
    return Scenario(
        snapshot=Snapshot(
            nodes=cluster,
            queues=[Queue(name=queue.name, weight=queue.weight) for queue in _QUEUES],
            jobs=jobs,
            now=500_000.0,
        ),
        config=protecting(ALL_ACTIONS),
    )


def full_nodes(random: Random, count: int) -> list[NodeInfo]:
    """Return nodes of three sizes, to be filled."""
    nodes: list[NodeInfo] = []
    for number in range(count):
        milli_cpu, memory = random.choices(_SIZES, _HOW_MANY)[0]
        nodes.append(
            NodeInfo(
                name=f"node-{number:05}",
                allocatable=Resource(milli_cpu=milli_cpu, memory=memory),
                max_tasks=110,
                labels={"kubernetes.io/hostname": f"node-{number:05}"},
            )
        )
    return nodes


def fill(random: Random, nodes: Sequence[NodeInfo], tasks: int) -> list[tuple[str, Resource]]:
    """Return requests, `tasks` in all, that together leave little of any node."""
    placed: list[tuple[str, Resource]] = []
    for number, node in enumerate(nodes):
        here = (number + 1) * tasks // len(nodes) - number * tasks // len(nodes)
        cpu_left = int(node.allocatable.milli_cpu)
        memory_left = int(node.allocatable.memory)
        for left in range(here, 0, -1):
            # Everything that comes after must find at least the smallest request.
            spare = cpu_left - (left - 1) * _REQUESTS[0]
            mean = cpu_left / left
            choice = [r for r in _REQUESTS if r <= spare and r <= 3 * mean]
            weights = [1 if r > 2 * mean else 4 if r > mean / 2 else 1 for r in choice]
            milli_cpu = random.choices(choice, weights)[0]
            if left == 1:
                milli_cpu = choice[-1]
            memory = min(
                int(milli_cpu * random.choice((2, 3, 4, 4, 5)) * GIB / 1000),
                memory_left - (left - 1) * GIB // 8,
            )
            cpu_left -= milli_cpu
            memory_left -= memory
            placed.append((node.name, Resource(milli_cpu=milli_cpu, memory=memory)))
    return placed


def running_jobs(
    random: Random, queue: str, placed: Sequence[tuple[str, Resource]]
) -> list[JobInfo]:
    """Return jobs of a queue that run where something was placed; four in ten spare no task."""
    jobs: list[JobInfo] = []
    start = 0
    while start < len(placed):
        size = random.choice((1, 8, 16, 32, 64))
        mine = placed[start : start + size]
        start += size
        name = f"{queue}-running-{len(jobs):05}"
        priority = random.choice((1, 1, 2, 2, 3, 4))
        created = float(random.randrange(400_000))
        is_rigid = random.random() < 0.4
        tasks = [
            TaskInfo(
                uid=f"{name}-{position:02}",
                name=f"{name}-{position:02}",
                namespace=queue,
                status=TaskStatus.RUNNING,
                node_name=node,
                resreq=request,
                priority=priority,
                creation_time=created,
                labels={"job": name},
            )
            for position, (node, request) in enumerate(mine)
        ]
        jobs.append(
            JobInfo(
                namespace=queue,
                name=name,
                queue=queue,
                min_available=len(mine) if is_rigid else len(mine) // 2,
                priority=priority,
                creation_time=created,
                tasks=tasks,
            )
        )
    return jobs


def pending_jobs(random: Random, queue: str, count: int) -> list[JobInfo]:
    """Return jobs of a queue that wait, with so many tasks together."""
    jobs: list[JobInfo] = []
    left = count
    while left:
        size = min(left, random.choice((1, 4, 10, 25, 50)))
        left -= size
        name = f"{queue}-waiting-{len(jobs):05}"
        priority = random.choice((1, 2, 3, 4, 5, 5))
        created = float(400_000 + random.randrange(100_000))
        kind = random.random()
        if kind < 0.05:
            request = Resource()
        elif kind < 0.15:
            request = Resource(milli_cpu=48_000, memory=200 * GIB)
        else:
            milli_cpu = random.choice(_REQUESTS[1:6])
            request = Resource(milli_cpu=milli_cpu, memory=milli_cpu * 3 * GIB // 1000)
        tasks = [
            TaskInfo(
                uid=f"{name}-{position:02}",
                name=f"{name}-{position:02}",
                namespace=queue,
                resreq=request,
                priority=priority,
                creation_time=created,
                labels={"job": name},
            )
            for position in range(size)
        ]
        jobs.append(
            JobInfo(
                namespace=queue,
                name=name,
                queue=queue,
                min_available=random.choice((1, max(1, size // 2), size)),
                priority=priority,
                creation_time=created,
                tasks=tasks,
            )
        )
    return jobs


def nothing_fits(
    scale: float,
    *,
    nodes: int,
    pending: int,
    shapes: int,
    actions: str = "allocate, backfill",
    seed: int = 7,
) -> Scenario:
    """Return a full cluster and many waiting tasks, none of which fits anywhere.

    Four queues have equal shares, and a little less than they deserve, so that no
    queue is kept from trying. What runs are gangs that cannot spare a task. Some
    nodes lack cpu, some memory, some both.

    Args:
        scale: 1 for the full size.
        nodes: how many nodes there are at full size.
        pending: how many tasks wait at full size, in jobs of ten of one or two shapes.
        shapes: how many shapes the waiting tasks have.
        actions: what runs.
        seed: of the generator.
    """
    random = Random(seed)
    queues = [f"queue-{number}" for number in range(4)]
    cluster = full_nodes(random, scaled(nodes, scale))
    jobs: list[JobInfo] = []
    for number, node in enumerate(cluster):
        jobs.append(_occupants(random, node, queues[number % len(queues)]))
    requests = [
        Resource(
            milli_cpu=random.randrange(1000, 16_000), memory=random.randrange(4 * GIB, 64 * GIB)
        )
        for _ in range(shapes)
    ]
    for number in range(scaled(pending // 10, scale)):
        name = f"waiting-{number:05}"
        mine = random.sample(requests, random.choice((1, 2)))
        created = float(random.randrange(100_000))
        tasks = [
            TaskInfo(
                uid=f"{name}-{position}",
                name=f"{name}-{position}",
                resreq=mine[position % len(mine)],
                creation_time=created,
            )
            for position in range(10)
        ]
        jobs.append(
            JobInfo(
                name=name,
                queue=queues[number % len(queues)],
                min_available=random.choice((1, 5, 10)),
                creation_time=created,
                tasks=tasks,
            )
        )
    return Scenario(
        snapshot=Snapshot(
            nodes=cluster,
            queues=[Queue(name=name) for name in queues],
            jobs=jobs,
            now=200_000.0,
        ),
        config=protecting(actions),
    )


def _occupants(random: Random, node: NodeInfo, queue: str) -> JobInfo:
    """Return a gang of four that leaves too little cpu, too little memory, or both."""
    cpu_left, memory_left = random.choice(((900, 3 * GIB), (900, 8 * GIB), (4000, 3 * GIB)))
    name = f"running-on-{node.name}"
    request = Resource(
        milli_cpu=(int(node.allocatable.milli_cpu) - cpu_left) // 4,
        memory=(int(node.allocatable.memory) - memory_left) // 4,
    )
    tasks = [
        TaskInfo(
            uid=f"{name}-{position}",
            name=f"{name}-{position}",
            status=TaskStatus.RUNNING,
            node_name=node.name,
            resreq=request,
        )
        for position in range(4)
    ]
    return JobInfo(name=name, queue=queue, min_available=4, tasks=tasks)
