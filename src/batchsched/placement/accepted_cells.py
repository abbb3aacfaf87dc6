"""The cells of the nodes that unlike tasks accept, where finding nodes in cells pays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from batchsched.placement.accepted_nodes import Accepts
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.node_cells import NodeCells
from batchsched.placement.node_states import NodeStates
from batchsched.state.recently_used import RecentlyUsed
from batchsched.state.records import NodeState

__all__ = ["CellsOfAcceptedNodes"]

FEWEST_NODES = 200
"""With fewer nodes, examining all is as fast."""

NODES_PER_GROUP = 10
"""The least average number of nodes in a group; bounds cost something for each group."""

UNLIKE_FIRST = 8
"""Putting all nodes into cells costs about as much as so many searches without cells."""

AGAIN = 2
"""So many classes placed once make up for one that is placed again and needs an index after all."""


class CellsOfAcceptedNodes:
    """The cells for each set of nodes that is accepted by description and asked about often."""

    __slots__ = ("_changes", "_kept", "_nodes")

    def __init__(self, nodes: Sequence[NodeState], changes: Sequence[int], *, most: int) -> None:
        """Begin without cells.

        Args:
            nodes: the nodes by slot.
            changes: the log of changed nodes.
            most: the most sets of nodes that are kept.

        """
        self._nodes = nodes
        self._changes = changes
        self._kept = RecentlyUsed[Hashable, _Kept](most=most)

    def clear(self) -> None:
        """Drop everything: nodes were added, removed or changed."""
        self._kept.clear()

    def of(self, kind: EquivalenceClass, states: NodeStates) -> NodeCells | None:
        """Return the cells of the nodes that a class accepts; None: examine all nodes instead.

        Cells are made once so many classes were placed, and so few of them again, that they pay.
        O(1), and O(nodes) when they are made.

        Args:
            kind: a class that `is_scored_by_state`, and is placed for the first time.
            states: the numbers of the states of nodes.

        """
        hints = kind.score_cells
        kept = self._kept_of(kind)
        if hints is None or kept is None or not kept.has_enough:
            return None
        kept.unlike += 1
        if kept.unlike <= UNLIKE_FIRST:
            return None
        if kept.cells is None:
            cells = NodeCells(hints, kept.accepts, self._nodes, self._changes, states)
            kept.has_enough = cells.nodes_per_group >= NODES_PER_GROUP
            if not kept.has_enough:
                return None
            kept.cells = cells
        return kept.cells

    def placed_again(self, kind: EquivalenceClass) -> None:
        """Note that a class for which `of` was called is placed again. O(1)."""
        kept = self._kept_of(kind)
        if kept is not None:
            kept.unlike -= 1 + AGAIN

    def _kept_of(self, kind: EquivalenceClass) -> _Kept | None:
        if kind.score_cells is None:
            return None
        accepts = kind.accepts_by_description
        key = id(accepts), *[hint for _, hint in kind.score_cells]
        kept = self._kept.use(key)
        if kept is None:
            kept = _Kept(accepts, has_enough=_count(accepts, self._nodes) >= FEWEST_NODES)
            self._kept.keep(key, kept)
        return kept


class _Kept:
    """What is known of one set of accepted nodes."""

    __slots__ = ("accepts", "cells", "has_enough", "unlike")

    def __init__(self, accepts: Accepts | None, *, has_enough: bool) -> None:
        self.accepts = accepts
        """The set, which is kept alive: it is known by its identity."""
        self.has_enough = has_enough
        """Whether there are enough nodes for cells to pay."""
        self.unlike = 0
        """How many classes were placed once, less `AGAIN` for each that was placed again."""
        self.cells: NodeCells | None = None


def _count(accepts: Accepts | None, nodes: Sequence[NodeState]) -> int:
    if accepts is None:
        return len(nodes)
    return sum(accepts) if isinstance(accepts, bytearray) else len(accepts)
