"""Lets closed worlds of a file live; for `benchmarks.closed_worlds`.

It imports the library alone, in names that earlier revisions have, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchsched import Scheduler, SchedulerConfig, Snapshot, next_snapshot
from batchsched.errors import BatchschedError

CYCLES = 40


def lived(configuration: Any, start: Any) -> tuple[int, int, int] | None:
    """Return how many were evicted and started, and in which cycle the last was evicted.

    None: this revision cannot read it, or knows no such configuration.
    """
    evictions = starts = last = still = 0
    try:
        scheduler = Scheduler(SchedulerConfig.from_mapping(configuration))
        snapshot = Snapshot.from_dict(start)
        for cycle in range(1, CYCLES + 1):
            result = scheduler.schedule(snapshot)
            evictions += len(result.evictions)
            starts += len(result.binds)
            last = cycle if result.evictions else last
            still = 0 if result.evictions or result.binds else still + 1
            if still > 1:
                break
            snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)
    except BatchschedError:
        return None
    return evictions, starts, last


def outcomes(file: Path) -> Iterator[tuple[int, int, int] | None]:
    """Let the worlds of a file live, one after the other."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield lived(*json.loads(line))


if __name__ == "__main__":
    for one in outcomes(Path(sys.argv[1])):
        print(json.dumps(one), flush=True)
