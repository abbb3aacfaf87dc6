"""The order of groups of a ready job: the group that is emptiest for its minimum comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

from batchsched.state.groups import Counting, GroupState, JobGroups

__all__ = ["EmptiestFirst", "emptiness"]


def emptiness(leaf: GroupState, counting: Counting, /) -> tuple[float, int]:
    """Return the sort key of a group of tasks; the smallest comes first."""
    return (leaf.counts[counting] + 1) / max(1, leaf.minimum), leaf.place


class EmptiestFirst:
    """The groups with tasks left to place, in order, updated as tasks are placed.

    Groups that were skipped return only after a relevant change, so that a job with many groups
    does not visit all of them at each turn.
    """

    __slots__ = (
        *("_at", "_epoch", "_groups", "_heap", "_keys", "_leaves", "_most_placed", "_seen"),
    )

    def __init__(self, groups: JobGroups, leaves: Callable[[], Iterable[GroupState]]) -> None:
        """Create the order; `leaves` returns the groups with tasks left."""
        self._groups = groups
        self._leaves = leaves
        self._heap: list[tuple[float, int]] = []
        """The sort keys, including outdated ones."""
        self._at: dict[int, GroupState] = {}
        """The groups by their position in the list."""
        self._keys: dict[GroupState, tuple[float, int]] = {}
        """The sort key of each group that was not skipped."""
        self._epoch = -1
        self._seen = 0
        """The number of changes that were processed."""
        self._most_placed = 0
        """The number of placed tasks at the last update."""

    def __iter__(self) -> Iterator[GroupState]:
        """Yield the groups in order; requesting the next one skips the one before.

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
            # An incomplete group is placed as a whole, so all of its leaves are affected.
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
