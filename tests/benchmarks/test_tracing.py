"""The benchmark of tracing runs, and sees that nothing of tracing is called when it is off."""

from __future__ import annotations

import pytest
from benchmarks.catalogue import REPORTS, WORKLOADS
from benchmarks.tracing import MEASURED, main, measure


def test_nothing_of_tracing_is_called_when_it_is_off() -> None:
    assert "tracing" in REPORTS
    assert set(MEASURED) <= set(WORKLOADS)
    cost = measure(WORKLOADS["busy"].make(0.002), rounds=2)
    assert cost.calls_when_off == 0
    assert cost.events
    assert len(cost.off) == len(cost.on) == 2


def test_it_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--scale", "0.002", "--rounds", "1", "--only", "gangs-1000"])
    printed = capsys.readouterr().out
    assert status == 0
    assert "| `gangs-1000` |" in printed
