"""Resources: vectors of cpu, memory and named scalars, and the quantities that they are read from.

Units are thousandths of a cpu, bytes, and thousandths of a scalar (``{"nvidia.com/gpu": 1000}``
is one device). What tasks request, nodes have and queues are granted are whole numbers of these,
so that sums are exact; `batchsched.Snapshot` rejects others. Past use and computed shares may be
any numbers.

Quantities are those of Kubernetes (`250m`, `1Gi`, `2e3`), with the notation and the rounding of its
``resource.Quantity``. Values are exact, without binary floats. Where Kubernetes caps at
``2**63 - 1``, overflows, or rounds up to a billionth, the exact value is returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from math import expm1, log
from operator import add, sub
from sys import float_info

from attrs import field, frozen

from batchsched.errors import ArgumentError, Fault, QuantityError, ResourceError
from batchsched.model.immutable import EMPTY, AsMap
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


Amount = int | float
"""A quantity of one dimension, in its unit: whole, except for past use and computed shares."""

_GPU = "nvidia.com/gpu"
EPSILON = 0.1
"""Two amounts that differ by less than this, in a dimension's unit, are the same amount."""


def exact(amount: Amount, /) -> int:
    """Return a whole amount, such as 5 or 5.0, as an integer.

    Exact sums do not depend on the order of their terms, and subtracting all terms leaves 0;
    neither is true of floats.
    """
    return amount if type(amount) is int else int(amount)


