"""Workload (f): many small cycles with arrivals and completions, as a simulation has them."""

from __future__ import annotations

from random import Random

from attrs import evolve

from batchsched import (
    CycleResult,
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

__all__ = ["History", "simulation"]

SECONDS_PER_CYCLE = 60.0
QUEUES = (("batch", 1), ("research", 2), ("services", 3))


def simulation(
    scale: float,
    *,
    nodes: int,
    tasks: int,
    cycles: int,
    actions: str = "allocate, backfill",
    seed: int = 6,
) -> Scenario:
    """Return a small cluster and a history: jobs come, run for their time, and go.

    There are always about as many tasks as asked for, running or waiting; new jobs
    come as others end. They ask for a little more than the cluster has, so that some
    always wait.

    Args:
        scale: 1 for the full number of cycles; nodes and tasks stay as they are.
        nodes: how many nodes there are.
        tasks: about how many tasks there are at any time.
        cycles: how many cycles there are at full size.
        actions: what runs.
        seed: of the generator.
    """
    history = History(seed, tasks, "first")
    cluster = [
        NodeInfo(
            name=f"node-{number:03}",
            allocatable=Resource(
                milli_cpu=16_000 * (1 + number % 3), memory=64 * GIB * (1 + number % 3)
            ),
            max_tasks=110,
        )
        for number in range(nodes)
    ]
    snapshot = Snapshot(
        nodes=cluster,
        queues=[Queue(name=name, weight=weight) for name, weight in QUEUES],
        jobs=history.arrivals(tasks, 0.0),
    )
    return Scenario(
        snapshot=snapshot,
        config=protecting(actions),
        cycles=scaled(cycles, scale),
        advance=lambda: History(seed + 1, tasks, "later").advance,
    )


class History:
    """What happens between the cycles."""

    def __init__(self, seed: int, tasks: int, name: str) -> None:
        self._random = Random(seed)
        self._name = name
        self._tasks = tasks
        self._ends: dict[str, float] = {}
        self._jobs = 0

    def arrivals(self, tasks: int, now: float) -> list[JobInfo]:
        """Return new jobs that have, together, about so many tasks."""
        jobs: list[JobInfo] = []
        while tasks > 0:
            size = self._random.choice((1, 1, 2, 4, 8, 12))
            jobs.append(self._job(size, now))
            tasks -= size
        return jobs

    def _job(self, size: int, now: float) -> JobInfo:
        random = self._random
        name = f"{self._name}-{self._jobs:06}"
        self._jobs += 1
        milli_cpu = random.choice((2000, 4000, 8000, 12_000, 16_000))
        request = Resource(milli_cpu=milli_cpu, memory=milli_cpu * 3 * GIB // 1000)
        priority = random.choice((1, 1, 1, 2, 3))
        tasks = [
            TaskInfo(
                uid=f"{name}-{position:02}",
                name=f"{name}-{position:02}",
                resreq=request,
                priority=priority,
                creation_time=now,
                labels={"job": name},
            )
            for position in range(size)
        ]
        return JobInfo(
            name=name,
            queue=random.choice(QUEUES)[0],
            min_available=random.choice((1, size, size)),
            priority=priority,
            creation_time=now,
            tasks=tasks,
        )

    def advance(self, snapshot: Snapshot, result: CycleResult) -> Snapshot:
        """Return the next snapshot: binds run, the evicted are gone, and time has passed."""
        now = snapshot.now + SECONDS_PER_CYCLE
        bound = {bind.task_uid: bind.node_name for bind in result.binds}
        evicted = {eviction.task_uid for eviction in result.evictions}
        for uid in bound:
            self._ends[uid] = now + self._random.expovariate(1 / 1200.0)
        jobs: list[JobInfo] = []
        kept = 0
        for job in snapshot.jobs:
            tasks: list[TaskInfo] = []
            is_changed = False
            for task in job.tasks:
                uid = task.uid
                if uid in bound:
                    tasks.append(evolve(task, status=TaskStatus.RUNNING, node_name=bound[uid]))
                    is_changed = True
                elif uid in evicted:
                    # It starts again from the beginning.
                    del self._ends[uid]
                    tasks.append(evolve(task, status=TaskStatus.PENDING, node_name=None))
                    is_changed = True
                elif self._ends.get(uid, now + 1) <= now and task.status is TaskStatus.RUNNING:
                    del self._ends[uid]
                    is_changed = True
                else:
                    tasks.append(task)
            kept += len(tasks)
            if not is_changed:
                jobs.append(job)
            elif tasks:
                # What has ended is not needed any more.
                least = min(job.min_available, len(tasks))
                jobs.append(evolve(job, tasks=tasks, min_available=least))
        jobs += self.arrivals(self._tasks - kept, now)
        return evolve(snapshot, jobs=jobs, now=now)
