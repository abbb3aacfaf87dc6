"""What an invariant is: a function that finds what is wrong with a cycle."""

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
    """A law that every cycle keeps; call it to check one cycle."""

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
            snapshot: what was scheduled.
            result: what came out.
            config: the configuration; None: the default.
            registry: where the configuration's names come from; None: the default registry.
            rules: what plugins and actions of your own keep.

        Raises:
            InvariantViolation: the first thing that is wrong.
            SnapshotError: `snapshot` is no snapshot.
            ConfigError: `config` is no configuration, or one that cannot be used.
            TypeError: `result`, `registry` or `rules` is not what it should be.

        """
        used = SchedulerConfig() if config is None else config
        self.check(Cycle(snapshot, result, used, registry, rules))

    def check(self, cycle: Cycle, /) -> None:
        """Check a cycle that was looked at before, which saves counting everything again.

        Raises:
            InvariantViolation: the first thing that is wrong.

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
        """Yield everything that is wrong with a cycle."""
        return self._find(cycle)

    def __repr__(self) -> str:
        return f"<invariant {self.__name__}>"


def invariant(find: Callable[[Cycle], Iterator[str]]) -> Invariant:
    """Make an invariant of a function that yields what is wrong."""
    return Invariant(find)


def expect_invariant(law: object) -> None:
    """Raise unless something is an invariant.

    Raises:
        TypeError: it is none.

    """
    if not isinstance(law, Invariant):
        name = getattr(law, "__name__", repr(law))
        raise TypeError(f"expected an invariant, got {name}; write @invariant above its definition")
