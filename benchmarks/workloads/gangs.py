"""Workloads (b) and (c): an empty cluster and many gangs."""

from __future__ import annotations

from random import Random

from attrs import frozen

from batchsched import (
    JobInfo,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    Toleration,
    TolerationOperator,
)
from benchmarks.workloads.nodes import DEDICATED, GIB, mixed_nodes
from benchmarks.workloads.scenario import Scenario, scaled

__all__ = ["gangs"]

TASKS_PER_JOB = 50
QUEUE_WEIGHTS = (4, 3, 2, 1)


@frozen(kw_only=True)
class _Shape:
    milli_cpu: int
    memory: int
    needs_fast_disk: bool = False
    may_use_dedicated: bool = False


# Together they ask for about nine tenths of the cpu of the mixed nodes, at ten tasks a node.
SHAPES = (
    _Shape(milli_cpu=500, memory=1 * GIB),
    _Shape(milli_cpu=1000, memory=4 * GIB),
    _Shape(milli_cpu=2000, memory=4 * GIB, needs_fast_disk=True),
    _Shape(milli_cpu=2000, memory=16 * GIB),
    _Shape(milli_cpu=4000, memory=8 * GIB, may_use_dedicated=True),
    _Shape(milli_cpu=4000, memory=16 * GIB, needs_fast_disk=True),
    _Shape(milli_cpu=8000, memory=16 * GIB),
    _Shape(milli_cpu=8000, memory=32 * GIB),
)


def gangs(
    scale: float, *, nodes: int, jobs: int, unique_shapes: bool = False, seed: int = 2
) -> Scenario:
    """Return jobs of 50 tasks in four queues, on nodes of four sizes, all of them empty.

    Half of the jobs start as a whole or not at all; the others need some of their
    tasks, so that jobs and queues take turns for the rest. A third of the jobs has
    tasks of two shapes.

    Args:
        scale: 1 for the full size.
        nodes: how many nodes there are at full size.
        jobs: how many jobs there are at full size.
        unique_shapes: whether every task has a request of its own.
        seed: of the generator.
    """
    random = Random(seed)
    cluster = mixed_nodes(random, scaled(nodes, scale))
    queues = [
        Queue(name=f"queue-{number}", weight=weight) for number, weight in enumerate(QUEUE_WEIGHTS)
    ]
    waiting = [
        _job(random, number, unique_shapes=unique_shapes) for number in range(scaled(jobs, scale))
    ]
    return Scenario(
        snapshot=Snapshot(nodes=cluster, queues=queues, jobs=waiting, now=100_000.0),
        config=SchedulerConfig(),
    )


def _job(random: Random, number: int, *, unique_shapes: bool) -> JobInfo:
    name = f"job-{number:05}"
    shapes = random.sample(SHAPES, 2 if random.random() < 1 / 3 else 1)
    requests = [Resource(milli_cpu=shape.milli_cpu, memory=shape.memory) for shape in shapes]
    priority = random.choice((1, 1, 1, 5, 10))
    created = float(random.randrange(90_000))
    tasks: list[TaskInfo] = []
    for position in range(TASKS_PER_JOB):
        shape = shapes[position % len(shapes)]
        request = requests[position % len(shapes)]
        if unique_shapes:
            request = Resource(
                milli_cpu=random.randrange(100, 8000), memory=random.randrange(GIB, 32 * GIB)
            )
        tasks.append(
            TaskInfo(
                uid=f"{name}-{position:02}",
                name=f"{name}-{position:02}",
                namespace="team",
                resreq=request,
                priority=priority,
                creation_time=created,
                labels={"job": name},
                node_selector={"disk": "ssd"} if shape.needs_fast_disk else {},
                tolerations=_DEDICATED_TOO if shape.may_use_dedicated else (),
            )
        )
    return JobInfo(
        namespace="team",
        name=name,
        queue=f"queue-{random.randrange(len(QUEUE_WEIGHTS))}",
        min_available=random.choice((TASKS_PER_JOB, TASKS_PER_JOB, 25, 1)),
        priority=priority,
        creation_time=created,
        tasks=tasks,
    )


_DEDICATED_TOO = (Toleration(key=DEDICATED, operator=TolerationOperator.EXISTS),)
