"""The function `check_config`: problems of a configuration, each shown on a small cluster.

A rule only suspects a problem. It becomes a finding if it has an effect: on some small cluster the
configuration decides differently from the configuration that the rule proposes instead, or evicts
for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import BatchschedError, ConfigError
from batchsched.model.cluster import Queue
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.scheduler import Scheduler
from batchsched.state.queue_tree import QueueTree
from batchsched.tools.config_edits import action_named
from batchsched.tools.config_rules import (
    RULES,
    SHARELESS,
    Suspected,
    remedies_for_loops,
)
from batchsched.tools.finding import Finding
from batchsched.tools.queue_rules import QUEUE_FIELDS, QUEUE_RULES, QueueRule, with_capacity
from batchsched.tools.small_clusters import small_clusters, small_queue_trees
from batchsched.tools.unknown_parts import what_cannot_be_built, what_was_left_out
from batchsched.transition.next_snapshot import next_snapshot

__all__ = ["check_config", "decisions", "evicts_for_ever"]

_CYCLES = 8
_SETTLED = 4


def check_config(
    config: SchedulerConfig | Mapping[str, object],
    snapshot: Snapshot | None = None,
    *,
    registry: Registry | None = None,
) -> tuple[Finding, ...]:
    """Find the problems of a configuration, each with a small cluster that shows it.

    No finding is a guess: each comes with a cluster of at most three jobs on which the
    configuration decides differently from the advised one, or evicts in every cycle. Unknown
    names and other parts that cannot be built, or were ignored when the configuration was read,
    are found too. Costs some tens of small cycles for each finding; with `snapshot` two more
    cycles on it, and some for the checks of its queues.

    Args:
        config: the configuration to check, or the parsed content of a configuration file.
        snapshot: your own cluster, on which each finding is tried too. Its queues are checked
            against the configuration: fields that no plugin reads, and amounts that no queue can
            get.
        registry: the plugins and actions that the configuration may name.

    >>> config = SchedulerConfig.from_mapping({
    ...     "actions": "allocate, backfill",
    ...     "tiers": [{"plugins": ["priority", "gang", "drf", "nodeorder"]}],
    ... })
    >>> for finding in check_config(config):
    ...     print(finding, "; shown by", len(finding.snapshot.jobs), "job")
    tiers: NoPredicates: tasks are placed on nodes that must not run them; add plugin \
