"""What protection costs a cycle: ``python -m benchmarks.protection [--scale 1] [--rounds 7]``.

On 5,000 full nodes run 100,000 tasks in jobs of four, which is 1,000 applications of 100 tasks in
10 namespaces, and 50 gangs of four wait that are worth more; 1,000 nodes are empty that are too
small for them, so that the limits of queues are not short as well, but in the row of a full
cluster. Each row adds one thing to that: budgets, one for each application; limits, with a ledger
of 10,000 past evictions; costs; and a plugin that nobody asks for anything. A cycle with it
alternates with one without it in one process. Of each pair the times that the processor took are
compared; the median counts, and the least and the largest ratio are given too.

Where nothing is refused, both must decide the same, or a time is not trusted.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import process_time

from attrs import evolve, frozen

from batchsched import (
    Budget,
    CycleResult,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PastEviction,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from benchmarks.workloads.nodes import GIB

__all__ = ["ROWS", "Cost", "Row", "cluster", "main", "measure"]

APPLICATIONS = 1000
NAMESPACES = 10
OF_APPLICATION = 100
GANG = 4
WAITING = 50
ON_NODE = 20
ENTRIES = 10_000
QUEUES = 10
NOW = 100_000.0
CPU = Resource(milli_cpu=1000, memory=4 * GIB)
LIMITS = (
    {"name": "all", "scope": "cluster", "most": 20_000, "window": 50_000},
    {"name": "of a queue", "scope": "queue", "most": 10_000, "window": 50_000},
    {"name": "of a job", "scope": "job", "most": 1000, "window": 50_000},
)


@frozen(kw_only=True)
class Row:
    """Something that protects, beside the same without it."""

    name: str
    arguments: Mapping[str, object] = {}
    """Of the plugin."""
    budgets: bool = False
    ledger: bool = False
    is_full: bool = False
    """Whether there are no nodes but those that are full."""
    decides_the_same: bool = True
    """Whether it refuses nothing here, and orders nobody."""


ROWS = (
    Row(name="nothing asked"),
    Row(name="budgets", budgets=True),
    Row(name="limits", arguments={"limits": LIMITS}, ledger=True),
    Row(name="costs", arguments={"cost": "lost-work"}, decides_the_same=False),
    Row(
        name="budgets and limits",
        arguments={"limits": LIMITS},
        budgets=True,
        ledger=True,
    ),
    Row(
        name="both on a full cluster",
        arguments={"limits": LIMITS},
        budgets=True,
        ledger=True,
        is_full=True,
    ),
)


@frozen(kw_only=True)
class Cost:
    """What one row costs; processor seconds, round by round."""

    without: tuple[float, ...]
    with_it: tuple[float, ...]
    evictions: int

    @property
    def ratios(self) -> list[float]:
        """How many times as long a cycle takes with it, in each round."""
        return [more / less for more, less in zip(self.with_it, self.without, strict=True)]


def cluster(scale: float) -> Snapshot:
    """Return the cluster that the rows have in common."""
    applications = max(NAMESPACES, round(APPLICATIONS * scale))
    nodes = -(-applications * OF_APPLICATION // ON_NODE)
    jobs: list[JobInfo] = []
    for number in range(applications * OF_APPLICATION // GANG):
        application = number * GANG // OF_APPLICATION
        name = f"r{number:05}"
        tasks = [
            TaskInfo(
                uid=f"{name}-{k}",
                name=f"{name}-{k}",
                namespace=f"s{application % NAMESPACES}",
                resreq=CPU,
                labels={"app": f"a{application:04}", "tier": "web"},
                status=TaskStatus.RUNNING,
                node_name=f"n{(number * GANG + k) * 7919 % nodes:05}",
                start_time=float(number % 90_000),
            )
            for k in range(GANG)
        ]
        jobs.append(
            JobInfo(
                name=name,
                namespace=f"s{application % NAMESPACES}",
                queue=_queue(number),
                creation_time=float(number % 90_000),
                tasks=tasks,
            )
        )
    for number in range(max(1, round(WAITING * scale))):
        name = f"w{number:05}"
        tasks = [
            TaskInfo(uid=f"{name}-{k}", name=f"{name}-{k}", resreq=2 * CPU) for k in range(GANG)
        ]
        jobs.append(
            JobInfo(
                name=name,
                queue="q0",
                priority=9,
                min_available=GANG,
                creation_time=90_000.0 + number,
                tasks=tasks,
            )
        )
    return Snapshot(
        nodes=[
            *(NodeInfo(name=f"n{number:05}", allocatable=ON_NODE * CPU) for number in range(nodes)),
            *(NodeInfo(name=f"s{number:05}", allocatable=CPU) for number in range(nodes // 5)),
        ],
        queues=[Queue(name=f"q{number}") for number in range(QUEUES)],
        jobs=jobs,
        now=NOW,
    )


def _queue(number: int) -> str:
    """Return the queue of a running job; that in which jobs wait holds half of its share."""
    return f"q{1 + number % (QUEUES - 1)}" if number % (2 * QUEUES) else "q0"


def protected(snapshot: Snapshot, row: Row, scale: float) -> Snapshot:
    """Return the cluster with what a row adds to it."""
    if row.budgets:
        applications = max(NAMESPACES, round(APPLICATIONS * scale))
        budgets = [
            Budget(
                name=f"a{number:04}",
                namespace=f"s{number % NAMESPACES}",
                selector=LabelSelector(match_labels={"app": f"a{number:04}"}),
                max_unavailable=OF_APPLICATION // 2,
            )
            for number in range(applications)
        ]
        snapshot = evolve(snapshot, budgets=budgets)
    if row.ledger:
        running = snapshot.jobs[: -max(1, round(WAITING * scale))]
        entries = round(ENTRIES * scale)
        past = [
            PastEviction(
                time=NOW - 5.0 * (entries - number),
                job=running[number % len(running)].uid,
                queue=_queue(number % len(running)),
                for_job=f"default/gone{number}",
                for_queue="q0",
                action="preempt",
            )
            for number in range(entries)
        ]
        snapshot = evolve(snapshot, evictions=past)
    return snapshot


def config(row: Row | None) -> SchedulerConfig:
    """Return a configuration with what a row asks of the plugin; None: without the plugin."""
    found = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})
    if row is None:
        return found.without_plugins("protection")
    return found.with_arguments("protection", **row.arguments) if row.arguments else found


def measure(row: Row, scale: float, rounds: int) -> Cost:
    """Run cycles without and with what a row adds, in turns."""
    without = cluster(scale)
    if row.is_full:
        large = [node for node in without.nodes if node.allocatable != CPU]
        without = evolve(without, nodes=large)
    with_it = protected(without, row, scale)
    times: tuple[list[float], list[float]] = ([], [])
    results: list[CycleResult] = []
    ways = (
        (Scheduler(config(None)), without),
        (Scheduler(config(row)), with_it),
    )
    for round_ in range(rounds):
        for at in (0, 1) if round_ % 2 else (1, 0):
            scheduler, snapshot = ways[at]
            seconds, result = timed(lambda s=scheduler, c=snapshot: s.schedule(c, reasons=False))
            times[at].append(seconds)
            results.append(result)
    return Cost(without=tuple(times[0]), with_it=tuple(times[1]), evictions=agreed(row, results))


def agreed(row: Row, results: Sequence[CycleResult]) -> int:
    """Return how many tasks each cycle evicts, which must be as many, and the same if asked."""
    decided = {
        tuple((each.task_uid, each.for_task_uid) for each in result.evictions) for result in results
    }
    counts = {len(each) for each in decided}
    if (row.decides_the_same and len(decided) > 1) or counts == {0} or len(counts) > 1:
        raise ValueError(f"{row.name}: cycles that are compared decide otherwise: {counts}")
    return counts.pop()


def timed(run: Callable[[], CycleResult]) -> tuple[float, CycleResult]:
    """Return the processor seconds that something takes, and its result."""
    gc.collect()
    gc.disable()
    try:
        begin = process_time()
        result = run()
        return process_time() - begin, result
    finally:
        gc.enable()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.protection", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="the part of the full size")
    parser.add_argument("--rounds", type=int, default=7, help="how often the two alternate")
    parser.add_argument("--only", help="names of rows, with commas between them")
    given = parser.parse_args(arguments)
    names = None if given.only is None else given.only.split(",")
    print("| asked | without, ms | with, ms | ratio | least | largest | evictions |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in ROWS:
        if names is None or row.name in names:
            cost = measure(row, given.scale, given.rounds)
            ratios = cost.ratios
            ms = [f"{1000 * median(times):,.0f}" for times in (cost.without, cost.with_it)]
            told = [f"{each:.2f}" for each in (median(ratios), min(ratios), max(ratios))]
            print(f"| {' | '.join([row.name, *ms, *told, str(cost.evictions)])} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
