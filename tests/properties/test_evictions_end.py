"""Laws of evictions in closed systems: nothing arrives, ends or changes but by what is decided.

Each world is small, full and unfairly divided, so that most cycles of the beginning evict.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

import pytest
from attrs import field, frozen, mutable
from tests.support.histories import size

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    next_snapshot,
)

CYCLES = 40
ORDERS = (
    "reclaim allocate backfill preempt",
    "allocate preempt reclaim",
    "allocate reclaim",
    "preempt allocate",
    "reclaim allocate preempt backfill",
)


@frozen
class World:
    """A cluster at its beginning, and how many cycles evicted tasks take to leave."""

    snapshot: Snapshot
    leaving: int


def world(seed: int) -> World:
    """Return up to three nodes, filled by jobs of up to three queues, and jobs that wait."""
    random = Random(seed)
    nodes = [
        NodeInfo(name=f"n{number}", allocatable=size(random.choice((2, 3, 4, 6))))
        for number in range(random.randint(1, 3))
    ]
    queues = [f"q{number}" for number in range(random.choice((1, 2, 2, 3)))]
    idle = {node.name: node.allocatable.milli_cpu // 1000 for node in nodes}
    jobs: list[JobInfo] = []
    for number in range(random.randint(2, 6)):
        request = random.choice((1, 1, 2, 3))
        runs = number < 3
        tasks: list[TaskInfo] = []
        for index in range(random.randint(1, 4)):
            room = [name for name, units in idle.items() if units >= request] if runs else []
            where = random.choice(room) if room else None
            if where is not None:
                idle[where] -= request
            tasks.append(
                TaskInfo(
                    uid=f"j{number}-{index}",
                    name=f"j{number}-{index}",
                    resreq=size(request),
                    status=TaskStatus.PENDING if where is None else TaskStatus.RUNNING,
                    node_name=where,
                )
            )
        jobs.append(
            JobInfo(
                name=f"j{number}",
                queue=random.choice(queues),
                min_available=random.choice((len(tasks), 1, 1)),
                priority=random.choice((0, 0, 5)) if number else 0,
                creation_time=number,
                tasks=tasks,
            )
        )
    return World(
        snapshot=Snapshot(
            nodes=nodes,
            queues=[Queue(name=name, weight=random.choice((1, 1, 2))) for name in queues],
            jobs=jobs,
        ),
        leaving=random.choice((1, 1, 2, 3)),
    )


def configuration(order: str, *, drf: bool = False, unready: str = "discard") -> dict[str, Any]:
    plugins = ["priority", "gang", "conformance", "predicates", "proportion", "nodeorder"]
    if drf:
        plugins.insert(3, "drf")
    return {
        "actions": [
            {"name": name, "arguments": {"unready": unready} if name == "allocate" else {}}
            for name in order.split()
        ],
        "tiers": [{"plugins": [{"name": name} for name in plugins]}],
    }


@mutable
class Closed:
    """A closed system that runs, and what was evicted for whom and when."""

    world: World
    scheduler: Scheduler
    keeps_promises: bool = True
    evictions: list[tuple[int, str, str]] = field(factory=list)
    """Cycle, victim and claimant."""
    starts: dict[str, list[int]] = field(factory=dict)
    """Task to the cycles that bound it."""

    def run(self, cycles: int = CYCLES) -> None:
        snapshot = self.world.snapshot
        leaves: dict[str, int] = {}
        for cycle in range(cycles):
            result = self.scheduler.schedule(snapshot)
            for eviction in result.evictions:
                self.evictions.append((cycle, eviction.task_uid, eviction.for_task_uid))
                leaves[eviction.task_uid] = cycle + self.world.leaving
            for bind in result.binds:
                self.starts.setdefault(bind.task_uid, []).append(cycle)
            snapshot = next_snapshot(
                snapshot,
                result,
                now=snapshot.now + 1,
                keep_reservations=self.keeps_promises,
                still_releasing=[uid for uid, last in leaves.items() if last > cycle + 1],
            )
            leaves = {uid: last for uid, last in leaves.items() if last > cycle + 1}


def run(seed: int, config: dict[str, Any], *, keeps_promises: bool = True) -> Closed:
    scheduler = Scheduler(SchedulerConfig.from_mapping(config))
    closed = Closed(world(seed), scheduler, keeps_promises)
    closed.run()
    return closed


def worlds_with_evictions(config: dict[str, Any], number: int) -> Iterator[tuple[int, Closed]]:
    """Yield the first worlds in which anything is evicted, with their seeds."""
    found = 0
    for seed in count():
        if found == number:
            return
        assert seed < 60 * number, "nearly nothing is evicted: this shows nothing"
        closed = run(seed, config)
        if closed.evictions:
            found += 1
            yield seed, closed


@pytest.mark.parametrize("unready", ["discard", "hold"])
@pytest.mark.parametrize("order", ORDERS)
def test_evictions_end_in_a_closed_system(order: str, unready: str) -> None:
    for seed, closed in worlds_with_evictions(configuration(order, unready=unready), 12):
        late = [eviction for eviction in closed.evictions if eviction[0] >= CYCLES // 2]
        assert not late, (seed, late)


def unanswered(closed: Closed) -> list[tuple[int, str, str]]:
    """Return the evictions whose claimant did not start when the victims had left."""
    return [
        (cycle, victim, claimant)
        for cycle, victim, claimant in closed.evictions
        if cycle + closed.world.leaving < CYCLES
        and not any(
            cycle < when <= cycle + closed.world.leaving for when in closed.starts.get(claimant, [])
        )
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_every_eviction_is_followed_by_the_start_of_its_claimant(order: str) -> None:
    """And that within the time that the victims take to leave: those of its whole gang."""
    for seed, closed in worlds_with_evictions(configuration(order), 12):
        assert not unanswered(closed), seed


def test_without_kept_promises_evictions_are_in_vain() -> None:
    """Otherwise the law above would show nothing."""
    config = configuration("allocate preempt reclaim")
    assert any(unanswered(run(seed, config, keeps_promises=False)) for seed in range(150))


@pytest.mark.parametrize("order", ORDERS)
def test_no_task_is_evicted_twice_for_the_same_claimant(order: str) -> None:
    for seed, closed in worlds_with_evictions(configuration(order), 12):
        pairs = [(victim, claimant) for _, victim, claimant in closed.evictions]
        assert len(pairs) == len(set(pairs)), seed
