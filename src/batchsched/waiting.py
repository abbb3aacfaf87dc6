"""What an item that waits for its turn needs to know of where it waits."""

from __future__ import annotations

from typing import Protocol, TypeVar

__all__ = ["Reorders"]

ItemT_contra = TypeVar("ItemT_contra", contravariant=True)


class Reorders(Protocol[ItemT_contra]):
    """Keeps items in an order that follows their keys; see `batchsched.live_queue`."""

    def touch(self, item: ItemT_contra, /) -> None:
        """Take note that the key of `item` may have changed."""
        ...
