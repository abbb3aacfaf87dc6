"""Invariants: functions that find the faults of a cycle, and the error that they raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import getdoc
from textwrap import indent

from attrs import define

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.testing.invariants.cycle import Cycle
from batchsched.tools.code import as_code, as_script
from batchsched.tools.ping_pong import are_decided

_OURS = "batchsched.testing"


@define(eq=False, repr=False)
class InvariantViolation(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A cycle whose result breaks an invariant.

    The message names the invariant, the fault with the task, job, queue or node, and the decisions
    of the cycle. `as_code` returns the cycle as code to paste into a test.
    """

    invariant: str
    """The name of the function that checks it, such as ``capacity``."""
    problem: str
    """The fault, in one line."""
    snapshot: Snapshot
    result: CycleResult
    config: SchedulerConfig
    registry: Registry | None = None
    """The registry of the names in `config`; None: the default registry."""
    module: str = _OURS
    """The module that the invariant is defined in."""

    def __str__(self) -> str:
        names = ", ".join(action.name for action in self.config.actions)
        return (
            f"{self.invariant}: {self.problem}\n"
            f"  The cycle ({names}): {indent(str(self.result), '  ').strip()}"
        )

    def __reduce__(self) -> tuple[type[InvariantViolation], tuple[object, ...]]:
        # By all fields, whatever else an exception carries, such as notes.
        values = (self.invariant, self.problem, self.snapshot, self.result, self.config)
        return type(self), (*values, self.registry, self.module)

    def as_code(self) -> str:
        """Return code that runs the cycle again and checks it for this invariant.

        The code imports what it needs from batchsched. It expects your own invariant, and the
        registry if there was one, where it is pasted; comments mark these. If the scheduler does
        not make these decisions (any more), the code contains the result.
        """
        law, further = self.invariant, [f"from {_OURS} import check_cycle"]
        if f"{self.module}.".startswith(f"{_OURS}."):
            law = f'"{law}"'
        elif law.isidentifier():
            further.append(f"# from {self.module} import {law}")
        else:
            law = "broken_invariant"
            further.append(f"# {law}: {self.invariant} of {self.module}")
        made_with, checked_with = "config", f"config, invariants=[{law}]"
        if self.registry is not None:
            further.append("# registry: what the names in the configuration come from")
            made_with = "config, registry"
            checked_with += ", registry=registry"
        again = are_decided([self.snapshot], [self.result], self.config, self.registry)
        result = f"Scheduler({made_with}).schedule(snapshot)" if again else as_code(self.result)
        return as_script(
            f"snapshot = {as_code(self.snapshot)}\n"
            f"config = {as_code(self.config)}\n"
            f"result = {result}\n"
            f"check_cycle(snapshot, result, {checked_with})\n",
            *further,
        )


class Invariant:
    """A rule that every cycle must satisfy; `check_cycle` checks cycles for it."""

    def __init__(self, find: Callable[[Cycle], Iterator[str]]) -> None:
        self.problems = find
        """The function that yields all faults of a cycle."""
        self.__name__ = find.__name__
        self.__module__ = find.__module__
        self.__doc__ = getdoc(find)

    def __repr__(self) -> str:
        return f"<invariant {self.__name__}>"


def invariant(find: Callable[[Cycle], Iterator[str]]) -> Invariant:
    """Turn a function that yields the faults of a cycle into an invariant."""
    return Invariant(find)
