"""The function `check_config`: problems of a configuration, each shown on a small cluster.

A rule only suspects a problem. It becomes a finding if it has an effect: on some small cluster the
configuration decides differently from the configuration that the rule proposes instead, or evicts
for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import cast

from attrs import evolve, frozen

from batchsched.config.options import PluginOption
from batchsched.config.registry import Registry, default_registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ArgumentError, BatchschedError, ConfigError
from batchsched.model.notice import Notice, NoticeCode
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_mapping, is_of, items_of, shown
from batchsched.scheduler import Scheduler
from batchsched.tools.causes import decisions
from batchsched.tools.config_rules import RULES, Parts, Rule, Shows, Suspected
from batchsched.tools.cycles import evicts_for_ever
from batchsched.tools.report import as_dict
from batchsched.tools.small_clusters import small_clusters, small_queue_trees


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
        return as_dict(self)


_OUR_ACTIONS = frozenset(default_registry().action_names)
_CYCLES = 32
"""The most cycles of a search for evictions that never end."""


def check_config(
    config: SchedulerConfig | Mapping[str, object],
    snapshot: Snapshot | None = None,
    *,
    registry: Registry | None = None,
) -> tuple[Finding, ...]:
    """Find the problems of a configuration, each with a small cluster that shows it.

    No finding is a guess: each comes with a cluster of at most three jobs on which the
    configuration decides differently from the advised one, or evicts for ever; the latter is found
    on your own cluster, too. Unknown names and other parts that cannot be built, or were ignored
    when the configuration was read, are found too, but for what Volcano or KAI Scheduler has:
    `batchsched.tools.not_modelled` tells that apart. Costs some tens of small cycles for each
    finding; with `snapshot` two more cycles on it, up to 32 where evictions may never end, some
    for the checks of its queues.

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
    return tuple(_findings(Parts(scheduler, snapshot), registry))


Decide = Callable[[Snapshot], CycleResult]


def _decider(scheduler: Scheduler) -> Decide:
    """Return what decides on a snapshot; it is asked once about each."""
    return cache(partial(scheduler.schedule, reasons=False))


def _findings(of: Parts, registry: Registry | None) -> Iterator[Finding]:
    yield from _what_was_left_out(of)
    yield from _what_protects_nobody(of)
    decide = _decider(of.scheduler)
    suspects = [(rule, suspect) for rule in RULES for suspect in rule.find(of)]
    for rule, suspect in suspects:
        try:
            yield from _shown(rule, suspect, of, decide, registry)
        except BatchschedError:
            if suspect.instead is None:
                raise
            # The advised configuration is not valid.


def _shown(
    rule: Rule, suspect: Suspected, of: Parts, decide: Decide, registry: Registry | None
) -> Iterator[Finding]:
    """Yield a suspected problem as a finding, if any small cluster shows it."""
    instead, advice = suspect.instead, rule.advice.format(**suspect.words)
    other = decide if instead is None else _decider(Scheduler(instead, registry))

    def shows(snapshot: Snapshot) -> bool:
        if rule.shows == "reserves":
            return bool(decide(snapshot).reserved)
        if rule.shows == "evicts for ever":
            return evicts_for_ever(of.scheduler, snapshot, registry, cycles=_CYCLES)
        return decisions(decide(snapshot)) != decisions(other(suspect.mended(snapshot)))

    usual = small_queue_trees().get(suspect.shown_by or rule.code) or small_clusters()
    clusters = tuple(map(suspect.made, usual))
    snapshot = next(filter(shows, clusters), None)
    yours, on_yours = of.snapshot, None
    if yours is not None and (snapshot is not None or rule.shows == "evicts for ever"):
        on_yours = shows(yours)
        if on_yours:
            clusters, snapshot = (*clusters, yours), snapshot or yours
    if snapshot is None:
        return
    for remedy, without in suspect.remedies:
        without_loop = Scheduler(without, registry)
        if not any(
            evicts_for_ever(without_loop, cluster, registry, cycles=_CYCLES) for cluster in clusters
        ):
            advice, instead = remedy, without
            break
    mended = suspect.mended(snapshot)
    yield Finding(
        code=rule.code,
        place=suspect.place,
        consequence=rule.consequence.format(**suspect.words),
        advice=advice,
        shows=rule.shows,
        snapshot=snapshot,
        instead=instead,
        mended=None if mended is snapshot else mended,
        shows_on_yours=on_yours,
    )


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
    codes: Mapping[str, str] = {}
    instead = None
    # Without a working alternative, use the default to show what would be scheduled.
    working = Scheduler()
    if is_of(config, SchedulerConfig):
        assert config is not None
        try:
            found = SchedulerConfig.from_mapping(
                _given(config), registry=registry, unknown="notice"
            )
            codes = {at: notice.code.value for notice in found.notices for at in notice.objects}
            instead = evolve(found, notices=())
            working = Scheduler(instead, registry)
        except (ConfigError, AttributeError, TypeError):
            pass  # parts have the wrong type, or there is more than unknown names
    for fault in error.faults:
        code = codes.get(fault.path)
        yield Finding(
            code="Invalid" if code is None else code,
            place=fault.path,
            consequence=f"the configuration cannot be built: {fault.message}",
            advice="correct it, or leave it out" if code is None else "leave it out",
            shows="cannot be built",
            snapshot=_where_it_starts_a_task(working),
            instead=instead,
        )


