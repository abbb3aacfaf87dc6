"""Random numbers that are the same on every machine and in every version of Python.

Source: the generator SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
Generators", OOPSLA 2014); Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables",
2000.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import chain
from math import log, sqrt

_MASK = (1 << 64) - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class RandomNumbers:
    """A stream of random numbers that depends on its seed alone.

    >>> numbers = RandomNumbers(1)
    >>> numbers.below(6), numbers.below(6)
    (5, 1)
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """Return 64 random bits, as a number."""
        self._state = mixed = (self._state + _STEP) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * _FIRST) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * _SECOND) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, limit: int) -> int:
        """Return a whole number from 0 (included) to `limit` (excluded), each equally likely."""
        # Reject the incomplete block at the end of the range, which would bias the result.
        fair = (1 << 64) - (1 << 64) % limit
        while True:
            drawn = self.bits()
            if drawn < fair:
                return drawn % limit


Draw = Callable[[], float]
"""Returns another number from 0 (included) to 1 (excluded), uniformly distributed, each time."""

_AT_ONCE = 256
_ONES = sum(1 << 128 * place for place in range(_AT_ONCE))
_STEPS = sum(((place + 1) * _STEP & _MASK) << 128 * place for place in range(_AT_ONCE))
_LOW = _ONES * _MASK
_LOWEST_53 = _ONES * ((1 << 53) - 1)
_SIDE_BY_SIDE = struct.Struct("<" + _AT_ONCE * "Q8x")


def uniform(seed: int) -> Draw:
    """Return what draws numbers from 0 to 1: the highest bits of `RandomNumbers`.

    256 are made at once, side by side in one large number, 128 bits apart, since that is the room
    that a product takes: so each costs a third. A million made-up jobs take 14 million of them.

    >>> draw = uniform(1)
    >>> round(draw(), 3), round(draw(), 3)
    (0.567, 0.746)
    """

    def some() -> Iterator[list[float]]:
        state = seed & _MASK
        while True:
            mixed = (state * _ONES + _STEPS) & _LOW
            mixed = ((mixed ^ (mixed >> 30)) & _LOW) * _FIRST & _LOW
            mixed = ((mixed ^ (mixed >> 27)) & _LOW) * _SECOND & _LOW
            highest = ((mixed ^ (mixed >> 31)) >> 11) & _LOWEST_53
            numbers = _SIDE_BY_SIDE.unpack(highest.to_bytes(16 * _AT_ONCE, "little"))
            yield [number * 2.0**-53 for number in numbers]
            state = (state + _AT_ONCE * _STEP) & _MASK

    return chain.from_iterable(some()).__next__


def exponential(draw: Draw, mean: float) -> float:
    """Return a number drawn from the exponential distribution."""
    return -mean * log(1 - draw())


def gamma(draw: Draw, shape: float, scale: float) -> Draw:
    """Return what draws numbers from the gamma distribution, whose mean is shape times scale.

    Args:
        draw: draws numbers from 0 to 1.
        shape: the shape, 1 or more.
        scale: the scale.

    """
    d = shape - 1 / 3
    c = 1 / sqrt(9 * d)

    def number() -> float:
        while True:
            # A number from the standard normal distribution, by the polar method.
            x = 2 * draw() - 1
            y = 2 * draw() - 1
            square = x * x + y * y
            if not 0 < square < 1:
                continue
            x *= sqrt(-2 * log(square) / square)
            v = (1 + c * x) ** 3
            if v > 0 and log(1 - draw()) < x * x / 2 + d - d * v + d * log(v):
                return d * v * scale

    return number
