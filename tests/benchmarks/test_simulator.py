"""The benchmark of the simulator runs, and sees that what starts when is what it was."""

from __future__ import annotations

import pytest
from benchmarks.catalogue import REPORTS
from benchmarks.simulator import main

pytestmark = pytest.mark.slow


def test_it_tells_what_an_event_costs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "simulator" in REPORTS
    monkeypatch.delenv("BATCHSCHED_TRACES", raising=False)
    assert main(["--events", "2000", "--jobs", "30", "--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "made up, first 30 jobs, plan on 100 node(s)" in printed
    assert "30 of 30 starts are equal" in printed
