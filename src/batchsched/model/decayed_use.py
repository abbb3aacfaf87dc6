"""Decayed use: past use of resources, where older use counts less."""

from __future__ import annotations

from math import expm1, log

from batchsched.model.resources import Amount, Resource

__all__ = ["decayed"]

_LN_2 = log(2)


def decayed(usage: Resource, held: Resource, seconds: float, *, half_life: float) -> Resource:
    """Return the decayed use after an amount has been held for some more seconds.

    Use of a given age counts ``0.5 ** (age / half_life)`` times. If U is the use so far and A is
    held from then on, the result is ``U * d + A * (half_life / ln 2) * (1 - d)`` with ``d = 2 **
    (-seconds / half_life)``. This is exact, so the result does not depend on the number of steps
    in which it is computed, except for float rounding. The use halves in each half-life in which
    nothing is held, and tends to ``A * half_life / ln 2``.

    Args:
        usage: the use so far, in units of each dimension times seconds.
        held: what is held all the time.
        seconds: for how long it is held, 0 or more.
        half_life: the time after which past use counts half, in seconds.

    Raises:
        ValueError: `seconds` is negative, or `half_life` is not positive.

    >>> used = decayed(Resource(), Resource(milli_cpu=4000), 3600, half_life=3600)
    >>> round(used.milli_cpu / 4000)
    2597
    >>> round(decayed(used, Resource(), 3600, half_life=3600).milli_cpu / 4000, 1)
    1298.4
    """
    if not seconds >= 0:
        raise ValueError(f"seconds: expected 0 or more, got {seconds!r}")
    if not half_life > 0:
        raise ValueError(f"half_life: expected more than 0 seconds, got {half_life!r}")
    if not seconds:
        return usage
    half_lives = seconds / half_life
    left: float = 2.0**-half_lives
    counted = half_life / _LN_2 * -expm1(-_LN_2 * half_lives)

    def after(before: Amount, amount: Amount) -> Amount:
        return before * left + amount * counted if before or amount else 0

    scalars = {*usage.scalars, *held.scalars}
    return Resource(
        milli_cpu=after(usage.milli_cpu, held.milli_cpu),
        memory=after(usage.memory, held.memory),
        scalars={
            name: after(usage.scalars.get(name, 0), held.scalars.get(name, 0))
            for name in sorted(scalars)
        },
    )
