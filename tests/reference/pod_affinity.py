"""Inter-pod affinity: which nodes it allows and how it scores them.

Existing tasks are the occupying tasks on all nodes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from batchsched import NodeInfo, PodAffinity, PodAffinityTerm, TaskInfo, TaskStatus, WeightedPodTerm
from tests.reference.state import State, View

__all__ = ["AffinityRule", "affinity_counts"]


def _means(term: PodAffinityTerm, owner: TaskInfo, other: TaskInfo) -> bool:
    """Return whether a term of `owner` selects the task `other`."""
    return term.selects(
        own_namespace=owner.namespace, namespace=other.namespace, labels=other.labels
    )


def _required(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return () if affinity is None else affinity.required


def _preferred(affinity: PodAffinity | None) -> tuple[WeightedPodTerm, ...]:
    return () if affinity is None else affinity.preferred


def _existing(
    state: State, view: View = View.NOW, waiting: Container[str] = ()
) -> Iterator[tuple[TaskInfo, NodeInfo]]:
    """Yield the tasks that affinity considers; not those `waiting`, which will not come so."""
    nodes = {node.name: node for node in state.snapshot.nodes}
    for uid, place in state.places.items():
        if (
            place.node_name is not None
            and uid not in waiting
            and state.can_be_near(state.tasks[uid], view)
        ):
            yield state.tasks[uid], nodes[place.node_name]


def _repelling(
    state: State, view: View, waiting: Container[str]
) -> Iterator[tuple[TaskInfo, NodeInfo]]:
    """Yield the tasks that anti-affinity considers, with promised ones if promises repel."""
    yield from _existing(state, view, waiting)
    if state.promises_repel and (view is View.NOW or waiting):
        nodes = {node.name: node for node in state.snapshot.nodes}
        for uid, place in state.places.items():
            if place.status is TaskStatus.PIPELINED and place.node_name is not None:
                yield state.tasks[uid], nodes[place.node_name]


class AffinityRule:
    """Which nodes required inter-pod affinity and anti-affinity allow to one task."""

    def __init__(
        self, state: State, task: TaskInfo, view: View, waiting: Container[str] = ()
    ) -> None:
        self.near = _required(task.pod_affinity)
        """The required terms."""
        self.near_domains: set[tuple[PodAffinityTerm, str]] = set()
        """Where each term is met: the term, and the value of its topology label."""
        self.kept_away: set[tuple[str, str]] = set()
        """The domains that other tasks' terms refuse: topology label and value."""
        self.shunned: set[tuple[str, str]] = set()
        """The domains that the task's own terms refuse."""
        for other, node in _existing(state, view, waiting):
            if all(_means(term, task, other) for term in self.near):
                for term in self.near:
                    if term.topology_key in node.labels:
                        self.near_domains.add((term, node.labels[term.topology_key]))
        for other, node in _repelling(state, view, waiting):
            for owner, meant, domains in (
                (task, other, self.shunned),
                (other, task, self.kept_away),
            ):
                for term in _required(owner.pod_anti_affinity):
                    if _means(term, owner, meant) and term.topology_key in node.labels:
                        domains.add((term.topology_key, node.labels[term.topology_key]))
        self.is_first = not self.near_domains and all(
            _means(term, task, task) for term in self.near
        )

    def accepts(self, node: NodeInfo) -> bool:
        """Return whether the task may be on this node."""
        return (
            not _is_in(node, self.kept_away)
            and not _is_in(node, self.shunned)
            and self.is_attracted(node)
        )

    def is_curable(self, node: NodeInfo) -> bool:
        """Return whether a node is refused only for reasons that evicting may cure.

        The first of the three rules that refuses it decides.
        """
        if _is_in(node, self.kept_away):
            return True
        return self.is_attracted(node) and _is_in(node, self.shunned)

    def is_attracted(self, node: NodeInfo) -> bool:
        """Return whether the task's affinity accepts the node."""
        return self.is_first or all(
            (term, node.labels[term.topology_key]) in self.near_domains
            if term.topology_key in node.labels
            else False
            for term in self.near
        )


def _is_in(node: NodeInfo, domains: set[tuple[str, str]]) -> bool:
    return any(node.labels.get(key) == value for key, value in domains)


def affinity_counts(state: State, task: TaskInfo, nodes: Iterable[NodeInfo]) -> dict[str, int]:
    """Return each node's signed count of the preferences that it meets, either way."""
    weights: dict[tuple[str, str], int] = {}

    def count(owner: TaskInfo, meant: TaskInfo, place: NodeInfo) -> None:
        terms = [(term.term, term.weight) for term in _preferred(owner.pod_affinity)]
        terms += [(term.term, -term.weight) for term in _preferred(owner.pod_anti_affinity)]
        if owner is not task:
            terms += [(term, 1) for term in _required(owner.pod_affinity)]
        for term, weight in terms:
            if term.topology_key in place.labels and _means(term, owner, meant):
                domain = term.topology_key, place.labels[term.topology_key]
                weights[domain] = weights.get(domain, 0) + weight

    for other, place in _existing(state):
        if other is not task:
            count(task, other, place)
            count(other, task, place)
    return {
        node.name: sum(
            weight for (key, value), weight in weights.items() if node.labels.get(key) == value
        )
        for node in nodes
    }