@frozen(eq=False, kw_only=True)
class Resource:
    """An amount of cpu, memory and named scalars.

    A scalar that is not named is 0 in every operation, so that
    ``Resource(scalars={"nvidia.com/gpu": 0}) == Resource()``.
    Nothing is checked here: `batchsched.Snapshot` rejects negative amounts, amounts that are not
    numbers, and those that are not whole.

    >>> task = Resource(milli_cpu=500, memory=4 << 30, scalars={"nvidia.com/gpu": 1000})
    >>> node = Resource(milli_cpu=8000, memory=64 << 30, scalars={"nvidia.com/gpu": 2000})
    >>> task.fits(node)
    True
    >>> node - task
    Resource(milli_cpu=7500, memory=64424509440, scalars={'nvidia.com/gpu': 1000})
    """

    milli_cpu: Amount = 0
    """Thousandths of a cpu."""
    memory: Amount = 0
    """Bytes."""
    scalars: Mapping[str, Amount] = field(default=EMPTY, converter=AsMap[str, Amount])
    """Thousandths of each named scalar resource."""

    @classmethod
    def of(
        cls,
        *,
        cpu: str | float = 0,
        memory: str | float = 0,
        gpu: str | float = 0,
        **scalars: str | float,
    ) -> Resource:
        """Return amounts that are given in whole units: cpus, bytes, devices.

        Each may be a number, or a Kubernetes quantity such as ``"250m"`` or ``"8Gi"``; what is no
        whole number of thousandths (of memory: of bytes) is rounded up. `gpu` stands for
        ``nvidia.com/gpu``; other scalars are given under their own names.

        Raises:
            ArgumentError: an amount is negative or no quantity, or a scalar has a name without
                ``/`` or ``-``, such as ``gpus``; it lists every fault.

        >>> Resource.of(cpu=2, memory="8Gi", gpu=1, **{"example.com/license": 3})
        Resource(milli_cpu=2000, memory=8589934592, scalars={'example.com/license': 3000, \
'nvidia.com/gpu': 1000})
        >>> Resource.of(cpus=4)
        Traceback (most recent call last):
        ...
        batchsched.errors.ArgumentError: cpus: expected cpu, memory, gpu or the full name of a \
resource, such as example.com/license

        """
        faults: list[Fault] = []
        amounts: dict[str, int] = {}
        for name, given in {"cpu": cpu, "memory": memory, "gpu": gpu, **scalars}.items():
            if name in scalars and not ("/" in name or "-" in name):
                message = "expected cpu, memory, gpu or the full name of a resource, such as "
                faults.append(Fault(name, f"{message}example.com/license"))
                continue
            try:
                amount = value(given) if name == "memory" else milli_value(given)
            except QuantityError as error:
                faults.append(Fault(name, str(error)))
                continue
            if amount < 0:
                faults.append(Fault(name, f"expected 0 or more, got {given}"))
            full_name = _GPU if name == "gpu" else name
            if amounts.get(full_name):
                faults.append(Fault(full_name, "expected it once: gpu stands for it too"))
            amounts[full_name] = amount
        if faults:
            raise ArgumentError(faults)
        milli_cpu, of_memory = amounts.pop("cpu"), amounts.pop("memory")
        named = {name: amount for name, amount in amounts.items() if amount}
        return cls(milli_cpu=milli_cpu, memory=of_memory, scalars=named)

    def dimensions(self) -> Iterator[tuple[str, Amount]]:
        """Yield every dimension's name and amount: ``cpu``, ``memory``, then scalars by name."""
        yield "cpu", self.milli_cpu
        yield "memory", self.memory
        for name in sorted(self.scalars):
            yield name, self.scalars[name]

    def get(self, dimension: str, /) -> Amount:
        """Return the amount of ``cpu``, ``memory`` or a scalar; 0 for a scalar not named."""
        if dimension == "cpu":
            return self.milli_cpu
        if dimension == "memory":
            return self.memory
        return self.scalars.get(dimension, 0)

    def fits(self, capacity: Resource, /) -> bool:
        """Return whether no dimension exceeds `capacity` by `EPSILON` or more. O(dimensions).

        A dimension with less than `EPSILON` is ignored, even where `capacity` has a negative
        amount of it.

        >>> Resource(milli_cpu=500).fits(Resource(milli_cpu=500, memory=-1))
        True
        """
        if self.milli_cpu >= EPSILON and self.milli_cpu - capacity.milli_cpu >= EPSILON:
            return False
        if self.memory >= EPSILON and self.memory - capacity.memory >= EPSILON:
            return False
        if self.scalars:
            theirs = capacity.scalars
            for name, amount in self.scalars.items():
                if amount >= EPSILON and amount - theirs.get(name, 0) >= EPSILON:
                    return False
        return True

    def __le__(self, other: Resource) -> bool:
        return self.fits(other) if _is_resource(other) else NotImplemented

    def __ge__(self, other: Resource) -> bool:
        return other.fits(self) if _is_resource(other) else NotImplemented

    def is_empty(self) -> bool:
        """Return whether every dimension is less than `EPSILON`.

        >>> Resource(milli_cpu=0.05).is_empty(), Resource(memory=1).is_empty()
        (True, False)
        """
        return (
            self.milli_cpu < EPSILON
            and self.memory < EPSILON
            and all(amount < EPSILON for amount in self.scalars.values())
        )

    def __add__(self, other: Resource) -> Resource:
        if not _is_resource(other):
            return NotImplemented
        return Resource(
            milli_cpu=self.milli_cpu + other.milli_cpu,
            memory=self.memory + other.memory,
            scalars=_each_scalar(add, self.scalars, other.scalars),
        )

    def __sub__(self, other: Resource) -> Resource:
        """Return what is left.

        Raises:
            ResourceError: the result would be below ``-EPSILON`` in the dimensions that it names.

        >>> Resource(milli_cpu=5) - Resource(milli_cpu=6, memory=7)
        Traceback (most recent call last):
        ...
        batchsched.errors.ResourceError: cannot take 6 of cpu from 5, 7 of memory from 0

        """
        if not _is_resource(other):
            return NotImplemented
        left = Resource(
            milli_cpu=self.milli_cpu - other.milli_cpu,
            memory=self.memory - other.memory,
            scalars=_each_scalar(sub, self.scalars, other.scalars),
        )
        if (
            left.milli_cpu < -EPSILON
            or left.memory < -EPSILON
            or (left.scalars and min(left.scalars.values()) < -EPSILON)
        ):
            short = ", ".join(
                f"{other.get(name)} of {name} from {self.get(name)}"
                for name, amount in left.dimensions()
                if amount < -EPSILON
            )
            raise ResourceError(f"cannot take {short}")
        return left

    def __mul__(self, factor: Amount) -> Resource:
        if not _is_amount(factor):
            return NotImplemented
        return Resource(
            milli_cpu=self.milli_cpu * factor,
            memory=self.memory * factor,
            scalars={name: amount * factor for name, amount in self.scalars.items()},
        )

    __rmul__ = __mul__

    def max_with(self, other: Resource, /) -> Resource:
        """Return the maximum of both in each dimension.

        >>> Resource(milli_cpu=100, memory=8).max_with(Resource(milli_cpu=250))
        Resource(milli_cpu=250, memory=8)
        """
        return Resource(
            milli_cpu=max(self.milli_cpu, other.milli_cpu),
            memory=max(self.memory, other.memory),
            scalars=_each_scalar(max, self.scalars, other.scalars),
        )

    def min_with(self, other: Resource, /) -> Resource:
        """Return the minimum of both in each dimension."""
        return Resource(
            milli_cpu=min(self.milli_cpu, other.milli_cpu),
            memory=min(self.memory, other.memory),
            scalars=_each_scalar(min, self.scalars, other.scalars),
        )

    def _named(self) -> frozenset[tuple[str, Amount]]:
        scalars = self.scalars
        if all(scalars.values()):
            return frozenset(scalars.items())
        return frozenset([(name, amount) for name, amount in scalars.items() if amount])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resource):
            return NotImplemented
        return (
            self.milli_cpu == other.milli_cpu
            and self.memory == other.memory
            and (self.scalars == other.scalars or self._named() == other._named())
        )

    def __hash__(self) -> int:
        return hash((self.milli_cpu, self.memory, self._named() if self.scalars else _NONE_NAMED))

    def __repr__(self) -> str:
        parts = [f"milli_cpu={self.milli_cpu!r}", f"memory={self.memory!r}"]
        if self.scalars:
            parts.append(f"scalars={self._shown_scalars()}")
        return f"Resource({', '.join(parts)})"

    def _shown_scalars(self) -> str:
        try:
            return repr(dict(sorted(self.scalars.items())))
        except (AttributeError, TypeError):  # not a mapping, or keys that are not strings
            return repr(self.scalars)


