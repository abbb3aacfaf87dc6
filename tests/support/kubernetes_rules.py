"""Kubernetes' rules for tasks on nodes, written a second time; the library says the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from batchsched import (
    HostPort,
    LabelSelector,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    Requirement,
    Taint,
    TaintEffect,
    TaskInfo,
    Toleration,
    TolerationOperator,
)
from batchsched.model.rules import has_what_is_selected, tolerates
from batchsched.testing import Cycle, invariant
from batchsched.testing.invariants import placements


@invariant
def rules(cycle: Cycle) -> Iterator[str]:
    """Labels, taints, ports and terms of affinity mean the same, written a second time."""
    for task in cycle.tasks.values():
        for node in cycle.nodes.values():
            what = f"task {task.uid!r} and node {node.name!r}"
            if accepts_node(task, node) != has_what_is_selected(node, task):
                yield f"{what}: expected {accepts_node(task, node)} of selectors and node affinity"
            is_tolerant = all(is_tolerated(taint, task.tolerations) for taint in node.taints)
            if is_tolerant != tolerates(task, node):
                yield f"{what}: expected {is_tolerant} of tolerations"
        for other in cycle.tasks.values():
            what = f"tasks {task.uid!r} and {other.uid!r}"
            if conflict(task, other) != placements.conflict(task, other):
                yield f"{what}: expected {conflict(task, other)} as the port that both have"
            for affinity in (task.pod_affinity, task.pod_anti_affinity):
                for term in () if affinity is None else affinity.required:
                    if means(term, task, other) != placements.means(term, task, other):
                        yield f"{what}: expected {means(term, task, other)} of {term}"


def accepts_node(task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether a node meets a task's node selector and required node affinity."""
    if any(node.labels.get(key) != value for key, value in task.node_selector.items()):
        return False
    if task.node_affinity is None or task.node_affinity.required is None:
        return True
    return any(_holds_on(term, node) for term in task.node_affinity.required)


def _holds_on(term: NodeSelectorTerm, node: NodeInfo) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(_holds(part, node.labels) for part in term.match_expressions) and all(
        _holds(part, fields) for part in term.match_fields
    )


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    there = requirement.key in labels
    value = labels.get(requirement.key, "")
    match requirement.operator:
        case Operator.IN:
            return there and value in requirement.values
        case Operator.NOT_IN:
            return not there or value not in requirement.values
        case Operator.EXISTS:
            return there
        case Operator.DOES_NOT_EXIST:
            return not there
        case Operator.GT:
            return there and _compare(value, requirement.values[0]) > 0
        case Operator.LT:
            return there and _compare(value, requirement.values[0]) < 0


def _compare(left: str, right: str) -> int:
    """Compare two integers; 0 also if one of the texts is none."""
    first, second = _integer(left), _integer(right)
    return 0 if first is None or second is None else (first > second) - (first < second)


def _integer(text: str) -> int | None:
    if not re.fullmatch("[+-]?[0-9]+", text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether a taint does not repel a task with these tolerations."""
    return taint.effect is TaintEffect.PREFER_NO_SCHEDULE or any(
        toleration.effect in (None, taint.effect)
        and (
            toleration.key == taint.key
            or (not toleration.key and toleration.operator is TolerationOperator.EXISTS)
        )
        and (toleration.operator is TolerationOperator.EXISTS or toleration.value == taint.value)
        for toleration in tolerations
    )


def conflict(one: TaskInfo, other: TaskInfo) -> HostPort | None:
    """Return a host port of `one` that `other` has too, or None."""
    for mine in one.host_ports:
        for theirs in other.host_ports:
            if (mine.port, mine.protocol) == (theirs.port, theirs.protocol) and (
                mine.address == theirs.address or "0.0.0.0" in (mine.address, theirs.address)
            ):
                return mine
    return None


def means(term: PodAffinityTerm, owner: TaskInfo, other: TaskInfo) -> bool:
    """Return whether a term of `owner` selects the task `other`."""
    namespaces = term.namespaces or (owner.namespace,)
    return other.namespace in namespaces and _selects(term.selector, other.labels)


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _holds(part, labels) for part in selector.match_expressions
    )
