"""No false alarms: all invariants hold for the golden cases, and for whatever is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.support import golden as check
from tests.support.invariants import check_cycle
from tests.testing import throughput

from batchsched import Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import configs, snapshots

pytestmark = pytest.mark.slow

# A sample keeps the tests short; `python -m tests.support.all_goldens` checks all.
SAMPLE = slice(None, None, 20)
SAMPLE_OF_LARGE = slice(7, None, 48)  # all actions; some others take twenty times as long
of_each_file = pytest.mark.parametrize(
    "path", check.golden_files(), ids=lambda path: path.name.split(".")[0]
)


@of_each_file
def test_they_hold_for_golden_cases(path: Path) -> None:
    sample = SAMPLE_OF_LARGE if path.name.startswith("medium") else SAMPLE
    for case in list(check.load_cases(path))[sample]:
        snapshot = check.snapshot_of(case)
        config = SchedulerConfig.from_mapping(case["conf"])
        check_cycle(snapshot, Scheduler(config).schedule(snapshot), config)


def test_they_hold_while_the_kit_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    throughput.main(["100"])
    assert "cycles a second are drawn, scheduled and checked" in capsys.readouterr().out


@settings(max_examples=120)
@given(snapshots(), configs())
def test_they_hold_for_what_is_drawn(snapshot: Snapshot, config: SchedulerConfig) -> None:
    result = Scheduler(config).schedule(snapshot)
    check_cycle(snapshot, result, config)


@settings(max_examples=60)
@given(
    snapshots(max_nodes=3, min_jobs=3, constraints=False, affinity=False, scalars=False),
    configs(),
)
def test_they_hold_where_nodes_are_short(snapshot: Snapshot, config: SchedulerConfig) -> None:
    result = Scheduler(config).schedule(snapshot)
    check_cycle(snapshot, result, config)


@settings(max_examples=150)
@given(
    snapshots(
        always=["affinity", "running", "crowded", "priorities"],
        constraints=False,
        scalars=False,
        best_effort=False,
        invalid_jobs=False,
        dependencies=False,
    ),
    configs(actions=["allocate", "preempt", "reclaim"], arguments=False),
)
def test_they_hold_where_tasks_want_things_of_each_other(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    check_cycle(snapshot, Scheduler(config).schedule(snapshot), config)


@settings(max_examples=60)
@given(
    snapshots(reservations=False),
    configs(actions=["allocate", "preempt", "reclaim"], arguments=False),
)
def test_reasons_are_true(snapshot: Snapshot, config: SchedulerConfig) -> None:
    check_cycle(snapshot, Scheduler(config).schedule(snapshot), config, invariants=["reasons"])
