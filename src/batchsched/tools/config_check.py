"""The function `check_config`: problems of a configuration, each shown on a small cluster.

A rule only suspects a problem. It becomes a finding if it has an effect: on some small cluster the
configuration decides differently from the configuration that the rule proposes instead, or evicts
for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from attrs import evolve, frozen

from batchsched.config.options import ENABLE_FLAGS, ActionOption, PluginOption, Tier
from batchsched.config.reading import without_unknown
from batchsched.config.registry import Registry, default_registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ArgumentError, BatchschedError, ConfigError
from batchsched.model.cluster import Queue
from batchsched.model.notice import Notice, NoticeCode, NoticeCollector
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import (
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    shown,
)
from batchsched.plugin.queues import QueueTree
from batchsched.scheduler import Scheduler
from batchsched.tools.causes import decisions
from batchsched.tools.config_rules import (
    QUEUE_FIELDS,
    QUEUE_RULES,
    RULES,
    SHARELESS,
    QueueRule,
    Suspected,
    action_named,
    remedies_for_loops,
    with_capacity,
)
from batchsched.tools.small_clusters import small_clusters, small_queue_trees
from batchsched.transition.next_snapshot import next_snapshot

Shows = Literal[
    "cannot be built", "has no effect", "decides otherwise", "evicts for ever", "reserves"
]


@frozen(kw_only=True)
class Finding:
    """A problem of a configuration, with a cluster that shows it."""

    code: str
    """A stable name of the problem."""
    place: str
    """The place in the configuration."""
    consequence: str
    """The consequence of the problem."""
    advice: str
    """How to fix it."""
    shows: Shows
    """What happens on `snapshot`. "decides otherwise": the decisions differ from those with
    `instead`, or from those on `mended`. "evicts for ever": it evicts in cycle after cycle, which
    `instead` does not. "reserves": it makes reservations. "has no effect": it decides like
    `instead`, which lacks the ignored part. "cannot be built": it decides nothing on any snapshot,
    while `instead` does."""
    snapshot: Snapshot
    """A cluster of at most three jobs that shows the problem."""
    instead: SchedulerConfig | None = None
    """The configuration with the advice applied, if there is one."""
    mended: Snapshot | None = None
    """`snapshot` with the advice applied, if queues or jobs should change."""
    shows_on_yours: bool | None = None
    """Whether the caller's own snapshot shows it; None: none was given, or every snapshot does."""

    def __str__(self) -> str:
        return f"{self.place}: {self.code}: {self.consequence}; {self.advice}"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the finding as dicts, lists, strings and numbers only, ready for JSON."""
        return {
            "code": self.code,
            "place": self.place,
            "consequence": self.consequence,
            "advice": self.advice,
            "shows": self.shows,
            "snapshot": self.snapshot.to_dict(),
            "instead": None if self.instead is None else self.instead.to_dict(),
            "mended": None if self.mended is None else self.mended.to_dict(),
            "shows_on_yours": self.shows_on_yours,
        }


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
    are found too, but for what Volcano or KAI Scheduler has: `batchsched.tools.not_modelled` tells
    that apart. Costs some tens of small cycles for each finding; with `snapshot` two more cycles on
    it, and some for the checks of its queues.

    Args:
        config: the configuration to check, or the parsed content of a configuration file.
        snapshot: your own cluster, on which each finding is tried too. Its queues are checked
            against the configuration: fields that no plugin reads, and amounts that no queue can
            get.
        registry: the plugins and actions that the configuration may name.

    Raises:
        ArgumentError: `snapshot` or `registry` has the wrong type.

    >>> config = SchedulerConfig.from_mapping({
    ...     "actions": "allocate, backfill",
    ...     "tiers": [{"plugins": ["priority", "gang", "drf", "nodeorder"]}],
    ... })
    >>> for finding in check_config(config):
    ...     print(finding, "; shown by", len(finding.snapshot.jobs), "job")
    tiers: NoPredicates: tasks are placed on nodes that must not run them; add plugin \
'predicates' ; shown by 1 job

    """
    if registry is not None and not is_of(registry, Registry):
        raise ArgumentError.at("registry", f"expected a Registry or None, got {shown(registry)}")
    if snapshot is not None and not is_of(snapshot, Snapshot):
        raise ArgumentError.at("snapshot", f"expected a Snapshot or None, got {shown(snapshot)}")
    read: SchedulerConfig | None = None
    try:
        if is_mapping(config):
            mapping = cast("Mapping[str, object]", config)
            read = SchedulerConfig.from_mapping(mapping, registry=registry, unknown="notice")
        else:
            read = cast("SchedulerConfig", config)  # anything else is refused here
        scheduler = Scheduler(read, registry)
    except ConfigError as error:
        return tuple(_what_cannot_be_built(read, error, registry))
    return tuple(_findings(scheduler.config, registry, scheduler, snapshot))


def _findings(
    config: SchedulerConfig,
    registry: Registry | None,
    scheduler: Scheduler,
    snapshot: Snapshot | None,
) -> Iterator[Finding]:
    yield from _what_was_left_out(config, scheduler)
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
    rule: QueueRule, scheduler: Scheduler, snapshot: Snapshot, tree: QueueTree, mine: CycleResult
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


# Unknown parts, and parts that cannot be built


