"""Formats amounts of resources for messages, in customary units."""

from __future__ import annotations

__all__ = ["shown_amount"]

_UNITS = ((1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def shown_amount(dimension: str, amount: float, /) -> str:
    """Return an amount of a dimension as text: in cpus or devices, or in bytes with a prefix.

    >>> shown_amount("cpu", 2500), shown_amount("memory", 3 << 29), shown_amount("gpu", 8000)
    ('2.5', '1.5 GiB', '8')
    """
    if dimension != "memory":
        return _short(amount / 1000)
    for size, name in _UNITS:
        if abs(amount) >= size:
            return f"{_short(amount / size)} {name}"
    return f"{_short(amount)} B"


def _short(amount: float) -> str:
    text = f"{amount:.3f}".rstrip("0").rstrip(".")
    return text if text not in ("-0", "") else "0"
