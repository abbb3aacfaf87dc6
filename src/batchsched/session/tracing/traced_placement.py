"""A placement engine that reports its choices as trace events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import evolve

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.placement import FITS, Fit, Placement
from batchsched.placement.plain_loop import Evaluator
from batchsched.plugin.node_functions import NodeScore
from batchsched.session.trace_events import NodeSought, Teller
from batchsched.state.records import NodeState, TaskState

__all__ = ["TracedPlacement"]


class TracedPlacement:
    """A placement engine that reports its choices as trace events."""

    def __init__(self, engine: Placement, evaluator: Evaluator, teller: Teller) -> None:
        self._engine = engine
        self._evaluator = evaluator
        self._teller = teller

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def kind(self, task: TaskState, /) -> int | None:
        return self._engine.kind(task)

    def best(self, task: TaskState, fit: Fit, /) -> NodeState | None:
        wants_rivals = self._teller.wants_rivals
        node = self._engine.best(task, fit)
        self._tell(task, fit.value, node, wants_rivals=wants_rivals)
        return node

    def first_feasible(self, task: TaskState, /) -> NodeState | None:
        node = self._engine.first_feasible(task)
        teller = self._teller
        teller.tell(
            NodeSought(
                action=teller.action,
                task=task.uid,
                fit="now",
                node=None if node is None else node.name,
            )
        )
        return node

    def feasible(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        return self._engine.feasible(task, among)

    def ranked(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        return self._engine.ranked(task, among)

    def refusal(self, task: TaskState, node: NodeState, /) -> Unfit | None:
        return self._engine.refusal(task, node)

    def raw_scores(self, task: TaskState, node: NodeState, /) -> tuple[float, ...]:
        return self._engine.raw_scores(task, node)

    def totals(self, task: TaskState, raw: Sequence[tuple[float, ...]], /) -> list[float]:
        return self._engine.totals(task, raw)

    def tally(self, task: TaskState, /) -> NodeTally:
        return self._engine.tally(task)

    def _tell(
        self, task: TaskState, fit: str, node: NodeState | None, *, wants_rivals: bool
    ) -> None:
        teller = self._teller
        event = NodeSought(
            action=teller.action,
            task=task.uid,
            fit=fit,
            node=None if node is None else node.name,
        )
        if node is not None:
            normalised = any(_is_normalised(score, task) for _, score in self._evaluator.scores)
            compared = [node]
            if normalised or wants_rivals:
                compared += [
                    other
                    for other in self._engine.feasible(task)
                    if other is not node and _fits(task, other, fit)
                ]
            by_node = self._scores(task, compared)
            event = evolve(event, scores=by_node[0])
            if wants_rivals:
                rivals = {
                    other.name: scores
                    for other, scores in zip(compared[1:], by_node[1:], strict=True)
                }
                event = evolve(event, rivals=rivals)
        teller.tell(event)

    def _scores(self, task: TaskState, nodes: Sequence[NodeState]) -> list[dict[str, float]]:
        """Return the sum of each plugin's scores on each of the nodes compared."""
        by_node: list[dict[str, float]] = [{} for _ in nodes]
        for name, score in self._evaluator.scores:
            column: list[float] = [score.score(task, node) for node in nodes]
            if score.normalise is not None:
                low, high = min(column), max(column)
                column = [score.normalise(raw, low, high) for raw in column]
            for scores, value in zip(by_node, column, strict=True):
                scores[name] = scores.get(name, 0) + score.weight * value
        return by_node


def _is_normalised(score: NodeScore, task: TaskState) -> bool:
    if score.normalise is None:
        return False
    specialise = score.hints.specialise
    return specialise is None or specialise(task) is not None


def _fits(task: TaskState, node: NodeState, fit: str) -> bool:
    return FITS[Fit(fit)](node, task.init_resreq)
