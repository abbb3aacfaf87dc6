"""One cycle on openb: 8,152 tasks of a published GPU-sharing trace on its 1,213 GPU nodes.

    python examples/openb.py [--scale 0.05] [--config FILE] [--json]

It builds a snapshot of an empty cluster from the counts by shape (`README.md` beside this file
tells their source, `batchsched_cli.openb` what it adds to them), lets `batchsched` decide on all
tasks at once, and prints a summary. Nothing is random: the decisions are always the same ones,
and so is their digest. `batchsched why -f openb JOB` and the other commands answer about it too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TypeVar, cast

from attrs import asdict, frozen

from batchsched import (
    ConfigError,
    CycleResult,
    NodeAffinity,
    NodeInfo,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    sum_resources,
)
from batchsched.plugins.proportion import water_fill
from batchsched.state.vectors import dominant_share
from batchsched_cli.openb import GPU, GPU_MODEL, make_snapshot, read_shapes

DIMENSIONS = ("cpu", "memory", GPU)
UNITS = {"cpu": ("CPUs", 1000), "memory": ("GiB of memory", 1 << 30), GPU: ("GPUs", 1000)}
"""The everyday unit of each dimension, and how many units of the library make one."""

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
class Took:
    """How long something took, in seconds: on the clock, and of the processor alone."""

    wall_seconds: float
    processor_seconds: float

    def __str__(self) -> str:
        return f"{self.wall_seconds:.2f} s ({self.processor_seconds:.2f} s of processor time)"


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
    build: Took
    schedule: Took


def everyday(resource: Resource) -> dict[str, float]:
    """Return amounts in everyday units by dimension."""
    return {name: resource.get(name) / UNITS[name][1] for name in DIMENSIONS}


def _told(content: object) -> object:
    """Return content without what plugins would have chosen for tasks, if none did."""
    if isinstance(content, list):
        return [_told(each) for each in cast("list[object]", content)]
    if isinstance(content, dict):
        fields = cast("dict[str, object]", content).items()
        return {name: told for name, told in fields if told or name not in CHOSEN}
    return content


CHOSEN = ("choices", "devices")


def digest_of(result: CycleResult) -> str:
    """Return the SHA-256 of all decisions, in the order in which they were made."""
    content = result.to_dict()
    kinds = ("binds", "evictions", "pipelined", "conditional", "reserved", "dropped_reservations")
    decisions = {kind: _told(content[kind]) for kind in kinds}
    return hashlib.sha256(json.dumps(decisions, sort_keys=True).encode()).hexdigest()


def summarise(
    snapshot: Snapshot,
    config: SchedulerConfig,
    result: CycleResult,
    build: Took,
    schedule: Took,
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
        build=build,
        schedule=schedule,
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
    pending = summary.tasks - bound
    yield (
        f"openb: {bound:,} of {summary.tasks:,} tasks start in one cycle on an empty cluster "
        f"({percent(bound / max(summary.tasks, 1))}); {pending:,} wait"
    )
    speed = summary.tasks / max(summary.schedule.processor_seconds, 1e-6)
    yield f"  decided in {summary.schedule}: {speed:,.0f} tasks a second"
    yield f"  after the snapshot was built in {summary.build}"
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
    yield from wrap(f"  plugins, by tier: {tiers}", 100, subsequent_indent="    ")
    yield ""
    yield f"Decisions: {bound:,} binds, {', '.join(others)}"
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


ResultT = TypeVar("ResultT")


def timed(what: Callable[[], ResultT]) -> tuple[ResultT, Took]:
    """Do something; return what it returns and how long it took."""
    begin = time.perf_counter(), time.process_time()
    result = what()
    end = time.perf_counter(), time.process_time()
    return result, Took(end[0] - begin[0], end[1] - begin[1])


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
    snapshot, build = timed(lambda: make_snapshot(read_shapes(), options.scale))
    result, schedule = timed(lambda: scheduler.schedule(snapshot))
    summary = summarise(snapshot, config, result, build, schedule)
    if options.json:
        print(json.dumps(asdict(summary), indent=2))
    else:
        print("\n".join(summary_lines(summary)))
    is_sound = not summary.nodes_over_capacity
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
