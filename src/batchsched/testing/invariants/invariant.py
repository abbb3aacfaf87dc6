"""Invariants: functions that find the faults of a cycle, and the error that they raise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from inspect import getdoc
from textwrap import indent

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.scheduler import Scheduler
from batchsched.testing.code import as_code, as_script
from batchsched.testing.invariants.cycle import Cycle
from batchsched.testing.invariants.policy import Rule

__all__ = [
    "Invariant",
    "InvariantViolation",
    "expect_invariant",
    "invariant",
]

_OURS = "batchsched.testing"


class InvariantViolation(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A cycle whose result breaks an invariant.

    The message names the invariant, the fault with the task, job, queue or node, and the decisions
    of the cycle. `as_code` returns the cycle as code to paste into a test.
    """

    def __init__(
        self,
        invariant: str,
        problem: str,
        snapshot: Snapshot,
        result: CycleResult,
        config: SchedulerConfig,
        registry: Registry | None = None,
        module: str = _OURS,
        rules: Iterable[Rule] = (),
    ) -> None:
        self.invariant = invariant
        """The name of the function that checks it, such as ``check_capacity``."""
        self.problem = problem
        """The fault, in one line."""
        self.snapshot = snapshot
        self.result = result
        self.config = config
        self.registry = registry
        """The registry of the names in `config`; None: the default registry."""
        self.module = module
        """The module that the invariant is defined in."""
        self.rules = sorted(rules, key=lambda rule: rule.name)
        """The rules that custom plugins and actions had to follow."""
        super().__init__(invariant, problem, snapshot, result, config, registry, module, self.rules)

    def __str__(self) -> str:
        names = ", ".join(action.name for action in self.config.actions)
        return (
            f"{self.invariant}: {self.problem}\n"
            f"  The cycle ({names}): {indent(str(self.result), '  ').strip()}"
        )

    def as_code(self) -> str:
        """Return code that runs the cycle again and checks it for this invariant.

        The code imports what it needs from batchsched. It expects your own invariant, and the
        registry if there was one, where it is pasted; comments mark these. If the scheduler does
        not make these decisions (any more), the code contains the result.
        """
        further: list[str] = []
        law = self.invariant
        if not law.isidentifier():
            law = "broken_invariant"
            further.append(f"# {law}: {self.invariant} of {self.module}")
        elif f"{self.module}.".startswith(f"{_OURS}."):
            further.append(f"from {_OURS} import {law}")
        else:
            further.append(f"# from {self.module} import {law}")
        made_with, checked_with = "config", "config"
        if self.registry is not None:
            further.append("# registry: what the names in the configuration come from")
            made_with, checked_with = "config, registry", "config, registry=registry"
        if self.rules:
            further.append(f"from {_OURS} import Rule")
            names = ", ".join(f"Rule.{rule.name}" for rule in self.rules)
            checked_with += f", rules=[{names}]"
        result = f"Scheduler({made_with}).schedule(snapshot)"
        return as_script(
            f"snapshot = {as_code(self.snapshot)}\n"
            f"config = {as_code(self.config)}\n"
            f"result = {result if self._is_decided_again() else as_code(self.result)}\n"
            f"{law}(snapshot, result, {checked_with})\n",
            *further,
        )

    def _is_decided_again(self) -> bool:
        try:
            again = Scheduler(self.config, self.registry).schedule(self.snapshot)
        except Exception:  # plugins may raise anything; the recorded decisions are known
            return False
        return again == self.result


class Invariant:
    """A rule that every cycle must satisfy; call it to check one cycle."""

    def __init__(self, find: Callable[[Cycle], Iterator[str]]) -> None:
        self._find = find
        self.__name__ = find.__name__
        self.__qualname__ = find.__qualname__
        self.__module__ = find.__module__
        self.__doc__ = getdoc(find)

    def __call__(
        self,
        snapshot: Snapshot,
        result: CycleResult,
        config: SchedulerConfig | None = None,
        *,
        registry: Registry | None = None,
        rules: Iterable[Rule] = (),
    ) -> None:
        """Check a cycle.

        Args:
            snapshot: the snapshot that was scheduled.
            result: the result of the cycle.
            config: the configuration; None: the default.
            registry: the registry of the configuration's names; None: the default registry.
            rules: the rules that your own plugins and actions follow.

        Raises:
            InvariantViolation: with the first fault.
            SnapshotError: `snapshot` is not a Snapshot.
            ConfigError: `config` is not a SchedulerConfig, or cannot be used.
            TypeError: `result`, `registry` or `rules` has the wrong type.

        """
        used = SchedulerConfig() if config is None else config
        self.check(Cycle(snapshot, result, used, registry, rules))

    def check(self, cycle: Cycle, /) -> None:
        """Check a prepared cycle, which avoids computing its state again.

        Raises:
            InvariantViolation: with the first fault.

        """
        problem = next(self.problems(cycle), None)
        if problem is not None:
            raise InvariantViolation(
                self.__name__,
                problem,
                cycle.snapshot,
                cycle.result,
                cycle.config,
                cycle.registry,
                self.__module__,
                cycle.rules,
            )

    def problems(self, cycle: Cycle, /) -> Iterator[str]:
        """Yield all faults of a cycle."""
        return self._find(cycle)

    def __repr__(self) -> str:
        return f"<invariant {self.__name__}>"


def invariant(find: Callable[[Cycle], Iterator[str]]) -> Invariant:
    """Turn a function that yields the faults of a cycle into an invariant."""
    return Invariant(find)


def expect_invariant(law: object) -> None:
    """Raise an error unless `law` is an invariant.

    Raises:
        TypeError: it is not an invariant.

    """
    if not isinstance(law, Invariant):
        name = getattr(law, "__name__", repr(law))
        raise TypeError(f"expected an invariant, got {name}; write @invariant above its definition")
