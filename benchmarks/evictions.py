"""What evictions achieve until queues have their shares: ``python -m benchmarks.evictions``.

A closed system: nothing arrives and nothing ends. The cluster is full at the beginning, and two of
its four queues hold more than their shares. Actions are reclaim, allocate, backfill and preempt.
What is evicted has left by the next cycle, and waits again.

- Nodes have 16 cpu; there are 4 GiB of memory to each cpu, in nodes and in requests, so that cpu
  alone shows how much each queue has.
- Jobs have 1 to 4 equal tasks of 1, 2 or 4 cpu. Four in ten are gangs that cannot spare a task; the
  others need one. Priorities go from 1 to 5. They are drawn with a seed.
- What a queue's weight, use and request are is in `QUEUES`. Its share is its part of the cluster by
  weight, as far as it asks for so much; what it does not ask for goes to the others by weight.

A queue *has its share* when it lacks less than the largest gang (16 cpu) to it: gangs start whole
or not at all. An eviction is *wasted* when its claimant does not start in the next cycle, when the
victims have left. If its place is taken from it for a more important job of its queue, that one
has to start instead, in the same cycle or the next. Evictions of the last cycle are not judged.

No clock is involved, so the table is always the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from attrs import frozen

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    next_snapshot,
)

__all__ = ["AT_MINIMUM", "PLUGINS", "QUEUES", "Outcome", "QueueUse", "Settings", "main", "simulate"]

PLUGINS = ("proportion", "capacity")
"""The plugins that give queues their shares, which are compared."""
AT_MINIMUM = ("whole-job", "protect")
"""The values of gang's `atMinimum`: jobs that cannot spare a task are evicted whole, or not."""
ACTIONS = "reclaim, allocate, backfill, preempt"
CPU_OF_NODE = 16
LARGEST_GANG = 16
"""In cpu: four tasks of four."""
GIB = 2**30


@frozen(kw_only=True)
class QueueUse:
    """The initial state of a queue, in parts of the cluster."""

    name: str
    weight: int
    held: float
    """What its tasks run on."""
    request: float
    """All that it asks for, with what it holds."""


QUEUES = (
    QueueUse(name="production", weight=4, held=0.10, request=0.30),
    QueueUse(name="research", weight=3, held=0.10, request=0.60),
    QueueUse(name="batch", weight=2, held=0.45, request=0.60),
    QueueUse(name="development", weight=1, held=0.35, request=0.50),
)
"""The first asks for less than its weight grants; the last two hold more than their shares."""


@frozen(kw_only=True)
class Settings:
    """What is simulated."""

    nodes: int = 200
    cycles: int = 60
    seed: int = 1


@frozen(kw_only=True)
class Outcome:
    """The result with one plugin. Cycles are counted from 1."""

    evictions: int
    wasted: int
    """Evictions for which nobody started when the victims had left.

    That is the claimant or, if its place was taken from it, the task that took it.
    """
    last_eviction: int
    """The cycle of the last eviction; 0: nobody was evicted."""
    cycles_to_share: int | None
    """After how many cycles every queue had its share and kept it; None: not within the time."""
    lacking: Mapping[str, float]
    """What part of its share each queue lacks at the end."""


def simulate(settings: Settings, plugin: str, at_minimum: str) -> Outcome:
    """Run the closed system with `plugin` giving the shares, and return what came of it."""
    # To protect is the default, in versions that have no such argument too.
    arguments = {} if at_minimum == "protect" else {"atMinimum": at_minimum}
    snapshot = _beginning(settings)
    shares = _shares(snapshot)
    scheduler = Scheduler(
        SchedulerConfig.from_mapping(
            {
                "actions": ACTIONS,
                "tiers": [
                    {
                        "plugins": [
                            "priority",
                            {"name": "gang", "arguments": arguments},
                            "conformance",
                        ]
                    },
                    {"plugins": ["drf", "predicates", plugin, "nodeorder"]},
                ],
            }
        )
    )
    evictions = wasted = last_eviction = 0
    held = _held(snapshot)
    judged: list[str] = []
    """The claimants of earlier evictions that should start in this cycle."""
    cycles_to_share: int | None = None
    for cycle in range(1, settings.cycles + 1):
        result = scheduler.schedule(snapshot)
        started = {bind.task_uid for bind in result.binds}
        # Preempt alone takes what was promised or started on a promise, for a more important job.
        took = {
            each.task_uid: each.for_task_uid
            for each in (*result.dropped_promises, *result.taken_back)
        }
        places = [(uid, took.get(uid)) for uid in judged if uid not in started]
        wasted += sum(taker is None for _, taker in places)
        judged = [taker for _, taker in places if taker is not None and taker not in started]
        judged += [eviction.for_task_uid for eviction in result.evictions]
        evictions += len(result.evictions)
        if result.evictions:
            last_eviction = cycle
        snapshot = next_snapshot(snapshot, result, now=float(cycle))
        held = _held(snapshot)
        if any(held[name] <= share - LARGEST_GANG for name, share in shares.items()):
            cycles_to_share = None
        elif cycles_to_share is None:
            cycles_to_share = cycle
    return Outcome(
        evictions=evictions,
        wasted=wasted,
        last_eviction=last_eviction,
        cycles_to_share=cycles_to_share,
        lacking={name: max(1 - held[name] / share, 0.0) for name, share in shares.items()},
    )


