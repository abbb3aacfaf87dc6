"""Jobs that are alike: that one of them failed keeps no later one from what it can have."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.live import (
    Cluster,
    Event,
    JobArrived,
    JobChanged,
    JobRemoved,
    TaskChanged,
    TimePassed,
)

ACTIONS = (
    "reclaim, allocate, preempt",
    "allocate, preempt, reclaim",
    "allocate, backfill",
    "allocate, reclaim",
    "reclaim, allocate, backfill, preempt, reserve",
    "plan, allocate, preempt",
    "allocate, preempt, consolidate",
    ["allocate", {"name": "consolidate", "arguments": {"tries": 12, "scope": "all"}}],
    "plan",
    [{"name": "plan", "arguments": {"depth": "all", "keep": False}}, "preempt"],
    [{"name": "reclaim", "arguments": {"minRuntime": 30}}, "allocate", "preempt"],
)
PLUGINS = (
    ("priority", "gang", "conformance", "drf", "predicates", "capacity", "nodeorder"),
    ("gang", "drf", "predicates", "proportion", "nodeorder"),
    ("priority", "gang", "predicates", "capacity"),
    ("gang", "fcfs", "predicates", "capacity"),
)


class World:
    """A small full cluster on which jobs of few shapes come and go."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self._count = 0
        self.jobs: list[str] = []
        scalars = {"nvidia.com/gpu": 1000}
        self.queues = [
            Queue(
                name=f"q{i}",
                weight=i + 1,
                deserved=Resource(scalars={"nvidia.com/gpu": random.choice((1000, 2000, 4000))}),
                limit=None
                if random.random() < 0.7
                else ResourceLimit(scalars={"nvidia.com/gpu": 3000}),
            )
            for i in range(random.choice((1, 2, 3)))
        ]
        gpus = [random.choice((2, 4)) for _ in range(random.choice((1, 2)))]
        self.cluster = Cluster(
            nodes=[
                NodeInfo(
                    name=f"n{i}",
                    allocatable=Resource(
                        milli_cpu=4000 * n, scalars={name: n * one for name, one in scalars.items()}
                    ),
                )
                for i, n in enumerate(gpus)
            ],
            queues=self.queues,
        )
        whole = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
        gang = random.choice(("gang", whole, whole))
        names = random.choice(PLUGINS)
        plugins = [gang if name == "gang" else name for name in names]
        config = {"actions": random.choice(ACTIONS), "tiers": [{"plugins": plugins}]}
        self.config = SchedulerConfig.from_mapping(config)

    def arrival(self) -> Event:
        random = self.random
        count, gpus = random.choice(((1, 1), (1, 2), (2, 1)))
        name = f"j{random.randrange(10):x}-{self._count}"
        self._count += 1
        self.jobs.append(name)
        task = TaskInfo(
            uid=name,
            name=name,
            resreq=Resource(milli_cpu=1000, scalars={"nvidia.com/gpu": 1000 * gpus}),
            priority=random.choice((1, 1, 2)),
            creation_time=float(random.randrange(3)),
        )
        return JobArrived(
            JobInfo(
                name=name,
                queue=random.choice(self.queues).name,
                min_available=random.choice((0, 1, count)),
                priority=random.choice((1, 1, 2)),
                creation_time=float(random.randrange(3)),
                estimate=random.choice((None, 10, 40)),
                tasks=[evolve(task, uid=f"{name}-{k}", name=f"{name}-{k}") for k in range(count)],
            )
        )

    def change(self, job: JobInfo) -> Event:
        """Return an event that makes a job differ from those that are like it."""
        if self.random.random() < 0.5:
            return JobChanged(job.uid, min_available=self.random.choice((0, 1)))
        return TaskChanged(evolve(job.tasks[0], creation_time=float(self.random.randrange(9))))

    def step(self) -> list[Event]:
        come = [self.arrival() for _ in range(self.random.choice((0, 1, 1, 5)))]
        gone: list[Event] = []
        while len(self.jobs) > 14 or (self.jobs and self.random.random() < 0.3):
            at = self.random.randrange(len(self.jobs))
            gone.append(JobRemoved(f"default/{self.jobs.pop(at)}"))
        there = [job for job in self.cluster.snapshot().jobs if job.name in self.jobs]
        changed = [self.change(job) for job in there if self.random.random() < 0.1]
        return [*come, *gone, *changed, TimePassed(self.cluster.now + self.random.choice((1, 30)))]


def check(seed: int, steps: int = 8) -> int:
    """Compare a living cluster with cycles from scratch, plain and fast; return what moved."""
    world = World(seed)
    cluster = world.cluster
    reasons = bool(seed % 2)
    live = Scheduler(world.config).attach(cluster)
    plain = Scheduler(world.config, plain=True).attach(cluster)
    tried = Scheduler(world.config, plain={"attempts"})
    moved = 0
    for _ in range(steps):
        cluster.apply(*world.step())
        cycle = live.schedule(reasons=reasons)
        snapshot = cluster.snapshot()
        assert cycle == plain.schedule(reasons=reasons)
        assert cycle == tried.schedule(snapshot, reasons=reasons)
        assert cycle == Scheduler(world.config).schedule(snapshot, reasons=reasons)
        moved += len(cycle.evictions)
        cluster.carry_out(cycle, at_once=True)
    return moved


@pytest.mark.parametrize("seed", range(24))
def test_jobs_that_are_alike_fail_as_each_of_them_would(seed: int) -> None:
    check(seed)


def test_an_earlier_job_may_take_what_a_later_one_like_it_may_not() -> None:
    """They stand on both sides of what would be evicted: the later one has its turn first."""
    one = Resource(milli_cpu=1000)

    def job(name: str, turn: int, place: int, *, runs: bool = False) -> JobInfo:
        task = TaskInfo(uid=name, name=name, resreq=one, creation_time=place)
        if runs:
            task = evolve(task, status=TaskStatus.RUNNING, node_name="n", start_time=0.0)
        return JobInfo(name=name, queue="q", min_available=0, creation_time=turn, tasks=[task])

    snapshot = Snapshot(
        nodes=[NodeInfo(name="n", allocatable=one)],
        queues=[Queue(name="q", deserved=one)],
        jobs=[job("runs", 0, 5, runs=True), job("late", 1, 9), job("early", 2, 1)],
    )
    gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    tiers = [{"plugins": [gang, "predicates", "capacity"]}]
    config = SchedulerConfig.from_mapping({"actions": "preempt", "tiers": tiers})
    for plain in (False, True):
        cycle = Scheduler(config, plain=plain).schedule(snapshot)
        assert [(each.task_uid, each.for_task_uid) for each in cycle.evictions] == [
            ("runs", "early")
        ]
