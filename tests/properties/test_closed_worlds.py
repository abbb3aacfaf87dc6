"""Closed worlds of the kit with racks, devices and priorities: evictions end, and none is in vain.

A sample here; `BATCHSCHED_NIGHTLY=1`, which `tasks.py nightly` sets, has 5,000 worlds.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from tests.support.closed_worlds import CLOSED_WORLDS, ClosedWorld

pytestmark = pytest.mark.slow

WORLDS = 5000 if os.environ.get("BATCHSCHED_NIGHTLY") == "1" else 120


@settings(max_examples=WORLDS)
@given(CLOSED_WORLDS)
def test_it_comes_to_rest_and_nobody_goes_in_vain(world: ClosedWorld) -> None:
    history = world.live()
    assert not history.faults
    assert not history.in_vain
