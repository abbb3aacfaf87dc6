"""Validation of values: strings, numbers, labels, amounts.

A value of the wrong type is invalid like any other, so all functions take an
`object`. They yield problems: pairs of a path below the checked value, and a
message.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from sys import float_info
from typing import TypeGuard, TypeVar

from batchsched.errors import UnknownNameError
from batchsched.model.texts import did_you_mean

T = TypeVar("T")

Problems = Iterator[tuple[str, str]]
"""Problems of a value: for each, the path below the value, and the message."""

LARGEST = float_info.max
"""The largest finite float; larger integers exist, but dividing them would overflow."""

_SHOWN = 80
_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")


def shown(value: object, /) -> str:
    """Return the `repr` of any value for a message, without memory addresses, and not too long."""
    try:
        text = repr(value)
    except Exception:  # the repr of something invalid may raise anything
        text = f"<{type(value).__name__}>"
    if type(value) is not str:
        text = _ADDRESS.sub("", text)  # the same input has the same message
    text = " ".join(text.split("\n"))  # a fault is one line
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def join_path(path: str, below: str, /) -> str:
    """Return the path of a part, given the path of the whole.

    >>> join_path("nodes['n1']", "labels"), join_path("", "now"), join_path("tasks", "[3]")
    ("nodes['n1'].labels", 'now', 'tasks[3]')
    """
    return f"{path}.{below}" if path and below and below[0] != "[" else path + below


def under(path: str, problems: Problems, /) -> Problems:
    """Yield the same problems with `path` put before their paths."""
    for below, message in problems:
        yield join_path(path, below), message


def is_of(value: object, kind: type[T], /) -> TypeGuard[T]:
    """Return whether a value has a type, whatever its declared type.

    A value whose `__class__` raises an exception has none.
    """
    try:
        return isinstance(value, kind)
    except Exception:
        return False


def is_text(value: object, /) -> TypeGuard[str]:
    """Return whether `value` is a string."""
    return is_of(value, str)


def part_named(what: str, parts: Mapping[str, T], name: str, *, of: str) -> T:
    """Return the part with this name.

    Raises:
        UnknownNameError: there is none.

    """
    try:
        return parts[name]
    except Exception:  # no such name, or one whose hash or comparison raises anything
        hint = did_you_mean(name, parts) if is_text(name) else ""
        message = f"the {of} has no {what} {shown(name)}"
        raise UnknownNameError(f"{message}; {hint}" if hint else message) from None


_MOST_COMPARED = 100
"""The most names with which one that is not there is compared: there may be many of these."""
_MOST_LISTED = 5
_did_you_mean = lru_cache(maxsize=1000)(did_you_mean)


def reference_problems(
    path: str, what: str, name: str, known: Collection[str], of: str
) -> Problems:
    """Yield the problem of a name that nothing of its kind has, with what might be meant."""
    if name in known:
        return
    hint = ""
    if len(known) <= _MOST_COMPARED:
        names = (*(known if isinstance(known, Sequence) else sorted(known)),)
        hint = _did_you_mean(name, names)
        if not hint and len(names) <= _MOST_LISTED:
            hint = f"known: {', '.join(map(repr, names)) or 'none'}"
    yield path, f"there is no {what} {shown(name)} in this {of}{hint and '; ' + hint}"


def is_integer(value: object, /) -> TypeGuard[int]:
    """Return whether `value` is an integer, and not a boolean."""
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


def is_collection(value: object, /) -> TypeGuard[Iterable[object]]:
    """Return whether `value` is a collection of items, which strings and mappings are not."""
    if is_text(value) or is_of(value, bytes) or is_mapping(value):
        return False
    return is_of(value, Iterable)  # type: ignore[type-abstract]


def with_article(kind: type, /) -> str:
    """Return the name of a class with its article."""
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def member_problems(path: str, value: object, kind: type[Enum], /, or_none: str = "") -> Problems:
    """Yield the problem of a value that is not a member of an enum.

    >>> from batchsched.model.cluster import JobPhase
    >>> list(member_problems("phase", "Running", JobPhase))
    [('phase', "expected a JobPhase, got 'Running'; use JobPhase.RUNNING")]
    >>> list(member_problems("phase", 1, JobPhase))
    [('phase', 'expected a JobPhase, got 1; known: Pending, Running, Unknown, Completed')]
    """
    if is_of(value, kind):
        return
    known = {member.value: str(member) for member in kind}
    if is_text(value) and value in known:
        hint = f"use {known[value]}"
    else:
        hint = f"known: {', '.join(known)}"
    yield path, f"expected {with_article(kind)}{or_none}, got {shown(value)}; {hint}"


def text_problems(path: str, value: object, /, *, may_be_empty: bool = False) -> Problems:
    """Yield the problem of a value that is not a string, or is empty."""
    if not is_text(value):
        yield path, f"expected a string, got {shown(value)}"
    elif not value and not may_be_empty:
        yield path, "is empty"


def truth_problems(path: str, value: object, /) -> Problems:
    """Yield the problem of a value that is not a boolean."""
    if not is_of(value, bool):
        yield path, f"expected True or False, got {shown(value)}"


def cycles_of_parents(parents: Mapping[str, object], /) -> Iterator[list[str]]:
    """Yield each cycle once, starting with its first part by name, given the parents of parts.

    >>> list(cycles_of_parents({"a": "c", "b": None, "c": "d", "d": "a", "e": "a"}))
    [['a', 'c', 'd']]
    """
    return cycles_of({n: [p] if is_text(p) else [] for n, p in parents.items()})


def cycles_of(leads_to: Mapping[str, Sequence[str]], /) -> Iterator[list[str]]:
    """Yield cycles of what leads to what, each with its first name first. O(size).

    Every cycle has a name of one of these.
    """
    done: set[str] = set()
    for start in sorted(leads_to.keys()):
        if start in done:
            continue
        # Depth first: each name is visited once.
        done.add(start)
        path, position_of = [start], {start: 0}
        stack = [iter(leads_to[start])]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                del position_of[path.pop()]
            elif following in position_of:
                cycle = path[position_of[following] :]
                first = cycle.index(min(cycle))
                yield cycle[first:] + cycle[:first]
            elif following not in done:
                done.add(following)
                position_of[following] = len(path)
                path.append(following)
                stack.append(iter(leads_to.get(following, ())))


def chain_of(cycle: Sequence[str], /) -> str:
    """Return a cycle in words, from its first name to the same."""
    return " -> ".join(repr(name) for name in (*cycle, cycle[0]))


def integer_problems(path: str, value: object, what: str, /, *, least: int | None) -> Problems:
    """Yield the problem of a value that is not an integer of at least `least`.

    `what` names what was expected.
    """
    if not is_integer(value) or (least is not None and value < least):
        yield path, f"expected {what}, got {shown(value)}"
    elif not -LARGEST <= value <= LARGEST:
        yield path, f"expected {what} of at most 300 digits, got {shown(value)}"


_UNITS = {"milli_cpu": "thousandths of a cpu", "memory": "bytes"}


def amount_problems(path: str, amount: object, /, *, is_whole: bool = True) -> Problems:
    """Yield the problem of a value that is not a finite, whole number of 0 or more.

    `is_whole`: whether it must be whole.
    """
    if not _is_number(amount):
        yield path, f"expected a number, got {shown(amount)}"
    elif not -LARGEST <= amount <= LARGEST:
        yield path, f"expected a finite number, got {shown(amount)}"
    elif amount < 0:
        yield path, f"expected 0 or more, got {shown(amount)}"
    elif is_whole and isinstance(amount, float) and not amount.is_integer():
        unit = _UNITS.get(path, "thousandths")
        yield path, f"expected a whole number of {unit}, got {shown(amount)}; round it"


def time_problems(path: str, time: object, /) -> Problems:
    """Yield the problem of a value that is not a time, a finite number."""
    if not (_is_number(time) and -LARGEST <= time <= LARGEST):
        yield path, f"expected a time (a finite number of seconds), got {shown(time)}"


def duration_problems(path: str, duration: object, /) -> Problems:
    """Yield the problem of a value that is not a duration, a finite number of 0 or more."""
    if not _is_number(duration) or not 0 <= duration <= LARGEST:
        yield path, f"expected a finite number of seconds, 0 or more, got {shown(duration)}"


def items_of(content: Mapping[object, object], /) -> Iterator[tuple[object, object]]:
    """Yield the items of a mapping; what it raises instead of them is an item that is wrong."""
    try:
        yield from list(content.items())
    except Exception as error:
        yield error, error


def items_in(collection: Iterable[object], /) -> Iterator[object]:
    """Yield the items of a collection; what it raises instead of them is an item that is wrong."""
    try:
        yield from list(collection)
    except Exception as error:
        yield error


def text_map_problems(path: str, texts: object, /) -> Problems:
    """Yield the problems of labels and the like: a mapping of strings to strings."""
    if not is_mapping(texts):
        yield path, f"expected a mapping such as a dict, got {shown(texts)}"
        return
    for key, value in items_of(texts):
        if not is_text(key) or not is_text(value):
            message = f"expected strings, got {shown(value)} for {shown(key)}"
            yield f"{path}[{shown(key)}]", message


def amount_map_problems(path: str, amounts: object, /, *, is_whole: bool = True) -> Problems:
    """Yield the problems of the amounts of named scalars; see `amount_problems`."""
    if not is_mapping(amounts):
        yield path, f"expected a mapping such as a dict, got {shown(amounts)}"
        return
    for name, amount in items_of(amounts):
        yield from amount_problems(f"{path}[{shown(name)}]", amount, is_whole=is_whole)
    for name, _ in items_of(amounts):
        if not is_text(name) or name in ("", "cpu", "memory"):
            message = "expected the name of a scalar, other than cpu and memory, got"
            yield f"{path}[{shown(name)}]", f"{message} {shown(name)}"


def tuple_problems(path: str, items: object, kind: str, /) -> Problems:
    """Yield the problem of a value that is not a tuple."""
    if not is_tuple(items):
        yield path, f"expected a collection of {kind}, got {shown(items)}; use a tuple or a list"
