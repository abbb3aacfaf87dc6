"""What a traced cycle tells of the jobs and queues whose turn it is, and of the nodes it finds.

Verdicts and statements tell of themselves; see `batchsched.trace`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from batchsched.placement import Fit, Placement
from batchsched.plugin.node_functions import NodeScore
from batchsched.session.plugins import PluginSet
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.trace import JobTaken, NodeSought, QueueTaken, Teller


def telling_jobs(
    teller: Teller, plugins: PluginSet
) -> Callable[[JobState, Iterable[JobState]], None]:
    """Return a function that tells that a job is taken, rather than others."""
    names = [*plugins.names_on("job_order_key"), "creation_time", "uid"]

    def key(job: JobState) -> dict[str, object]:
        return dict(zip(names, plugins.job_order_key(job), strict=True))

    def tell(job: JobState, others: Iterable[JobState]) -> None:
        rivals = {other.uid: key(other) for other in others} if teller.wants_rivals else {}
        teller.tell(
            JobTaken(
                action=teller.action,
                job=job.uid,
                queue=job.info.queue,
                key=key(job),
                rivals=rivals,
            )
        )

    return tell


def telling_queues(
    teller: Teller,
    plugins: PluginSet,
    need_of: Callable[[QueueState], Need | None] = lambda _: None,
) -> Callable[[QueueState, Iterable[QueueState]], None]:
    """Return a function that tells that it is a queue's turn, ahead of others."""
    names = [*plugins.names_on("queue_order_key"), "creation_time", "name"]

    def key(queue: QueueState) -> dict[str, object]:
        return dict(zip(names, plugins.queue_order_key(queue, need_of(queue)), strict=True))

    def tell(queue: QueueState, others: Iterable[QueueState]) -> None:
        rivals = {other.name: key(other) for other in others} if teller.wants_rivals else {}
        teller.tell(
            QueueTaken(action=teller.action, queue=queue.name, key=key(queue), rivals=rivals)
        )

    return tell


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
