"""The configuration: which actions run, and which plugins decide, tier by tier.

It is also read from the parsed content of a kube-batch or Volcano configuration file. What is not
known there is a fault, or, where the caller asks for it, left out with a notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar, cast

from attrs import evolve, field, frozen

from batchsched.config.options import (
    DEFAULT_ACTIONS,
    DEFAULT_TIERS,
    ENABLE_FLAGS,
    ActionOption,
    ConfigCheck,
    Placed,
    PluginOption,
    Tier,
    checked,
    of_unknown,
    unknown_flag,
    unknown_key,
    with_default_tiers,
)
from batchsched.config.registry import (
    Registry,
    What,
    default_registry,
    factory_of,
    names_of,
    unknown_name,
)
from batchsched.errors import ConfigError, Fault
from batchsched.model.immutable import AsTuple
from batchsched.model.notice import Notice, NoticeCode, NoticeCollector
from batchsched.model.serialisation import Format, JsonValue, is_list
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


@frozen(kw_only=True)
class SchedulerConfig:
    """Which actions run, in order, and which plugins decide, tier by tier.

    By default: the actions allocate and backfill, with two tiers: priority, gang, conformance,
    protection; and drf, predicates, devices, topology, capacity, nodeorder. This is kube-batch's
    default with four exceptions: protection, devices and topology do what jobs and queues ask for
    (who must not be evicted, claims of devices, racks); capacity replaces proportion; drf does not
    decide which tasks preempt may evict (``enablePreemptable: false``); and gang lets a job at its
    minimum be evicted as a whole (``atMinimum: whole-job``). Besides, preempt and reclaim have the
    argument ``curable`` then, and preempt ``unblock``. In a configuration that names other tiers,
    gang protects jobs at their minimum unless `atMinimum` says otherwise, and these two are false
    unless they are given.
    """

    actions: tuple[ActionOption, ...] = field(
        default=DEFAULT_ACTIONS, converter=AsTuple[ActionOption]
    )
    tiers: tuple[Tier, ...] = field(default=DEFAULT_TIERS, converter=AsTuple[Tier])
    notices: tuple[Notice, ...] = field(default=(), eq=False, repr=False)
    """What was ignored when the configuration was read with ``unknown="notice"``."""

    def __str__(self) -> str:
        """Return the names of the actions and, tier by tier, of the plugins, in one line.

        >>> print(SchedulerConfig())
        allocate, backfill; priority, gang, conformance, protection \
