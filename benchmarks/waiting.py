"""The costs of each strategy against waiting: utilisation and waiting, on openb's shapes.

    python -m benchmarks.waiting [--nodes 40] [--cycles 400] [--load 1.1]
        [--duration 30] [--threshold 60] [--seed 1]

Every strategy gets the same arrivals. They are synthetic, and made like this:

- Nodes: openb's GPU nodes, scaled to the given number in the same proportions.
- Jobs: the shape of a job's tasks is drawn from openb's tasks, each shape as often as it
  is there, best-effort ones left out. Three jobs of four have one task; the others are
  gangs of 2, 4 or 8, with weights 4, 2 and 1, all of whose tasks must start together. One
  job in a hundred is large: a gang of 2 or 4 tasks that each request a whole node, with
  the size of a random node.
- Times: cycles are 60 seconds apart. How long a job takes is drawn from an exponential
  distribution (mean 30 cycles), cut off at four times the mean. In each cycle jobs arrive
  until the work that has arrived since the beginning (share of the cluster times
  duration) is `load` times what the cluster could have done. A job's share is its dominant
  share.
- The first quarter of the cycles is not counted; jobs that still wait at the end count with
  the time that they have waited by then.

No clock is involved, so the table is always the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from random import Random

from attrs import Factory, define, frozen

from batchsched import (
    CycleResult,
    JobInfo,
    NodeAffinity,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    TaskInfo,
)
from batchsched.live import Cluster, JobArrived, JobRemoved, TaskSucceeded, TimePassed
from batchsched_cli.openb import (
    GPU,
    GPU_MODEL,
    MIB,
    affinity_of,
    read_shapes,
    scaled_counts,
)

__all__ = ["STRATEGIES", "Outcome", "Settings", "main", "simulate"]

SECONDS = 60.0
"""From cycle to cycle."""
THRESHOLD = "threshold"
"""Stands in `STRATEGIES` for the number of seconds after which a job is starving."""
LARGE = 1 / 100
"""The part of jobs that request whole nodes."""
_HOLD = {"name": "allocate", "arguments": {"unready": "hold"}}
_DISCARD = {"name": "allocate", "arguments": {"unready": "discard"}}


def _reserve(percent: int, **more: object) -> dict[str, object]:
    return {
        "name": "reserve",
        "arguments": {
            "starvingJobTimeThreshold": THRESHOLD,
            "reservedNodePercent": percent,
            **more,
        },
    }


def _backfill(strategy: str) -> dict[str, object]:
    return {"name": "backfill", "arguments": {"strategy": strategy}}


STRATEGIES: Mapping[str, Sequence[object]] = {
    "allocate (hold)": [_HOLD],
    "allocate (discard)": [_DISCARD],
    "backfill: release": [_HOLD, _backfill("release")],
    "backfill: release, evictBackfill": [
        {"name": "allocate", "arguments": {"unready": "hold", "evictBackfill": True}},
        _backfill("release"),
    ],
    "backfill: displace": [_HOLD, _backfill("displace")],
    "allocate, reserve 10 %": [_HOLD, _reserve(10)],
    "allocate, reserve 50 %": [_HOLD, _reserve(50)],
    "allocate (discard), reserve 50 %": [_DISCARD, _reserve(50)],
    "allocate (discard), reserve 50 %, inOrder": [_DISCARD, _reserve(50, inOrder=True)],
    "allocate starvationThreshold": [
        {"name": "allocate", "arguments": {"unready": "hold", "starvationThreshold": THRESHOLD}}
    ],
    "release, then reserve 50 %": [_HOLD, _backfill("release"), _reserve(50)],
}
"""The actions that are compared, by name."""


@frozen(kw_only=True)
class Settings:
    """What is simulated."""

    nodes: int = 40
    cycles: int = 400
    load: float = 1.1
    """The arriving work, as a part of what the cluster can do."""
    mean_duration: float = 30.0
    """In cycles."""
    threshold: int = 60
    """After how many cycles a job is starving."""
    seed: int = 1


@frozen(kw_only=True)
class Outcome:
    """The results of one strategy."""

    used: Mapping[str, float]
    """The part of each resource that tasks held, on average."""
    waits: Sequence[float]
    """How many cycles each job waited, in ascending order."""
    large_waits: Sequence[float]
    """The same, of the jobs that request whole nodes."""
    starved: int
    """How many jobs waited for longer than the threshold."""
    waiting: int
    """How many jobs still waited at the end."""
    lost: float
    """The part of the work that was lost by evictions."""


@frozen(kw_only=True)
class _Arrival:
    cycle: int
    job: JobInfo
    duration: int
    """In cycles."""
    is_large: bool


def _nodes(count: int) -> list[NodeInfo]:
    shapes = read_shapes().nodes
    scale = count / sum(shape.count for shape in shapes)
    counts = scaled_counts([shape.count for shape in shapes], scale)
    nodes: list[NodeInfo] = []
    for shape, number in zip(shapes, counts, strict=True):
        allocatable = Resource(
            milli_cpu=shape.cpu_milli,
            memory=shape.memory_mib * MIB,
            scalars={GPU: shape.gpus * 1000},
        )
        nodes += [
            NodeInfo(
                name=f"node-{len(nodes) + each:04}",
                allocatable=allocatable,
                labels={GPU_MODEL: shape.gpu_model},
            )
            for each in range(number)
        ]
    return nodes


def _amounts(resource: Resource) -> dict[str, float]:
    return {
        "cpu": resource.milli_cpu,
        "memory": resource.memory,
        "gpu": resource.scalars.get(GPU, 0),
    }


class _Arrivals:
    """Draws jobs: the same ones for every strategy."""

    def __init__(self, settings: Settings, nodes: Sequence[NodeInfo]) -> None:
        self._random = Random(settings.seed)
        self._settings = settings
        self._nodes = nodes
        total = [_amounts(node.allocatable) for node in nodes]
        self._total = {name: sum(each[name] for each in total) for name in total[0]}
        models = {node.labels[GPU_MODEL] for node in nodes}
        self._kinds: list[tuple[Resource, NodeAffinity | None]] = []
        self._weights: list[int] = []
        for shape in read_shapes().tasks:
            request = Resource(
                milli_cpu=shape.cpu_milli,
                memory=shape.memory_mib * MIB,
                scalars={GPU: shape.gpus * shape.milli_per_gpu} if shape.gpus else {},
            )
            allowed = (
                set(shape.allowed_gpu_models.split("|")) if shape.allowed_gpu_models else models
            )
            fits = any(
                request.fits(node.allocatable) and node.labels[GPU_MODEL] in allowed
                for node in nodes
            )
            if fits and not request.is_empty():
                self._kinds.append((request, affinity_of(shape.allowed_gpu_models)))
                self._weights.append(shape.count)

    def all(self) -> Iterator[_Arrival]:
        work = 0.0
        number = 0
        for cycle in range(self._settings.cycles):
            while work < self._settings.load * (cycle + 1):
                arrival = self._draw(number, cycle)
                number += 1
                work += self._share(arrival.job) * arrival.duration
                yield arrival

    def _share(self, job: JobInfo) -> float:
        amounts = _amounts(job.tasks[0].resreq)
        return len(job.tasks) * max(amounts[name] / self._total[name] for name in amounts)

    def _draw(self, number: int, cycle: int) -> _Arrival:
        random = self._random
        is_large = random.random() < LARGE
        affinity: NodeAffinity | None = None
        if is_large:
            request = random.choice(self._nodes).allocatable
            alike = sum(request.fits(node.allocatable) for node in self._nodes)
            size = min(random.choice((2, 4)), alike)
        else:
            (request, affinity), *_ = random.choices(self._kinds, self._weights)
            size = 1
            if random.random() < 1 / 4:
                size = random.choices((2, 4, 8), (4, 2, 1))[0]
        mean = self._settings.mean_duration
        duration = ceil(min(random.expovariate(1 / mean), 4 * mean))
        name = f"job-{number:06}"
        created = cycle * SECONDS
        tasks = [
            TaskInfo(
                uid=f"{name}-{position}",
                name=f"{name}-{position}",
                resreq=request,
                node_affinity=affinity,
                creation_time=created,
            )
            for position in range(size)
        ]
        job = JobInfo(
            name=name, queue="all", min_available=size, creation_time=created, tasks=tasks
        )
        return _Arrival(cycle=cycle, job=job, duration=max(duration, 1), is_large=is_large)


@define
class _Run:
    """One strategy's cluster."""

    settings: Settings
    arrivals: dict[int, list[_Arrival]]
    duration: dict[str, int]
    """Task to its duration."""
    job_of: dict[str, str]
    first_start: dict[str, int] = Factory(dict)
    """Job to the cycle in which it started first."""
    begun: dict[str, int] = Factory(dict)
    """Task that runs to the cycle in which it was bound."""
    left: dict[str, int] = Factory(dict)
    """Job to how many of its tasks have not ended."""
    lost: float = 0.0
    done: float = 0.0

    def take_note(self, result: CycleResult, cycle: int) -> None:
        """Record the decisions of a cycle."""
        for bind in result.binds:
            self.begun[bind.task_uid] = cycle
            self.first_start.setdefault(self.job_of[bind.task_uid], cycle)
        for eviction in result.evictions:
            self.lost += cycle - self.begun.pop(eviction.task_uid)

    def end(self, cycle: int) -> tuple[list[str], list[str]]:
        """Return the tasks that have ended by a cycle, and the jobs that have no other left."""
        ended = [task for task, begun in self.begun.items() if begun + self.duration[task] <= cycle]
        removed: list[str] = []
        for task in ended:
            del self.begun[task]
            self.done += self.duration[task]
            job = self.job_of[task]
            self.left[job] -= 1
            if not self.left[job]:
                removed.append(job)
        return ended, removed