def _what_was_left_out(of: Parts) -> Iterator[Finding]:
    """Yield a finding for each part that was ignored when a configuration was read.

    What other schedulers have is no mistake.
    """
    for notice in of.config.notices:
        if notice.code is not NoticeCode.NOT_MODELLED:
            yield Finding(
                code=notice.code.value,
                place=", ".join(notice.examples),
                consequence=f"{notice.kind} {notice.field!r}: {notice.consequence}",
                advice="leave it out, or correct its name",
                shows="has no effect",
                snapshot=_where_it_starts_a_task(of.scheduler),
                instead=evolve(of.config, notices=()),
            )


_EVICTING = frozenset({"preempt", "reclaim"})
_ASKED_BY: Mapping[str, frozenset[str]] = {
    "preemptMinRuntime": frozenset({"preempt"}),
    "reclaimMinRuntime": frozenset({"reclaim"}),
    **dict.fromkeys(("limits", "claimDelay", "cost", "costOf", "restart"), _EVICTING),
}
"""By argument of plugin protection, the actions whose evictions it is about."""


def _what_protects_nobody(of: Parts) -> Iterator[Finding]:
    """Yield a finding for each argument of protection about evictions that no action makes."""
    place, plugin = of.plugins.get("protection", ("", PluginOption(name="")))
    for name in plugin.arguments:
        asked_by = _ASKED_BY.get(name)
        if asked_by is None or asked_by & of.actions.keys() or not _are_ours(of):
            continue
        actions = " or ".join(sorted(asked_by))
        yield Finding(
            code="ProtectsNobody",
            place=f"{place}.arguments[{name!r}]",
            consequence=f"argument {name!r} of plugin 'protection' protects nobody: it is about "
            f"evictions by {actions}, and no such action is configured",
            advice="leave it out",
            shows="has no effect",
            snapshot=_where_it_starts_a_task(of.scheduler),
            instead=of.with_argument("protection", name, None),
        )


def _are_ours(of: Parts) -> bool:
    """Return whether no action is one of the caller's own, which may evict as others do."""
    return all(name in _OUR_ACTIONS for name in of.actions)


def _where_it_starts_a_task(scheduler: Scheduler) -> Snapshot:
    clusters = small_clusters()
    return next((each for each in clusters if scheduler.schedule(each).binds), clusters[0])


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


def _given(config: SchedulerConfig) -> Mapping[str, object]:
    """Return what the file of a configuration would say."""
    return {
        "actions": [{"name": each.name, "arguments": each.arguments} for each in config.actions],
        "tiers": [{"plugins": list(map(_given_plugin, tier.plugins))} for tier in config.tiers],
    }


def _given_plugin(plugin: PluginOption) -> Mapping[object, object]:
    flags: object = plugin.flags
    told: dict[object, object] = {"name": plugin.name, "arguments": plugin.arguments}
    return told | dict(items_of(flags)) if is_mapping(flags) else told | {"": flags}