| drf, predicates, devices, topology, capacity, nodeorder
        """
        actions = ", ".join(action.name for action in self.actions)
        tiers = " | ".join(", ".join(one.name for one in tier.plugins) for tier in self.tiers)
        return f"{actions}; {tiers}"

    @classmethod
    def from_mapping(
        cls,
        mapping: Mapping[str, object],
        /,
        *,
        registry: Registry | None = None,
        unknown: Literal["fault", "notice"] = "fault",
    ) -> SchedulerConfig:
        """Create a configuration from a parsed kube-batch or Volcano configuration file.

        Args:
            mapping: ``actions``: a string with commas, or a list of names or of ``{name,
                arguments}``. ``tiers``: a list of ``{plugins: [...]}``, with ``{name,
                enable...: false, arguments: {...}}`` for each plugin. Without one of them, its
                default applies; one at least must be given, for a mapping of neither is no
                configuration. Volcano's ``configurations``, a list of ``{name, arguments}``, adds
                arguments to actions.
            registry: the plugins and actions that may be named; None: the built-in ones.
            unknown: how to treat unknown actions, plugins, flags, arguments and other keys.
                ``"fault"``: as faults. ``"notice"``: they are ignored, and `notices` says what
                follows from each. A name is unknown if it is not in `registry`.

        Raises:
            ConfigError: unknown names (unless ``unknown="notice"``), values of the wrong type, or
                neither actions nor tiers, all at once; or `unknown` is neither of the two.

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
did you mean 'unready'? known: curable, evictBackfill, retry, starvationThreshold, unready
        >>> volcano = {"actions": "enqueue, allocate", "tiers": [{"plugins": [{"name": "tdm"}]}]}
        >>> config = SchedulerConfig.from_mapping(volcano, unknown="notice")
        >>> [action.name for action in config.actions]
        ['allocate']
        >>> print(config.notices[1])
        1 x plugin tdm: left out: all nodes count as permanent (tiers[0].plugins[0])

        """
        if not is_text(unknown) or unknown not in ("fault", "notice"):
            message = f"expected 'fault' or 'notice', got {shown(unknown)}"
            raise ConfigError([Fault("unknown", message)])
        collector = NoticeCollector() if unknown == "notice" else None
        known = default_registry() if registry is None else registry
        reader = ConfigReader(notices=collector, registry=known if is_of(known, Registry) else None)
        placed, placed_by_tier = reader.read(mapping)
        actions = tuple(action for _, action in placed)
        tiers = tuple(Tier(plugins=[plugin for _, plugin in each]) for each in placed_by_tier)
        parts: list[Placed] = [("action", path, action) for path, action in placed]
        parts.extend(("plugin", path, plugin) for tier in placed_by_tier for path, plugin in tier)

        check = ConfigCheck(known, names_too=True, has_default_tiers=tiers == DEFAULT_TIERS)
        check.parts(parts)
        faults = check.faults
        if reader.faults or faults:
            raise ConfigError([*reader.faults, *faults])
        found = () if collector is None else collector.notices()
        return cls(actions=actions, tiers=tiers, notices=found)

    # The same, but for something

    def with_plugins(
        self,
        *plugins: str | Mapping[str, object] | PluginOption,
        tier: int | None = None,
        registry: Registry | None = None,
    ) -> SchedulerConfig:
        """Return this configuration with further plugins; all others stay as they are.

        Args:
            plugins: names, or mappings as in `from_mapping`: ``{"name": "usage", "arguments": {"k":
                0.5}}``.
            tier: the position of the tier at whose end they come. None: the last one.
            registry: the plugins that may be named; None: the built-in ones.

        Raises:
            ConfigError: unknown names, arguments or flags, plugins that are there already or
                exclude others, or no such tier; all at once.

        >>> config = SchedulerConfig().with_plugins("placement", {"name": "usage"})
        >>> print(config)
        allocate, backfill; priority, gang, conformance, protection \
| drf, predicates, devices, topology, capacity, nodeorder, placement, usage
        """
        reader = ConfigReader()
        added: list[PluginOption] = []
        faults: list[Fault] = []
        known = default_registry() if registry is None else registry
        for position, given in enumerate(plugins):
            path = f"plugins[{position}]"
            option = given if is_of(given, PluginOption) else reader.plugin(path, given)
            if option is None:
                continue
            added.append(option)
            is_known = not is_of(known, Registry) or not is_text(option.name)
            if not (is_known or factory_of("plugin", option.name, known)):
                faults.append(Fault(path, unknown_name("plugin", option.name, known)))
        place = len(self.tiers) - 1 if tier is None else tier
        if type(place) is not int or not 0 <= place < len(self.tiers):
            expected = f"expected the position of one of {len(self.tiers)} tiers, from 0"
            faults.append(Fault("tier", f"{expected}, got {shown(tier)}"))
        if reader.faults or faults:
            raise ConfigError([*reader.faults, *faults])
        tiers = [
            Tier(plugins=[*each.plugins, *added]) if position == place else each
            for position, each in enumerate(self.tiers)
        ]
        return self._changed(self.actions, tiers, known)

    def without_plugins(self, *names: str) -> SchedulerConfig:
        """Return this configuration without some plugins; a tier that has no others goes, too.

        Raises:
            ConfigError: it has no such plugins.

        >>> print(SchedulerConfig().without_plugins("drf", "nodeorder"))
        allocate, backfill; priority, gang, conformance, protection \
