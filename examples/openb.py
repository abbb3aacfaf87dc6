"""One cycle on openb: 8,152 tasks of a published GPU-sharing trace on its 1,213 GPU nodes.

    python examples/openb.py [--scale 0.05] [--config FILE] [--json]

It builds a snapshot of an empty cluster from `openb_shapes.json`, which holds the counts
by shape (see `README.md` beside this file for their source), lets `batchsched` decide on
all tasks at once, and prints a summary. Nothing is random: the decisions are always
the same ones, and so is their digest.

What the trace does not contain is generated like this:

- Nodes are numbered in the order of the file, so nodes of one shape follow one another.
- Each task is a job of its own; its queue is its quality-of-service class.
- Shapes arrive interleaved: task `k` (from 0) of a shape with `n` tasks arrives at the
  fraction `(k + 0.5) / n` of the whole, and shapes at the same fraction in the order of
  the file. Creation times count up from 0, a second apart.
- A task's share of a GPU counts as an amount: the library does not bind it to a device.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import asdict, frozen

from batchsched import (
    ConfigError,
    CycleResult,
    JobInfo,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    Queue,
    Requirement,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    sum_resources,
)
from batchsched.plugins.proportion import water_fill
from batchsched.state.vectors import dominant_share

GPU = "nvidia.com/gpu"
GPU_MODEL = "gpu-model"
"""The node label that holds the model of a node's GPUs."""
DIMENSIONS = ("cpu", "memory", GPU)
UNITS = {"cpu": ("CPUs", 1000), "memory": ("GiB of memory", 1 << 30), GPU: ("GPUs", 1000)}
"""The everyday unit of each dimension, and how many units of the library make one."""
MIB = 1 << 20

WEIGHTS = {"Guaranteed": 8, "LS": 4, "Burstable": 2, "BE": 1}
"""The queues' weights. They are this example's choice; the trace has no queues."""

SHAPES = Path(__file__).with_name("openb_shapes.json")


# From shapes to a snapshot


@frozen
class NodeShape:
    """Nodes of one kind."""

    count: int
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_model: str


@frozen
class TaskShape:
    """Tasks of one kind."""

    count: int
    cpu_milli: int
    memory_mib: int
    gpus: int
    milli_per_gpu: int
    allowed_gpu_models: str
    qos: str


@frozen
class Shapes:
    """How many nodes and tasks there are of each kind."""

    nodes: Sequence[NodeShape]
    tasks: Sequence[TaskShape]


