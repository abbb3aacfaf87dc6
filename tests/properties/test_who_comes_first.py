"""Laws of order: who comes first goes first, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cycles import Cycles
from tests.support.histories import size

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
)
from batchsched.live import Event, JobArrived, TaskSucceeded
from batchsched.testing import snapshots

pytestmark = pytest.mark.slow

ORDERS = (
    "allocate preempt",
    "preempt allocate",
    "allocate preempt backfill",
    "reclaim allocate preempt",
    "allocate reclaim preempt",
)
FIRST_TIER = ["priority", {"name": "gang", "arguments": {"atMinimum": "whole-job"}}, "conformance"]
SHARES: dict[str, list[str]] = {
    "capacity": ["predicates", "capacity", "nodeorder"],
    "proportion": ["predicates", "proportion", "nodeorder"],
    "proportion and drf": ["drf", "predicates", "proportion", "nodeorder"],
    "nothing": ["predicates", "nodeorder"],
    "the default": [],
}
"""The plugins of the second tier, by what gives queues their shares."""
LONGEST = 6
"""For how many cycles the most important job is watched."""


def deciding(order: str, shares: str, unready: str = "discard") -> Scheduler:
    tiers = [{"plugins": FIRST_TIER}, {"plugins": SHARES[shares]}]
    named = {"tiers": tiers} if SHARES[shares] else {}
    actions = [
        {"name": name, "arguments": {"unready": unready} if name == "allocate" else {}}
        for name in order.split()
    ]
    return Scheduler(SchedulerConfig.from_mapping({"actions": actions, **named}))


def tasks_of(name: str, count: int, cpus: int) -> list[TaskInfo]:
    return [
        TaskInfo(uid=f"{name}-{number}", name=f"{name}-{number}", resreq=size(cpus))
        for number in range(count)
    ]


class Stream:
    """One queue in which small jobs come and end all the time, and then the most important one."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        sizes = [random.choice((1, 2, 2, 3, 4)) for _ in range(random.randint(1, 3))]
        self.nodes = [
            NodeInfo(name=f"n{number}", allocatable=size(cpus)) for number, cpus in enumerate(sizes)
        ]
        cpus = random.randint(1, max(sizes))
        places = sum(each // cpus for each in sizes)
        tasks = tasks_of("first", random.randint(1, min(3, places)), cpus)
        self.first = JobInfo(
            name="first", queue="q", priority=9, min_available=len(tasks), tasks=tasks
        )
        self.arrival = random.randint(0, 6)
        self.order, self.shares = random.choice(ORDERS), random.choice(list(SHARES))
        self.unready = random.choice(("discard", "hold"))

    def happenings(self, living: Cycles, number: int) -> list[Event]:
        """Let some tasks of small jobs end, and others come."""
        random, now = self.random, living.now
        events: list[Event] = [
            TaskSucceeded(task.uid)
            for job in living.snapshot.jobs
            for task in job.tasks
            if job.name != "first" and task.status.occupies and random.random() < 0.25
        ]
        for index in range(random.choice((0, 1, 1, 2))):
            name, count = f"small{number}-{index}", random.choice((1, 1, 1, 2))
            events.append(
                JobArrived(
                    JobInfo(
                        name=name,
                        queue="q",
                        priority=random.choice((0, 0, 1, 5)),
                        min_available=random.choice((1, count)),
                        tasks=tasks_of(name, count, random.choice((1, 1, 2))),
                        creation_time=now,
                    )
                )
            )
        return events

    def until_it_comes(self) -> Cycles:
        """Let small jobs come and end until the most important job comes."""
        using = deciding(self.order, self.shares, self.unready)
        living = Cycles(using, Snapshot(nodes=self.nodes, queues=[Queue(name="q")]))
        for number in range(self.arrival):
            living.cluster.apply(*self.happenings(living, number))
            living.cycle()
            living.step()
        living.cluster.apply(JobArrived(evolve(self.first, creation_time=living.now)))
        return living

    def waits(self, living: Cycles, *, closed: bool = False) -> int:
        """Return for how many cycles the most important job waits; `LONGEST` if not fewer."""
        for number in range(LONGEST):
            if not closed:
                living.cluster.apply(*self.happenings(living, self.arrival + number))
            started = {bind.task_uid for bind in living.cycle().binds}
            if started >= {task.uid for task in self.first.tasks}:
                return number
            living.step()
        return LONGEST


@settings(max_examples=300)
@given(st.integers(0, 1 << 30))
def test_the_most_important_job_of_a_queue_starts_in_the_next_cycle_at_the_latest(
    seed: int,
) -> None:
    """Whatever comes below it, in whatever order actions run: all in its way may be evicted."""
    stream = Stream(seed)
    assert stream.waits(stream.until_it_comes()) <= 1


@settings(max_examples=100)
@given(st.integers(0, 1 << 30))
def test_it_starts_as_soon_whether_allocate_or_preempt_is_first(seed: int) -> None:
    stream = Stream(seed)
    snapshot = stream.until_it_comes().snapshot
    orders = "allocate preempt", "preempt allocate"
    ways = [deciding(order, stream.shares, stream.unready) for order in orders]
    one, other = (stream.waits(Cycles(using, snapshot), closed=True) for using in ways)
    assert one == other


@settings(max_examples=100)
@given(
    snapshots(always=["priorities", "running"]),
    st.sampled_from(ORDERS),
    st.sampled_from(list(SHARES)),
)
def test_tasks_need_not_have_the_priority_that_their_job_has(
    snapshot: Snapshot, order: str, shares: str
) -> None:
    def decided(priority_of: Callable[[JobInfo], int]) -> CycleResult:
        jobs = [
            evolve(job, tasks=[evolve(task, priority=priority_of(job)) for task in job.tasks])
            for job in snapshot.jobs
        ]
        return deciding(order, shares).schedule(evolve(snapshot, jobs=jobs))

    assert decided(lambda job: job.priority) == decided(lambda _: 0)