def _with_threshold(action: object, settings: Settings) -> object:
    if not isinstance(action, dict):
        return action
    arguments = {
        name: settings.threshold * SECONDS if value == THRESHOLD else value
        for name, value in action["arguments"].items()
    }
    return {"name": action["name"], "arguments": arguments}


def simulate(settings: Settings, actions: Sequence[object]) -> Outcome:
    """Simulate a cluster under a strategy, and return the results."""
    nodes = _nodes(settings.nodes)
    by_cycle: dict[int, list[_Arrival]] = {}
    everything: list[_Arrival] = []
    for arrival in _Arrivals(settings, nodes).all():
        everything.append(arrival)
        by_cycle.setdefault(arrival.cycle, []).append(arrival)
    run = _Run(
        settings,
        by_cycle,
        {task.uid: each.duration for each in everything for task in each.job.tasks},
        {task.uid: each.job.uid for each in everything for task in each.job.tasks},
        left={each.job.uid: len(each.job.tasks) for each in everything},
    )
    scheduler = Scheduler(
        SchedulerConfig.from_mapping(
            {
                "actions": [_with_threshold(action, settings) for action in actions],
                "tiers": [
                    {"plugins": ["priority", "gang"]},
                    {"plugins": ["predicates", "nodeorder"]},
                ],
            }
        )
    )
    cluster = Cluster(
        nodes=nodes,
        queues=[Queue(name="all")],
        jobs=[each.job for each in by_cycle.get(0, [])],
    )
    live = scheduler.attach(cluster)
    request_of = {task.uid: task.resreq for each in everything for task in each.job.tasks}
    counted_from = settings.cycles // 4
    used = dict.fromkeys(_amounts(Resource()), 0.0)
    for cycle in range(settings.cycles):
        result = live.schedule(reasons=False)
        run.take_note(result, cycle)
        if cycle >= counted_from:
            for task in run.begun:
                for name, amount in _amounts(request_of[task]).items():
                    used[name] += amount
        ended, removed = run.end(cycle + 1)
        cluster.carry_out(result, at_once=True)
        cluster.apply(
            TimePassed((cycle + 1) * SECONDS),
            *map(TaskSucceeded, ended),
            *map(JobRemoved, removed),
            *(JobArrived(each.job) for each in by_cycle.get(cycle + 1, [])),
        )
    return _outcome(settings, run, everything, nodes, used)


