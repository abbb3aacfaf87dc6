"""The plain loop: evaluates every predicate and score on every node, each time.

It is the definition of what engines answer, and relies on nothing that plugins declare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

from attrs import frozen

from batchsched.causes import UnfitReason
from batchsched.errors import plugin_error
from batchsched.model.immutable import EMPTY, FrozenMap
from batchsched.model.reasons import NodeTally, Unfit, summed_refusals
from batchsched.model.resources import EPSILON
from batchsched.model.validation.values import shown
from batchsched.placement import Fit, first_of_best
from batchsched.plugin.node_functions import Chooser, NodeScore, Predicate
from batchsched.state.ledger import Ledger
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Dimensions, Vector

CLOSED = Unfit(UnfitReason.RESERVED)
"""The node is reserved for another task."""


@lru_cache(maxsize=64)
def _insufficient(name: str) -> Unfit:
    # As many nodes lack the same thing, it is made once.
    return Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail=name)


class Evaluator(NamedTuple):
    """The predicates and scores of one cycle, applied to a task and a node."""

    predicates: Sequence[tuple[str, Predicate]]
    """In the order of evaluation, with the names of their plugins."""
    scores: Sequence[tuple[str, NodeScore]]
    """With the names of their plugins."""
    dimensions: Dimensions
    node_key: Callable[[TaskState, NodeState], tuple[int, ...]] | None = None
    """Ranks nodes before scores do; None: scores alone rank them."""
    node_key_signature: Callable[[TaskState], Hashable] | None = None
    """All that `node_key` reads besides the node; None: it may read anything."""
    choosers: Sequence[Chooser] = ()
    """Choose for tasks on nodes; where one of them has no choice, a task does not fit."""

    def may_choose(self, task: TaskState) -> bool:
        """Return whether any plugin may choose something for a task."""
        return any(
            each.signature is None or each.signature(task) is not None for each in self.choosers
        )

    def choices(
        self,
        task: TaskState,
        node: NodeState,
        fit: Fit,
        *,
        gone: Collection[TaskState] = (),
        kept: Mapping[str, Hashable] = EMPTY,
    ) -> Mapping[str, Hashable] | Unfit:
        """Return what plugins choose for a task on a node, by plugin, or why one has no choice."""
        found: dict[str, Hashable] = {}
        for name, choose, signature in self.choosers:
            if signature is not None and signature(task) is None:
                continue
            choice = choose(task, node, fit, gone=gone, kept=kept.get(name))
            if isinstance(choice, Unfit):
                return choice
            if choice is not None:
                found[name] = choice
        return FrozenMap(found) if found else EMPTY

    def fits(self, task: TaskState, node: NodeState, fit: Fit) -> bool:
        """Return whether a task fits on a node in a way, and plugins have a choice for it there."""
        return node.fits(task, fit) and not (
            self.choosers and isinstance(self.choices(task, node, fit), Unfit)
        )

    def best(self, task: TaskState, nodes: Sequence[NodeState]) -> NodeState:
        """Return the best of some nodes, at least one, given in node order."""
        totals = self.totals([self.raw_scores(task, node) for node in nodes])
        node_key = self.node_key
        if node_key is None:
            return nodes[first_of_best(totals)]
        keys = [node_key(task, node) for node in nodes]
        places = range(len(nodes))
        return nodes[min(places, key=lambda place: (keys[place], -totals[place], place))]

    def refusal(self, task: TaskState, node: NodeState) -> Unfit | None:
        """Return why the first predicate that rejects the node does so, or None."""
        for name, predicate in self.predicates:
            unfit = refusal_by(name, predicate, task, node)
            if unfit is not None:
                return unfit
        return None

    def infeasible(self, task: TaskState, node: NodeState) -> Unfit | None:
        """Return why the node is infeasible, or None."""
        if node.reserved_tasks and not task.is_best_effort and node.is_closed:
            return CLOSED
        return self.refusal(task, node)

    def raw_scores(self, task: TaskState, node: NodeState) -> tuple[float, ...]:
        """Return the value of each score before normalisation."""
        raw: list[float] = []
        for name, score in self.scores:
            try:
                raw += checked_scores([score.score(task, node)], [node])
            except Exception as error:
                raise plugin_error(name, "node_scores", error) from error
        return tuple(raw)

    def totals(self, raw: Sequence[tuple[float, ...]]) -> list[float]:
        """Return the total score of each node compared, from their raw scores.

        Scores without normalisation are added first, in order, then normalised scores.
        """
        totals: list[float] = [0] * len(raw)
        if not raw:
            return totals
        for position, (_, score) in enumerate(self.scores):
            if score.normalise is None:
                for index, of_node in enumerate(raw):
                    totals[index] += score.weight * of_node[position]
        for position, (name, score) in enumerate(self.scores):
            if score.normalise is not None:
                column = [of_node[position] for of_node in raw]
                lowest, highest = min(column), max(column)
                for index, value in enumerate(column):
                    totals[index] += self.normalised(name, score, value, lowest, highest)
        return totals

    @staticmethod
    def normalised(name: str, score: NodeScore, raw: float, lowest: float, highest: float) -> float:
        """Return a normalised score times its weight, given the extremes of the nodes compared."""
        assert score.normalise is not None
        try:
            normalised = score.weight * score.normalise(raw, lowest, highest)
            if not isfinite(normalised):
                raise ValueError(f"expected a finite number, got {normalised!r}")
            return normalised
        except Exception as error:
            raise plugin_error(name, "node_scores", error) from error

    def lacking_in(self, dimension: int) -> Unfit:
        """Return the reason for an insufficient dimension."""
        return _insufficient(self.dimensions.names[dimension])

    def lacking(self, request: Vector, node: NodeState) -> tuple[Unfit, ...]:
        """Return one reason for each dimension in which `request` does not fit now."""
        missing = map(max, *node.lacking(request, Fit.NOW))
        return tuple(self.lacking_in(d) for d, amount in enumerate(missing) if amount >= EPSILON)


def refusal_by(name: str, predicate: Predicate, task: TaskState, node: NodeState) -> Unfit | None:
    """Return why the predicate of a plugin rejects a node, or None."""
    try:
        unfit = predicate.check(task, node)
        return None if unfit is None else checked_unfit(unfit)
    except Exception as error:
        raise plugin_error(name, "predicates", error) from error


def checked_unfit(unfit: object) -> Unfit:
    """Return the answer of a predicate if it is an `Unfit`; raise `TypeError` otherwise."""
    if not isinstance(unfit, Unfit):
        raise TypeError(f"expected an Unfit or None, got {shown(unfit)}")
    return unfit


def checked_scores(scores: list[float], nodes: Sequence[NodeState]) -> list[float]:
    """Return the answer of a score if it is one finite number for each node. O(nodes)."""
    if len(scores) != len(nodes):
        raise ValueError(f"expected {len(nodes)} scores, one for each node, got {len(scores)}")
    try:
        is_sound = isfinite(sum(scores, 0.0))
    except TypeError:
        is_sound = False
    if not is_sound:
        for score in scores:
            check_score(score)
        raise ValueError(f"expected scores with a finite sum, got {shown(scores)}")
    return scores


def check_score(score: float) -> None:
    """Raise an error unless a score is a finite number."""
    try:
        is_sound = isfinite(0.0 + score)
    except TypeError:
        raise TypeError(f"expected a finite number, got {shown(score)}") from None
    if not is_sound:
        raise ValueError(f"expected a finite number, got {score!r}")


@frozen(eq=False)
class LinearScanPlacement:
    """A placement engine that evaluates every node for every task. O(nodes) for each call."""

    _ledger: Ledger
    _evaluator: Evaluator

    def kind(self, _task: TaskState, /) -> None:
        """Return None: the plain loop does not group tasks."""

    def best(
        self, task: TaskState, fit: Fit, /, among: Collection[int] | None = None
    ) -> NodeState | None:
        """Return the best of the feasible nodes where the task fits in this way."""
        feasible = self.feasible(task, among)
        nodes = [node for node in feasible if self._evaluator.fits(task, node, fit)]
        return self._evaluator.best(task, nodes) if nodes else None

    def feasible_for(self, task: TaskState, /) -> Callable[[NodeState], bool]:
        """Return for a task what says whether a node is feasible for it."""
        return lambda node: self._evaluator.infeasible(task, node) is None

    def first_feasible(self, task: TaskState, /) -> NodeState | None:
        """Return the first feasible node in node order where the task fits now."""
        for node in self._ledger.nodes:
            if self._evaluator.infeasible(task, node) is None and self._evaluator.fits(
                task, node, Fit.NOW
            ):
                return node
        return None

    def feasible(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Sequence[NodeState]:
        """Return all feasible nodes in node order; `among` these, if given."""
        return [
            node
            for node in self._ledger.nodes
            if (among is None or node.slot in among)
            and self._evaluator.infeasible(task, node) is None
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
        return self._evaluator.refusal(task, node)

    def raw_scores(self, task: TaskState, node: NodeState, /) -> tuple[float, ...]:
        """Return each score of the node before normalisation."""
        return self._evaluator.raw_scores(task, node)

    def totals(self, _task: TaskState, raw: Sequence[tuple[float, ...]], /) -> list[float]:
        """Return the total score of each of several nodes compared."""
        return self._evaluator.totals(raw)

    def nodes_changed(self, _slots: Collection[int], /) -> bool:
        """Return True: nothing is kept."""
        return True

    def tally(self, task: TaskState, /) -> NodeTally:
        """Return how many nodes could accept the task now, and why the others could not."""
        available = 0
        unfit: Counter[Unfit] = Counter()
        for node in self._ledger.nodes:
            infeasible = self._evaluator.infeasible(task, node)
            if infeasible is not None:
                unfit[infeasible] += 1
            elif not node.fits(task):
                unfit.update(self._evaluator.lacking(task.init_resreq, node))
            elif isinstance(choices := self._evaluator.choices(task, node, Fit.NOW), Unfit):
                unfit[choices] += 1
            else:
                available += 1
        return NodeTally(len(self._ledger.nodes), available, summed_refusals(unfit))

    def _totals(self, task: TaskState, nodes: Sequence[NodeState]) -> list[float]:
        evaluator = self._evaluator
        return evaluator.totals([evaluator.raw_scores(task, node) for node in nodes])
