"""Shapes of composite values: lists, mappings, and unions of several shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from attrs import NOTHING, frozen

from batchsched.model.serialisation.record import Record
from batchsched.model.serialisation.scalars import Scalars
from batchsched.model.serialisation.shape import JsonValue, Reading, Shape, expected, is_list
from batchsched.model.validation.values import is_mapping, shown

__all__ = ["Either", "Items", "Named", "Pairs"]


@frozen
class Items:
    """A tuple of any number of items of one shape, written as a list."""

    item: Shape

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        write = self.item.write
        return [write(item, derived=derived) for item in cast("tuple[object, ...]", value)]

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if not is_list(given):
            reading.refuse(path, expected("a list", given))
            return NOTHING
        label = self.item.label if isinstance(self.item, Record) else None
        items: list[object] = []
        for position, item in enumerate(given):
            name = None if label is None else label(item)
            where = f"{path}[{position if name is None else repr(name)}]"
            value = self.item.read(item, where, reading)
            if value is NOTHING:
                reading.is_complete = False
            else:
                items.append(value)
        return tuple(items)

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        return is_list(given)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        return {"type": "array", "items": self.item.schema(definitions)}


@frozen
class Named:
    """A mapping of strings to values of one shape, written as an object in order of key."""

    item: Shape

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        write = self.item.write
        content = cast("Mapping[str, object]", value)
        return {name: write(item, derived=derived) for name, item in sorted(content.items())}

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if not is_mapping(given):
            reading.refuse(path, expected("an object", given))
            return NOTHING
        content: dict[object, object] = {}
        for name, item in given.items():
            if not isinstance(name, str):
                reading.refuse(f"{path}[{shown(name)}]", "expected a string as key")
                continue
            value = self.item.read(item, f"{path}[{name!r}]", reading)
            if value is NOTHING:
                reading.is_complete = False
            else:
                content[name] = value
        return content

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        return is_mapping(given)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        return {"type": "object", "additionalProperties": self.item.schema(definitions)}


@frozen
class Pairs:
    """A mapping whose keys are not strings, written as a list of pairs."""

    key: Shape
    item: Shape

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        pairs: list[list[JsonValue]] = [
            [self.key.write(key, derived=derived), self.item.write(item, derived=derived)]
            for key, item in cast("Mapping[object, object]", value).items()
        ]
        return list[JsonValue](sorted(pairs, key=repr))

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if not is_list(given):
            reading.refuse(path, expected("a list of pairs", given))
            return NOTHING
        content: dict[object, object] = {}
        for position, pair in enumerate(given):
            where = f"{path}[{position}]"
            if not is_list(pair) or len(pair) != 2:  # noqa: PLR2004 - a pair has two items
                reading.refuse(where, expected("a pair", pair))
                reading.is_complete = False
                continue
            key = self.key.read(pair[0], f"{where}[0]", reading)
            value = self.item.read(pair[1], f"{where}[1]", reading)
            if key is NOTHING or value is NOTHING:
                reading.is_complete = False
            else:
                content[key] = value
        return content

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        return is_list(given)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        pair: dict[str, JsonValue] = {
            "type": "array",
            "prefixItems": [self.key.schema(definitions), self.item.schema(definitions)],
            "minItems": 2,
            "maxItems": 2,
        }
        return {"type": "array", "items": pair}


@frozen
class Either:
    """A value of one of several shapes, which are distinguished by their plain data."""

    shapes: tuple[Shape, ...]

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        for shape in self.shapes:
            if isinstance(shape, Record) and isinstance(value, shape.kind):
                written = shape.write(value, derived=derived)
                if self._records() > 1 and isinstance(written, dict):
                    return {"type": shape.kind.__name__, **written}
                return written
        if value is None or isinstance(value, (str, int, float)):
            return value
        other = next(shape for shape in self.shapes if not isinstance(shape, (Record, Scalars)))
        return other.write(value, derived=derived)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if self._records() > 1 and is_mapping(given):
            records = {s.kind.__name__: s for s in self.shapes if isinstance(s, Record)}
            kind = given.get("type")
            if not isinstance(kind, str) or kind not in records:
                wanted = f"one of {', '.join(records)}"
                reading.refuse(f"{path}.type", expected(wanted, kind))
                return NOTHING
            content = {name: item for name, item in given.items() if name != "type"}
            return records[kind].read(content, path, reading)
        for shape in self.shapes:
            if shape.is_read_from(given):
                return shape.read(given, path, reading)
        # Report what the first shape expects; null and the like come after it.
        return self.shapes[0].read(given, path, reading)

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        return any(shape.is_read_from(given) for shape in self.shapes)

    def _records(self) -> int:
        return sum(isinstance(shape, Record) for shape in self.shapes)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        needs_type = self._records() > 1
        return {
            "anyOf": [
                shape.named(definitions)
                if needs_type and isinstance(shape, Record)
                else shape.schema(definitions)
                for shape in self.shapes
            ]
        }