def _outcome(
    settings: Settings,
    run: _Run,
    everything: Sequence[_Arrival],
    nodes: Sequence[NodeInfo],
    used: Mapping[str, float],
) -> Outcome:
    counted_from = settings.cycles // 4
    counted = [each for each in everything if each.cycle >= counted_from]
    wait = {
        each.job.uid: run.first_start.get(each.job.uid, settings.cycles) - each.cycle
        for each in counted
    }
    total = [_amounts(node.allocatable) for node in nodes]
    cycles = settings.cycles - counted_from
    return Outcome(
        used={
            name: amount / cycles / sum(each[name] for each in total)
            for name, amount in used.items()
        },
        waits=sorted(wait.values()),
        large_waits=sorted(wait[each.job.uid] for each in counted if each.is_large),
        starved=sum(cycles > settings.threshold for cycles in wait.values()),
        waiting=sum(each.job.uid not in run.first_start for each in counted),
        lost=run.lost / max(run.done + run.lost, 1.0),
    )


def _percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


HEAD = (
    *("strategy", "GPU used", "cpu used", "mean wait", "p95", "longest"),
    *("large: mean", "large: longest", "starved", "still waiting", "work lost"),
)


def _row(name: str, outcome: Outcome) -> tuple[str, ...]:
    waits, large = outcome.waits, outcome.large_waits
    return (
        name,
        f"{outcome.used['gpu']:.1%}",
        f"{outcome.used['cpu']:.1%}",
        f"{_mean(waits):.1f}",
        f"{_percentile(waits, 0.95):.0f}",
        f"{max(waits, default=0):.0f}",
        f"{_mean(large):.1f}",
        f"{max(large, default=0):.0f}",
        f"{outcome.starved} of {len(waits)}",
        f"{outcome.waiting}",
        f"{outcome.lost:.1%}",
    )


