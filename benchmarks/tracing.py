"""What tracing costs, off and on: ``python -m benchmarks.tracing [--scale 0.25] [--rounds 15]``.

Three ways to run the same cycle alternate: as `Scheduler` runs it when no trace is asked for; the
same actions in a plain `Session`, without anything of tracing; and with a trace that collects all
events. With tracing off, a cycle must take at most 1.01 times as long as without any tracing.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from attrs import frozen

from batchsched import Scheduler, Session
from batchsched.session import trace_events, tracing
from batchsched.session.trace_events import TraceEvent
from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import DEFAULT, placement_of
from benchmarks.workloads.scenario import Scenario

__all__ = ["BOUND", "MEASURED", "Cost", "main", "measure"]

MEASURED = ("openb", "gangs-1000", "busy", "nothing-fits")
BOUND = 1.01
_FILES = frozenset(
    map(str, [*Path(tracing.__file__ or "").parent.glob("*.py"), Path(trace_events.__file__ or "")])
)


@frozen(kw_only=True)
class Cost:
    """What tracing costs in one workload; processor seconds, round by round."""

    without: tuple[float, ...]
    """A cycle without any tracing."""
    off: tuple[float, ...]
    """A cycle with tracing off."""
    on: tuple[float, ...]
    calls_when_off: int
    """How often a function of the modules of tracing is called in a cycle with tracing off."""
    events: int
    """How many events a traced cycle has."""

    def ratio(self, seconds: Sequence[float]) -> float:
        """Return how many times as long it takes as without: the median of all rounds."""
        return median(one / other for one, other in zip(seconds, self.without, strict=True))


def measure(scenario: Scenario, rounds: int) -> Cost:
    """Run a cycle of a scenario in the three ways, as often as `rounds` says."""
    placement = placement_of(DEFAULT)
    plain = Scheduler(scenario.config, placement=placement)
    events: list[TraceEvent] = []
    traced = Scheduler(scenario.config, placement=placement, trace=events.append)
    untraced = _plain_cycle(plain, scenario)
    ways: tuple[Callable[[], object], ...] = (
        untraced,
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
    without, off, on = times
    return Cost(
        without=tuple(without),
        off=tuple(off),
        on=tuple(on),
        calls_when_off=calls,
        events=len(events),
    )


def _plain_cycle(scheduler: Scheduler, scenario: Scenario) -> Callable[[], object]:
    """Return a cycle without any line of tracing, not even a check whether it is on."""
    opened = scheduler.open(scenario.snapshot)
    assert type(opened) is Session
    books = opened._policy_state

    def run() -> object:
        return scheduler.run(Session(scenario.snapshot, books._configured, placement_of(DEFAULT)))

    return run


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
    """Print a table; return 1 if tracing that is off costs more than it may."""
    parser = argparse.ArgumentParser(description="What tracing costs, off and on.")
    parser.add_argument("--scale", type=float, default=0.25, help="the part of the full size")
    parser.add_argument("--rounds", type=int, default=15, help="how often the three alternate")
    parser.add_argument("--only", default=",".join(MEASURED), help="workloads, with commas between")
    given = parser.parse_args(arguments)
    how = f"median of {given.rounds} rounds (and by the least of all rounds)"
    lines = [
        f"Tracing at scale {given.scale:g}: times as long as without, {how}",
        "",
        "| workload | off, by none | on, by none | calls when off | events |",
        "|---|---:|---:|---:|---:|",
    ]
    worst = 0.0
    for name in given.only.split(","):
        cost = measure(WORKLOADS[name].make(given.scale), given.rounds)
        worst = max(worst, cost.ratio(cost.off))
        lines.append(
            f"| `{name}` | {_shown(cost, cost.off)} | {_shown(cost, cost.on)} "
            f"| {cost.calls_when_off} | {cost.events:,} |"
        )
    verdict = "reached" if worst <= BOUND else "missed"
    lines += ["", f"Off, at most {BOUND} times: {verdict} (largest {worst:.4f})", ""]
    sys.stdout.write("\n".join(lines))
    return int(worst > BOUND)


def _shown(cost: Cost, seconds: Sequence[float]) -> str:
    return f"{cost.ratio(seconds):.3f} ({min(seconds) / min(cost.without):.3f})"


if __name__ == "__main__":
    sys.exit(main())
