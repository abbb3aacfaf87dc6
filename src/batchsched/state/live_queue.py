"""A priority queue whose order follows the keys of its items as they change.

Whenever an action takes the next queue or job, it takes the least one under the
order as it is at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, Self, TypeVar

__all__ = ["LiveQueue", "Reorders", "SortKey", "Waiting"]

ItemT_contra = TypeVar("ItemT_contra", contravariant=True)

SortKey = tuple[object, ...]
"""A key under one of the orders: the least goes first. Keys of one order compare."""


class Reorders(Protocol[ItemT_contra]):
    """Keeps items in an order that follows their keys."""

    def touch(self, item: ItemT_contra, /) -> None:
        """Record that the key of `item` may have changed."""
        ...


class Waiting(Protocol):
    """What can wait in a live queue: it knows where it waits."""

    waits_in: Reorders[Self] | None


WaitingT = TypeVar("WaitingT", bound=Waiting)


class LiveQueue(Generic[WaitingT]):
    """Items waiting for their turn, the least first under the order as it is now.

    An item waits in one live queue at a time. The ledger calls `touch` for an
    item whose account changed; its key is made again only when the order is
    next asked for. Keys must be unique (they end with a UID).

    Cost: `push` and `pop` O(log n) amortised; `touch` O(1).
    """

    __slots__ = ("_heap", "_key", "_keys", "_touched")

    def __init__(self, key: Callable[[WaitingT], SortKey], items: Iterable[WaitingT] = ()) -> None:
        self._key = key
        self._keys: dict[WaitingT, SortKey] = {}
        self._touched: dict[WaitingT, None] = {}
        for item in items:
            item.waits_in = self
            self._keys[item] = key(item)
        # The heap is searched by key; the place in the list breaks no tie, for keys are unique.
        self._heap: list[tuple[SortKey, WaitingT]] = [(k, item) for item, k in self._keys.items()]
        heapify(self._heap)

    def __len__(self) -> int:
        return len(self._keys)

    def push(self, item: WaitingT, /) -> None:
        """Let `item` wait. It must not wait here already."""
        item.waits_in = self
        key = self._keys[item] = self._key(item)
        heappush(self._heap, (key, item))

    def touch(self, item: WaitingT, /) -> None:
        """Record that the key of `item` may have changed. Does nothing if it does not wait."""
        if item in self._keys:
            self._touched[item] = None

    def first(self) -> WaitingT | None:
        """Return the least item under the order as it is now, which goes on waiting; or None."""
        if self._touched:
            self._settle()
        while self._heap:
            key, item = self._heap[0]
            if self._keys.get(item) is key:
                return item
            heappop(self._heap)
        return None

    def pop(self) -> WaitingT:
        """Take out the least item under the order as it is now.

        Raises:
            IndexError: nothing waits.

        """
        if self._touched:
            self._settle()
        keys = self._keys
        while True:
            key, item = heappop(self._heap)
            if keys.get(item) is key:
                del keys[item]
                return item

    def _settle(self) -> None:
        for item in self._touched:
            key = self._key(item)
            if key != self._keys[item]:
                self._keys[item] = key
                heappush(self._heap, (key, item))
        self._touched.clear()
