"""What tracing costs, off and on: ``python -m benchmarks.tracing [--scale 0.25] [--rounds 15]``.

Cycles with tracing off alternate with cycles with a trace that collects all events. With tracing
off, nothing of it may be called.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
from collections.abc import Callable, Sequence
from statistics import median
from time import process_time
from typing import Any

from attrs import frozen

from batchsched import Scheduler, trace
from batchsched.session import tracing
from batchsched.trace import TraceEvent
from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import DEFAULT, placement_of
from benchmarks.workloads.scenario import Scenario

__all__ = ["MEASURED", "Cost", "main", "measure"]

MEASURED = ("openb", "gangs-1000", "busy", "nothing-fits")
_FILES = frozenset({tracing.__file__, trace.__file__})


@frozen(kw_only=True)
class Cost:
    """What tracing costs in one workload; processor seconds, round by round."""

    off: tuple[float, ...]
    """A cycle with tracing off."""
    on: tuple[float, ...]
    calls_when_off: int
    """How often a function of the modules of tracing is called in a cycle with tracing off."""
    events: int
    """How many events a traced cycle has."""

    @property
    def ratio(self) -> float:
        """How many times as long a cycle takes with tracing on: the median of all rounds."""
        return median(on / off for on, off in zip(self.on, self.off, strict=True))


def measure(scenario: Scenario, rounds: int) -> Cost:
    """Run a cycle of a scenario with tracing off and on, as often as `rounds` says."""
    placement = placement_of(DEFAULT)
    plain = Scheduler(scenario.config, placement=placement)
    events: list[TraceEvent] = []
    traced = Scheduler(scenario.config, placement=placement, trace=events.append)
    ways: tuple[Callable[[], object], ...] = (
        lambda: plain.schedule(scenario.snapshot),
        lambda: traced.schedule(scenario.snapshot),
    )
    times: list[list[float]] = [[] for _ in ways]
    for round_ in range(rounds):
        events.clear()
        # The first one has the coldest caches: each is first in turn.
        for at in sorted(range(len(ways)), key=lambda at: (at + round_) % len(ways)):
            times[at].append(_seconds(ways[at]))
    profile = cProfile.Profile()
    profile.runcall(plain.schedule, scenario.snapshot)
    stats: Any = pstats.Stats(profile)  # what it holds is documented, and not typed
    calls = sum(row[1] for (path, _, _), row in stats.stats.items() if path in _FILES)
    off, on = times
    return Cost(
        off=tuple(off),
        on=tuple(on),
        calls_when_off=calls,
        events=len(events),
    )


def _seconds(run: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        begin = process_time()
        run()
        return process_time() - begin
    finally:
        gc.enable()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; return 1 if anything of tracing is called when it is off."""
    parser = argparse.ArgumentParser(description="What tracing costs, off and on.")
    parser.add_argument("--scale", type=float, default=0.25, help="the part of the full size")
    parser.add_argument("--rounds", type=int, default=15, help="how often the two alternate")
    parser.add_argument("--only", default=",".join(MEASURED), help="workloads, with commas between")
    given = parser.parse_args(arguments)
    how = f"median of {given.rounds} rounds (and by the least of all rounds)"
    lines = [
        f"Tracing at scale {given.scale:g}: times as long as off, {how}",
        "",
        "| workload | on | calls when off | events |",
        "|---|---:|---:|---:|",
    ]
    calls = 0
    for name in given.only.split(","):
        cost = measure(WORKLOADS[name].make(given.scale), given.rounds)
        calls += cost.calls_when_off
        least = min(cost.on) / min(cost.off)
        lines.append(
            f"| `{name}` | {cost.ratio:.3f} ({least:.3f}) | {cost.calls_when_off} "
            f"| {cost.events:,} |"
        )
    lines += ["", f"Calls when off: {calls}; there must be none", ""]
    sys.stdout.write("\n".join(lines))
    return int(calls > 0)


if __name__ == "__main__":
    sys.exit(main())
