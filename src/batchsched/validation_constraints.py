"""What makes the constraints of a task, or the taints of a node, invalid."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.constraints import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
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
from batchsched.model import TaskInfo

__all__ = ["constraint_problems", "taint_problems"]

Problems = Iterator[tuple[str, str]]

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_LARGEST_PORT = 65535
_LARGEST_WEIGHT = 100
_EFFECTS = ", ".join(effect.value for effect in TaintEffect)


def constraint_problems(task: TaskInfo) -> Problems:
    """Yield what is wrong with a task's labels and constraints: path below the task, message."""
    for name, labels in (("labels", task.labels), ("node_selector", task.node_selector)):
        for key, value in labels.items():
            if not isinstance(key, str) or not isinstance(value, str):
                yield f"{name}[{key!r}]", f"{value!r} for {key!r}: keys and values are texts"
    if task.node_affinity is not None:
        yield from _node_affinity_problems(task.node_affinity)
    for position, toleration in enumerate(task.tolerations):
        for message in _toleration_problems(toleration):
            yield f"tolerations[{position}]", message
    for position, port in enumerate(task.host_ports):
        for message in _port_problems(port):
            yield f"host_ports[{position}]", message
    for name, affinity in (
        ("pod_affinity", task.pod_affinity),
        ("pod_anti_affinity", task.pod_anti_affinity),
    ):
        if affinity is not None:
            yield from _pod_affinity_problems(name, affinity)


def taint_problems(taint: object) -> Iterator[str]:
    """Yield what is wrong with a taint."""
    if not isinstance(taint, Taint):
        yield f"{taint!r} is no Taint"
        return
    if not isinstance(taint.key, str) or not taint.key:
        yield f"key {taint.key!r} is no taint key; a taint key is a non-empty text"
    if not isinstance(taint.value, str):
        yield f"value {taint.value!r} is no text"
    if not isinstance(taint.effect, TaintEffect):
        yield f"effect {taint.effect!r} is none of {_EFFECTS}"


def _toleration_problems(toleration: object) -> Iterator[str]:
    if not isinstance(toleration, Toleration):
        yield f"{toleration!r} is no Toleration"
        return
    if not isinstance(toleration.operator, TolerationOperator):
        yield f"operator {toleration.operator!r} is neither Equal nor Exists"
    elif toleration.operator is TolerationOperator.EQUAL:
        if not toleration.key:
            yield "operator Equal needs a key; use Exists without a key to tolerate everything"
    elif toleration.value:
        yield f"operator Exists takes no value, not {toleration.value!r}"
    if toleration.effect is not None and not isinstance(toleration.effect, TaintEffect):
        yield f"effect {toleration.effect!r} is none of {_EFFECTS}"


def _port_problems(port: object) -> Iterator[str]:
    if not isinstance(port, HostPort):
        yield f"{port!r} is no HostPort"
        return
    if isinstance(port.port, bool) or not isinstance(port.port, int):
        yield f"port {port.port!r} is no integer"
    elif not 1 <= port.port <= _LARGEST_PORT:
        yield f"port {port.port} is not in 1..{_LARGEST_PORT}"
    if port.protocol not in _PROTOCOLS:
        yield f"protocol {port.protocol!r} is none of {', '.join(_PROTOCOLS)}"
    if not isinstance(port.address, str) or not port.address:
        yield f"address {port.address!r} is no address; 0.0.0.0 is every address"


def _weight_problems(weight: object) -> Iterator[str]:
    if isinstance(weight, bool) or not isinstance(weight, int):
        yield f"weight {weight!r} is no integer"
    elif not 1 <= weight <= _LARGEST_WEIGHT:
        yield f"weight {weight} is not in 1..{_LARGEST_WEIGHT}"


def _requirement_problems(path: str, requirement: object, *, compares: bool) -> Problems:
    if not isinstance(requirement, Requirement):
        yield path, f"{requirement!r} is no Requirement"
        return
    for message in requirement.problems(compares=compares):
        yield path, message


def _term_problems(path: str, term: object) -> Problems:
    if not isinstance(term, NodeSelectorTerm):
        yield path, f"{term!r} is no NodeSelectorTerm"
        return
    for position, requirement in enumerate(term.match_expressions):
        at = f"{path}.match_expressions[{position}]"
        yield from _requirement_problems(at, requirement, compares=True)
    for position, requirement in enumerate(term.match_fields):
        at = f"{path}.match_fields[{position}]"
        yield from _requirement_problems(at, requirement, compares=True)
        if isinstance(requirement, Requirement) and requirement.key != "metadata.name":
            yield at, f"key {requirement.key!r} is no field of a node; metadata.name is"


def _node_affinity_problems(affinity: object) -> Problems:
    if not isinstance(affinity, NodeAffinity):
        yield "node_affinity", f"{affinity!r} is no NodeAffinity"
        return
    for position, term in enumerate(affinity.required or ()):
        yield from _term_problems(f"node_affinity.required[{position}]", term)
    for position, preferred in enumerate(affinity.preferred):
        path = f"node_affinity.preferred[{position}]"
        if not isinstance(preferred, PreferredNodeTerm):
            yield path, f"{preferred!r} is no PreferredNodeTerm"
            continue
        for message in _weight_problems(preferred.weight):
            yield path, message
        yield from _term_problems(f"{path}.term", preferred.term)


def _pod_term_problems(path: str, term: object) -> Problems:
    if not isinstance(term, PodAffinityTerm):
        yield path, f"{term!r} is no PodAffinityTerm"
        return
    if not isinstance(term.topology_key, str) or not term.topology_key:
        message = f"{term.topology_key!r} is no topology key; it is a node label such as zone"
        yield f"{path}.topology_key", message
    for namespace in term.namespaces:
        if not isinstance(namespace, str) or not namespace:
            yield f"{path}.namespaces", f"{namespace!r} is no namespace"
    if term.selector is None:
        return
    if not isinstance(term.selector, LabelSelector):
        yield f"{path}.selector", f"{term.selector!r} is no LabelSelector"
        return
    for position, requirement in enumerate(term.selector.match_expressions):
        at = f"{path}.selector.match_expressions[{position}]"
        yield from _requirement_problems(at, requirement, compares=False)


def _pod_affinity_problems(name: str, affinity: object) -> Problems:
    if not isinstance(affinity, PodAffinity):
        yield name, f"{affinity!r} is no PodAffinity"
        return
    for position, term in enumerate(affinity.required):
        yield from _pod_term_problems(f"{name}.required[{position}]", term)
    for position, preferred in enumerate(affinity.preferred):
        path = f"{name}.preferred[{position}]"
        if not isinstance(preferred, WeightedPodTerm):
            yield path, f"{preferred!r} is no WeightedPodTerm"
            continue
        for message in _weight_problems(preferred.weight):
            yield path, message
        yield from _pod_term_problems(f"{path}.term", preferred.term)
