"""Shape: how values of one type are written as plain data, read back and described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeGuard

from batchsched.errors import Fault
from batchsched.model.validation.values import shown

__all__ = ["JsonValue", "Reading", "Scalar", "Shape", "expected", "is_list"]

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
"""What JSON is made of."""

Scalar = str | int | float | bool | None


class Reading:
    """What was found wrong while plain data is read."""

    def __init__(self, derived: Mapping[type, Sequence[str]]) -> None:
        self.faults: list[Fault] = []
        self.derived = derived
        """Names that are written besides the fields of a class; nothing is read from them."""
        self.is_complete = True
        """Whether something was left out because it could not be read."""

    def refuse(self, path: str, message: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(path, message))


class Shape(Protocol):
    """How values of one type are written, read and described."""

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return a value as plain data. With `derived`, also what has its default value."""
        ...

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data stands for; NOTHING, and a fault, if for none."""
        ...

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data looks as if it had this shape, to choose from a union."""
        ...

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; classes are added to `definitions`."""
        ...


def expected(wanted: str, given: object) -> str:
    """Return what to say of a value that is not what was wanted."""
    return f"expected {wanted}, got {shown(given)}"


def is_list(given: object) -> TypeGuard[Sequence[object]]:
    """Return whether plain data is a list."""
    return isinstance(given, (list, tuple))
