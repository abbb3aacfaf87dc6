"""Divides an amount by weight, up to a cap for each: exact in integers.

Water-filling, as for max-min fairness: Bertsekas and Gallager, "Data Networks" (2nd edition,
1992), section 6.5.2; with weights as in Parekh and Gallager's generalised processor sharing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from itertools import pairwise

__all__ = ["fill"]


def fill(amount: int, caps: Sequence[int], weights: Sequence[int]) -> tuple[list[int], int]:
    """Divide an amount by weight, without exceeding the caps.

    There is one level for all: each gets ``level * weight``, rounded down, or its cap, whichever
    is less. A weight of 0 gets nothing.

    Args:
        amount: the amount to divide, 0 or more.
        caps: the most that each may get, 0 or more.
        weights: the weight of each, 0 or more; as many as there are caps.

    Returns:
        The parts, and the remainder. If any part with a weight is below its cap, the remainder is
        0: the rounding loss, less than one unit for each such part, is not assigned.

    O(n log n); O(n) if there is enough for all.

    >>> fill(10, [2, 8, 8], [1, 1, 2])
    ([2, 2, 5], 0)
    >>> fill(10, [2, 3, 8], [1, 1, 0])
    ([2, 3, 0], 5)

    """
    given = [cap if weight else 0 for cap, weight in zip(caps, weights, strict=True)]
    wanted = sum(given)
    if wanted <= amount:
        return given, amount - wanted
    takers = [position for position, cap in enumerate(given) if cap]
    _sort_by_level(takers, caps, weights)
    left = amount
    weight_left = sum(weights[position] for position in takers)
    count = len(takers)
    step = 0
    while step < count:
        position = takers[step]
        if caps[position] * weight_left > left * weights[position]:
            break
        left -= caps[position]
        weight_left -= weights[position]
        step += 1
    for position in takers[step:]:
        given[position] = left * weights[position] // weight_left
    return given, 0


def _sort_by_level(takers: list[int], caps: Sequence[int], weights: Sequence[int]) -> None:
    """Sort by the level at which each reaches its cap. The order is exact."""
    # Quotients of integers are rounded correctly, so they are in the right order or equal.
    levels = {position: caps[position] / weights[position] for position in takers}

    def compare(left: int, right: int) -> int:
        return caps[left] * weights[right] - caps[right] * weights[left]

    takers.sort(key=levels.__getitem__)
    if any(levels[a] == levels[b] and compare(a, b) > 0 for a, b in pairwise(takers)):
        takers.sort(key=cmp_to_key(compare))
