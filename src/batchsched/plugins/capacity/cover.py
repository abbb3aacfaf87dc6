"""What of a queue is covered by its fair share: the most valuable first.

What is covered is never taken back. What is not is on loan: it uses resources that others
have not asked for so far.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from operator import sub

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
        units: all units of the queue, the most valuable first.
        share: its fair share, by dimension.
        tolerance: by what part of the share it may be exceeded.

    O(units x dimensions).

    """
    most: list[Fraction | int] = list(share)
    if tolerance:
        most = [amount + amount * tolerance for amount in share]
    left = most
    covered: dict[EvictionUnit, None] = {}
    exposed: set[str] = set()
    for unit in units:
        if unit.is_backfill or (not unit.is_core and unit.job.uid in exposed):
            continue
        for amount, there in zip(unit.size, left, strict=True):
            if amount and amount > there:
                if unit.is_core:
                    exposed.add(unit.job.uid)
                break
        else:
            covered[unit] = None
            left = list(map(sub, left, unit.size))
    return covered.keys()
