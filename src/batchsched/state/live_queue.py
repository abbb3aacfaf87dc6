"""A priority queue whose order follows the changing keys of its items.

An action always takes the queue or job that is first in the order at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Generic, Protocol, Self, TypeVar

__all__ = ["LiveQueue", "Reorders", "SortKey", "Waiting"]

ItemT_contra = TypeVar("ItemT_contra", contravariant=True)

SortKey = tuple[object, ...]
"""A sort key: the smallest comes first. Keys of the same order are comparable."""


class Reorders(Protocol[ItemT_contra]):
    """Keeps items in the order of their changing keys."""

    def touch(self, item: ItemT_contra, /) -> None:
        """Record that the key of `item` may have changed."""
        ...


class Waiting(Protocol):
    """An item of a live queue, with a reference to the queue."""

    waits_in: Reorders[Self] | None


WaitingT = TypeVar("WaitingT", bound=Waiting)


class LiveQueue(Generic[WaitingT]):
    """Items waiting for their turn, the one with the smallest present key first.

    An item waits in one live queue at a time. The ledger calls `touch` for an item
    that has changed; its key is computed again when the next item is requested. Keys
    must be unique (they end with a UID).

    Cost: `push` and `pop` O(log n) amortised; `touch` O(1).
    """

    __slots__ = ("_first_items", "_heap", "_key", "_keys", "_touched")

    def __init__(self, key: Callable[[WaitingT], SortKey], items: Iterable[WaitingT] = ()) -> None:
        self._key = key
        self._keys: dict[WaitingT, SortKey] = {}
        self._touched: dict[WaitingT, None] = {}
        for item in items:
            item.waits_in = self
            self._keys[item] = key(item)
        # Items are never compared, since keys are unique.
        self._first_items = sorted(((k, item) for item, k in self._keys.items()), reverse=True)
        """The first items, the smallest key last: they mostly come in order, and are not sifted."""
        self._heap: list[tuple[SortKey, WaitingT]] = []
        """Items whose keys were computed later."""

    def __len__(self) -> int:
        return len(self._keys)

    def push(self, item: WaitingT, /) -> None:
        """Add `item`, which must not be waiting here already."""
        item.waits_in = self
        key = self._keys[item] = self._key(item)
        heappush(self._heap, (key, item))

    def touch(self, item: WaitingT, /) -> None:
        """Record that the key of `item` may have changed; ignored if it is not waiting."""
        if item in self._keys:
            self._touched[item] = None

    def first(self) -> WaitingT | None:
        """Return the item with the smallest present key without removing it, or None."""
        entry = self._least()
        return None if entry is None else entry[1]

    def pop(self) -> WaitingT:
        """Remove and return the item with the smallest present key.

        Raises:
            IndexError: no item is waiting.

        """
        entry = self._least()
        if entry is None:
            raise IndexError("no item is waiting")
        # Its entry is outdated from now on.
        del self._keys[entry[1]]
        return entry[1]

    def _least(self) -> tuple[SortKey, WaitingT] | None:
        """Return the present entry with the smallest key, and drop the outdated ones before it."""
        if self._touched:
            self._settle()
        keys, first_items, heap = self._keys, self._first_items, self._heap
        while first_items:
            key, item = first_items[-1]
            if keys.get(item) is key:
                break
            first_items.pop()
        while heap:
            key, item = heap[0]
            if keys.get(item) is key:
                break
            heappop(heap)
        if not heap:
            return first_items[-1] if first_items else None
        return heap[0] if not first_items or heap[0] < first_items[-1] else first_items[-1]

    def _settle(self) -> None:
        for item in self._touched:
            key = self._key(item)
            if key != self._keys[item]:
                self._keys[item] = key
                heappush(self._heap, (key, item))
        self._touched.clear()
