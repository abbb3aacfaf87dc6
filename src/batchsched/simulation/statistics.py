"""Summary statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, fsum, lgamma, log, sqrt

__all__ = ["confidence_interval", "jain_index", "mean", "quantile"]


def mean(numbers: Sequence[float]) -> float:
    """Return the mean; 0 if there are no numbers."""
    return fsum(numbers) / len(numbers) if numbers else 0.0


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted numbers, interpolated between neighbours.

    >>> quantile([0, 10, 20, 30], 0.5)
    15.0
    """
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def jain_index(numbers: Iterable[float]) -> float:
    """Return Jain's index of fairness: 1 if all are equal, 1 / n if one of n has everything.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource
    Allocation in Shared Computer Systems", DEC-TR-301, 1984.

    >>> jain_index([1, 1, 0, 0])
    0.5
    """
    listed = list(numbers)
    squares = fsum(number * number for number in listed)
    return fsum(listed) ** 2 / (len(listed) * squares) if squares else 1.0


def confidence_interval(numbers: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of the mean, by Student's t distribution.

    It contains the true mean with probability `level`, if the numbers are independent and their
    mean is approximately normal. Needs two numbers or more.

    >>> low, high = confidence_interval([9.0, 10.0, 11.0])
    >>> round(low, 3), round(high, 3)
    (7.516, 12.484)
    """
    count = len(numbers)
    if count < 2:  # noqa: PLR2004
        raise ValueError(f"expected 2 numbers or more, got {count}")
    middle = mean(numbers)
    variance = fsum((number - middle) ** 2 for number in numbers) / (count - 1)
    reach = _t_quantile((1 + level) / 2, count - 1) * sqrt(variance / count)
    return middle - reach, middle + reach


def _t_quantile(probability: float, freedom: int) -> float:
    low, high = 0.0, 1.0
    while _t_distribution(high, freedom) < probability:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _t_distribution(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_distribution(t: float, freedom: int) -> float:
    return 1 - _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x)) / a
    tiny = 1e-300
    fraction, c, d = 1.0, 1.0, 0.0
    for step in range(1000):
        half = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / (1 + term * d or tiny)
        c = 1 + term / c or tiny
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:  # noqa: PLR2004
            break
    return front * (fraction - 1)
