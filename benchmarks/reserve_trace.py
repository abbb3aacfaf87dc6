"""The costs and benefits of reserving on a real trace: KTH-SP2, its jobs as gangs on 100 nodes.

    BATCHSCHED_TRACES=FOLDER python -m benchmarks.reserve_trace [--jobs 500]

The folder has ``kth_sp2/KTH-SP2-filtered-28481.swf.gz``, a log of the Parallel Workloads Archive
(thanks to Lars Malinowsky). Each job requests one processor on some of the 100 nodes, all at once,
and runs for as long as in the log. A cycle is run whenever jobs come or end, and whenever a job
begins to starve. Only the cycles per second are measured by a clock.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path

from attrs import frozen

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    TaskInfo,
)
from batchsched.live import Cluster, Event, JobArrived, JobRemoved, TimePassed

__all__ = ["STRATEGIES", "Measured", "TraceJob", "main", "measure", "read_jobs"]

NODES = 100
HOUR = 3600
PLUGINS = ("priority", "gang", "predicates", "nodeorder")
FILE = Path("kth_sp2") / "KTH-SP2-filtered-28481.swf.gz"

_ALLOCATE = {"name": "allocate", "arguments": {"unready": "discard"}}


def _reserve(percent: int, hours: float = 1, **more: object) -> list[dict[str, object]]:
    arguments = {
        "starvingJobTimeThreshold": hours * HOUR,
        "reservedNodePercent": percent,
        **more,
    }
    return [_ALLOCATE, {"name": "reserve", "arguments": arguments}]


STRATEGIES: Mapping[str, Sequence[Mapping[str, object]]] = {
    "allocate": [_ALLOCATE],
    "reserve 10 %, 1 h": _reserve(10),
    "reserve 10 %, 1 h, inOrder": _reserve(10, inOrder=True),
    "reserve 100 %, 1 h": _reserve(100),
    "reserve 100 %, 1 h, inOrder": _reserve(100, inOrder=True),
    "reserve 100 %, 24 h, inOrder": _reserve(100, 24, inOrder=True),
}


@frozen
class TraceJob:
    """A job of the log; times in seconds."""

    name: str
    submitted: int
    runs: int
    processors: int

    def as_gang(self) -> JobInfo:
        """Return the job: one task for each processor, all of which must start together."""
        one = Resource(milli_cpu=1000)
        return JobInfo(
            name=self.name,
            queue="q",
            min_available=self.processors,
            creation_time=self.submitted,
            tasks=[
                TaskInfo(uid=f"{self.name}-{n:03}", name=f"{self.name}-{n:03}", resreq=one)
                for n in range(self.processors)
            ],
        )


@frozen
class Measured:
    """The results of a strategy; times in seconds."""

    mean_wait: float
    largest_wait: float
    cycles: int
    cycles_per_second: float


def read_jobs(folder: Path, number: int) -> list[TraceJob]:
    """Return the first jobs of the log, in the order of their submission."""
    jobs: list[TraceJob] = []
    with gzip.open(folder / FILE, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(";") or len(jobs) == number:
                continue
            name, submitted, _, runs, processors = line.split()[:5]
            jobs.append(TraceJob(f"{int(name):06}", int(submitted), int(runs), int(processors)))
    return jobs


def measure(jobs: Sequence[TraceJob], actions: Sequence[Mapping[str, object]]) -> Measured:
    """Run all jobs to their start under these actions."""
    mapping = {"actions": list(actions), "tiers": [{"plugins": list(PLUGINS)}]}
    scheduler = Scheduler(SchedulerConfig.from_mapping(mapping))
    by_uid = {f"default/{job.name}": job for job in jobs}
    thresholds = [
        float(str(action["arguments"]["starvingJobTimeThreshold"]))  # type: ignore[index]
        for action in actions
        if action["name"] == "reserve"
    ]
    times: list[float] = []
    for job in jobs:
        heappush(times, job.submitted)
        for threshold in thresholds:
            heappush(times, job.submitted + threshold + 1)
    cluster = Cluster(
        nodes=[
            NodeInfo(name=f"n{n:03}", allocatable=Resource(milli_cpu=1000)) for n in range(NODES)
        ],
        queues=[Queue(name="q")],
    )
    live = scheduler.attach(cluster)
    arriving = list(reversed(jobs))
    ends: dict[str, float] = {}
    waits: dict[str, float] = {}
    cycles, seconds = 0, 0.0
    while len(waits) < len(jobs):
        now = heappop(times)
        while times and times[0] <= now:
            heappop(times)
        events: list[Event] = [TimePassed(now)]
        while arriving and arriving[-1].submitted <= now:
            events.append(JobArrived(arriving.pop().as_gang()))
        over = [uid for uid, end in ends.items() if end <= now]
        for uid in over:
            del ends[uid]
        events += map(JobRemoved, over)
        begun = time.perf_counter()
        cluster.apply(*events)
        result = live.schedule()
        cluster.carry_out(result, at_once=True)
        seconds += time.perf_counter() - begun
        cycles += 1
        for bind in result.binds:
            uid = f"default/{bind.task_uid.rsplit('-', 1)[0]}"
            if uid not in waits:
                waits[uid] = now - by_uid[uid].submitted
                ends[uid] = now + by_uid[uid].runs
                heappush(times, ends[uid])
    return Measured(
        mean_wait=sum(waits.values()) / len(waits),
        largest_wait=max(waits.values()),
        cycles=cycles,
        cycles_per_second=cycles / seconds,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of all strategies."""
    parser = argparse.ArgumentParser(description="What reserving does on a real trace.")
    parser.add_argument("--jobs", type=int, default=500)
    given = parser.parse_args(arguments)
    folder = os.environ.get("BATCHSCHED_TRACES")
    if not folder:
        parser.error("BATCHSCHED_TRACES must name the folder of the traces")
    jobs = read_jobs(Path(folder), given.jobs)
    print("| strategy | mean wait (s) | largest wait (s) | cycles | cycles per second |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, actions in STRATEGIES.items():
        found = measure(jobs, actions)
        print(
            f"| {name} | {found.mean_wait:,.0f} | {found.largest_wait:,.0f} | {found.cycles} "
            f"| {found.cycles_per_second:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