def _beginning(settings: Settings) -> Snapshot:
    random = Random(settings.seed)
    total = settings.nodes * CPU_OF_NODE
    idle = [CPU_OF_NODE] * settings.nodes
    jobs: list[JobInfo] = []
    for queue in QUEUES:
        asked = 0
        while asked < queue.request * total:
            job, cpu = _job(random, f"job-{len(jobs):05}", queue.name, len(jobs))
            if asked < queue.held * total:
                job = _placed(random, job, cpu, idle)
            asked += cpu * len(job.tasks)
            jobs.append(job)
    return Snapshot(
        nodes=[
            NodeInfo(name=f"node-{number:04}", allocatable=_amount(CPU_OF_NODE))
            for number in range(settings.nodes)
        ],
        queues=[Queue(name=queue.name, weight=queue.weight) for queue in QUEUES],
        jobs=jobs,
    )


def _job(random: Random, name: str, queue: str, created: int) -> tuple[JobInfo, int]:
    """Return a job that waits, and how many cpu each of its tasks asks for."""
    cpu = random.choice((1, 2, 4))
    size = random.randint(1, 4)
    is_rigid = random.random() < 0.4
    tasks = [
        TaskInfo(uid=f"{name}-{index}", name=f"{name}-{index}", resreq=_amount(cpu))
        for index in range(size)
    ]
    job = JobInfo(
        name=name,
        queue=queue,
        priority=random.randint(1, 5),
        min_available=size if is_rigid else 1,
        creation_time=float(created),
        tasks=tasks,
    )
    return job, cpu


def _placed(random: Random, job: JobInfo, cpu: int, idle: list[int]) -> JobInfo:
    """Return the job with its tasks on nodes, where there is room; else as it was."""
    places: list[int] = []
    for _ in job.tasks:
        room = [node for node, left in enumerate(idle) if left >= cpu]
        if not room:
            for node in places:
                idle[node] += cpu
            return job
        places.append(random.choice(room))
        idle[places[-1]] -= cpu
    tasks = [
        TaskInfo(
            uid=task.uid,
            name=task.name,
            resreq=task.resreq,
            status=TaskStatus.RUNNING,
            node_name=f"node-{node:04}",
        )
        for task, node in zip(job.tasks, places, strict=True)
    ]
    return JobInfo(
        name=job.name,
        queue=job.queue,
        priority=job.priority,
        min_available=job.min_available,
        creation_time=job.creation_time,
        tasks=tasks,
    )


def _amount(cpu: int) -> Resource:
    return Resource(milli_cpu=cpu * 1000, memory=cpu * 4 * GIB)


def _cpu(tasks: Iterator[tuple[str, TaskInfo]]) -> dict[str, float]:
    found = dict.fromkeys((queue.name for queue in QUEUES), 0.0)
    for name, task in tasks:
        found[name] += task.resreq.milli_cpu / 1000
    return found


def _held(snapshot: Snapshot) -> dict[str, float]:
    """Return how many cpu the running tasks of each queue hold."""
    running = TaskStatus.RUNNING
    return _cpu((job.queue, t) for job in snapshot.jobs for t in job.tasks if t.status is running)


def _shares(snapshot: Snapshot) -> dict[str, float]:
    """Return the shares of the queues in cpu: by weight, and none more than it asks for."""
    request = _cpu((job.queue, task) for job in snapshot.jobs for task in job.tasks)
    left = float(len(snapshot.nodes) * CPU_OF_NODE)
    weights = {queue.name: queue.weight for queue in QUEUES}
    shares: dict[str, float] = {}
    while weights:
        of_weight = left / sum(weights.values())
        met = [name for name, weight in weights.items() if request[name] <= of_weight * weight]
        if not met:
            return shares | {name: of_weight * weight for name, weight in weights.items()}
        for name in met:
            del weights[name]
            shares[name] = request[name]
            left -= request[name]
    return shares


HEAD = (
    *(
        "plugin",
        "`atMinimum`",
        "evictions",
        "wasted",
        "cycle of the last",
        "cycles until all have their share",
    ),
    "share that a queue lacks at the end, at most",
)


def _row(plugin: str, at_minimum: str, outcome: Outcome) -> tuple[str, ...]:
    return (
        f"`{plugin}`",
        f"`{at_minimum}`",
        f"{outcome.evictions:,}",
        f"{outcome.wasted:,}",
        f"{outcome.last_eviction}",
        "never" if outcome.cycles_to_share is None else f"{outcome.cycles_to_share}",
        f"{max(outcome.lacking.values()):.1%}",
    )


def table(
    settings: Settings,
    plugins: Sequence[str] = PLUGINS,
    at_minimum: Sequence[str] = AT_MINIMUM,
) -> Iterator[str]:
    """Yield the lines of the table as Markdown, as they are found out."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|---|---|" + "---:|" * (len(HEAD) - 2)
    for plugin in plugins:
        for each in at_minimum:
            yield f"| {' | '.join(_row(plugin, each, simulate(settings, plugin, each)))} |"


def main() -> None:
    """Simulate the closed system with each plugin and print the table."""
    parser = argparse.ArgumentParser(description="What evictions achieve in a closed system.")
    default = Settings()
    parser.add_argument("--nodes", type=int, default=default.nodes)
    parser.add_argument("--cycles", type=int, default=default.cycles)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--plugins", default=",".join(PLUGINS), help="with commas between")
    parser.add_argument("--at-minimum", default=",".join(AT_MINIMUM), help="the same, of gang")
    given = parser.parse_args()
    settings = Settings(nodes=given.nodes, cycles=given.cycles, seed=given.seed)
    print(f"{settings.nodes} nodes, {settings.cycles} cycles, seed {settings.seed}\n")
    for line in table(settings, given.plugins.split(","), given.at_minimum.split(",")):
        print(line, flush=True)


if __name__ == "__main__":
    main()
