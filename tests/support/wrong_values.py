"""Wrong values: of every type, beyond every range, nested, raising when they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from batchsched import Fault, Resource, TaskStatus
from batchsched.live import NodeAdded
from batchsched.simulation import Easy

DEPTH = 3000


class BrokenError(Exception):
    """What wrong values raise."""


class _Other(Enum):
    ONE = "Running"


def _raises(*_: object, **__: object) -> Any:
    raise BrokenError("on purpose")


def hostile(method: str) -> Any:
    """Return an object that raises when it is looked at in one way."""
    body = property(_raises) if method == "__class__" else _raises
    return type("Hostile", (), {method: body})()


class _Mapping(Mapping[str, Any]):
    """A mapping whose items cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise BrokenError(key)

    def __iter__(self) -> Iterator[str]:
        yield "a"
        raise BrokenError("on purpose")

    def __len__(self) -> int:
        return 2


class _List(list[Any]):
    """A list whose items cannot be read."""

    def __iter__(self) -> Iterator[Any]:
        raise BrokenError("on purpose")


class _Text(str):
    """A string that cannot be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise BrokenError("on purpose")


def halfway(items: object) -> Iterator[Any]:
    """Yield the items that there are, and then raise."""
    if isinstance(items, (list, tuple, set)):
        yield from items
    raise BrokenError("on purpose")


def nested(kind: str, depth: int = DEPTH) -> Any:
    """Return a value that is nested deeper than Python can show; before 3.14, `DEPTH` is enough."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if kind == "dict" else [value] if kind == "list" else (value,)
    return value


def _with_wrong_item(right: object, wrong: object) -> object:
    """Return a collection like the right one, with a wrong item in it."""
    if isinstance(right, Mapping):
        first = next(iter(right), "a")
        return {**right, first: wrong}
    if isinstance(right, (list, tuple)):
        return [*right, wrong]
    return [wrong]


_PLAIN: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, -0.5, float("nan"), float("inf"), -float("inf"), 5e-324,
    1e308, 2**63, -(2**63), 10**400, 1j, Decimal("1.5"), Fraction(1, 3), "", "x", "\0", "\ud800",
    "1e400", "x" * 100_000, b"x", bytearray(b"x"), (), [], {}, set[int](), frozenset[int]([1]),
    range(3), [None], [1], ["x"], [[]], ({},), {"a": 1}, {1: 2}, {None: None}, {"a": {"b": []}},
    int, dict, Ellipsis, NotImplemented, object(), datetime(2020, 1, 1), TaskStatus.RUNNING,
    _Other.ONE, Resource(milli_cpu=-1), Resource, Fault("a", "b"), Easy(), NodeAdded, len,
)  # fmt: skip

_LOOKS = (
    "__class__", "__repr__", "__eq__", "__hash__", "__bool__", "__len__", "__iter__", "__call__",
    "__getitem__", "__lt__", "__str__", "__float__", "__int__", "__index__", "__getattribute__",
)  # fmt: skip


def zoo() -> Iterator[tuple[str, Callable[[object], Any]]]:
    """Yield wrong values: a label, and a function that makes one, given the right value."""
    for value in _PLAIN:
        text = repr(value) if not isinstance(value, str) else repr(value[:9])
        yield text[:30], lambda _, value=value: value
    for method in _LOOKS:
        yield f"raises in {method}", lambda _, method=method: hostile(method)
        yield (
            f"with an item that raises in {method}",
            lambda right, method=method: _with_wrong_item(right, hostile(method)),
        )
    for kind in ("dict", "list", "tuple"):
        yield f"nested {kind}", lambda _, kind=kind: nested(kind)
        yield (
            f"with an item that is a nested {kind}",
            lambda right, kind=kind: _with_wrong_item(right, nested(kind)),
        )
    yield "raises half way", halfway
    yield "raises at once", lambda _: halfway(None)
    yield "a mapping that raises", lambda _: _Mapping()
    yield "a list that raises", lambda _: _List([1])
    yield "a string that cannot be shown", lambda _: _Text("x")
    yield "a function without parameters", lambda _: lambda: None
    yield "a function that raises", lambda _: _raises
    yield "a function that returns nothing", lambda _: lambda *_a, **_k: None
    yield "with a wrong item", lambda right: _with_wrong_item(right, object())
    yield "with None in it", lambda right: _with_wrong_item(right, None)
    yield "with a string in it", lambda right: _with_wrong_item(right, "x")
    yield "with a mapping in it", lambda right: _with_wrong_item(right, {"a": 1})
