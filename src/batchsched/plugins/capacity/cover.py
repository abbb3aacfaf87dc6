"""What of a queue is covered by its fair share: the most valuable first.

What is covered is never taken back. What is not is on loan: it uses resources that others
have not asked for so far.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction

from batchsched.state.units import EvictionUnit

__all__ = ["covered_units"]


def covered_units(
    units: Iterable[EvictionUnit], share: Sequence[int], tolerance: Fraction
) -> Collection[EvictionUnit]:
    """Return the units of a queue that its fair share covers.

    A unit is covered if, in every dimension of which it holds anything, what is covered already
    and it are at most the share; one that is not uses nothing of it. What a job has beyond its
    core is covered only if the core is. What uses resources that were promised to others (backfill)
    never is.

    Args:
        units: all units of the queue; the order does not matter.
        share: its fair share, by dimension.
        tolerance: by what part of the share it may be exceeded.

    O(units x (log units + dimensions)).

    """
    most: list[Fraction | int] = list(share)
    if tolerance:
        most = [amount + amount * tolerance for amount in share]
    used = [0] * len(most)
    covered: dict[EvictionUnit, None] = {}
    exposed: set[str] = set()
    for unit in sorted(units, key=_value):
        if unit.is_backfill or (not unit.is_core and unit.job.uid in exposed):
            continue
        if any(v and u + v > m for v, u, m in zip(unit.size, used, most, strict=True)):
            if unit.is_core:
                exposed.add(unit.job.uid)
            continue
        covered[unit] = None
        used = [u + v for u, v in zip(used, unit.size, strict=True)]
    return covered.keys()


def _value(unit: EvictionUnit) -> tuple[object, ...]:
    return unit.value
