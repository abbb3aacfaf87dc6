"""What a traced cycle tells of the nodes that it finds, and of the verdicts of plugins.

Turns and statements tell of themselves; see `batchsched.trace`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from batchsched.placement import Fit, Placement
from batchsched.plugin.extension_points import Verdict
from batchsched.plugin.node_functions import NodeScore
from batchsched.state.records import NodeState, TaskState
from batchsched.trace import NodeSought, Teller, VerdictsGiven

GivesVerdicts = Callable[[TaskState, Sequence[TaskState]], Sequence[Verdict]]
"""A plugin's function that gives verdicts on candidates for eviction."""


def telling_verdicts(
    teller: Teller, plugin: str, point: str, judge: GivesVerdicts
) -> GivesVerdicts:
    """Return a function that gives the verdicts of a plugin, and tells of them."""

    def told(claimant: TaskState, candidates: Sequence[TaskState]) -> Sequence[Verdict]:
        verdicts = tuple(judge(claimant, candidates))
        teller.keep(
            VerdictsGiven(
                action=teller.action,
                plugin=plugin,
                point=point,
                alone=len(candidates) == 1,
                claimant=claimant.uid,
                verdicts={
                    candidate.uid: getattr(verdict, "value", str(verdict))
                    for candidate, verdict in zip(candidates, verdicts, strict=False)
                },
            )
        )
        return verdicts

    return told


Scores = Sequence[tuple[str, NodeScore]]
"""The scores of nodes, with the names of their plugins."""


def telling_best(
    teller: Teller, placement: Placement, scores: Scores
) -> Callable[[TaskState, Fit], NodeState | None]:
    """Return a function that finds the best node, and tells of it and of its scores."""

    def best(task: TaskState, fit: Fit) -> NodeState | None:
        node = placement.best(task, fit)
        fitting = (n for n in placement.feasible(task) if n.fits(task, fit))
        tell_best(teller, scores, task, fit, node, fitting)
        return node

    return best


def tell_best(
    teller: Teller,
    scored: Scores,
    task: TaskState,
    fit: Fit,
    node: NodeState | None,
    fitting: Iterable[NodeState],
) -> None:
    """Tell of the best of the nodes where a task fits, and of its scores."""
    wants_rivals = teller.wants_rivals
    scores: dict[str, float] = {}
    rivals: dict[str, dict[str, float]] = {}
    if node is not None:
        compared = [node]
        if wants_rivals or any(_is_compared(score, task) for _, score in scored):
            compared += [other for other in fitting if other is not node]
        scores, *of_others = _scores(scored, task, compared)
        if wants_rivals:
            rivals = {other.name: each for other, each in zip(compared[1:], of_others, strict=True)}
    teller.tell(
        NodeSought(
            action=teller.action,
            task=task.uid,
            fit=fit.value,
            node=None if node is None else node.name,
            scores=scores,
            rivals=rivals,
        )
    )


def telling_first(teller: Teller, placement: Placement) -> Callable[[TaskState], NodeState | None]:
    """Return a function that finds the first feasible node, and tells of it."""

    def first(task: TaskState) -> NodeState | None:
        node = placement.first_feasible(task)
        name = None if node is None else node.name
        teller.tell(NodeSought(action=teller.action, task=task.uid, fit=Fit.NOW.value, node=name))
        return node

    return first


def _is_compared(score: NodeScore, task: TaskState) -> bool:
    """Return whether a score of a node depends on the other nodes."""
    if score.normalise is None:
        return False
    specialise = score.hints.specialise
    return specialise is None or specialise(task) is not None


def _scores(scored: Scores, task: TaskState, nodes: Sequence[NodeState]) -> list[dict[str, float]]:
    """Return the sum of each plugin's scores on each of the nodes compared."""
    by_node: list[dict[str, float]] = [{} for _ in nodes]
    for name, score in scored:
        column: list[float] = [score.score(task, node) for node in nodes]
        if score.normalise is not None:
            low, high = min(column), max(column)
            column = [score.normalise(raw, low, high) for raw in column]
        for scores, value in zip(by_node, column, strict=True):
            scores[name] = scores.get(name, 0) + score.weight * value
    return by_node
