"""Requirements on labels, and label selectors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum

from attrs import field, frozen

from batchsched.model.immutable import EMPTY, kept_text_map, kept_texts, kept_tuple

__all__ = ["LabelSelector", "Operator", "Requirement", "integer_of"]

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
    values: tuple[str, ...] = field(default=(), converter=kept_texts)

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


def kept_requirements(items: Iterable[Requirement], /) -> tuple[Requirement, ...]:
    """Return `items` as a tuple, or unchanged if it is not a collection. O(n)."""
    return kept_tuple(items)


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

    match_labels: Mapping[str, str] = field(default=EMPTY, converter=kept_text_map)
    match_expressions: tuple[Requirement, ...] = field(default=(), converter=kept_requirements)

    def matches(self, labels: Mapping[str, str], /) -> bool:
        """Return whether `labels` meet every part. O(size of the selector)."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self.match_expressions)
