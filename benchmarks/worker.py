"""One measurement in a process of its own: ``python -m benchmarks.worker memory gangs-1000``.

The command starts a fresh process for each workload, so that none inherits the heap of
another. The process prints its measurement as JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from pathlib import Path

from attrs import asdict

from batchsched import Scheduler
from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import DEFAULT, FAST, placement_of
from benchmarks.digests import Digests
from benchmarks.measurement import Options, measure, store_digests

_KIB = 1024


def main() -> None:
    """Run the measurement that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("time", "memory", "digests"))
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--engine", choices=(DEFAULT, FAST), default=DEFAULT)
    for name, default in asdict(Options()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--update-digests", action="store_true")
    given = parser.parse_args()
    workload = WORKLOADS[given.workload]
    digests = Digests(is_update=given.update_digests)
    answer: dict[str, object] = {}
    if given.what == "memory":
        answer = {"peak_memory": peak_memory(given.workload, given.scale, given.engine)}
    elif given.what == "digests":
        store_digests(workload, digests)
    else:
        options = Options(**{name: getattr(given, name) for name in asdict(Options())})
        answer = asdict(measure(workload, options, digests))
    json.dump(answer, sys.stdout)


def peak_memory(name: str, scale: float, engine: str) -> int:
    """Return the most bytes that this process had in memory after running a workload once.

    Numpy is imported only for the engine that needs it.
    """
    scenario = WORKLOADS[name].make(scale)
    scheduler = Scheduler(scenario.config, placement=placement_of(engine))
    advance = None if scenario.advance is None else scenario.advance()
    snapshot = scenario.snapshot
    for _ in range(scenario.cycles):
        result = scheduler.schedule(snapshot)
        if advance is not None:
            snapshot = advance(snapshot, result)
    return _peak()


def _peak() -> int:
    status = Path("/proc/self/status")
    if status.exists():
        # The value of getrusage includes that of the parent process.
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * _KIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


if __name__ == "__main__":
    main()
