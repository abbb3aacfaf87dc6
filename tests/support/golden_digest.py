"""Print a digest of what is decided in golden cases, for `tests/test_determinism.py`.

    python -m tests.support.golden_digest [CASES]

It decides so many cases of each file (30 without a number) after the first, of which that of the
file `medium` takes longer than all others together, and prints one line:
how many those are, and the SHA-256 of all results with their reasons.
"""

from __future__ import annotations

import hashlib
import json
import sys
from itertools import islice

from tests.support import golden as check


def digest(of_each_file: int) -> str:
    """Return how many cases were decided, and the digest of the results."""
    from batchsched import Scheduler, SchedulerConfig  # noqa: PLC0415 - on whatever Python runs

    found = hashlib.sha256()
    cases = 0
    for file in check.golden_files():
        for case in islice(check.load_cases(file), 1, 1 + of_each_file):
            scheduler = Scheduler(SchedulerConfig.from_mapping(case["conf"]))
            result = scheduler.schedule(check.snapshot_of(case))
            # Not sorted: the order in which things are given is a part of the result.
            found.update(json.dumps([case["name"], result.to_dict(), str(result)]).encode())
            cases += 1
    return f"{cases} {found.hexdigest()}"


if __name__ == "__main__":
    print(digest(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
