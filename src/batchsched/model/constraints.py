"""Scheduling constraints as typed values, with matching.

The matching rules are those of Kubernetes. The values are not validated here: a
`batchsched.Snapshot` validates all of its constraints at once when it is created.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from attrs import field, frozen

from batchsched.model.immutable import (
    EMPTY,
    AsMap,
    AsTuple,
    AsTupleOrNone,
)

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_INT64 = 1 << 63


class Operator(Enum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


def integer_of(text: str, /) -> int | None:
    """Return the 64-bit integer that `text` represents, by Kubernetes' rules, or None.

    >>> integer_of("-7"), integer_of("7.0"), integer_of(" 7"), integer_of("9223372036854775808")
    (-7, None, None, None)
    """
    spelt = _INTEGER.fullmatch(text)
    if spelt is None:
        return None
    value = int(spelt[1] + spelt[2])
    return value if -_INT64 <= value < _INT64 else None


@frozen(kw_only=True)
class Requirement:
    """One expression over labels: a key, an operator and values.

    >>> Requirement(key="zone", operator=Operator.IN, values=("z1",)).matches({"zone": "z1"})
    True
    >>> Requirement(key="zone", operator=Operator.NOT_IN, values=("z1",)).matches({})
    True
    >>> Requirement(key="gen", operator=Operator.GT, values=("3",)).matches({"gen": "4"})
    True
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = field(default=(), converter=AsTuple[str])

    def matches(self, labels: Mapping[str, str], /) -> bool:
        """Return whether `labels` meet the requirement. O(values)."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                if value is None or len(self.values) != 1:
                    return False
                have, bound = integer_of(value), integer_of(self.values[0])
                if have is None or bound is None:
                    return False
                return have > bound if self.operator is Operator.GT else have < bound


@frozen(kw_only=True)
class LabelSelector:
    """A selection of tasks by their labels: all of its parts must hold.

    An empty selector matches everything. Where a selector is optional, None
    matches nothing.

    >>> LabelSelector(match_labels={"app": "db"}).matches({"app": "db", "tier": "back"})
    True
    >>> LabelSelector().matches({})
    True
    """

    match_labels: Mapping[str, str] = field(default=EMPTY, converter=AsMap[str, str])
    match_expressions: tuple[Requirement, ...] = field(default=(), converter=AsTuple[Requirement])

    def matches(self, labels: Mapping[str, str], /) -> bool:
        """Return whether `labels` meet every part. O(size of the selector)."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self.match_expressions)


@frozen(kw_only=True)
class NodeSelectorTerm:
    """Expressions over a node's labels and fields; all must hold.

    >>> from batchsched.model.constraints import Operator
    >>> ssd = Requirement(key="disk", operator=Operator.IN, values=("ssd",))
    >>> NodeSelectorTerm(match_expressions=(ssd,)).matches({"disk": "ssd"}, "n1")
    True
    """

    match_expressions: tuple[Requirement, ...] = field(default=(), converter=AsTuple[Requirement])
    """Requirements on the node's labels."""
    match_fields: tuple[Requirement, ...] = field(default=(), converter=AsTuple[Requirement])
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


@frozen(kw_only=True)
class NodeAffinity:
    """Which nodes a task requires and prefers."""

    required: tuple[NodeSelectorTerm, ...] | None = field(
        default=None, converter=AsTupleOrNone[NodeSelectorTerm]
    )
    """The node must match any of the terms; an empty term matches nothing. None: every node."""
    preferred: tuple[PreferredNodeTerm, ...] = field(
        default=(), converter=AsTuple[PreferredNodeTerm]
    )
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


@frozen(kw_only=True)
class PodAffinityTerm:
    """A selection of tasks, and the topology domain in which they count as near."""

    selector: LabelSelector | None = None
    """Selects tasks by label. None matches no task; an empty selector matches all."""
    topology_key: str
    """The node label whose value names a domain; a node without it is in no domain."""
    namespaces: tuple[str, ...] = field(default=(), converter=AsTuple[str])
    """The namespaces of selected tasks; empty: the namespace of the task with the term."""

    def selects(self, *, own_namespace: str, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether the term, on a task in `own_namespace`, selects the described task.

        >>> near_db = PodAffinityTerm(
        ...     selector=LabelSelector(match_labels={"app": "db"}), topology_key="zone")
        >>> near_db.selects(own_namespace="a", namespace="a", labels={"app": "db"})
        True
        >>> near_db.selects(own_namespace="a", namespace="b", labels={"app": "db"})
        False
        """
        if self.selector is None:
            return False
        if self.namespaces:
            if namespace not in self.namespaces:
                return False
        elif namespace != own_namespace:
            return False
        return self.selector.matches(labels)


@frozen(kw_only=True)
class WeightedPodTerm:
    """A preferred term: `weight` is added or subtracted for each selected task nearby."""

    weight: int
    """1 to 100."""
    term: PodAffinityTerm


@frozen(kw_only=True)
class PodAffinity:
    """Required and preferred terms, used as `pod_affinity` or as `pod_anti_affinity`."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), converter=AsTuple[PodAffinityTerm])
    preferred: tuple[WeightedPodTerm, ...] = field(default=(), converter=AsTuple[WeightedPodTerm])


ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - only compared, never bound


@frozen(kw_only=True, order=True)
class HostPort:
    """A port on the node's own address.

    >>> HostPort(port=80).conflicts(HostPort(port=80, address="10.0.0.1"))
    True
    >>> HostPort(port=80).conflicts(HostPort(port=80, protocol="UDP"))
    False
    """

    port: int
    """1 to 65535."""
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: HostPort, /) -> bool:
        """Return whether the two cannot be used on the same node."""
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (self.address == other.address or ANY_ADDRESS in (self.address, other.address))
        )


class TaintEffect(Enum):
    """What a taint does to tasks that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(Enum):
    """How a toleration compares its value with a taint's."""

    EQUAL = "Equal"
    EXISTS = "Exists"


@frozen(kw_only=True)
class Taint:
    """A mark on a node that keeps away tasks that do not tolerate it."""

    key: str
    value: str = ""
    effect: TaintEffect

    def repels(self) -> bool:
        """Return whether tasks must tolerate the taint (PreferNoSchedule only advises)."""
        return self.effect is not TaintEffect.PREFER_NO_SCHEDULE


@frozen(kw_only=True)
class Toleration:
    """The taints that a task tolerates.

    >>> maintenance = Taint(key="maintenance", value="disk", effect=TaintEffect.NO_EXECUTE)
    >>> Toleration(operator=TolerationOperator.EXISTS).tolerates(maintenance)
    True
    >>> Toleration(key="maintenance", value="fan").tolerates(maintenance)
    False
    """

    key: str = ""
    """The taint's key; empty with EXISTS: any key."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None
    """The taint's effect; None: any effect."""

    def tolerates(self, taint: Taint, /) -> bool:
        """Return whether the toleration matches `taint`."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator is TolerationOperator.EXISTS or self.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """Return the first taint that repels and is not tolerated. O(taints x tolerations)."""
    for taint in taints:
        if taint.repels() and not any(t.tolerates(taint) for t in tolerations):
            return taint
    return None
