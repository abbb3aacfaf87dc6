"""Live orders: items that wait, of which the one with the least key at that moment comes next.

The definition computes all keys each time and takes the least (`PlainOrder`, `PlainTree`). The
others (`LiveQueue`, `JobsByNeed`, `QueueWalk`) come to the same, and compute only the keys
that may have changed: the ledger tells them what has. They keep keys in heaps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Generic, Protocol, Self, TypeVar

from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, Reorders, SortKey, TaskState
from batchsched.state.vectors import Vector


class Waiting(Protocol):
    """An item of a live queue, with a reference to the queue."""

    waits_in: Reorders[Self] | None


WaitingT = TypeVar("WaitingT", bound=Waiting)
ItemT = TypeVar("ItemT")

Taken = Callable[[ItemT, Collection[ItemT]], None]
"""Is called with each item whose turn it is, and the items that go on waiting."""


# The definition


class PlainOrder(Generic[ItemT]):
    """Items that wait for their turn; the next is the one with the least key."""

    _waiting: dict[ItemT, SortKey | None]

    def __init__(
        self,
        key: Callable[[ItemT], SortKey],
        items: Iterable[ItemT] = (),
        *,
        taken: Taken[ItemT] | None = None,
    ) -> None:
        self._key = key
        self._waiting = dict.fromkeys(items)
        self._taken = taken

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, item: ItemT, /) -> None:
        """Add an item, which must not be waiting here already."""
        self._waiting[item] = None

    def leave_out(self, are: Callable[[ItemT], bool]) -> None:
        """Remove the items that are so, in any order. O(items)."""
        for item in [item for item in self._waiting if are(item)]:
            del self._waiting[item]

    def first(self) -> ItemT | None:
        """Return the next item without removing it, or None."""
        return min(self._waiting, key=self._key, default=None)

    def pop(self) -> ItemT:
        """Remove and return the next item.

        Raises:
            IndexError: no item is waiting.

        """
        item = self.first()
        if item is None:
            raise IndexError("no item is waiting")
        del self._waiting[item]
        if self._taken is not None:
            self._taken(item, self._waiting.keys())
        return item


class PlainTree(PlainOrder[QueueState]):
    """Leaves of a tree that wait for their turn; the next is found from the root down.

    A leaf offers the need of its next job, an inner queue what its first child offers. Siblings
    are ranked with what they offer.
    """

    def __init__(
        self,
        key: Callable[[QueueState, Need | None], SortKey],
        offer: Callable[[QueueState], Need | None],
        queues: Iterable[QueueState],
        waiting: Iterable[QueueState],
        *,
        taken: Taken[QueueState] | None = None,
    ) -> None:
        super().__init__(lambda queue: key(queue, offer(queue)), waiting, taken=taken)
        self._rank = key
        self._offer = offer
        self._tops = [queue for queue in queues if queue.parent is None]

    def first(self) -> QueueState | None:
        """Return the next leaf without removing it, or None."""
        found = self._first_of(self._tops)
        return None if found is None else found[0]

    def _first_of(self, siblings: Iterable[QueueState]) -> tuple[QueueState, Need | None] | None:
        """Return the next leaf at or below some siblings, and what it offers."""
        least: SortKey | None = None
        first: tuple[QueueState, Need | None] | None = None
        for queue in siblings:
            if queue.children:
                found = self._first_of(queue.children)
            else:
                found = (queue, self._offer(queue)) if queue in self._waiting else None
            if found is not None:
                key = self._rank(queue, found[1])
                if least is None or key < least:
                    least, first = key, found
        return first


# The live orders


Heap = list[tuple[SortKey, ItemT]]
"""Keys, which are unique, and their items; entries that are not an item's present key are outdated.

