"""The registry: which plugins and actions a configuration may name, and the built-in ones."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any, Literal, TypeVar, cast

from attrs import frozen

from batchsched.actions.action import Action
from batchsched.errors import RegistryError
from batchsched.model.texts import did_you_mean
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import is_text, shown
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Plugin

PluginFactory = Callable[[Arguments], Plugin]
"""Creates a configured plugin from its arguments."""

ActionFactory = Callable[[Arguments], Action]
"""Creates a configured action from its arguments."""

MadeT = TypeVar("MadeT", Plugin, Action)
What = Literal["action", "plugin"]


class Registry:
    """Plugins and actions by name.

    >>> from batchsched import default_registry
    >>> registry = default_registry()
    >>> print(*registry.plugin_names[7:])
    nodeorder placement predicates priority proportion protection sjf sla topology usage
    >>> registry.action_names
    ('allocate', 'backfill', 'consolidate', 'plan', 'preempt', 'reclaim', 'reserve')
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

    def register_plugin(self, name: str, factory: PluginFactory | type[Plugin], /) -> None:
        """Register a plugin under a name that configurations can use.

        The factory may be a class: its `from_arguments` is called if it has one. A class that
        can be created without arguments needs none; a configuration that gives it arguments is
        then invalid.

        Raises:
            RegistryError: the name is taken or invalid, or `factory` cannot be called.

        """
        _register("plugin", name, factory, self._plugins)

    def register_action(self, name: str, factory: ActionFactory | type[Action], /) -> None:
        """Register an action under a name; the factory may be a class, as in `register_plugin`.

        Raises:
            RegistryError: the name is taken or invalid, or `factory` cannot be called.

        """
        _register("action", name, factory, self._actions)

    @checks_arguments()
    def plugin_factory(self, name: str, /) -> PluginFactory | None:
        """Return the factory of the plugin with this name, or None."""
        return self._plugins.get(name)

    @checks_arguments()
    def action_factory(self, name: str, /) -> ActionFactory | None:
        """Return the factory of the action with this name, or None."""
        return self._actions.get(name)

    def copy(self) -> Registry:
        """Return an independent registry with the same content."""
        other = Registry()
        other._plugins.update(self._plugins)
        other._actions.update(self._actions)
        return other


def _register(
    what: What,
    name: str,
    factory: Callable[[Arguments], MadeT] | type[MadeT],
    factories: dict[str, Callable[[Arguments], MadeT]],
) -> None:
    if not is_text(name) or not name.strip() or "," in name:
        raise RegistryError(
            f"expected a name for {what}, got {shown(name)}; use a string without commas"
        )
    if name in factories:
        raise RegistryError(f"{what} {name!r} is already registered; choose another name")
    if not callable(factory):
        raise RegistryError(
            f"{what} {name!r}: expected a callable that takes its arguments, got {shown(factory)}"
        )
    factories[name] = _maker(factory)


def _maker(factory: Callable[[Arguments], MadeT] | type[MadeT]) -> Callable[[Arguments], MadeT]:
    """Return a function that creates a plugin or action from arguments."""
    if not isinstance(factory, type):
        return factory
    from_arguments: Callable[[Arguments], MadeT] | None = getattr(factory, "from_arguments", None)
    if from_arguments is not None:
        return from_arguments
    try:
        signature(factory).bind()
    except (TypeError, ValueError):
        return cast("Callable[[Arguments], MadeT]", factory)

    without_arguments = cast("Callable[[], MadeT]", factory)

    def make(_arguments: Arguments) -> MadeT:
        return without_arguments()

    return make


def factory_of(
    what: What, name: str, registry: Registry
) -> Callable[[Arguments], Plugin | Action] | None:
    """Return the factory of a plugin or action, or None."""
    return registry.plugin_factory(name) if what == "plugin" else registry.action_factory(name)


def names_of(what: What, registry: Registry) -> tuple[str, ...]:
    """Return the names of all plugins or actions, sorted."""
    return registry.plugin_names if what == "plugin" else registry.action_names


def unknown_name(what: What, name: str, registry: Registry) -> str:
    """Return the message for a name that is not registered."""
    names = names_of(what, registry)
    hint = did_you_mean(name, names)
    return f"{what} {shown(name)} is not registered; {hint and hint + ' '}known: {', '.join(names)}"


_PLUGINS = {
    "capacity": "batchsched.plugins.capacity.plugin:CapacityPlugin",
    "conformance": "batchsched.plugins.conformance:ConformancePlugin",
    "devices": "batchsched.plugins.devices:DevicesPlugin",
    "drf": "batchsched.plugins.drf:DrfPlugin",
    "fcfs": "batchsched.plugins.by_time:FcfsPlugin",
    "gang": "batchsched.plugins.gang:GangPlugin",
    "las": "batchsched.plugins.by_time:LasPlugin",
    "nodeorder": "batchsched.plugins.nodeorder:NodeOrderPlugin",
    "placement": "batchsched.plugins.placement:PlacementPlugin",
    "predicates": "batchsched.plugins.predicates:PredicatesPlugin",
    "priority": "batchsched.plugins.priority:PriorityPlugin",
    "proportion": "batchsched.plugins.proportion:ProportionPlugin",
    "protection": "batchsched.plugins.protection.plugin:ProtectionPlugin",
    "sjf": "batchsched.plugins.by_time:SjfPlugin",
    "sla": "batchsched.plugins.by_time:SlaPlugin",
    "topology": "batchsched.plugins.topology.plugin:TopologyPlugin",
    "usage": "batchsched.plugins.usage:UsagePlugin",
}
"""Where the classes of the built-in plugins stand, by name."""

_ACTIONS = {
    "allocate": "batchsched.actions.allocate:AllocateAction",
    "backfill": "batchsched.actions.backfill:BackfillAction",
    "consolidate": "batchsched.actions.consolidate:ConsolidateAction",
    "plan": "batchsched.actions.plan:PlanAction",
    "preempt": "batchsched.actions.preempt:PreemptAction",
    "reclaim": "batchsched.actions.reclaim:ReclaimAction",
    "reserve": "batchsched.actions.reserve:ReserveAction",
}
"""The same for actions."""


@frozen
class _BuiltIn:
    """Makes a built-in plugin or action, whose module only a configuration that names it imports.

    Equal in all registries.
    """

    place: str

    def __call__(self, arguments: Arguments, /) -> Any:
        module, name = self.place.split(":")
        return getattr(import_module(module), name).from_arguments(arguments)


def default_registry() -> Registry:
    """Return a new registry with all built-in plugins and actions, to which you can add yours."""
    registry = Registry()
    for name, place in _PLUGINS.items():
        registry.register_plugin(name, _BuiltIn(place))
    for name, place in _ACTIONS.items():
        registry.register_action(name, _BuiltIn(place))
    return registry
