"""Immutable data: a hashable mapping, converters for the fields of frozen classes, fast copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, NoReturn, Protocol, Self, TypeGuard, TypeVar, cast

from attrs import Converter, evolve, fields, make_class

from batchsched.errors import ArgumentError, FaultsError, UnknownNameError, shown_problem
from batchsched.model.texts import did_you_mean

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class MissingKeyError(UnknownNameError, KeyError):
    """A key that a mapping does not have. What to write instead is looked for when it is read."""

    def __init__(self, key: object, known: Mapping[object, object] | None = None) -> None:
        super().__init__(key)
        self._key, self._known = key, known

    def __str__(self) -> str:
        if self._known is None:  # it has come from another process
            return repr(self._key)
        said = f"the mapping has no {self._key!r}"
        names = [name for name in self._known if isinstance(name, str)]
        meant = did_you_mean(self._key, names) if isinstance(self._key, str) else ""
        return f"{said}; {meant}" if meant else said


class FrozenMap(dict[K, V]):
    """A `dict` that cannot be changed and can be hashed.

    It equals a plain `dict` with the same content. Reading costs the same as in
    a `dict`; the hash is computed once, O(n).

    >>> labels = FrozenMap({"zone": "z1"})
    >>> labels["zone"], labels == {"zone": "z1"}, hash(labels) == hash(FrozenMap(zone="z1"))
    ('z1', True, True)
    >>> labels["zone"] = "z2"
    Traceback (most recent call last):
    ...
    TypeError: a FrozenMap cannot be changed
    """

    __slots__ = ("_hash",)

    _hash: int

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none, as it can be changed
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self.items()))
            return self._hash

    def __missing__(self, key: K) -> NoReturn:
        raise MissingKeyError(key, cast("Mapping[object, object]", self))

    def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("a FrozenMap cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FrozenMap[K, V]], tuple[dict[K, V]]]:
        return type(self), (dict(self),)

    def __copy__(self) -> FrozenMap[K, V]:
        return self

    def __deepcopy__(self, _memo: object) -> FrozenMap[K, V]:
        return self


class LazyMap(Mapping[K, V]):
    """An immutable mapping whose items are computed on demand.

    The items in `changed` are stored. Every other item is computed by `one` when it is read;
    without `one`, all of them are computed by `others` when any is read.

    >>> squares = LazyMap({2: 4}, lambda n: n * n if n < 4 else None, lambda: {0: 0, 1: 1, 3: 9})
    >>> squares[3], sorted(squares), squares == {0: 0, 1: 1, 2: 4, 3: 9}
    (9, [0, 1, 2, 3], True)
    """

    __slots__ = ("_changed", "_one", "_others", "_whole")

    def __init__(
        self,
        changed: Mapping[K, V],
        one: Callable[[K], V | None] | None,
        others: Callable[[], Mapping[K, V]],
    ) -> None:
        self._changed = kept_map(changed)
        self._one = one
        self._others: Callable[[], Mapping[K, V]] | None = others
        self._whole: FrozenMap[K, V] | None = None

    @property
    def changed(self) -> Mapping[K, V]:
        """The items that are stored."""
        return self._changed

    def whole(self) -> FrozenMap[K, V]:
        """Return the complete mapping. O(size) the first time, then O(1)."""
        if self._whole is None:
            assert self._others is not None
            self._whole = FrozenMap({**self._others(), **self.changed})
            self._one = self._others = None  # release what the functions refer to
        return self._whole

    def __getitem__(self, key: K) -> V:
        if self._one is None:
            return self.whole()[key]
        found = self.changed.get(key)
        if found is None:
            found = self._one(key)
            if found is None:
                raise MissingKeyError(key, cast("Mapping[object, object]", self))
        return found

    def __iter__(self) -> Iterator[K]:
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())

    def __hash__(self) -> int:
        return hash(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())

    def __reduce__(self) -> tuple[type[FrozenMap[K, V]], tuple[dict[K, V]]]:
        return FrozenMap, (dict(self.whole()),)


class LaterMap(LazyMap[K, V]):
    """An immutable mapping that is made when anything of it is read.

    >>> squares = LaterMap(lambda: LazyMap({2: 4}, None, lambda: {0: 0, 1: 1}))
    >>> squares.changed, squares[1], len(squares)
    ({2: 4}, 1, 3)
    """

    __slots__ = ("_made",)

    def __init__(self, made: Callable[[], Mapping[K, V]]) -> None:
        super().__init__({}, None, made)
        self._made: Mapping[K, V] | None = None

    def _make(self) -> Mapping[K, V]:
        if self._made is None:
            assert self._others is not None
            self._made, self._others = self._others(), None
        return self._made

    @property
    def changed(self) -> Mapping[K, V]:
        """The items that are stored in the mapping, once it is made."""
        made = self._make()
        return made.changed if isinstance(made, LazyMap) else made

    def whole(self) -> FrozenMap[K, V]:
        """Return the complete mapping. O(size) the first time, then O(1)."""
        if self._whole is None:
            made = self._make()
            self._whole = made.whole() if isinstance(made, LazyMap) else frozen_map(made)
        return self._whole

    def __getitem__(self, key: K) -> V:
        return self._make()[key]


EMPTY: FrozenMap[str, NoReturn] = FrozenMap()
"""The empty map, shared by all values without content."""


def frozen_map(content: Mapping[K, V], /) -> FrozenMap[K, V]:
    """Return `content` as a `FrozenMap`; itself if it is one. O(n).

    Raises:
        TypeError: `content` is not a mapping.

    >>> frozen_map({"zone": "z1"})
    {'zone': 'z1'}
    >>> frozen_map(None)
    Traceback (most recent call last):
    ...
    TypeError: expected a mapping such as a dict, got None

    """
    kept = kept_map(content)
    if not isinstance(kept, FrozenMap):
        raise TypeError(f"expected a mapping such as a dict, got {content!r}")
    return kept


def is_frozen_map(value: object, /) -> TypeGuard[FrozenMap[object, object]]:
    """Return whether a value is a `FrozenMap`, by its type, as its `__class__` may raise."""
    kind = type(value)
    return kind is FrozenMap or issubclass(kind, FrozenMap)


def _is_iterator(value: object) -> bool:
    return hasattr(type(value), "__next__")


def _is_mapping(value: object) -> bool:
    try:
        return isinstance(value, Mapping)
    except Exception:  # a property `__class__` may raise anything
        return False


# What fields of frozen classes keep of what they are given. A value that cannot be converted is
# kept unchanged, so that the snapshot can report it with its path, together with all other faults.


def kept_map(content: Mapping[K, V], /) -> Mapping[K, V]:
    """Return `content` as a `FrozenMap`, or unchanged if it is not a mapping. O(n)."""
    kind = type(content)  # checked before `isinstance`, which reads `__class__`
    # The usual types first: `issubclass` is slow for abstract classes.
    if kind is FrozenMap or kind is LazyMap:
        return content
    if kind is dict:
        return FrozenMap(content) if content else cast("FrozenMap[K, V]", EMPTY)
    if issubclass(kind, (FrozenMap, LazyMap)):
        return content
    if _is_mapping(content):
        try:
            return FrozenMap(content) if content else cast("FrozenMap[K, V]", EMPTY)
        except Exception:  # its items may raise anything when they are read
            return content
    return content


def kept_tuple(items: Iterable[T], /, name: str = "items") -> tuple[T, ...]:
    """Return `items` as a tuple, or unchanged if it is not a collection of items. O(n).

    Strings and mappings do not count as collections.

    Raises:
        ArgumentError: an iterator raised; what it had yielded is lost. It names the argument.

    >>> kept_tuple([1, 2]), kept_tuple("ab"), kept_tuple({"a": 1}), kept_tuple(None)
    ((1, 2), 'ab', {'a': 1}, None)
    """
    if _is_iterator(items):
        return tuple(gone_through(name, items))
    try:
        if isinstance(items, tuple) or not isinstance(items, (str, bytes, dict, Mapping)):
            return tuple(items)
    except Exception:  # noqa: S110 - reading its class or its items may raise anything
        pass
    return cast("tuple[T, ...]", items)


def gone_through(
    name: str, items: Iterable[T], error: type[FaultsError] = ArgumentError
) -> Iterator[T]:
    """Yield the items of an argument; what goes wrong on the way is an error that names it.

    Raises:
        FaultsError: `error`, if the iterable raises.

    """
    passed = 0
    try:
        for item in items:
            passed += 1
            yield item
    except Exception as cause:
        message = f"raised {shown_problem(cause)} after {_items_text(passed)}"
        raise error.at(name, message) from cause


def _items_text(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"


def kept_in_order(
    items: Iterable[T], key: Callable[[T], object], /, name: str = "items"
) -> tuple[T, ...]:
    """Return `items` as a tuple, sorted by `key` if possible. O(n log n).

    >>> kept_in_order(["bb", "a", "ccc"], str), kept_in_order(None, str)
    (('a', 'bb', 'ccc'), None)
    """
    kept = kept_tuple(items, name)
    if type(kept) is not tuple:
        return kept
    try:
        return tuple(sorted(kept, key=key))  # type: ignore[arg-type]  # it raises, if at all
    except Exception:  # invalid items or keys may raise anything
        return kept


# Converters of fields: `AsTuple[str]` is `kept_tuple` of strings, `AsMap[str, int]` is `kept_map`
# of numbers by name. There type checkers follow no generic function, but a class like these.
if TYPE_CHECKING:

    class AsTuple(tuple[T, ...]):
        """Keeps items as a tuple."""

    class AsTupleOrNone(tuple[T, ...]):
        """Keeps items as a tuple, or None."""

        def __new__(cls, items: Iterable[T] | None, /) -> Self: ...  # noqa: D102

    class ByName(AsTuple[T]):
        """Keeps items as a tuple in order of name."""

    class ByUid(AsTuple[T]):
        """Keeps items as a tuple in order of UID."""

    class ByTime(AsTuple[T]):
        """Keeps past evictions as a tuple in order of time."""

    class AsMap(dict[K, V]):
        """Keeps a mapping as one that cannot be changed."""

        def __init__(self, content: Mapping[K, V], /) -> None: ...

    class AsMapOrNone(dict[K, V]):
        """Keeps a mapping as one that cannot be changed, or None."""

        def __init__(self, content: Mapping[K, V] | None, /) -> None: ...

else:

    class _Converters:
        """A function that converts, to which each field adds the type of what it is given."""

        def __init__(self, keep, given):
            self._keep, self._given = keep, given

        def __getitem__(self, kinds):
            same = self._keep
            keep = FunctionType(same.__code__, same.__globals__, closure=same.__closure__)
            keep.__annotations__ = {"given": self._given[kinds]}
            return Converter(keep, takes_field=True)

    def _as_tuple(given, field):
        return given if given is None or type(given) is tuple else kept_tuple(given, field.name)

    def _in_order_of(*names):
        key = attrgetter(*names)
        return lambda given, field: kept_in_order(given, key, field.name)

    def _as_map(given, _field):
        return given if given is None or type(given) is FrozenMap else kept_map(given)

    AsTuple = AsTupleOrNone = _Converters(_as_tuple, Iterable)
    ByName = _Converters(_in_order_of("name"), Iterable)
    ByUid = _Converters(_in_order_of("uid"), Iterable)
    ByTime = _Converters(_in_order_of("time", "job", "for_job", "action"), Iterable)
    AsMap = AsMapOrNone = _Converters(_as_map, Mapping)


KindT = TypeVar("KindT")


class Copy(Protocol[KindT]):
    """Copies an object with new values for some of its fields."""

    def __call__(self, item: KindT, /, *values: object) -> KindT:
        """Return a copy of the object with these values."""
        ...


def copier(kind: type[KindT], *names: str) -> Copy[KindT]:
    """Return a function of an object and new values for these fields, which returns a copy.

    The values are taken as they are, so they must be what the converters of the fields would make
    of them. For frozen attrs classes that keep at least two other fields; a sixth of the time of
    `attrs.evolve`.

    >>> from batchsched import Queue
    >>> reweighted = copier(Queue, "weight")
    >>> reweighted(Queue(name="q"), 3) == Queue(name="q", weight=3)
    True
    """
    others = [field.name for field in fields(kind) if field.name not in names]  # type: ignore[arg-type]
    read_kept = attrgetter(*others)
    # The same slots, but not frozen: they are written, and then it becomes one of the class.
    writable = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    draft: Callable[..., KindT] = make_class(
        f"{kind.__name__}Draft",
        [*others, *names],
        bases=(kind,),
        class_body={**writable, "__attrs_post_init__": None},
        slots=True,
        weakref_slot=False,
        repr=False,
        eq=False,
    )

    def copy(item: KindT, /, *values: object) -> KindT:
        if type(item) is not kind:
            return evolve(item, **dict(zip(names, values, strict=True)))  # type: ignore[misc]
        made = draft(*read_kept(item), *values)
        made.__class__ = kind
        return made

    return copy
