"""Workload (a): the openb cluster, 1,213 GPU nodes and 8,152 tasks, one job each.

Shapes and counts are those of the Alibaba cluster-trace-gpu-v2023 (Apache-2.0).
Cite: Weng, Yang et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads
with Fragmentation Gradient Descent", USENIX ATC 2023.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from batchsched import (
    JobInfo,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    Queue,
    Requirement,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
)
from benchmarks.workloads.scenario import Scenario, scaled

__all__ = ["openb"]

SHAPES = Path(__file__).parents[2] / "examples" / "openb_shapes.json"
GPU = "nvidia.com/gpu"
MODEL = "gpu-model"
MIB = 1 << 20
QUEUE_WEIGHTS = {"LS": 4, "Guaranteed": 3, "Burstable": 2, "BE": 1}


def openb(scale: float, *, shapes: Path = SHAPES, seed: int = 1) -> Scenario:
    """Return the openb nodes, empty, and tasks, pending, in four queues by class of service.

    The order in which the tasks came is not in the shapes; they are shuffled.
    """
    random = Random(seed)  # noqa: S311 - a benchmark must be repeatable
    content = json.loads(shapes.read_text(encoding="utf-8"))
    nodes = [
        NodeInfo(
            name="",
            allocatable=Resource(
                milli_cpu=milli_cpu, memory=memory * MIB, scalars={GPU: gpus * 1000}
            ),
            labels={MODEL: model},
        )
        for count, milli_cpu, memory, gpus, model in content["nodes"]
        for _ in range(count)
    ]
    shaped = [
        (_example(shape), str(shape[-1]))
        for count, *shape in content["tasks"]
        for _ in range(count)
    ]
    random.shuffle(nodes)
    random.shuffle(shaped)
    del nodes[scaled(len(nodes), scale) :]
    del shaped[scaled(len(shaped), scale) :]
    return Scenario(
        snapshot=Snapshot(
            nodes=[_named(node, f"openb-node-{i:04}") for i, node in enumerate(nodes)],
            queues=[Queue(name=name, weight=weight) for name, weight in QUEUE_WEIGHTS.items()],
            jobs=[
                _job(f"openb-pod-{number:04}", example, queue, float(number))
                for number, (example, queue) in enumerate(shaped)
            ],
            now=10_000.0,
        ),
        config=SchedulerConfig(),
    )


def _named(node: NodeInfo, name: str) -> NodeInfo:
    return NodeInfo(name=name, allocatable=node.allocatable, labels=node.labels)


def _example(shape: list[int | str]) -> tuple[Resource, NodeAffinity | None]:
    milli_cpu, memory, gpus, milli_per_gpu, models, _ = shape
    request = Resource(
        milli_cpu=int(milli_cpu),
        memory=int(memory) * MIB,
        scalars={GPU: int(gpus) * int(milli_per_gpu)} if gpus else {},
    )
    if not models:
        return request, None
    allowed = Requirement(key=MODEL, operator=Operator.IN, values=str(models).split("|"))
    return request, NodeAffinity(required=[NodeSelectorTerm(match_expressions=[allowed])])


def _job(
    name: str, example: tuple[Resource, NodeAffinity | None], queue: str, created: float
) -> JobInfo:
    request, affinity = example
    task = TaskInfo(
        uid=name,
        name=name,
        resreq=request,
        creation_time=created,
        node_affinity=affinity,
    )
    return JobInfo(name=name, queue=queue, creation_time=created, tasks=[task])
