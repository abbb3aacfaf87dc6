"""The rows of the benchmark of steady cycles run, and decide what cycles from scratch decide."""

import pytest
from benchmarks.steady import ROWS, SHARES, Row, main, measure, scheduler_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_decides_what_cycles_from_scratch_decide(row: Row) -> None:
    found = measure(row, 1 / 250 if row.name != "largest" else 1 / 1000, cycles=9)
    assert found.live > 0
    assert found.scratch > 0


def test_the_table_has_the_rows_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "0.01", "--only", "small,trial"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1:3] for line in lines[2:]] == [
        [f" {row} ", f" {shares} "] for row in ("small", "trial") for shares in SHARES
    ]


def test_shares_are_dealt_out_by_the_plugin_that_is_named() -> None:
    for shares in SHARES:
        config = scheduler_of(ROWS[0], shares).config
        names = [option.name for tier in config.tiers for option in tier.plugins]
        assert [name for name in names if name in SHARES] == [shares]
