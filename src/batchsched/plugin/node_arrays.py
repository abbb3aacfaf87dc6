"""What functions of plugins may read when they judge all nodes at once, as arrays.

The arrays are those of NumPy, which comes with the extra ``fast``; what is said of them
here is the part of it that such functions need, so that plugins need not import it.
"""

from __future__ import annotations

from typing import Protocol, Self

__all__ = ["LARGEST_WEIGHT_IN_ARRAYS", "NodeArrays", "Numbers"]


LARGEST_WEIGHT_IN_ARRAYS = 1 << 32
"""Scores with weights from here on, either way, are left to engines without arrays.

What is multiplied in arrays of whole numbers would not be too large for them, but fold over.
"""


class Numbers(Protocol):
    """An array: a number, or a boolean, for each node; there may be several rows of them.

    Operators go number by number.
    """

    def __add__(self, other: Self | float, /) -> Self: ...
    def __radd__(self, other: float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __rsub__(self, other: float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __rmul__(self, other: float, /) -> Self: ...
    def __truediv__(self, other: Self | float, /) -> Self: ...
    def __floordiv__(self, other: Self | float, /) -> Self: ...
    def __abs__(self) -> Self: ...
    def __lt__(self, other: Self | float, /) -> Self: ...
    def __le__(self, other: Self | float, /) -> Self: ...
    def __gt__(self, other: Self | float, /) -> Self: ...
    def __ge__(self, other: Self | float, /) -> Self: ...
    def __and__(self, other: Self, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...
    def __invert__(self) -> Self: ...
    def __getitem__(self, rows: int | slice, /) -> Self: ...
    def all(self) -> bool:
        """Return whether all are true."""
        ...

    def astype(self, kind: type[int], /) -> Self:
        """Return the numbers without their fractions, like `int`."""
        ...


class NodeArrays(Protocol):
    """Some or all nodes, in arrays: what `Reads.ACCOUNTS` allows to be read of them.

    Amounts are in the units of `NodeState`, with an array for each dimension.
    """

    @property
    def idle(self) -> Numbers:
        """What no task holds: a row for each dimension."""
        ...

    @property
    def allocatable(self) -> Numbers:
        """What the nodes have for tasks: a row for each dimension."""
        ...

    @property
    def allocatable_or_one(self) -> Numbers:
        """The same, and 1 where there is nothing: to divide by."""
        ...

    @property
    def scoring(self) -> Numbers:
        """The sums of the tasks' scoring requests: a row for cpu and one for memory."""
        ...

    @property
    def tasks(self) -> Numbers:
        """How many tasks are on the nodes, Reserved ones not counted."""
        ...

    @property
    def max_tasks(self) -> Numbers:
        """How many tasks there may be; infinity where there is no limit."""
        ...

    def column(self, *numbers: float) -> Numbers:
        """Return numbers that arrays with as many rows can be combined with, row by row."""
        ...
