"""Rankings: nodes with scores that change, the best first.

Scores that are normalised depend on which nodes take part in a choice. Nodes
with the same raw scores are therefore kept together in one group: whatever the
raw scores come to, they come to the same for all of the group, so that the best
of a group stays its best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from sortedcontainers import SortedList

__all__ = ["Entry", "Order", "Ranking", "Raw", "Scored"]

Raw = tuple[float, ...]
"""The raw scores of a node, one for each score that is normalised."""

Scored = tuple[int, Raw, float]
"""A node's index, its raw scores, and the sum of its other scores."""

Entry = tuple[float, int]
"""Minus the rest of the node's score, and its index: the smallest goes first."""


class Ranking:
    """Nodes by group and score; finds the best of each group.

    `put` and `discard` cost O(log nodes) and O(1); `tops` O(groups) and what is
    left to clean up. Entries that are no longer true stay in the heaps until they
    come to the top.
    """

    __slots__ = ("_entries", "_heaps")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Raw, Entry]] = {}
        self._heaps: dict[Raw, list[Entry]] = {}

    def load(self, scored: list[Scored]) -> None:
        """Begin with these nodes: index, raw scores, the rest of the score."""
        for index, raw, score in scored:
            entry = (-score, index)
            self._entries[index] = (raw, entry)
            self._heaps.setdefault(raw, []).append(entry)
        for heap in self._heaps.values():
            heapify(heap)

    def put(self, scored: list[Scored]) -> None:
        """Let nodes have these scores from now on."""
        entries = self._entries
        heaps = self._heaps
        for index, raw, score in scored:
            known = entries.get(index)
            if known is not None and known[1][0] == -score and known[0] == raw:
                continue
            entry = (-score, index)
            entries[index] = (raw, entry)
            heap = heaps.get(raw)
            if heap is None:
                heaps[raw] = [entry]
            else:
                heappush(heap, entry)

    def discard(self, indices: Iterable[int]) -> None:
        """Let nodes take part no more."""
        entries = self._entries
        for index in indices:
            entries.pop(index, None)

    def tops(self) -> list[tuple[Raw, float, int]]:
        """Return the best of each group: raw scores, the rest of the score, index."""
        entries = self._entries
        tops: list[tuple[Raw, float, int]] = []
        empty: list[Raw] = []
        for raw, heap in self._heaps.items():
            while heap:
                entry = heap[0]
                known = entries.get(entry[1])
                if known is not None and known[1] == entry and known[0] == raw:
                    tops.append((raw, -entry[0], entry[1]))
                    break
                heappop(heap)
            else:
                empty.append(raw)
        for raw in empty:
            del self._heaps[raw]
        return tops


class Order:
    """Nodes by group and score; goes through each group, the best first.

    `put` and `discard` cost O(log nodes).
    """

    __slots__ = ("_entries", "_groups")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Raw, Entry]] = {}
        self._groups: dict[Raw, SortedList[Entry]] = {}

    def load(self, scored: list[Scored]) -> None:
        """Begin with these nodes: index, raw scores, the rest of the score."""
        groups: dict[Raw, list[Entry]] = {}
        for index, raw, score in scored:
            entry = (-score, index)
            self._entries[index] = (raw, entry)
            groups.setdefault(raw, []).append(entry)
        self._groups = {raw: SortedList(entries) for raw, entries in groups.items()}

    def put(self, scored: list[Scored]) -> None:
        """Let nodes have these scores from now on."""
        for index, raw, score in scored:
            known = self._entries.get(index)
            if known is not None and known[1][0] == -score and known[0] == raw:
                continue
            self.discard([index])
            entry = (-score, index)
            self._entries[index] = (raw, entry)
            group = self._groups.get(raw)
            if group is None:
                group = self._groups[raw] = SortedList()
            group.add(entry)

    def discard(self, indices: Iterable[int]) -> None:
        """Let nodes take part no more."""
        for index in indices:
            known = self._entries.pop(index, None)
            if known is not None:
                raw, entry = known
                group = self._groups[raw]
                group.remove(entry)
                if not group:
                    del self._groups[raw]

    def indices(self) -> list[int]:
        """Return the indices of all nodes that take part, in order."""
        return sorted(self._entries)

    def groups(self) -> list[tuple[Raw, Iterator[Entry]]]:
        """Return each group: raw scores, and its entries, the best first."""
        return [(raw, iter(group)) for raw, group in self._groups.items()]
