"""Tests go through the public faces of the library, so that what is behind them may change."""

from tests.support.reach import count_reaching

MOST = 0.15
"""How many of the test functions may reach internals: units of algorithms, and of the books."""


def test_few_tests_reach_internals() -> None:
    tests, reaching = map(sum, zip(*count_reaching().values(), strict=True))
    assert reaching <= MOST * tests, "see python -m tests.support.reach -v"


def test_what_reaches_internals_is_found() -> None:
    count = count_reaching()
    assert count["scenarios"][1] == 0
    assert count["state"][1] > 0
