"""Slots: stable numbers of nodes, by which engines store data of each node.

Slots follow node order, as positions do, but adding or removing a node changes few other slots:
there are vacant slots in between. The layout is that of a packed-memory array; Itai, Konheim and
Rodeh, "A Sparse Table Implementation of Priority Queues" (ICALP 1981).
"""

from __future__ import annotations

from bisect import bisect_left

from batchsched.model.cluster import NodeInfo
from batchsched.state.records import NodeState
from batchsched.state.vectors import Vector

__all__ = ["NodeSlots"]

PER_VACANT = 8
"""One of this many slots is left vacant when nodes are spread out."""
FARTHEST = 64
"""The most nodes that are moved to make room for one; otherwise all are spread out again."""


class NodeSlots:
    """The nodes of a cluster by slot, and in order."""

    def __init__(self, nodes: list[NodeState], changes: list[int], zero: Vector) -> None:
        self._in_order = nodes
        self._changes = changes
        self._zero = zero
        self.by_slot: list[NodeState] = list(nodes)
        """The node at each slot; vacant slots have a placeholder."""
        self.vacant: set[int] = set()
        """The slots without a node."""
        self._noted: set[int] | None = set()
        """The slots whose node was replaced or changed; None: possibly all."""

    def insert(self, node: NodeState) -> None:
        """Add a node. O(nodes) for the positions; few slots change."""
        place = bisect_left(self._in_order, node.name, key=_name)
        self._in_order.insert(place, node)
        self._number(place)
        slot = self._room_at(place)
        if slot is None:
            self.spread()
        else:
            self._put(slot, node)

    def remove(self, node: NodeState) -> None:
        """Remove a node. O(nodes) for the positions; one slot changes."""
        del self._in_order[node.index]
        self._number(node.index)
        self._vacate(node.slot)

    def note(self, slot: int) -> None:
        """Record that the node at a slot was replaced or changed."""
        self._changes.append(slot)
        if self._noted is not None:
            self._noted.add(slot)

    def take_changed(self) -> set[int] | None:
        """Return the slots noted since the last call; None: all slots were assigned again."""
        noted, self._noted = self._noted, set()
        return noted

    def spread(self) -> None:
        """Assign all slots again, with vacant slots evenly in between. O(nodes)."""
        self._lay_out(gap_after=PER_VACANT - 1)

    def close_gaps(self) -> None:
        """Make the slot of each node equal to its position. O(nodes)."""
        if self.vacant:
            self._lay_out(gap_after=len(self._in_order) + 1)

    def _lay_out(self, *, gap_after: int) -> None:
        self._noted = None
        self.by_slot.clear()
        self.vacant.clear()
        for position, node in enumerate(self._in_order):
            if position and not position % gap_after:
                self._append_vacant()
            node.slot = len(self.by_slot)
            self.by_slot.append(node)
        if gap_after <= len(self._in_order):
            self._append_vacant()

    def _append_vacant(self) -> None:
        slot = len(self.by_slot)
        self.vacant.add(slot)
        self.by_slot.append(self._nobody(slot))

    def _nobody(self, slot: int) -> NodeState:
        """Return the placeholder for a vacant slot: an empty node that is never evaluated."""
        nobody = NodeState(NodeInfo(name=""), -1, self._zero, self._zero)
        nobody.slot = slot
        return nobody

    def _room_at(self, place: int) -> int | None:
        """Return a vacant slot between the neighbours of a position, moving nodes if necessary."""
        nodes = self._in_order
        before = nodes[place - 1].slot if place else -1
        after = nodes[place + 1].slot if place + 1 < len(nodes) else len(self.by_slot)
        if after - before > 1:
            return (before + after) // 2
        for distance in range(FARTHEST):
            if after + distance in self.vacant:
                for slot in range(after + distance, after, -1):
                    self._put(slot, self.by_slot[slot - 1])
                return after
            if before - distance in self.vacant:
                for slot in range(before - distance, before):
                    self._put(slot, self.by_slot[slot + 1])
                return before
        return None

    def _put(self, slot: int, node: NodeState) -> None:
        node.slot = slot
        self.by_slot[slot] = node
        self.vacant.discard(slot)
        self.note(slot)

    def _vacate(self, slot: int) -> None:
        self.by_slot[slot] = self._nobody(slot)
        self.vacant.add(slot)
        self.note(slot)

    def _number(self, first: int) -> None:
        for index in range(first, len(self._in_order)):
            self._in_order[index].index = index


def _name(node: NodeState) -> str:
    return node.name
