"""What makes a configuration wrong, given what may be named; every fault is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from attrs import frozen

from batchsched.actions.action import Action
from batchsched.config.default_registry import default_registry
from batchsched.config.options import ENABLE_FLAGS, ActionOption, PluginOption, Tier
from batchsched.config.registry import Registry, unknown_name
from batchsched.config.volcano import is_volcano_flag
from batchsched.errors import Fault, problem_of
from batchsched.model.validation.values import is_mapping, is_text, is_tuple, shown, tuple_problems
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Plugin

__all__ = ["Checked", "Paths", "checked", "config_faults", "unknown_flag", "unknown_key"]

Paths = tuple[list[str], list[list[str]]]
"""Where actions, and plugins tier by tier, stand in what a configuration was read from."""


@frozen
class Checked:
    """What came of looking at a configuration."""

    faults: list[Fault]
    actions: list[Action]
    """In order; all of them, if there are no faults."""
    plugins: list[Plugin]
    """In order, tier by tier; all of them, if there are no faults."""


def config_faults(
    actions: object, tiers: object, registry: object, *, names_too: bool, paths: Paths | None = None
) -> list[Fault]:
    """Return what is wrong with a configuration, and with the registry that it is for.

    See `checked`, which also gives what was made to find out.
    """
    return checked(actions, tiers, registry, names_too=names_too, paths=paths).faults


def checked(
    actions: object, tiers: object, registry: object, *, names_too: bool, paths: Paths | None = None
) -> Checked:
    """Make all actions and plugins of a configuration; return them, and what is wrong.

    Args:
        actions: what should be a tuple of `ActionOption`.
        tiers: what should be a tuple of `Tier`.
        registry: what should be a `Registry`; it says what may be named.
        names_too: whether a name that the registry does not know is a fault.
        paths: see `Paths`. None: they stand where a `SchedulerConfig` has them.

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
    check.places()
    return Checked(check.faults, check.actions, check.plugins)


def unknown_key(key: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return what is to be said of a key that a configuration does not have."""
    close = get_close_matches(key, list(known), n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown key; {hint}known: {', '.join(known)}"


def unknown_flag(flag: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return what is to be said of a plugin's flag that a configuration does not have."""
    if is_volcano_flag(flag):
        return (
            "is a flag of Volcano's that is not supported; remove it, "
            'or read the configuration with unknown="notice"'
        )
    return unknown_key(flag, known)


def _not_a(value: object, wanted: str) -> str:
    return f"{shown(value)} is not what stands here; use {wanted}, or SchedulerConfig.from_mapping"


class _Check:
    """Looks at one part of a configuration after the other, and collects what is wrong."""

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
            # What is wrong whatever may be named can be told all the same.
            self._registry, self._names_too = default_registry(), False
        self._first: dict[str, str] = {}
        """Where each plugin stands first."""

    def refuse(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))

    def each(self, path: str, items: object, kind: str) -> tuple[object, ...]:
        """Return the items, or none if they are no tuple of items."""
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
                self.refuse(path, f"plugin {name!r} stands in {self._first[name]} already")
            self._first.setdefault(name, path)
        self._flags(path, plugin.flags)
        if is_name:
            factory = self._registry.plugin_factory(name)
            if factory is None and self._names_too:
                self.refuse(path, unknown_name("plugin", name, self._registry.plugin_names))
        self._arguments(path, "plugin", plugin, factory)

    def places(self) -> None:
        """See that no two plugins stand in the same place."""
        if "capacity" in self._first and "proportion" in self._first:
            message = "stands in the place of proportion; leave one of them out"
            path = self._first["capacity"]
            self.refuse(path, f"plugin 'capacity' {message} ({self._first['proportion']})")

    def _is_name(self, path: str, name: object) -> bool:
        if not is_text(name):
            self.refuse(f"{path}.name", f"expected a name (a text), got {shown(name)}")
        return is_text(name)

    def _flags(self, path: str, flags: object) -> None:
        if not is_mapping(flags):
            self.refuse(f"{path}.flags", f"expected a mapping such as a dict, got {shown(flags)}")
            return
        for flag, is_on in flags.items():
            if not is_text(flag):
                self.refuse(f"{path}.flags[{shown(flag)}]", "expected a text as the name of a flag")
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
            self.refuse(path, f"{named} cannot be made of its arguments: {problem_of(error)}")
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
            message = f"its factory gave {shown(made)}, which has no method {method!r}"
            self.refuse(path, f"{named}: {message}")
        self.faults += arguments.faults()
