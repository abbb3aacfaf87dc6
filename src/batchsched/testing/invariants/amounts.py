"""Exact amounts by dimension, and their comparison.

Written independently, so that a mistake in the library's own arithmetic is not repeated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from batchsched.model.resources import Resource

EPS = Fraction(1, 10)
"""Amounts that differ by less than this count as equal."""

Number = int | Fraction
"""An exact number."""

Amounts = dict[str, Number]
"""Amounts by dimension: ``cpu``, ``memory`` and scalars; missing ones are 0."""


def exact(amount: float) -> Number:
    """Return the exact value of an amount."""
    return amount if isinstance(amount, int) else Fraction(amount)


def of(resource: Resource) -> Amounts:
    """Return the amounts of a resource."""
    amounts = {"cpu": exact(resource.milli_cpu), "memory": exact(resource.memory)}
    for name, amount in resource.scalars.items():
        amounts[name] = exact(amount)
    return amounts


def add(left: Amounts, right: Amounts) -> Amounts:
    """Return the sum."""
    return {name: left.get(name, 0) + right.get(name, 0) for name in left | right}


def larger_of(left: Amounts, right: Amounts) -> Amounts:
    """Return the larger amount of both in each dimension."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in left | right}


def sub(left: Amounts, right: Amounts) -> Amounts:
    """Return the difference, which may be negative."""
    return {name: left.get(name, 0) - right.get(name, 0) for name in left | right}


def total(parts: Iterable[Amounts]) -> Amounts:
    """Return the sum of all."""
    result: Amounts = {}
    for part in parts:
        result = add(result, part)
    return result


def wanting(request: Amounts, capacity: Amounts) -> Iterator[str]:
    """Yield the dimensions in which a request does not fit, by name."""
    for name in sorted(request.keys() | capacity.keys()):
        wanted = request.get(name, 0)
        if wanted >= EPS and wanted - capacity.get(name, 0) >= EPS:
            yield name


def fits(request: Amounts, capacity: Amounts) -> bool:
    """Return whether a request fits in every dimension."""
    return next(wanting(request, capacity), None) is None


def is_nothing(amounts: Amounts) -> bool:
    """Return whether all amounts count as 0."""
    return all(amount < EPS for amount in amounts.values())


def shown(amounts: Amounts) -> str:
    """Format amounts for a message, without those that are 0."""
    parts = [f"{_number(amount)} {name}" for name, amount in sorted(amounts.items()) if amount]
    return ", ".join(parts) or "nothing"


def _number(amount: Number) -> str:
    return str(amount) if amount.denominator == 1 else f"{float(amount):.6g}"
