"""How long answers take on a cluster of 1,000 nodes and 10,000 tasks.

    python -m benchmarks.answers explain [--nodes 1000] [--tasks 10000]
    python -m benchmarks.answers shrink [--only CODE,CODE]
    python -m benchmarks.answers ask [--settled] [--nodes 1000] [--tasks 10000]

``ask`` asks a living cluster, each time in a trial, whether a job would start: as it is, where most
of the time goes into what the cycle decides of others, or once it has settled, where all else waits
in vain. ``explain`` explains
jobs that wait, under configurations that evict and that do not, on a cluster as it is and once it
has settled, and compares that with a cycle there. ``shrink`` shrinks the cluster for an example of
every finding of `check_config`: to a snapshot on which that finding still shows. Times are
processor time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from statistics import median
from time import process_time

from attrs import frozen

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    check_config,
    explain,
    shrink,
)
from batchsched.live import Cluster, JobArrived, TimePassed
from batchsched.tools import Finding
from batchsched.tools.causes import decisions
from batchsched.tools.config_check import evicts_for_ever

__all__ = ["EXAMPLES", "main", "make_cluster", "objects", "shows"]

CPU = Resource(milli_cpu=1000, memory=1 << 30)
_GANG = 4
_QUEUES = 4
_SETTLING = 8
"""The number of cycles until a cluster counts as settled."""
_EXPLAINED = 9
_CYCLES = 32
"""How many cycles a state has to come back in."""
_ALL_THAT_EVICT = "reclaim, allocate, backfill, preempt"
MOST_OBJECTS = 10


def make_cluster(nodes: int, tasks: int) -> Snapshot:
    """Return a full cluster: four fifths of the tasks run, and gangs of four wait.

    Every tenth node has room for one task more, and every hundredth is tainted and empty.
    """
    running = tasks * 4 // 5
    usable = [f"n{i:05}" for i in range(nodes) if i % 100 != 99]
    per_node = -(-running // len(usable))
    jobs = [
        JobInfo(
            name=f"r{i:05}",
            queue=f"q{i % _QUEUES}",
            priority=i % 3,
            creation_time=float(i),
            min_available=1 + 3 * (i % 2),
            estimate=3600.0,
            tasks=[
                TaskInfo(
                    uid=f"r{i:05}-{k}",
                    name=f"r{i:05}-{k}",
                    resreq=CPU,
                    status=TaskStatus.RUNNING,
                    node_name=usable[(i * _GANG + k) % len(usable)],
                    start_time=float(i),
                )
                for k in range(_GANG)
            ],
        )
        for i in range(running // _GANG)
    ]
    jobs += [
        JobInfo(
            name=f"w{i:05}",
            queue=f"q{i % _QUEUES}",
            priority=i % 5,
            creation_time=float(running + i),
            min_available=1 + 3 * (i % 2),
            tasks=[
                TaskInfo(uid=f"w{i:05}-{k}", name=f"w{i:05}-{k}", resreq=(1 + i % 3) * CPU)
                for k in range(_GANG)
            ],
        )
        for i in range((tasks - running) // _GANG)
    ]
    tainted = Taint(key="maintenance", effect=TaintEffect.NO_SCHEDULE)
    return Snapshot(
        nodes=[
            NodeInfo(
                name=f"n{i:05}",
                allocatable=(per_node + (i % 10 == 0)) * CPU,
                taints=[tainted] if i % 100 == 99 else [],
            )
            for i in range(nodes)
        ],
        queues=[Queue(name=f"q{i}", weight=i + 1) for i in range(_QUEUES)],
        jobs=jobs,
        now=1e6,
    )


# Explaining


def _explanations(nodes: int, tasks: int) -> Iterator[str]:
    yield f"Explaining on {nodes:,} nodes and {tasks:,} tasks; processor seconds"
    yield ""
    yield "| actions | cluster | cycle | jobs | median | longest | told | without changes |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for actions in (
        "allocate, backfill",
        "allocate, backfill, reclaim, preempt",
        _ALL_THAT_EVICT,
    ):
        config = SchedulerConfig.from_mapping({"actions": actions})
        snapshot = make_cluster(nodes, tasks)
        yield f"| {actions} | as it is | {_explained(snapshot, config)} |"
        cluster = Cluster(snapshot)
        _settle(cluster, config)
        yield f"| {actions} | settled | {_explained(cluster.snapshot(), config)} |"


def _settle(cluster: Cluster, config: SchedulerConfig) -> None:
    live = Scheduler(config).attach(cluster)
    for _ in range(_SETTLING):
        cluster.carry_out(live.schedule(reasons=False), at_once=True)
        cluster.apply(TimePassed(cluster.now + 1))


def _explained(snapshot: Snapshot, config: SchedulerConfig) -> str:
    """Return the cost of explaining some waiting jobs, from the first to the last."""
    begin = process_time()
    result = Scheduler(config).schedule(snapshot)
    cycle = process_time() - begin
    waiting = [
        job.uid for job in snapshot.jobs if any(task.uid in result.pending for task in job.tasks)
    ]
    told = 0
    times: tuple[list[float], list[float]] = [], []
    for uid in waiting[:: max(1, len(waiting) // _EXPLAINED)]:
        for try_changes in (False, True):
            begin = process_time()
            answer = explain(snapshot, result, uid, config=config, try_changes=try_changes)
            times[try_changes].append(process_time() - begin)
            told += len(answer.would_start)
    without, whole = times
    if not whole:
        return f"{cycle:.2f} | 0 | | | |"
    return (
        f"{cycle:.2f} | {len(whole)} | {median(whole):.2f} | {max(whole):.2f} | {told} "
        f"| {median(without):.2f}"
    )


# Asking


def asked(
    nodes: int, tasks: int, actions: str, questions: int = 5, *, is_settled: bool = False
) -> list[tuple[float, str]]:
    """Ask whether jobs of one task and of four would start, in turns.

    `is_settled`: on a cluster where all that evicts has decided what it could.

    Returns:
        The processor seconds of each question, and the digest of what the cycle decided.

    """
    cluster = Cluster(make_cluster(nodes, tasks))
    if is_settled:
        _settle(cluster, SchedulerConfig.from_mapping({"actions": _ALL_THAT_EVICT}))
    live = Scheduler(SchedulerConfig.from_mapping({"actions": actions})).attach(cluster)
    answers: list[tuple[float, str]] = []
    for number in range(questions):
        size = 1 + (_GANG - 1) * (number % 2)
        of_job = [
            TaskInfo(uid=f"asked-{each}", name="asked", resreq=2 * CPU) for each in range(size)
        ]
        job = JobInfo(name="asked", queue="q1", priority=2, min_available=size, tasks=of_job)
        begin = process_time()
        with cluster.trial():
            cluster.apply(JobArrived(job))
            result = live.schedule(reasons=False)
        spent = process_time() - begin
        moves = [(bind.task_uid, bind.node_name) for bind in result.binds]
        gone = [eviction.task_uid for eviction in result.evictions]
        answers.append((spent, sha256(repr((moves, gone)).encode()).hexdigest()))
    return answers


def _askings(nodes: int, tasks: int, *, is_settled: bool) -> Iterator[str]:
    how = "settled, " if is_settled else ""
    yield f"Asking whether a job would start on {nodes:,} nodes and {tasks:,} tasks ({how}seconds)"
    yield ""
    yield "| actions | first question | the next ones, longest | median | digest |"
    yield "|---|---:|---:|---:|---|"
    for actions in ("allocate, backfill", _ALL_THAT_EVICT, f"{_ALL_THAT_EVICT}, consolidate"):
        first, *others = asked(nodes, tasks, actions, is_settled=is_settled)
        times = [spent for spent, _ in others]
        digest = sha256(repr([digest for _, digest in (first, *others)]).encode()).hexdigest()
        yield (
            f"| {actions} | {first[0]:.2f} | {max(times):.2f} | {median(times):.2f} "
            f"| {digest[:12]} |"
        )


# Shrinking

_ALL = ["priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder"]
_WITHOUT_WEIGHTS = {
    f"{name}.weight": 0
    for name in ("leastrequested", "nodeaffinity", "podaffinity", "balancedresource")
}


def _config(actions: object, *tiers: list[object]) -> SchedulerConfig:
    mapping = {"actions": actions, "tiers": [{"plugins": tier} for tier in tiers]}
    return SchedulerConfig.from_mapping(mapping, unknown="notice")


EXAMPLES: dict[str, SchedulerConfig] = {
    "NoPredicates": _config("allocate", ["gang", "priority"]),
    "NoGang": _config("allocate", ["predicates", "priority"]),
    "NothingStarts": _config("backfill", [*_ALL]),
    "SwitchedOff": _config(
        "allocate", [{"name": "priority", "enableJobOrder": False}, "gang", "predicates"]
    ),
    "ShadowedVerdicts": _config("preempt", ["gang", "conformance"], ["drf", "predicates"]),
    "ShadowedOrder": _config(
        "allocate",
        [{"name": "fcfs", "arguments": {"strict": False}}, "gang"],
        ["predicates", "priority"],
    ),
    "NoVictims": _config("preempt", ["predicates", "nodeorder"]),
    "AtMinimumProtected": _config(
        "allocate, preempt", ["priority", "gang", "conformance"], ["predicates"]
    ),
    "ReleaseWithoutHold": _config(
        [
            {"name": "allocate", "arguments": {"unready": "discard"}},
            {"name": "backfill", "arguments": {"strategy": "release"}},
        ],
        [*_ALL],
    ),
    "ReservationsMustBeKept": _config("allocate, backfill, reserve", [*_ALL]),
    "EvictsForEver": _config("allocate, preempt", ["gang"], ["predicates"]),
    "ProportionWithoutReclaim": _config("allocate", [*_ALL]),
    "CapacityWithoutReclaim": _config(
        "allocate", ["capacity" if name == "proportion" else name for name in _ALL]
    ),
    "ReclaimWithoutShares": _config("allocate, reclaim", ["gang", "predicates", "drf"]),
    "ZeroWeights": _config(
        "allocate", ["gang", "predicates", {"name": "nodeorder", "arguments": _WITHOUT_WEIGHTS}]
    ),
    "UnknownArgument": _config(
        [{"name": "allocate", "arguments": {"unredy": "hold"}}], ["gang", "predicates"]
    ),
}
"""For each code, a configuration with which it is found."""


def shows(finding: Finding, config: SchedulerConfig) -> Callable[[Snapshot], bool]:
    """Return whether a finding shows on a snapshot."""
    scheduler = Scheduler(config)
    other = None if finding.instead is None else Scheduler(finding.instead)

    def holds(snapshot: Snapshot) -> bool:
        if finding.shows == "evicts for ever":
            if not evicts_for_ever(scheduler, snapshot, cycles=_CYCLES):
                return False
            return other is None or not evicts_for_ever(other, snapshot, cycles=_CYCLES)
        result = scheduler.schedule(snapshot, reasons=False)
        if finding.shows == "reserves":
            return bool(result.reserved)
        assert other is not None
        rival = other.schedule(snapshot, reasons=False)
        if finding.shows == "decides otherwise":
            return decisions(rival) != decisions(result)
        return bool(result.binds) and decisions(rival) == decisions(result)

    return holds


def objects(snapshot: Snapshot) -> int:
    """Return how many nodes, queues, jobs and tasks there are."""
    tasks = sum(len(job.tasks) for job in snapshot.jobs) + len(snapshot.other_tasks)
    return len(snapshot.nodes) + len(snapshot.queues) + len(snapshot.jobs) + tasks


@frozen
class Shrunk:
    """The result of shrinking for one finding."""

    seconds: float
    questions: int
    objects: int


def shrunk(code: str, snapshot: Snapshot) -> Shrunk | None:
    """Shrink for the example of a code; None: the finding does not show on the snapshot."""
    config = EXAMPLES[code]
    finding = next(found for found in check_config(config) if found.code == code)
    holds = shows(finding, config)
    questions = 0

    def counted(candidate: Snapshot) -> bool:
        nonlocal questions
        questions += 1
        return holds(candidate)

    begin = process_time()
    try:
        small = shrink(snapshot, counted, neutral=True).snapshot
    except SnapshotError:
        return None
    seconds = process_time() - begin
    if not holds(small):
        raise AssertionError(f"{code} does not show on what is left")
    return Shrunk(seconds, questions, objects(small))


def _shrinkings(nodes: int, tasks: int, codes: Sequence[str]) -> Iterator[str]:
    snapshot = make_cluster(nodes, tasks)
    yield f"Shrinking {nodes:,} nodes and {tasks:,} tasks, {objects(snapshot):,} objects in all"
    yield ""
    yield "| finding | processor seconds | questions | objects left |"
    yield "|---|---:|---:|---:|"
    for code in codes:
        left = shrunk(code, snapshot)
        if left is None:
            yield f"| `{code}` | does not show on this cluster | | |"
        else:
            mark = "" if left.objects <= MOST_OBJECTS else " (missed)"
            yield f"| `{code}` | {left.seconds:.1f} | {left.questions} | {left.objects}{mark} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description="How long answers take.")
    parser.add_argument("what", choices=("ask", "explain", "shrink"))
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=10000)
    parser.add_argument("--only", default=",".join(EXAMPLES), help="findings, with commas between")
    parser.add_argument("--settled", action="store_true", help="ask once the cluster has settled")
    given = parser.parse_args(arguments)
    lines = {
        "ask": lambda: _askings(given.nodes, given.tasks, is_settled=given.settled),
        "explain": lambda: _explanations(given.nodes, given.tasks),
        "shrink": lambda: _shrinkings(given.nodes, given.tasks, given.only.split(",")),
    }[given.what]()
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
