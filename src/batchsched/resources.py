"""Resources: vectors of cpu, memory and named scalars, and their arithmetic.

Specification: section 2. Units are exact: thousandths of a cpu, bytes, and
thousandths of a scalar (``{"nvidia.com/gpu": 1000}`` is one device).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import field, frozen

from batchsched.errors import ResourceError
from batchsched.frozen import FrozenMap, frozen_map

__all__ = ["EPSILON", "Amount", "Resource", "sum_resources"]

Amount = int | float
"""A quantity of one dimension, in its unit. Integers are kept exactly."""

EPSILON = 0.1
"""Two amounts that differ by less than this, in a dimension's unit, are the same amount."""


@frozen(eq=False, kw_only=True)
class Resource:
    """An amount of cpu, memory and named scalars.

    A scalar that is not named is 0 in every operation, so that
    ``Resource(scalars={"nvidia.com/gpu": 0}) == Resource()``.
    Nothing is checked here: negative and not-a-number amounts are refused
    where resources enter, by `batchsched.Snapshot`.

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
    scalars: Mapping[str, Amount] = field(default=FrozenMap(), converter=frozen_map)
    """Thousandths of each named scalar resource."""

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
        """Return whether no dimension exceeds `capacity` by `EPSILON` or more. O(dimensions)."""
        if self.milli_cpu - capacity.milli_cpu >= EPSILON:
            return False
        if self.memory - capacity.memory >= EPSILON:
            return False
        names = self.scalars.keys() | capacity.scalars.keys()
        return not any(
            self.scalars.get(name, 0) - capacity.scalars.get(name, 0) >= EPSILON for name in names
        )

    def __le__(self, other: Resource) -> bool:
        return self.fits(other)

    def __ge__(self, other: Resource) -> bool:
        return other.fits(self)

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
        scalars = dict(self.scalars)
        for name, amount in other.scalars.items():
            scalars[name] = scalars.get(name, 0) + amount
        return Resource(
            milli_cpu=self.milli_cpu + other.milli_cpu,
            memory=self.memory + other.memory,
            scalars=scalars,
        )

    def __sub__(self, other: Resource) -> Resource:
        """Return what is left.

        Raises:
            ResourceError: a dimension would be left below ``-EPSILON``. It names all such.
        """
        scalars = dict(self.scalars)
        for name, amount in other.scalars.items():
            scalars[name] = scalars.get(name, 0) - amount
        left = Resource(
            milli_cpu=self.milli_cpu - other.milli_cpu,
            memory=self.memory - other.memory,
            scalars=scalars,
        )
        short = [
            f"{other.get(name)} of {name} from {self.get(name)}"
            for name, amount in left.dimensions()
            if amount < -EPSILON
        ]
        if short:
            raise ResourceError("cannot take " + ", ".join(short))
        return left

    def __mul__(self, factor: Amount) -> Resource:
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
        names = self.scalars.keys() | other.scalars.keys()
        return Resource(
            milli_cpu=max(self.milli_cpu, other.milli_cpu),
            memory=max(self.memory, other.memory),
            scalars={n: max(self.scalars.get(n, 0), other.scalars.get(n, 0)) for n in names},
        )

    def min_with(self, other: Resource, /) -> Resource:
        """Return the minimum of both in each dimension."""
        names = self.scalars.keys() | other.scalars.keys()
        return Resource(
            milli_cpu=min(self.milli_cpu, other.milli_cpu),
            memory=min(self.memory, other.memory),
            scalars={n: min(self.scalars.get(n, 0), other.scalars.get(n, 0)) for n in names},
        )

    def _named(self) -> frozenset[tuple[str, Amount]]:
        return frozenset((name, amount) for name, amount in self.scalars.items() if amount)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resource):
            return NotImplemented
        return (
            self.milli_cpu == other.milli_cpu
            and self.memory == other.memory
            and (self.scalars == other.scalars or self._named() == other._named())
        )

    def __hash__(self) -> int:
        if self.scalars:
            return hash((self.milli_cpu, self.memory, self._named()))
        return hash((self.milli_cpu, self.memory))

    def __repr__(self) -> str:
        parts = [f"milli_cpu={self.milli_cpu!r}", f"memory={self.memory!r}"]
        if self.scalars:
            parts.append(f"scalars={dict(sorted(self.scalars.items()))!r}")
        return f"Resource({', '.join(parts)})"


def sum_resources(resources: Iterable[Resource], /) -> Resource:
    """Return the sum of all `resources`; nothing, if there are none.

    >>> sum_resources([Resource(milli_cpu=1), Resource(milli_cpu=2, memory=3)])
    Resource(milli_cpu=3, memory=3)
    """
    total = Resource()
    for resource in resources:
        total = total + resource
    return total
