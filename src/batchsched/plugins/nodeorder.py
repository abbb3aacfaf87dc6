"""nodeorder: scores the nodes that can accept a task.

The scores are those of Kubernetes 1.16, integers from 0 to 10, each with its own weight.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Protocol

from attrs import frozen

from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.node_functions import (
    LARGEST_WEIGHT_IN_ARRAYS,
    NodeArrays,
    NodeScore,
    Numbers,
    Reads,
    ScoreHints,
)
from batchsched.plugin.session_view import SessionView
from batchsched.state.pod_affinity import PodAffinityIndex
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector

LARGEST_SCORE = 10
_PERCENT = 100.0
_TEN = float(LARGEST_SCORE)


@frozen(kw_only=True)
class NodeOrderPlugin:
    """Scores nodes; a weight of 0 disables a score."""

    least_requested: int = 1
    """The weight of the score that prefers emptier nodes."""
    most_requested: int = 0
    """The weight of the score that prefers fuller nodes."""
    node_affinity: int = 1
    """The weight of the score for matching preferred node affinity terms."""
    pod_affinity: int = 1
    """The weight of the score for attracting tasks nearby."""
    balanced_resource: int = 1
    """The weight of the score that prefers even use of cpu and memory."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> NodeOrderPlugin:
        """Read the weights from their arguments, named as in kube-batch."""
        return cls(
            least_requested=arguments.integer("leastrequested.weight", default=1, minimum=0),
            most_requested=arguments.integer("mostrequested.weight", default=0, minimum=0),
            node_affinity=arguments.integer("nodeaffinity.weight", default=1, minimum=0),
            pod_affinity=arguments.integer("podaffinity.weight", default=1, minimum=0),
            balanced_resource=arguments.integer("balancedresource.weight", default=1, minimum=0),
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _NodeOrder(self, view)


class _NodeOrder:
    def __init__(self, weights: NodeOrderPlugin, view: SessionView) -> None:
        self._weights = weights
        self._view = view
        self._has_preferences = any(map(_preferences, view.tasks.values()))

    def resume(self, changes: Changes, /) -> bool:
        # If no task has preferences any more, the score is 0 on all nodes.
        return self._has_preferences or not any(map(_preferences, changes.tasks))

    def node_scores(self) -> Iterable[NodeScore]:
        weights = self._weights
        of_requests = (weights.least_requested, weights.most_requested, weights.balanced_resource)
        if any(of_requests):
            # The three are one score: they read the same amounts and are computed most often.
            yield NodeScore(
                name="requested resources",
                score=partial(requested_score, weights),
                reads=Reads.ACCOUNTS,
                signature=attrgetter("scoring_milli_cpu", "scoring_memory"),
                hints=ScoreHints(
                    specialise=partial(requested_scores, weights),
                    vectorise=(
                        partial(_requested_arrays, weights)
                        if max(map(abs, of_requests)) < LARGEST_WEIGHT_IN_ARRAYS
                        else None
                    ),
                ),
            )
        if self._has_preferences:
            yield NodeScore(
                name="node affinity",
                score=_node_affinity,
                normalise=_part_of_highest,
                weight=weights.node_affinity,
                reads=Reads.DESCRIPTION,
                signature=_preferences,
                hints=ScoreHints(specialise=_affinity_of_task),
            )
        if weights.pod_affinity and self._view.pod_affinity.is_active:
            index = self._view.pod_affinity
            yield NodeScore(
                name="inter-pod affinity",
                score=lambda task, node: index.profile(task).raw_score(node.info.labels),
                normalise=_part_of_range,
                weight=weights.pod_affinity,
                reads=Reads.CLUSTER,
                signature=index.signature,
                hints=ScoreHints(
                    specialise=partial(_attraction, index), watch=index.watch_attractions
                ),
            )

    def node_order_on_resource(self, task: TaskState, node: NodeState, /) -> float:
        """Return the score of the design document "Reserve Action": idle against required."""
        cpu, memory, *scalars = (
            _resource_score(required, idle)
            for required, idle in zip(task.init_resreq, node.idle, strict=True)
        )
        asked = [
            score for score, required in zip(scalars, task.init_resreq[2:], strict=True) if required
        ]
        scalar = sum(asked) / len(asked) if asked else 0.0
        return ((cpu + memory) / 2 + 2 * scalar) / 3


def _resource_score(required: float, idle: float) -> float:
    if not required:
        return _PERCENT
    if required <= idle:
        return _PERCENT - _PERCENT * required / idle
    return _PERCENT * idle / required - _PERCENT


class Counts(Protocol):
    """What counts in scores of a task, or of all tasks on a node together."""

    @property
    def scoring_milli_cpu(self) -> int:
        """In thousandths of a cpu."""
        ...

    @property
    def scoring_memory(self) -> int:
        """In bytes."""
        ...


class NodeCounts(Counts, Protocol):
    """What counts of a node."""

    @property
    def allocatable(self) -> Vector:
        """What it has: cpu, memory and more."""
        ...


def requested_score(weights: NodeOrderPlugin, task: Counts, node: NodeCounts) -> int:
    """Return the weighted sum of least requested, most requested and balanced resource."""
    cpu_capacity, memory_capacity = node.allocatable[0], node.allocatable[1]
    cpu = node.scoring_milli_cpu + task.scoring_milli_cpu
    memory = node.scoring_memory + task.scoring_memory
    least = (_free_part(cpu, cpu_capacity) + _free_part(memory, memory_capacity)) // 2
    most = (_used_part(cpu, cpu_capacity) + _used_part(memory, memory_capacity)) // 2
    balanced = 0
    if cpu < cpu_capacity and memory < memory_capacity:
        apart = abs(cpu / cpu_capacity - memory / memory_capacity)
        balanced = int((1 - apart) * LARGEST_SCORE)
    return (
        weights.least_requested * least
        + weights.most_requested * most
        + weights.balanced_resource * balanced
    )


def _free_part(requested: int, capacity: int) -> int:
    if not capacity or requested > capacity:
        return 0
    return (capacity - requested) * LARGEST_SCORE // capacity


def _used_part(requested: int, capacity: int) -> int:
    if not capacity or requested > capacity:
        return 0
    return requested * LARGEST_SCORE // capacity


def requested_scores(
    weights: NodeOrderPlugin, task: Counts
) -> Callable[[Sequence[NodeCounts]], list[float]]:
    """Return a function that returns the same scores of many nodes."""
    more_cpu, more_memory = task.scoring_milli_cpu, task.scoring_memory
    least, balanced = weights.least_requested, weights.balanced_resource

    def score_all(nodes: Sequence[NodeCounts]) -> list[float]:
        # The innermost loop of all; benchmarks/, workloads a and c. The plain function handles the
        # rare nodes that would be full of one, and a weight of most_requested.
        scores: list[float] = []
        append = scores.append
        for node in nodes:
            cpu_capacity = node.allocatable[0]
            memory_capacity = node.allocatable[1]
            cpu = node.scoring_milli_cpu + more_cpu
            memory = node.scoring_memory + more_memory
            if cpu < cpu_capacity and memory < memory_capacity:
                free = (cpu_capacity - cpu) * LARGEST_SCORE // cpu_capacity
                free += (memory_capacity - memory) * LARGEST_SCORE // memory_capacity
                apart = abs(cpu / cpu_capacity - memory / memory_capacity)
                append(least * (free // 2) + balanced * int((1 - apart) * LARGEST_SCORE))
            elif cpu == cpu_capacity and memory == memory_capacity:
                append(0)
            else:
                append(requested_score(weights, task, node))
        return scores

    if weights.most_requested:
        return lambda nodes: [requested_score(weights, task, node) for node in nodes]
    return score_all


def _requested_arrays(weights: NodeOrderPlugin, task: TaskState) -> Callable[[NodeArrays], Numbers]:
    more: Numbers | None = None

    def score_all(nodes: NodeArrays) -> Numbers:
        # Cpu and memory are two rows of the same arrays, which halves the number of NumPy calls.
        nonlocal more
        if more is None:
            more = nodes.column(task.scoring_milli_cpu, task.scoring_memory)
        capacity, divisor = nodes.allocatable[:2], nodes.allocatable_or_one[:2]
        requested = nodes.scoring + more
        free = ((capacity - requested) * _TEN / divisor).astype(int)
        part = requested / divisor
        balanced = ((1.0 - abs(part[0] - part[1])) * _TEN).astype(int)
        is_left = requested < capacity
        if not is_left.all():
            free = free * is_left
            balanced = balanced * (is_left[0] & is_left[1])
        least = (free[0] + free[1]) // 2
        if weights.least_requested != 1:
            least = weights.least_requested * least
        if weights.balanced_resource != 1:
            balanced = weights.balanced_resource * balanced
        total = least + balanced
        if weights.most_requested:
            used = (requested * _TEN / divisor).astype(int) * (requested <= capacity)
            total = total + weights.most_requested * ((used[0] + used[1]) // 2)
        return total

    return score_all


def _attraction(
    index: PodAffinityIndex, task: TaskState
) -> Callable[[Sequence[NodeState]], list[float]] | None:
    profile = index.profile(task)
    if not profile.attracting:
        return None
    return lambda nodes: [profile.raw_score(node.info.labels) for node in nodes]


def _preferences(task: TaskState) -> Hashable:
    affinity = task.info.node_affinity
    return affinity.preferred if affinity is not None else ()


def _node_affinity(task: TaskState, node: NodeState) -> int:
    affinity = task.info.node_affinity
    return 0 if affinity is None else affinity.weight_of(node.info.labels, node.name)


def _affinity_of_task(task: TaskState) -> Callable[[Sequence[NodeState]], list[float]] | None:
    affinity = task.info.node_affinity
    if affinity is None or not affinity.preferred:
        # Most tasks: their scores need not be normalised.
        return None
    terms = [preferred.term for preferred in affinity.preferred]
    if any(term.match_fields for term in terms):
        return lambda nodes: [affinity.weight_of(node.info.labels, node.name) for node in nodes]
    keys = list(dict.fromkeys(each.key for term in terms for each in term.match_expressions))
    known: dict[tuple[str | None, ...], int] = {}

    def score_all(nodes: Sequence[NodeState]) -> list[float]:
        # Nodes often have few different values of the labels that the terms name.
        scores: list[float] = []
        for node in nodes:
            labels = node.info.labels
            values = tuple(map(labels.get, keys))
            score = known.get(values)
            if score is None:
                score = known[values] = affinity.weight_of(labels, node.name)
            scores.append(score)
        return scores

    return score_all


def _part_of_highest(raw: float, _lowest: float, highest: float) -> float:
    return LARGEST_SCORE * raw // highest if highest else 0


def _part_of_range(raw: float, lowest: float, highest: float) -> float:
    least, most = min(0, lowest), max(0, highest)
    if least == most:
        return 0
    return int(LARGEST_SCORE * ((raw - least) / (most - least)))
