"""Reads the parsed content of a kube-batch or Volcano configuration file.

What is not known there is a fault, or, where the caller asks for it, left out with a notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from attrs import evolve

from batchsched.config.options import (
    DEFAULT_ACTIONS,
    DEFAULT_TIERS,
    ENABLE_FLAGS,
    ActionOption,
    PluginOption,
    of_unknown,
    unknown_flag,
    unknown_key,
)
from batchsched.config.registry import Registry, What, factory_of, names_of
from batchsched.errors import Fault
from batchsched.model.notice import NoticeCode, NoticeCollector
from batchsched.model.serialisation import is_list
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
Actions = list[tuple[str, ActionOption]]
"""Actions with their paths in the input."""
Plugins = list[tuple[str, PluginOption]]


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

    def read(self, mapping: object) -> tuple[Actions, list[Plugins]]:
        """Return the actions, and the plugins of each tier, as far as they can be read."""
        actions: Actions = [(f"actions[{i}]", each) for i, each in enumerate(DEFAULT_ACTIONS)]
        tiers: list[Plugins] = [
            [(f"tiers[{t}].plugins[{i}]", each) for i, each in enumerate(tier.plugins)]
            for t, tier in enumerate(DEFAULT_TIERS)
        ]
        content = self._mapping("", mapping)
        if content.get("kind") == "ConfigMap":
            data = content.get("data")
            keys = ", ".join(sorted(map(str, data))) if is_mapping(data) and data else "none"
            message = "this is a ConfigMap: give data['volcano-scheduler.conf']"
            self._fault("", f"{message}; its keys: {keys}")
            return actions, tiers
        self._check_keys("", content, ("actions", "tiers", "configurations"))
        if is_mapping(mapping) and not content.keys() & {"actions", "tiers"}:
            keys = ", ".join(sorted(content)) or "none"
            message = "expected `actions`, `tiers` or both, got neither"
            default = "SchedulerConfig() is the default configuration"
            self._fault("", f"{message}; its keys: {keys}; {default}")
        if content.get("actions") is not None:
            actions = list(self._actions(content["actions"]))
        if content.get("configurations") is not None:
            actions = self._configured(actions, content["configurations"])
        if content.get("tiers") is not None:
            tiers = [list(self._tier(*each)) for each in self._items("tiers", content["tiers"])]
        if self._notices is None or self._registry is None:
            return actions, tiers
        known = list(self._known("action", actions))
        return known, [list(self._known("plugin", tier)) for tier in tiers]

    def _actions(self, given: object) -> Iterator[tuple[str, ActionOption]]:
        if is_text(given):
            words = [word.strip() for word in given.split(",")]
            if not all(words):
                self._fault("actions", f"expected names separated by commas, got {shown(given)}")
            for position, word in enumerate(words):
                if word:
                    yield f"actions[{position}]", ActionOption(name=word)
            return
        for path, item in self._items("actions", given):
            if is_text(item):
                yield path, ActionOption(name=item.strip())
                continue
            name, arguments = self._action(path, item)
            if name is not None:
                yield path, ActionOption(name=name, arguments=arguments)

    def _action(self, path: str, given: object) -> tuple[str | None, Mapping[str, ArgumentValue]]:
        """Return the name and the arguments of an action; None: it has none that can be read."""
        content = self._mapping(path, given)
        self._check_keys(path, content, ("name", "arguments"))
        name = self._name(path, content)
        return name, self._arguments(f"{path}.arguments", content.get("arguments"))

    def _configured(self, actions: Actions, given: object) -> Actions:
        extra: dict[str, Mapping[str, ArgumentValue]] = {}
        for path, item in self._items("configurations", given):
            name, arguments = self._action(path, item)
            if name is None:
                continue
            if name in extra:
                self._fault(f"{path}.name", f"duplicate name {shown(name)} in `configurations`")
            if not any(action.name == name for _, action in actions):
                if self._notices is not None:
                    code, _ = of_unknown(NoticeCode.UNKNOWN_ACTION, name, ())
                    consequence = "left out: the action does not run"
                    self._note(code, "arguments of", name, path, consequence)
                    continue
                message = f"expected one of the configured actions, got {shown(name)}"
                self._fault(f"{path}.name", message)
            extra[name] = arguments
        return [
            (path, evolve(action, arguments={**extra.get(action.name, {}), **action.arguments}))
            for path, action in actions
        ]

    def _tier(self, path: str, given: object) -> Iterator[tuple[str, PluginOption]]:
        content = self._mapping(path, given)
        self._check_keys(path, content, ("plugins",))
        plugins = content.get("plugins")
        for below, item in self._items(f"{path}.plugins", [] if plugins is None else plugins):
            plugin = self.plugin(below, item)
            if plugin is not None:
                yield below, plugin

    def plugin(self, path: str, given: object) -> PluginOption | None:
        """Return a plugin with its options; None: it has no name."""
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
            elif (
                is_mapping(value)
                and all(is_text(key) and is_integer(item) for key, item in items_of(value))
            ) or (is_list(value) and all(map(is_mapping, items_in(value)))):
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

    def _items(self, path: str, given: object) -> Iterator[tuple[str, object]]:
        """Yield the items of a list with their paths."""
        if is_of(given, Sequence) and not isinstance(given, str | bytes):  # type: ignore[type-abstract]
            for position, item in enumerate(items_in(cast("Sequence[object]", given))):
                yield f"{path}[{position}]", item
        else:
            self._fault(path, f"expected a list, got {shown(given)}")

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
        self, what: What, options: Iterable[tuple[str, OptionT]]
    ) -> Iterator[tuple[str, OptionT]]:
        """Yield the options that are known, with the arguments that they read."""
        assert self._registry is not None
        for path, option in options:
            factory = factory_of(what, option.name, self._registry)
            if factory is None:
                code = NoticeCode.UNKNOWN_ACTION if what == "action" else NoticeCode.UNKNOWN_PLUGIN
                code, consequence = of_unknown(code, option.name, names_of(what, self._registry))
                self._note(code, what, option.name, path, consequence)
                continue
            arguments = self._known_arguments(option.arguments, factory, f"{path}.arguments")
            yield path, evolve(option, arguments=arguments)

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
