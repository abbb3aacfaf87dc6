"""Check all golden cases for all invariants.

    python -m tests.support.all_goldens

Prints what is wrong, and how many cases of how many keep every invariant; the exit status is 1
unless all do.
"""

from __future__ import annotations

import sys

from batchsched import Scheduler, SchedulerConfig
from batchsched.testing import InvariantViolation
from tests.support import golden as check
from tests.support.invariants import check_cycle


def main() -> int:
    """Check and print; return the exit status."""
    kept = total = 0
    for path in check.golden_files():
        for case in check.load_cases(path):
            total += 1
            snapshot = check.snapshot_of(case)
            config = SchedulerConfig.from_mapping(case["conf"])
            try:
                check_cycle(snapshot, Scheduler(config).schedule(snapshot), config)
                kept += 1
            except InvariantViolation as violation:
                print(f"{case['name']}: {violation.invariant}: {violation.problem}")
    print(f"{kept} of {total} golden cases keep all invariants")
    return int(kept < total)


if __name__ == "__main__":
    sys.exit(main())
