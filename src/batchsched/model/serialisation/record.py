"""The shape of attrs classes, which are written as objects with their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import NOTHING, AttrsInstance, frozen

from batchsched.errors import FaultsError
from batchsched.model.serialisation.shape import JsonValue, Reading, Shape, expected
from batchsched.model.spelling import did_you_mean
from batchsched.model.validation.values import is_mapping, join_path

__all__ = ["Record", "RecordField"]


@frozen
class RecordField:
    """A field of a record."""

    name: str
    shape: Shape
    is_required: bool
    default: object
    """The default value, for comparison; if a factory makes it, one value that it returned."""


@frozen
class Record:
    """An attrs class, written as an object with its fields."""

    kind: type[AttrsInstance]
    content: tuple[RecordField, ...]

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return the fields as an object; fields equal to their default only with `derived`."""
        written: dict[str, JsonValue] = {}
        for item in self.content:
            content: object = getattr(value, item.name)
            if derived is not None or item.is_required or content != item.default:
                written[item.name] = item.shape.write(content, derived=derived)
        if derived is not None:
            for name in derived.get(self.kind, ()):
                written[name] = getattr(value, name)
        return written

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return an instance of the class, created from the fields that could be read."""
        arguments = self.arguments(given, path, reading)
        if arguments is None:
            return NOTHING
        try:
            return self.kind(**arguments)
        except FaultsError as error:
            for fault in error.faults:
                reading.refuse(join_path(path, fault.path), fault.message)
            return NOTHING

    def arguments(self, given: object, path: str, reading: Reading, /) -> dict[str, object] | None:
        """Return the arguments to create an instance; None, with a fault, if any is missing."""
        if not is_mapping(given):
            reading.refuse(path, expected("an object", given))
            return None
        known = {item.name for item in self.content}
        for name in given:
            if name not in known and name not in reading.derived.get(self.kind, ()):
                self._refuse_unknown(name, path, reading)
        arguments: dict[str, object] = {}
        is_complete = True
        for item in self.content:
            where = join_path(path, item.name)
            if item.name not in given:
                if item.is_required:
                    reading.refuse(where, "is missing")
                    is_complete = False
                continue
            value = item.shape.read(given[item.name], where, reading)
            if value is not NOTHING:
                arguments[item.name] = value
            elif item.is_required:
                is_complete = False
            # Else the default is used, so that faults of other fields can be reported too.
        return arguments if is_complete else None

    def _refuse_unknown(self, name: object, path: str, reading: Reading) -> None:
        known = [item.name for item in self.content]
        hint = did_you_mean(str(name), known)
        message = (
            f"unknown field of {self.kind.__name__}; {hint and hint + ' '}a newer version of "
            f"batchsched may have written it; known: {', '.join(known)}"
        )
        reading.refuse(join_path(path, str(name)), message)

    def label(self, given: object) -> str | None:
        """Return the name that identifies an item in a list, or None."""
        if not is_mapping(given):
            return None
        names = [item.name for item in self.content]
        if "uid" in names:
            name = given.get("uid")
        elif "namespace" in names and isinstance(given.get("name"), str):
            name = f"{given.get('namespace', 'default')}/{given['name']}"
        else:
            name = given.get("name")
        return name if isinstance(name, str) else None

    def is_read_from(self, given: object, /) -> bool:
        """Return whether `given` is an object."""
        return is_mapping(given)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a reference to the class, and add the class to `definitions`."""
        name = self.kind.__name__
        if name not in definitions:
            definitions[name] = {}  # for classes that refer to themselves
            definitions[name] = self.described(definitions)
        return {"$ref": f"#/$defs/{name}"}

    def named(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return the schema of the class with its name as the property ``type``."""
        described = self.described(definitions)
        tag: dict[str, JsonValue] = {"const": self.kind.__name__}
        described["properties"] = {
            "type": tag,
            **{f.name: f.shape.schema(definitions) for f in self.content},
        }
        described["required"] = ["type", *(f.name for f in self.content if f.is_required)]
        return described

    def described(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return the schema of the class itself."""
        summary = (self.kind.__doc__ or "").partition("\n")[0]
        described: dict[str, JsonValue] = {"type": "object"}
        if summary:
            described["description"] = summary
        described["properties"] = {
            item.name: dict(item.shape.schema(definitions)) for item in self.content
        }
        described["required"] = [item.name for item in self.content if item.is_required]
        described["additionalProperties"] = False
        return described
