"""Checks of plain values: what makes a string, a number, a label invalid.

A value of another type than it should have is invalid like any other, so that
all of these take an `object`. They yield problems: pairs of the path below the
value that was checked, and the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from sys import float_info
from typing import TypeGuard, TypeVar

__all__ = [
    "LARGEST",
    "Problems",
    "amount_map_problems",
    "amount_problems",
    "each_problems",
    "integer_problems",
    "is_integer",
    "is_mapping",
    "is_of",
    "is_text",
    "is_tuple",
    "join_path",
    "member_problems",
    "shown",
    "text_map_problems",
    "text_problems",
    "time_problems",
    "truth_problems",
    "tuple_problems",
    "under",
]

T = TypeVar("T")

Problems = Iterator[tuple[str, str]]
"""What is wrong: the path below the value that was checked, and the message."""

LARGEST = float_info.max
"""The largest finite number; integers can be larger, but not be divided then."""

_SHOWN = 80


def shown(value: object, /) -> str:
    """Return `value` as a message shows it: whatever it is, and not at any length."""
    try:
        text = repr(value)
    except Exception:  # the repr of something invalid may raise anything
        text = f"<{type(value).__name__}>"
    text = " ".join(text.split("\n"))  # a fault is one line
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def join_path(path: str, below: str, /) -> str:
    """Return the path of something below `path`.

    >>> join_path("nodes['n1']", "labels"), join_path("", "now"), join_path("tasks[3]", "")
    ("nodes['n1'].labels", 'now', 'tasks[3]')
    """
    return f"{path}.{below}" if path and below else path + below


def under(path: str, problems: Problems, /) -> Problems:
    """Yield the same problems as seen from a level above, where the value is at `path`."""
    for below, message in problems:
        yield join_path(path, below), message


def is_of(value: object, kind: type[T], /) -> TypeGuard[T]:
    """Return whether a value, whatever it is declared to be, is of a kind.

    What raises when it is asked for its class is of none.
    """
    try:
        return isinstance(value, kind)
    except Exception:
        return False


def is_text(value: object, /) -> TypeGuard[str]:
    """Return whether `value` is a string."""
    return is_of(value, str)


def is_integer(value: object, /) -> TypeGuard[int]:
    """Return whether `value` is an integer; a boolean is none."""
    return is_of(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[int | float]:
    return (is_of(value, int) or is_of(value, float)) and not isinstance(value, bool)


def is_mapping(value: object, /) -> TypeGuard[Mapping[object, object]]:
    """Return whether `value` is a mapping."""
    return is_of(value, Mapping)  # type: ignore[type-abstract]


def is_tuple(value: object, /) -> TypeGuard[tuple[object, ...]]:
    """Return whether `value` is a tuple."""
    try:
        return isinstance(value, tuple)
    except Exception:
        return False


def member_problems(path: str, value: object, kind: type[Enum], /) -> Problems:
    """Yield what is wrong with a member of an enum.

    >>> from batchsched.model.status import JobPhase
    >>> list(member_problems("phase", "Running", JobPhase))
    [('phase', "expected a JobPhase, got 'Running'; use JobPhase.RUNNING")]
    >>> list(member_problems("phase", 1, JobPhase))
    [('phase', 'expected a JobPhase, got 1; it is one of Pending, Running, Unknown, Completed')]
    """
    if isinstance(value, kind):
        return
    known = {member.value: str(member) for member in kind}
    if is_text(value) and value in known:
        what_works = f"use {known[value]}"
    else:
        what_works = f"it is one of {', '.join(known)}"
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    yield path, f"expected {article} {kind.__name__}, got {shown(value)}; {what_works}"


def text_problems(path: str, value: object, /, *, may_be_empty: bool = False) -> Problems:
    """Yield what is wrong with a string."""
    if not is_text(value):
        yield path, f"expected a string, got {shown(value)}"
    elif not value and not may_be_empty:
        yield path, "is empty"


def truth_problems(path: str, value: object, /) -> Problems:
    """Yield what is wrong with a boolean."""
    if not isinstance(value, bool):
        yield path, f"expected True or False, got {shown(value)}"


def integer_problems(path: str, value: object, what: str, /, *, least: int | None) -> Problems:
    """Yield what is wrong with an integer, saying that `what` was expected."""
    if not is_integer(value) or (least is not None and value < least):
        yield path, f"expected {what}, got {shown(value)}"
    elif not -LARGEST <= value <= LARGEST:
        yield path, f"expected {what} of 300 digits at most, got {shown(value)}"


def amount_problems(path: str, amount: object, /) -> Problems:
    """Yield what is wrong with an amount of a resource: a finite number, 0 or more."""
    if not _is_number(amount):
        yield path, f"expected a number, got {shown(amount)}"
    elif not -LARGEST <= amount <= LARGEST:
        yield path, f"expected a finite number, got {shown(amount)}"
    elif amount < 0:
        yield path, f"{shown(amount)} is negative"


def time_problems(path: str, time: object, /) -> Problems:
    """Yield what is wrong with a time: a finite number."""
    if not (_is_number(time) and -LARGEST <= time <= LARGEST):
        yield path, f"expected a time (a finite number of seconds), got {shown(time)}"


def text_map_problems(path: str, texts: object, /) -> Problems:
    """Yield what is wrong with labels and the like: a mapping of strings to strings."""
    if not is_mapping(texts):
        yield path, f"expected a mapping such as a dict, got {shown(texts)}"
        return
    for key, value in texts.items():
        if not is_text(key) or not is_text(value):
            message = f"expected strings, got {shown(value)} for {shown(key)}"
            yield f"{path}[{shown(key)}]", message


def amount_map_problems(path: str, amounts: object, /) -> Problems:
    """Yield what is wrong with the amounts of named scalars."""
    if not is_mapping(amounts):
        yield path, f"expected a mapping such as a dict, got {shown(amounts)}"
        return
    for name, amount in amounts.items():
        yield from amount_problems(f"{path}[{shown(name)}]", amount)
    for name in amounts:
        if not is_text(name) or name in ("", "cpu", "memory"):
            message = "expected another name of a scalar; cpu and memory have fields of their own"
            yield f"{path}[{shown(name)}]", message


def tuple_problems(path: str, items: object, kind: str, /) -> Problems:
    """Yield what is wrong with a tuple as such: that it is none."""
    if not is_tuple(items):
        yield path, f"expected a collection of {kind}, got {shown(items)}; use a tuple or a list"


def each_problems(
    path: str, items: object, kind: str, problems: Callable[[object], Problems], /
) -> Problems:
    """Yield what is wrong with a tuple of `kind`, given what is wrong with one."""
    yield from tuple_problems(path, items, kind)
    if is_tuple(items):
        for position, item in enumerate(items):
            yield from under(f"{path}[{position}]", problems(item))
