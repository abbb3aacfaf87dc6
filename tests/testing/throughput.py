"""Measure how quick the testing kit is.

    python -m tests.testing.throughput [EXAMPLES]

Prints, in processor time, how many snapshots a second are drawn at the default size, and how many
cycles a second are drawn, scheduled and checked for all invariants.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, Phase, given, settings
from tests.support.invariants import BUT_REASONS, check_cycle

from batchsched import Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import configs, snapshots


def rate(run: Callable[[], None], examples: int) -> float:
    """Return examples a second."""
    begin = time.process_time()
    run()
    return examples / (time.process_time() - begin)


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    examples = int(arguments[0]) if arguments else 2000
    same = settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @same
    @given(snapshots())
    def draw(snapshot: Snapshot) -> None:
        """Only draw."""

    @same
    @given(snapshots(), configs())
    def check(snapshot: Snapshot, config: SchedulerConfig) -> None:
        result = Scheduler(config).schedule(snapshot)
        check_cycle(snapshot, result, config, invariants=BUT_REASONS)

    print(f"{rate(draw, examples):.0f} snapshots a second are drawn")
    print(f"{rate(check, examples):.0f} cycles a second are drawn, scheduled and checked")


if __name__ == "__main__":
    main(sys.argv[1:])
