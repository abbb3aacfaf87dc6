"""The registry: which plugins and actions a configuration may name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from inspect import signature
from typing import TypeVar, cast

from batchsched.actions.action import Action
from batchsched.errors import RegistryError
from batchsched.model.validation.values import shown
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Plugin

__all__ = ["ActionFactory", "PluginFactory", "Registry", "unknown_name"]

PluginFactory = Callable[[Arguments], Plugin]
"""Makes a configured plugin of its arguments."""

ActionFactory = Callable[[Arguments], Action]
"""Makes a configured action of its arguments."""

FactoryT = TypeVar("FactoryT", PluginFactory, ActionFactory)


class Registry:
    """Plugins and actions by name.

    >>> from batchsched import default_registry
    >>> registry = default_registry()
    >>> print(*registry.plugin_names)
    capacity conformance drf fcfs gang las nodeorder predicates priority proportion sjf sla usage
    >>> registry.action_names
    ('allocate', 'backfill', 'plan', 'preempt', 'reclaim', 'reserve')
    """

    def __init__(self) -> None:
        self._plugins: dict[str, PluginFactory] = {}
        self._actions: dict[str, ActionFactory] = {}

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """The names of all plugins, sorted."""
        return tuple(sorted(self._plugins))

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of all actions, sorted."""
        return tuple(sorted(self._actions))

    def register_plugin(self, name: str, factory: PluginFactory, /) -> None:
        """Let configurations name a plugin.

        A class will do as the factory: its `from_arguments` is called if it has one; else, if
        it can be made without arguments, it is, and an argument that a configuration gives it
        is a fault.

        Raises:
            RegistryError: the name is taken or no name, or `factory` cannot be called.

        """
        self._check("plugin", name, factory, self._plugins)
        self._plugins[name] = _maker(factory)

    def register_action(self, name: str, factory: ActionFactory, /) -> None:
        """Let configurations name an action; a class will do, as in `register_plugin`.

        Raises:
            RegistryError: the name is taken or no name, or `factory` cannot be called.

        """
        self._check("action", name, factory, self._actions)
        self._actions[name] = _maker(factory)

    def plugin_factory(self, name: str, /) -> PluginFactory | None:
        """Return what makes the plugin of this name, or None."""
        return self._plugins.get(name)

    def action_factory(self, name: str, /) -> ActionFactory | None:
        """Return what makes the action of this name, or None."""
        return self._actions.get(name)

    def copy(self) -> Registry:
        """Return a registry with the same content, to add to."""
        other = Registry()
        other._plugins.update(self._plugins)
        other._actions.update(self._actions)
        return other

    @staticmethod
    def _check(what: str, name: str, factory: FactoryT, taken: dict[str, FactoryT]) -> None:
        if not _is_name(name):
            raise RegistryError(
                f"expected a name for {what}, got {shown(name)}; use a text without commas"
            )
        if name in taken:
            raise RegistryError(f"{what} {name!r} is registered already; choose another name")
        if not callable(factory):
            raise RegistryError(
                f"{what} {name!r}: {shown(factory)} cannot be called with its arguments"
            )


def _maker(factory: FactoryT) -> FactoryT:
    """Return what makes a plugin or action of arguments, of a factory or a class."""
    if not isinstance(factory, type):
        return factory
    from_arguments: FactoryT | None = getattr(factory, "from_arguments", None)
    if from_arguments is not None:
        return from_arguments
    try:
        signature(factory).bind()
    except (TypeError, ValueError):
        return factory

    def make(_arguments: Arguments) -> object:
        return factory()

    return cast("FactoryT", make)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name.strip()) and "," not in name


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """Return what is to be said of a name that is not registered."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{what} {name!r} is not registered; {hint}known: {', '.join(names)}"
