"""The clusters of `benchmarks.changes` decide something, and the same without any shortcut."""

from __future__ import annotations

from benchmarks.changes import borrow


def test_what_is_measured_is_decided_the_same_without_shortcuts() -> None:
    measured = [borrow(12, is_mixed=True, plain=plain)["digest"] for plain in (False, True)]
    assert measured[0] == measured[1]
