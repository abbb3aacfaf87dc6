"""The errors of batchsched: one small tree.

Every error also is the builtin that a caller would catch: a bad value is a
`ValueError`, a broken invariant an `AssertionError`, a misuse a `RuntimeError`.
Errors that come from checking input carry all faults at once, each with the
path of what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from attrs import frozen

__all__ = [
    "ActionError",
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
    """One thing that is wrong with some input: where, and what.

    >>> print(Fault("queues['gpu'].weight", "-1 is negative; a weight is 1 or more"))
    queues['gpu'].weight: -1 is negative; a weight is 1 or more
    """

    path: str
    """Where the fault is, as an expression: ``jobs['team/j7'].tasks['u1'].node_name``."""
    message: str
    """What is wrong there, and what would work."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class FaultsError(BatchschedError, ValueError):
    """Input that was refused as a whole; `faults` lists everything wrong with it.

    The message has one line a fault.
    """

    most_shown: ClassVar[int | None] = None
    """How many faults the message shows before it says how many more there are; None: all."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        lines = [str(fault) for fault in self.faults[: self.most_shown]]
        if len(self.faults) > len(lines):
            lines.append(f"... and {len(self.faults) - len(lines)} more; see `faults`")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[FaultsError], tuple[tuple[Fault, ...]]]:
        return type(self), (self.faults,)


class SnapshotError(FaultsError):
    """A snapshot that contradicts itself or holds values that make no sense.

    The message shows the first 20 faults, and how many more there are.
    """

    most_shown = 20


class ConfigError(FaultsError):
    """A configuration with unknown names or ill-typed values."""


class EventError(FaultsError):
    """Events that do not apply to the snapshot and the result that they are said to follow."""


class FormatError(FaultsError):
    """Kept data that cannot be read: damaged, of another format, or of a newer version."""


class KubernetesObjectError(FaultsError):
    """Kubernetes objects that lack what is needed or cannot be read.

    The message shows the first 20 faults, and how many more there are.
    """

    most_shown = 20


class QuantityError(BatchschedError, ValueError):
    """A text that is no Kubernetes quantity."""


class ResourceError(BatchschedError, ArithmeticError):
    """A subtraction of resources that would leave a negative amount."""


class UnknownNameError(BatchschedError, LookupError):
    """A task, job, queue, node, plugin or action that was asked for and is not there."""


class RegistryError(BatchschedError, ValueError):
    """A plugin or action that cannot be registered as it was given."""


class StatementError(BatchschedError, RuntimeError):
    """A statement or a session operation used where it does not apply."""


class PluginError(BatchschedError, RuntimeError):
    """A plugin that raised, or answered what it must not, in the middle of a cycle."""

    def __init__(self, plugin: str, extension_point: str, problem: str) -> None:
        self.plugin = plugin
        self.extension_point = extension_point
        self.problem = problem
        super().__init__(f"plugin {plugin!r}, {extension_point}: {problem}")

    def __reduce__(self) -> tuple[type[PluginError], tuple[str, str, str]]:
        return type(self), (self.plugin, self.extension_point, self.problem)


class ActionError(BatchschedError, RuntimeError):
    """An action that raised in the middle of a cycle."""

    def __init__(self, action: str, problem: str) -> None:
        self.action = action
        self.problem = problem
        super().__init__(f"action {action!r}: {problem}")

    def __reduce__(self) -> tuple[type[ActionError], tuple[str, str]]:
        return type(self), (self.action, self.problem)


class InvariantError(BatchschedError, AssertionError):
    """The books contradict themselves: a defect of batchsched or of an action."""


def problem_of(error: Exception) -> str:
    """Return one line that says what an exception is."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def plugin_error(name: str, point: str, error: Exception) -> PluginError:
    """Return the error that says which plugin raised, and where."""
    return PluginError(name, point, problem_of(error))
