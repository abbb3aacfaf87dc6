"""Random numbers that are the same on every machine and in every version of Python.

Source: the generator SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
Generators", OOPSLA 2014); Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables",
2000.
"""

from __future__ import annotations

from math import exp, log, sqrt

_MASK = (1 << 64) - 1


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
        self._state = mixed = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def uniform(self) -> float:
        """Return a number from 0 (included) to 1 (excluded), uniformly distributed."""
        # As `bits`: nearly all that is drawn is drawn here, and a call costs as much as the rest.
        self._state = mixed = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 11) / (1 << 53)

    def below(self, limit: int) -> int:
        """Return a whole number from 0 (included) to `limit` (excluded), each equally likely."""
        # Reject the incomplete block at the end of the range, which would bias the result.
        fair = (1 << 64) - (1 << 64) % limit
        while True:
            drawn = self.bits()
            if drawn < fair:
                return drawn % limit

    def exponential(self, mean: float) -> float:
        """Return a number drawn from the exponential distribution."""
        return -mean * log(1 - self.uniform())

    def normal(self) -> float:
        """Return a number drawn from the standard normal distribution (polar method)."""
        while True:
            x = 2 * self.uniform() - 1
            y = 2 * self.uniform() - 1
            square = x * x + y * y
            if 0 < square < 1:
                return x * sqrt(-2 * log(square) / square)

    def gamma(self, shape: float, scale: float) -> float:
        """Return a number drawn from the gamma distribution, whose mean is shape times scale."""
        if shape < 1:
            return self.gamma(shape + 1, scale) * exp(log(1 - self.uniform()) / shape)
        d = shape - 1 / 3
        c = 1 / sqrt(9 * d)
        while True:
            x = self.normal()
            v = (1 + c * x) ** 3
            if v > 0 and log(1 - self.uniform()) < x * x / 2 + d - d * v + d * log(v):
                return d * v * scale
