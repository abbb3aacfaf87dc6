"""The arrays that vectorised functions of plugins read to evaluate many nodes at once.

They are NumPy arrays, which the extra ``fast`` provides. The protocols here describe the
operations that these functions need, so that plugins need not import NumPy.
"""

from __future__ import annotations

from typing import Protocol, Self

__all__ = ["LARGEST_WEIGHT_IN_ARRAYS", "NodeArrays", "Numbers"]


LARGEST_WEIGHT_IN_ARRAYS = 1 << 32
"""Scores with weights of this absolute value or more are not computed with arrays.

Products in integer arrays would silently overflow.
"""


class Numbers(Protocol):
    """An array with a number or boolean for each node, in one or several rows.

    Operators work element by element.
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
    """Some or all nodes as arrays, with everything that `Reads.ACCOUNTS` allows to read.

    Amounts are in the units of `NodeState`, with a row for each dimension.
    """

    @property
    def idle(self) -> Numbers:
        """The idle amounts: a row for each dimension."""
        ...

    @property
    def allocatable(self) -> Numbers:
        """The allocatable amounts: a row for each dimension."""
        ...

    @property
    def allocatable_or_one(self) -> Numbers:
        """The allocatable amounts with 1 in place of 0, as divisors."""
        ...

    @property
    def scoring(self) -> Numbers:
        """The sums of the tasks' scoring requests: a row for cpu and one for memory."""
        ...

    @property
    def tasks(self) -> Numbers:
        """The number of tasks on each node, without Reserved tasks."""
        ...

    @property
    def max_tasks(self) -> Numbers:
        """The most tasks on each node; infinity without a limit."""
        ...

    def column(self, *numbers: float) -> Numbers:
        """Return numbers as a column, to combine row by row with arrays of as many rows."""
        ...
