"""Reads the parsed content of a kube-batch or Volcano configuration file.

What is not known there is a fault, or, where the caller asks for it, left out with a notice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from attrs import evolve

from batchsched.config.options import (
    DEFAULT_ACTIONS,
    DEFAULT_TIERS,
    ENABLE_FLAGS,
    ActionOption,
    PluginOption,
    Tier,
    of_unknown,
    unknown_flag,
    unknown_key,
)
from batchsched.config.registry import Registry, What, factory_of, names_of
from batchsched.errors import Fault
from batchsched.model.notice import NoticeCode, NoticeCollector
from batchsched.model.validation.values import (
    is_integer,
    is_mapping,
    is_of,
    is_text,
    items_in,
    items_of,
    join_path,
    shown,
)
from batchsched.plugin.arguments import Arguments, ArgumentValue, as_boolean

OptionT = TypeVar("OptionT", ActionOption, PluginOption)


class ConfigReader:
    """Reads the parsed content of a configuration file, and collects its faults."""

    def __init__(
        self, *, notices: NoticeCollector | None = None, registry: Registry | None = None
    ) -> None:
        """Create a reader.

        Args:
            notices: receives what is unknown, and is left out. None: unknown keys and flags are
                faults.
            registry: with `notices`, the names and arguments that are known; None: all may be.

        """
        self._notices, self._registry = notices, registry
        self.faults: list[Fault] = []
        self.action_paths: list[str] = [f"actions[{i}]" for i in range(len(DEFAULT_ACTIONS))]
        """The path of each action in the input, without the entries that cannot be read."""
        self.plugin_paths: list[list[str]] = [
            [f"tiers[{t}].plugins[{i}]" for i in range(len(tier.plugins))]
            for t, tier in enumerate(DEFAULT_TIERS)
        ]
        """The path of each plugin, tier by tier."""

    def read(self, mapping: object) -> tuple[tuple[ActionOption, ...], tuple[Tier, ...]]:
        """Return the actions and tiers that `mapping` describes, as far as they can be read."""
        content = self._mapping("", mapping)
        if content.get("kind") == "ConfigMap":
            data = content.get("data")
            keys = ", ".join(sorted(map(str, data))) if is_mapping(data) and data else "none"
            message = "this is a ConfigMap: give data['volcano-scheduler.conf']"
            self._fault("", f"{message}; its keys: {keys}")
            return DEFAULT_ACTIONS, DEFAULT_TIERS
        self._check_keys("", content, ("actions", "tiers", "configurations"))
        if is_mapping(mapping) and not content.keys() & {"actions", "tiers"}:
            keys = ", ".join(sorted(content)) or "none"
            message = "expected `actions`, `tiers` or both, got neither"
            default = "SchedulerConfig() is the default configuration"
            self._fault("", f"{message}; its keys: {keys}; {default}")
        actions, tiers = DEFAULT_ACTIONS, DEFAULT_TIERS
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
        if self._notices is None or self._registry is None:
            return actions, tiers
        actions, self.action_paths = self._known("action", actions, self.action_paths)
        kept = [
            self._known("plugin", tier.plugins, paths)
            for tier, paths in zip(tiers, self.plugin_paths, strict=True)
        ]
        self.plugin_paths = [paths for _, paths in kept]
        return actions, tuple(Tier(plugins=plugins) for plugins, _ in kept)

    def _actions(self, given: object) -> tuple[ActionOption, ...]:
        if is_text(given):
            names = [name.strip() for name in given.split(",")]
            if not all(names):
                self._fault("actions", f"expected names separated by commas, got {shown(given)}")
            self.action_paths = [f"actions[{i}]" for i, name in enumerate(names) if name]
            return tuple(ActionOption(name=name) for name in names if name)
        options: list[ActionOption] = []
        self.action_paths = []
        for position, item in enumerate(self._list("actions", given)):
            path = f"actions[{position}]"
            if is_text(item):
                self.action_paths.append(path)
                options.append(ActionOption(name=item.strip()))
                continue
            content = self._mapping(path, item)
            self._check_keys(path, content, ("name", "arguments"))
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
            self._check_keys(path, content, ("name", "arguments"))
            name = self._name(path, content)
            arguments = self._arguments(f"{path}.arguments", content.get("arguments"))
            if name is None:
                continue
            if name in extra:
                self._fault(f"{path}.name", f"duplicate name {shown(name)} in `configurations`")
            if not any(action.name == name for action in actions):
                if self._notices is not None:
                    code, _ = of_unknown(NoticeCode.UNKNOWN_ACTION, name, ())
                    consequence = "left out: the action does not run"
                    self._note(code, "arguments of", name, path, consequence)
                    continue
                self._fault(
                    f"{path}.name",
                    f"expected one of the configured actions, got {shown(name)}",
                )
            extra[name] = arguments
        return tuple(
            ActionOption(
                name=action.name, arguments={**extra.get(action.name, {}), **action.arguments}
            )
            for action in actions
        )

    def _tier(self, path: str, given: object) -> Tier:
        content = self._mapping(path, given)
        self._check_keys(path, content, ("plugins",))
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
        if is_text(given):
            given = {"name": given}
        content = self._mapping(path, given)
        flags: dict[str, bool] = {}
        for key, value in content.items():
            if key in ("name", "arguments"):
                continue
            if key not in ENABLE_FLAGS:
                known = ("name", *ENABLE_FLAGS, "arguments")
                if self._notices is None:
                    self._fault(f"{path}.{key}", unknown_flag(key, known))
                else:
                    code, consequence = of_unknown(NoticeCode.UNKNOWN_FLAG, key, known)
                    self._note(code, "flag", key, f"{path}.{key}", consequence)
                continue
            truth = as_boolean(value)
            if truth is None:
                self._fault(f"{path}.{key}", f"expected true or false, got {shown(value)}")
            else:
                flags[key] = truth
        name = self._name(path, content)
        arguments = self._arguments(f"{path}.arguments", content.get("arguments"))
        return None if name is None else PluginOption(name=name, flags=flags, arguments=arguments)

    def _name(self, path: str, content: Mapping[str, object]) -> str | None:
        name = content.get("name")
        if is_text(name) and name.strip():
            return name.strip()
        self._fault(
            f"{path}.name",
            f"expected a name, got {shown(name)}" if "name" in content else "is missing",
        )
        return None

    def _arguments(self, path: str, given: object) -> Mapping[str, ArgumentValue]:
        arguments: dict[str, ArgumentValue] = {}
        for name, value in self._mapping(path, {} if given is None else given).items():
            if is_text(value) or is_of(value, int) or is_of(value, float):
                arguments[name] = value
            elif is_mapping(value) and all(
                is_text(key) and is_integer(item) for key, item in items_of(value)
            ):
                arguments[name] = cast("ArgumentValue", value)
            elif self._notices is not None:
                # An unknown argument is dropped anyway; the value of a known one is checked by the
                # plugin or action that reads it.
                arguments[name] = cast("ArgumentValue", value)
            else:
                message = f"expected a string, a number or a boolean, got {shown(value)}"
                self._fault(f"{path}[{shown(name)}]", message)
        return arguments

    def _mapping(self, path: str, given: object) -> Mapping[str, object]:
        if is_mapping(given):
            return {key if is_text(key) else shown(key): item for key, item in items_of(given)}
        self._fault(path, f"expected a mapping, got {shown(given)}")
        return {}

    def _list(self, path: str, given: object) -> Sequence[object]:
        if is_of(given, Sequence) and not isinstance(given, str | bytes):  # type: ignore[type-abstract]
            return list(items_in(cast("Sequence[object]", given)))
        self._fault(path, f"expected a list, got {shown(given)}")
        return []

    def _check_keys(self, path: str, content: Mapping[str, object], known: tuple[str, ...]) -> None:
        for key in content:
            if key in known:
                continue
            where = join_path(path, key)
            if self._notices is None:
                self._fault(where, unknown_key(key, known))
            else:
                code, consequence = of_unknown(NoticeCode.UNKNOWN_KEY, key, known)
                self._note(code, "key", key, where, consequence)

    def _known(
        self, what: What, options: Sequence[OptionT], paths: Sequence[str]
    ) -> tuple[tuple[OptionT, ...], list[str]]:
        """Return the options that are known, with the arguments that they read, and their paths."""
        assert self._registry is not None
        kept: list[OptionT] = []
        kept_paths: list[str] = []
        for option, path in zip(options, paths, strict=True):
            factory = factory_of(what, option.name, self._registry)
            if factory is None:
                code = NoticeCode.UNKNOWN_ACTION if what == "action" else NoticeCode.UNKNOWN_PLUGIN
                code, consequence = of_unknown(code, option.name, names_of(what, self._registry))
                self._note(code, what, option.name, path, consequence)
                continue
            arguments = self._known_arguments(option.arguments, factory, f"{path}.arguments")
            kept.append(evolve(option, arguments=arguments))
            kept_paths.append(path)
        return tuple(kept), kept_paths

    def _known_arguments(
        self,
        given: Mapping[str, ArgumentValue],
        factory: Callable[[Arguments], object],
        path: str,
    ) -> Mapping[str, ArgumentValue]:
        probe = Arguments(given, path)
        try:
            factory(probe)
        except Exception:
            return given  # the check of the configuration reports the fault
        unknown = probe.unknown_names()
        for name in unknown:
            known = probe.known_names()
            code, consequence = of_unknown(NoticeCode.UNKNOWN_ARGUMENT, name, known)
            self._note(code, "argument", name, f"{path}[{name!r}]", consequence)
        return {name: value for name, value in given.items() if name not in unknown}

    def _note(self, code: NoticeCode, kind: str, name: str, path: str, consequence: str) -> None:
        assert self._notices is not None
        self._notices.note(code, kind, name, name=path, path=path, consequence=consequence)

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))