'predicates' ; shown by 1 job

    """
    read: SchedulerConfig | None = None
    try:
        if isinstance(config, Mapping):
            read = SchedulerConfig.from_mapping(config, registry=registry, unknown="notice")
        else:
            read = config
        scheduler = Scheduler(read, registry)
    except ConfigError as error:
        return tuple(what_cannot_be_built(read, error, registry))
    return tuple(_findings(scheduler.config, registry, scheduler, snapshot))


def _findings(
    config: SchedulerConfig,
    registry: Registry | None,
    scheduler: Scheduler,
    snapshot: Snapshot | None,
) -> Iterator[Finding]:
    yield from what_was_left_out(config, scheduler)
    results = [scheduler.schedule(cluster, reasons=False) for cluster in small_clusters()]
    mine = None if snapshot is None else scheduler.schedule(snapshot, reasons=False)
    for rule in RULES:
        for suspected in rule(config):
            finding = _shown(suspected, registry, results, snapshot, mine)
            if finding is not None:
                yield finding
    yield from _reservation_findings(config, results, mine)
    yield from _loop_findings(config, registry, scheduler, snapshot)
    if snapshot is not None and mine is not None:
        yield from _queue_findings(config, registry, scheduler, snapshot, mine)


def _shown(
    suspected: Suspected,
    registry: Registry | None,
    results: Sequence[CycleResult],
    snapshot: Snapshot | None,
    mine: CycleResult | None,
) -> Finding | None:
    """Return a suspected problem as a finding, if any small cluster shows it."""
    try:
        other = Scheduler(suspected.instead, registry)
        shows_on = next(
            (
                cluster
                for cluster, result in zip(small_clusters(), results, strict=True)
                if decisions(other.schedule(cluster, reasons=False)) != decisions(result)
            ),
            None,
        )
        if shows_on is None:
            return None
        on_mine = None
        if snapshot is not None and mine is not None:
            on_mine = decisions(other.schedule(snapshot, reasons=False)) != decisions(mine)
    except BatchschedError:
        return None  # the advised configuration is not valid
    return Finding(
        code=suspected.code,
        place=suspected.place,
        consequence=suspected.consequence,
        advice=suspected.advice,
        shows="decides otherwise",
        snapshot=shows_on,
        instead=suspected.instead,
        shows_on_yours=on_mine,
    )


def decisions(result: CycleResult) -> tuple[object, ...]:
    """Return the decisions of a cycle, without the reasons."""
    return (
        result.binds,
        result.evictions,
        result.pipelined,
        result.conditional,
        result.reserved,
    )


# Problems that show without an alternative configuration


def _reservation_findings(
    config: SchedulerConfig, results: Sequence[CycleResult], mine: CycleResult | None
) -> Iterator[Finding]:
    places = [
        f"actions[{position}]"
        for position, action in enumerate(config.actions)
        if action.name == "reserve" or "starvationThreshold" in action.arguments
    ]
    shows_on = next((c for c, r in zip(small_clusters(), results, strict=True) if r.reserved), None)
    if places and shows_on is not None:
        yield Finding(
            code="ReservationsMustBeKept",
            place=places[0],
            consequence=(
                "reservations last for one cycle unless the next snapshot contains them, so the "
                "jobs that they were made for starve all the same"
            ),
            advice="build snapshots with next_snapshot, or add reservations_to_keep to them",
            shows="reserves",
            snapshot=shows_on,
            shows_on_yours=None if mine is None else bool(mine.reserved),
        )


def _loop_findings(
    config: SchedulerConfig,
    registry: Registry | None,
    scheduler: Scheduler,
    snapshot: Snapshot | None,
) -> Iterator[Finding]:
    if action_named(config, "preempt") is None and action_named(config, "reclaim") is None:
        return
    shows_on = next((c for c in small_clusters() if evicts_for_ever(scheduler, c)), None)
    if shows_on is None:
        return
    advice, instead = "leave out actions 'preempt' and 'reclaim'", None
    for remedy in remedies_for_loops(config):
        other = Scheduler(remedy.instead, registry)
        if not any(evicts_for_ever(other, cluster) for cluster in small_clusters()):
            advice, instead = remedy.advice, remedy.instead
            break
    yield Finding(
        code="EvictsForEver",
        place="actions",
        consequence=(
            "evicted tasks take their places again before the tasks that they were evicted for, "
            "and are evicted again in every cycle"
        ),
        advice=advice,
        shows="evicts for ever",
        snapshot=shows_on,
        instead=instead,
        shows_on_yours=None if snapshot is None else evicts_for_ever(scheduler, snapshot),
    )


# Problems of the caller's queues


def _queue_findings(
    config: SchedulerConfig,
    registry: Registry | None,
    scheduler: Scheduler,
    snapshot: Snapshot,
    mine: CycleResult,
) -> Iterator[Finding]:
    names = {plugin.name for tier in config.tiers for plugin in tier.plugins}
    has_capacity = "capacity" in names
    tree = QueueTree(snapshot.queues)
    for rule in QUEUE_RULES:
        if has_capacity or not rule.needs_capacity:
            finding = _shown_by_queues(rule, scheduler, snapshot, tree, mine)
            if finding is not None:
                yield finding
    if not has_capacity and names <= {*SHARELESS, "proportion"}:  # others may read queues
        yield from _unread_field_findings(config, registry, scheduler, snapshot, mine)


def _shown_by_queues(
    rule: QueueRule,
    scheduler: Scheduler,
    snapshot: Snapshot,
    tree: QueueTree,
    mine: CycleResult,
) -> Finding | None:
    found = rule.find(snapshot, tree)
    if found is None:
        return None
    for small in small_queue_trees()[rule.code]:
        without = rule.find(small, QueueTree(small.queues))
        if without is None:
            continue
        decided = decisions(scheduler.schedule(small, reasons=False))
        if decisions(scheduler.schedule(without.mended, reasons=False)) == decided:
            continue
        on_mine = decisions(scheduler.schedule(found.mended, reasons=False)) != decisions(mine)
        return Finding(
            code=rule.code,
            place=found.place,
            consequence=found.consequence,
            advice=rule.advice,
            shows="decides otherwise",
            snapshot=small,
            mended=without.mended,
            shows_on_yours=on_mine,
        )
    return None


def _unread_field_findings(
    config: SchedulerConfig,
    registry: Registry | None,
    scheduler: Scheduler,
    snapshot: Snapshot,
    mine: CycleResult,
) -> Iterator[Finding]:
    instead = with_capacity(config)
    other = Scheduler(instead, registry)
    plain = Queue(name="plain")
    on_mine: bool | None = None
    for field in QUEUE_FIELDS:
        named = [q for q in snapshot.queues if getattr(q, field) != getattr(plain, field)]
        shows_on = next(
            (
                small
                for small in small_queue_trees()[field]
                if decisions(scheduler.schedule(small, reasons=False))
                != decisions(other.schedule(small, reasons=False))
            ),
            None,
        )
        if not named or shows_on is None:
            continue
        if on_mine is None:
            on_mine = decisions(other.schedule(snapshot, reasons=False)) != decisions(mine)
        yield Finding(
            code="QueueFieldNotRead",
            place=f"queues[{named[0].name!r}].{field}",
            consequence=f"no plugin reads {field}, which {_queues(len(named))}",
            advice="use plugin 'capacity' instead of 'proportion'",
            shows="decides otherwise",
            snapshot=shows_on,
            instead=instead,
            shows_on_yours=on_mine,
        )


def _queues(number: int) -> str:
    return "1 queue has" if number == 1 else f"{number} queues have"


def evicts_for_ever(scheduler: Scheduler, snapshot: Snapshot) -> bool:
    """Return whether tasks are still evicted in late cycles although nothing else happens.

    Runs eight cycles, in which evicted tasks come back as Pending and bound tasks start.
    """
    late = 0
    for cycle in range(_CYCLES):
        result = scheduler.schedule(snapshot, reasons=False)
        if not result.evictions and not result.binds and not result.pipelined:
            return False
        late += cycle >= _SETTLED and bool(result.evictions)
        snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)
    return late >= (_CYCLES - _SETTLED) // 2
