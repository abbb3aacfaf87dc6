"""The clusters of `benchmarks.changes` decide something, and the same without any shortcut."""

from __future__ import annotations

import pytest
from benchmarks.changes import borrow, growth, undone

from benchmarks import changes


def test_what_is_measured_is_decided_the_same_without_shortcuts() -> None:
    measured = [borrow(12, is_mixed=True, plain=plain)["digest"] for plain in (False, True)]
    assert measured[0] == measured[1]


def test_rows_check_what_they_decided(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes.main(["borrow-50"])
    assert capsys.readouterr().out.startswith("borrow-50 ")
    monkeypatch.setitem(changes.DIGESTS, "borrow-50", "f")
    with pytest.raises(ValueError, match="borrow-50: expected the digest f, got 0a1cb"):
        changes.main(["borrow-50"])


def test_after_a_trial_that_was_undone_nothing_is_decided_again() -> None:
    assert undone(12)["digest"] == borrow(12, is_still=True)["digest"]


def test_growth_is_the_exponent() -> None:
    assert growth([(10, 3 * 10**1.5), (20, 3 * 20**1.5), (300, 3 * 300**1.5)]) == pytest.approx(1.5)