def table(settings: Settings) -> Iterator[str]:
    """Yield the lines of the table as Markdown, as they are found out."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|---|" + "---:|" * (len(HEAD) - 1)
    for name, actions in STRATEGIES.items():
        yield f"| {' | '.join(_row(name, simulate(settings, actions)))} |"


def main() -> None:
    """Simulate all strategies and print the table."""
    parser = argparse.ArgumentParser(description="Compare strategies against waiting.")
    default = Settings()
    parser.add_argument("--nodes", type=int, default=default.nodes)
    parser.add_argument("--cycles", type=int, default=default.cycles)
    parser.add_argument("--load", type=float, default=default.load)
    parser.add_argument("--duration", type=float, default=default.mean_duration)
    parser.add_argument("--threshold", type=int, default=default.threshold)
    parser.add_argument("--seed", type=int, default=default.seed)
    given = parser.parse_args()
    settings = Settings(
        nodes=given.nodes,
        cycles=given.cycles,
        load=given.load,
        mean_duration=given.duration,
        threshold=given.threshold,
        seed=given.seed,
    )
    print(
        f"{settings.nodes} nodes, {settings.cycles} cycles of {SECONDS:.0f} s, load "
        f"{settings.load:.0%}, mean duration {settings.mean_duration:.0f} cycles, threshold "
        f"{settings.threshold} cycles, seed {settings.seed}; waits in cycles\n"
    )
    for line in table(settings):
        print(line, flush=True)


if __name__ == "__main__":
    main()
