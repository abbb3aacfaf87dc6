"""Print a digest of what is decided in golden cases, for `tests/test_determinism.py`.

    python tests/golden/digest.py [CASES]

It decides the first so many cases of each file (30 without a number), and prints one line:
how many those are, and the SHA-256 of all results with their reasons.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType


def _checker() -> ModuleType:
    place = Path(__file__).with_name("check.py")
    specification = importlib.util.spec_from_file_location("golden_check_for_digest", place)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def digest(of_each_file: int) -> str:
    """Return how many cases were decided, and the digest of the results."""
    from batchsched import Scheduler, SchedulerConfig  # noqa: PLC0415 - on whatever Python runs

    check = _checker()
    found = hashlib.sha256()
    cases = 0
    for file in check.golden_files():
        for case in islice(check.load_cases(file), of_each_file):
            scheduler = Scheduler(SchedulerConfig.from_mapping(case["conf"]))
            result = scheduler.schedule(check.snapshot_of(case))
            # Not sorted: the order in which things are given is a part of the result.
            found.update(json.dumps([case["name"], result.to_dict(), str(result)]).encode())
            cases += 1
    return f"{cases} {found.hexdigest()}"


if __name__ == "__main__":
    print(digest(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
