"""What the plugins say of one node for one task, asked one function after the other."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.errors import BatchschedError, PluginError
from batchsched.plugin import NodeScore, Predicate
from batchsched.reasons import Unfit, UnfitReason
from batchsched.resources import EPSILON
from batchsched.states import NodeState, TaskState
from batchsched.vectors import Dimensions, Vector

__all__ = ["CLOSED", "Judgement", "plugin_error"]

CLOSED = Unfit(UnfitReason.RESERVED)
"""The node is kept for another task."""


class Judgement:
    """The predicates and scores of one cycle, applied to a task and a node."""

    __slots__ = ("_lacking", "dimensions", "predicates", "scores")

    def __init__(
        self,
        predicates: Sequence[tuple[str, Predicate]],
        scores: Sequence[tuple[str, NodeScore]],
        dimensions: Dimensions,
    ) -> None:
        self.predicates = tuple(predicates)
        self.scores = tuple(scores)
        self.dimensions = dimensions
        self._lacking = tuple(
            Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail=name) for name in dimensions.names
        )

    def refusal(self, task: TaskState, node: NodeState) -> Unfit | None:
        """Return the first predicate's refusal, or None."""
        for name, predicate in self.predicates:
            try:
                unfit = predicate.check(task, node)
            except Exception as error:
                raise plugin_error(name, "predicates", error) from error
            if unfit is not None:
                return unfit
        return None

    def infeasible(self, task: TaskState, node: NodeState) -> Unfit | None:
        """Return why the node cannot be considered at all, or None."""
        if node.reserved_tasks and not task.is_best_effort and node.is_closed:
            return CLOSED
        return self.refusal(task, node)

    def raw_scores(self, task: TaskState, node: NodeState) -> tuple[float, ...]:
        """Return what each score says, before it is normalised."""
        raw: list[float] = []
        for name, score in self.scores:
            try:
                raw.append(score.score(task, node))
            except Exception as error:
                raise plugin_error(name, "node_scores", error) from error
        return tuple(raw)

    def totals(self, raw: Sequence[tuple[float, ...]]) -> list[float]:
        """Return the total score of each node compared, from their raw scores.

        Scores that are taken as they are come first, in order; then those that are normalised.
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
        """Return what a raw score comes to among nodes with these extremes, times its weight."""
        assert score.normalise is not None
        try:
            return score.weight * score.normalise(raw, lowest, highest)
        except Exception as error:
            raise plugin_error(name, "node_scores", error) from error

    def lacking_in(self, dimension: int) -> Unfit:
        """Return the reason that there is too little of a dimension."""
        return self._lacking[dimension]

    def lacking(self, request: Vector, node: NodeState) -> tuple[Unfit, ...]:
        """Return one reason for each dimension in which `request` does not fit now."""
        short: set[int] = set()
        accounts = [node.idle]
        if node.special:
            accounts += [node.future_idle, node.accessible, node.eventual]
        for account in accounts:
            for position, (wanted, there) in enumerate(zip(request, account, strict=True)):
                if wanted - there >= EPSILON:
                    short.add(position)
        return tuple(self._lacking[position] for position in sorted(short))


def plugin_error(name: str, point: str, error: Exception) -> BatchschedError:
    """Return the error that says which plugin failed where."""
    return PluginError(name, point, f"{type(error).__name__}: {error}")
