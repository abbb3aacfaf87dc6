"""``python -m benchmarks.simulator``: what the simulator costs, as ratios in one run.

List policies on a pool beside a plain event loop, the library's scheduler with the action plan on
one node and with gangs on many, the cost of an event on a long workload beside that on a tenth of
it, and that of a job while the queue grows. The log is KTH-SP2 if the folder in BATCHSCHED_TRACES
has it, otherwise a generated one. Start times are compared: pool and scheduler must agree, and on
the generated log also with the digests here. Processor time of this process; runs that are compared
alternate, and the least counts.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import os
import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from time import process_time

from batchsched import SchedulerConfig
from batchsched.simulation import (
    Conservative,
    Easy,
    Fcfs,
    Policy,
    Run,
    Workload,
    generate,
    read_swf,
    simulate,
)

LOG = "kth_sp2/KTH-SP2-filtered-28481.swf.gz"
PLAN = SchedulerConfig.from_mapping(
    {
        "actions": [{"name": "plan", "arguments": {"depth": 1, "keep": False}}],
        "tiers": [{"plugins": ["gang", "predicates"]}],
    }
)
"""On nodes of one processor, and on one node, this is EASY."""
GENERATED = {"Easy": "d6c2ec8b1f19a7e9", "Conservative": "047b92f245ec2490"}
"""The digests of the start times on the generated log, by policy."""


def plain_easy(workload: Workload) -> float:
    """Run EASY in a plain loop, once an instant; return the mean wait."""
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


def growth(events: int, policy: Policy, rounds: int) -> None:
    """Print what an event costs on a long workload and on a tenth of it."""
    long = generate(jobs=events // 2, nodes=128, seed=1, load=0.5)
    short = long.first(events // 20)
    # The short one as often as it takes to be as long.
    small, large = least(
        rounds, lambda: [simulate(short, policy) for _ in range(10)], lambda: simulate(long, policy)
    )
    print(
        f"{policy}: {events:,} events {large / events * 1e6:.2f} us each, a tenth of them "
        f"{small / events * 1e6:.2f} us each: {large / small:.2f} times"
    )


def backlog(jobs: int) -> None:
    """Print what a job costs while the queue grows, and in a third of it."""
    long = generate(jobs=jobs, nodes=1024, seed=1, load=1.5)
    for workload in (long.first(jobs // 3), long):
        began = process_time()
        run = simulate(workload, Easy())
        time = process_time() - began
        waiting = max(run.series()["queued"])
        print(
            f"{run.policy}: {len(workload):,} jobs, up to {waiting:,.0f} of them waiting: "
            f"{time / len(workload) * 1e6:.1f} us each"
        )


def log_of(folder: str | None) -> tuple[str, Workload]:
    """Return the name of the log that is measured, and the log."""
    if folder is None:
        print("BATCHSCHED_TRACES names no folder: a log that is made up is measured, not KTH-SP2")
        return "made up", generate(jobs=3000, nodes=100, seed=1, load=0.95)
    with gzip.open(Path(folder) / LOG, "rt", encoding="utf-8") as file:
        return "KTH-SP2", read_swf(file)[0]


def digest_of(run: Run) -> str:
    """Return a digest of all start times."""
    starts = sorted((str(job), start) for job, start in run.starts_by_id().items())
    return blake2b(repr(starts).encode(), digest_size=8).hexdigest()


def pool(name: str, workload: Workload, rounds: int) -> bool:
    """Print the cost of list policies beside a plain loop, and of EASY in the general engine.

    Returns:
        Whether starts are right.
    """
    policies = (Easy(), Conservative())
    plain, general, *times = least(
        rounds,
        lambda: plain_easy(workload),
        lambda: simulate(workload, Easy(), engine="general"),
        *(lambda policy=policy: simulate(workload, policy) for policy in policies),
    )
    print(f"{name}, {len(workload):,} jobs: plain loop {plain:.2f} s", end="")
    print(f", EASY in the general engine {general:.2f} s ({general / plain:.2f} times)", end="")
    is_right = True
    for policy, time in zip(policies, times, strict=True):
        print(f", {policy} {time:.2f} s ({time / plain:.2f} times)", end="")
        digest = digest_of(simulate(workload, policy))
        if name == "made up" and digest != GENERATED[type(policy).__name__]:
            print(f" STARTS AT OTHER TIMES: {digest}", end="")
            is_right = False
    print()
    return is_right


def scheduler(name: str, workload: Workload, jobs: int, nodes: Sequence[int]) -> bool:
    """Print what the action plan costs; return whether it starts what EASY starts."""
    some = workload.first(jobs)
    is_right = True
    for count in nodes:
        log = some.on(nodes=count, per_node=100 // count)
        began = process_time()
        run = simulate(log, PLAN)
        time = process_time() - began
        compared = run.compare(simulate(some.on(nodes=100), Easy()))
        is_right &= compared.equal == compared.compared == len(some)
        print(
            f"{name}, first {len(some):,} jobs, plan on {count} node(s): {time:.2f} s, "
            f"{2 * len(some) / time:,.0f} events/s; EASY on the pool: {compared}"
        )
    return is_right


def main(given: Sequence[str] | None = None) -> int:
    """Measure what the arguments say; return 1 if anything starts at another time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulator", description=__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--jobs", type=int, default=1000, help="for the scheduler")
    parser.add_argument("--rounds", type=int, default=3, help="how often runs alternate")
    arguments = parser.parse_args(given)
    name, workload = log_of(os.environ.get("BATCHSCHED_TRACES"))
    is_right = pool(name, workload, arguments.rounds)
    is_right &= scheduler(name, workload, arguments.jobs, (1, 100))
    for policy in (Fcfs(), Easy()):
        growth(arguments.events, policy, arguments.rounds)
    backlog(arguments.events // 4)
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
