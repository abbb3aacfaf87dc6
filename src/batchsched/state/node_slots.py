"""Numbers of nodes that last: where engines keep what they know of each node.

Slots follow node order, as positions do, but a node that comes or goes changes those of few others:
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
"""Of so many slots one is left vacant, when nodes are spread out."""
FARTHEST = 64
"""So many nodes are moved at most to make room for one; else all are spread out again."""


class NodeSlots:
    """The nodes of a cluster by slot, and in order."""

    def __init__(self, nodes: list[NodeState], changes: list[int], zero: Vector) -> None:
        self._in_order = nodes
        self._changes = changes
        self._zero = zero
        self.by_slot: list[NodeState] = list(nodes)
        """What is at vacant slots is no node of the cluster."""
        self.vacant: set[int] = set()
        """The slots without a node."""
        self._noted: set[int] | None = set()
        """The slots at which something else is now, or is described anew; None: all may be."""

    def insert(self, node: NodeState) -> None:
        """Let a node come. O(nodes) for the positions, and few slots change."""
        place = bisect_left(self._in_order, node.name, key=_name)
        self._in_order.insert(place, node)
        self._number(place)
        slot = self._room_at(place)
        if slot is None:
            self.spread()
        else:
            self._put(slot, node)

    def remove(self, node: NodeState) -> None:
        """Let a node go. O(nodes) for the positions; one slot changes."""
        del self._in_order[node.index]
        self._number(node.index)
        self._vacate(node.slot)

    def note(self, slot: int) -> None:
        """Record that the node at a slot is another one, or is described anew."""
        self._changes.append(slot)
        if self._noted is not None:
            self._noted.add(slot)

    def take_changed(self) -> set[int] | None:
        """Return the slots that were noted since this was last asked; None: all were dealt anew."""
        noted, self._noted = self._noted, set()
        return noted

    def spread(self) -> None:
        """Give all nodes other slots, so that vacant ones are everywhere in between. O(nodes)."""
        self._lay_out(gap_after=PER_VACANT - 1)

    def close_gaps(self) -> None:
        """Let the slot of each node be its position. O(nodes)."""
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
        """Return what stands at a vacant slot: it has nothing, and is never asked about."""
        nobody = NodeState(NodeInfo(name=""), -1, self._zero, self._zero)
        nobody.slot = slot
        return nobody

    def _room_at(self, place: int) -> int | None:
        """Return a slot that was made vacant between the nodes before and after a position."""
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
