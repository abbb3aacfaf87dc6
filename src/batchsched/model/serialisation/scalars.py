"""Shapes of scalar values: strings, numbers, null, and members of enums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import NoneType
from typing import cast

from attrs import NOTHING, frozen

from batchsched.model.serialisation.shape import JsonValue, Reading, Scalar, expected
from batchsched.model.spelling import did_you_mean

__all__ = ["SCALARS", "Member", "Scalars"]

SCALARS: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}
"""The plain types, with their names in JSON Schema."""
_IN_WORDS = {
    "string": "a string",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "null": "null",
}


@frozen
class Scalars:
    """A value of one of several plain types."""

    kinds: tuple[type, ...]

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        del derived
        return cast("Scalar", value)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if self.is_read_from(given):
            return given
        words = [_IN_WORDS[SCALARS[kind]] for kind in self.kinds]
        if float in self.kinds and int in self.kinds:
            words.remove("an integer")
        reading.refuse(path, expected(" or ".join(words), given))
        return NOTHING

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        kind = type(given)
        return kind in self.kinds or (kind is int and float in self.kinds)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        del definitions
        names = [SCALARS[kind] for kind in self.kinds]
        if "number" in names and "integer" in names:
            names.remove("integer")
        return {"type": names[0] if len(names) == 1 else list[JsonValue](names)}


@frozen
class Member:
    """A member of an enum, written as its value, or a literal value."""

    members: Mapping[object, object]
    """The written values, and the members that they represent."""

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        del derived
        return cast("Scalar", value.value if isinstance(value, Enum) else value)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if self.is_read_from(given):
            return self.members[given]
        known = list(map(str, self.members))
        hint = did_you_mean(str(given), known)
        wanted = f"one of {', '.join(known)}"
        reading.refuse(path, f"{expected(wanted, given)}{hint and '; ' + hint}")
        return NOTHING

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        return isinstance(given, (str, int)) and given in self.members

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        del definitions
        return {"enum": [cast("Scalar", written) for written in self.members]}
