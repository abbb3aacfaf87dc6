"""The plain loop, which evaluates every function on every node each time.

It is the simple reference with which all other engines are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.placement.evaluator import Evaluator
from batchsched.placement.interface import FITS, Fit, first_of_best
from batchsched.state.ledger import Ledger
from batchsched.state.records import NodeState, TaskState

__all__ = ["LinearScanPlacement"]


class LinearScanPlacement:
    """A placement engine that evaluates every node for every task. O(nodes) for each call."""

    def __init__(self, ledger: Ledger, evaluator: Evaluator) -> None:
        self._nodes: Sequence[NodeState] = ledger.nodes
        self._judgement = evaluator

    def kind(self, _task: TaskState, /) -> None:
        """Return None: the plain loop does not group tasks."""

    def best(self, task: TaskState, fit: Fit, /) -> NodeState | None:
        """Return the best of the feasible nodes where the task fits in this way."""
        return self._best(task, [n for n in self.feasible(task) if FITS[fit](n, task.init_resreq)])

    def first_feasible(self, task: TaskState, /) -> NodeState | None:
        """Return the first feasible node in node order where the task fits now."""
        for node in self._nodes:
            if node.fits_now(task.init_resreq) and self._judgement.infeasible(task, node) is None:
                return node
        return None

    def feasible(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Sequence[NodeState]:
        """Return all feasible nodes in node order; `among` these, if given."""
        return [
            node
            for node in self._nodes
            if (among is None or node.slot in among)
            and self._judgement.infeasible(task, node) is None
        ]

    def ranked(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        """Return all feasible nodes, the best first; `among` these, if given."""
        nodes = self.feasible(task)
        totals = self._totals(task, nodes)
        order = sorted(range(len(nodes)), key=lambda position: (-totals[position], position))
        ranked = [nodes[position] for position in order]
        return ranked if among is None else [node for node in ranked if node.slot in among]

    def refusal(self, task: TaskState, node: NodeState, /) -> Unfit | None:
        """Return why the predicates reject the node, or None."""
        return self._judgement.refusal(task, node)

    def raw_scores(self, task: TaskState, node: NodeState, /) -> tuple[float, ...]:
        """Return each score of the node before normalisation."""
        return self._judgement.raw_scores(task, node)

    def totals(self, _task: TaskState, raw: Sequence[tuple[float, ...]], /) -> list[float]:
        """Return the total score of each of several nodes compared."""
        return self._judgement.totals(raw)

    def nodes_changed(self, _slots: Collection[int], /) -> bool:
        """Return True: nothing is kept."""
        return True

    def tally(self, task: TaskState, /) -> NodeTally:
        """Return how many nodes could accept the task now, and why the others could not."""
        available = 0
        unfit: Counter[Unfit] = Counter()
        for node in self._nodes:
            infeasible = self._judgement.infeasible(task, node)
            if infeasible is not None:
                unfit[infeasible] += 1
            elif node.fits_now(task.init_resreq):
                available += 1
            else:
                unfit.update(self._judgement.lacking(task.init_resreq, node))
        return NodeTally(len(self._nodes), available, unfit)

    def _totals(self, task: TaskState, nodes: Sequence[NodeState]) -> list[float]:
        return self._judgement.totals([self._judgement.raw_scores(task, n) for n in nodes])

    def _best(self, task: TaskState, nodes: Sequence[NodeState]) -> NodeState | None:
        if not nodes:
            return None
        return nodes[first_of_best(self._totals(task, nodes))]
