"""Shapes: the protocol that converts values of one type to plain data and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeGuard

from batchsched.errors import Fault
from batchsched.model.validation.values import shown

__all__ = ["JsonValue", "Reading", "Scalar", "Shape", "expected", "is_list"]

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
"""A JSON value."""

Scalar = str | int | float | bool | None


class Reading:
    """The faults that were found while plain data is read."""

    def __init__(self, derived: Mapping[type, Sequence[str]]) -> None:
        self.faults: list[Fault] = []
        self.derived = derived
        """Properties that are written in addition to the fields of a class, and not read."""
        self.is_complete = True
        """Whether all values could be read; False if one was left out."""

    def refuse(self, path: str, message: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(path, message))


class Shape(Protocol):
    """Converts values of one type to plain data and back, and describes them."""

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return a value as plain data. With `derived`, defaults are included."""
        ...

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; NOTHING, with a fault, if it is invalid."""
        ...

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape, to choose from a union."""
        ...

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; classes are added to `definitions`."""
        ...


def expected(wanted: str, given: object) -> str:
    """Return the message for an invalid value."""
    return f"expected {wanted}, got {shown(given)}"


def is_list(given: object) -> TypeGuard[Sequence[object]]:
    """Return whether plain data is a list."""
    return isinstance(given, (list, tuple))
