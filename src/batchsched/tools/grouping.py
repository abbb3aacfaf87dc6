"""Counts of changes by group and kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from batchsched.model.serialisation import JsonValue

__all__ = ["count_by", "group_rows", "pairs_by_name", "plain_counts", "plain_pairs"]


def count_by(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Count how often each kind occurs in each group, both sorted by name.

    >>> count_by([("q", "starts"), ("q", "moves"), ("q", "starts")])
    {'q': {'moves': 1, 'starts': 2}}
    """
    groups: dict[str, Counter[str]] = {}
    for group, kind in pairs:
        groups.setdefault(group, Counter())[kind] += 1
    return {name: dict(sorted(groups[name].items())) for name in sorted(groups)}


def group_rows(groups: Mapping[str, Mapping[str, int]]) -> list[tuple[str, int, str]]:
    """Return a row for each group: its name, its total, and the counts by kind."""
    rows = [
        (name, sum(counts.values()), ", ".join(f"{n} {kind}" for kind, n in counts.items()))
        for name, counts in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def pairs_by_name(pairs: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Copy pairs of values before and after, by name."""
    return dict(pairs)


def plain_counts(groups: Mapping[str, Mapping[str, int]]) -> dict[str, JsonValue]:
    """Return counts by group and kind, ready for JSON."""
    return {name: dict[str, JsonValue](counts) for name, counts in groups.items()}


def plain_pairs(pairs: Mapping[str, tuple[float, float]]) -> dict[str, JsonValue]:
    """Return pairs of values before and after by name, ready for JSON."""
    return {name: list[JsonValue](both) for name, both in pairs.items()}
