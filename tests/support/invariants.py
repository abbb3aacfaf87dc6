"""The invariants of the testing kit, and those that only batchsched itself could break."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from batchsched import CycleResult, Registry, SchedulerConfig, Snapshot
from batchsched import testing as kit
from batchsched.testing import Invariant
from tests.support.consistent_results import decisions
from tests.support.kept_places import promises, starving
from tests.support.known import where_known
from tests.support.kubernetes_rules import rules
from tests.support.queue_laws import shares, swaps
from tests.support.true_reasons import outcomes, reasons

OWN: Sequence[Invariant] = (
    *(decisions, rules),
    *map(where_known, (shares, swaps, promises, starving, outcomes, reasons)),
)
INVARIANTS: Sequence[Invariant] = (*kit.INVARIANTS, *OWN)
OF_ALL_PLUGINS = (decisions, rules, *kit.INVARIANTS)
"""Those that know all plugins: the others know neither topologies nor devices."""
BUT_REASONS = INVARIANTS[:-1]


def check_cycle(
    snapshot: Snapshot,
    result: CycleResult,
    config: SchedulerConfig | None = None,
    *,
    registry: Registry | None = None,
    invariants: Iterable[Invariant | str] = INVARIANTS,
    without: Collection[str] = (),
) -> None:
    """Check a cycle as the testing kit does, by default for all invariants of this module."""
    ours = {law.__name__: law for law in INVARIANTS}
    laws = [ours.get(law, law) if isinstance(law, str) else law for law in invariants]
    laws = [law for law in laws if getattr(law, "__name__", law) not in without]
    kit.check_cycle(snapshot, result, config, registry=registry, invariants=laws)


check_decisions = partial(check_cycle, invariants=OF_ALL_PLUGINS)
"""Check a cycle for what must hold with any plugins."""
