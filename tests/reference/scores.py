"""The plugin nodeorder: scores of nodes for a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchsched import NodeInfo, Resource, TaskInfo, TaskStatus
from tests.reference.amounts import Amount
from tests.reference.conf import Arguments
from tests.reference.plugins import Plugin, RawScore
from tests.reference.pod_affinity import affinity_counts
from tests.reference.state import State

__all__ = ["NodeOrder"]


class NodeOrder(Plugin):
    """The weighted sum of five integer scores, 0 to 10 each."""

    def __init__(self, state: State, arguments: Arguments) -> None:
        self._state = state
        self._least = arguments.integer("leastrequested.weight", 1)
        self._most = arguments.integer("mostrequested.weight", 0)
        self._node_affinity = arguments.integer("nodeaffinity.weight", 1)
        self._pod_affinity = arguments.integer("podaffinity.weight", 1)
        self._balanced = arguments.integer("balancedresource.weight", 1)

    def raw_scores(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> dict[str, RawScore]:
        """Return the raw score of each node."""
        by_node = self._state.tasks_by_node()
        pod_affinity = affinity_counts(self._state, task, nodes)
        raw: dict[str, RawScore] = {}
        for node in nodes:
            counted = [
                other
                for other in by_node[node.name]
                if other is not task and self._state.status(other) is not TaskStatus.RESERVED
            ]
            requests = [other.counts_in_scores() for other in [*counted, task]]
            cpu = sum(request.milli_cpu for request in requests), node.allocatable.milli_cpu
            memory = sum(request.memory for request in requests), node.allocatable.memory
            raw[node.name] = RawScore(
                by_itself=self._least * ((_least_requested(*cpu) + _least_requested(*memory)) // 2)
                + self._most * ((_most_requested(*cpu) + _most_requested(*memory)) // 2)
                + self._balanced * _balanced(_fraction(*cpu), _fraction(*memory)),
                node_affinity=_node_affinity_weight(task, node),
                pod_affinity=pod_affinity[node.name],
            )
        return raw

    def scores(self, raw: Mapping[str, RawScore]) -> dict[str, int]:
        """Return the scores of all compared nodes."""
        most = max((score.node_affinity for score in raw.values()), default=0)
        counts = [0, *(score.pod_affinity for score in raw.values())]
        high, low = max(counts), min(counts)
        return {
            name: score.by_itself
            + self._node_affinity * (0 if most == 0 else 10 * score.node_affinity // most)
            + self._pod_affinity
            * (0 if high == low else int(10 * ((score.pod_affinity - low) / (high - low))))
            for name, score in raw.items()
        }

    def resource_scores(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> dict[str, float]:
        """Return the score of each node by how well its idle resources suit the task."""
        by_node = self._state.tasks_by_node()
        return {
            node.name: _resource_score(
                task.start_request, self._state.accounts(node, by_node[node.name]).idle
            )
            for node in nodes
        }


def _least_requested(requested: Amount, capacity: Amount) -> int:
    if capacity == 0 or requested > capacity:
        return 0
    return int((capacity - requested) * 10 // capacity)


def _most_requested(requested: Amount, capacity: Amount) -> int:
    if capacity == 0 or requested > capacity:
        return 0
    return int(requested * 10 // capacity)


def _fraction(requested: Amount, capacity: Amount) -> float:
    return 1.0 if capacity == 0 else requested / capacity


def _balanced(cpu: float, memory: float) -> int:
    return 0 if cpu >= 1 or memory >= 1 else int((1 - abs(cpu - memory)) * 10)


def _node_affinity_weight(task: TaskInfo, node: NodeInfo) -> int:
    return 0 if task.node_affinity is None else task.node_affinity.weight_of(node.labels, node.name)


def _dimension_score(required: Amount, idle: Amount) -> float:
    if required == 0:
        return 100.0
    if required <= idle:
        return 100 - 100 * required / idle
    return 100 * idle / required - 100


def _resource_score(required: Resource, idle: Resource) -> float:
    cpu = _dimension_score(required.milli_cpu, idle.milli_cpu)
    memory = _dimension_score(required.memory, idle.memory)
    scalars = [
        _dimension_score(amount, idle.get(name))
        for name, amount in sorted(required.scalars.items())
        if amount > 0
    ]
    scalar = sum(scalars) / len(scalars) if scalars else 0.0
    return ((cpu + memory) / 2 + 2 * scalar) / 3
