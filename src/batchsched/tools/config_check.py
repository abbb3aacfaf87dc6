"""check_config: what a configuration can never do, or should not, shown on small clusters.

A rule only suspects. What it suspects becomes a finding if it shows: on some small cluster the
configuration decides otherwise than with what the rule proposes instead, or evicts for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from attrs import frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import BatchschedError, ConfigError
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.scheduler import Scheduler
from batchsched.tools.config_rules import RULES, Suspected, action_named, remedies_for_loops
from batchsched.tools.small_clusters import small_clusters
from batchsched.transition.next_snapshot import next_snapshot

__all__ = ["Finding", "check_config", "decisions", "evicts_for_ever"]

_CYCLES = 8
_SETTLED = 4

Shows = Literal["cannot be built", "decides otherwise", "evicts for ever", "reserves"]


@frozen(kw_only=True)
class Finding:
    """Something that a configuration can never do, or should not."""

    code: str
    """A stable name of what was found."""
    place: str
    """Where in the configuration."""
    consequence: str
    """What follows from it."""
    advice: str
    """What would work."""
    shows: Shows
    """What happens on `snapshot`: the configuration decides otherwise than with `instead`, evicts
    in cycle after cycle (which `instead` does not), or makes reservations. Without a snapshot: it
    cannot be built."""
    snapshot: Snapshot | None = None
    """A cluster of at most three jobs on which it shows."""
    instead: SchedulerConfig | None = None
    """The configuration with the advice taken, where there is one."""
    shows_on_yours: bool | None = None
    """Whether it shows on the caller's own snapshot; None: none was given."""

    def __str__(self) -> str:
        return f"{self.place}: {self.code}: {self.consequence}; {self.advice}"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the finding as dicts, lists, texts and numbers only, ready for JSON."""
        return {
            "code": self.code,
            "place": self.place,
            "consequence": self.consequence,
            "advice": self.advice,
            "shows": self.shows,
            "snapshot": None if self.snapshot is None else self.snapshot.to_dict(),
            "instead": None if self.instead is None else self.instead.to_dict(),
            "shows_on_yours": self.shows_on_yours,
        }


def check_config(
    config: SchedulerConfig,
    snapshot: Snapshot | None = None,
    *,
    registry: Registry | None = None,
) -> tuple[Finding, ...]:
    """Return what a configuration can never do, or should not; each finding is shown.

    Nothing is a guess: a finding comes with a cluster of at most three jobs on which the
    configuration decides otherwise than with what is advised instead, or evicts in every cycle.
    Some tens of small cycles a finding; with `snapshot` two more cycles on that.

    Args:
        config: what to check.
        snapshot: a cluster of one's own, on which each finding is tried too.
        registry: what the configuration may name.

    >>> config = SchedulerConfig.from_mapping({
    ...     "actions": "allocate, backfill",
    ...     "tiers": [{"plugins": ["priority", "gang", "drf", "nodeorder"]}],
    ... })
    >>> for finding in check_config(config):
    ...     print(finding, "; shown by", len(finding.snapshot.jobs), "job")
    tiers: NoPredicates: tasks are placed on nodes that do not take them; add plugin \
'predicates' ; shown by 1 job

    """
    try:
        scheduler = Scheduler(config, registry)
    except ConfigError as error:
        return tuple(
            Finding(
                code="Invalid",
                place=fault.path,
                consequence=fault.message,
                advice="nothing can be scheduled with it until this is mended",
                shows="cannot be built",
            )
            for fault in error.faults
        )
    findings: list[Finding] = []
    results = [scheduler.schedule(cluster) for cluster in small_clusters()]
    mine = None if snapshot is None else scheduler.schedule(snapshot)
    for rule in RULES:
        for suspected in rule(config):
            finding = _shown(suspected, registry, results, snapshot, mine)
            if finding is not None:
                findings.append(finding)
    findings += _what_reserves(config, results, mine)
    findings += _what_loops(config, registry, scheduler, snapshot)
    return tuple(findings)


def _shown(
    suspected: Suspected,
    registry: Registry | None,
    results: Sequence[CycleResult],
    snapshot: Snapshot | None,
    mine: CycleResult | None,
) -> Finding | None:
    """Return what was suspected as a finding, if it shows on any of the small clusters."""
    try:
        other = Scheduler(suspected.instead, registry)
        shows_on = next(
            (
                cluster
                for cluster, result in zip(small_clusters(), results, strict=True)
                if decisions(other.schedule(cluster)) != decisions(result)
            ),
            None,
        )
        if shows_on is None:
            return None
        on_mine = None
        if snapshot is not None and mine is not None:
            on_mine = decisions(other.schedule(snapshot)) != decisions(mine)
    except BatchschedError:
        return None  # what would be advised cannot be had
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
    """Return what a cycle decided, without the reasons."""
    return (
        result.binds,
        result.evictions,
        result.pipelined,
        result.conditional,
        result.reserved,
    )


# What shows without an alternative


def _what_reserves(
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
                "reservations last for one cycle unless they are in the next snapshot, and what "
                "they were made for starves all the same"
            ),
            advice="make snapshots with next_snapshot, or write down reservations_to_keep",
            shows="reserves",
            snapshot=shows_on,
            shows_on_yours=None if mine is None else bool(mine.reserved),
        )


def _what_loops(
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
    advice, instead = "evict by hand only: leave out preempt and reclaim", None
    for remedy in remedies_for_loops(config):
        other = Scheduler(remedy.instead, registry)
        if not any(evicts_for_ever(other, cluster) for cluster in small_clusters()):
            advice, instead = remedy.advice, remedy.instead
            break
    yield Finding(
        code="EvictsForEver",
        place="actions",
        consequence=(
            "what is evicted for a task takes the place again before that task does, and is "
            "evicted again in every cycle"
        ),
        advice=advice,
        shows="evicts for ever",
        snapshot=shows_on,
        instead=instead,
        shows_on_yours=None if snapshot is None else evicts_for_ever(scheduler, snapshot),
    )


def evicts_for_ever(scheduler: Scheduler, snapshot: Snapshot) -> bool:
    """Return whether tasks are evicted in every late cycle though nothing else happens.

    What is evicted comes back as new and everything that is bound starts, for eight cycles.
    """
    late = 0
    for cycle in range(_CYCLES):
        result = scheduler.schedule(snapshot)
        if not result.evictions and not result.binds and not result.pipelined:
            return False
        late += cycle >= _SETTLED and bool(result.evictions)
        snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)
    return late >= (_CYCLES - _SETTLED) // 2
