"""Tallies of tasks with equal constraints and different requests, from sorted idle amounts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.model.resources import EPSILON
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.evaluator import Evaluator
from batchsched.state.records import NodeState
from batchsched.state.vectors import Vector

__all__ = ["SharedTallies"]


class SharedTallies:
    """Tallies of classes that differ only in their requests, until any node changes.

    O(nodes x checks) to create. The first tally is a plain count; the second sorts the nodes by
    each dimension requested. From then on, a tally takes a binary search for each dimension, and
    examines one by one only nodes with enough of the scarcest dimension, and those with promises or
    releases.
    """

    __slots__ = ("_columns", "_diverging", "_evaluator", "_is_first", "_nodes", "_rest", "_unfit")

    def __init__(
        self, kind: EquivalenceClass, evaluator: Evaluator, nodes: Sequence[NodeState]
    ) -> None:
        self._evaluator = evaluator
        self._nodes = nodes
        self._unfit: Counter[Unfit] = Counter()
        """Why nodes are infeasible, which does not depend on the request."""
        self._diverging: list[NodeState] = []
        """The feasible nodes with promises and releases: they have four amounts."""
        self._rest: list[NodeState] = []
        """The other feasible nodes."""
        self._is_first = True
        self._columns: dict[int, tuple[list[int], list[NodeState]]] = {}
        """By dimension, the idle amounts of the rest in ascending order, with the nodes."""
        is_rejected = bool(kind.checks) or not kind.is_best_effort
        for node in nodes:
            infeasible = kind.infeasible(node) if is_rejected else None
            if infeasible is not None:
                self._unfit[infeasible] += 1
            elif node.divergence_count:
                self._diverging.append(node)
            else:
                self._rest.append(node)

    def tally(self, kind: EquivalenceClass) -> NodeTally:
        """Return the tally of a class."""
        request = kind.request
        unfit = self._unfit.copy()
        candidates: Sequence[NodeState] = self._rest
        for dimension, wanted in enumerate(request):
            if wanted < EPSILON:
                continue
            enough = self._with_enough(dimension, wanted)
            short = len(self._rest) - len(enough)
            if short:
                unfit[self._evaluator.lacking_in(dimension)] += short
            if len(enough) < len(candidates):
                candidates = enough
        self._is_first = False
        available = sum(kind.fits_idle(node.idle) for node in candidates)
        available += self._add_diverging(request, unfit)
        return NodeTally(len(self._nodes), available, dict(unfit))

    def _add_diverging(self, request: Vector, unfit: Counter[Unfit]) -> int:
        available = 0
        for node in self._diverging:
            if node.fits_now(request):
                available += 1
            else:
                unfit.update(self._evaluator.lacking(request, node))
        return available

    def _with_enough(self, dimension: int, wanted: int) -> Sequence[NodeState]:
        if self._is_first:
            # Constraints that no other class has would not be worth sorting.
            return [node for node in self._rest if wanted - node.idle[dimension] < EPSILON]
        column = self._columns.get(dimension)
        if column is None:
            nodes = sorted(self._rest, key=lambda node: node.idle[dimension])
            column = [node.idle[dimension] for node in nodes], nodes
            self._columns[dimension] = column
        amounts, nodes = column
        return nodes[bisect_left(amounts, True, key=lambda there: wanted - there < EPSILON) :]