def _is_resource(value: object) -> bool:
    return isinstance(value, Resource)


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float))


_NONE_NAMED: frozenset[tuple[str, Amount]] = frozenset()


def _each_scalar(
    operation: Callable[[Amount, Amount], Amount],
    left: Mapping[str, Amount],
    right: Mapping[str, Amount],
) -> Mapping[str, Amount]:
    if not left and not right:
        return EMPTY
    result = {name: operation(amount, right.get(name, 0)) for name, amount in left.items()}
    for name, amount in right.items():
        if name not in left:
            result[name] = operation(0, amount)
    return result


def sum_resources(resources: Iterable[Resource], /) -> Resource:
    """Return the sum of all `resources`, an empty one if there are none.

    Raises:
        ArgumentError: they are no resources with numbers, or the iterable raised.

    >>> sum_resources([Resource(milli_cpu=1), Resource(milli_cpu=2, memory=3)])
    Resource(milli_cpu=3, memory=3)
    """
    milli_cpu: Amount = 0
    memory: Amount = 0
    scalars: dict[str, Amount] = {}
    try:
        for resource in resources:
            milli_cpu += resource.milli_cpu
            memory += resource.memory
            for name, amount in resource.scalars.items():
                scalars[name] = scalars.get(name, 0) + amount
    except Exception as cause:
        message = f"expected valid Resources, got others: {type(cause).__name__}"
        raise ArgumentError.at("resources", message) from cause
    return Resource(milli_cpu=milli_cpu, memory=memory, scalars=scalars)


@frozen(kw_only=True)
class ResourceLimit:
    """The most of each dimension; a dimension that is not named is unlimited.

    A `batchsched.Resource` cannot express this: a dimension that it does not name is 0,
    so 4 cpus would allow no memory.

    >>> limit = ResourceLimit(milli_cpu=4000, scalars={"nvidia.com/gpu": 2000})
    >>> limit.get("cpu"), limit.get("memory"), limit.get("nvidia.com/gpu")
    (4000, None, 2000)
    """

    milli_cpu: Amount | None = None
    """Thousandths of a cpu; None: unlimited."""
    memory: Amount | None = None
    """Bytes; None: unlimited."""
    scalars: Mapping[str, Amount] = field(default=EMPTY, converter=AsMap[str, Amount])
    """Thousandths of each named scalar; a scalar that is not named is unlimited."""

    def get(self, dimension: str, /) -> Amount | None:
        """Return the limit of ``cpu``, ``memory`` or a scalar; None: unlimited."""
        if dimension == "cpu":
            return self.milli_cpu
        if dimension == "memory":
            return self.memory
        return self.scalars.get(dimension)

    def dimensions(self) -> Iterator[tuple[str, Amount]]:
        """Yield the name and the amount of every dimension that is limited."""
        if self.milli_cpu is not None:
            yield "cpu", self.milli_cpu
        if self.memory is not None:
            yield "memory", self.memory
        for name in sorted(self.scalars):
            yield name, self.scalars[name]


_LN_2 = log(2)


def _number_text(given: object) -> str:
    # Long integers have no text, and what is no number may have none.
    is_short = type(given) is float or (type(given) is int and -(1 << 64) < given < 1 << 64)
    return repr(given) if is_short else type(given).__name__


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
        ArgumentError: `seconds` is negative, `half_life` is not positive, or an argument has the
            wrong type; all faults at once.

    >>> used = decayed(Resource(), Resource(milli_cpu=4000), 3600, half_life=3600)
    >>> round(used.milli_cpu / 4000)
    2597
    >>> round(decayed(used, Resource(), 3600, half_life=3600).milli_cpu / 4000, 1)
    1298.4
    """
    faults = [
        Fault(name, f"expected a Resource, got {type(given).__name__}")
        for name, given in (("usage", usage), ("held", held))
        if type(given) is not Resource
    ]
    if type(seconds) not in (int, float) or not 0 <= seconds <= float_info.max:
        faults.append(Fault("seconds", f"expected 0 or more, got {_number_text(seconds)}"))
    if type(half_life) not in (int, float) or not 0 < half_life <= float_info.max:
        text = _number_text(half_life)
        faults.append(Fault("half_life", f"expected more than 0 seconds, got {text}"))
    if faults:
        raise ArgumentError(faults)
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
