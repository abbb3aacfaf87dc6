"""Invariants: functions that find the faults of a cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from inspect import getdoc

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.testing.invariants.cycle import Cycle
from batchsched.testing.invariants.rule import Rule
from batchsched.testing.invariants.violation import InvariantViolation

__all__ = ["Invariant", "expect_invariant", "invariant"]


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
