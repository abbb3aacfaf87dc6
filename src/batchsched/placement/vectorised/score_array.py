"""The scores of all nodes for one kind of task, in one array (extra ``fast``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from batchsched.errors import plugin_error
from batchsched.placement.equivalence_class import LARGEST_EXACT, EquivalenceClass
from batchsched.placement.vectorised.node_matrix import Floats, Indices, NodeMatrix, NodeView
from batchsched.plugin.node_arrays import NodeArrays, Numbers
from batchsched.state.change_log import NodeCursor
from batchsched.state.records import NodeState

__all__ = ["ArrayFunction", "EquivalenceClassOnArrays", "ScoreArray"]

ArrayFunction = Callable[[NodeArrays], Numbers]

FEW = 12
"""Up to this many nodes are evaluated one by one; more, through arrays."""
_NOWHERE = -np.inf


class EquivalenceClassOnArrays:
    """The checks and scores of one kind of task as array functions."""

    __slots__ = ("_accepted", "_checks", "_scores", "_wanted", "kind")

    def __init__(
        self,
        kind: EquivalenceClass,
        checks: Sequence[tuple[str, ArrayFunction]],
        scores: Sequence[tuple[str, int, ArrayFunction]],
    ) -> None:
        self.kind = kind
        # Comparing with zero-dimensional arrays is a third faster than with Python numbers.
        self._wanted = [
            (row, np.array(amount, np.float64)) for row, amount in enumerate(kind.request) if amount
        ]
        accepted = kind.accepts_by_description
        self._accepted: NDArray[np.bool_] | None = None
        if accepted is not None:
            assert isinstance(accepted, bytearray)
            self._accepted = np.frombuffer(accepted, np.bool_)
        self._checks = checks
        self._scores = scores

    def totals(self, view: NodeView, indices: Indices | None) -> Floats:
        """Return each node's score; minus infinity where the task does not fit or is rejected."""
        accepts: NDArray[np.bool_] | None = None
        amounts = view.amounts  # idle amounts come first
        for row, amount in self._wanted:
            fits = amounts[row] >= amount
            accepts = fits if accepts is None else accepts & fits
        if self._accepted is not None:
            accepted = self._accepted if indices is None else self._accepted[indices]
            accepts = accepted if accepts is None else accepts & accepted
        for name, check in self._checks:
            passes = _evaluated(name, "predicates", check, view).astype(np.bool_)
            accepts = passes if accepts is None else accepts & passes
        totals: Floats | None = None
        for name, weight, score in self._scores:
            values = _evaluated(name, "node_scores", score, view)
            if weight != 1:
                values = weight * values.astype(np.float64)
            totals = values if totals is None else totals + values
        if totals is None:
            totals = np.zeros(view.count)
        return totals if accepts is None else np.where(accepts, totals, _NOWHERE)

    def total(self, node: NodeState) -> float:
        """Return one node's score, computed without arrays."""
        total = self.kind.score_now(node)
        return _NOWHERE if total is None else total


class ScoreArray:
    """The score of every node for one kind of task, updated on demand."""

    __slots__ = ("_cursor", "_kind", "_nodes", "_table", "_totals")

    def __init__(
        self,
        kind: EquivalenceClassOnArrays,
        table: NodeMatrix,
        nodes: Sequence[NodeState],
        changes: Sequence[int],
    ) -> None:
        self._kind = kind
        self._table = table
        self._nodes = nodes
        self._cursor = NodeCursor(changes)
        self._totals = self._evaluate_all()

    def best(self) -> tuple[float, int] | None:
        """Return the highest score, and the first node in node order with it; None: no node.

        O(changes since the last time), and a fraction of a nanosecond for each node.
        """
        self._refresh()
        index = int(self._totals.argmax())
        total = float(self._totals[index])
        return None if total == _NOWHERE else (total, index)

    def _refresh(self) -> None:
        begin = self._cursor.position
        new = self._cursor.unread()
        if not new:
            return
        if len(new) <= FEW:
            for index in new:
                self._totals[index] = self._kind.total(self._nodes[index])
            return
        if 2 * len(new) > len(self._nodes):
            self._totals = self._evaluate_all()
            return
        table = self._table
        table.refresh()
        changed = table.log[begin : self._cursor.position]
        self._totals[changed] = self._kind.totals(table.some(changed), changed)
        if table.needs_scalar_path:
            self._evaluate_one_by_one(table.needs_scalar_path.intersection(new))

    def _evaluate_all(self) -> Floats:
        self._table.refresh()
        self._totals = self._kind.totals(self._table.all(), None).astype(np.float64)
        self._evaluate_one_by_one(self._table.needs_scalar_path)
        return self._totals

    def _evaluate_one_by_one(self, indices: set[int]) -> None:
        for index in indices:
            self._totals[index] = self._kind.total(self._nodes[index])


def is_exact(total: float) -> bool:
    """Return whether the highest score is certain to differ from all lower ones."""
    return -LARGEST_EXACT < total < LARGEST_EXACT


def _evaluated(name: str, point: str, function: ArrayFunction, view: NodeView) -> Floats:
    """Return the values of a plugin's function if they are one finite number for each node."""
    wanted = f"an array with one number for each of {view.count} nodes"
    try:
        answer: object = function(cast("NodeArrays", view))
        if not isinstance(answer, np.ndarray):
            raise TypeError(f"expected {wanted}, got {answer!r}")
        values = cast("Floats", answer)
        if values.shape != (view.count,):
            raise TypeError(f"expected {wanted}, got {values!r}")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"expected finite numbers, got {values!r}")
    except Exception as error:
        raise plugin_error(name, point, error) from error
    return values
