"""Formats amounts of resources with units."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

__all__ = ["amount_text", "amounts_text", "is_in_bytes"]

Amount = int | float | Fraction

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP = 1024


def is_in_bytes(dimension: str, /) -> bool:
    """Return whether a dimension is counted in bytes: memory, ephemeral storage, huge pages."""
    return dimension in ("memory", "ephemeral-storage") or dimension.startswith("hugepages-")


def amount_text(dimension: str, amount: Amount, /) -> str:
    """Return an amount of a dimension with its unit.

    `amount` is in the unit of a `Resource`: bytes of memory, otherwise thousandths.

    >>> amount_text("cpu", 1500), amount_text("nvidia.com/gpu", 2000)
    ('1.5 cpu', '2 nvidia.com/gpu')
    >>> amount_text("memory", 3 << 29), amount_text("ephemeral-storage", 5 * 2**30 * 1000)
    ('1.5 GiB memory', '5 GiB ephemeral-storage')
    """
    units = Fraction(amount) if dimension == "memory" else Fraction(amount) / 1000
    if not is_in_bytes(dimension):
        return f"{_number(units)} {dimension}"
    power = 0
    while abs(units) >= _STEP and power < len(_BINARY) - 1:
        units /= _STEP
        power += 1
    return f"{_number(units)} {_BINARY[power]} {dimension}"


def amounts_text(amounts: Iterable[tuple[str, Amount]], /) -> str:
    """Return amounts by dimension in one line, without those that are 0.

    >>> amounts_text([("cpu", 2000), ("memory", 0), ("nvidia.com/gpu", 1000)]), amounts_text([])
    ('2 cpu, 1 nvidia.com/gpu', 'nothing')
    """
    return ", ".join(amount_text(name, amount) for name, amount in amounts if amount) or "nothing"


def _number(amount: Amount) -> str:
    """Return a number with at most three decimals; ``<0.001`` for smaller amounts above 0."""
    rounded = round(float(amount), 3)
    if not rounded and amount:
        return "<0.001" if amount > 0 else ">-0.001"
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)
