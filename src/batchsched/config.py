"""The configuration: which actions run, and which plugins decide, tier by tier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar, cast

from attrs import field, frozen

from batchsched.actions.action import Action
from batchsched.arguments import Arguments, ArgumentValue, as_boolean
from batchsched.asking import problem_of
from batchsched.defaults import default_registry
from batchsched.errors import ConfigError, Fault
from batchsched.frozen import FrozenMap, frozen_map
from batchsched.plugin import Plugin
from batchsched.registry import Registry, unknown_name

__all__ = ["ENABLE_FLAGS", "ActionOption", "PluginOption", "SchedulerConfig", "Tier"]

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

_NO_ARGUMENTS: Mapping[str, ArgumentValue] = FrozenMap()

OptionT = TypeVar("OptionT")


# Converters of one type each: type checkers do not see through generic ones.


def _arguments(given: Mapping[str, ArgumentValue]) -> Mapping[str, ArgumentValue]:
    return frozen_map(given)


def _flags(given: Mapping[str, bool]) -> Mapping[str, bool]:
    return frozen_map(given)


def _actions(given: Iterable[ActionOption]) -> tuple[ActionOption, ...]:
    return _listed(given)


def _plugins(given: Iterable[PluginOption]) -> tuple[PluginOption, ...]:
    return _listed(given)


def _tiers(given: Iterable[Tier]) -> tuple[Tier, ...]:
    return _listed(given)


def _listed(given: Iterable[OptionT]) -> tuple[OptionT, ...]:
    # A text is told to be wrong as a whole, not letter by letter; see `config_faults`.
    return (cast("OptionT", given),) if isinstance(given, str) else tuple(given)


@frozen(kw_only=True)
class ActionOption:
    """An action in a configuration."""

    name: str
    arguments: Mapping[str, ArgumentValue] = field(default=_NO_ARGUMENTS, converter=_arguments)


@frozen(kw_only=True)
class PluginOption:
    """A plugin in a configuration."""

    name: str
    flags: Mapping[str, bool] = field(default=FrozenMap(), converter=_flags)
    """Which of its extension points are on, by the names in `ENABLE_FLAGS`; all by default."""
    arguments: Mapping[str, ArgumentValue] = field(default=_NO_ARGUMENTS, converter=_arguments)


@frozen(kw_only=True)
class Tier:
    """Plugins that are asked together; see section 5 of the specification."""

    plugins: tuple[PluginOption, ...] = field(default=(), converter=_plugins)


def _tier(*names: str) -> Tier:
    return Tier(plugins=[PluginOption(name=name) for name in names])


@frozen(kw_only=True)
class SchedulerConfig:
    """Which actions run, in order, and which plugins decide, tier by tier.

    By default: allocate and backfill, with the tiers priority, gang, conformance and
    drf, predicates, proportion, nodeorder.
    """

    actions: tuple[ActionOption, ...] = field(
        default=(ActionOption(name="allocate"), ActionOption(name="backfill")), converter=_actions
    )
    tiers: tuple[Tier, ...] = field(
        default=(
            _tier("priority", "gang", "conformance"),
            _tier("drf", "predicates", "proportion", "nodeorder"),
        ),
        converter=_tiers,
    )

    @classmethod
    def from_mapping(
        cls, mapping: Mapping[str, object], /, *, registry: Registry | None = None
    ) -> SchedulerConfig:
        """Read what a kube-batch or Volcano configuration file holds, once it is parsed.

        Args:
            mapping: ``actions``, as a text with commas or as a list of names or of
                ``{name, arguments}``; ``tiers``, a list of ``{plugins: [...]}`` with
                ``{name, enable...: false, arguments: {...}}`` each; both may be left
                out for the default. Volcano's ``configurations``, a list of ``{name,
                arguments}``, adds arguments to actions.
            registry: what may be named. None: arguments of the default registry's
                plugins and actions are checked here, and other names when a
                `Scheduler` is built with the registry that knows them.

        Raises:
            ConfigError: anything unknown or ill-typed, all at once.

        >>> config = SchedulerConfig.from_mapping({
        ...     "actions": "reclaim, allocate",
        ...     "tiers": [{"plugins": [{"name": "gang", "enableJobOrder": False}]}],
        ... })
        >>> [action.name for action in config.actions]
        ['reclaim', 'allocate']
        >>> wrong = {"name": "allocate", "arguments": {"unredy": 1}}
        >>> SchedulerConfig.from_mapping({"actions": [wrong]})
        Traceback (most recent call last):
        ...
        batchsched.errors.ConfigError: actions[0].arguments['unredy']: unknown argument; \
