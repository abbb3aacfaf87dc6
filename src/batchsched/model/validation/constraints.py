"""Validation of the constraints of tasks and the taints of nodes."""

from __future__ import annotations

from batchsched.model.cluster import TaskInfo
from batchsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
)
from batchsched.model.constraints.selectors import integer_of
from batchsched.model.validation.values import (
    Problems,
    each_problems,
    is_integer,
    is_text,
    member_problems,
    shown,
    text_map_problems,
    text_problems,
    under,
)

__all__ = ["constraint_problems", "taint_problems"]

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_LARGEST_PORT = 65535
_LARGEST_WEIGHT = 100


def constraint_problems(task: TaskInfo, /) -> Problems:
    """Yield the problems of a task's labels and constraints: path below the task, and message."""
    yield from text_map_problems("labels", task.labels)
    yield from text_map_problems("node_selector", task.node_selector)
    if task.node_affinity is not None:
        yield from under("node_affinity", _node_affinity_problems(task.node_affinity))
    yield from each_problems("tolerations", task.tolerations, "Toleration", _toleration_problems)
    yield from each_problems("host_ports", task.host_ports, "HostPort", _port_problems)
    if task.pod_affinity is not None:
        yield from under("pod_affinity", _pod_affinity_problems(task.pod_affinity))
    if task.pod_anti_affinity is not None:
        yield from under("pod_anti_affinity", _pod_affinity_problems(task.pod_anti_affinity))


def taint_problems(taint: object, /) -> Problems:
    """Yield the problems of a taint: path below the taint, and message."""
    if not isinstance(taint, Taint):
        yield "", f"expected a Taint, got {shown(taint)}"
        return
    yield from text_problems("key", taint.key)
    yield from text_problems("value", taint.value, may_be_empty=True)
    yield from member_problems("effect", taint.effect, TaintEffect)


def _toleration_problems(toleration: object) -> Problems:
    if not isinstance(toleration, Toleration):
        yield "", f"expected a Toleration, got {shown(toleration)}"
        return
    yield from text_problems("key", toleration.key, may_be_empty=True)
    yield from member_problems("operator", toleration.operator, TolerationOperator)
    yield from text_problems("value", toleration.value, may_be_empty=True)
    if toleration.effect is not None:
        yield from member_problems("effect", toleration.effect, TaintEffect)
    is_equal = toleration.operator is TolerationOperator.EQUAL
    if is_equal and is_text(toleration.key) and not toleration.key:
        yield "key", "is empty; use operator Exists without a key to tolerate everything"
    is_exists = toleration.operator is TolerationOperator.EXISTS
    if is_exists and is_text(toleration.value) and toleration.value:
        yield "value", f"expected no value for operator Exists, got {shown(toleration.value)}"


def _port_problems(port: object) -> Problems:
    if not isinstance(port, HostPort):
        yield "", f"expected a HostPort, got {shown(port)}"
        return
    if not is_integer(port.port) or not 1 <= port.port <= _LARGEST_PORT:
        yield (
            "port",
            (f"expected a port (an integer in 1..{_LARGEST_PORT}), got {shown(port.port)}"),
        )
    if not is_text(port.protocol) or port.protocol not in _PROTOCOLS:
        message = f"expected a protocol ({', '.join(_PROTOCOLS)}), got {shown(port.protocol)}"
        yield "protocol", message
    if not is_text(port.address) or not port.address:
        yield (
            "address",
            (f"expected an address, got {shown(port.address)}; 0.0.0.0 means all addresses"),
        )


def _weight_problems(weight: object) -> Problems:
    if not is_integer(weight) or not 1 <= weight <= _LARGEST_WEIGHT:
        message = f"expected a weight (an integer in 1..{_LARGEST_WEIGHT}), got {shown(weight)}"
        yield "weight", message


def _requirement_problems(requirement: object) -> Problems:
    if not isinstance(requirement, Requirement):
        yield "", f"expected a Requirement, got {shown(requirement)}"
        return
    yield from text_problems("key", requirement.key)
    problems = [
        *member_problems("operator", requirement.operator, Operator),
        *each_problems("values", requirement.values, "strings", _label_value_problems),
    ]
    yield from problems
    if not problems:
        yield from _values_problems(requirement)


