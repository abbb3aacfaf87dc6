"""Node affinity: which nodes a task requires, and which it prefers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from batchsched.model.constraints.selectors import Requirement, kept_requirements
from batchsched.model.immutable import kept_tuple

__all__ = ["NodeAffinity", "NodeSelectorTerm", "PreferredNodeTerm"]


@frozen(kw_only=True)
class NodeSelectorTerm:
    """Expressions over a node's labels and fields; all must hold.

    >>> from batchsched.model.constraints import Operator
    >>> ssd = Requirement(key="disk", operator=Operator.IN, values=("ssd",))
    >>> NodeSelectorTerm(match_expressions=(ssd,)).matches({"disk": "ssd"}, "n1")
    True
    """

    match_expressions: tuple[Requirement, ...] = field(default=(), converter=kept_requirements)
    """Requirements on the node's labels."""
    match_fields: tuple[Requirement, ...] = field(default=(), converter=kept_requirements)
    """Requirements on the node's fields; the only field is ``metadata.name``."""

    def is_empty(self) -> bool:
        """Return whether the term has no expressions."""
        return not self.match_expressions and not self.match_fields

    def matches(self, labels: Mapping[str, str], node_name: str, /) -> bool:
        """Return whether all expressions hold; True for an empty term. O(expressions)."""
        if not all(requirement.matches(labels) for requirement in self.match_expressions):
            return False
        if not self.match_fields:
            return True
        fields = {"metadata.name": node_name}
        return all(requirement.matches(fields) for requirement in self.match_fields)


@frozen(kw_only=True)
class PreferredNodeTerm:
    """A term that adds `weight` to the score of the nodes that it matches."""

    weight: int
    """1 to 100."""
    term: NodeSelectorTerm


def _required(terms: Iterable[NodeSelectorTerm] | None, /) -> tuple[NodeSelectorTerm, ...] | None:
    return None if terms is None else kept_tuple(terms)


def _preferred(terms: Iterable[PreferredNodeTerm], /) -> tuple[PreferredNodeTerm, ...]:
    return kept_tuple(terms)


@frozen(kw_only=True)
class NodeAffinity:
    """Which nodes a task requires and prefers."""

    required: tuple[NodeSelectorTerm, ...] | None = field(default=None, converter=_required)
    """The node must match any of the terms; an empty term matches nothing. None: every node."""
    preferred: tuple[PreferredNodeTerm, ...] = field(default=(), converter=_preferred)
    """Terms that make a node preferable; an empty term matches everything."""

    def accepts(self, labels: Mapping[str, str], node_name: str, /) -> bool:
        """Return whether a node meets the requirements."""
        if self.required is None:
            return True
        return any(
            not term.is_empty() and term.matches(labels, node_name) for term in self.required
        )

    def weight_of(self, labels: Mapping[str, str], node_name: str, /) -> int:
        """Return the sum of the weights of the preferred terms that a node matches."""
        return sum(
            preferred.weight
            for preferred in self.preferred
            if preferred.term.matches(labels, node_name)
        )