did you mean 'unready'? known: evictBackfill, starvationThreshold, unready

        """
        reader = _Reader()
        config = reader.config(mapping)
        known = default_registry() if registry is None else registry
        paths = (reader.action_paths, reader.plugin_paths)
        named = registry is not None
        faults = list(config_faults(config, known, unknown_names_too=named, paths=paths))
        if not named and (faults or reader.faults):
            # There is something to be mended anyway: say what may have to be mended besides.
            faults = list(config_faults(config, known, paths=paths))
        if reader.faults or faults:
            raise ConfigError([*reader.faults, *faults])
        return config


def config_faults(
    config: SchedulerConfig,
    registry: Registry,
    *,
    unknown_names_too: bool = True,
    paths: tuple[list[str], list[list[str]]] | None = None,
) -> Iterator[Fault]:
    """Yield what is wrong with a configuration, given what may be named.

    `paths` says where the actions and plugins stand in what the configuration was read from.
    """
    for position, action in enumerate(config.actions):
        path = f"actions[{position}]" if paths is None else paths[0][position]
        if not _is_a(action, ActionOption):
            yield Fault(path, _not_a(action, "ActionOption(name=...)"))
            continue
        action_factory = registry.action_factory(action.name)
        if action_factory is None:
            if unknown_names_too:
                message = unknown_name("action", action.name, registry.action_names)
                yield Fault(path, message)
            continue
        arguments = Arguments(action.arguments, f"{path}.arguments")
        yield from _made_faults(f"action {action.name!r}", path, action_factory, arguments, Action)
    first: dict[str, str] = {}
    for tier_position, tier in enumerate(config.tiers):
        if not _is_a(tier, Tier):
            yield Fault(f"tiers[{tier_position}]", _not_a(tier, "Tier(plugins=[...])"))
            continue
        for position, plugin in enumerate(tier.plugins):
            path = (
                f"tiers[{tier_position}].plugins[{position}]"
                if paths is None
                else paths[1][tier_position][position]
            )
            if not _is_a(plugin, PluginOption):
                yield Fault(path, _not_a(plugin, "PluginOption(name=...)"))
                continue
            if plugin.name in first:
                yield Fault(path, f"plugin {plugin.name!r} stands in {first[plugin.name]} already")
            first.setdefault(plugin.name, path)
            for flag, is_on in plugin.flags.items():
                if flag not in ENABLE_FLAGS:
                    yield Fault(f"{path}.{flag}", _unknown_key(flag, ENABLE_FLAGS))
                elif not _is_a(is_on, bool):
                    yield Fault(f"{path}.{flag}", f"{is_on!r} is neither true nor false")
            plugin_factory = registry.plugin_factory(plugin.name)
            if plugin_factory is None:
                if unknown_names_too:
                    message = unknown_name("plugin", plugin.name, registry.plugin_names)
                    yield Fault(path, message)
                continue
            arguments = Arguments(plugin.arguments, f"{path}.arguments")
            what = f"plugin {plugin.name!r}"
            yield from _made_faults(what, path, plugin_factory, arguments, Plugin)


def _is_a(value: object, kind: type[object]) -> bool:
    return isinstance(value, kind)


def _not_a(value: object, wanted: str) -> str:
    return f"{value!r} is not what stands here; use {wanted}, or SchedulerConfig.from_mapping"


def _made_faults(
    what: str,
    path: str,
    factory: Callable[[Arguments], object],
    arguments: Arguments,
    protocol: type[object],
) -> Iterator[Fault]:
    try:
        made = factory(arguments)
    except Exception as error:
        yield Fault(path, f"{what} cannot be made of its arguments: {problem_of(error)}")
        return
    if not isinstance(made, protocol):
        method = "execute" if protocol is Action else "open"
        yield Fault(path, f"{what}: its factory gave {made!r}, which has no method {method!r}")
    yield from arguments.faults()


def _unknown_key(key: object, known: Mapping[str, object] | Sequence[str]) -> str:
    close = get_close_matches(str(key), list(known), n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown key; {hint}known: {', '.join(known)}"


class _Reader:
    """Reads the parsed content of a configuration file, and collects what is wrong with it."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        default = SchedulerConfig()
        self.action_paths: list[str] = [f"actions[{i}]" for i in range(len(default.actions))]
        """Where each action stands in what is read; some entries may have been left out."""
        self.plugin_paths: list[list[str]] = [
            [f"tiers[{t}].plugins[{i}]" for i in range(len(tier.plugins))]
            for t, tier in enumerate(default.tiers)
        ]
        """Where each plugin stands, tier by tier."""

    def config(self, mapping: object) -> SchedulerConfig:
        content = self._mapping("", mapping)
        for key in content:
            if key not in ("actions", "tiers", "configurations"):
                self._fault(str(key), _unknown_key(key, ("actions", "tiers", "configurations")))
        default = SchedulerConfig()
        actions, tiers = default.actions, default.tiers
        if content.get("actions") is not None:
            actions = self._actions(content["actions"])
        if content.get("configurations") is not None:
            actions = self._configured(actions, content["configurations"])
        if content.get("tiers") is not None:
            self.plugin_paths = []
            tiers = tuple(
                self._tier(f"tiers[{position}]", tier)
                for position, tier in enumerate(self._list("tiers", content["tiers"]))
            )
        return SchedulerConfig(actions=actions, tiers=tiers)

    def _actions(self, given: object) -> tuple[ActionOption, ...]:
        if isinstance(given, str):
            names = [name.strip() for name in given.split(",")]
            if not all(names):
                self._fault("actions", f"{given!r} names an action without a name")
            self.action_paths = [f"actions[{i}]" for i, name in enumerate(names) if name]
            return tuple(ActionOption(name=name) for name in names if name)
        options: list[ActionOption] = []
        self.action_paths = []
        for position, item in enumerate(self._list("actions", given)):
            path = f"actions[{position}]"
            if isinstance(item, str):
                self.action_paths.append(path)
                options.append(ActionOption(name=item.strip()))
                continue
            content = self._mapping(path, item)
            for key in content:
                if key not in ("name", "arguments"):
                    self._fault(f"{path}.{key}", _unknown_key(key, ("name", "arguments")))
            name = self._name(path, content)
            arguments = self._arguments(f"{path}.arguments", content.get("arguments"))
            if name is not None:
                self.action_paths.append(path)
                options.append(ActionOption(name=name, arguments=arguments))
        return tuple(options)

    def _configured(
        self, actions: tuple[ActionOption, ...], given: object
    ) -> tuple[ActionOption, ...]:
        extra: dict[str, Mapping[str, ArgumentValue]] = {}
        for position, item in enumerate(self._list("configurations", given)):
            path = f"configurations[{position}]"
            content = self._mapping(path, item)
            for key in content:
                if key not in ("name", "arguments"):
                    self._fault(f"{path}.{key}", _unknown_key(key, ("name", "arguments")))
            name = self._name(path, content)
            arguments = self._arguments(f"{path}.arguments", content.get("arguments"))
            if name is None:
                continue
            if name in extra:
                self._fault(f"{path}.name", f"{name!r} stands in `configurations` twice")
            if not any(action.name == name for action in actions):
                self._fault(f"{path}.name", f"{name!r} is none of the actions that are to run")
            extra[name] = arguments
        return tuple(
            ActionOption(
                name=action.name, arguments={**extra.get(action.name, {}), **action.arguments}
            )
            for action in actions
        )

    def _tier(self, path: str, given: object) -> Tier:
        content = self._mapping(path, given)
        for key in content:
            if key != "plugins":
                self._fault(f"{path}.{key}", _unknown_key(key, ("plugins",)))
        plugins: list[PluginOption] = []
        paths: list[str] = []
        self.plugin_paths.append(paths)
        given_plugins = content.get("plugins")
        items = self._list(f"{path}.plugins", [] if given_plugins is None else given_plugins)
        for position, item in enumerate(items):
            plugin = self._plugin(f"{path}.plugins[{position}]", item)
            if plugin is not None:
                paths.append(f"{path}.plugins[{position}]")
                plugins.append(plugin)
        return Tier(plugins=plugins)

    def _plugin(self, path: str, given: object) -> PluginOption | None:
        if isinstance(given, str):
            given = {"name": given}
        content = self._mapping(path, given)
        flags: dict[str, bool] = {}
        for key, value in content.items():
            if key in ("name", "arguments"):
                continue
            if key not in ENABLE_FLAGS:
                known = ("name", *ENABLE_FLAGS, "arguments")
                self._fault(f"{path}.{key}", _unknown_key(key, known))
                continue
            truth = as_boolean(value)
            if truth is None:
                self._fault(f"{path}.{key}", f"{value!r} is neither true nor false")
            else:
                flags[key] = truth
        name = self._name(path, content)
        arguments = self._arguments(f"{path}.arguments", content.get("arguments"))
        return None if name is None else PluginOption(name=name, flags=flags, arguments=arguments)

    def _name(self, path: str, content: Mapping[str, object]) -> str | None:
        name = content.get("name")
        if isinstance(name, str) and name.strip():
            return name.strip()
        self._fault(f"{path}.name", f"{name!r} is no name" if "name" in content else "is missing")
        return None

    def _arguments(self, path: str, given: object) -> Mapping[str, ArgumentValue]:
        arguments: dict[str, ArgumentValue] = {}
        for name, value in self._mapping(path, {} if given is None else given).items():
            if isinstance(value, str | int | float):
                arguments[name] = value
            else:
                message = f"{value!r} is no text, number or truth value"
                self._fault(f"{path}[{name!r}]", message)
        return arguments

    def _mapping(self, path: str, given: object) -> Mapping[str, object]:
        if isinstance(given, Mapping):
            content = cast("Mapping[object, object]", given)
            return {str(key): value for key, value in content.items()}
        self._fault(path, f"{given!r} is no mapping")
        return {}

    def _list(self, path: str, given: object) -> Sequence[object]:
        if isinstance(given, Sequence) and not isinstance(given, str | bytes):
            return list(cast("Sequence[object]", given))
        self._fault(path, f"{given!r} is no list")
        return []

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))