| predicates, devices, topology, capacity
        """
        there = [plugin.name for tier in self.tiers for plugin in tier.plugins]
        self._expect_named("names", names, there, "plugin")
        left = [
            [plugin for plugin in tier.plugins if plugin.name not in names] for tier in self.tiers
        ]
        return self._changed(self.actions, [Tier(plugins=each) for each in left if each], None)

    def with_arguments(self, name: str, /, **arguments: ArgumentValue) -> SchedulerConfig:
        """Return this configuration with arguments of a plugin or action; its others stay.

        Raises:
            ConfigError: there is no such plugin or action here, or the arguments are wrong.

        >>> config = SchedulerConfig().with_arguments("gang", atMinimum="protect")
        >>> config.tiers[0].plugins[1].arguments
        {'atMinimum': 'protect'}
        >>> config = config.with_arguments("nodeorder", **{"mostrequested.weight": 1})

        """
        plugins = [plugin.name for tier in self.tiers for plugin in tier.plugins]
        actions = [action.name for action in self.actions]
        self._expect_named("name", [name], [*plugins, *actions], "plugin or action")

        def given(option: OptionT) -> OptionT:
            if option.name != name:
                return option
            return evolve(option, arguments={**option.arguments, **arguments})

        tiers = [Tier(plugins=[given(plugin) for plugin in tier.plugins]) for tier in self.tiers]
        return self._changed([given(action) for action in self.actions], tiers, None)

    @staticmethod
    def _expect_named(path: str, names: Sequence[str], there: Sequence[str], what: str) -> None:
        missing = [name for name in names if name not in there]
        if missing:
            faults = [
                f"{what} {shown(name)} is not configured; configured: {', '.join(there)}"
                for name in missing
            ]
            raise ConfigError([Fault(path, each) for each in faults])

    def _changed(
        self, actions: Sequence[ActionOption], tiers: Sequence[Tier], registry: Registry | None
    ) -> SchedulerConfig:
        """Return a configuration with other parts, if it is valid.

        What actions have by default with the default tiers stays with them.
        """
        options = tuple(actions)
        if self.tiers == DEFAULT_TIERS and tuple(tiers) != DEFAULT_TIERS:
            options = tuple(map(with_default_tiers, actions))
        changed = evolve(self, actions=options, tiers=tuple(tiers))
        known = default_registry() if registry is None else registry
        faults = checked(changed.actions, changed.tiers, known, names_too=False).faults
        if faults:
            raise ConfigError(faults)
        return changed

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the configuration as dicts, lists, strings and numbers only, ready for JSON.

        Values that equal their default are omitted. `from_dict` reads this format;
        `from_mapping` reads that of kube-batch and Volcano.
        """
        return _FORMAT.to_dict(self)

    @classmethod
    def from_dict(
        cls, given: Mapping[str, object], /, *, registry: Registry | None = None
    ) -> SchedulerConfig:
        """Create a configuration from the output of `to_dict`.

        Args:
            given: the output of `to_dict`.
            registry: the plugins and actions that may be named; see `from_mapping`.

        Raises:
            ConfigError: it cannot be read, was written by a newer version, or is invalid; all
                faults at once, each with its path.

        >>> SchedulerConfig.from_dict(SchedulerConfig().to_dict()) == SchedulerConfig()
        True

        """
        config = _FORMAT.from_dict(given)
        known = default_registry() if registry is None else registry
        faults = checked(config.actions, config.tiers, known, names_too=True).faults
        if faults:
            raise ConfigError(faults)
        return config

    @classmethod
    def json_schema(cls) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of the output of `to_dict`."""
        return _FORMAT.json_schema()


_FORMAT = Format(SchedulerConfig, version=1, error=ConfigError)


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
