"""Parses Kubernetes quantities: `250m`, `1Gi`, `2e3`.

The notation and the rounding are those of Kubernetes' ``resource.Quantity``. Values are
exact, without binary floats. Where Kubernetes caps at ``2**63 - 1``, overflows, or rounds up to a
billionth, the exact value is returned.
"""

from __future__ import annotations

import re
from fractions import Fraction

from batchsched.errors import QuantityError
from batchsched.model.validation.values import is_text, shown

QuantityInput = str | int | float
"""The accepted types of a quantity: a string, or a number as read from YAML or JSON."""

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)"
)

_FACTORS: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}

_LARGEST_EXPONENT = 64
"""Limits the cost of parsing; the largest amount in Kubernetes, 2**63 - 1, has 19 digits."""
_LONGEST = 128

_NOTATION = (
    "a quantity is a number with an optional suffix "
    "(n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei) or exponent, such as 250m, 1Gi, 0.5 or 2e3"
)


def parse_quantity(quantity: QuantityInput, /) -> Fraction:
    """Return the exact value of `quantity`, in its unit (cpus, bytes, devices).

    A float has the value of its shortest decimal form: ``0.1`` is one tenth. O(digits).

    Raises:
        QuantityError: `quantity` is not a number in Kubernetes' notation, is not finite, or has
            a decimal exponent outside -64..64.

    >>> parse_quantity("250m"), parse_quantity(0.1), parse_quantity("1E"), parse_quantity("1E3")
    (Fraction(1, 4), Fraction(1, 10), Fraction(1000000000000000000, 1), Fraction(1000, 1))
    >>> parse_quantity("1.5Gi") == 3 * 2**29
    True
    >>> parse_quantity("1 Gi")
    Traceback (most recent call last):
    ...
    batchsched.errors.QuantityError: expected a quantity, got '1 Gi'; a quantity is a number with \
an optional suffix (n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei) or exponent, such as 250m, \
1Gi, 0.5 or 2e3

    """
    if is_text(quantity):
        return _parse_text(quantity)
    if type(quantity) is int:
        return Fraction(quantity)
    if type(quantity) is float:
        # The shortest decimal that reads as this float is what the user wrote. "nan" and "inf"
        # are not quantities and are rejected.
        return _parse_text(repr(quantity))
    raise QuantityError(f"expected a quantity, got {shown(quantity)}; {_NOTATION}")


def milli_value(quantity: QuantityInput, /) -> int:
    """Return `quantity` in thousandths, rounded away from zero like ``Quantity.MilliValue()``.

    Raises:
        QuantityError: as `parse_quantity`.

    >>> milli_value("250m"), milli_value(2), milli_value("100u"), milli_value("-100u")
    (250, 2000, 1, -1)

    """
    return _away_from_zero(parse_quantity(quantity) * 1000)


def value(quantity: QuantityInput, /) -> int:
    """Return `quantity` in its unit, rounded away from zero like ``Quantity.Value()``.

    Raises:
        QuantityError: as `parse_quantity`.

    >>> value("1Ki"), value("250m"), value("2e3")
    (1024, 1, 2000)

    """
    return _away_from_zero(parse_quantity(quantity))


def _parse_text(text: str) -> Fraction:
    if not text:
        raise QuantityError("expected a quantity, got an empty string; use 0 for nothing")
    if len(text) > _LONGEST:
        raise QuantityError(f"expected at most {_LONGEST} characters, got {len(text)}")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(f"expected a quantity, got {shown(text)}; {_NOTATION}")
    part = match["part"] or match["only_part"] or ""
    digits = int((match["whole"] or "") + part)
    if match["sign"] == "-":
        digits = -digits
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > _LARGEST_EXPONENT:
        raise QuantityError(
            f"expected an exponent in -{_LARGEST_EXPONENT}..{_LARGEST_EXPONENT}, "
            f"got {exponent} in {text!r}"
        )
    exponent -= len(part)
    number = Fraction(digits * 10**exponent) if exponent >= 0 else Fraction(digits, 10**-exponent)
    return number * _FACTORS[match["suffix"]] if match["suffix"] else number


def _away_from_zero(number: Fraction) -> int:
    rounded_up = -(-abs(number.numerator) // number.denominator)
    return rounded_up if number >= 0 else -rounded_up
