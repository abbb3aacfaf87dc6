"""The example `openb`: the counts of a published GPU-sharing trace, as a cluster of any size.

`openb_shapes.json` holds how many nodes and how many tasks there are of each size, taken from
`openb_node_list_gpu_node` and `openb_pod_list_default` of Alibaba's cluster-trace-gpu-v2023
(Apache License 2.0; Weng et al., "Beware of Fragmentation", USENIX ATC 2023). All nodes are empty
and all tasks wait. What the trace does not contain is generated, always the same:

- Nodes are numbered in the order of the file, so nodes of one shape follow one another.
- Each task is a job of its own; its queue is its quality-of-service class.
- Shapes arrive interleaved: task `k` (from 0) of a shape with `n` tasks arrives at the
  fraction `(k + 0.5) / n` of the whole, and shapes at the same fraction in the order of
  the file. Creation times count up from 0, a second apart.
- A task's share of a GPU counts as an amount: the library does not bind it to a device.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from batchsched import (
    JobInfo,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    Queue,
    Requirement,
    Resource,
    Snapshot,
    TaskInfo,
)
from batchsched_cli.arguments import UsageError

GPU = "nvidia.com/gpu"
GPU_MODEL = "gpu-model"
"""The node label that holds the model of a node's GPUs."""
MIB = 1 << 20

WEIGHTS = {"Guaranteed": 8, "LS": 4, "Burstable": 2, "BE": 1}
"""The queues' weights. They are this example's choice; the trace has no queues."""

SHAPES = Path(__file__).with_name("openb_shapes.json")
MOST_SCALE = 10
"""The largest cluster is so many times that of the trace."""


@dataclass(frozen=True)
class NodeShape:
    """Nodes of one kind."""

    count: int
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_model: str


@dataclass(frozen=True)
class TaskShape:
    """Tasks of one kind."""

    count: int
    cpu_milli: int
    memory_mib: int
    gpus: int
    milli_per_gpu: int
    allowed_gpu_models: str
    qos: str


@dataclass(frozen=True)
class Shapes:
    """How many nodes and tasks there are of each kind."""

    nodes: Sequence[NodeShape]
    tasks: Sequence[TaskShape]


def read_shapes(path: Path = SHAPES) -> Shapes:
    """Return the shapes in a file, whose columns are the fields of the classes above."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Shapes(
        [NodeShape(*row) for row in content["nodes"]], [TaskShape(*row) for row in content["tasks"]]
    )


def scaled_counts(counts: Sequence[int], scale: float) -> list[int]:
    """Return counts in the same proportions whose sum is `scale` times as large.

    Whole parts first, then one more to each of the largest remainders, earlier ones first.

    >>> scaled_counts([10, 5, 1], 0.5), scaled_counts([10, 5, 1], 1)
    ([5, 3, 0], [10, 5, 1])
    """
    exact = [count * scale for count in counts]
    scaled = [int(part) for part in exact]
    missing = round(sum(counts) * scale) - sum(scaled)
    by_remainder = sorted(range(len(counts)), key=lambda at: (scaled[at] - exact[at], at))
    for at in by_remainder[:missing]:
        scaled[at] += 1
    return scaled


def arrivals(counts: Sequence[int]) -> list[int]:
    """Return the shape of each task, in the order in which tasks arrive.

    >>> arrivals([4, 2, 1])
    [0, 1, 0, 2, 0, 1, 0]
    """
    places = [
        ((number + 0.5) / count, shape)
        for shape, count in enumerate(counts)
        for number in range(count)
    ]
    return [shape for _, shape in sorted(places)]


def affinity_of(allowed_gpu_models: str) -> NodeAffinity | None:
    """Return the node affinity of a task that may only run on these models (``A|B``)."""
    if not allowed_gpu_models:
        return None
    is_allowed = Requirement(
        key=GPU_MODEL, operator=Operator.IN, values=allowed_gpu_models.split("|")
    )
    return NodeAffinity(required=[NodeSelectorTerm(match_expressions=[is_allowed])])


def make_snapshot(shapes: Shapes, scale: float = 1.0) -> Snapshot:
    """Return the snapshot: all nodes are empty and all tasks are pending."""
    nodes: list[NodeInfo] = []
    for shape, count in zip(
        shapes.nodes, scaled_counts([shape.count for shape in shapes.nodes], scale), strict=True
    ):
        allocatable = Resource(
            milli_cpu=shape.cpu_milli,
            memory=shape.memory_mib * MIB,
            scalars={GPU: shape.gpus * 1000},
        )
        labels = {GPU_MODEL: shape.gpu_model}
        nodes.extend(
            NodeInfo(name=f"node-{number:04}", allocatable=allocatable, labels=labels)
            for number in range(len(nodes), len(nodes) + count)
        )
    # Tasks of one shape share one request and one affinity, so each is described once.
    requests = [
        Resource(
            milli_cpu=shape.cpu_milli,
            memory=shape.memory_mib * MIB,
            scalars={GPU: shape.gpus * shape.milli_per_gpu} if shape.gpus else {},
        )
        for shape in shapes.tasks
    ]
    affinities = [affinity_of(shape.allowed_gpu_models) for shape in shapes.tasks]
    jobs: list[JobInfo] = []
    in_order = arrivals(scaled_counts([shape.count for shape in shapes.tasks], scale))
    for number, kind in enumerate(in_order):
        name = f"task-{number:04}"
        task = TaskInfo(
            uid=name,
            name=name,
            resreq=requests[kind],
            node_affinity=affinities[kind],
            creation_time=number,
        )
        queue = shapes.tasks[kind].qos
        jobs.append(JobInfo(name=name, queue=queue, creation_time=number, tasks=[task]))
    return Snapshot(
        nodes=nodes,
        jobs=jobs,
        queues=[Queue(name=name, weight=weight) for name, weight in WEIGHTS.items()],
        now=len(jobs),
    )


def example(source: str) -> Snapshot:
    """Return the snapshot that ``openb`` or ``openb:SCALE`` means; 1 is the whole trace.

    Raises:
        UsageError: the scale is none.

    >>> len(example("openb:0.01").jobs)
    82
    """
    text = source.partition(":")[2] if ":" in source else "1"
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= MOST_SCALE:
        raise UsageError(
            f"{source}: expected a scale above 0 and at most {MOST_SCALE}, such as openb:0.1"
        )
    return make_snapshot(read_shapes(), scale)
