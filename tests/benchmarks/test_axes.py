"""The axes of the benchmark can be gone along, and have what they are named for."""

import pytest
from benchmarks.axes import AXES, Axis, main

from batchsched import Scheduler, SchedulerConfig


@pytest.mark.parametrize("axis", AXES, ids=[axis.name for axis in AXES])
def test_an_axis_has_something_to_decide(axis: Axis) -> None:
    result = Scheduler(SchedulerConfig.from_mapping({"actions": axis.actions})).schedule(
        axis.make(8)
    )
    assert result.binds or result.evictions
    assert not result.left_out


def test_the_table_has_the_axes_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "0.02", "--only", "own-ports"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines] == ["axis", "---", "own-ports"]
