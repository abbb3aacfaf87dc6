"""What is said to differ between two runs differs, and what is not, does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import ConfigError, Snapshot, compare, schedule
from batchsched.simulation import Easy, Fcfs, Job, Run, Scheduled, Workload, simulate

JOBS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=6
)


def workload(jobs: list[tuple[int, int, int]]) -> Workload:
    return Workload(
        [
            Job(
                id=number,
                submit=submit,
                run=run,
                processors=size,
                requested=run,
                queue=("small", "large")[size > 2],
            )
            for number, (submit, run, size) in enumerate(sorted(jobs), 1)
        ]
    ).on(nodes=4)


BUSY = workload([(0, 10, 3), (1, 10, 4), (2, 5, 1)])
"""Under EASY the third job goes before the second, which does not fit."""


def compared(one: Run, other: Run) -> Any:
    found = compare(one, other)
    assert json.dumps(found.to_dict())
    lines = str(found).splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    return found


@given(JOBS)
@settings(max_examples=15)
def test_jobs_that_differ_are_listed_and_no_others(jobs: list[tuple[int, int, int]]) -> None:
    one, other = simulate(workload(jobs), Fcfs()), simulate(workload(jobs), Easy())
    found = compared(one, other)
    columns = zip(one.jobs["id"], one.jobs["start"], other.jobs["start"], strict=True)
    expected = {job: (start, start_after) for job, start, start_after in columns}
    listed = {change.job: change.start for change in found.changes}
    assert listed == {job: both for job, both in expected.items() if both[0] != both[1]}
    assert found.is_same is (not listed)
    assert (found.parting is None) is found.is_same


@given(JOBS)
@settings(max_examples=10)
def test_a_run_differs_in_nothing_from_itself(jobs: list[tuple[int, int, int]]) -> None:
    run = simulate(workload(jobs), Fcfs())
    found = compared(run, run)
    assert found.is_same
    assert all(one == other for one, other in [*found.figures.values(), *found.shares.values()])


def test_it_tells_who_starts_earlier_and_where_the_runs_part() -> None:
    found = compared(simulate(BUSY, Fcfs()), simulate(BUSY, Easy()))
    assert [(change.kind, change.queue) for change in found.changes] == [("earlier", "small")]
    assert found.changes[0].start == (20, 2)
    assert found.by_queue() == {"small": {"earlier": 1}}
    assert found.figures["wait"] == ((0 + 9 + 18) / 3, 3)
    assert found.shares["large"] == (70 / 100, 70 / 80)
    assert found.shares["small"] == (5 / 100, 5 / 80)
    parting = found.parting
    assert parting is not None
    job = found.changes[0].job
    assert (parting.before, parting.after) == ("starts no job at 2 s", f"starts {job} at 2 s")
    assert "1 processor free" in parting.why[1]
    assert "waited for 18 s" in parting.why[2]
    assert "The first decision that differs" in str(found)
    assert "<table>" in found._repr_html_()


def test_jobs_that_never_start_are_told_with_the_reason() -> None:
    small, large = workload([(0, 5, 1), (0, 5, 2)]), workload([(0, 5, 1)])
    found = compared(simulate(small, Easy()), simulate(large, Easy()))
    assert [change.kind for change in found.changes] == ["no longer starts"]
    assert found.jobs == 2


def test_runs_of_configurations_are_compared_too() -> None:
    found = compared(simulate(BUSY, Scheduled()), simulate(BUSY, Easy()))
    assert {change.kind for change in found.changes} <= {"earlier", "later"}


def test_a_run_is_compared_with_runs_only() -> None:
    run = simulate(BUSY, Easy())
    result = schedule(Snapshot())
    with pytest.raises(ConfigError, match="after: expected a Run to compare with the other Run"):
        compare(run, result)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="snapshot: expected a Snapshot, got None"):
        compare(result, 3)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="after: expected a Run to compare with the other Run"):
        compare(run, 3)  # type: ignore[call-overload]
    with pytest.raises(
        ConfigError, match="before: expected a CycleResult, a SchedulerConfig or a Run"
    ):
        compare(3, 3)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="before: expected a CycleResult or a SchedulerConfig"):
        compare(run, run, Snapshot())  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="snapshot: expected a Snapshot, got None"):
        compare(result, result)  # type: ignore[call-overload]
