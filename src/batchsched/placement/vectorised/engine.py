"""The indexed engine with a vectorised search for the best node (extra ``fast``).

Its answers equal those of the other engines. It leaves kinds of tasks for which a plugin
has no array function, and amounts that floats cannot represent exactly, to the indexed engine.
"""

from __future__ import annotations

from collections.abc import Collection

from batchsched.errors import plugin_error
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.evaluator import Evaluator
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.vectorised.node_matrix import NodeMatrix
from batchsched.placement.vectorised.score_array import (
    ArrayFunction,
    EquivalenceClassOnArrays,
    ScoreArray,
    is_exact,
)
from batchsched.plugin.node_arrays import LARGEST_WEIGHT_IN_ARRAYS
from batchsched.state.ledger import Ledger
from batchsched.state.recently_used import RecentlyUsed
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import LARGEST_IN_ARRAYS

__all__ = ["VectorisedPlacement"]


class VectorisedPlacement(IndexedPlacement):
    """A placement engine that evaluates many nodes at once. Pass it to `Scheduler`.

    It needs NumPy, which the extra ``fast`` installs. It pays off for tasks of many different
    shapes on many nodes; see the page on performance.
    """

    def __init__(self, ledger: Ledger, evaluator: Evaluator) -> None:
        super().__init__(ledger, evaluator)
        self._table: NodeMatrix | None = None
        self._scores = RecentlyUsed[int, ScoreArray](most=self._most_tables)
        self._on_arrays: dict[int, EquivalenceClassOnArrays | None] = {}

    def nodes_changed(self, slots: Collection[int], /) -> bool:
        """Drop all arrays: they have a column for each node."""
        self._table = None
        self._scores.clear()
        self._on_arrays.clear()
        return super().nodes_changed(slots)

    def _best_now(self, task: TaskState, kind: EquivalenceClass) -> NodeState | None:
        scores = self._scores.use(task.kind)
        if scores is None:
            on_arrays = self._kind_on_arrays(task, kind)
            if on_arrays is None:
                return super()._best_now(task, kind)
            scores = self._make_scores(task.kind, on_arrays)
        best = scores.best()
        assert self._table is not None
        if not self._table.is_exact or (best is not None and not is_exact(best[0])):
            return super()._best_now(task, kind)
        return None if best is None else self._nodes[best[1]]

    def _make_scores(self, number: int, kind: EquivalenceClassOnArrays) -> ScoreArray:
        if self._table is None:
            self._table = NodeMatrix(self._nodes, self._changes, self._dimensions)
        scores = ScoreArray(kind, self._table, self._nodes, self._changes)
        self._scores.keep(number, scores)
        return scores

    def _kind_on_arrays(
        self, task: TaskState, kind: EquivalenceClass
    ) -> EquivalenceClassOnArrays | None:
        number = task.kind
        if number not in self._on_arrays:
            self._on_arrays[number] = self._make(task, kind) if self._nodes else None
        return self._on_arrays[number]

    def _make(self, task: TaskState, kind: EquivalenceClass) -> EquivalenceClassOnArrays | None:
        if (
            kind.normalised
            or kind.watches
            or kind.only_slots is not None
            or not self._dimensions.are_small
            or max(task.scoring_milli_cpu, task.scoring_memory) >= LARGEST_IN_ARRAYS
        ):
            return None
        checks: list[tuple[str, ArrayFunction]] = []
        for name, predicate in kind.live_predicates:
            if predicate.hints.vectorise is None:
                return None
            try:
                checks.append((name, predicate.hints.vectorise(task)))
            except Exception as error:
                raise plugin_error(name, "predicates", error) from error
        scores: list[tuple[str, int, ArrayFunction]] = []
        for name, score in kind.plain_scores:
            if score.hints.vectorise is None or abs(score.weight) >= LARGEST_WEIGHT_IN_ARRAYS:
                return None
            try:
                scores.append((name, score.weight, score.hints.vectorise(task)))
            except Exception as error:
                raise plugin_error(name, "node_scores", error) from error
        return EquivalenceClassOnArrays(kind, checks, scores)
