"""Copies of frozen objects that differ in a few fields, made faster than `attrs.evolve` does."""

from __future__ import annotations

from typing import Protocol, TypeVar

from attrs import evolve, fields

__all__ = ["Copy", "copier"]

T = TypeVar("T")


class Copy(Protocol[T]):
    """Copies an object with new values for some of its fields."""

    def __call__(self, item: T, /, *values: object) -> T:
        """Return a copy of the object with these values."""
        ...


def copier(kind: type[T], *names: str) -> Copy[T]:
    """Return a function of an object and new values for these fields, which returns a copy.

    The values are taken as they are, so they must be what the converters of the fields would make
    of them. For frozen attrs classes; a quarter to a half of the time of `attrs.evolve`.

    >>> from batchsched import Queue
    >>> reweighted = copier(Queue, "weight")
    >>> reweighted(Queue(name="q"), 3) == Queue(name="q", weight=3)
    True
    """
    # Slots are read and written by their descriptors: no `__init__`, and no converter, is called.
    slots = {field.name: getattr(kind, field.name) for field in fields(kind)}  # type: ignore[arg-type]
    kept = [(slots[name].__set__, slots[name].__get__) for name in slots if name not in names]
    setters = [slots[name].__set__ for name in names]
    new = kind.__new__

    def copy(item: T, /, *values: object) -> T:
        if type(item) is not kind:
            return evolve(item, **dict(zip(names, values, strict=True)))  # type: ignore[misc]
        made = new(kind)
        for write, read in kept:
            write(made, read(item))
        for write, value in zip(setters, values, strict=True):
            write(made, value)
        return made

    return copy
