"""The rules of `check_config`: suspected problems, with the configuration to have instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from attrs import evolve, frozen

from batchsched.config.options import ActionOption, PluginOption
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.plugin.arguments import as_boolean
from batchsched.tools.config_edits import (
    action_named,
    find_plugin,
    plugins_of,
    with_argument,
    with_flags,
    with_plugin,
    with_plugin_changed,
    with_plugin_first,
    with_plugins_replaced,
    without_plugin,
)

__all__ = ["RULES", "SHARELESS", "Remedy", "Suspected", "remedies_for_loops"]


@frozen(kw_only=True)
class Suspected:
    """A suspected problem of a configuration, and the configuration to have instead."""

    code: str
    place: str
    consequence: str
    advice: str
    instead: SchedulerConfig


def _missing(config: SchedulerConfig) -> Iterator[Suspected]:
    for name, code, consequence in (
        ("predicates", "NoPredicates", "tasks are placed on nodes that must not run them"),
        ("gang", "NoGang", "a job may start with fewer tasks than its min_available"),
    ):
        if find_plugin(config, name) is None:
            yield Suspected(
                code=code,
                place="tiers",
                consequence=consequence,
                advice=f"add plugin {name!r}",
                instead=with_plugin(config, name),
            )


_SWITCHED = {
    "enableJobOrder": "it does not order jobs",
    "enableQueueOrder": "it does not order queues",
    "enableTaskOrder": "it does not order tasks",
    "enablePredicate": "tasks are placed on nodes that must not run them",
    "enableNodeOrder": "it does not score nodes",
    "enablePreemptable": "it has no effect on which tasks preempt evicts",
    "enableReclaimable": "it has no effect on which tasks reclaim evicts",
    "enableJobReady": "a job may start with fewer tasks than its min_available",
    "enableJobPipelined": "tasks are pipelined for jobs that still cannot start",
}


def _switched_off(config: SchedulerConfig) -> Iterator[Suspected]:
    for at, position, plugin in plugins_of(config):
        for flag, is_on in sorted(plugin.flags.items()):
            # Intended: drf may let preempt evict tasks within a share that capacity protects.
            is_meant = (plugin.name, flag) == ("drf", "enablePreemptable") and find_plugin(
                config, "capacity"
            )
            if not is_on and not is_meant:
                flags = {name: on for name, on in plugin.flags.items() if name != flag}
                yield Suspected(
                    code="SwitchedOff",
                    place=f"tiers[{at}].plugins[{position}].{flag}",
                    consequence=f"plugin {plugin.name!r}: {_SWITCHED.get(flag, 'it is not used')}",
                    advice=f"leave out {flag}, unless this is intended",
                    instead=with_plugin_changed(config, plugin.name, partial(with_flags, flags)),
                )


_ALWAYS_ANSWER = {"gang", "conformance"}
"""Plugins that approve every task they do not protect as a victim, so later tiers never decide."""


def _shadowed(config: SchedulerConfig) -> Iterator[Suspected]:
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
            yield Suspected(
                code="ShadowedVerdicts",
                place=f"tiers[{at}].plugins[{position}]",
                consequence=(
                    f"tasks that plugin {plugin.name!r} would protect are evicted: the first tier "
                    f"that names victims decides, and tier {deciding} always names some"
                ),
                advice=f"move it to tier {deciding}, or move the plugins of that tier behind it",
                instead=evolve(config, tiers=tiers),
            )


_ORDERING = ("priority", "sjf", "las", "sla", "drf")
"""Plugins that order jobs by something other than their creation time."""


def _drf_beside_capacity(config: SchedulerConfig) -> Iterator[Suspected]:
    drf, preempt = find_plugin(config, "drf"), action_named(config, "preempt")
    if drf is None or preempt is None or find_plugin(config, "capacity") is None:
        return
    if not drf[1].flags.get("enablePreemptable", True):
        return
    flags = {**drf[1].flags, "enablePreemptable": False}
    yield Suspected(
        code="DrfBesideCapacity",
        place=drf[0],
        consequence=(
            "drf lets preempt evict tasks within the share of their queue, which capacity "
            "protects; reclaim may then evict other tasks for them, and this may repeat for ever"
        ),
        advice="set the flag enablePreemptable: false of plugin 'drf'",
        instead=with_plugin_changed(config, "drf", partial(with_flags, flags)),
    )


def _shadowed_order(config: SchedulerConfig) -> Iterator[Suspected]:
    fcfs = find_plugin(config, "fcfs")
    if fcfs is None or not fcfs[1].flags.get("enableJobOrder", True):
        return
    behind = False
    for at, position, plugin in plugins_of(config):
        behind |= plugin.name == "fcfs"
        if not behind or plugin.name not in _ORDERING:
            continue
        if not plugin.flags.get("enableJobOrder", True):
            continue
        moved = partial(_before_fcfs, plugin)
        yield Suspected(
            code="ShadowedOrder",
            place=f"tiers[{at}].plugins[{position}]",
            consequence=(
                f"plugin {plugin.name!r} only orders jobs with equal creation times, because fcfs "
                "decides before it"
            ),
            advice="move it before plugin 'fcfs'",
            instead=with_plugins_replaced(without_plugin(config, plugin.name), moved),
        )


def _before_fcfs(moved: PluginOption, plugin: PluginOption) -> tuple[PluginOption, ...]:
    return (moved, plugin) if plugin.name == "fcfs" else (plugin,)


def _nothing_starts(config: SchedulerConfig) -> Iterator[Suspected]:
    names = {action.name for action in config.actions}
    if names <= {"backfill", "reserve"}:  # other actions may start jobs
        yield Suspected(
            code="NothingStarts",
            place="actions",
            consequence="no action starts jobs whose tasks request resources",
            advice="add action 'allocate'",
            instead=evolve(config, actions=(ActionOption(name="allocate"), *config.actions)),
        )


def _at_minimum(config: SchedulerConfig) -> Iterator[Suspected]:
    gang = find_plugin(config, "gang")
    evicting = action_named(config, "preempt") or action_named(config, "reclaim")
    if gang is None or evicting is None or gang[1].arguments.get("atMinimum") == "whole-job":
        return
    whole = with_plugin_changed(
        config,
        "gang",
        lambda p: evolve(p, arguments=with_argument(p.arguments, "atMinimum", "whole-job")),
    )
    yield Suspected(
        code="AtMinimumProtected",
        place=gang[0],
        consequence=(
            f"action {evicting[1].name!r} can never evict from a job that runs with no more tasks "
            "than its min_available, so no job of one task, whatever the priorities"
        ),
        advice="set the argument atMinimum: whole-job of plugin 'gang'",
        instead=whole,
    )


def _no_victims(config: SchedulerConfig) -> Iterator[Suspected]:
    for action, flag, able in (
        ("preempt", "enablePreemptable", ("gang", "conformance", "priority", "drf")),
        ("reclaim", "enableReclaimable", ("gang", "conformance", "proportion", "capacity")),
    ):
        found = action_named(config, action)
        plugins = [plugin for _, _, plugin in plugins_of(config)]
        is_on = any(p.flags.get(flag, True) for p in plugins if p.name in able)
        if found is not None and not is_on and all(p.name in _KNOWN for p in plugins):
            name = "priority" if action == "preempt" else "proportion"
            instead = with_plugin(config, name)
            if find_plugin(config, name) is not None:
                instead = with_plugin_changed(config, name, lambda p: evolve(p, flags={}))
            yield Suspected(
                code="NoVictims",
                place=found[0],
                consequence=f"action {action!r} can never evict a task: no plugin names victims",
                advice=f"add or enable plugin {name!r}",
                instead=instead,
            )


_KNOWN = (
    *("capacity", "conformance", "drf", "gang"),
    *("nodeorder", "predicates", "priority", "proportion"),
)
"""The plugins whose victims are known; with any other plugin the rule does not apply."""


SHARELESS = {*_KNOWN, "fcfs", "las", "sjf", "sla", "usage"} - {"capacity", "proportion"}
"""The plugins that are known not to compute the shares of queues."""


def _release_without_hold(config: SchedulerConfig) -> Iterator[Suspected]:
    backfill, allocate = action_named(config, "backfill"), action_named(config, "allocate")
    if backfill is None or allocate is None or backfill[1].arguments.get("strategy") != "release":
        return
    if allocate[1].arguments.get("unready") == "hold":
        return
    actions = [
        evolve(a, arguments=with_argument(a.arguments, "unready", "hold"))
        if a.name == "allocate"
        else a
        for a in config.actions
    ]
    yield Suspected(
        code="ReleaseWithoutHold",
        place=backfill[0],
        consequence=(
            "strategy 'release' finds nothing to release: allocate rolls back a gang that cannot "
            "start, so other jobs take its places permanently rather than as backfill"
        ),
        advice="set the argument unready: hold of action 'allocate', or leave out the strategy",
        instead=evolve(config, actions=actions),
    )


def _proportion_without_reclaim(config: SchedulerConfig) -> Iterator[Suspected]:
    for name in ("proportion", "capacity"):
        found = find_plugin(config, name)
        if (
            found is None
            or action_named(config, "reclaim") is not None
            or action_named(config, "allocate") is None
        ):
            continue
        yield Suspected(
            code=f"{name.capitalize()}WithoutReclaim",
            place=found[0],
            consequence=(
                "a queue below its share waits until tasks of other queues end, however far those "
                "are above their shares"
            ),
            advice="add action 'reclaim' before 'allocate'",
            instead=evolve(config, actions=(ActionOption(name="reclaim"), *config.actions)),
        )


_WEIGHTS = ("leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource")


def _reclaim_without_shares(config: SchedulerConfig) -> Iterator[Suspected]:
    found = action_named(config, "reclaim")
    names = {plugin.name for _, _, plugin in plugins_of(config)}
    # Other plugins, including custom ones, may compute the shares of queues.
    if found is None or not names <= SHARELESS:
        return
    if as_boolean(found[1].arguments.get("withoutShares", False)):
        return
    is_on = any(
        plugin.flags.get("enableReclaimable", True)
        for _, _, plugin in plugins_of(config)
        if plugin.name in _ALWAYS_ANSWER
    )
    if is_on:  # otherwise nothing is ever evicted, which is another finding
        yield Suspected(
            code="ReclaimWithoutShares",
            place=found[0],
            consequence=(
                "no plugin computes the shares of queues, so each queue may evict tasks of every "
                "other, back and forth"
            ),
            advice=(
                "add plugin 'proportion' or 'capacity', or set the argument withoutShares: true of "
                "action 'reclaim' if this is intended"
            ),
            instead=with_plugin(config, "proportion"),
        )


def _zero_weights(config: SchedulerConfig) -> Iterator[Suspected]:
    found = find_plugin(config, "nodeorder")
    if found is None:
        return
    defaults = {"mostrequested": 0}
    weights = [found[1].arguments.get(f"{name}.weight", defaults.get(name, 1)) for name in _WEIGHTS]
    if any(str(weight).strip() not in ("0", "0.0") for weight in weights):
        return
    yield Suspected(
        code="ZeroWeights",
        place=f"{found[0]}.arguments",
        consequence="all nodes get the same score, so the first by name is filled first",
        advice="set a weight of 1 or more, or leave out plugin 'nodeorder'",
        instead=with_plugin_changed(config, "nodeorder", lambda p: evolve(p, arguments={})),
    )


@frozen
class Remedy:
    """A change that may end endless evictions, and the configuration with that change."""

    advice: str
    instead: SchedulerConfig


def remedies_for_loops(config: SchedulerConfig) -> Iterator[Remedy]:
    """Yield changes that may end endless evictions, the smallest first."""
    preempts = action_named(config, "preempt") is not None
    if action_named(config, "reclaim") is not None and not (
        find_plugin(config, "proportion") or find_plugin(config, "capacity")
    ):
        yield Remedy(
            "add plugin 'proportion': it lets reclaim evict only from queues above their share",
            with_plugin(config, "proportion"),
        )
    for name in ("priority", "drf"):
        found = find_plugin(config, name)
        if preempts and found is not None:
            yield Remedy(
                f"move plugin {name!r} to the first tier: it then orders jobs as it picks victims",
                with_plugin_first(without_plugin(config, name), name, found[1]),
            )
    for name in ("priority", "drf"):
        if preempts and find_plugin(config, name) is None:
            yield Remedy(
                f"add plugin {name!r} to the first tier: it then orders jobs as it picks victims",
                with_plugin_first(config, name),
            )
    for name in ("preempt", "reclaim"):
        left = [action for action in config.actions if action.name != name]
        if left and len(left) < len(config.actions):
            yield Remedy(f"leave out action {name!r}", evolve(config, actions=left))


RULES: tuple[Callable[[SchedulerConfig], Iterator[Suspected]], ...] = (
    _missing,
    _switched_off,
    _shadowed,
    _drf_beside_capacity,
    _shadowed_order,
    _nothing_starts,
    _no_victims,
    _at_minimum,
    _release_without_hold,
    _proportion_without_reclaim,
    _reclaim_without_shares,
    _zero_weights,
)
