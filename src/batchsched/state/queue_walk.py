"""Finds the next queue of a tree by walking down from the root and comparing siblings.

A leaf offers the need of its next job; an inner queue offers that of its first child. The first
child is the one with the smallest present key, as in a `LiveQueue`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush

from batchsched.state.live_queue import SortKey
from batchsched.state.needs import Need
from batchsched.state.records import QueueState

__all__ = ["QueueWalk"]


class QueueWalk:
    """Leaves waiting for their turn, in the order of the tree.

    It has the methods of a `LiveQueue`. The ledger calls `touch` for a leaf that has changed; the
    keys on its path are computed again when the next leaf is requested.

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
        """Create the walk.

        Args:
            key: ranks a queue among its siblings, given its offer; unique among them.
            offer: returns the need of the next job of a waiting leaf.
            queues: all queues of the snapshot.
            waiting: the leaves that wait initially.
            reads_above: whether the offer of a leaf depends on amounts charged to queues above it.
                A change then affects all leaves below the same top-level queue.

        """
        self._key = key
        self._offer = offer
        self._waiting: set[QueueState] = set(waiting)
        self._keys: dict[QueueState, SortKey] = {}
        """The keys of waiting leaves and their ancestors."""
        self._offers: dict[QueueState, Need | None] = {}
        self._families: dict[QueueState | None, list[tuple[SortKey, QueueState]]] = {None: []}
        """Heaps of children; entries that are not a child's present key are outdated."""
        for queue in queues:
            if queue.children:
                self._families[queue] = []
            else:
                queue.waits_in = self
        self._dirty: dict[QueueState, None] = dict.fromkeys(self._waiting)
        self._related: dict[QueueState, list[QueueState]] = {}
        """For each leaf below a top-level queue, all leaves below that queue."""
        if reads_above:
            below: dict[QueueState, list[QueueState]] = {}
            for queue in queues:
                if not queue.children and queue.parent is not None:
                    below.setdefault(_top(queue), []).append(queue)
            self._related = {leaf: leaves for leaves in below.values() for leaf in leaves}

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, queue: QueueState, /) -> None:
        """Add a leaf."""
        self._waiting.add(queue)
        self._dirty[queue] = None

    def touch(self, queue: QueueState, /) -> None:
        """Record a change that may affect the key of `queue` or of a queue above it."""
        self._dirty[queue] = None

    def offered(self, queue: QueueState, /) -> Need | None:
        """Return what the leaf that was taken out last has offered, if anything."""
        return self._offers.get(queue)

    def pop(self) -> QueueState:
        """Remove and return the leaf whose turn it is.

        Raises:
            IndexError: no queue is waiting.

        """
        if self._dirty:
            self._settle()
        queue = self._least(None)
        if queue is None:
            raise IndexError("no queue is waiting")
        while queue.children:
            queue = self._least(queue)
            assert queue is not None
        self._waiting.remove(queue)
        self._dirty[queue] = None
        return queue

    def stays_next(self, queue: QueueState, /) -> bool:
        """Return whether the leaf that was taken out last would be taken out again at once.

        True spares `push` and `pop`, of which the result would be this leaf. It may be False even
        then. For a turn that changed nothing but the next job of this leaf.
        """
        if len(self._dirty) > 1:
            return False
        offer = self._offer(queue)
        path: list[QueueState] = []
        above: QueueState | None = queue
        while above is not None:
            # Its siblings keep their keys, so with the same key it is still the first of them.
            if self._key(above, offer) != self._keys.get(above):
                return False
            path.append(above)
            above = above.parent
        self._offers.update(dict.fromkeys(path, offer))
        return True

    def _least(self, parent: QueueState | None) -> QueueState | None:
        heap = self._families[parent]
        while heap:
            key, queue = heap[0]
            if self._keys.get(queue) is key:
                return queue
            heappop(heap)
        return None

    def _settle(self) -> None:
        """Compute the keys again on all paths from changed queues."""
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
