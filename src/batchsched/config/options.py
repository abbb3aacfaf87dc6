"""The parts of a configuration: actions and plugins, each with its options."""

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
"""The flags of a plugin in a configuration, and the extension point that each enables."""


# One converter for each type, as type checkers cannot follow generic ones. A value that cannot be
# converted is kept unchanged and reported with all other faults; see `checker`.


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
    """Which of its extension points are enabled, by the names in `ENABLE_FLAGS`; default: all."""
    arguments: Mapping[str, ArgumentValue] = field(default=EMPTY, converter=_arguments)


@frozen(kw_only=True)
class Tier:
    """Plugins that are asked together; the answers of tiers are combined in order."""

    plugins: tuple[PluginOption, ...] = field(default=(), converter=_plugins)


def _tier(*plugins: str | PluginOption) -> Tier:
    return Tier(
        plugins=[PluginOption(name=one) if isinstance(one, str) else one for one in plugins]
    )


DEFAULT_ACTIONS: tuple[ActionOption, ...] = (
    ActionOption(name="allocate"),
    ActionOption(name="backfill"),
)
"""The actions of a configuration that names none."""

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
"""The tiers of a configuration that names none.

They are those of kube-batch with three exceptions. With gang's default for `atMinimum`, a job of
one task could never be evicted. capacity replaces proportion: it also lends unused resources and
supports trees of queues. drf's preemptable is disabled: it would let preempt evict tasks within
their queue's share, and preempt and reclaim might then evict in an endless cycle.
"""
