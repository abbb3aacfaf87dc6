"""The nodes of a session as arrays, updated on demand (extra ``fast``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from batchsched.state.change_log import NodeCursor
from batchsched.state.records import NodeState
from batchsched.state.vectors import LARGEST_IN_ARRAYS, Dimensions

__all__ = ["NodeMatrix", "NodeView"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class NodeView:
    """Some or all nodes; see `batchsched.plugin.node_arrays.NodeArrays`."""

    __slots__ = ("_dimensions", "amounts", "count")

    def __init__(self, amounts: Floats, dimensions: int) -> None:
        self.amounts = amounts
        """All rows; idle amounts come first."""
        self._dimensions = dimensions
        self.count: int = amounts.shape[1]
        """The number of nodes."""

    @property
    def idle(self) -> Floats:
        """The idle amounts, by dimension and node."""
        return self.amounts[: self._dimensions]

    @property
    def scoring(self) -> Floats:
        """The sums of the tasks' scoring requests: cpu and memory."""
        return self.amounts[self._dimensions : self._dimensions + 2]

    @property
    def tasks(self) -> Floats:
        """The number of tasks on each node."""
        row: Floats = self.amounts[self._dimensions + 2]
        return row

    @property
    def max_tasks(self) -> Floats:
        """The most tasks on each node; infinity without a limit."""
        row: Floats = self.amounts[self._dimensions + 3]
        return row

    @property
    def allocatable(self) -> Floats:
        """The allocatable amounts, by dimension and node."""
        return self.amounts[self._dimensions + 4 : 2 * self._dimensions + 4]

    @property
    def allocatable_or_one(self) -> Floats:
        """The allocatable amounts, with 1 in place of 0."""
        return self.amounts[2 * self._dimensions + 4 :]

    def column(self, *numbers: float) -> Floats:
        """Return numbers as a column, to combine with as many rows."""
        return np.array(numbers, np.float64)[:, np.newaxis]


class NodeMatrix:
    """All nodes: a row for each amount, a column for each node.

    The columns of changed nodes are updated on demand.
    """

    def __init__(
        self, nodes: Sequence[NodeState], changes: Sequence[int], dimensions: Dimensions
    ) -> None:
        self._nodes = nodes
        self._cursor = NodeCursor(changes)
        self._dimensions = len(dimensions.names)
        self.is_exact = dimensions.are_small
        """Whether all amounts are whole numbers below `LARGEST_IN_ARRAYS`."""
        self.needs_scalar_path: set[int] = set()
        """The indices of nodes with promises, releases or reservations: evaluated one by one."""
        self.log: Indices = np.zeros(1024, np.intp)
        """The part of the change log that was read."""
        allocatable = np.array([node.allocatable for node in nodes], float).T
        limits = [node.info.max_tasks for node in nodes]
        self._amounts = np.vstack(
            [
                np.zeros((self._dimensions + 3, len(nodes))),
                np.array([[np.inf if limit is None else limit for limit in limits]]),
                allocatable,
                np.where(allocatable == 0, 1.0, allocatable),
            ]
        )
        self._write(range(len(nodes)))

    def refresh(self) -> None:
        """Update the arrays. O(changes since the last time)."""
        begin = self._cursor.position
        new = self._cursor.unread()
        if not new:
            return
        end = self._cursor.position
        if end > len(self.log):
            self.log = np.concatenate([self.log, np.zeros(max(len(self.log), end), np.intp)])
        self.log[begin:end] = new
        self._write(set(new))

    def _write(self, indices: range | set[int]) -> None:
        amounts, nodes, needs_scalar_path = self._amounts, self._nodes, self.needs_scalar_path
        rows = self._dimensions + 3
        for index in indices:
            node = nodes[index]
            milli_cpu, memory = node.scoring_milli_cpu, node.scoring_memory
            if milli_cpu >= LARGEST_IN_ARRAYS or memory >= LARGEST_IN_ARRAYS:
                self.is_exact = False
            amounts[:rows, index] = (*node.idle, milli_cpu, memory, len(node.tasks))
            if node.divergence_count or node.reserved_tasks:
                needs_scalar_path.add(index)
            else:
                needs_scalar_path.discard(index)

    def all(self) -> NodeView:
        """Return all nodes, as of the last `refresh`."""
        return NodeView(self._amounts, self._dimensions)

    def some(self, indices: Indices) -> NodeView:
        """Return these nodes, as of the last `refresh`."""
        return NodeView(self._amounts.take(indices, 1), self._dimensions)
