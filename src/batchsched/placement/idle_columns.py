"""The idle amounts of all nodes by dimension, for scans over all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from batchsched.model.resources import EPSILON
from batchsched.state.change_log import NodeCursor
from batchsched.state.records import NodeState
from batchsched.state.vectors import Dimensions, Vector

__all__ = ["IdleColumns"]


class IdleColumns:
    """The nodes' idle amounts as one list for each dimension, updated on demand.

    Iterating over a list of numbers costs a tenth of iterating over nodes.
    """

    __slots__ = (
        "_columns",
        "_cursor",
        "_dimensions",
        "_nodes",
        "diverging",
        "grown",
        "reserved",
        "vacant",
    )

    def __init__(
        self,
        nodes: Sequence[NodeState],
        changes: Sequence[int],
        dimensions: Dimensions,
        vacant: AbstractSet[int] = frozenset(),
    ) -> None:
        self._nodes = nodes
        self._dimensions = dimensions
        self.vacant = vacant
        """The slots without a node."""
        self._cursor = NodeCursor(changes)
        self._columns: list[list[int]] = [
            [node.idle[dimension] for node in nodes] for dimension in range(len(dimensions.names))
        ]
        self.diverging: set[int] = {node.slot for node in nodes if node.divergence_count}
        """The slots of the nodes whose derived amounts differ from the idle amount."""
        self.reserved: set[int] = {node.slot for node in nodes if node.reserved_tasks}
        """The slots of the nodes with reservations."""
        self.grown: list[int] = []
        """The slots of nodes that may fit or accept tasks that they did not before, in order."""

    def refresh(self) -> None:
        """Bring the columns up to date. O(changes since the last time)."""
        changed = self._cursor.unread()
        if not changed:
            return
        nodes, columns, diverging, reserved = (
            self._nodes,
            self._columns,
            self.diverging,
            self.reserved,
        )
        for index in set(changed):
            node = nodes[index]
            grew = index in diverging or index in reserved
            for column, amount in zip(columns, node.idle, strict=True):
                if amount > column[index]:
                    grew = True
                column[index] = amount
            if node.divergence_count:
                diverging.add(index)
            elif diverging:
                diverging.discard(index)
            if node.reserved_tasks:
                reserved.add(index)
            elif reserved:
                reserved.discard(index)
            if grew:
                self.grown.append(index)

    def fitting(self, request: Vector, among: Iterable[int] | None = None) -> list[int]:
        """Return the slots of the nodes where `request` fits the idle amount.

        They are in order, or in the order of `among` if only these are to be considered.
        """
        self.refresh()
        if not self._dimensions.are_small:
            found = self._fitting_exactly(request, among)
        else:
            # Of whole numbers as much as is wanted must be there, and comparing those is quick.
            found = self._fitting_whole(request, among)
        if self.vacant:
            found = [i for i in found if i not in self.vacant]
        return found

    def _fitting_exactly(self, request: Vector, among: Iterable[int] | None) -> list[int]:
        found = range(len(self._nodes)) if among is None else among
        for wanted, column in zip(request, self._columns, strict=True):
            if wanted >= EPSILON:
                found = [i for i in found if wanted - column[i] < EPSILON]
        return list(found)

    def _fitting_whole(self, request: Vector, among: Iterable[int] | None) -> list[int]:
        slots: Iterable[int] = range(len(self._nodes)) if among is None else among
        # The innermost loop of all, so up to three dimensions at once.
        match [pair for pair in zip(self._columns, request, strict=True) if pair[1]]:
            case []:
                return list(slots)
            case [(a, x)]:
                return [i for i in slots if a[i] >= x]
            case [(a, x), (b, y)]:
                return [i for i in slots if b[i] >= y and a[i] >= x]
            case [(a, x), (b, y), (c, z), *others]:
                found = [i for i in slots if c[i] >= z and b[i] >= y and a[i] >= x]
                for column, amount in others:
                    found = [i for i in found if column[i] >= amount]
                return found
            case _:
                raise AssertionError
