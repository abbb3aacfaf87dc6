"""Converts values to plain data for JSON and back, as derived from their classes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, cached_property
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Final,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from attrs import NOTHING, Attribute, AttrsInstance, fields, frozen, has

from batchsched.errors import Fault, FaultsError, FormatError, SerialisationError
from batchsched.model.immutable import kept_map
from batchsched.model.texts import did_you_mean
from batchsched.model.validation.values import (
    is_integer,
    is_mapping,
    is_of,
    is_text,
    items_in,
    items_of,
    join_path,
    shown,
)

Derived = Mapping[type, Sequence[str]] | None
"""Properties that are written in addition to the fields of a class, and not read; None: none are,
and neither are fields that equal their default."""
JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
"""A JSON value."""

Scalar = str | int | float | bool | None
WRITTEN: Final = "written"
"""In the metadata of a field: the type of what is written, if not every value can be."""


class Reading:
    """The faults that were found while plain data is read."""

    def __init__(self, derived: Derived) -> None:
        self.faults: list[Fault] = []
        self.derived = derived or {}
        self.is_complete = True
        """Whether all values could be read; False if one was left out."""

    def refuse(self, path: str, message: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(path, message))


class Shape(Protocol):
    """Converts values of one type to plain data and back, and describes them."""

    def write(self, value: object, derived: Derived, /) -> JsonValue:
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
    try:
        return isinstance(given, (list, tuple))
    except Exception:  # `__class__` of something invalid may raise anything
        return False


class _ListShape:
    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        return is_list(given)


class _ObjectShape:
    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        return is_mapping(given)


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


@frozen(eq=False)
class Scalars:
    """A value of one of several plain types."""

    kinds: tuple[type, ...]

    def write(self, value: object, _derived: Derived, /) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        return cast("Scalar", value)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if self.is_read_from(given):
            return given
        words = " or ".join(_IN_WORDS[name] for name in self._names())
        reading.refuse(path, expected(words, given))
        return NOTHING

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        kind = type(given)
        return kind in self.kinds or (kind is int and float in self.kinds)

    def schema(self, _definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        names = self._names()
        return {"type": names[0] if len(names) == 1 else list[JsonValue](names)}

    def _names(self) -> list[str]:
        """Return the names of the types; a number may be an integer."""
        return [SCALARS[each] for each in self.kinds if each is not int or float not in self.kinds]


class ScalarsOrFunctions(Scalars):
    """A value of one of several plain types, or a function, which cannot be written."""

    def write(self, value: object, derived: Derived, /) -> JsonValue:
        """Return a value as plain data; see `Shape`.

        Raises:
            SerialisationError: it is a function.

        """
        if not self.is_read_from(value):
            raise SerialisationError.at("", f"a function cannot be written, got {shown(value)}")
        return super().write(value, derived)


def _below(path: str, error: SerialisationError) -> SerialisationError:
    return SerialisationError(Fault(join_path(path, f.path), f.message) for f in error.faults)


@frozen(eq=False)
class Member:
    """A member of an enum, written as its value, or a literal value."""

    members: Mapping[object, object]

    def write(self, value: object, _derived: Derived, /) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        return cast("Scalar", value.value if isinstance(value, Enum) else value)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if self.is_read_from(given):
            return self.members[given]
        known = list(map(str, self.members))
        hint = did_you_mean(given if is_text(given) else shown(given), known)
        wanted = f"one of {', '.join(known)}"
        reading.refuse(path, f"{expected(wanted, given)}{hint and '; ' + hint}")
        return NOTHING

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        return (is_text(given) or is_of(given, int)) and given in self.members

    def schema(self, _definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        return {"enum": [cast("Scalar", written) for written in self.members]}


class RecordField(NamedTuple):
    """A field of a record."""

    name: str
    shape: Shape
    is_required: bool
    default: object
    """The default value, for comparison; if a factory makes it, one value that it returned."""


@frozen(eq=False, slots=False)
class ClassShape(_ObjectShape):
    """An attrs class, written as an object with its fields."""

    kind: type[AttrsInstance]

    @cached_property
    def content(self) -> tuple[RecordField, ...]:
        """The fields, found when first used: a class may refer to itself.

        Raises:
            TypeError: a field has a type that cannot be written.

        """
        hints: dict[str, object] = get_type_hints(self.kind)
        attributes: tuple[Attribute[object], ...] = fields(self.kind)
        return tuple(_field_of(a, self.kind, hints) for a in attributes if a.init)

    def write(self, value: object, derived: Derived, /) -> JsonValue:
        """Return the fields as an object; fields equal to their default only with `derived`."""
        written: dict[str, JsonValue] = {}
        for item in self.content:
            content: object = getattr(value, item.name)
            if derived is not None or item.is_required or content != item.default:
                try:
                    written[item.name] = item.shape.write(content, derived)
                except SerialisationError as error:
                    raise _below(item.name, error) from None
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
        content = dict(items_of(given))
        known = {item.name for item in self.content}
        for name in content:
            if name not in known and name not in reading.derived.get(self.kind, ()):
                self._refuse_unknown(name, path, reading)
        arguments: dict[str, object] = {}
        is_complete = True
        for item in self.content:
            where = join_path(path, item.name)
            if item.name not in content:
                if item.is_required:
                    reading.refuse(where, "is missing")
                    is_complete = False
                continue
            value = item.shape.read(content[item.name], where, reading)
            if value is not NOTHING:
                arguments[item.name] = value
            elif item.is_required:
                is_complete = False
            # Else the default is used, so that faults of other fields can be reported too.
        return arguments if is_complete else None

    def _refuse_unknown(self, name: object, path: str, reading: Reading) -> None:
        known = [item.name for item in self.content]
        name = name if is_text(name) else shown(name)
        hint = did_you_mean(name, known)
        message = (
            f"unknown field of {self.kind.__name__}; {hint and hint + ' '}a newer version of "
            f"batchsched may have written it; known: {', '.join(known)}"
        )
        reading.refuse(join_path(path, name), message)

    def label(self, given: object) -> str | None:
        """Return the name that identifies an item in a list, or None."""
        if not is_of(given, dict):
            return None
        given = cast("dict[object, object]", given)
        names = [item.name for item in self.content]
        if "uid" in names:
            name = given.get("uid")
        elif "namespace" in names and isinstance(given.get("name"), str):
            name = f"{given.get('namespace', 'default')}/{given['name']}"
        else:
            name = given.get("name")
        return name if type(name) is str else None

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a reference to the class, and add the class to `definitions`."""
        name = self.kind.__name__
        if name not in definitions:
            definitions[name] = {}  # for classes that refer to themselves
            definitions[name] = self.described(definitions)
        return {"$ref": f"#/$defs/{name}"}

    def described(
        self, definitions: dict[str, JsonValue], /, *, is_named: bool = False
    ) -> dict[str, JsonValue]:
        """Return the schema of the class itself; if `is_named`, with its name as ``type``."""
        summary = (self.kind.__doc__ or "").partition("\n")[0]
        named: dict[str, JsonValue] = {"type": {"const": self.kind.__name__}} if is_named else {}
        properties: dict[str, JsonValue] = {
            **named,
            **{f.name: f.shape.schema(definitions) for f in self.content},
        }
        return {
            "type": "object",
            **({"description": summary} if summary else {}),
            "properties": properties,
            "required": [*named, *(f.name for f in self.content if f.is_required)],
            "additionalProperties": False,
        }


