"""Shapes: how values of a type are written as plain data, read back, and described by a schema.

A shape is derived from the type of a field (`shape_of`), and that of an attrs class from its
fields. So a new field is written, read and described without any code of its own; a field of
a type that has no shape is an error as soon as its class is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Literal,
    Protocol,
    TypeGuard,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from attrs import NOTHING, Attribute, AttrsInstance, fields, frozen, has

from batchsched.errors import Fault, FaultsError
from batchsched.model.validation.values import is_mapping, join_path, shown

__all__ = ["JsonValue", "Reading", "Record", "Shape", "record_of", "shape_of"]

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
"""What JSON is made of."""

Scalar = str | int | float | bool | None

_SCALARS: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}
"""The plain types, and what JSON Schema calls them."""
_IN_WORDS = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "null": "null",
}
_default_of = attrgetter("default")


class Reading:
    """What was found wrong while plain data is read."""

    def __init__(self, derived: Mapping[type, Sequence[str]]) -> None:
        self.faults: list[Fault] = []
        self.derived = derived
        """Names that are written besides the fields of a class; nothing is read from them."""
        self.is_complete = True
        """Whether something was left out because it could not be read."""

    def refuse(self, path: str, message: str) -> None:
        """Take note of a fault."""
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


def _expected(wanted: str, given: object) -> str:
    return f"expected {wanted}, got {shown(given)}"


def _is_list(given: object) -> TypeGuard[Sequence[object]]:
    return isinstance(given, (list, tuple))


@frozen
class _Scalars:
    """One or several plain types."""

    kinds: tuple[type, ...]

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        del derived
        return cast("Scalar", value)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        if self.is_read_from(given):
            return given
        words = [_IN_WORDS[_SCALARS[kind]] for kind in self.kinds]
        if float in self.kinds and int in self.kinds:
            words.remove("an integer")
        reading.refuse(path, _expected(" or ".join(words), given))
        return NOTHING

    def is_read_from(self, given: object, /) -> bool:
        kind = type(given)
        return kind in self.kinds or (kind is int and float in self.kinds)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        del definitions
        names = [_SCALARS[kind] for kind in self.kinds]
        if "number" in names and "integer" in names:
            names.remove("integer")
        return {"type": names[0] if len(names) == 1 else list[JsonValue](names)}


@frozen
class _Member:
    """One of an enum's members, written as its value; or one of some literal texts."""

    members: Mapping[object, object]
    """What is written, and the value that it stands for."""

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        del derived
        return cast("Scalar", value.value if isinstance(value, Enum) else value)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        if self.is_read_from(given):
            return self.members[given]
        known = list(map(str, self.members))
        close = get_close_matches(str(given), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        wanted = f"one of {', '.join(known)}"
        reading.refuse(path, f"{_expected(wanted, given)}{hint}")
        return NOTHING

    def is_read_from(self, given: object, /) -> bool:
        return isinstance(given, (str, int)) and given in self.members

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        del definitions
        return {"enum": [cast("Scalar", written) for written in self.members]}


@frozen
class _Items:
    """A tuple of any number of items of one shape, written as a list."""

    item: Shape

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        write = self.item.write
        return [write(item, derived=derived) for item in cast("tuple[object, ...]", value)]

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        if not _is_list(given):
            reading.refuse(path, _expected("a list", given))
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
        return _is_list(given)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        return {"type": "array", "items": self.item.schema(definitions)}


@frozen
class _Named:
    """A mapping of texts to values of one shape, written as an object in order of the texts."""

    item: Shape

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        write = self.item.write
        content = cast("Mapping[str, object]", value)
        return {name: write(item, derived=derived) for name, item in sorted(content.items())}

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        if not is_mapping(given):
            reading.refuse(path, _expected("an object", given))
            return NOTHING
        content: dict[object, object] = {}
        for name, item in given.items():
            if not isinstance(name, str):
                reading.refuse(f"{path}[{shown(name)}]", "expected a text as a name")
                continue
            value = self.item.read(item, f"{path}[{name!r}]", reading)
            if value is NOTHING:
                reading.is_complete = False
            else:
                content[name] = value
        return content

    def is_read_from(self, given: object, /) -> bool:
        return is_mapping(given)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        return {"type": "object", "additionalProperties": self.item.schema(definitions)}


@frozen
class _Pairs:
    """A mapping whose keys are no texts, written as a list of pairs."""

    key: Shape
    item: Shape

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        pairs: list[list[JsonValue]] = [
            [self.key.write(key, derived=derived), self.item.write(item, derived=derived)]
            for key, item in cast("Mapping[object, object]", value).items()
        ]
        return list[JsonValue](sorted(pairs, key=repr))

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        if not _is_list(given):
            reading.refuse(path, _expected("a list of pairs", given))
            return NOTHING
        content: dict[object, object] = {}
        for position, pair in enumerate(given):
            where = f"{path}[{position}]"
            if not _is_list(pair) or len(pair) != 2:  # noqa: PLR2004 - that is a pair
                reading.refuse(where, _expected("a pair", pair))
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
        return _is_list(given)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        pair: dict[str, JsonValue] = {
            "type": "array",
            "prefixItems": [self.key.schema(definitions), self.item.schema(definitions)],
            "minItems": 2,
            "maxItems": 2,
        }
        return {"type": "array", "items": pair}


@frozen
class _Either:
    """A value of one of several shapes, told apart by what is written."""

    shapes: tuple[Shape, ...]

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        for shape in self.shapes:
            if isinstance(shape, Record) and isinstance(value, shape.kind):
                written = shape.write(value, derived=derived)
                if self._records() > 1 and isinstance(written, dict):
                    return {"type": shape.kind.__name__, **written}
                return written
        if value is None or isinstance(value, (str, int, float)):
            return value
        other = next(shape for shape in self.shapes if not isinstance(shape, (Record, _Scalars)))
        return other.write(value, derived=derived)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        if self._records() > 1 and is_mapping(given):
            records = {s.kind.__name__: s for s in self.shapes if isinstance(s, Record)}
            kind = given.get("type")
            if not isinstance(kind, str) or kind not in records:
                wanted = f"one of {', '.join(records)}"
                reading.refuse(f"{path}.type", _expected(wanted, kind))
                return NOTHING
            content = {name: item for name, item in given.items() if name != "type"}
            return records[kind].read(content, path, reading)
        for shape in self.shapes:
            if shape.is_read_from(given):
                return shape.read(given, path, reading)
        # What stands first is what is meant; null and the like come after it.
        return self.shapes[0].read(given, path, reading)

    def is_read_from(self, given: object, /) -> bool:
        return any(shape.is_read_from(given) for shape in self.shapes)

    def _records(self) -> int:
        return sum(isinstance(shape, Record) for shape in self.shapes)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        is_told_apart = self._records() > 1
        return {
            "anyOf": [
                shape.named(definitions)
                if is_told_apart and isinstance(shape, Record)
                else shape.schema(definitions)
                for shape in self.shapes
            ]
        }


@frozen
class _Field:
    name: str
    shape: Shape
    is_required: bool
    default: object
    """The value of a field that is not given; made anew for comparison if it is a factory's."""


@frozen
class Record:
    """An attrs class, written as an object with its fields."""

    kind: type[AttrsInstance]
    content: tuple[_Field, ...]

    def write(self, value: object, /, *, derived: Mapping[type, Sequence[str]] | None) -> JsonValue:
        """Return the fields as an object; those with their default value only with `derived`."""
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
        """Return a value of the class, made of what could be read."""
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
        """Return what the class is to be called with; None, and a fault, if that is not there."""
        if not is_mapping(given):
            reading.refuse(path, _expected("an object", given))
            return None
        known = {item.name for item in self.content}
        for name in given:
            if name not in known and name not in reading.derived.get(self.kind, ()):
                self._refuse_unknown(name, path, reading)
        arguments: dict[str, object] = {}
        is_whole = True
        for item in self.content:
            where = join_path(path, item.name)
            if item.name not in given:
                if item.is_required:
                    reading.refuse(where, "is missing")
                    is_whole = False
                continue
            value = item.shape.read(given[item.name], where, reading)
            if value is not NOTHING:
                arguments[item.name] = value
            elif item.is_required:
                is_whole = False
            # Else it has its default value, so that what is wrong besides can be told too.
        return arguments if is_whole else None

    def _refuse_unknown(self, name: object, path: str, reading: Reading) -> None:
        known = [item.name for item in self.content]
        close = get_close_matches(str(name), known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        message = (
            f"unknown field of {self.kind.__name__}; {hint}a newer version of batchsched may "
            f"have written it; known: {', '.join(known)}"
        )
        reading.refuse(join_path(path, str(name)), message)

    def label(self, given: object) -> str | None:
        """Return by what name an item is told from others in a list, if it has one."""
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
        """Return a reference to the class, which is in `definitions` then."""
        name = self.kind.__name__
        if name not in definitions:
            definitions[name] = {}  # for classes that refer to themselves
            definitions[name] = self.described(definitions)
        return {"$ref": f"#/$defs/{name}"}

    def named(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return the schema of the class where its name is written with it, as ``type``."""
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


def _field_of(attribute: Attribute[object], kind: type, hints: Mapping[str, object]) -> _Field:
    default: object = _default_of(attribute)
    make: Callable[[], object] | None = getattr(default, "factory", None)
    if make is not None:
        default = make()
    try:
        shape = shape_of(hints[attribute.name])
    except TypeError as error:
        raise TypeError(f"{kind.__name__}.{attribute.name}: {error}") from None
    return _Field(attribute.name, shape, default is NOTHING, default)


@cache
def record_of(kind: type[AttrsInstance]) -> Record:
    """Return the shape of an attrs class.

    Raises:
        TypeError: a field has a type that cannot be written.

    """
    hints: dict[str, object] = get_type_hints(kind)
    attributes: tuple[Attribute[object], ...] = fields(kind)
    return Record(kind, tuple(_field_of(a, kind, hints) for a in attributes if a.init))


def shape_of(annotation: object) -> Shape:
    """Return the shape of values of a type.

    Raises:
        TypeError: values of such a type cannot be written.

    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and annotation in _SCALARS:
        return _Scalars((annotation,))
    if origin is Literal:
        return _Member({argument: argument for argument in arguments})
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _Member({cast("object", member.value): member for member in annotation})
    if isinstance(annotation, type) and has(annotation):
        return record_of(annotation)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004
        return _Items(shape_of(arguments[0]))
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        key, item = arguments
        return _Named(shape_of(item)) if key is str else _Pairs(shape_of(key), shape_of(item))
    if origin is Union or origin is UnionType:
        return _union_of(arguments)
    raise TypeError(f"values of the type {annotation} have no form as plain data")


def _union_of(arguments: Sequence[object]) -> Shape:
    plain = tuple(a for a in arguments if isinstance(a, type) and a in _SCALARS)
    others = [shape_of(each) for each in arguments if all(each is not kind for kind in plain)]
    if not others:
        return _Scalars(plain)
    if sum(not isinstance(shape, (Record, _Member)) for shape in others) > 1:
        raise TypeError(f"values of the types {arguments} cannot be told apart as plain data")
    return _Either((*others, _Scalars(plain)) if plain else tuple(others))
