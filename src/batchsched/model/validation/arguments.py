"""Checks of the arguments that callers give to public functions, by the types that these declare.

What is right costs little: most values have exactly a type that their parameter declares, and need
no further look. What is wrong is told all at once, before anything is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from types import NoneType, UnionType
from typing import (
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from attrs import AttrsInstance, fields

from batchsched.errors import ArgumentError, Fault, FaultsError, shown_problem
from batchsched.model.immutable import gone_through
from batchsched.model.validation.values import (
    Problems,
    is_integer,
    is_mapping,
    is_of,
    is_text,
    shown,
    with_article,
)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def checks_arguments(
    error: type[FaultsError] = ArgumentError, /, *, but_items_of: str = ""
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function check its arguments by its annotations, and raise `error` for wrong ones.

    Items of collections are checked too, not what is in these, but for a collection whose items the
    function checks itself. What can be gone through only once becomes a list.

    >>> @checks_arguments()
    ... def repeated(word: str, times: int = 1) -> str:
    ...     return word * times
    >>> repeated("ab", times=2)
    'abab'
    >>> repeated(5, times="x")
    Traceback (most recent call last):
    ...
    batchsched.errors.ArgumentError: word: expected a string, got 5
    times: expected an integer, got 'x'
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        of = cache(
            lambda: _Parameters(function, but_items_of)
        )  # when first called: some names come later

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            parameters = of()
            if parameters.are_exact(args, kwargs):
                return function(*args, **kwargs)
            bound = parameters.signature.bind(*args, **kwargs)
            faults: list[Fault] = []
            raised: list[Exception] = []
            for name, value in bound.arguments.items():
                for place, each, annotation in parameters.given(name, value):
                    listed = _listed(place, each, annotation, faults, raised)
                    if listed is not each:
                        bound.arguments[name] = listed
                    faults += [
                        Fault(*problem) for problem in problems_of(place, listed, annotation)
                    ]
            if faults:
                raise error(faults) from (raised[0] if raised else None)
            return function(*bound.args, **bound.kwargs)

        return checked

    return decorate


class _Parameters:
    """The parameters of a function, and their types."""

    def __init__(self, function: Callable[..., object], but_items_of: str) -> None:
        self.signature: Signature = signature(function)
        self._types: dict[str, object] = get_type_hints(function)
        if but_items_of:
            self._types[but_items_of] = Iterable[object]
        given = self.signature.parameters.values()
        by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        self._by_position = [each.name for each in given if each.kind in by_position]
        one = [each.name for each in given if each.kind in (*by_position, Parameter.KEYWORD_ONLY)]
        self._exact = {name: _exact_types(self._types.get(name, object)) for name in one}
        self._items = {
            name: _exact_types(get_args(annotation)[0])
            for name, annotation in self._types.items()
            if name in one and get_origin(annotation) in (Sequence, Iterable)
        }

    def are_exact(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
        """Return whether each value, or item of a tuple, has exactly a type that is declared.

        If not, they may be right too, or no arguments of this function at all.
        """
        exact = self._exact
        if len(args) > len(self._by_position):
            return False
        for name, value in chain(zip(self._by_position, args, strict=False), kwargs.items()):
            types = exact.get(name, ())
            if types is None or type(value) in types:
                continue
            items = self._items.get(name, ())
            if type(value) not in (tuple, list) or not items:
                return False
            if not all(type(item) in items for item in cast("Sequence[object]", value)):
                return False
        return True

    def given(self, name: str, value: object) -> Iterator[tuple[str, object, object]]:
        """Yield each value that was given for a parameter: its place, itself, and its type."""
        annotation = self._types.get(name, object)
        if self.signature.parameters[name].kind is Parameter.VAR_POSITIONAL:
            for position, each in enumerate(cast("tuple[object, ...]", value)):
                yield f"{name}[{position}]", each, annotation
        else:
            yield name, value, annotation


def _exact_types(annotation: object) -> tuple[type, ...] | None:
    """Return the types whose values are right whatever is in them; None if anything is."""
    types: list[type] = []
    for kind in _members(annotation):
        if kind is float:
            types += [float, int]
        elif kind is None:
            types.append(NoneType)
        elif isinstance(kind, type) and get_origin(kind) is None:
            if kind is object:
                return None
            types.append(kind)
    return tuple(types)


def field_problems(record: AttrsInstance, /) -> Problems:
    """Yield what is wrong with the fields of an object, by the types that its class declares.

    As of arguments, items of collections are looked at too, not what is in these.
    """
    for name, annotation, exact in _fields_of(type(record)):
        value: object = getattr(record, name)
        if exact is not None and type(value) not in exact:
            yield from problems_of(name, value, annotation)


@cache
def _fields_of(kind: type[AttrsInstance]) -> list[tuple[str, object, tuple[type, ...] | None]]:
    types: dict[str, object] = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    return [(name, types[name], _exact_types(types[name])) for name in names]


def asked(
    name: str, function: Callable[P, R], error: type[FaultsError] = ArgumentError
) -> Callable[P, R]:
    """Return a function of the caller's such that what it raises is an error that names it."""

    @wraps(function, updated=())
    def ask(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as cause:
            raise error.at(name, f"the function raised {shown_problem(cause)}") from cause

    return ask


def _listed(
    place: str, value: object, annotation: object, faults: list[Fault], raised: list[Exception]
) -> object:
    """Return what can be gone through only once as a list, if the parameter takes a collection."""
    if not hasattr(type(value), "__next__") or not any(
        _is_collection(kind) for kind in _members(annotation)
    ):
        return value
    try:
        return list(gone_through(place, cast("Iterable[object]", value)))
    except FaultsError as error:
        faults += error.faults
        raised.append(cast("Exception", error.__cause__))
        return ()


def _members(annotation: object) -> tuple[object, ...]:
    """Return the members of a union, or the type itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _is_collection(annotation: object) -> bool:
    origin: object = get_origin(annotation)
    if not isinstance(origin, type) or _is_map(origin):
        return False
    return issubclass(cast("type[object]", origin), Iterable)


def _is_map(origin: object) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def problems_of(path: str, value: object, annotation: object, /) -> Problems:
    """Yield what is wrong with a value of a declared type; nothing if the type says nothing."""
    kinds = _members(annotation)
    fitting = [kind for kind in kinds if _fits(value, kind)]
    if not fitting:
        words = list(dict.fromkeys(words_of(kind) for kind in kinds))
        expected = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
        hint = f"; use [{shown(value)}]" if is_text(value) and Iterable[str] in kinds else ""
        yield path, f"expected {expected}, got {shown(value)}{hint}"
        return
    # The member that fits best: the one with the fewest problems within.
    found = [list(_problems_within(path, value, kind)) for kind in fitting]
    yield from min(found, key=len)


def _problems_within(path: str, value: object, annotation: object) -> Problems:
    """Yield what is wrong with the items of a collection, or with how a function can be called."""
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    try:
        if origin is Callable and arguments and arguments[0] is not Ellipsis:
            yield from _call_problems(path, cast("Callable[..., object]", value), arguments[0])
        elif _is_map(origin) and len(arguments) == 2:  # noqa: PLR2004 - a key and a value
            for key, item in cast("Mapping[object, object]", value).items():
                if not _fits(key, arguments[0]):
                    yield path, f"expected {words_of(arguments[0])} as key, got {shown(key)}"
                yield from problems_of(f"{path}[{shown(key)}]", item, arguments[1])
        elif origin is tuple and arguments[-1:] != (Ellipsis,):
            items = cast("tuple[object, ...]", value)
            if len(items) != len(arguments):
                yield path, f"expected a tuple of {len(arguments)}, got {shown(value)}"
            for position, (item, kind) in enumerate(zip(items, arguments, strict=False)):
                yield from problems_of(f"{path}[{position}]", item, kind)
        elif _is_collection(annotation) and arguments:
            for position, item in enumerate(cast("Iterable[object]", value)):
                yield from problems_of(f"{path}[{position}]", item, arguments[0])
    except Exception as cause:
        yield path, f"raised {shown_problem(cause)} when its items were read"


def _call_problems(path: str, function: Callable[..., object], takes: object) -> Problems:
    count = len(cast("list[object]", takes))
    try:
        parameters = signature(function)
    except Exception:  # some built-in functions do not tell
        return
    try:
        parameters.bind(*[None] * count)
    except TypeError as error:
        what = f"{count} argument{'s' if count != 1 else ''}"
        yield path, f"expected a function of {what}, got {shown(function)}: {error}"


_SCALARS: Mapping[object, tuple[str, Callable[[object], bool]]] = {
    str: ("a string", is_text),
    int: ("an integer", is_integer),
    float: ("a number", lambda value: is_integer(value) or is_of(value, float)),
    bool: ("True or False", lambda value: type(value) is bool),
    NoneType: ("None", lambda value: value is None),
    None: ("None", lambda value: value is None),
}


def _fits(value: object, annotation: object) -> bool:
    if annotation in _SCALARS:
        return _SCALARS[annotation][1](value)
    origin = get_origin(annotation)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in get_args(annotation))
    if origin is Callable:
        return callable(value)
    if isinstance(origin, type):
        if is_text(value) or is_of(value, bytes) or is_mapping(value) is not _is_map(origin):
            return False
        return is_of(value, cast("type[object]", origin))
    if not isinstance(annotation, type) or annotation is object:
        return True
    if getattr(annotation, "_is_protocol", False):
        return all(_has_method(value, name) for name in _methods(annotation))
    return is_of(value, cast("type[object]", annotation))


def _methods(protocol: type) -> list[str]:
    return [n for n in dir(protocol) if not n.startswith("_") and callable(getattr(protocol, n))]


def _has_method(value: object, name: str) -> bool:
    try:
        return callable(getattr(value, name, None))
    except Exception:
        return False


def words_of(annotation: object, /) -> str:
    """Return what a type expects, in words.

    >>> words_of(tuple[str, ...]), words_of(Callable[[int], bool]), words_of(Literal["a", "b"])
    ('a collection such as a list', 'a function', "'a' or 'b'")
    """
    if annotation in _SCALARS:
        return _SCALARS[annotation][0]
    origin = get_origin(annotation)
    if origin is Literal:
        return " or ".join(map(repr, get_args(annotation)))
    if origin is Callable:
        return "a function"
    if _is_map(origin):
        return "a mapping such as a dict"
    if isinstance(origin, type):
        return "a collection such as a list"
    if isinstance(annotation, type):
        if getattr(annotation, "_is_protocol", False):
            return f"an object with the method {', '.join(_methods(annotation))}"
        return with_article(annotation)
    return "something else"