class Opaque:
    """A value that only its plugin understands: a plain value, or a tuple of such values."""

    def write(self, value: object, derived: Derived, /) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        if isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            return [self.write(item, derived) for item in items]
        if type(value) in SCALARS:
            return cast("Scalar", value)
        wanted = "None, a bool, a number or a string, or a tuple of such values"
        raise SerialisationError.at("", expected(wanted, value))

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if is_list(given):
            items = [
                self.read(item, f"{path}[{position}]", reading)
                for position, item in enumerate(items_in(given))
            ]
            return NOTHING if any(item is NOTHING for item in items) else tuple(items)
        if type(given) in SCALARS:
            return given
        reading.refuse(path, expected("a plain value, or a list of such values", given))
        return NOTHING

    def is_read_from(self, given: object, /) -> bool:
        """Return whether plain data appears to have this shape."""
        return is_list(given) or type(given) in SCALARS

    def schema(self, _definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        return {}


@frozen(eq=False)
class Items(_ListShape):
    """A tuple of any number of items of one shape, written as a list."""

    item: Shape

    def write(self, value: object, derived: Derived, /) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        write = self.item.write
        items = cast("tuple[object, ...]", value)
        try:
            return [write(item, derived) for item in items]
        except SerialisationError:
            for position, item in enumerate(items):
                try:
                    write(item, derived)
                except SerialisationError as error:
                    raise _below(f"[{self._label(item, position)}]", error) from None
            raise

    def _label(self, item: object, position: int) -> str:
        if not isinstance(self.item, ClassShape):
            return str(position)
        names = ("uid", "namespace", "name")
        given = {name: getattr(item, name) for name in names if hasattr(item, name)}
        label = self.item.label(given)
        return str(position) if label is None else repr(label)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if not is_list(given):
            reading.refuse(path, expected("a list", given))
            return NOTHING
        label = self.item.label if isinstance(self.item, ClassShape) else None
        items: list[object] = []
        for position, item in enumerate(items_in(given)):
            name = None if label is None else label(item)
            where = f"{path}[{position if name is None else repr(name)}]"
            value = self.item.read(item, where, reading)
            if value is NOTHING:
                reading.is_complete = False
            else:
                items.append(value)
        return tuple(items)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        return {"type": "array", "items": self.item.schema(definitions)}


@frozen(eq=False)
class Fixed(_ListShape):
    """A tuple with a shape for each position, written as a list."""

    shapes: tuple[Shape, ...]

    def write(self, value: object, derived: Derived, /) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        both = zip(self.shapes, cast("tuple[object, ...]", value), strict=True)
        return [shape.write(item, derived) for shape, item in both]

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        items = list(items_in(given)) if is_list(given) else []
        if len(items) != len(self.shapes):
            reading.refuse(path, expected(f"a list of {len(self.shapes)}", given))
            return NOTHING
        both = enumerate(zip(self.shapes, items, strict=True))
        found = tuple(shape.read(item, f"{path}[{at}]", reading) for at, (shape, item) in both)
        return NOTHING if NOTHING in found else found

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        shapes: list[JsonValue] = [shape.schema(definitions) for shape in self.shapes]
        return {"type": "array", "prefixItems": shapes, "minItems": len(shapes), "items": False}


@frozen(eq=False)
class Named(_ObjectShape):
    """A mapping of strings to values of one shape, written as an object in order of key."""

    item: Shape

    def write(self, value: object, derived: Derived, /) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        written: dict[str, JsonValue] = {}
        for name, item in sorted(cast("Mapping[str, object]", value).items()):
            try:
                written[name] = self.item.write(item, derived)
            except SerialisationError as error:
                raise _below(f"[{name!r}]", error) from None
        return written

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if not is_mapping(given):
            reading.refuse(path, expected("an object", given))
            return NOTHING
        content: dict[object, object] = {}
        for name, item in items_of(given):
            if not is_text(name):
                reading.refuse(f"{path}[{shown(name)}]", "expected a string as key")
                continue
            value = self.item.read(item, f"{path}[{name!r}]", reading)
            if value is NOTHING:
                reading.is_complete = False
            else:
                content[name] = value
        return kept_map(content)  # hashed by records that have it

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        return {"type": "object", "additionalProperties": self.item.schema(definitions)}


class Pairs(Items):
    """A mapping whose keys are not strings, written as a list of pairs."""

    def write(self, value: object, derived: Derived, /) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        content = cast("Mapping[object, object]", value)
        written = super().write(tuple(content.items()), derived)
        return sorted(cast("list[JsonValue]", written), key=repr)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        pairs = super().read(given, path, reading)
        return NOTHING if pairs is NOTHING else dict(cast("Iterable[tuple[object, object]]", pairs))


@frozen(eq=False)
class Either:
    """A value of one of several shapes, which are distinguished by their plain data."""

    shapes: tuple[Shape, ...]

    def write(self, value: object, derived: Derived, /) -> JsonValue:
        """Return a value as plain data; see `Shape`."""
        for shape in self.shapes:
            if isinstance(shape, ClassShape) and isinstance(value, shape.kind):
                written = shape.write(value, derived)
                if self._records() > 1 and isinstance(written, dict):
                    return {"type": shape.kind.__name__, **written}
                return written
        if value is None or isinstance(value, (str, int, float)):
            return value
        others = [each for each in self.shapes if not isinstance(each, (ClassShape, Scalars))]
        for shape in others:
            if len(others) == 1 or shape.is_read_from(value):
                return shape.write(value, derived)
        message = f"a value of the class {type(value).__name__} cannot be written"
        raise SerialisationError.at("", message)

    def read(self, given: object, path: str, reading: Reading, /) -> object:
        """Return the value that plain data represents; see `Shape`."""
        if self._records() > 1 and is_mapping(given):
            records = {s.kind.__name__: s for s in self.shapes if isinstance(s, ClassShape)}
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
        return sum(isinstance(shape, ClassShape) for shape in self.shapes)

    def schema(self, definitions: dict[str, JsonValue], /) -> dict[str, JsonValue]:
        """Return a JSON Schema; see `Shape`."""
        needs_type = self._records() > 1
        return {
            "anyOf": [
                shape.described(definitions, is_named=True)
                if needs_type and isinstance(shape, ClassShape)
                else shape.schema(definitions)
                for shape in self.shapes
            ]
        }


_default_of = attrgetter("default")


def _field_of(attribute: Attribute[object], kind: type, hints: Mapping[str, object]) -> RecordField:
    default: object = _default_of(attribute)
    make: Callable[[], object] | None = getattr(default, "factory", None)
    if make is not None:
        default = make()
    try:
        shape = shape_of(attribute.metadata.get(WRITTEN, hints[attribute.name]))
    except TypeError as error:
        raise TypeError(f"{kind.__name__}.{attribute.name}: {error}") from None
    return RecordField(attribute.name, shape, default is NOTHING, default)


def record_of(kind: type[AttrsInstance]) -> ClassShape:
    """Return the shape of an attrs class.

    Raises:
        TypeError: a field has a type that cannot be written.

    """
    shape = _shape_of_class(kind)
    _ = shape.content  # so that what cannot be written is told here
    return shape


@cache
def _shape_of_class(kind: type[AttrsInstance]) -> ClassShape:
    return ClassShape(kind)


def shape_of(annotation: object) -> Shape:
    """Return the shape of values of a type.

    Raises:
        TypeError: values of this type cannot be written.

    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and annotation in SCALARS:
        return Scalars((annotation,))
    if annotation is Hashable:
        return Opaque()
    if origin is Literal:
        return Member({argument: argument for argument in arguments})
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return Member({cast("object", member.value): member for member in annotation})
    if isinstance(annotation, type) and has(annotation):
        return _shape_of_class(annotation)
    if origin is tuple and arguments[1:] != (Ellipsis,) and len({*arguments}) > 1:
        return Fixed(tuple(map(shape_of, arguments)))
    if origin is tuple or origin is Sequence:
        return Items(shape_of(arguments[0]))
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        if arguments[0] is str:
            return Named(shape_of(arguments[1]))
        return Pairs(Fixed(tuple(map(shape_of, arguments))))
    if origin is Union or origin is UnionType:
        return _union_of(arguments)
    raise TypeError(f"expected a type that can be written as plain data, got {annotation}")


def _union_of(arguments: Sequence[object]) -> Shape:
    plain = tuple(a for a in arguments if isinstance(a, type) and a in SCALARS)
    if plain and any(get_origin(each) is Callable for each in arguments):
        return ScalarsOrFunctions(plain)
    others = [shape_of(each) for each in arguments if all(each is not kind for kind in plain)]
    if not others:
        return Scalars(plain)
    unlike = [shape for shape in others if not isinstance(shape, (ClassShape, Member))]
    lists = [shape for shape in unlike if isinstance(shape, _ListShape)]
    if len(lists) > 1 or len(unlike) - len(lists) > 1:
        raise TypeError(f"expected types with distinct plain data, got {arguments}")
    return Either((*others, Scalars(plain)) if plain else tuple(others))


ValueT = TypeVar("ValueT", bound=AttrsInstance)

_HEADER = ("format", "version")


class Format(Generic[ValueT]):
    """The format of one class: an object with a name, a version and the fields.

    Everything else is derived from the class; see `batchsched.model.serialisation`.
    Fields that equal their default are omitted, unless `derived` is given.
    """

    def __init__(
        self,
        kind: type[ValueT],
        *,
        version: int,
        error: type[FaultsError],
        derived: Derived = None,
        name: str | None = None,
    ) -> None:
        self._kind = kind
        self._name = f"batchsched.{name or kind.__name__}"
        self._version = version
        self._error = error
        self._derived = derived

    def to_dict(self, value: ValueT, /) -> dict[str, JsonValue]:
        """Return a value as dicts, lists, strings and numbers only. O(size)."""
        content = record_of(self._kind).write(value, self._derived)
        return {
            "format": self._name,
            "version": self._version,
            **cast("dict[str, JsonValue]", content),
        }

    def from_dict(self, given: object, /) -> ValueT:
        """Create a value from the output of `to_dict`.

        Raises:
            FaultsError: it cannot be read; all faults at once. They include those that the class
                itself reports, if all parts could be read.

        """
        reading = Reading(self._derived)
        if not is_mapping(given):
            reading.refuse("", f"expected an object of the format {self._name}, got {shown(given)}")
            raise self._error(reading.faults)
        given = dict(items_of(given))  # what raises when it is read becomes an unknown field
        self._check_header(given, reading)
        if reading.faults:
            raise self._error(reading.faults)  # it is useless to check fields of another format
        content = {name: item for name, item in given.items() if name not in _HEADER}
        arguments = record_of(self._kind).arguments(content, "", reading)
        value: ValueT | None = None
        if arguments is not None and reading.is_complete:
            try:
                value = self._kind(**arguments)
            except FaultsError as error:
                known = {fault.path for fault in reading.faults}
                reading.faults += [fault for fault in error.faults if fault.path not in known]
        if reading.faults or value is None:
            raise self._error(reading.faults)
        return value

    def _check_header(self, given: Mapping[object, object], reading: Reading) -> None:
        for name in _HEADER:
            if name not in given:
                reading.refuse(name, f"is missing; expected data of the format {self._name}")
        if reading.faults:
            return
        kind, version = given["format"], given["version"]
        if not is_text(kind) or kind != self._name:
            reading.refuse("format", f"expected {self._name!r}, got {shown(kind)}")
        elif not is_integer(version) or version < 1:
            reading.refuse("version", f"expected {self._version}, got {shown(version)}")
        elif version > self._version:
            message = (
                f"expected {self._version} or less, got {version}: "
                "this was written by a newer version of batchsched; read it with that version"
            )
            reading.refuse("version", message)

    def json_schema(self) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of the output of `to_dict`."""
        definitions: dict[str, JsonValue] = {}
        described = record_of(self._kind).described(definitions)
        properties = cast("dict[str, JsonValue]", described["properties"])
        required = cast("list[JsonValue]", described["required"])
        for kind, names in (self._derived or {}).items():
            of_kind = cast("dict[str, JsonValue]", definitions[kind.__name__])
            for name in names:
                cast("dict[str, JsonValue]", of_kind["properties"])[name] = {"type": "string"}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self._name,
            **described,
            "properties": {
                "format": {"const": self._name},
                "version": {"const": self._version},
                **properties,
            },
            "required": ["format", "version", *required],
            "$defs": dict(sorted(definitions.items())),
        }


class PlainData:
    """What is written as plain data by itself: as snapshots and event logs have it, no header."""

    __slots__ = ()

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as dicts, lists, strings and numbers only, ready for JSON. O(size).

        Fields that equal their default are omitted.
        """
        kind = cast("type[AttrsInstance]", type(self))
        return cast("dict[str, JsonValue]", record_of(kind).write(self, None))

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> Self:
        """Create it from the output of `to_dict`. What it says is checked where it is used.

        Raises:
            FormatError: it cannot be read; all faults at once, each with its path.

        """
        reading = Reading(None)
        value = record_of(cast("type[AttrsInstance]", cls)).read(given, "", reading)
        if reading.faults:
            raise FormatError(reading.faults)
        assert isinstance(value, cls)
        return value
