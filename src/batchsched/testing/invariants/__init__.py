"""Invariants: rules that every cycle must satisfy, whatever the configuration.

They are written from the exact semantics (see the documentation) in terms of snapshot and result,
and share no code with what they check: no session, plugin or action. A violation describes the
fault in one line, and contains the cycle to paste into a test.

Invariants check only what follows from snapshot and result, so they never raise falsely. They
assume nothing of plugins and actions that are not built in.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import cast

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.testing.invariants import (
    domains_and_devices,
    evictions,
    gangs,
    guarantees,
    moving,
    nodes,
    permutation,
    placements,
)
from batchsched.testing.invariants.cycle import Cycle
from batchsched.testing.invariants.invariant import Invariant, InvariantViolation, invariant
from batchsched.testing.invariants.rules import RULES

__all__ = [
    "INVARIANTS",
    "RULES",
    "Cycle",
    "Invariant",
    "InvariantViolation",
    "check_cycle",
    "invariant",
]

INVARIANTS: Sequence[Invariant] = (
    nodes.capacity,
    nodes.starts,
    domains_and_devices.devices,
    placements.placements,
    gangs.gangs,
    domains_and_devices.domains,
    evictions.protection,
    evictions.claims,
    evictions.sparing,
    guarantees.claimants,
    guarantees.cores,
    guarantees.budgets,
    guarantees.limits,
    guarantees.lending,
    moving.moves,
    nodes.reservations,
    permutation.permutation,
)
"""All invariants, in the order in which `check_cycle` checks them."""


def check_cycle(
    snapshot: Snapshot,
    result: CycleResult,
    config: SchedulerConfig | None = None,
    *,
    registry: Registry | None = None,
    invariants: Iterable[Invariant | str] = INVARIANTS,
    without: Collection[str] = (),
) -> None:
    """Check that a cycle satisfies all invariants.

    Args:
        snapshot: the snapshot that was scheduled.
        result: the result of the cycle.
        config: the configuration; None: the default.
        registry: the registry of the configuration's names; None: the default registry.
        invariants: the invariants to check: your own, or those of `INVARIANTS` and `RULES`, also by
            name. By default `INVARIANTS`, which assume nothing of your plugins and actions.
        without: names of invariants to leave out.

    Raises:
        InvariantViolation: with the first fault.
        SnapshotError: `snapshot` is not a Snapshot.
        ConfigError: `config` is not a SchedulerConfig, or cannot be used.
        TypeError: `result`, `registry`, or one of `invariants` has the wrong type.
        ValueError: there is no invariant of a given name.

    >>> from batchsched import NodeInfo, Resource, schedule
    >>> snapshot = Snapshot(nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000))])
    >>> check_cycle(snapshot, schedule(snapshot))
    >>> check_cycle(snapshot, schedule(snapshot), invariants=["capacity", "gangs"])

    """
    used = SchedulerConfig() if config is None else config
    cycle = Cycle(snapshot, result, used, registry)
    left_out = [_named(name) for name in without]
    laws = [_named(law) if isinstance(law, str) else law for law in invariants]
    for law in laws:
        if not isinstance(cast("object", law), Invariant):
            name = getattr(law, "__name__", repr(law))
            message = f"expected an invariant, got {name}; write @invariant above its definition"
            raise TypeError(message)
    for law in laws:
        problem = None if law in left_out else next(law.problems(cycle), None)
        if problem is not None:
            raise InvariantViolation(
                law.__name__, problem, snapshot, result, used, registry, law.__module__
            )


def _named(name: str) -> Invariant:
    for law in (*INVARIANTS, *RULES):
        if law.__name__ == name:
            return law
    names = ", ".join(law.__name__ for law in (*INVARIANTS, *RULES))
    raise ValueError(f"there is no invariant {name!r}; there are: {names}")
