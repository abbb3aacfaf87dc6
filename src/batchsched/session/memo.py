"""A cache for actions within one cycle."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar, cast

__all__ = ["Memo"]

RememberedT = TypeVar("RememberedT")


class Memo:
    """The caches of one session, one for each class of values; they end with the session.

    >>> memo = Memo()
    >>> memo.store(str)["claimant"] = "found"
    >>> memo.store(str)
    {'claimant': 'found'}
    """

    __slots__ = ("_stores",)

    def __init__(self) -> None:
        self._stores: dict[type[object], object] = {}

    def store(self, kind: type[RememberedT], /) -> dict[Hashable, RememberedT]:
        """Return the cache for values of this class, initially empty. O(1)."""
        empty: dict[Hashable, RememberedT] = {}
        return cast("dict[Hashable, RememberedT]", self._stores.setdefault(kind, empty))
