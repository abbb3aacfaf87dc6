"""The benchmark of racks runs, and as many tasks are placed on both of its sides."""

from __future__ import annotations

from benchmarks.racks import main


def test_both_sides_are_measured() -> None:
    assert [name.partition(" ")[0] for name, _ in main(scale=0.02, rounds=1)] == ["2,250", "300"]
