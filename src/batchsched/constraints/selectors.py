"""Requirements on labels, and label selectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum

from attrs import field, frozen

from batchsched.frozen import FrozenMap, frozen_map

__all__ = ["LabelSelector", "Operator", "Requirement", "integer_of"]

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Operator(Enum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


def integer_of(text: str, /) -> int | None:
    """Return the integer that `text` spells, or None.

    >>> integer_of("-7"), integer_of("7.0"), integer_of(" 7")
    (-7, None, None)
    """
    return int(text) if _INTEGER.fullmatch(text) else None


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
    values: tuple[str, ...] = field(default=(), converter=tuple)

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

    def problems(self, *, compares: bool) -> Iterator[str]:
        """Yield what makes the requirement invalid; `compares` says if Gt and Lt are allowed."""
        if not isinstance(self.operator, Operator):
            known = ", ".join(operator.value for operator in Operator)
            yield f"operator {self.operator!r} is none of {known}"
            return
        name = self.operator.value
        if not self.key or not isinstance(self.key, str):
            yield f"key {self.key!r} is no label key; a label key is a non-empty text"
        strays = [value for value in self.values if not isinstance(value, str)]
        if strays:
            yield f"values {strays!r} are no texts; label values are texts"
            return
        match self.operator:
            case Operator.IN | Operator.NOT_IN:
                if not self.values:
                    yield f"operator {name} needs at least one value"
            case Operator.EXISTS | Operator.DOES_NOT_EXIST:
                if self.values:
                    yield f"operator {name} takes no values, not {list(self.values)!r}"
            case Operator.GT | Operator.LT:
                if not compares:
                    yield f"operator {name} is for nodes; a label selector knows no order"
                elif len(self.values) != 1 or integer_of(self.values[0]) is None:
                    yield f"operator {name} needs exactly one integer, not {list(self.values)!r}"


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

    match_labels: Mapping[str, str] = field(default=FrozenMap(), converter=frozen_map)
    match_expressions: tuple[Requirement, ...] = field(default=(), converter=tuple)

    def matches(self, labels: Mapping[str, str], /) -> bool:
        """Return whether `labels` meet every part. O(size of the selector)."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self.match_expressions)
