"""Node affinity and inter-pod affinity of pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from batchsched.kubernetes.objects import Reader
from batchsched.model.constraints import (
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    WeightedPodTerm,
)

__all__ = ["Namespaces", "read_node_affinity", "read_pod_affinity"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that every namespace carries, with its own name."""


@frozen
class Namespaces:
    """The known namespaces, for terms that select namespaces by label."""

    labels: Mapping[str, Mapping[str, str]]
    """Namespace to labels."""
    labels_are_known: bool
    """Whether the caller gave the namespaces; otherwise only the names in pods are known."""

    def selected(self, reader: Reader) -> tuple[str, ...]:
        """Return the names of the selected namespaces, sorted."""
        selector = _label_selector(reader)
        if not self.labels_are_known and any(
            key != _NAMESPACE_NAME
            for key in (
                *selector.match_labels,
                *(requirement.key for requirement in selector.match_expressions),
            )
        ):
            reader.fault("", "selects namespaces by label; pass `namespaces` as well")
        return tuple(
            name
            for name, labels in sorted(self.labels.items())
            if selector.matches({**labels, _NAMESPACE_NAME: name})
        )


def read_node_affinity(affinity: Reader, /) -> NodeAffinity | None:
    """Return the node affinity in ``spec.affinity``, or None."""
    reader = affinity.optional_child("nodeAffinity")
    if reader is None:
        return None
    required = reader.optional_child(_REQUIRED)
    return NodeAffinity(
        required=None
        if required is None
        else tuple(_node_term(term) for term in required.children("nodeSelectorTerms")),
        preferred=tuple(
            PreferredNodeTerm(
                weight=preferred.integer("weight"), term=_node_term(preferred.child("preference"))
            )
            for preferred in reader.children(_PREFERRED)
        ),
    )


def read_pod_affinity(affinity: Reader, key: str, namespaces: Namespaces, /) -> PodAffinity | None:
    """Return the pod affinity or anti-affinity in ``spec.affinity`` at `key`, or None."""
    reader = affinity.optional_child(key)
    if reader is None:
        return None
    return PodAffinity(
        required=tuple(_pod_term(term, namespaces) for term in reader.children(_REQUIRED)),
        preferred=tuple(
            WeightedPodTerm(
                weight=preferred.integer("weight"),
                term=_pod_term(preferred.child("podAffinityTerm"), namespaces),
            )
            for preferred in reader.children(_PREFERRED)
        ),
    )


def _node_term(reader: Reader) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=tuple(_requirements(reader, "matchExpressions")),
        match_fields=tuple(_requirements(reader, "matchFields")),
    )


def _pod_term(reader: Reader, namespaces: Namespaces) -> PodAffinityTerm:
    selector_reader = reader.optional_child("labelSelector")
    selector = None if selector_reader is None else _label_selector(selector_reader)
    names = reader.texts("namespaces")
    namespace_selector = reader.optional_child("namespaceSelector")
    if namespace_selector is not None:
        names = tuple(sorted({*names, *namespaces.selected(namespace_selector)}))
        if not names:
            # An empty tuple would mean the pod's own namespace; this term selects no pod at all.
            selector = None
    return PodAffinityTerm(
        selector=selector,
        topology_key=reader.text("topologyKey", required=True),
        namespaces=names,
    )


def _label_selector(reader: Reader) -> LabelSelector:
    return LabelSelector(
        match_labels=reader.text_map("matchLabels"),
        match_expressions=tuple(_requirements(reader, "matchExpressions")),
    )


def _requirements(reader: Reader, key: str) -> Iterator[Requirement]:
    for expression in reader.children(key):
        name = expression.text("key", required=True)
        operator = expression.member("operator", Operator, required=True)
        values = expression.texts("values")
        if operator is not None:
            yield Requirement(key=name, operator=operator, values=values)
