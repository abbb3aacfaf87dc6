"""check_config: what a configuration can never do, or should not, shown on small clusters.

A rule only suspects. What it suspects becomes a finding if it shows: on some small cluster the
configuration decides otherwise than with what the rule proposes instead, or evicts for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from attrs import evolve, frozen

from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import BatchschedError, ConfigError
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.plugin.arguments import ArgumentValue
from batchsched.scheduler import Scheduler
from batchsched.tools.small_clusters import small_clusters
from batchsched.transition.next_snapshot import next_snapshot

__all__ = ["Finding", "check_config", "evicts_for_ever"]

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
    in cycle after cycle, or makes reservations. Without a snapshot: it cannot be built."""
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
    for rule in _RULES:
        for suspected in rule(config):
            finding = _shown(suspected, registry, results, snapshot, mine)
            if finding is not None:
                findings.append(finding)
    findings += _what_reserves(config, results, mine)
    findings += _what_loops(config, scheduler, snapshot)
    return tuple(findings)


@frozen(kw_only=True)
class _Suspected:
    code: str
    place: str
    consequence: str
    advice: str
    instead: SchedulerConfig


def _shown(
    suspected: _Suspected,
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


# Rules


def _plugins(config: SchedulerConfig) -> Iterator[tuple[int, int, PluginOption]]:
    for at, tier in enumerate(config.tiers):
        for position, plugin in enumerate(tier.plugins):
            yield at, position, plugin


def _find(config: SchedulerConfig, name: str) -> tuple[str, PluginOption] | None:
    for at, position, plugin in _plugins(config):
        if plugin.name == name:
            return f"tiers[{at}].plugins[{position}]", plugin
    return None


def _acts(config: SchedulerConfig, name: str) -> tuple[str, ActionOption] | None:
    for position, action in enumerate(config.actions):
        if action.name == name:
            return f"actions[{position}]", action
    return None


def _with_plugin(config: SchedulerConfig, name: str) -> SchedulerConfig:
    tiers = config.tiers or (Tier(),)
    last = evolve(tiers[-1], plugins=(*tiers[-1].plugins, PluginOption(name=name)))
    return evolve(config, tiers=(*tiers[:-1], last))


def _changed(
    config: SchedulerConfig, name: str, change: Callable[[PluginOption], PluginOption]
) -> SchedulerConfig:
    return evolve(
        config,
        tiers=[
            evolve(tier, plugins=[change(p) if p.name == name else p for p in tier.plugins])
            for tier in config.tiers
        ],
    )


def _with_flags(flags: Mapping[str, bool], plugin: PluginOption) -> PluginOption:
    return evolve(plugin, flags=flags)


def _with_argument(
    arguments: Mapping[str, ArgumentValue], name: str, value: ArgumentValue
) -> dict[str, ArgumentValue]:
    return {**arguments, name: value}


def _missing(config: SchedulerConfig) -> Iterator[_Suspected]:
    for name, code, consequence in (
        ("predicates", "NoPredicates", "tasks are placed on nodes that do not take them"),
        ("gang", "NoGang", "a job starts with fewer tasks than must start together"),
    ):
        if _find(config, name) is None:
            yield _Suspected(
                code=code,
                place="tiers",
                consequence=consequence,
                advice=f"add plugin {name!r}",
                instead=_with_plugin(config, name),
            )


_SWITCHED = {
    "enableJobOrder": "jobs are not ordered by it",
    "enableQueueOrder": "queues are not ordered by it",
    "enableTaskOrder": "tasks are not ordered by it",
    "enablePredicate": "tasks are placed on nodes that do not take them",
    "enableNodeOrder": "it does not say which node is best",
    "enablePreemptable": "it has no say in whom preempt evicts",
    "enableReclaimable": "it has no say in whom reclaim evicts",
    "enableJobReady": "a job starts with fewer tasks than must start together",
    "enableJobPipelined": "promises are made to jobs for which they are not enough",
}


def _switched_off(config: SchedulerConfig) -> Iterator[_Suspected]:
    for at, position, plugin in _plugins(config):
        for flag, is_on in sorted(plugin.flags.items()):
            if not is_on:
                flags = {name: on for name, on in plugin.flags.items() if name != flag}
                yield _Suspected(
                    code="SwitchedOff",
                    place=f"tiers[{at}].plugins[{position}].{flag}",
                    consequence=f"plugin {plugin.name!r}: {_SWITCHED.get(flag, 'it is not asked')}",
                    advice=f"leave out {flag}, unless that is what is wanted",
                    instead=_changed(config, plugin.name, partial(_with_flags, flags)),
                )


_ALWAYS_ANSWER = {"gang", "conformance"}
"""Plugins that call everybody a victim whom they do not protect: later tiers never decide."""


def _shadowed(config: SchedulerConfig) -> Iterator[_Suspected]:
    judges = {"gang", "conformance", "priority", "drf"}
    deciding: int | None = None
    for at, tier in enumerate(config.tiers):
        names = {p.name for p in tier.plugins if p.flags.get("enablePreemptable", True)} & judges
        if deciding is None:
            if names and names <= _ALWAYS_ANSWER:
                deciding = at
            continue
        for position, plugin in enumerate(tier.plugins):
            if plugin.name not in names - _ALWAYS_ANSWER:
                continue
            without = evolve(tier, plugins=[p for p in tier.plugins if p is not plugin])
            tiers = list(config.tiers)
            tiers[at] = without
            before = tiers[deciding]
            tiers[deciding] = evolve(before, plugins=(*before.plugins, plugin))
            yield _Suspected(
                code="ShadowedVerdicts",
                place=f"tiers[{at}].plugins[{position}]",
                consequence=(
                    f"whom plugin {plugin.name!r} would spare is evicted: tier {deciding} names "
                    "victims whenever there are any, and the first tier that does decides"
                ),
                advice=f"put it into tier {deciding}, or those of that tier behind it",
                instead=evolve(config, tiers=tiers),
            )


def _at_minimum(config: SchedulerConfig) -> Iterator[_Suspected]:
    gang = _find(config, "gang")
    evicting = _acts(config, "preempt") or _acts(config, "reclaim")
    if gang is None or evicting is None or gang[1].arguments.get("atMinimum") == "whole-job":
        return
    whole = _changed(
        config,
        "gang",
        lambda p: evolve(p, arguments=_with_argument(p.arguments, "atMinimum", "whole-job")),
    )
    yield _Suspected(
        code="AtMinimumProtected",
        place=gang[0],
        consequence=(
            f"action {evicting[1].name!r} can never evict a job that runs with no more tasks than "
            "it needs, and so no job of one task, whatever its priority"
        ),
        advice="give gang the argument atMinimum: whole-job",
        instead=whole,
    )


def _no_victims(config: SchedulerConfig) -> Iterator[_Suspected]:
    for action, flag, able in (
        ("preempt", "enablePreemptable", ("gang", "conformance", "priority", "drf")),
        ("reclaim", "enableReclaimable", ("gang", "conformance", "proportion", "capacity")),
    ):
        found = _acts(config, action)
        is_on = any(
            plugin.flags.get(flag, True) for _, _, plugin in _plugins(config) if plugin.name in able
        )
        if found is not None and not is_on and all(p.name in _KNOWN for *_, p in _plugins(config)):
            name = "priority" if action == "preempt" else "proportion"
            instead = _with_plugin(config, name)
            if _find(config, name) is not None:
                instead = _changed(config, name, lambda p: evolve(p, flags={}))
            yield _Suspected(
                code="NoVictims",
                place=found[0],
                consequence=f"action {action!r} can never evict anybody: no plugin names victims",
                advice=f"add plugin {name!r}, or switch it on",
                instead=instead,
            )


_KNOWN = (
    *("capacity", "conformance", "drf", "gang"),
    *("nodeorder", "predicates", "priority", "proportion"),
)
"""The plugins of which it is known that no other names victims."""


def _release_without_hold(config: SchedulerConfig) -> Iterator[_Suspected]:
    backfill, allocate = _acts(config, "backfill"), _acts(config, "allocate")
    if backfill is None or allocate is None or backfill[1].arguments.get("strategy") != "release":
        return
    if allocate[1].arguments.get("unready") == "hold":
        return
    actions = [
        evolve(a, arguments=_with_argument(a.arguments, "unready", "hold"))
        if a.name == "allocate"
        else a
        for a in config.actions
    ]
    yield _Suspected(
        code="ReleaseWithoutHold",
        place=backfill[0],
        consequence=(
            "strategy 'release' finds nothing to release: allocate takes back at once what a gang "
            "that cannot start was given, so others take it for good and the gang is not first"
        ),
        advice="give allocate the argument unready: hold, or leave out the strategy",
        instead=evolve(config, actions=actions),
    )


def _proportion_without_reclaim(config: SchedulerConfig) -> Iterator[_Suspected]:
    for name in ("proportion", "capacity"):
        found = _find(config, name)
        if (
            found is None
            or _acts(config, "reclaim") is not None
            or _acts(config, "allocate") is None
        ):
            continue
        yield _Suspected(
            code=f"{name.capitalize()}WithoutReclaim",
            place=found[0],
            consequence=(
                "a queue that has less than its share waits until tasks of other queues end by "
                "themselves, however much those have beyond theirs"
            ),
            advice="run action 'reclaim' before allocate",
            instead=evolve(config, actions=(ActionOption(name="reclaim"), *config.actions)),
        )


_WEIGHTS = ("leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource")


def _zero_weights(config: SchedulerConfig) -> Iterator[_Suspected]:
    found = _find(config, "nodeorder")
    if found is None:
        return
    defaults = {"mostrequested": 0}
    weights = [found[1].arguments.get(f"{name}.weight", defaults.get(name, 1)) for name in _WEIGHTS]
    if any(str(weight).strip() not in ("0", "0.0") for weight in weights):
        return
    yield _Suspected(
        code="ZeroWeights",
        place=f"{found[0]}.arguments",
        consequence="every node scores the same, so the first by name is filled first",
        advice="give a weight of 1 or more, or leave out plugin 'nodeorder'",
        instead=_changed(config, "nodeorder", lambda p: evolve(p, arguments={})),
    )


_RULES: tuple[Callable[[SchedulerConfig], Iterator[_Suspected]], ...] = (
    _missing,
    _switched_off,
    _shadowed,
    _no_victims,
    _at_minimum,
    _release_without_hold,
    _proportion_without_reclaim,
    _zero_weights,
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
    config: SchedulerConfig, scheduler: Scheduler, snapshot: Snapshot | None
) -> Iterator[Finding]:
    if _acts(config, "preempt") is None and _acts(config, "reclaim") is None:
        return
    for cluster in small_clusters():
        if evicts_for_ever(scheduler, cluster):
            yield Finding(
                code="EvictsForEver",
                place="actions",
                consequence=(
                    "what is evicted for a task takes the place again before that task does, and "
                    "is evicted again in every cycle"
                ),
                advice=(
                    "let the same plugins order jobs as name victims: add plugin 'drf', or run "
                    "preempt before allocate"
                ),
                shows="evicts for ever",
                snapshot=cluster,
                shows_on_yours=None if snapshot is None else evicts_for_ever(scheduler, snapshot),
            )
            return


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
