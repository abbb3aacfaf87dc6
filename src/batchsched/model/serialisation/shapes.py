"""Derives the shapes of types.

A shape is derived from the type of a field (`shape_of`), and that of an attrs class from its
fields. So a new field needs no code to be written, read and described. A field whose type has no
shape is an error as soon as its class is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Literal, Union, cast, get_args, get_origin, get_type_hints

from attrs import NOTHING, Attribute, AttrsInstance, fields, has

from batchsched.model.serialisation.containers import Either, Items, Named, Pairs
from batchsched.model.serialisation.record import Record, RecordField
from batchsched.model.serialisation.scalars import SCALARS, Member, Scalars
from batchsched.model.serialisation.shape import Shape

__all__ = ["record_of", "shape_of"]

_default_of = attrgetter("default")


def _field_of(attribute: Attribute[object], kind: type, hints: Mapping[str, object]) -> RecordField:
    default: object = _default_of(attribute)
    make: Callable[[], object] | None = getattr(default, "factory", None)
    if make is not None:
        default = make()
    try:
        shape = shape_of(hints[attribute.name])
    except TypeError as error:
        raise TypeError(f"{kind.__name__}.{attribute.name}: {error}") from None
    return RecordField(attribute.name, shape, default is NOTHING, default)


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
        TypeError: values of this type cannot be written.

    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and annotation in SCALARS:
        return Scalars((annotation,))
    if origin is Literal:
        return Member({argument: argument for argument in arguments})
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return Member({cast("object", member.value): member for member in annotation})
    if isinstance(annotation, type) and has(annotation):
        return record_of(annotation)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004
        return Items(shape_of(arguments[0]))
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        key, item = arguments
        return Named(shape_of(item)) if key is str else Pairs(shape_of(key), shape_of(item))
    if origin is Union or origin is UnionType:
        return _union_of(arguments)
    raise TypeError(f"expected a type that can be written as plain data, got {annotation}")


def _union_of(arguments: Sequence[object]) -> Shape:
    plain = tuple(a for a in arguments if isinstance(a, type) and a in SCALARS)
    others = [shape_of(each) for each in arguments if all(each is not kind for kind in plain)]
    if not others:
        return Scalars(plain)
    if sum(not isinstance(shape, (Record, Member)) for shape in others) > 1:
        raise TypeError(f"expected types with distinct plain data, got {arguments}")
    return Either((*others, Scalars(plain)) if plain else tuple(others))
