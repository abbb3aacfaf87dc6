"""The exceptions of batchsched, all derived from `BatchschedError`.

Each is also the built-in exception that a caller would expect: `ValueError` for
a bad value, `AssertionError` for a broken invariant, `RuntimeError` for misuse.
Errors found by checking input report all faults at once, each with its path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

from attrs import frozen

__all__ = [
    "ActionError",
    "ArgumentError",
    "BatchschedError",
    "ConfigError",
    "EventError",
    "Fault",
    "FaultsError",
    "FormatError",
    "InvariantError",
    "KubernetesObjectError",
    "PluginError",
    "QuantityError",
    "RegistryError",
    "ResourceError",
    "SerialisationError",
    "SnapshotError",
    "StatementError",
    "UnknownNameError",
    "plugin_error",
    "problem_of",
]


class BatchschedError(Exception):
    """The base of all errors that batchsched raises on purpose."""


@frozen
class Fault:
    """One fault in the input: where it is, and what is wrong.

    >>> print(Fault("queues['gpu'].weight", "expected 1 or more, got -1"))
    queues['gpu'].weight: expected 1 or more, got -1
    """

    path: str
    """Where the fault is, as an expression: ``jobs['team/j7'].tasks['u1'].node_name``."""
    message: str
    """What is wrong there, and what to use instead."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


_OF_ITEMS = re.compile(r"\[[^\]]*\]|'[^']*'|\"[^\"]*\"|\{[^}]*\}|\d+")
"""What differs between faults of one kind: which item it is, and the values."""
_NAMED = 3


def _lines_of(faults: Sequence[Fault]) -> list[tuple[str, int]]:
    """Return lines in the order of faults, each with the number of faults that it tells."""
    keys = [_OF_ITEMS.sub("*", str(fault)) for fault in faults]
    of_key: dict[str, list[Fault]] = {}
    for fault, key in zip(faults, keys, strict=True):
        of_key.setdefault(key, []).append(fault)
    lines: list[tuple[str, int]] = []
    told = set[str]()
    for fault, key in zip(faults, keys, strict=True):
        same = of_key[key]
        if len(same) <= _NAMED or "[" not in fault.path:
            lines.append((str(fault), 1))
        elif key not in told:
            told.add(key)
            others = ", ".join(each.path for each in same[1:_NAMED])
            more = f"(and {len(same) - 1:,} more: {others}, ...)"
            lines.append((f"{fault} {more}", len(same)))
    return lines


class FaultsError(BatchschedError, ValueError):
    """Invalid input, rejected as a whole; `faults` lists everything that is wrong with it.

    The message has one line per fault; the same one of more than three items is one line, with the
    number of the others and the first of them.

    >>> faults = [Fault(f"jobs[{at}].labels", f"expected none, got 'a{at}'") for at in range(9)]
    >>> print(FaultsError([*faults, Fault("queue", "expected text, got 3")]))
    jobs[0].labels: expected none, got 'a0' (and 8 more: jobs[1].labels, jobs[2].labels, ...)
    queue: expected text, got 3
    """

    most_shown: ClassVar[int | None] = None
    """The most lines of the message; it then counts the faults that they do not tell. None: all."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        shown = _lines_of(self.faults)[: self.most_shown]
        lines = [line for line, _ in shown]
        left = len(self.faults) - sum(count for _, count in shown)
        if left:
            lines.append(f"... and {left} more; see `faults`")
        super().__init__("\n".join(lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message, however many there are."""
        return tuple(line for line, _ in _lines_of(self.faults))

    @classmethod
    def at(cls, path: str, message: str) -> Self:
        """Return the error of a single fault."""
        return cls([Fault(path, message)])

    def __reduce__(self) -> tuple[type[FaultsError], tuple[tuple[Fault, ...]]]:
        return type(self), (self.faults,)


class SnapshotError(FaultsError):
    """A snapshot that contradicts itself or holds invalid values.

    The message has at most 20 lines and counts the faults that they do not tell.
    """

    most_shown = 20


class ConfigError(FaultsError):
    """A configuration with unknown names or values of the wrong type."""


class ArgumentError(FaultsError):
    """Arguments of the wrong type, functions among them that raised, or iterables that did."""


class EventError(FaultsError):
    """Events that do not fit the snapshot and the result that they are applied to."""


class FormatError(FaultsError):
    """Stored data that cannot be read: damaged, in another format, or from a newer version."""


class SerialisationError(FaultsError):
    """Values that cannot be written as plain data, such as functions; each with its path."""


class KubernetesObjectError(FaultsError):
    """Kubernetes objects with missing or invalid fields.

    The message has at most 20 lines and counts the faults that they do not tell.
    """

    most_shown = 20


class QuantityError(BatchschedError, ValueError):
    """A string that is not a Kubernetes quantity."""


class ResourceError(BatchschedError, ArithmeticError):
    """A subtraction of resources whose result would be negative."""


class UnknownNameError(BatchschedError, LookupError):
    """The name of a task, job, queue, node, plugin or action that does not exist."""


class RegistryError(BatchschedError, ValueError):
    """A plugin or action that cannot be registered."""


class StatementError(BatchschedError, RuntimeError):
    """A statement or session operation used in a state that does not allow it."""


class PluginError(BatchschedError, RuntimeError):
    """A plugin that raised an exception or returned an invalid value during a cycle."""

    def __init__(self, plugin: str, extension_point: str, problem: str) -> None:
        self.plugin = plugin
        self.extension_point = extension_point
        self.problem = problem
        super().__init__(f"plugin {plugin!r}, {extension_point}: {problem}")

    def __reduce__(self) -> tuple[type[PluginError], tuple[str, str, str]]:
        return type(self), (self.plugin, self.extension_point, self.problem)


class ActionError(BatchschedError, RuntimeError):
    """An action that raised an exception during a cycle."""

    def __init__(self, action: str, problem: str) -> None:
        self.action = action
        self.problem = problem
        super().__init__(f"action {action!r}: {problem}")

    def __reduce__(self) -> tuple[type[ActionError], tuple[str, str]]:
        return type(self), (self.action, self.problem)


class InvariantError(BatchschedError, AssertionError):
    """Inconsistent internal state: a defect of batchsched or of an action."""


def problem_of(error: Exception) -> str:
    """Return an exception's type and message in one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def shown_problem(error: Exception, /) -> str:
    """Return the same of what the caller's code raised: one line, not too long, whatever it is."""
    try:
        text = problem_of(error)
    except Exception:  # its `__str__` may raise anything
        text = type(error).__name__
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[: _LONGEST_PROBLEM - 3]}..."


_LONGEST_PROBLEM = 200


def plugin_error(name: str, point: str, error: Exception) -> PluginError:
    """Return a `PluginError` for an exception that a plugin raised at an extension point.

    A `PluginError` of another plugin, which this one called through the session, stays one.
    """
    if isinstance(error, PluginError):
        return PluginError(error.plugin, error.extension_point, error.problem)
    return PluginError(name, point, problem_of(error))
