"""What moves free, beside what evicting would have cost: ``python -m benchmarks.moves``.

    python -m benchmarks.moves [--scale 1] [--update-digest]

First table: how long a plan takes for 100 nodes of 1,000 with 8,000 tasks, more than half of whose
GPUs are in use, in seconds of a processor. The plan must be the one of which the digest is stored.

Second table: what the action `consolidate` adds to a cycle in which it finds nothing, at most 2
seconds. On 1,000 nodes of 25 GPUs, 8,000 tasks have 3 each; one is idle on each node, so that no
task of theirs fits elsewhere. 100 jobs that are all unlike claim from 4 to 13 GPUs of one node: by
amounts that takes one to four moves, and each search ends only when its tries are used up. Who
waits and why must be that of which the digest is stored. Both cycles are from
scratch, in turns; of the differences the median is told. (A cycle whose actions do not name
`consolidate` never comes to its code, nor keeps anything for it: its cost is that of the first
row, and its ratio 1.0, by construction. It is not measured.)

Third table: the openb cluster at 95 % and 90 % load. Its tasks that ask for GPUs are placed in the
order of the trace by the default configuration, which spreads them, then those of a second round of
the trace, as far as they fit; then tasks end, drawn with a seed, until so many of all GPUs are in
use. (With the tasks that ask for none, the CPUs are in use as well.) All jobs are in one queue.
Whole nodes of eight GPUs are wanted:

- *moves*: `plan_moves` plans to free so many, with the plugin placement, which packs. What moves
  starts again at once, and nobody waits. The last row of a load has as many as can be freed.
- *evictions*: as many jobs of a higher priority come that ask for eight GPUs each, and `preempt`
  evicts for them. What was evicted waits, and starts again in the next cycle where there is room.

"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from random import Random
from statistics import median
from time import process_time

from attrs import evolve, frozen

from batchsched import (
    CycleResult,
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
from batchsched.live import Cluster, JobArrived, JobRemoved
from batchsched.tools import FreeNodes, MovePlan, plan_moves
from batchsched_cli.openb import GPU, make_snapshot, read_shapes
from benchmarks.cycle import Run
from benchmarks.digests import Digests

__all__ = [
    "Evicted",
    "cramped",
    "digest_of",
    "evictions_for",
    "in_vain",
    "loaded",
    "main",
    "many_tasks",
]

LOADS = (0.95, 0.9)
SIZE = 8
"""The GPUs of a node that is wanted whole."""
WHOLE = {"gpus": str(SIZE)}
WANTED = (1, 5, 10, 20)
QUEUE = "all"
PACKING = SchedulerConfig.from_mapping(
    {
        "tiers": [
            {"plugins": ["priority", "gang", "conformance", "protection"]},
            {"plugins": ["predicates", "placement"]},
        ]
    }
)
ALLOCATING = SchedulerConfig.from_mapping({"actions": "allocate"})
CONSOLIDATING = SchedulerConfig.from_mapping({"actions": "allocate, consolidate"})
ROUNDS = 5
PREEMPTING = SchedulerConfig.from_mapping({"actions": "allocate, backfill, preempt"})


def loaded(scale: float, load: float, *, seed: int = 11) -> Snapshot:
    """Return the openb cluster with so many of its GPUs in use, by tasks that ask for them."""
    trace = make_snapshot(read_shapes(), scale)
    nodes = [
        evolve(
            node,
            labels={**node.labels, "gpus": str(node.allocatable.get(GPU) // 1000)},
        )
        for node in trace.nodes
    ]
    jobs = [evolve(job, queue=QUEUE) for job in trace.jobs if job.tasks[0].resreq.get(GPU)]
    cluster = Cluster(Snapshot(nodes=nodes, queues=[Queue(name=QUEUE)], jobs=jobs))
    live = Scheduler().attach(cluster)
    cluster.carry_out(live.schedule(reasons=False), at_once=True)
    cluster.apply(*(JobArrived(_once_more(job)) for job in jobs))
    cluster.carry_out(live.schedule(reasons=False), at_once=True)
    cluster.apply(*(JobRemoved(job.uid) for job in cluster.snapshot().jobs if not _runs(job)))
    total = sum(node.allocatable.get(GPU) for node in nodes)
    running = [*cluster.snapshot().jobs]
    used = sum(task.resreq.get(GPU) for job in running for task in job.tasks)
    Random(seed).shuffle(running)
    for job in running:
        if used <= load * total:
            break
        used -= sum(task.resreq.get(GPU) for task in job.tasks)
        cluster.apply(JobRemoved(job.uid))
    return cluster.snapshot()


def _once_more(job: JobInfo) -> JobInfo:
    tasks = [evolve(t, uid=f"{t.uid}-again", name=f"{t.name}-again") for t in job.tasks]
    later = job.creation_time + 1e6
    return evolve(job, name=f"{job.name}-again", creation_time=later, tasks=tasks)


def _runs(job: JobInfo) -> bool:
    return any(task.status is TaskStatus.RUNNING for task in job.tasks)


@frozen(kw_only=True)
class Evicted:
    """What became of evictions for jobs that want whole nodes."""

    served: int
    """How many of these jobs have started."""
    tasks: int
    """How many tasks were evicted."""
    gpus: float
    """The GPUs that these held."""
    waiting: int
    """How many of them wait after the next cycle."""
    gpus_waiting: float


def evictions_for(snapshot: Snapshot, count: int) -> Evicted:
    """Return what it costs to evict for so many jobs that each want a whole node."""
    wanted = Resource(milli_cpu=1000, scalars={GPU: SIZE * 1000})
    claimants = [
        JobInfo(
            name=f"wants-{number}",
            queue=QUEUE,
            priority=1,
            tasks=[TaskInfo(uid=f"wants-{number}", name=f"wants-{number}", resreq=wanted)],
        )
        for number in range(count)
    ]
    before = evolve(snapshot, jobs=[*snapshot.jobs, *claimants])
    scheduler = Scheduler(PREEMPTING)
    first = scheduler.schedule(before, reasons=False)
    after = next_snapshot(before, first, now=before.now + 1)
    again = scheduler.schedule(after, reasons=False)
    evicted = {each.task_uid for each in first.evictions}
    placed = {bind.task_uid for bind in (*first.binds, *again.binds)}
    held = {task.uid: task.resreq.get(GPU) / 1000 for job in snapshot.jobs for task in job.tasks}
    waiting = evicted - placed
    return Evicted(
        served=sum(job.name in placed for job in claimants),
        tasks=len(evicted),
        gpus=sum(held[uid] for uid in evicted),
        waiting=len(waiting),
        gpus_waiting=sum(held[uid] for uid in waiting),
    )


def many_tasks(scale: float = 1, *, seed: int = 7) -> Snapshot:
    """Return 1,000 nodes with 8 tasks each, more than half of whose GPUs are in use."""
    rng = Random(seed)
    names = [f"n{number:04}" for number in range(round(1000 * scale))]
    size = Resource(milli_cpu=96_000, memory=512 << 30, scalars={GPU: 24_000})
    jobs: list[JobInfo] = []
    for name in names:
        for _ in range(8):
            number = len(jobs)
            request = Resource(
                milli_cpu=1000 * rng.randrange(1, 8),
                memory=rng.randrange(4, 40) << 30,
                scalars={GPU: 1000 * rng.choice((1, 1, 1, 2, 2, 3))},
            )
            task = TaskInfo(
                uid=f"t{number:05}",
                name=f"t{number:05}",
                resreq=request,
                status=TaskStatus.RUNNING,
                node_name=name,
            )
            created = float(number)
            jobs.append(
                JobInfo(name=f"j{number:05}", queue=QUEUE, creation_time=created, tasks=[task])
            )
    nodes = [NodeInfo(name=name, allocatable=size) for name in names]
    return Snapshot(nodes=nodes, queues=[Queue(name=QUEUE)], jobs=jobs)


def cramped(scale: float = 1, *, seed: int = 7) -> Snapshot:
    """Return 1,000 nodes with 8 tasks each, which fit nowhere else, and 100 jobs that wait.

    Each of these would fit a node that one to four tasks left.
    """
    rng = Random(seed)
    names = [f"n{number:04}" for number in range(round(1000 * scale))]
    size = Resource(milli_cpu=96_000, memory=512 << 30, scalars={GPU: 25_000})

    def job(name: str, created: float, gpus: int, node: str | None) -> JobInfo:
        request = Resource(
            milli_cpu=1000 * rng.randrange(1, 8),
            memory=rng.randrange(4 << 20, 40 << 20) << 10,
            scalars={GPU: 1000 * gpus},
        )
        status = TaskStatus.PENDING if node is None else TaskStatus.RUNNING
        task = TaskInfo(uid=name, name=name, resreq=request, status=status, node_name=node)
        return JobInfo(name=f"of-{name}", queue=QUEUE, creation_time=created, tasks=[task])

    jobs = [
        job(f"t{number:05}", float(number), 3, name)
        for number, name in enumerate(name for name in names for _ in range(8))
    ]
    jobs += [
        job(f"w{number:03}", float(len(jobs) + number), 1 + 3 * rng.randrange(1, 5), None)
        for number in range(round(100 * scale))
    ]
    nodes = [NodeInfo(name=name, allocatable=size) for name in names]
    return Snapshot(nodes=nodes, queues=[Queue(name=QUEUE)], jobs=jobs)


def in_vain(snapshot: Snapshot) -> CycleResult:
    """Return the result of a cycle with `consolidate`, of which all that it did is checked.

    Raises:
        AssertionError: it found something, or a search ended before its tries were used up.
    """
    result = Scheduler(CONSOLIDATING).schedule(snapshot)
    assert not result.moves
    assert not result.binds
    # Only for the first of them a cycle looks up in full why.
    told = [each for reason in result.pending.values() for each in reason.evictions]
    assert told
    assert all(each.tries == 1000 for each in told)
    return result


def digest_of(plan: MovePlan) -> str:
    """Return the digest of a plan."""
    return sha256(json.dumps(plan.to_dict(), sort_keys=True).encode()).hexdigest()


def _beside_evictions(scale: float) -> Iterator[str]:
    yield (
        "| GPUs in use | GPUs idle | whole nodes freed | their GPUs | moves | seconds | evicted "
        "| their GPUs | of these wait | their GPUs |"
    )
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for load in LOADS:
        snapshot = loaded(scale, load)
        total = sum(node.allocatable.get(GPU) for node in snapshot.nodes)
        used = sum(task.resreq.get(GPU) for job in snapshot.jobs for task in job.tasks)
        goal = FreeNodes(count=len(snapshot.nodes), selector=WHOLE)
        begin = process_time()
        plan = plan_moves(snapshot, goal, config=PACKING)
        seconds = process_time() - begin
        for count in (*(each for each in WANTED if each < plan.gain), plan.gain):
            # A plan for fewer is the beginning of one for more.
            moves = sum(len(step.moves) for step in plan.steps[:count])
            time = f"{seconds:.1f}" if count == plan.gain else ""
            lost = evictions_for(snapshot, count)
            assert lost.served == count
            yield (
                f"| {used / total:.1%} | {(total - used) / 1000:,.0f} | {count} | {count * SIZE} "
                f"| {moves} | {time} | {lost.tasks} | {lost.gpus:.1f} | {lost.waiting} "
                f"| {lost.gpus_waiting:.1f} |"
            )


def _how_long(scale: float, digests: Digests) -> Iterator[str]:
    snapshot = many_tasks(scale)
    begin = process_time()
    plan = plan_moves(snapshot, FreeNodes(count=round(100 * scale)))
    seconds = process_time() - begin
    counts = {"steps": len(plan.steps), "moves": len(plan.moves)}
    run = Run(cycles=1, tasks=0, parts={}, garbage=0, digest=digest_of(plan), counts=counts)
    digests.check("moves", scale, run)
    tasks = sum(len(job.tasks) for job in snapshot.jobs)
    yield "| nodes | tasks | nodes freed | moves | seconds |"
    yield "|---:|---:|---:|---:|---:|"
    yield (
        f"| {len(snapshot.nodes):,} | {tasks:,} | {plan.gain} | {len(plan.moves)} | {seconds:.1f} |"
    )


def _searches(scale: float, digests: Digests) -> Iterator[str]:
    snapshot = cramped(scale)
    reasons = [
        [uid, reason.why.value, [[each.nodes, each.candidates] for each in reason.evictions]]
        for uid, reason in sorted(in_vain(snapshot).pending.items())
    ]
    digest = sha256(json.dumps(reasons).encode()).hexdigest()
    waits = sum(job.tasks[0].status is TaskStatus.PENDING for job in snapshot.jobs)
    counts = {"waits": waits}
    run = Run(cycles=1, tasks=0, parts={}, garbage=0, digest=digest, counts=counts)
    digests.check("consolidate", scale, run)
    schedulers = [Scheduler(config) for config in (ALLOCATING, CONSOLIDATING)]
    times: list[list[float]] = [[] for _ in schedulers]
    for _ in range(ROUNDS):
        for scheduler, taken in zip(schedulers, times, strict=True):
            begin = process_time()
            scheduler.schedule(snapshot, reasons=False)
            taken.append(process_time() - begin)
    added = [after - before for before, after in zip(*times, strict=True)]
    yield "| nodes | running tasks | claimants | actions | seconds of a cycle |"
    yield "|---:|---:|---:|---|---:|"
    size = f"| {len(snapshot.nodes):,} | {len(snapshot.jobs) - waits:,} | {waits} |"
    yield f"{size} allocate | {median(times[0]):.2f} |"
    yield f"{size} allocate, consolidate | {median(times[1]):.2f} |"
    yield f"{size} added | {median(added):.2f} (from {min(added):.2f} to {max(added):.2f}) |"


def main() -> int:
    """Print the tables; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.moves")
    parser.add_argument("--scale", type=float, default=1.0, help="the part of the full size")
    parser.add_argument("--update-digest", action="store_true", help="store the plan as right")
    given = parser.parse_args()
    digests = Digests(is_update=given.update_digest)
    for table in (
        _how_long(given.scale, digests),
        _searches(given.scale, digests),
        _beside_evictions(given.scale),
    ):
        for line in table:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
