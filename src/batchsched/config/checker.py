"""Validates a configuration against a registry and finds all faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from batchsched.actions.action import Action
from batchsched.config.default_registry import default_registry
from batchsched.config.options import ENABLE_FLAGS, ActionOption, PluginOption, Tier
from batchsched.config.registry import Registry, unknown_name
from batchsched.config.volcano import is_volcano_flag
from batchsched.errors import Fault, problem_of
from batchsched.model.texts import did_you_mean
from batchsched.model.validation.values import is_mapping, is_text, is_tuple, shown, tuple_problems
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Plugin

__all__ = ["Checked", "Paths", "checked", "config_faults", "unknown_flag", "unknown_key"]

Paths = tuple[list[str], list[list[str]]]
"""The paths of actions, and of plugins tier by tier, in the source of a configuration."""


@frozen
class Checked:
    """The outcome of validating a configuration."""

    faults: list[Fault]
    actions: list[Action]
    """In order; complete if there are no faults."""
    plugins: list[Plugin]
    """In order, tier by tier; complete if there are no faults."""


def config_faults(
    actions: object, tiers: object, registry: object, *, names_too: bool, paths: Paths | None = None
) -> list[Fault]:
    """Return the faults of a configuration and of the registry that it is for.

    See `checked`, which also returns the actions and plugins.
    """
    return checked(actions, tiers, registry, names_too=names_too, paths=paths).faults


def checked(
    actions: object, tiers: object, registry: object, *, names_too: bool, paths: Paths | None = None
) -> Checked:
    """Create all actions and plugins of a configuration; return them, and all faults.

    Args:
        actions: expected to be a tuple of `ActionOption`.
        tiers: expected to be a tuple of `Tier`.
        registry: expected to be a `Registry`; it defines which names are known.
        names_too: whether a name that is not in the registry is a fault.
        paths: see `Paths`. None: the paths are those within a `SchedulerConfig`.

    """
    check = _Check(registry, names_too=names_too)
    for position, action in enumerate(check.each("actions", actions, "ActionOption")):
        check.action(f"actions[{position}]" if paths is None else paths[0][position], action)
    for tier_position, tier in enumerate(check.each("tiers", tiers, "Tier")):
        path = f"tiers[{tier_position}]"
        if not isinstance(tier, Tier):
            check.refuse(path, _not_a(tier, "Tier(plugins=[...])"))
            continue
        plugins = check.each(f"{path}.plugins", tier.plugins, "PluginOption")
        for position, plugin in enumerate(plugins):
            check.plugin(
                f"{path}.plugins[{position}]"
                if paths is None
                else paths[1][tier_position][position],
                plugin,
            )
    check.exclusive_plugins()
    return Checked(check.faults, check.actions, check.plugins)


def unknown_key(key: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return the message for an unknown key."""
    hint = did_you_mean(key, known)
    return f"unknown key; {hint and hint + ' '}known: {', '.join(known)}"


