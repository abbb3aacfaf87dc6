"""Edits of configurations: add, remove or change a plugin, a flag or an argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import evolve

from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.plugin.arguments import ArgumentValue

__all__ = [
    "action_named",
    "find_plugin",
    "plugins_of",
    "with_argument",
    "with_flags",
    "with_plugin",
    "with_plugin_changed",
    "with_plugin_first",
    "with_plugins_replaced",
    "without_plugin",
]


def plugins_of(config: SchedulerConfig) -> Iterator[tuple[int, int, PluginOption]]:
    """Yield the plugins of a configuration, each with its tier and its position in it."""
    for at, tier in enumerate(config.tiers):
        for position, plugin in enumerate(tier.plugins):
            yield at, position, plugin


def find_plugin(config: SchedulerConfig, name: str) -> tuple[str, PluginOption] | None:
    """Return the first place of a plugin in a configuration, and its option."""
    for at, position, plugin in plugins_of(config):
        if plugin.name == name:
            return f"tiers[{at}].plugins[{position}]", plugin
    return None


def action_named(config: SchedulerConfig, name: str) -> tuple[str, ActionOption] | None:
    """Return the first place of an action in a configuration, and its option."""
    for position, action in enumerate(config.actions):
        if action.name == name:
            return f"actions[{position}]", action
    return None


def with_plugin(config: SchedulerConfig, name: str) -> SchedulerConfig:
    """Add a plugin to the last tier."""
    tiers = config.tiers or (Tier(),)
    last = evolve(tiers[-1], plugins=(*tiers[-1].plugins, PluginOption(name=name)))
    return evolve(config, tiers=(*tiers[:-1], last))


def with_plugin_changed(
    config: SchedulerConfig, name: str, change: Callable[[PluginOption], PluginOption]
) -> SchedulerConfig:
    """Change a plugin wherever it stands."""
    return with_plugins_replaced(config, lambda p: (change(p) if p.name == name else p,))


def with_plugins_replaced(
    config: SchedulerConfig, change: Callable[[PluginOption], tuple[PluginOption, ...]]
) -> SchedulerConfig:
    """Replace each plugin of a configuration with the plugins that `change` returns."""
    return evolve(
        config,
        tiers=[
            evolve(tier, plugins=[new for plugin in tier.plugins for new in change(plugin)])
            for tier in config.tiers
        ],
    )


def without_plugin(config: SchedulerConfig, name: str) -> SchedulerConfig:
    """Leave a plugin out wherever it stands."""
    return with_plugins_replaced(config, lambda p: () if p.name == name else (p,))


def with_flags(flags: Mapping[str, bool], plugin: PluginOption) -> PluginOption:
    """Return a plugin with other flags."""
    return evolve(plugin, flags=flags)


def with_argument(
    arguments: Mapping[str, ArgumentValue], name: str, value: ArgumentValue
) -> dict[str, ArgumentValue]:
    """Return arguments with another value for one of them."""
    return {**arguments, name: value}


def with_plugin_first(
    config: SchedulerConfig, name: str, option: PluginOption | None = None
) -> SchedulerConfig:
    """Add a plugin to the first tier, with an option of its own if one is given."""
    tiers = config.tiers or (Tier(),)
    plugins = (*tiers[0].plugins, PluginOption(name=name) if option is None else option)
    return evolve(config, tiers=(evolve(tiers[0], plugins=plugins), *tiers[1:]))
