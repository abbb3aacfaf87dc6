"""The benchmark of protection runs, and compares only cycles that decide the same."""

from __future__ import annotations

import pytest
from attrs import evolve
from benchmarks.catalogue import REPORTS
from benchmarks.protection import ROWS, Row, main, measure


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_has_somebody_to_evict(row: Row) -> None:
    cost = measure(row, scale=0.02, rounds=1)
    assert cost.evictions
    assert len(cost.with_it) == len(cost.without) == len(cost.ratios) == 1


def test_a_row_that_decides_otherwise_is_not_measured() -> None:
    limits = [{"name": "none", "scope": "cluster", "most": 0, "window": 60}]
    wrong = evolve(ROWS[0], arguments={"limits": limits})
    with pytest.raises(ValueError, match="decide otherwise"):
        measure(wrong, scale=0.01, rounds=1)


def test_the_table_has_the_rows_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "0.01", "--rounds", "1", "--only", "budgets"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines] == ["asked", "---", "budgets"]
    assert "protection" in REPORTS
