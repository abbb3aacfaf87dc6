"""A live queue that reports which item is taken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Generic, Protocol, TypeVar, cast

from batchsched.state.live_queue import LiveQueue, Waiting

__all__ = ["AnyQueue", "TracedQueue"]

WaitingT = TypeVar("WaitingT", bound=Waiting)


class AnyQueue(Protocol[WaitingT]):
    """The common methods of `LiveQueue` and `QueueWalk`."""

    def __len__(self) -> int: ...

    def push(self, item: WaitingT, /) -> None: ...

    def touch(self, item: WaitingT, /) -> None: ...

    def pop(self) -> WaitingT: ...


class TracedQueue(Generic[WaitingT]):
    """Items in a live queue, with a function that is called with each item taken."""

    def __init__(
        self,
        queue: AnyQueue[WaitingT],
        items: Iterable[WaitingT],
        tell: Callable[[WaitingT, Collection[WaitingT]], None],
    ) -> None:
        self._queue = queue
        self._items = dict.fromkeys(items)
        self._tell = tell

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, item: WaitingT, /) -> None:
        self._queue.push(item)
        self._items[item] = None

    def touch(self, item: WaitingT, /) -> None:
        self._queue.touch(item)

    def first(self) -> WaitingT | None:
        return cast("LiveQueue[WaitingT]", self._queue).first()

    def pop(self) -> WaitingT:
        item = self._queue.pop()
        self._items.pop(item, None)
        self._tell(item, self._items)
        return item
