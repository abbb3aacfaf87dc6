"""How often forecasts come true: jobs of KTH-SP2 as they are submitted, under EASY.

The truth is what EASY backfilling (requested times, true run times) does with the log. For every
so many jobs of the log that wait, the cluster at their submission is forecast with what was known
then: the requested times, and the run times of the jobs that had ended. The table says how many
true starts lie within the told interval, and how far the median is off.

    BATCHSCHED_TRACES=... python -m benchmarks.calibration --every 100 --futures 20
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.simulation import Easy, read_swf, simulate
from batchsched.tools import AsEstimated, Estimates, History, any_job, by_user, forecast

LOG = Path("kth_sp2") / "KTH-SP2-filtered-28481.swf.gz"
PROCESSORS = 100
WEEK = 7 * 86400
AHEAD = 2 * 86400
"""For how many seconds arrivals of the week before come again."""
KNOWN = 4000
"""Of how many jobs that had ended last the run times are known."""
EASY = SchedulerConfig.from_mapping(
    {
        "actions": [{"name": "plan", "arguments": {"depth": 1}}],
        "tiers": [
            {"plugins": [{"name": "fcfs", "arguments": {"strict": False}}, "gang", "predicates"]}
        ],
    }
)


class Past(NamedTuple):
    """A job of the log, and when it ran."""

    info: JobInfo
    submit: float
    start: float
    end: float


class Told(NamedTuple):
    """A forecast of one job, and the truth."""

    true: float
    earliest: float
    median: float
    latest: float


def job(name: str, like: JobInfo, *, arrived: float, started: float | None = None) -> JobInfo:
    """Return a job like another one: a task on the one large node."""
    task = TaskInfo(
        uid=name,
        name=name,
        resreq=like.tasks[0].resreq,
        status=TaskStatus.PENDING if started is None else TaskStatus.RUNNING,
        node_name=None if started is None else "n",
        start_time=started,
    )
    return JobInfo(
        name=name,
        queue="q",
        user=like.user,
        estimate=like.estimate,
        creation_time=arrived,
        tasks=[task],
    )


def log() -> list[Past]:
    """Return the jobs of the log in order of submission."""
    path = Path(os.environ["BATCHSCHED_TRACES"]) / LOG
    with gzip.open(path, "rt") as lines:
        workload, _ = read_swf(lines)
    starts = simulate(workload.on(nodes=PROCESSORS), Easy()).jobs["start"]
    found: list[Past] = []
    for name, submit, start, run, processors, requested, user in zip(
        workload.ids,
        workload.submits,
        starts,
        workload.runs,
        workload.processors,
        workload.requested,
        workload.users,
        strict=True,
    ):
        size = Resource(milli_cpu=1000 * processors)
        task = TaskInfo(uid=f"{name}", name=f"{name}", resreq=size)
        estimate = float(requested or run)
        like = JobInfo(name="", queue="q", user=f"{user}", estimate=estimate, tasks=[task])
        # It is killed at its requested time.
        end = start + min(run, estimate)
        found.append(Past(job(f"{name}", like, arrived=float(submit)), submit, start, end))
    return found


def cluster(jobs: Sequence[Past], now: float) -> Snapshot:
    """Return the cluster as one of the jobs is submitted."""
    there = [
        job(
            past.info.name,
            past.info,
            arrived=past.submit,
            started=past.start if past.start < now else None,
        )
        for past in jobs
        if past.submit <= now < past.end
    ]
    node = NodeInfo(name="n", allocatable=Resource(milli_cpu=1000 * PROCESSORS))
    return Snapshot(nodes=[node], queues=[Queue(name="q")], jobs=there, now=now)


Knowing = Callable[[Sequence[tuple[JobInfo, float]]], Estimates]
WAYS: dict[str, tuple[Knowing, bool]] = {
    "requested times": (lambda _runs: AsEstimated(), False),
    "the user's last 20 runs": (
        lambda runs: History(runs, keys=(by_user, any_job), newest=20),
        False,
    ),
    "ratios to the requested time": (
        lambda runs: History(runs, keys=(by_user, any_job), newest=20, ratios=True),
        False,
    ),
    "ratios, one quantile for a user": (
        lambda runs: History(
            runs, keys=(by_user, any_job), newest=20, ratios=True, together=by_user
        ),
        False,
    ),
    "the same, with the arrivals of the week before": (
        lambda runs: History(
            runs, keys=(by_user, any_job), newest=20, ratios=True, together=by_user
        ),
        True,
    ),
}
"""How run times are known, and whether jobs arrive."""


def told(jobs: Sequence[Past], which: Sequence[Past], way: str, futures: int) -> Iterator[Told]:
    """Yield the forecast of each of some jobs, at its submission."""
    knowing, arrive = WAYS[way]
    ended = sorted(jobs, key=lambda past: past.end)
    ends = [past.end for past in ended]
    for one in which:
        now = one.submit
        known = ended[max(0, bisect_right(ends, now) - KNOWN) : bisect_right(ends, now)]
        coming = [
            (job(f"a{past.info.name}", past.info, arrived=past.submit + WEEK), past.submit + WEEK)
            for past in jobs
            if arrive and now < past.submit + WEEK <= now + AHEAD
        ]
        answer = forecast(
            cluster(jobs, now),
            config=EASY,
            estimates=knowing([(past.info, past.end - past.start) for past in known]),
            samples=futures,
            jobs=[one.info.uid],
            arrivals=coming,
        ).jobs[one.info.uid]
        assert answer.earliest is not None
        assert answer.median is not None
        assert answer.latest is not None
        yield Told(one.start, answer.earliest, answer.median, answer.latest)


def coverage(found: Sequence[Told], stretch: float = 1.0) -> float:
    """Return the share of true starts within the told intervals."""
    return mean(
        each.median - stretch * (each.median - each.earliest)
        <= each.true
        <= each.median + stretch * (each.latest - each.median)
        for each in found
    )


def learned(found: Sequence[Told]) -> float:
    """Return the least factor with which four in five true starts were within the intervals."""
    for tenths in range(1, 1001):
        if coverage(found, tenths / 10) >= 0.8:
            return tenths / 10
    return 100.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--futures", type=int, default=20)
    given = parser.parse_args()
    jobs = log()
    which = [past for past in jobs[:: given.every] if past.start > past.submit]
    print(f"{len(which)} jobs that wait, of every {given.every}th; {given.futures} futures")
    print("| run times | within | too early | off (mean) | off (median) | stretched | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for way in WAYS:
        begin = time.process_time()
        found = list(told(jobs, which, way, given.futures))
        seconds = time.process_time() - begin
        off = [abs(each.median - each.true) for each in found]
        early = mean(each.true < each.earliest for each in found)
        half = len(found) // 2
        factor = learned(found[:half])
        stretched = coverage(found[half:], factor)
        print(
            f"| {way} | {coverage(found):.0%} | {early:.0%} | {mean(off):,.0f} s "
            f"| {median(off):,.0f} s | {stretched:.0%} (x {factor:g}) | {seconds:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
