"""Which group of a ready job comes next: the one that has the least for its minimum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

from batchsched.state.groups import Counting, GroupState, JobGroups

__all__ = ["EmptiestFirst", "emptiness"]


def emptiness(leaf: GroupState, counting: Counting, /) -> tuple[float, int]:
    """Return the place in the order of a group of tasks; the least comes first."""
    return (leaf.counts[counting] + 1) / max(1, leaf.minimum), leaf.place


class EmptiestFirst:
    """The groups of tasks that have any left to place, in order, as the job fills.

    Those that were passed over come back once something has changed that could let them in, so
    that a job with many groups does not go through all of them at each turn.
    """

    __slots__ = (
        *("_at", "_epoch", "_groups", "_heap", "_keys", "_leaves", "_most_placed", "_seen"),
    )

    def __init__(self, groups: JobGroups, leaves: Callable[[], Iterable[GroupState]]) -> None:
        """Begin; `leaves` returns the groups of tasks that have any left."""
        self._groups = groups
        self._leaves = leaves
        self._heap: list[tuple[float, int]] = []
        """Places in the order, also such as groups no longer have."""
        self._at: dict[int, GroupState] = {}
        """The groups by their position in the list."""
        self._keys: dict[GroupState, tuple[float, int]] = {}
        """By group that was not passed over: its place in the order."""
        self._epoch = -1
        self._seen = 0
        """How many of the changes were looked at."""
        self._most_placed = 0
        """How many tasks had places when a group was last asked for."""

    def __iter__(self) -> Iterator[GroupState]:
        """Yield the groups in order; to go on is to pass over the one before.

        O(log groups) for each, and for each that has changed.
        """
        self._catch_up()
        heap, keys = self._heap, self._keys
        while heap:
            key = heap[0]
            leaf = self._at[key[1]]
            if keys.get(leaf) == key:
                yield leaf
                del keys[leaf]
            heappop(heap)

    def _catch_up(self) -> None:
        groups = self._groups
        changes = groups.changes
        if (
            self._epoch != groups.epoch
            or groups.has_inner_maximum
            or groups.root.placed < self._most_placed
        ):
            self._keys = {leaf: emptiness(leaf, Counting.HOPED) for leaf in self._leaves()}
            self._heap = list(self._keys.values())
            self._at.update((leaf.place, leaf) for leaf in self._keys)
            heapify(self._heap)
        else:
            # What a group is part of that is of no use in part is asked for as one.
            whole = {
                change if change.children else change.entered(Counting.HOPED) or change
                for change in changes[self._seen :]
            }
            for leaf in {leaf for group in whole for leaf in group.leaves()}:
                key = emptiness(leaf, Counting.HOPED)
                if self._keys.get(leaf) != key:
                    self._keys[leaf] = key
                    self._at[leaf.place] = leaf
                    heappush(self._heap, key)
        self._epoch, self._seen = groups.epoch, len(changes)
        self._most_placed = groups.root.placed
