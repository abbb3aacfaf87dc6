"""A cache that drops the least recently used value."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

__all__ = ["RecentlyUsed"]

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class RecentlyUsed(OrderedDict[KeyT, ValueT]):
    """The most recently used values, up to a maximum number.

    >>> tables = RecentlyUsed(most=2)
    >>> tables.keep("a", 1)
    >>> tables.keep("b", 2)
    >>> tables.use("a")
    1
    >>> tables.keep("c", 3)
    2
    >>> list(tables)
    ['a', 'c']
    """

    def __init__(self, *, most: int) -> None:
        super().__init__()
        self._most = most

    def use(self, key: KeyT, /) -> ValueT | None:
        """Return a value and mark it as the most recently used; None if there is none. O(1)."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def keep(self, key: KeyT, value: ValueT, /) -> ValueT | None:
        """Add a value; return the least recently used one if it is dropped for it. O(1)."""
        self[key] = value
        return self.popitem(last=False)[1] if len(self) > self._most else None
