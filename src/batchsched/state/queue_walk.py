"""The next queue of a tree: found by walking down from the root, where siblings are compared.

A leaf offers what its next job needs; an inner queue offers what its least child offers. The
least child is the least under the order as it is at that moment, as in a `LiveQueue`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush

from batchsched.state.live_queue import SortKey
from batchsched.state.needs import Need
from batchsched.state.records import QueueState

__all__ = ["QueueWalk"]


class QueueWalk:
    """Leaves waiting for their turn, the next of the tree first.

    It has what a `LiveQueue` has. The ledger calls `touch` for a leaf of which anything changed;
    keys on its path are made again only when the order is next asked for.

    Cost: `push` and `pop` O(depth x log children) amortised; `touch` O(1).
    """

    __slots__ = (
        *("_dirty", "_families", "_key", "_keys", "_offer", "_offers", "_related", "_waiting"),
    )

    def __init__(
        self,
        key: Callable[[QueueState, Need | None], SortKey],
        offer: Callable[[QueueState], Need | None],
        queues: Collection[QueueState],
        waiting: Iterable[QueueState],
        *,
        reads_above: bool = False,
    ) -> None:
        """Let leaves wait.

        Args:
            key: ranks a queue among its siblings, given what it offers; unique among them.
            offer: what the next job of a leaf that waits needs.
            queues: all queues of the snapshot.
            waiting: the leaves that wait from the beginning.
            reads_above: whether what a leaf offers depends on what is charged to queues above it.
                A change then concerns all leaves below the same queue below the root.

        """
        self._key = key
        self._offer = offer
        self._waiting: set[QueueState] = set(waiting)
        self._keys: dict[QueueState, SortKey] = {}
        """Of the queues that wait, or have a leaf below them that does."""
        self._offers: dict[QueueState, Need | None] = {}
        self._families: dict[QueueState | None, list[tuple[SortKey, QueueState]]] = {None: []}
        """Heaps of children; what is not the child's present key is out of date."""
        for queue in queues:
            if queue.children:
                self._families[queue] = []
            else:
                queue.waits_in = self
        self._dirty: dict[QueueState, None] = dict.fromkeys(self._waiting)
        self._related: dict[QueueState, list[QueueState]] = {}
        """By each leaf that has any, all leaves below the same queue below the root."""
        if reads_above:
            below: dict[QueueState, list[QueueState]] = {}
            for queue in queues:
                if not queue.children and queue.parent is not None:
                    below.setdefault(_top(queue), []).append(queue)
            self._related = {leaf: leaves for leaves in below.values() for leaf in leaves}

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, queue: QueueState, /) -> None:
        """Let a leaf wait."""
        self._waiting.add(queue)
        self._dirty[queue] = None

    def touch(self, queue: QueueState, /) -> None:
        """Record that something changed that the key of `queue`, or one above it, reads."""
        self._dirty[queue] = None

    def offered(self, queue: QueueState, /) -> Need | None:
        """Return what the leaf that was taken out last has offered, if anything."""
        return self._offers.get(queue)

    def pop(self) -> QueueState:
        """Take out the leaf whose turn it is.

        Raises:
            IndexError: nothing waits.

        """
        if self._dirty:
            self._settle()
        queue = self._least(None)
        if queue is None:
            raise IndexError("no queue waits")
        while queue.children:
            queue = self._least(queue)
            assert queue is not None
        self._waiting.remove(queue)
        self._dirty[queue] = None
        return queue

    def _least(self, parent: QueueState | None) -> QueueState | None:
        heap = self._families[parent]
        while heap:
            key, queue = heap[0]
            if self._keys.get(queue) is key:
                return queue
            heappop(heap)
        return None

    def _settle(self) -> None:
        """Make the keys again on all paths from queues that changed."""
        if self._related:
            for leaf in list(self._dirty):
                self._dirty.update(dict.fromkeys(self._related.get(leaf, ())))
        if len(self._dirty) == 1:
            queue: QueueState | None = next(iter(self._dirty))
            self._dirty.clear()
            while queue is not None:
                self._refresh(queue)
                queue = queue.parent
            return
        by_depth: list[dict[QueueState, None]] = []
        for leaf in self._dirty:
            path = [leaf]
            while path[-1].parent is not None:
                path.append(path[-1].parent)
            while len(by_depth) < len(path):
                by_depth.append({})
            for depth, queue in enumerate(reversed(path)):
                by_depth[depth][queue] = None
        self._dirty.clear()
        for queues in reversed(by_depth):
            for queue in queues:
                self._refresh(queue)

    def _refresh(self, queue: QueueState) -> None:
        if queue.children:
            least = self._least(queue)
            is_waiting = least is not None
            offer = None if least is None else self._offers[least]
        else:
            is_waiting = queue in self._waiting
            offer = self._offer(queue) if is_waiting else None
        if not is_waiting:
            self._keys.pop(queue, None)
            self._offers.pop(queue, None)
            return
        self._offers[queue] = offer
        key = self._key(queue, offer)
        if key != self._keys.get(queue):
            self._keys[queue] = key
            heappush(self._families[queue.parent], (key, queue))


def _top(queue: QueueState) -> QueueState:
    while queue.parent is not None:
        queue = queue.parent
    return queue
