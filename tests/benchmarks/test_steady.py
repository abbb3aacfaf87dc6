"""The rows of the benchmark of steady cycles run, and decide what cycles from scratch decide."""

import pytest
from benchmarks.steady import ROWS, Row, main, measure


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_decides_what_cycles_from_scratch_decide(row: Row) -> None:
    found = measure(row, 1 / 250 if row.name != "largest" else 1 / 1000, cycles=9)
    assert found.live > 0
    assert found.scratch > 0


def test_the_table_has_the_rows_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "0.01", "--only", "small,trial"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines] == ["row", "---", "small", "trial"]
