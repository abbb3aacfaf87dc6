"""Rankings of nodes with changing scores, the best first.

Normalised scores depend on the set of nodes that are compared. Nodes with the same
raw scores are therefore kept in one group: their normalised scores are always
equal, so that the best node of a group does not depend on the other groups.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from sortedcontainers import SortedList

__all__ = ["Entry", "Group", "Order", "Raw", "ScoreIndex", "Scored"]

Raw = tuple[float, ...]
"""The raw scores of a node, one for each score that is normalised."""

Scored = tuple[int, Raw, float]
"""A node's index, its raw scores, and the sum of its other scores."""

Entry = tuple[float, int]
"""The negated sum of the node's other scores, and its index: the smallest comes first."""


class _Buckets(dict[float, list[int]]):
    """Lists of nodes by score, made when needed; the scores that have one are kept in a heap."""

    __slots__ = ("negated",)

    def __init__(self) -> None:
        super().__init__()
        self.negated: list[float] = []
        """A heap of the negated scores."""

    def __missing__(self, score: float) -> list[int]:
        heappush(self.negated, -score)
        bucket: list[int] = []
        self[score] = bucket
        return bucket


class Group:
    """Nodes with scores that change, the best first; among equals the first in node order.

    Most scores change several times before the best node is requested, and most nodes are never
    near the top. So nodes are only appended to the bucket of their score; a bucket is sorted when
    it becomes the best one, and outdated entries are dropped then.
    """

    __slots__ = ("_buckets", "_in_order", "score_of")

    def __init__(self) -> None:
        self.score_of: dict[int, float] = {}
        """The score of each node, by index."""
        self._buckets = _Buckets()
        """Nodes that have got a score, some of which they may not have any more."""
        self._in_order: dict[float, list[int]] = {}
        """The negated indices of nodes by score, sorted, for scores that have been the best."""

    def put(self, scored: Iterable[tuple[int, float]]) -> None:
        """Set the scores of nodes, given with their indices. O(1) each; sorting is deferred."""
        score_of, buckets = self.score_of, self._buckets
        get = score_of.get
        for index, score in scored:
            if get(index) != score:
                score_of[index] = score
                buckets[score].append(index)

    def best(self) -> tuple[float, int] | None:
        """Return the highest score, and the first node in node order with it."""
        score_of, buckets = self.score_of, self._buckets
        while buckets:
            score = -buckets.negated[0]
            came = buckets[score]
            in_order = self._in_order.get(score)
            if in_order is None:
                in_order = sorted({-index for index in came if score_of.get(index) == score})
                self._in_order[score] = in_order
                came.clear()
            while came:
                insort(in_order, -came.pop())
            while in_order:
                index = -in_order[-1]
                if score_of.get(index) == score:
                    return score, index
                in_order.pop()
            del buckets[score], self._in_order[score]
            heappop(buckets.negated)
        return None


class ScoreIndex:
    """Nodes by group and score; finds the best of each group."""

    __slots__ = ("_group_of", "_groups", "_only")

    def __init__(self) -> None:
        self._only = Group()
        """The group without raw scores: the only one, unless scores are normalised."""
        self._groups: dict[Raw, Group] = {(): self._only}
        self._group_of: dict[int, Group] = {}
        """The group of each node with raw scores, by index."""

    def load(self, scored: list[Scored]) -> None:
        """Add the initial nodes."""
        self.put(scored)

    def put(self, scored: list[Scored]) -> None:
        """Set the scores of nodes."""
        if not scored or not scored[0][1]:
            self._only.put([(index, score) for index, _, score in scored])
            return
        group_of = self._group_of
        of_groups: defaultdict[Raw, list[tuple[int, float]]] = defaultdict(list)
        for index, raw, score in scored:
            of_groups[raw].append((index, score))
        for raw, entries in of_groups.items():
            group = self._groups.get(raw)
            if group is None:
                group = self._groups[raw] = Group()
            for index, _ in entries:
                known = group_of.get(index)
                if known is not group:
                    if known is not None:
                        known.score_of.pop(index, None)
                    group_of[index] = group
            group.put(entries)

    def put_one(self, index: int, score: float) -> None:
        """Set the score of a node that has no raw scores."""
        self._only.put([(index, score)])

    def discard(self, indices: Iterable[int]) -> None:
        """Remove nodes."""
        if not self._group_of:
            score_of = self._only.score_of
            for index in indices:
                score_of.pop(index, None)
            return
        for index in indices:
            group = self._group_of.pop(index, None)
            if group is not None:
                group.score_of.pop(index, None)

    def best(self) -> tuple[float, int] | None:
        """Return the best node where no scores are normalised: its score and index."""
        return self._only.best()

    def tops(self) -> list[tuple[Raw, float, int]]:
        """Return the best of each group: raw scores, the sum of the other scores, index."""
        tops: list[tuple[Raw, float, int]] = []
        empty: list[Raw] = []
        for raw, group in self._groups.items():
            best = group.best()
            if best is not None:
                tops.append((raw, *best))
            elif raw:
                empty.append(raw)
        for raw in empty:
            del self._groups[raw]
        return tops


class Order:
    """Nodes by group and score; iterates over each group, the best first.

    `put` and `discard` cost O(log nodes).
    """

    __slots__ = ("_entries", "_groups")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Raw, Entry]] = {}
        self._groups: dict[Raw, SortedList[Entry]] = {}

    def load(self, scored: list[Scored]) -> None:
        """Add the initial nodes: index, raw scores, sum of the other scores."""
        groups: dict[Raw, list[Entry]] = {}
        for index, raw, score in scored:
            entry = (-score, index)
            self._entries[index] = (raw, entry)
            groups.setdefault(raw, []).append(entry)
        self._groups = {raw: SortedList(entries) for raw, entries in groups.items()}

    def put(self, scored: list[Scored]) -> None:
        """Set the scores of nodes."""
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

    def put_one(self, index: int, score: float) -> None:
        """Set the score of a node that has no raw scores."""
        self.put([(index, (), score)])

    def discard(self, indices: Iterable[int]) -> None:
        """Remove nodes."""
        for index in indices:
            known = self._entries.pop(index, None)
            if known is not None:
                raw, entry = known
                group = self._groups[raw]
                group.remove(entry)
                if not group:
                    del self._groups[raw]

    def indices(self) -> list[int]:
        """Return the indices of all nodes, in order."""
        return sorted(self._entries)

    def groups(self) -> list[tuple[Raw, Iterator[Entry]]]:
        """Return each group: raw scores, and its entries, the best first."""
        return [(raw, iter(group)) for raw, group in self._groups.items()]
