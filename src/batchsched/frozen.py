"""An immutable, hashable mapping, for labels, selectors and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, TypeVar

__all__ = ["FrozenMap", "frozen_map"]

K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(dict[K, V]):
    """A `dict` that cannot be changed and can be hashed.

    It compares equal to a plain `dict` with the same content. Reading costs
    what it costs in a `dict`; the hash is made once, O(n).

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

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self.items()))
            return self._hash

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("a FrozenMap cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[FrozenMap[K, V]], tuple[dict[K, V]]]:
        return type(self), (dict(self),)

    def __copy__(self) -> FrozenMap[K, V]:
        return self

    def __deepcopy__(self, _memo: object) -> FrozenMap[K, V]:
        return self


_EMPTY: FrozenMap[str, NoReturn] = FrozenMap()


def frozen_map(content: Mapping[str, V], /) -> FrozenMap[str, V]:
    """Return `content` as a `FrozenMap`; itself if it is one. O(n)."""
    if type(content) is FrozenMap:
        return content
    if not content:
        return _EMPTY
    return FrozenMap(content)