def read_shapes(path: Path = SHAPES) -> Shapes:
    """Return the shapes in a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Shapes(
        nodes=[
            NodeShape(**dict(zip(content["node_columns"], row, strict=True)))
            for row in content["nodes"]
        ],
        tasks=[
            TaskShape(**dict(zip(content["task_columns"], row, strict=True)))
            for row in content["tasks"]
        ],
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


# From a result to a summary


@frozen
class Use:
    """The capacity, request and allocation of a resource, in everyday units."""

    capacity: float
    requested: float
    allocated: float


@frozen
class QueueSummary:
    """The outcome of a queue; shares are dominant shares of the whole cluster."""

    name: str
    weight: int
    tasks: int
    bound: int
    requested_share: float
    deserved_share: float
    """Its share by weight, at most its request (water-filling)."""
    got_share: float


@frozen
class ModelSummary:
    """How the nodes with one model of GPU were used."""

    gpu_model: str
    nodes: int
    gpus: float
    allocated: Mapping[str, float]
    """The allocated part of what these nodes have, by dimension."""
    tasks: int


@frozen
class PendingSummary:
    """Tasks with the same request that were left pending for the same reason."""

    count: int
    why: str
    request: Mapping[str, float]
    queues: Mapping[str, int]
    reason: str
    nodes_with_room: int
    """On how many nodes it would fit after all, counted from the binds alone; 0 if none."""


@frozen
class Summary:
    """Everything that is printed."""

    nodes: int
    tasks: int
    tasks_with_affinity: int
    actions: Sequence[str]
    tiers: Sequence[Sequence[str]]
    decisions: Mapping[str, int]
    tasks_by_status: Mapping[str, int]
    use: Mapping[str, Use]
    models: Sequence[ModelSummary]
    queues: Sequence[QueueSummary]
    pending: Sequence[PendingSummary]
    idle_gpus_without_cpu: float
    """GPUs that are idle on nodes with less than one idle CPU."""
    most_idle_gpus_on_a_node: float
    nodes_over_capacity: int
    digest: str
    build_seconds: float
    schedule_seconds: float


def everyday(resource: Resource) -> dict[str, float]:
    """Return amounts in everyday units by dimension."""
    return {name: resource.get(name) / UNITS[name][1] for name in DIMENSIONS}


def digest_of(result: CycleResult) -> str:
    """Return the SHA-256 of all decisions, in the order in which they were made."""
    content = result.to_dict()
    kinds = ("binds", "evictions", "pipelined", "conditional", "reserved", "dropped_reservations")
    decisions = {kind: content[kind] for kind in kinds}
    return hashlib.sha256(json.dumps(decisions, sort_keys=True).encode()).hexdigest()


def summarise(
    snapshot: Snapshot,
    config: SchedulerConfig,
    result: CycleResult,
    build_seconds: float,
    schedule_seconds: float,
) -> Summary:
    """Return the summary of a cycle, computed only from the snapshot and the decisions."""
    tasks = {task.uid: task for job in snapshot.jobs for task in job.tasks}
    queue_of = {task.uid: job.queue for job in snapshot.jobs for task in job.tasks}
    bound_on: dict[str, list[TaskInfo]] = {node.name: [] for node in snapshot.nodes}
    for bind in result.binds:
        bound_on[bind.node_name].append(tasks[bind.task_uid])
    held = {name: sum_resources(task.resreq for task in on) for name, on in bound_on.items()}
    fitting = [node for node in snapshot.nodes if held[node.name].fits(node.allocatable)]
    idle = {node.name: node.allocatable - held[node.name] for node in fitting}
    capacity = sum_resources(node.allocatable for node in snapshot.nodes)
    allocated = everyday(sum_resources(held.values()))
    requested = everyday(sum_resources(task.resreq for task in tasks.values()))
    decisions = {
        "binds": len(result.binds),
        "evictions": len(result.evictions),
        "pipelined": len(result.pipelined),
        "conditional": len(result.conditional),
        "reserved": len(result.reserved),
    }
    return Summary(
        nodes=len(snapshot.nodes),
        tasks=len(tasks),
        tasks_with_affinity=sum(task.node_affinity is not None for task in tasks.values()),
        actions=[action.name for action in config.actions],
        tiers=[[plugin.name for plugin in tier.plugins] for tier in config.tiers],
        decisions=decisions,
        tasks_by_status=Counter(outcome.status.value for outcome in result.tasks.values()),
        use={
            name: Use(amount, requested[name], allocated[name])
            for name, amount in everyday(capacity).items()
        },
        models=list(model_summaries(snapshot.nodes, bound_on, held)),
        queues=list(queue_summaries(snapshot, result, tasks, queue_of, capacity)),
        pending=pending_summaries(result, tasks, queue_of, snapshot.nodes, idle),
        idle_gpus_without_cpu=sum(
            everyday(left)[GPU] for left in idle.values() if left.milli_cpu < UNITS["cpu"][1]
        ),
        most_idle_gpus_on_a_node=max((everyday(left)[GPU] for left in idle.values()), default=0),
        nodes_over_capacity=len(snapshot.nodes) - len(fitting),
        digest=digest_of(result),
        build_seconds=build_seconds,
        schedule_seconds=schedule_seconds,
    )


def model_summaries(
    nodes: Iterable[NodeInfo],
    bound_on: Mapping[str, Sequence[TaskInfo]],
    held: Mapping[str, Resource],
) -> Iterator[ModelSummary]:
    """Yield how the nodes of each GPU model were used, most GPUs first."""
    by_model: dict[str, list[NodeInfo]] = {}
    for node in nodes:
        by_model.setdefault(node.labels[GPU_MODEL], []).append(node)
    totals = {
        model: everyday(sum_resources(node.allocatable for node in of_model))
        for model, of_model in by_model.items()
    }
    for model in sorted(by_model, key=lambda model: (-totals[model][GPU], model)):
        names = [node.name for node in by_model[model]]
        used = everyday(sum_resources(held[name] for name in names))
        yield ModelSummary(
            gpu_model=model,
            nodes=len(names),
            gpus=totals[model][GPU],
            allocated={name: used[name] / totals[model][name] for name in DIMENSIONS},
            tasks=sum(len(bound_on[name]) for name in names),
        )


def queue_summaries(
    snapshot: Snapshot,
    result: CycleResult,
    tasks: Mapping[str, TaskInfo],
    queue_of: Mapping[str, str],
    capacity: Resource,
) -> Iterator[QueueSummary]:
    """Yield the outcome of each queue, the largest request first."""

    def amounts(resource: Resource) -> tuple[float, ...]:
        return tuple(resource.get(name) for name in DIMENSIONS)

    def share(part: Sequence[float]) -> float:
        return dominant_share(part, amounts(capacity))

    def by_queue(uids: Iterable[str]) -> dict[str, list[Resource]]:
        found: dict[str, list[Resource]] = {queue.name: [] for queue in snapshot.queues}
        for uid in uids:
            found[queue_of[uid]].append(tasks[uid].resreq)
        return found

    requests = by_queue(tasks)
    binds = by_queue(bind.task_uid for bind in result.binds)
    requested = {name: amounts(sum_resources(all_)) for name, all_ in requests.items()}
    weights = {queue.name: queue.weight for queue in snapshot.queues if requests[queue.name]}
    deserved = water_fill(amounts(capacity), weights, requested)
    for queue in sorted(snapshot.queues, key=lambda queue: -share(requested[queue.name])):
        name = queue.name
        yield QueueSummary(
            name=name,
            weight=queue.weight,
            tasks=len(requests[name]),
            bound=len(binds[name]),
            requested_share=share(requested[name]),
            deserved_share=share(deserved.get(name, ())),
            got_share=share(amounts(sum_resources(binds[name]))),
        )


def pending_summaries(
    result: CycleResult,
    tasks: Mapping[str, TaskInfo],
    queue_of: Mapping[str, str],
    nodes: Iterable[NodeInfo],
    idle: Mapping[str, Resource],
) -> list[PendingSummary]:
    """Return the pending tasks by reason and request, the most frequent first."""
    groups: dict[tuple[str, str, Resource, NodeAffinity | None], list[str]] = {}
    for uid, reason in result.pending.items():
        task = tasks[uid]
        key = (reason.why.value, reason.text, task.start_request, task.node_affinity)
        groups.setdefault(key, []).append(uid)
    nodes = list(nodes)
    summaries = [
        PendingSummary(
            count=len(uids),
            why=why,
            request=everyday(request),
            queues=Counter(queue_of[uid] for uid in uids),
            reason=text,
            nodes_with_room=sum(
                node.name in idle
                and request.fits(idle[node.name])
                and (affinity is None or affinity.accepts(node.labels, node.name))
                for node in nodes
            ),
        )
        for (why, text, request, affinity), uids in groups.items()
    ]
    return sorted(summaries, key=lambda group: (group.why, -group.count, -group.request[GPU]))


# From a summary to text


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table: first column to the left, numbers to the right."""
    lines = [tuple(headings), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        first, *others = (
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  " + "  ".join([first, *others]).rstrip()


def percent(part: float) -> str:
    """Return a fraction in percent.

    >>> percent(0.98765)
    '98.8 %'
    """
    return f"{part:.1%}".replace("%", " %")


def amount(value: float) -> str:
    """Return an amount with as many decimals as it needs, two at most.

    >>> amount(1213), amount(0.81), amount(11.5)
    ('1,213', '0.81', '11.5')
    """
    text = f"{value:,.2f}"
    return text.rstrip("0").rstrip(".")


def summary_lines(summary: Summary) -> Iterator[str]:
    """Yield the summary as lines of at most 100 characters."""
    bound = summary.decisions["binds"]
    others = [f"{number:,} {kind}" for kind, number in summary.decisions.items() if kind != "binds"]
    tiers = " | ".join(" ".join(tier) for tier in summary.tiers)
    yield "openb: one scheduling cycle on an empty cluster"
    yield ""
    yield (
        f"  {summary.nodes:,} nodes with {amount(summary.use[GPU].capacity)} GPUs; "
        f"{summary.tasks:,} tasks, one job each; {len(summary.queues)} queues"
    )
    if summary.tasks_with_affinity:
        yield f"  {summary.tasks_with_affinity:,} tasks accept some GPU models only"
    else:
        yield "  every task accepts every GPU model (this task list restricts none)"
    yield f"  actions: {', '.join(summary.actions)}"
    yield f"  plugins, by tier: {tiers}"
    yield ""
    yield f"Decisions: {bound:,} tasks bound ({percent(bound / max(summary.tasks, 1))})"
    yield f"  {', '.join(others)}"
    status = ", ".join(f"{count:,} {name}" for name, count in summary.tasks_by_status.items())
    yield f"  tasks at the end of the cycle: {status}"
    yield ""
    yield "Utilisation"
    yield from table(
        ("resource", "capacity", "requested", "allocated", "requested", "allocated"),
        [
            (
                UNITS[name][0],
                f"{use.capacity:,.0f}",
                f"{use.requested:,.1f}",
                f"{use.allocated:,.1f}",
                percent(use.requested / use.capacity),
                percent(use.allocated / use.capacity),
            )
            for name, use in summary.use.items()
        ],
    )
    yield ""
    yield "By GPU model (allocated part of what the nodes with it have)"
    yield from table(
        ("model", "nodes", "GPUs", "GPUs used", "CPU used", "memory used", "tasks"),
        [
            (
                model.gpu_model,
                f"{model.nodes:,}",
                f"{model.gpus:,.0f}",
                *(percent(model.allocated[name]) for name in (GPU, "cpu", "memory")),
                f"{model.tasks:,}",
            )
            for model in summary.models
        ],
    )
    yield ""
    yield "By queue (dominant shares of the cluster; the weights are this example's choice)"
    yield from table(
        ("queue", "weight", "tasks", "bound", "pending", "requested", "deserved", "got"),
        [
            (
                queue.name,
                str(queue.weight),
                f"{queue.tasks:,}",
                f"{queue.bound:,}",
                f"{queue.tasks - queue.bound:,}",
                percent(queue.requested_share),
                percent(queue.deserved_share),
                percent(queue.got_share),
            )
            for queue in summary.queues
        ],
    )
    if all(use.requested <= use.capacity for use in summary.use.values()):
        yield "  Together the queues request less than the cluster has, so each deserves all that"
        yield "  it requests, and weights only decide whose turn comes first."
    yield ""
    yield from pending_lines(summary)
    yield ""
    yield f"Digest of the decisions (SHA-256): {summary.digest}"
    speed = f"{summary.tasks / summary.schedule_seconds:,.0f} tasks a second"
    yield (
        f"Time: {summary.schedule_seconds:.2f} s to schedule ({speed}); "
        f"{summary.build_seconds:.2f} s to build the snapshot before"
    )


SHOWN_GROUPS = 12


def pending_lines(summary: Summary) -> Iterator[str]:
    """Yield the pending tasks and their reasons, and whether these are true."""
    pending = sum(group.count for group in summary.pending)
    yield f"Pending: {pending:,} tasks"
    if not pending:
        return
    by_why = Counter[str]()
    for group in summary.pending:
        by_why[group.why] += group.count
    for why, count in by_why.most_common():
        groups = [group for group in summary.pending if group.why == why]
        yield f"  {why}: {count:,} tasks of {len(groups)} kinds"
        rows = [
            (
                f"  {group.count:,} x",
                amount(group.request[GPU]),
                amount(group.request["cpu"]),
                amount(group.request["memory"]),
                f"{group.nodes_with_room:,}",
                ", ".join(f"{count} {name}" for name, count in sorted(group.queues.items())),
            )
            for group in groups[:SHOWN_GROUPS]
        ]
        yield from table(
            ("  tasks", "GPUs", "CPUs", "GiB of memory", "nodes with room", "queues"), rows
        )
        if len(groups) > SHOWN_GROUPS:
            rest = sum(group.count for group in groups[SHOWN_GROUPS:])
            yield f"    and {rest:,} more tasks of {len(groups) - SHOWN_GROUPS} kinds"
        reasons = Counter[str]()
        for group in groups:
            reasons[group.reason] += group.count
        reason, times = reasons.most_common(1)[0]
        yield f"    most frequent reason, of {len(reasons)} ({times} tasks):"
        yield from (f"      {part}" for part in wrapped(reason, 92))
    gpus = summary.use[GPU]
    idle = gpus.capacity - gpus.allocated
    yield "  Counted again from the binds alone:"
    if summary.nodes_over_capacity:
        yield f"    WRONG: {summary.nodes_over_capacity} nodes were given more than they have"
    roomy = sum(group.count for group in summary.pending if group.nodes_with_room)
    yield (
        f"    {roomy:,} of the pending tasks would fit on some node after all"
        if roomy
        else "    no node has room left for any of them, and none was given more than it has"
    )
    yield (
        f"    {amount(idle)} GPUs are idle, {amount(summary.most_idle_gpus_on_a_node)} at most "
        f"on one node; {amount(summary.idle_gpus_without_cpu)} of them beside less than 1 idle CPU"
    )


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield `text` in lines of at most `width` characters, broken after commas."""
    line = ""
    for part in text.split(", "):
        if line and len(line) + len(part) + 2 > width:
            yield line + ","
            line = part
        else:
            line = f"{line}, {part}" if line else part
    yield line


# The command


def read_config(path: Path | None) -> SchedulerConfig:
    """Return the configuration in a JSON file, or the default one."""
    if path is None:
        return SchedulerConfig()
    return SchedulerConfig.from_mapping(json.loads(path.read_text(encoding="utf-8")))


def scale_of(text: str) -> float:
    """Read the argument of ``--scale``."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="openb",
        description="Schedule the 8,152 tasks of openb on its 1,213 GPU nodes in one cycle.",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a scheduler configuration as JSON (actions, tiers); the library's default without",
    )
    parser.add_argument(
        "--scale",
        type=scale_of,
        default=1.0,
        metavar="PART",
        help="use this part of the nodes and tasks, such as 0.05, in the same proportions",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args(arguments)
    try:
        config = read_config(options.config)
        scheduler = Scheduler(config)
    except (ConfigError, OSError, ValueError) as error:
        parser.error(f"argument --config: {error}")
    begun = time.perf_counter()
    snapshot = make_snapshot(read_shapes(), options.scale)
    built = time.perf_counter()
    result = scheduler.schedule(snapshot)
    done = time.perf_counter()
    summary = summarise(snapshot, config, result, built - begun, done - built)
    if options.json:
        print(json.dumps(asdict(summary), indent=2))
    else:
        print("\n".join(summary_lines(summary)))
    is_sound = not summary.nodes_over_capacity
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
