"""The configuration: which actions run, and which plugins decide, tier by tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from attrs import evolve, field, frozen

from batchsched.config.options import (
    DEFAULT_ACTIONS,
    DEFAULT_TIERS,
    ActionOption,
    ConfigCheck,
    Placed,
    PluginOption,
    Tier,
    checked,
    with_default_tiers,
)
from batchsched.config.reading import ConfigReader
from batchsched.config.registry import Registry, default_registry, factory_of, unknown_name
from batchsched.errors import ConfigError, Fault
from batchsched.model.immutable import AsTuple
from batchsched.model.notice import Notice, NoticeCollector
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.validation.values import is_of, is_text, shown
from batchsched.plugin.arguments import ArgumentValue

OptionT = TypeVar("OptionT", ActionOption, PluginOption)


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
