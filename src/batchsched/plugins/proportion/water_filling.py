"""Water-filling: what queues deserve by weight, limited by their requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import compress
from operator import add, sub

from batchsched.model.resources import EPSILON
from batchsched.state.vectors import is_empty

__all__ = ["Amounts", "water_fill"]

Amounts = tuple[float, ...]
"""Amounts by dimension, which may be fractional."""


def water_fill(
    total: Sequence[float],
    weights: Mapping[str, int],
    requests: Mapping[str, Sequence[float]],
) -> dict[str, Amounts]:
    """Return what each queue deserves of `total`, by name.

    In each round the remainder is divided by weight, in order of name. A queue whose
    request is met keeps the smaller of share and request in each dimension. A queue may
    deserve more than it requests in one dimension while it is short in another.
    Weights are 0 or more; O(queues) rounds of O(queues x dimensions).

    >>> water_fill((100,), {"a": 1, "b": 1}, {"a": (10,), "b": (500,)})
    {'a': (10,), 'b': (90.0,)}
    """
    remaining: Amounts = tuple(total)
    names = sorted(weights)
    deserved: dict[str, Amounts] = dict.fromkeys(names, (0,) * len(remaining))
    # The critical loop with thousands of queues: a list for each dimension, with an amount for
    # each queue that is still unmet.
    unmet: list[str] = names
    shares = [weights[name] for name in unmet]
    had: list[list[float]] = [[0] * len(unmet) for _ in remaining]
    wanted = [list(column) for column in zip(*[requests[name] for name in unmet], strict=True)]
    while unmet and not is_empty(remaining):
        all_weights = sum(shares)
        if not all_weights:
            break  # the remaining queues have no weight
        ratios = [weight / all_weights for weight in shares]
        short = [False] * len(unmet)
        dealt: list[list[float]] = []
        for left, before, asked in zip(remaining, had, wanted, strict=True):
            there = [old + left * ratio for old, ratio in zip(before, ratios, strict=True)]
            dealt.append(there)
            lacks = [want - now >= EPSILON for want, now in zip(asked, there, strict=True)]
            short = [one or other for one, other in zip(short, lacks, strict=True)]
        now_left: list[float] = []
        for position, left in enumerate(remaining):
            kept = [
                there if lacks or there <= want else want
                for there, lacks, want in zip(dealt[position], short, wanted[position], strict=True)
            ]
            changes = list(map(sub, kept, had[position]))
            more = reduce(add, [change for change in changes if change > 0], 0)
            less = reduce(add, [-change for change in changes if change < 0], 0)
            now_left.append(left - more + less)
            had[position] = kept
        deserved.update(zip(unmet, zip(*had, strict=True), strict=True))
        if all(short):
            # Everything has been divided. With large amounts, a rounding error too small to
            # change any share could otherwise remain for ever.
            break
        remaining = tuple(now_left)
        unmet = list(compress(unmet, short))
        shares = list(compress(shares, short))
        had = [list(compress(column, short)) for column in had]
        wanted = [list(compress(column, short)) for column in wanted]
    return deserved
