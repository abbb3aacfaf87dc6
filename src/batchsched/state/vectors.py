"""Dense vectors of amounts, which the ledger uses.

A `Resource` names its scalars; a vector lists the amounts of all dimensions
of a snapshot in one fixed order, which makes arithmetic a few times
faster. Vectors are tuples and never change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import add, sub

from batchsched.model.resources import EPSILON, Resource, exact

LARGEST_IN_ARRAYS = 1 << 48
"""Arrays contain only integers below this, so that all results are exact.

Ten times such a number is exact in a binary float, and so is the integer part of the
quotient of two of them, if it is below 16.
"""

_WITHOUT_SCALARS = ("cpu", "memory")
MOST_KEPT = 100_000
"""The most vectors that are cached."""
MOST_BY_IDENTITY = 1_000
"""How many resources are kept alive to find their vectors by identity; then all are forgotten."""

Vector = tuple[int, ...]
"""Amounts by dimension, in the order of `Dimensions.names`: integers, so sums are exact."""


def plus(left: Vector, right: Vector, /) -> Vector:
    """Return the sum of two vectors. O(dimensions)."""
    return tuple(map(add, left, right))


def minus(left: Vector, right: Vector, /) -> Vector:
    """Return the difference of two vectors, which may be negative. O(dimensions)."""
    return tuple(map(sub, left, right))


def total_of(vectors: Collection[Vector], zero: Vector, /) -> Vector:
    """Return the sum of any number of vectors; `zero` if there are none. O(vectors x dimensions).

    >>> total_of([(1, 2), (10, 20)], (0, 0)), total_of([], (0, 0))
    ((11, 22), (0, 0))
    """
    return tuple(map(sum, zip(*vectors, strict=True))) or zero


def fits(request: Iterable[float], capacity: Iterable[float], /) -> bool:
    """Return whether no amount exceeds `capacity` by `EPSILON` or more. O(dimensions).

    A dimension with a request below `EPSILON` is ignored, even where the capacity is
    negative.

    >>> fits((500, 10), (500, 20)), fits((501, 10), (500, 20)), fits((500, 0), (500, -5))
    (True, False, True)
    """
    for wanted, there in zip(request, capacity, strict=True):
        if wanted - there >= EPSILON and wanted >= EPSILON:
            return False
    return True


def lacking(request: Vector, there: Vector, /) -> Vector:
    """Return what a request lacks; 0 in dimensions that it does not request. O(dimensions).

    What a task does not ask for it does not lack, even where others hold more than there is.
    """
    pairs = zip(request, there, strict=True)
    return tuple([wanted - amount if wanted >= EPSILON else 0 for wanted, amount in pairs])


def is_empty(vector: Iterable[float], /) -> bool:
    """Return whether every amount is less than `EPSILON`. O(dimensions)."""
    return all(amount < EPSILON for amount in vector)


def dominant_share(allocated: Iterable[float], total: Iterable[float], /) -> float:
    """Return the largest fraction of `total` that is allocated, over all dimensions.

    Both list amounts in the same order; dimensions beyond the shorter of the two
    do not count. The fraction is 1.0 where something is allocated of a total of 0.
    Follows Ghodsi et al., "Dominant Resource Fairness" (NSDI
    2011), section 4. O(dimensions).

    >>> dominant_share((2000, 1 << 30), (8000, 16 << 30))
    0.25
    >>> dominant_share((0, 1), (8000, 0))
    1.0
    """
    largest = 0.0
    for part, whole in zip(allocated, total, strict=False):
        if whole:
            share = part / whole
            largest = max(largest, share)
        elif part:
            largest = max(largest, 1.0)
    return largest


class Dimensions:
    """The dimensions of a snapshot, with conversion between resources and vectors.

    The cluster's own dimensions come first: ``cpu``, ``memory``, and the scalars
    that any node has; then scalars that tasks request and no node has.

    >>> dimensions = Dimensions([Resource(scalars={"gpu": 1})], [Resource(scalars={"fpga": 1})])
    >>> dimensions.names, dimensions.in_cluster
    (('cpu', 'memory', 'gpu', 'fpga'), 3)
    >>> dimensions.vector(Resource(milli_cpu=5, scalars={"fpga": 2}))
    (5, 0, 0, 2)
    """

    __slots__ = ("_cache", "_known", "_positions", "are_small", "in_cluster", "names", "zero")

    def __init__(self, nodes: Iterable[Resource], tasks: Iterable[Resource]) -> None:
        there: set[str] = set()
        asked: set[str] = set()
        for resource in nodes:
            if resource.scalars:
                there.update(name for name, amount in resource.scalars.items() if amount)
        for resource in tasks:
            if resource.scalars:
                asked.update(resource.scalars)
        scalars = (*sorted(there), *sorted(asked - there))
        self.names: tuple[str, ...] = ("cpu", "memory", *scalars)
        """The names of all dimensions."""
        self.in_cluster = 2 + len(there)
        """The number of the cluster's own dimensions, which come first."""
        self.zero: Vector = (0,) * len(self.names)
        """The zero vector."""
        self.are_small = True
        """Whether all amounts so far are below `LARGEST_IN_ARRAYS`."""
        self._positions = {name: position for position, name in enumerate(scalars, start=2)}
        self._cache: dict[Resource, Vector] = {}
        self._known: dict[int, tuple[Resource, Vector]] = {}
        """Vectors by the identity of resources (kept alive here): most are used many times."""

    def vector(self, resource: Resource, /) -> Vector:
        """Return the whole amounts of `resource` by dimension. O(1) for a cached resource."""
        same = self._known.get(id(resource))
        if same is not None:
            return same[1]
        vector = self._cache.get(resource)
        if vector is None:
            vector = self._made(resource)
        if len(self._known) >= MOST_BY_IDENTITY:
            self._known.clear()
        self._known[id(resource)] = resource, vector
        return vector

    def _made(self, resource: Resource) -> Vector:
        amounts = [0] * len(self.names)
        amounts[0] = exact(resource.milli_cpu)
        amounts[1] = exact(resource.memory)
        for name, amount in resource.scalars.items():
            if amount:
                amounts[self._positions[name]] = exact(amount)
        vector = tuple(amounts)
        if max(vector) >= LARGEST_IN_ARRAYS:
            self.are_small = False
        if len(self._cache) >= MOST_KEPT:
            self._cache.clear()
        self._cache[resource] = vector
        return vector

    def resource(self, vector: Iterable[float], /) -> Resource:
        """Return the resource with these amounts; for a vector, the inverse of `vector`."""
        milli_cpu, memory, *scalars = vector
        if self.names == _WITHOUT_SCALARS and not scalars:
            return Resource(milli_cpu=milli_cpu, memory=memory)
        return Resource(
            milli_cpu=milli_cpu,
            memory=memory,
            scalars={
                name: amount for name, amount in zip(self.names[2:], scalars, strict=True) if amount
            },
        )
