"""Checks of the fields of a class, by the types that it declares.

A `Check` yields the problems of a value at a path. `FieldChecks` finds one for each field of an
attrs class: most types need no word about them, and fields that ask for more than their types say
have a check of their own. Resources, which most classes have, are checked by functions here: each
by itself, beside another one, and their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from inspect import signature
from types import NoneType, UnionType
from typing import Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from attrs import fields

from batchsched.errors import Fault
from batchsched.model.immutable import is_frozen_map
from batchsched.model.resources import Amount, Resource, exact
from batchsched.model.validation.values import (
    LARGEST,
    Problems,
    amount_map_problems,
    amount_problems,
    integer_problems,
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    items_of,
    member_problems,
    shown,
    text_map_problems,
    text_problems,
    time_problems,
    truth_problems,
    tuple_problems,
    under,
    with_article,
)

_NO_SCALARS = ("", "cpu", "memory")

_LARGEST_TOTAL = LARGEST / 2**20
"""The largest sum of a dimension; intermediate results may be larger and must not overflow."""

_SMALL = _LARGEST_TOTAL / 2**40
"""Amounts up to this cannot sum up to `_LARGEST_TOTAL`: too many objects would be needed."""


def is_usual_resource(resource: Resource, /) -> bool:
    """Return True only if a resource is valid and its amounts are small. A fast test."""
    if type(resource) is not Resource:
        return False
    scalars = resource.scalars
    if not is_frozen_map(resource.scalars):
        return False
    for name, amount in scalars.items():
        if type(name) is not str or name in _NO_SCALARS or not _is_usual_amount(amount):
            return False
    return _is_usual_amount(resource.milli_cpu) and _is_usual_amount(resource.memory)


def _is_usual_amount(amount: Amount) -> bool:
    is_whole = type(amount) is int or (type(amount) is float and amount.is_integer())
    return is_whole and 0 <= amount <= _SMALL


def is_sound_resource(resource: object, /) -> bool:
    """Return whether a resource is valid by itself."""
    return next(resource_problems(resource), None) is None


def resource_problems(resource: object, /, *, is_whole: bool = True) -> Problems:
    """Yield the problems of a resource by itself. `is_whole`: whether its amounts must be whole."""
    if not is_of(resource, Resource):
        yield "", f"expected a Resource, got {shown(resource)}"
        return
    yield from amount_problems("milli_cpu", resource.milli_cpu, is_whole=is_whole)
    yield from amount_problems("memory", resource.memory, is_whole=is_whole)
    yield from amount_map_problems("scalars", resource.scalars, is_whole=is_whole)


def request_problems(resreq: Resource, init_resreq: Resource | None, /) -> Problems:
    """Yield the problems of a task's request, and of its request to start."""
    problems = list(under("resreq", resource_problems(resreq)))
    if init_resreq is not None:
        problems.extend(under("init_resreq", resource_problems(init_resreq)))
        if not problems and not resreq.fits(init_resreq):
            message = f"expected at least resreq, {resreq!r}, got {init_resreq!r}"
            problems.append(("init_resreq", message))
    return iter(problems)


def total_faults(path: str, resources: Iterable[Resource]) -> Iterator[Fault]:
    """Yield a fault for each dimension in which the sum of valid resources is too large."""
    totals: dict[str, int] = {}
    for resource in filter(is_sound_resource, resources):
        for dimension, amount in resource.dimensions():
            totals[dimension] = totals.get(dimension, 0) + exact(amount)
    for dimension, total in sorted(totals.items()):
        if total > _LARGEST_TOTAL:
            message = f"expected a sum of at most {_LARGEST_TOTAL:.2g} of {dimension}, got more"
            yield Fault(path, message)


Check = Callable[[str, object], Problems]
"""Yields the problems of a value: their paths, below the one that is given, and messages."""
T = TypeVar("T")


def any_text(path: str, value: object) -> Problems:
    """Check a string that may be empty."""
    return text_problems(path, value, may_be_empty=True)


def integer(what: str, least: int | None = 0) -> Check:
    """Return the check of an integer of at least `least`; `what` says what it is."""
    return lambda path, value: integer_problems(path, value, what, least=least)


def optional(check: Check, kind: type[object] = object) -> Check:
    """Return the check of a value that may be None, which is told with the type that it needs."""

    def check_value(path: str, value: object) -> Problems:
        if value is None:
            return
        if is_of(value, kind):
            yield from check(path, value)
        elif issubclass(kind, Enum):
            yield from member_problems(path, value, kind, " or None")
        else:
            words = "a string" if kind is str else with_article(kind)
            yield path, f"expected {words} or None, got {shown(value)}"

    return check_value


