"""Decayed use: what was held in the past, of which the older counts less."""

from __future__ import annotations

from math import expm1, log

from batchsched.model.resources import Amount, Resource

__all__ = ["decayed"]

_LN_2 = log(2)


def decayed(usage: Resource, held: Resource, seconds: float, *, half_life: float) -> Resource:
    """Return what decayed use comes to when the same has been held for some more seconds.

    What was held an age ago counts ``0.5 ** (age / half_life)`` times. With U so far and A held
    from then on this is ``U * d + A * (half_life / ln 2) * (1 - d)``, d being
    ``2 ** (-seconds / half_life)``: exact, and so independent of how often it is asked for, but
    for the rounding of floats. It halves in each half-life in which nothing is held, and tends to
    ``A * half_life / ln 2``.

    Args:
        usage: the use so far, in units of each dimension times seconds.
        held: what is held throughout.
        seconds: for how long, 0 or more.
        half_life: in how many seconds what was held comes to count half.

    Raises:
        ValueError: `seconds` are negative, or `half_life` is not more than 0.

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
