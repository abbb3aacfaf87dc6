"""The parts of a configuration: actions and plugins, each with what is chosen for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from batchsched.model.immutable import EMPTY, FrozenMap, kept_map, kept_tuple
from batchsched.plugin.arguments import ArgumentValue

__all__ = [
    "DEFAULT_ACTIONS",
    "DEFAULT_TIERS",
    "ENABLE_FLAGS",
    "ActionOption",
    "PluginOption",
    "Tier",
]

ENABLE_FLAGS: Mapping[str, str] = FrozenMap(
    {
        "enableJobOrder": "job_order_key",
        "enableQueueOrder": "queue_order_key",
        "enableTaskOrder": "task_order_key",
        "enablePredicate": "predicates",
        "enableNodeOrder": "node_scores",
        "enablePreemptable": "preemptable",
        "enableReclaimable": "reclaimable",
        "enableJobReady": "job_ready",
        "enableJobPipelined": "job_pipelined",
    }
)
"""The flags of a plugin in a configuration, and the extension point that each switches."""


# Converters of one type each: type checkers do not see through generic ones. What they cannot
# convert is kept as it is, to be told with everything else that is wrong; see `config_checks`.


def _arguments(given: Mapping[str, ArgumentValue]) -> Mapping[str, ArgumentValue]:
    return kept_map(given)


def _flags(given: Mapping[str, bool]) -> Mapping[str, bool]:
    return kept_map(given)


def _plugins(given: Iterable[PluginOption]) -> tuple[PluginOption, ...]:
    return kept_tuple(given)


@frozen(kw_only=True)
class ActionOption:
    """An action in a configuration."""

    name: str
    arguments: Mapping[str, ArgumentValue] = field(default=EMPTY, converter=_arguments)


@frozen(kw_only=True)
class PluginOption:
    """A plugin in a configuration."""

    name: str
    flags: Mapping[str, bool] = field(default=EMPTY, converter=_flags)
    """Which of its extension points are on, by the names in `ENABLE_FLAGS`; all by default."""
    arguments: Mapping[str, ArgumentValue] = field(default=EMPTY, converter=_arguments)


@frozen(kw_only=True)
class Tier:
    """Plugins that are asked together; what they say together is combined tier by tier."""

    plugins: tuple[PluginOption, ...] = field(default=(), converter=_plugins)


def _tier(*plugins: str | PluginOption) -> Tier:
    return Tier(
        plugins=[PluginOption(name=one) if isinstance(one, str) else one for one in plugins]
    )


DEFAULT_ACTIONS: tuple[ActionOption, ...] = (
    ActionOption(name="allocate"),
    ActionOption(name="backfill"),
)
"""What runs where a configuration names no actions."""

DEFAULT_TIERS: tuple[Tier, ...] = (
    _tier(
        "priority",
        PluginOption(name="gang", arguments={"atMinimum": "whole-job"}),
        "conformance",
    ),
    _tier(
        PluginOption(name="drf", flags={"enablePreemptable": False}),
        "predicates",
        "capacity",
        "nodeorder",
    ),
)
"""Who decides where a configuration names no tiers.

kube-batch's, but for three: with gang's default for `atMinimum`, no job of one task is ever
evicted; capacity does what proportion does, lends what nobody uses, and knows trees of queues; and
what drf lets preempt evict may be covered by a queue's share, so that reclaim might go round in
circles.
"""
