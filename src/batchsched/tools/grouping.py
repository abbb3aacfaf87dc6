"""Counts of changes by group and kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

__all__ = ["count_by", "group_rows"]


def count_by(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return how often each kind comes in each group, both in order of name.

    >>> count_by([("q", "starts"), ("q", "moves"), ("q", "starts")])
    {'q': {'moves': 1, 'starts': 2}}
    """
    groups: dict[str, Counter[str]] = {}
    for group, kind in pairs:
        groups.setdefault(group, Counter())[kind] += 1
    return {name: dict(sorted(groups[name].items())) for name in sorted(groups)}


def group_rows(groups: Mapping[str, Mapping[str, int]]) -> list[tuple[str, int, str]]:
    """Return a row for each group: its name, how many there are, and how many of each kind."""
    rows = [
        (name, sum(counts.values()), ", ".join(f"{n} {kind}" for kind, n in counts.items()))
        for name, counts in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))
