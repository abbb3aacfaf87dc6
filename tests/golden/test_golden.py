"""All golden cases: decided as expected, whatever the order, again and again."""

from __future__ import annotations

import pickle
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from tests.support import golden as check
from tests.support.engines import VectorisedPlacement, arrays
from tests.support.nightly import IS_NIGHTLY

from batchsched import CycleResult, Scheduler, SchedulerConfig, Snapshot

FILES = check.golden_files()
HOW_MANY = 3124
LARGE = ("backfill", "evict", "medium", "mixed", "preempt", "reclaim", "reserve")
"""The families of cases that take long."""
EVERY = 3 if IS_NIGHTLY else 12
"""Of how many cases one is decided once more, in another way; each way takes others."""


@frozen(eq=False)
class Decided:
    """A case, and what became of it."""

    case: dict[str, Any]
    scheduler: Scheduler
    snapshot: Snapshot
    before: bytes
    """The snapshot, pickled before it was scheduled."""
    result: CycleResult


@lru_cache(maxsize=len(FILES))
def cases_of(path: Path) -> list[dict[str, Any]]:
    """Read the cases of a file, once for all tests."""
    return list(check.load_cases(path))


@lru_cache(maxsize=HOW_MANY)
def decide(path: Path, place: int) -> Decided:
    """Decide a case of a file, once for all tests."""
    case = cases_of(path)[place]
    scheduler = Scheduler(SchedulerConfig.from_mapping(case["conf"]))
    snapshot = check.snapshot_of(case)
    before = pickle.dumps(snapshot)
    return Decided(case, scheduler, snapshot, before, scheduler.schedule(snapshot))


def decided(path: Path) -> list[Decided]:
    """All cases of a file."""
    return [decide(path, place) for place in range(len(cases_of(path)))]


def some_decided(path: Path, first: int) -> list[Decided]:
    """Some cases of a file, from the one at a place on."""
    return [decide(path, place) for place in range(first, len(cases_of(path)), EVERY)]


def name_of(path: Path) -> str:
    """The name of a family of cases."""
    return path.name.split(".")[0]


def marks_of(path: Path) -> list[pytest.MarkDecorator]:
    """One process decides a file, once for all tests of it."""
    group = pytest.mark.xdist_group(name_of(path))
    return [group, pytest.mark.slow] if name_of(path) in LARGE else [group]


of_each_file = pytest.mark.parametrize(
    "path", [pytest.param(path, id=name_of(path), marks=marks_of(path)) for path in FILES]
)


@pytest.mark.slow
def test_no_case_is_missing() -> None:
    assert sum(len(cases_of(path)) for path in FILES) == HOW_MANY


@of_each_file
def test_every_case_is_decided_as_expected(path: Path) -> None:
    found = {
        one.case["name"]: check.differences(one.case, one.result, one.snapshot)
        for one in decided(path)
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.slow
@of_each_file
def test_every_case_is_decided_the_same_on_arrays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "FEW", 0)  # however few nodes there are
    other = [
        one.case["name"]
        for one in some_decided(path, 2)
        if Scheduler(one.scheduler.config, placement=VectorisedPlacement).schedule(one.snapshot)
        != one.result
    ]
    assert other == []


@of_each_file
def test_scheduling_leaves_the_snapshot_as_it_was(path: Path) -> None:
    changed = [
        one.case["name"] for one in decided(path) if pickle.dumps(one.snapshot) != one.before
    ]
    assert changed == []


@pytest.mark.slow
@of_each_file
def test_the_same_scheduler_decides_a_snapshot_the_same_again(path: Path) -> None:
    other = [
        one.case["name"]
        for one in some_decided(path, 1)
        if one.scheduler.schedule(pickle.loads(one.before)) != one.result
    ]
    assert other == []


@pytest.mark.slow
@of_each_file
def test_decisions_do_not_depend_on_the_order_in_which_anything_is_given(path: Path) -> None:
    other = [
        one.case["name"]
        for one in some_decided(path, 1)
        if one.scheduler.schedule(check.snapshot_of(one.case, shuffle=1)) != one.result
    ]
    assert other == []


@pytest.mark.xdist_group(name_of(FILES[0]))
def test_a_wrong_result_would_be_found() -> None:
    one = next(one for one in decided(FILES[0]) if one.result.binds)
    assert check.differences(one.case, CycleResult(), one.snapshot)
