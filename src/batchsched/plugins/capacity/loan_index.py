"""What leaves have on loan on nodes, and its sums by node."""

from __future__ import annotations

from collections.abc import Collection

from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector

__all__ = ["LoanIndex"]


class LoanIndex:
    """What is on loan on each node, leaf by leaf, for the leaves that were looked up.

    Nodes are given by their index. Units and sums of a node are kept until it changes.
    """

    __slots__ = ("_leaves", "changes", "sums", "units")

    def __init__(self) -> None:
        self._leaves: dict[int, dict[int, None]] = {}
        self.changes: list[int] = []
        """The nodes where anything changed in this cycle, in order; one may come twice."""
        self.units: dict[tuple[int, int], list[EvictionUnit]] = {}
        """By leaf and node, the units on loan, least valuable first, where they were looked up."""
        self.sums: dict[tuple[int, int], tuple[Vector, Vector]] = {}
        """By leaf and node, what surplus and all units on loan hold there, where looked up."""

    def leaves_on(self, node: int) -> Collection[int]:
        """Return the leaves that had anything on loan on a node when they were looked up."""
        return self._leaves.get(node, {}).keys()

    def enter(self, leaf: int, node: int) -> None:
        """Record that a leaf has something on loan on a node where it had nothing."""
        self._leaves.setdefault(node, {})[leaf] = None

    def leave(self, leaf: int, node: int) -> None:
        """Record that a leaf has nothing on loan on a node any more."""
        del self._leaves[node][leaf]

    def change(self, leaf: int, node: int) -> None:
        """Record that something changed in what a leaf has on loan on a node."""
        self.units.pop((leaf, node), None)
        self.sums.pop((leaf, node), None)
        self.changes.append(node)

    def begin_cycle(self) -> None:
        """Forget units and sums: another cycle schedules other jobs."""
        self.changes.clear()
        self.units.clear()
        self.sums.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.begin_cycle()
        self._leaves.clear()
