"""Some golden cases of each file, for mutation runs only: all of them are in `tests/golden`.

Each case decides within milliseconds, and together they reach most of what decides.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from tests.support import golden as check

from batchsched import Scheduler, SchedulerConfig, Snapshot

EVERY = 12
"""Every how many cases of a file one is taken."""


FILES = [path for path in check.golden_files() if not path.name.startswith("medium")]


@lru_cache
def slice_of(path: Path) -> list[tuple[dict[str, Any], Snapshot]]:
    """Return the cases of a file that are taken; read once, before mutants branch off."""
    cases = [case for place, case in enumerate(check.load_cases(path)) if place % EVERY == 0]
    return [(case, check.snapshot_of(case)) for case in cases]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_some_cases_are_decided_as_expected(path: Path) -> None:
    for case, snapshot in slice_of(path):
        result = Scheduler(SchedulerConfig.from_mapping(case["conf"])).schedule(snapshot)
        assert check.differences(case, result, snapshot) == [], case["name"]
