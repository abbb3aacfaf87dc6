"""Invariants: rules that every cycle must satisfy, whatever the configuration.

They are written from the exact semantics (see the documentation) in terms of snapshot and result,
and share no code with what they check: no session, plugin or action. A violation describes the
fault in one line, and contains the cycle to paste into a test.

Invariants check only what follows from snapshot and result, so they never raise falsely. They
assume nothing of plugins and actions that are not built in.
"""

from collections.abc import Iterable, Sequence

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.testing.invariants.cycle import Cycle
from batchsched.testing.invariants.decisions import check_decisions, check_permutation
from batchsched.testing.invariants.evictions import (
    check_claims,
    check_protection,
    check_sparing,
    check_swaps,
)
from batchsched.testing.invariants.gangs import check_gangs
from batchsched.testing.invariants.invariant import (
    Invariant,
    InvariantViolation,
    expect_invariant,
    invariant,
)
from batchsched.testing.invariants.nodes import check_capacity, check_reservations, check_starts
from batchsched.testing.invariants.placements import check_placements
from batchsched.testing.invariants.policy import Rule
from batchsched.testing.invariants.reasons import check_outcomes, check_reasons
from batchsched.testing.invariants.rules import check_rules

__all__ = [
    "INVARIANTS",
    "Cycle",
    "Invariant",
    "InvariantViolation",
    "Rule",
    "check_capacity",
    "check_claims",
    "check_cycle",
    "check_decisions",
    "check_gangs",
    "check_outcomes",
    "check_permutation",
    "check_placements",
    "check_protection",
    "check_reasons",
    "check_reservations",
    "check_rules",
    "check_sparing",
    "check_starts",
    "check_swaps",
    "invariant",
]

INVARIANTS: Sequence[Invariant] = (
    check_decisions,
    check_capacity,
    check_starts,
    check_placements,
    check_gangs,
    check_protection,
    check_claims,
    check_sparing,
    check_swaps,
    check_reservations,
    check_outcomes,
    check_reasons,
    check_rules,
    check_permutation,
)
"""All invariants, in the order in which `check_cycle` checks them."""


def check_cycle(
    snapshot: Snapshot,
    result: CycleResult,
    config: SchedulerConfig | None = None,
    *,
    registry: Registry | None = None,
    rules: Iterable[Rule] = (),
    invariants: Sequence[Invariant] = INVARIANTS,
) -> None:
    """Check that a cycle satisfies all invariants.

    Args:
        snapshot: the snapshot that was scheduled.
        result: the result of the cycle.
        config: the configuration; None: the default.
        registry: the registry of the configuration's names; None: the default registry.
        rules: the rules that your own plugins and actions follow; nothing else is assumed of them.
        invariants: the invariants to check; by default all.

    Raises:
        InvariantViolation: with the first fault.
        SnapshotError: `snapshot` is not a Snapshot.
        ConfigError: `config` is not a SchedulerConfig, or cannot be used.
        TypeError: `result`, `registry`, or one of `rules` or `invariants` has the wrong type.

    >>> from batchsched import NodeInfo, Resource, schedule
    >>> snapshot = Snapshot(nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000))])
    >>> check_cycle(snapshot, schedule(snapshot))

    """
    used = SchedulerConfig() if config is None else config
    cycle = Cycle(snapshot, result, used, registry, rules)
    laws = list(invariants)
    for law in laws:
        expect_invariant(law)
    for law in laws:
        law.check(cycle)