def _values_problems(requirement: Requirement) -> Problems:
    values = requirement.values
    match requirement.operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                name = requirement.operator.value
                yield "values", f"expected at least one value for operator {name}, got none"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if values:
                name = requirement.operator.value
                yield "values", f"expected no values for operator {name}, got {shown(values)}"
        case Operator.GT | Operator.LT:
            if len(values) != 1 or integer_of(values[0]) is None:
                name = requirement.operator.value
                yield "values", f"expected one integer for operator {name}, got {shown(values)}"


def _label_value_problems(value: object) -> Problems:
    return text_problems("", value, may_be_empty=True)


def _on_field_problems(requirement: object) -> Problems:
    yield from _requirement_problems(requirement)
    if not isinstance(requirement, Requirement) or not is_text(requirement.key):
        return
    if requirement.key and requirement.key != "metadata.name":
        yield (
            "key",
            (
                "expected metadata.name, the only supported field of nodes, got "
                f"{shown(requirement.key)}"
            ),
        )


def _on_task_problems(requirement: object) -> Problems:
    yield from _requirement_problems(requirement)
    if not isinstance(requirement, Requirement):
        return
    if requirement.operator is Operator.GT or requirement.operator is Operator.LT:
        name = requirement.operator.value
        known = "In, NotIn, Exists or DoesNotExist"
        yield "operator", f"expected {known} in a label selector, got {name}"


def _node_term_problems(term: object) -> Problems:
    if not isinstance(term, NodeSelectorTerm):
        yield "", f"expected a NodeSelectorTerm, got {shown(term)}"
        return
    yield from each_problems(
        "match_expressions", term.match_expressions, "Requirement", _requirement_problems
    )
    yield from each_problems("match_fields", term.match_fields, "Requirement", _on_field_problems)


def _preferred_node_problems(preferred: object) -> Problems:
    if not isinstance(preferred, PreferredNodeTerm):
        yield "", f"expected a PreferredNodeTerm, got {shown(preferred)}"
        return
    yield from _weight_problems(preferred.weight)
    yield from under("term", _node_term_problems(preferred.term))


def _node_affinity_problems(affinity: object) -> Problems:
    if not isinstance(affinity, NodeAffinity):
        yield "", f"expected a NodeAffinity, got {shown(affinity)}"
        return
    if affinity.required is not None:
        yield from each_problems(
            "required", affinity.required, "NodeSelectorTerm", _node_term_problems
        )
    yield from each_problems(
        "preferred", affinity.preferred, "PreferredNodeTerm", _preferred_node_problems
    )


def _selector_problems(selector: object) -> Problems:
    if not isinstance(selector, LabelSelector):
        yield "", f"expected a LabelSelector, got {shown(selector)}"
        return
    yield from text_map_problems("match_labels", selector.match_labels)
    yield from each_problems(
        "match_expressions", selector.match_expressions, "Requirement", _on_task_problems
    )


def _namespace_problems(namespace: object) -> Problems:
    return text_problems("", namespace)


def _pod_term_problems(term: object) -> Problems:
    if not isinstance(term, PodAffinityTerm):
        yield "", f"expected a PodAffinityTerm, got {shown(term)}"
        return
    if not is_text(term.topology_key) or not term.topology_key:
        message = (
            f"expected a topology key (a node label such as zone), got {shown(term.topology_key)}"
        )
        yield "topology_key", message
    yield from each_problems("namespaces", term.namespaces, "strings", _namespace_problems)
    if term.selector is not None:
        yield from under("selector", _selector_problems(term.selector))


def _preferred_pod_problems(preferred: object) -> Problems:
    if not isinstance(preferred, WeightedPodTerm):
        yield "", f"expected a WeightedPodTerm, got {shown(preferred)}"
        return
    yield from _weight_problems(preferred.weight)
    yield from under("term", _pod_term_problems(preferred.term))


def _pod_affinity_problems(affinity: object) -> Problems:
    if not isinstance(affinity, PodAffinity):
        yield "", f"expected a PodAffinity, got {shown(affinity)}"
        return
    yield from each_problems("required", affinity.required, "PodAffinityTerm", _pod_term_problems)
    yield from each_problems(
        "preferred", affinity.preferred, "WeightedPodTerm", _preferred_pod_problems
    )