def _what_cannot_be_built(
    config: SchedulerConfig | None, error: ConfigError, registry: Registry | None
) -> Iterator[Finding]:
    """Yield a finding for each fault: unknown parts with their own codes, all others as Invalid.

    Args:
        config: the configuration; None: it could not even be read.
        error: the error that it caused.
        registry: the plugins and actions that it may name.

    """
    instead, codes = None, dict[str, str]()
    if config is not None and _is_sound(config):
        instead, codes = _without_unknown(config, registry)
    working = None if instead is None else _scheduler(instead, registry)
    # Without a working alternative, use the default to show what would be scheduled.
    shown_by = Scheduler() if working is None else working
    snapshot = next((c for c in small_clusters() if shown_by.schedule(c).binds), None)
    for fault in error.faults:
        code = codes.get(fault.path)
        yield Finding(
            code="Invalid" if code is None else code,
            place=fault.path,
            consequence=f"the configuration cannot be built: {fault.message}",
            advice="correct it, or leave it out" if code is None else "leave it out",
            shows="cannot be built",
            snapshot=small_clusters()[0] if snapshot is None else snapshot,
            instead=None if working is None else instead,
        )


def _what_was_left_out(config: SchedulerConfig, scheduler: Scheduler) -> Iterator[Finding]:
    """Yield a finding for each part that was ignored when a configuration was read.

    What other schedulers have is no mistake.
    """
    unknown = [n for n in config.notices if n.code is not NoticeCode.NOT_MODELLED]
    if not unknown:
        return
    snapshot = next((c for c in small_clusters() if scheduler.schedule(c).binds), None)
    for notice in unknown:
        yield Finding(
            code=notice.code.value,
            place=", ".join(notice.examples),
            consequence=f"{notice.kind} {notice.field!r}: {notice.consequence}",
            advice="leave it out, or correct its name",
            shows="has no effect",
            snapshot=small_clusters()[0] if snapshot is None else snapshot,
            instead=evolve(config, notices=()),
        )


def not_modelled(
    config: SchedulerConfig | Mapping[str, object], *, registry: Registry | None = None
) -> tuple[Notice, ...]:
    """Return what a configuration names that other schedulers have and this library does not.

    That is no mistake, and `check_config` does not report it: it is left out, and each notice says
    what follows. The configuration to use is the one that `SchedulerConfig.from_mapping` reads with
    ``unknown="notice"``. O(names).

    Args:
        config: a configuration read with ``unknown="notice"``, or the parsed content of a
            configuration file.
        registry: the plugins and actions that the configuration may name.

    Raises:
        ConfigError: `config` cannot be read.

    >>> volcano = {"actions": "enqueue, allocate", "tiers": [{"plugins": ["gang", "overcommit"]}]}
    >>> for notice in not_modelled(volcano):
    ...     print(notice.kind, notice.field, "at", *notice.examples, "-", notice.consequence)
    action enqueue at actions[0] - does not run: every job is considered in every cycle, none is \
held back
    plugin overcommit at tiers[0].plugins[1] - left out: nothing limits how many jobs are considered

    """
    if not is_of(config, SchedulerConfig):
        mapping = cast("Mapping[str, object]", config)
        config = SchedulerConfig.from_mapping(mapping, registry=registry, unknown="notice")
    assert isinstance(config, SchedulerConfig)
    return tuple(n for n in config.notices if n.code is NoticeCode.NOT_MODELLED)


class _Unknown(NoticeCollector):
    """Remembers the codes of unknown parts by path."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, str] = {}

    def note(
        self, code: NoticeCode, kind: str, field: str, *, name: str, path: str, consequence: str
    ) -> None:
        self.codes[path] = code.value
        super().note(code, kind, field, name=name, path=path, consequence=consequence)


def _without_unknown(
    config: SchedulerConfig, registry: Registry | None
) -> tuple[SchedulerConfig, dict[str, str]]:
    """Return the configuration without its unknown parts, and their codes by path."""
    unknown = _Unknown()
    known = default_registry() if registry is None else registry
    paths = (
        [f"actions[{position}]" for position in range(len(config.actions))],
        [
            [f"tiers[{at}].plugins[{position}]" for position in range(len(tier.plugins))]
            for at, tier in enumerate(config.tiers)
        ],
    )
    tiers = [
        Tier(plugins=[_without_flags(plugin, path, unknown.codes) for plugin, path in placed])
        for placed in (
            zip(tier.plugins, at, strict=True)
            for tier, at in zip(config.tiers, paths[1], strict=True)
        )
    ]
    actions, kept, _ = without_unknown(config.actions, tuple(tiers), paths, known, unknown)
    return evolve(config, actions=actions, tiers=kept), unknown.codes


def _without_flags(plugin: PluginOption, path: str, codes: dict[str, str]) -> PluginOption:
    for flag in plugin.flags:
        if flag not in ENABLE_FLAGS:
            codes[f"{path}.{flag}"] = NoticeCode.UNKNOWN_FLAG.value
    flags = {flag: is_on for flag, is_on in plugin.flags.items() if flag in ENABLE_FLAGS}
    return evolve(plugin, flags=flags)


def _is_sound(config: object) -> bool:
    """Return whether all parts of a configuration have the right types."""
    if not is_of(config, SchedulerConfig):
        return False
    return (
        all(_is_option(action, ActionOption) for action in _items(config.actions))
        and all(isinstance(tier, Tier) for tier in _items(config.tiers))
        and all(
            _is_option(plugin, PluginOption) and is_mapping(getattr(plugin, "flags", None))
            for tier in config.tiers
            for plugin in _items(tier.plugins)
        )
    )


def _items(given: object) -> tuple[object, ...]:
    return given if is_tuple(given) else (None,)


def _is_option(given: object, kind: type[ActionOption | PluginOption]) -> bool:
    return isinstance(given, kind) and is_text(given.name) and is_mapping(given.arguments)


def _scheduler(config: SchedulerConfig, registry: Registry | None) -> Scheduler | None:
    try:
        return Scheduler(config, registry)
    except ConfigError:
        return None