def tuple_of(check: Check, kind: str) -> Check:
    """Return the check of a tuple, by that of its items, which are called `kind`."""

    def check_all(path: str, items: object) -> Problems:
        yield from tuple_problems(path, items, kind)
        for position, item in enumerate(items if is_tuple(items) else ()):
            yield from check(f"{path}[{position}]", item)

    return check_all


def mapping_of(check: Check) -> Check:
    """Return the check of a mapping from names, by that of its values."""

    def check_all(path: str, content: object) -> Problems:
        if not is_mapping(content):
            yield path, f"expected a mapping such as a dict, got {shown(content)}"
            return
        for name, value in items_of(content):
            place = f"{path}[{shown(name)}]"
            if not is_text(name) or not name:
                yield place, f"expected a name, got {shown(name)}"
            yield from check(place, value)

    return check_all


def part(problems: Callable[[object], Problems]) -> Check:
    """Return the check of a value whose problems a function yields without its path."""
    return lambda path, value: under(path, problems(value))


class FieldChecks(Generic[T]):
    """The checks of the fields of a class: those of their types, but for some of their own.

    Called with a value that should be an instance, it yields the problems, each with its path
    below the value.
    """

    def __init__(
        self,
        kind: type[T],
        /,
        *between: Callable[..., Problems],
        only: Collection[str] | None = None,
        **own: Check,
    ) -> None:
        """Take the checks of some fields.

        Args:
            kind: the class. Fields of this type are checked so, unless `only` is given.
            between: functions of fields, which their parameters name, that yield what is wrong
                between these; each is asked where these are right by themselves. A parameter
                ``whole`` is the value, if all of its fields are.
            only: the fields that are checked; None: all.
            own: the checks of fields that ask for more than their types.

        """
        self._kind, self._only, self._own = kind, only, own
        self._between = [(rule, tuple(signature(rule).parameters)) for rule in between]
        self._checks: tuple[tuple[str, Check], ...] | None = None
        if only is None:
            _OF_CLASS[kind] = self

    def __call__(self, value: object, /) -> Problems:
        """Yield the problems of a value."""
        if not is_of(value, self._kind):
            yield "", f"expected {with_article(self._kind)}, got {shown(value)}"
            return
        wrong: set[str] = set()
        for name, check in self._checks or self._found():
            for problem in check(name, getattr(value, name)):
                wrong |= {name, "whole"}
                yield problem
        for rule, names in self._between:
            if wrong.isdisjoint(names):
                given = (value if name == "whole" else getattr(value, name) for name in names)
                yield from rule(*given)

    def _found(self) -> tuple[tuple[str, Check], ...]:
        hints = get_type_hints(self._kind)
        names = [field.name for field in fields(self._kind)]  # type: ignore[arg-type]
        self._checks = tuple(
            (name, self._own.get(name) or check_of(hints[name]))
            for name in names
            if self._only is None or name in self._only
        )
        return self._checks


_OF_CLASS: dict[type, Callable[[object], Problems]] = {}
_SIMPLE: Mapping[object, tuple[Check, str]] = {
    str: (text_problems, "strings"),
    bool: (truth_problems, "booleans"),
    int: (integer("an integer", None), "integers"),
    float: (time_problems, "times"),
    Resource: (part(resource_problems), "Resource"),
    Mapping[str, str]: (text_map_problems, "mappings"),
}


def check_of(annotation: object) -> Check:
    """Return the check of values of a type. A string must not be empty, a number is a time.

    Raises:
        TypeError: a value of this type needs a check of its own.

    """
    return _check_and_kind(annotation)[0]


def _check_and_kind(annotation: object) -> tuple[Check, str]:
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        (one,) = [kind for kind in arguments if kind is not NoneType]
        check, kind = _check_and_kind(one)
        has_name = isinstance(one, type) and one not in (int, float, bool)
        return optional(check, one if has_name else object), kind
    if origin is tuple:
        return tuple_of(*_check_and_kind(arguments[0])), "tuples"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return partial(_member, annotation), annotation.__name__
    if isinstance(annotation, type) and annotation in _OF_CLASS:
        return part(_OF_CLASS[annotation]), annotation.__name__
    raise TypeError(f"values of type {annotation} need a check of their own")


def _member(kind: type[Enum], path: str, value: object) -> Problems:
    return member_problems(path, value, kind)
