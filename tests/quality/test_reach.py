"""Tests go through the public faces of the library, so that what is behind them may change."""

import pytest
from tests.support.reach import count_reaching

MOST = 0.15
"""How many of the test functions may reach internals: units of algorithms, and of the books."""


@pytest.mark.slow
def test_few_tests_reach_internals() -> None:
    count = count_reaching()
    tests, reaching = map(sum, zip(*count.values(), strict=True))
    assert reaching <= MOST * tests, "see python -m tests.support.reach -v"
    # What reaches them is found: units of the books do, scenarios do not.
    assert count["state"][1] > 0 == count["scenarios"][1]
