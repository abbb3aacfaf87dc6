"""Strategies for configurations: actions with arguments, and tiers of plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.validation.arguments import checks_arguments
from batchsched.plugin.arguments import ArgumentValue
from batchsched.testing.drawing.arguments import built, expect_no, not_names

_HOLD = {"unready": "hold"}

_ACTIONS: dict[str, tuple[Mapping[str, ArgumentValue], ...]] = {
    "allocate": (
        {},
        _HOLD,
        {"evictBackfill": True},
        {"starvationThreshold": 50},
        {**_HOLD, "evictBackfill": True, "starvationThreshold": 20},
    ),
    "backfill": (
        {},
        {"strategy": "release"},
        {"strategy": "displace", "nodeChoice": "best"},
        {"strategy": "release", "starvationThreshold": 50},
        {"strategy": "displace"},
    ),
    "consolidate": ({}, {"scope": "all"}, {"maxMoves": 1}, {"maxMoves": 2, "tries": 20}),
    "plan": (
        {},
        {"depth": "all"},
        {"depth": 2, "keep": False},
        {"depth": "all", "window": 15},
        {"depth": 0},
        {"maxJobs": 2},
    ),
    "preempt": (
        {},
        {},
        {"curable": True},
        {"unblock": True},
        {"maxEvictions": 1},
        {"minRuntime": 7},
    ),
    "reclaim": ({}, {}, {"curable": True}, {"withoutShares": True}, {"maxEvictions": 2}),
    "reserve": (
        {"starvingJobTimeThreshold": 50},
        {"starvingJobTimeThreshold": 20, "reservedNodePercent": 100},
        {"starvingJobTimeThreshold": 0, "reservedNodePercent": 30},
    ),
}
"""The arguments that each action may have."""

_SEQUENCES = (
    ("allocate",),
    ("allocate", "backfill"),
    ("preempt",),
    ("reclaim",),
    ("allocate", "preempt"),
    ("reclaim", "allocate"),
    ("reclaim", "allocate", "backfill", "preempt"),
    ("allocate", "preempt", "reclaim", "backfill"),
    ("allocate", "reserve"),
    ("reserve", "allocate", "backfill"),
    ("backfill", "allocate"),
    ("allocate", "backfill", "preempt"),
    ("reclaim", "preempt", "allocate", "backfill"),
    ("allocate", "backfill", "allocate", "preempt"),
    ("allocate", "reserve", "backfill", "reclaim"),
    ("reserve", "allocate"),
    ("reclaim", "preempt"),
    ("plan",),
    ("plan", "allocate"),
    ("reclaim", "plan", "backfill", "preempt"),
    ("allocate", "consolidate"),
    ("allocate", "consolidate", "reclaim", "preempt"),
    ("consolidate", "allocate", "backfill"),
)

_LONGEST = max(map(len, _SEQUENCES))

_DEFAULT = SchedulerConfig().tiers

_TIERS: tuple[tuple[tuple[str, ...], ...], ...] = (
    tuple(tuple(plugin.name for plugin in tier.plugins) for tier in _DEFAULT),
    (("gang", "predicates"),),
    (("priority", "gang", "conformance"), ("drf", "predicates", "capacity", "nodeorder")),
    (("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder")),
    (("priority", "gang"), ("drf", "predicates", "nodeorder")),
    (("gang", "conformance"), ("proportion", "predicates", "nodeorder")),
    (("drf", "gang", "predicates", "proportion", "nodeorder", "priority", "conformance"),),
    (("gang", "fcfs"), ("predicates", "capacity")),
    (("priority",), ("gang",), ("drf",), ("proportion", "conformance"), ("predicates",)),
    (("priority", "predicates", "nodeorder"),),
    (("sjf", "gang", "conformance"), ("proportion", "predicates")),
    (("proportion", "gang"), ("predicates", "priority")),
    (("las", "gang"), ("predicates", "nodeorder")),
    (("nodeorder", "predicates"), ("conformance",), ("gang", "drf")),
    (("capacity", "gang"), ("sla", "predicates")),
    (("priority", "fcfs", "predicates"), ("gang",)),
    (("gang", "usage"), ("predicates", "capacity")),
    (("usage", "proportion"), ("gang", "predicates")),
    (
        ("priority", "gang", "conformance", "protection"),
        ("drf", "predicates", "capacity", "devices", "topology", "placement"),
    ),
    (("priority", "gang"), ("topology", "predicates", "nodeorder", "devices")),
    (("gang", "protection"), ("predicates", "proportion", "placement")),
    (("protection", "priority", "gang", "devices"), ("predicates", "capacity", "topology")),
)

_WITHOUT_NODE_KEY = tuple(
    tiers for tiers in _TIERS if not any("placement" in names for names in tiers)
)

_PLUGIN_ARGUMENTS: dict[str, tuple[Mapping[str, ArgumentValue], ...]] = {
    "capacity": ({"level": True}, {"tolerance": 0.1}, {"order": "graded"}),
    "fcfs": ({"strict": False},),
    "devices": ({"order": "tight"}, {"tries": 1, "undo": 0}),
    "gang": ({"atMinimum": "protect"}, {"atMinimum": "whole-job"}),
    "las": ({"resource": "cpu"}, {"levels": "5, 20"}),
    "nodeorder": (
        {"leastrequested.weight": 0, "mostrequested.weight": 2},
        {"podaffinity.weight": 10, "balancedresource.weight": 0},
        {"nodeaffinity.weight": 5},
    ),
    "placement": ({"strategy": "spread"}, {"weights": "cpu=2"}, {"classes": 4}),
    "predicates": (
        {
            "predicate.MemoryPressureEnable": True,
            "predicate.DiskPressureEnable": True,
            "predicate.PIDPressureEnable": True,
        },
    ),
    "protection": ({"withinDeserved": False}, {"claimDelay": 20}, {"cost": "lost-work"}),
    "sla": ({"late": "first"}, {"claims": True, "urgent": 30}),
    "topology": ({"tries": 1}, {"tries": 20}),
    "usage": ({"scope": "users"}, {"k": 0.5, "halfLife": 60}, {"k": 0}),
}

_PROTECTING: tuple[Mapping[str, ArgumentValue], ...] = (
    {},
    {"preemptMinRuntime": 20, "reclaimMinRuntime": 30},
    {"limits": [{"name": "all", "scope": "cluster", "most": 2, "window": 60}]},
    {"cost": "lost-work", "restart": 5},
    {
        "limits": [
            {"name": "each", "scope": "job", "most": 1, "window": 100},
            {"name": "of", "scope": "queue", "most": 2, "window": 40},
        ],
    },
    {"claimDelay": 5, "withinDeserved": False},
    {
        "limits": [{"name": "for", "scope": "claimant-queue", "most": 1, "window": 30}],
        "cost": "lost-work",
        "costOf": "memory",
    },
)
"""The arguments that plugin protection may have."""

_USUAL = {plugin.name: plugin.arguments for tier in _DEFAULT for plugin in tier.plugins}
"""The arguments of plugins in the default tiers."""

_USUAL_FLAGS = {plugin.name: plugin.flags for tier in _DEFAULT for plugin in tier.plugins}
"""Their flags."""

_FLAGS: dict[str, tuple[str, ...]] = {
    "priority": ("enableJobOrder", "enableTaskOrder", "enablePreemptable"),
    "gang": (
        "enableJobOrder",
        "enableJobReady",
        "enableJobPipelined",
        "enablePreemptable",
        "enableReclaimable",
    ),
    "conformance": ("enablePreemptable", "enableReclaimable"),
    "drf": ("enableJobOrder", "enablePreemptable"),
    "predicates": ("enablePredicate",),
    "proportion": ("enableQueueOrder", "enableReclaimable"),
    "nodeorder": ("enableNodeOrder",),
    "capacity": ("enableQueueOrder", "enableReclaimable"),
    "fcfs": ("enableJobOrder",),
    "las": ("enableJobOrder",),
    "sjf": ("enableJobOrder",),
    "sla": ("enableJobOrder", "enablePreemptable"),
    "usage": ("enableQueueOrder", "enableJobOrder"),
    "protection": ("enablePreemptable", "enableReclaimable"),
}

_DRAFT = 5
"""The bytes of a draft, in addition to one for the arguments of each action: the actions, the
tiers, the arguments of plugins, and up to two flags that are off.
"""


@checks_arguments()
def configs(
    *,
    actions: Sequence[str] | None = None,
    flags: bool = True,
    arguments: bool = True,
    protection: bool = False,
    extra_plugins: Sequence[PluginOption] = (),
) -> SearchStrategy[SchedulerConfig]:
    """Draw configurations of batchsched's built-in actions and plugins.

    The simplest is allocate alone, with the default tiers.

    Args:
        actions: the actions that may run; None: all. Each configuration has some of them.
            Your own actions appear alone, before and after others, and all together in the
            order given here.
        flags: whether extension points of plugins that are on in the default tiers may be off.
        arguments: whether actions and plugins may have arguments other than those of the default
            tiers.
        protection: whether plugin protection is in all tiers, the last one if nowhere else, and may
            have arguments: minimum runtimes, limits, costs.
        extra_plugins: plugins to put before all others, such as those under test; the
            configuration is then for a registry that knows them.

    Raises:
        FaultsError: invalid arguments; all faults at once. It is a `ValueError`.

    >>> from hypothesis import find
    >>> config = find(configs(), lambda config: len(config.actions) > 1)
    >>> len(config.actions) > 1 and {action.name for action in config.actions} <= {
    ...     "allocate", "backfill", "consolidate", "plan", "preempt", "reclaim", "reserve"}
    True

    """
    allowed = tuple(_ACTIONS if actions is None else actions)
    expect_no(not_names("actions", allowed, may_be_none=False))
    sequences = _sequences(tuple(dict.fromkeys(allowed)))
    # Only one plugin may rank nodes by a key: that may be one of yours.
    pool_of_tiers = _WITHOUT_NODE_KEY if extra_plugins else _TIERS

    def config(draft: bytes) -> SchedulerConfig:
        sequence, tiers, plugin_arguments, *off = draft[:_DRAFT]
        flag_of = dict(divmod(each, 16) for each in off if each) if flags else {}
        options: list[ActionOption] = []
        for name, variant in zip(
            sequences[sequence % len(sequences)], draft[_DRAFT:], strict=False
        ):
            pool = (arguments and _ACTIONS.get(name)) or ({},)
            options.append(ActionOption(name=name, arguments=pool[variant % len(pool)]))
        drawn = SchedulerConfig(
            actions=options,
            tiers=[
                *([Tier(plugins=extra_plugins)] if extra_plugins else []),
                *(
                    Tier(
                        plugins=[
                            _plugin(
                                name,
                                flag_of,
                                plugin_arguments if arguments else 0,
                                {} if tiers % len(pool_of_tiers) else _USUAL_FLAGS[name],
                            )
                            for name in tier
                        ]
                    )
                    for tier in pool_of_tiers[tiers % len(pool_of_tiers)]
                ),
            ],
        )
        if not protection:
            return drawn
        given = _PROTECTING[(plugin_arguments if arguments else 0) % len(_PROTECTING)]
        return _with_protection(drawn, given)

    size = _DRAFT + max(_LONGEST, *map(len, sequences))
    return built(st.binary(min_size=size, max_size=size), config)


def _with_protection(
    config: SchedulerConfig, arguments: Mapping[str, ArgumentValue]
) -> SchedulerConfig:
    """Return a configuration with plugin protection, in its last tier if it is in none."""
    if not any(plugin.name == "protection" for tier in config.tiers for plugin in tier.plugins):
        *above, last = config.tiers
        with_it = Tier(plugins=[*last.plugins, PluginOption(name="protection")])
        config = evolve(config, tiers=[*above, with_it])
    return config.with_arguments("protection", **arguments) if arguments else config


def _sequences(allowed: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return sequences of the allowed actions, the simplest first, covering all of them."""
    usual = [sequence for sequence in _SEQUENCES if set(sequence) <= set(allowed)]
    missing = [name for name in allowed if not any(name in sequence for sequence in usual)]
    found = [*usual]
    for name in missing:
        found.append((name,))
        for sequence in usual:
            found += [(*sequence, name), (name, *sequence)]
    return tuple(dict.fromkeys([*found, allowed]) if missing else found)


def _plugin(
    name: str, flag_of: dict[int, int], arguments: int, usual: Mapping[str, bool]
) -> PluginOption:
    names = _FLAGS.get(name, ())
    off = flag_of.get(tuple(_FLAGS).index(name)) if names else None
    choices = _PLUGIN_ARGUMENTS.get(name, ())
    given = choices[arguments // 2 % len(choices)] if choices and arguments % 2 else None
    return PluginOption(
        name=name,
        flags=usual if off is None else {names[off % len(names)]: False},
        arguments=_USUAL.get(name, {}) if given is None else given,
    )