def unknown_flag(flag: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return the message for an unknown flag of a plugin."""
    if is_volcano_flag(flag):
        return (
            "this flag of Volcano is not supported; remove it, "
            'or read the configuration with unknown="notice"'
        )
    return unknown_key(flag, known)


def _not_a(value: object, wanted: str) -> str:
    return f"expected {wanted}, got {shown(value)}; or use SchedulerConfig.from_mapping"


class _Check:
    """Checks the parts of a configuration one by one and collects the faults."""

    def __init__(self, registry: object, *, names_too: bool) -> None:
        self.faults: list[Fault] = []
        self.actions: list[Action] = []
        self.plugins: list[Plugin] = []
        if isinstance(registry, Registry):
            self._registry, self._names_too = registry, names_too
        else:
            message = (
                f"expected a Registry, got {shown(registry)}; leave it out, or extend "
                "default_registry()"
            )
            self.refuse("registry", message)
            # Faults that do not depend on the registry can still be reported.
            self._registry, self._names_too = default_registry(), False
        self._first: dict[str, str] = {}
        """The path at which each plugin is first named."""

    def refuse(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))

    def each(self, path: str, items: object, kind: str) -> tuple[object, ...]:
        """Return the items, or an empty tuple if `items` is not a tuple."""
        for where, message in tuple_problems(path, items, kind):
            self.refuse(where, message)
        return items if is_tuple(items) else ()

    def action(self, path: str, action: object) -> None:
        if not isinstance(action, ActionOption):
            self.refuse(path, _not_a(action, "ActionOption(name=...)"))
            return
        factory: Callable[[Arguments], object] | None = None
        if self._is_name(path, action.name):
            factory = self._registry.action_factory(action.name)
            if factory is None and self._names_too:
                known = self._registry.action_names
                self.refuse(path, unknown_name("action", action.name, known))
        self._arguments(path, "action", action, factory)

    def plugin(self, path: str, plugin: object) -> None:
        if not isinstance(plugin, PluginOption):
            self.refuse(path, _not_a(plugin, "PluginOption(name=...)"))
            return
        factory: Callable[[Arguments], object] | None = None
        name = plugin.name
        is_name = self._is_name(path, name)
        if is_name:
            if name in self._first:
                self.refuse(path, f"plugin {name!r} is already configured at {self._first[name]}")
            self._first.setdefault(name, path)
        self._flags(path, plugin.flags)
        if is_name:
            factory = self._registry.plugin_factory(name)
            if factory is None and self._names_too:
                self.refuse(path, unknown_name("plugin", name, self._registry.plugin_names))
        self._arguments(path, "plugin", plugin, factory)

    def exclusive_plugins(self) -> None:
        """Check that no two plugins are configured that exclude each other."""
        if "capacity" in self._first and "proportion" in self._first:
            path, other = self._first["capacity"], self._first["proportion"]
            message = f"replaces 'proportion', which is configured at {other}; remove one of them"
            self.refuse(path, f"plugin 'capacity' {message}")

    def _is_name(self, path: str, name: object) -> bool:
        if not is_text(name):
            self.refuse(f"{path}.name", f"expected a name (a string), got {shown(name)}")
        return is_text(name)

    def _flags(self, path: str, flags: object) -> None:
        if not is_mapping(flags):
            self.refuse(f"{path}.flags", f"expected a mapping such as a dict, got {shown(flags)}")
            return
        for flag, is_on in flags.items():
            if not is_text(flag):
                self.refuse(f"{path}.flags[{shown(flag)}]", "expected a string as a flag")
            elif flag not in ENABLE_FLAGS:
                self.refuse(f"{path}.{flag}", unknown_flag(flag, ENABLE_FLAGS))
            elif not isinstance(is_on, bool):
                self.refuse(f"{path}.{flag}", f"expected true or false, got {shown(is_on)}")

    def _arguments(
        self,
        path: str,
        what: str,
        option: ActionOption | PluginOption,
        factory: Callable[[Arguments], object] | None,
    ) -> None:
        below = f"{path}.arguments"
        given = option.arguments
        if not is_mapping(option.arguments):
            self.refuse(below, f"expected a mapping such as a dict, got {shown(given)}")
            return
        if factory is None:
            return
        arguments = Arguments(given, below)
        named = f"{what} {option.name!r}"
        try:
            made = factory(arguments)
        except Exception as error:
            self.refuse(path, f"{named} cannot be created from its arguments: {problem_of(error)}")
            return
        method = ""
        if what == "action":
            if isinstance(made, Action):
                self.actions.append(made)
            else:
                method = "execute"
        elif isinstance(made, Plugin):
            self.plugins.append(made)
        else:
            method = "open"
        if method:
            message = f"expected its factory to return an object with a method {method!r}"
            self.refuse(path, f"{named}: {message}, got {shown(made)}")
        self.faults += arguments.faults()
