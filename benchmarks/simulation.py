"""``python -m benchmarks.simulation``: what the simulator costs, as ratios in one run.

The cost of an event on a long workload beside that on a tenth of it, and, where the folder that
BATCHSCHED_TRACES names has the log KTH-SP2, EASY and conservative backfilling on it beside a plain
event loop. Processor time of this process; runs that are compared alternate, and the least counts.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import os
from collections.abc import Callable
from pathlib import Path
from time import process_time

from batchsched.simulation import (
    Conservative,
    Easy,
    Fcfs,
    Policy,
    Workload,
    generate,
    read_swf,
    simulate,
)

LOG = "kth_sp2/KTH-SP2-filtered-28481.swf.gz"


def plain_easy(workload: Workload) -> float:
    """EASY in a loop of its own, once an instant; returns the mean wait."""
    size = workload.machine.processors if workload.machine else 0
    arrivals = list(zip(workload.submits, range(len(workload)), strict=True))[::-1]
    requested = [limit or 0 for limit in workload.requested]
    needs, runs = workload.processors, workload.runs
    ends: list[tuple[float, int]] = []
    queue: list[int] = []
    expected: dict[int, float] = {}
    free, waited = size, 0.0
    while arrivals or ends:
        now = min(
            arrivals[-1][0] if arrivals else float("inf"), ends[0][0] if ends else float("inf")
        )
        while ends and ends[0][0] == now:
            job = heapq.heappop(ends)[1]
            free += needs[job]
            del expected[job]
        while arrivals and arrivals[-1][0] == now:
            queue.append(arrivals.pop()[1])
        started: list[int] = []
        shadow, extra = float("inf"), 0
        for place, job in enumerate(queue):
            first = place == len(started)
            if needs[job] <= free and (
                first or now + requested[job] <= shadow or needs[job] <= extra
            ):
                if not first and now + requested[job] > shadow:
                    extra -= needs[job]
                free -= needs[job]
                started.append(job)
                expected[job] = now + requested[job]
                heapq.heappush(ends, (now + runs[job], job))
                waited += now - workload.submits[job]
            elif first:
                available = free
                for end, other in sorted((end, other) for other, end in expected.items()):
                    if end > shadow:
                        break
                    available += needs[other]
                    if available >= needs[job]:
                        shadow = end
                extra = available - needs[job]
            if not free:
                break
        if started:
            gone = set(started)
            queue = [job for job in queue if job not in gone]
    return waited / len(workload)


def least(times: int, *functions: Callable[[], object]) -> list[float]:
    """Return the least processor time of each function; they alternate."""
    best = [float("inf")] * len(functions)
    for _ in range(times):
        for place, function in enumerate(functions):
            began = process_time()
            function()
            best[place] = min(best[place], process_time() - began)
    return best


def growth(events: int, policy: Policy) -> None:
    """Print what an event costs on a long workload and on a tenth of it."""
    long = generate(jobs=events // 2, nodes=128, seed=1, load=0.5)
    short = long.first(events // 20)
    # The short one as often as it takes to be as long.
    small, large = least(
        3, lambda: [simulate(short, policy) for _ in range(10)], lambda: simulate(long, policy)
    )
    print(
        f"{policy}: {events:,} events {large / events * 1e6:.2f} us each, a tenth of them "
        f"{small / events * 1e6:.2f} us each: {large / small:.2f} times"
    )


def kth_sp2(path: Path) -> None:
    """Print what the log costs, beside a plain loop."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        workload, _ = read_swf(file)
    plain, easy, conservative = least(
        3,
        lambda: plain_easy(workload),
        lambda: simulate(workload, Easy()),
        lambda: simulate(workload, Conservative()),
    )
    print(
        f"KTH-SP2: plain loop {plain:.2f} s, EASY {easy:.2f} s ({easy / plain:.2f} times), "
        f"conservative {conservative:.2f} s ({conservative / plain:.2f} times)"
    )


def main() -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    arguments = parser.parse_args()
    folder = os.environ.get("BATCHSCHED_TRACES")
    if folder is None:
        print("BATCHSCHED_TRACES names no folder: KTH-SP2 is not measured")
    else:
        kth_sp2(Path(folder) / LOG)
    for policy in (Fcfs(), Easy()):
        growth(arguments.events, policy)


if __name__ == "__main__":
    main()