An item is taken out by removing its present key, wherever that is kept.
"""


def _least(heap: Heap[ItemT], keys: Mapping[ItemT, SortKey | None]) -> ItemT | None:
    """Return the item with the least present key, or None; drop the outdated entries before it.

    O(log n) amortised.
    """
    while heap:
        key, item = heap[0]
        if keys.get(item) is key:
            return item
        heappop(heap)
    return None


class LiveQueue(PlainOrder[WaitingT]):
    """Items waiting for their turn, the one with the smallest present key first.

    An item waits in one live queue at a time. The ledger calls `touch` for an item
    that has changed; its key is computed again when the next item is requested. Keys
    must be unique (they end with a UID).

    Cost: `push` and `pop` O(log n) amortised; `touch` O(1).
    """

    def __init__(
        self,
        key: Callable[[WaitingT], SortKey],
        items: Iterable[WaitingT] = (),
        *,
        taken: Taken[WaitingT] | None = None,
    ) -> None:
        super().__init__(key, taken=taken)
        self._touched: dict[WaitingT, None] = {}
        self._heap: Heap[WaitingT] = []
        for item in items:
            item.waits_in = self
            own = self._waiting[item] = key(item)
            self._heap.append((own, item))
        # Items are never compared, since keys are unique.
        self._heap.sort()

    def push(self, item: WaitingT, /) -> None:
        """Add an item, which must not be waiting here already."""
        item.waits_in = self
        key = self._waiting[item] = self._key(item)
        heappush(self._heap, (key, item))

    def touch(self, item: WaitingT, /) -> None:
        """Record that the key of `item` may have changed; ignored if it is not waiting."""
        if item in self._waiting:
            self._touched[item] = None

    def leave_out(self, are: Callable[[WaitingT], bool]) -> None:
        """Remove the items that are so, in any order. O(items)."""
        super().leave_out(are)
        self._touched = dict.fromkeys([item for item in self._touched if item in self._waiting])

    def first(self) -> WaitingT | None:
        """Return the item with the smallest present key without removing it, or None."""
        if self._touched:
            self._settle()
        return _least(self._heap, self._waiting)

    def _settle(self) -> None:
        for item in self._touched:
            key = self._key(item)
            if key != self._waiting[item]:
                self._waiting[item] = key
                heappush(self._heap, (key, item))
        self._touched.clear()


class JobsByNeed(LiveQueue[JobState]):
    """Jobs of one queue waiting for their turn, ordered by need, and then by job order.

    The rank of a need may change at any time, such as by a placement in another queue, so it is
    computed whenever the next job is requested. Jobs with equal requests have the same rank, so
    it is computed once for all of them.

    Cost: `push` O(log n) amortised; `first` and `pop` O(different requests + log n) amortised;
    `touch` O(1).
    """

    def __init__(
        self,
        key: Callable[[JobState], SortKey],
        need_key: Callable[[Need | None], SortKey],
        need_of: Callable[[JobState], Need | None],
        jobs: Iterable[JobState] = (),
        *,
        taken: Taken[JobState] | None = None,
    ) -> None:
        """Create the queue.

        Args:
            key: ranks a job; unique.
            need_key: ranks a need, by its job's queue and its request alone.
            need_of: returns what a waiting job needs next.
            jobs: the jobs that wait initially.
            taken: is called with each job that is taken out.

        """
        self._need_key = need_key
        self._need_of = need_of
        self._needs: dict[JobState, Need | None] = {}
        self._by_request: dict[Vector | None, Heap[JobState]] = {}
        super().__init__(key, taken=taken)
        for job in jobs:
            self.push(job)

    def push(self, item: JobState, /) -> None:
        """Add a job, which must not be waiting here already."""
        item.waits_in = self
        self._enter(item, self._key(item), self._need_of(item))

    def first(self) -> JobState | None:
        """Return the job that is next now, without removing it, or None."""
        if self._touched:
            self._settle()
        best: tuple[SortKey, SortKey] | None = None
        found: JobState | None = None
        for request, heap in list(self._by_request.items()):
            job = _least(heap, self._waiting)
            if job is None:
                del self._by_request[request]
                continue
            rank = self._need_key(self._needs[job]), heap[0][0]
            if best is None or rank < best:
                best, found = rank, job
        return found

    def _settle(self) -> None:
        for job in self._touched:
            key, need = self._key(job), self._need_of(job)
            if key != self._waiting[job] or _request(need) != _request(self._needs[job]):
                self._enter(job, key, need)
            else:
                self._needs[job] = need
        self._touched.clear()

    def _enter(self, job: JobState, key: SortKey, need: Need | None) -> None:
        self._waiting[job] = key
        self._needs[job] = need
        heappush(self._by_request.setdefault(_request(need), []), (key, job))


def _request(need: Need | None) -> Vector | None:
    return None if need is None else need.request


class QueueWalk(PlainOrder[QueueState]):
    """Leaves waiting for their turn, in the order of the tree.

    The ledger calls `touch` for a leaf that has changed; the keys on its path are computed again
    when the next leaf is requested.

    Cost: `push` and `pop` O(depth x log children) amortised; `touch` O(1).
    """

    def __init__(
        self,
        key: Callable[[QueueState, Need | None], SortKey],
        offer: Callable[[QueueState], Need | None],
        queues: Collection[QueueState],
        waiting: Iterable[QueueState],
        *,
        reads_above: bool = False,
        taken: Taken[QueueState] | None = None,
    ) -> None:
        """Create the walk.

        Args:
            key: ranks a queue among its siblings, given its offer; unique among them.
            offer: returns the need of the next job of a waiting leaf.
            queues: all queues of the snapshot.
            waiting: the leaves that wait initially.
            reads_above: whether the offer of a leaf depends on amounts charged to queues above it.
                A change then affects all leaves below the same top-level queue.
            taken: is called with each leaf that is taken out.

        """
        super().__init__(lambda queue: key(queue, offer(queue)), waiting, taken=taken)
        self._rank = key
        self._offer = offer
        self._offers: dict[QueueState, Need | None] = {}
        self._keys: dict[QueueState, SortKey] = {}
        """The keys of waiting leaves and their ancestors."""
        self._siblings: dict[QueueState | None, Heap[QueueState]] = {None: []}
        """By parent."""
        for queue in queues:
            if queue.children:
                self._siblings[queue] = []
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

    def push(self, queue: QueueState, /) -> None:
        """Add a leaf."""
        super().push(queue)
        self._dirty[queue] = None

    def touch(self, queue: QueueState, /) -> None:
        """Record a change that may affect the key of `queue` or of a queue above it."""
        self._dirty[queue] = None

    def offered(self, queue: QueueState, /) -> Need | None:
        """Return what the leaf that was taken out last has offered, if anything."""
        return self._offers.get(queue)

    def first(self) -> QueueState | None:
        """Return the leaf whose turn it is without removing it, or None."""
        if self._dirty:
            self._settle()
        queue = _least(self._siblings[None], self._keys)
        while queue is not None and queue.children:
            queue = _least(self._siblings[queue], self._keys)
        return queue

    def pop(self) -> QueueState:
        """Remove and return the leaf whose turn it is.

        Raises:
            IndexError: no item is waiting.

        """
        queue = super().pop()
        self._dirty[queue] = None
        return queue

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
            least = _least(self._siblings[queue], self._keys)
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
        key = self._rank(queue, offer)
        if key != self._keys.get(queue):
            self._keys[queue] = key
            heappush(self._siblings[queue.parent], (key, queue))


def _top(queue: QueueState) -> QueueState:
    while queue.parent is not None:
        queue = queue.parent
    return queue


# Keys that read more than their item


class SharedKeys:
    """Ranks jobs anew that share what their keys read; see `batchsched.plugin.JobOrder`."""

    def __init__(
        self, shares: Sequence[Callable[[JobState], Hashable]], jobs: Mapping[str, JobState]
    ) -> None:
        self._shares = shares
        self._jobs = jobs
        self._sharing: list[dict[Hashable, list[JobState]]] | None = None
        """For each of `shares`, the jobs by value; None: not asked yet."""

    def charged(self, task: TaskState) -> None:
        """Note that anything was charged for a task, or is no more. O(jobs that share it)."""
        if task.job is None:
            return
        if self._sharing is None:
            self._sharing = [{} for _ in self._shares]
            for of_value, value in zip(self._sharing, self._shares, strict=True):
                for job in self._jobs.values():
                    of_value.setdefault(value(job), []).append(job)
        for of_value, value in zip(self._sharing, self._shares, strict=True):
            for job in of_value.get(value(task.job), ()):
                if job.waits_in is not None:
                    job.waits_in.touch(job)
