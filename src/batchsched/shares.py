"""Shares: what part of something an amount is (dominant resource fairness)."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["dominant_share"]


def dominant_share(allocated: Iterable[float], total: Iterable[float], /) -> float:
    """Return the largest part of `total` that `allocated` takes in any dimension.

    Both list amounts in the same order; dimensions beyond the shorter of the two
    do not count. Dimensionless; 1.0 where there is none in total of something
    that is allocated. Follows Ghodsi et al., "Dominant Resource Fairness" (NSDI
    2011), section 4. O(dimensions).

    >>> dominant_share((2000, 1 << 30), (8000, 16 << 30))
    0.25
    >>> dominant_share((0, 1), (8000, 0))
    1.0
    """
    largest = 0.0
    for part, whole in zip(allocated, total, strict=False):
        if whole:
            share = part / whole
            largest = max(largest, share)
        elif part:
            largest = max(largest, 1.0)
    return largest
