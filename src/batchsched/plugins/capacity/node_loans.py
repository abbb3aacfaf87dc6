"""The units on loan, by node."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter

from batchsched.plugins.capacity.loan_index import LoanIndex
from batchsched.state.turn_order import SortKey
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector

__all__ = ["NodeLoans"]

_value: Callable[[EvictionUnit], tuple[int, SortKey]] = attrgetter("value")


class NodeLoans:
    """The units on loan of one queue, by the nodes where their own tasks run.

    Nodes are identified by the index that they had when a unit was added.
    """

    __slots__ = ("_index", "_leaf", "_nodes_of", "_on_node", "_victims", "least")

    def __init__(self, leaf: int, units: Iterable[EvictionUnit], index: LoanIndex) -> None:
        """Begin with all that is on loan. O(units log units).

        Args:
            leaf: the position of the queue.
            units: what it has on loan.
            index: what all queues have on loan; kept up to date.

        """
        self._leaf = leaf
        self._index = index
        self._nodes_of: dict[EvictionUnit, Sequence[int]] = {}
        self._on_node: dict[int, list[EvictionUnit]] = {}
        """The most valuable first."""
        self._victims: dict[str, int] = {}
        """For each task that would be evicted with units on loan, by UID, the number of units."""
        self.least: Vector | None = None
        """By dimension, the least that a first task of a unit holds; None: there was no unit.

        Of all units that were ever on loan, so that it never grows; without backfill units.
        """
        for unit in sorted(units, key=_value):
            self._enter(unit)
            for node in self._nodes_of[unit]:
                self._there(node).append(unit)

    @property
    def nodes(self) -> Collection[int]:
        """The indices of the nodes where units on loan run."""
        return self._on_node.keys()

    def on_node(self, node: int) -> Iterable[EvictionUnit]:
        """Return the units on loan with tasks on a node, the least valuable first."""
        return reversed(self._on_node.get(node, ()))

    def nodes_of(self, unit: EvictionUnit) -> Sequence[int]:
        """Return the indices of the nodes where a unit runs, if it is on loan."""
        return self._nodes_of.get(unit, ())

    def has_victim(self, uid: str) -> bool:
        """Return whether a task would be evicted with a unit on loan."""
        return uid in self._victims

    def add(self, unit: EvictionUnit) -> None:
        """Add a unit on loan if it is not there yet."""
        if unit not in self._nodes_of:
            self._enter(unit)
            for node in self._nodes_of[unit]:
                insort(self._there(node), unit, key=_value)

    def discard(self, unit: EvictionUnit) -> None:
        """Remove a unit that is no longer on loan, if it is there."""
        if unit not in self._nodes_of:
            return
        for node in self._nodes_of.pop(unit):
            there = self._on_node[node]
            place = bisect_left(there, unit.value, key=_value)
            if there[place] is not unit:
                raise AssertionError(f"expected {unit!r} at the position of its value")
            del there[place]
            if not there:
                del self._on_node[node]
                self._index.leave(self._leaf, node)
            self._index.change(self._leaf, node)
        for task in unit.victims:
            self._victims[task.uid] -= 1
            if not self._victims[task.uid]:
                del self._victims[task.uid]

    def _there(self, node: int) -> list[EvictionUnit]:
        self._index.change(self._leaf, node)
        there = self._on_node.get(node)
        if there is None:
            there = self._on_node[node] = []
            self._index.enter(self._leaf, node)
        return there

    def _enter(self, unit: EvictionUnit) -> None:
        nodes: dict[int, None] = {}
        for task in unit.tasks:
            assert task.node is not None
            nodes[task.node.index] = None
        self._nodes_of[unit] = tuple(nodes)
        if not unit.is_backfill:
            size = unit.tasks[0].resreq
            self.least = size if self.least is None else tuple(map(min, self.least, size))
        for task in unit.victims:
            self._victims[task.uid] = self._victims.get(task.uid, 0) + 1
