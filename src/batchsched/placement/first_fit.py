"""Finds the first node that meets a condition, incrementally."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from batchsched.state.change_log import NodeCursor, Watch

__all__ = ["FirstFit"]


class FirstFit:
    """Finds the first node, in node order, that meets a condition.

    It evaluates only nodes that a plain loop would evaluate, and a node that does not meet the
    condition only again when it has changed.
    """

    __slots__ = (
        *("_again", "_cursor", "_holds", "_in_again", "_next"),
        *("_seen", "_slots", "_watches"),
    )

    def __init__(
        self,
        slots: Sequence[int],
        holds: Callable[[int], bool],
        changes: Sequence[int],
        watches: Sequence[Watch] = (),
    ) -> None:
        """Begin before the first node.

        Args:
            slots: where the condition may hold, in order.
            holds: returns whether it does.
            changes: the log of changed nodes.
            watches: report other changes.

        """
        self._slots = slots
        self._holds = holds
        self._cursor = NodeCursor(changes)
        self._watches = watches
        self._seen = [watch.changed_since(0)[0] for watch in watches]
        self._next = 0
        """No node before this position meets the condition, apart from those that changed."""
        self._again: list[int] = []  # a heap of the nodes before it that have
        self._in_again: set[int] = set()

    def find(self) -> int | None:
        """Return the index of the node, or None. O(changes + nodes that are skipped)."""
        self._catch_up()
        again, holds = self._again, self._holds
        while again:
            if holds(again[0]):
                return again[0]
            self._in_again.discard(heappop(again))
        slots = self._slots
        while self._next < len(slots):
            if holds(slots[self._next]):
                return slots[self._next]
            self._next += 1
        return None

    def _catch_up(self) -> None:
        changed = self._cursor.unread()
        if not changed:
            return
        for index in changed:
            self._ask_again(index)
        for number, watch in enumerate(self._watches):
            self._seen[number], elsewhere = watch.changed_since(self._seen[number])
            if elsewhere is None:
                self._next = 0
                self._again.clear()
                self._in_again.clear()
            else:
                for index in elsewhere:
                    self._ask_again(index)

    def _ask_again(self, index: int) -> None:
        slots, place = self._slots, self._next
        if (place == len(slots) or index < slots[place]) and index not in self._in_again:
            self._in_again.add(index)
            heappush(self._again, index)
