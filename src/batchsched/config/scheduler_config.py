"""The configuration: which actions run, and which plugins decide, tier by tier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from attrs import field, frozen

from batchsched.config.checker import config_faults
from batchsched.config.default_registry import default_registry
from batchsched.config.options import (
    DEFAULT_ACTIONS,
    DEFAULT_TIERS,
    ENABLE_FLAGS,
    ActionOption,
    PluginOption,
    Tier,
)
from batchsched.config.parser import ConfigReader
from batchsched.config.registry import Registry
from batchsched.config.unknown import without_unknown
from batchsched.errors import ConfigError, Fault
from batchsched.model.immutable import kept_tuple
from batchsched.model.notice import Notice, NoticeCollector
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.validation.values import is_of, shown

__all__ = ["ENABLE_FLAGS", "ActionOption", "PluginOption", "SchedulerConfig", "Tier"]


def _actions(given: Iterable[ActionOption]) -> tuple[ActionOption, ...]:
    return kept_tuple(given)


def _tiers(given: Iterable[Tier]) -> tuple[Tier, ...]:
    return kept_tuple(given)


@frozen(kw_only=True)
class SchedulerConfig:
    """Which actions run, in order, and which plugins decide, tier by tier.

    By default: allocate and backfill, with the tiers priority, gang, conformance and
    drf, predicates, capacity, nodeorder. That is kube-batch's default, but that capacity stands in
    the place of proportion, drf does not say whom preempt may evict
    (``enablePreemptable: false``), and gang lets jobs at their minimum go as a whole
    (``atMinimum: whole-job``); where tiers are named, gang protects such jobs unless it is told
    otherwise.
    """

    actions: tuple[ActionOption, ...] = field(default=DEFAULT_ACTIONS, converter=_actions)
    tiers: tuple[Tier, ...] = field(default=DEFAULT_TIERS, converter=_tiers)
    notices: tuple[Notice, ...] = field(default=(), eq=False, repr=False)
    """What was left out when the configuration was read with ``unknown="notice"``."""

    @classmethod
    def from_mapping(
        cls,
        mapping: Mapping[str, object],
        /,
        *,
        registry: Registry | None = None,
        unknown: Literal["fault", "notice"] = "fault",
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
            unknown: what becomes of actions, plugins, flags, arguments and other keys that
                are not known. ``"notice"``: they are left out, and `notices` tells of each
                what follows. Names that `registry` (or else the default registry) does not
                have count as unknown.

        Raises:
            ConfigError: anything unknown (unless ``unknown="notice"``) or ill-typed, all at
                once; or `unknown` is neither.

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
did you mean 'unready'? known: evictBackfill, retry, starvationThreshold, unready
        >>> volcano = {"actions": "enqueue, allocate", "tiers": [{"plugins": [{"name": "tdm"}]}]}
        >>> config = SchedulerConfig.from_mapping(volcano, unknown="notice")
        >>> [action.name for action in config.actions]
        ['allocate']
        >>> print(config.notices[1])
        1 x plugin tdm: left out: all nodes count as permanent (tiers[0].plugins[0])

        """
        if unknown not in ("fault", "notice"):
            message = f"expected 'fault' or 'notice', got {shown(unknown)}"
            raise ConfigError([Fault("unknown", message)])
        collector = NoticeCollector() if unknown == "notice" else None
        reader = ConfigReader(notices=collector)
        actions, tiers = reader.read(mapping)
        paths = (reader.action_paths, reader.plugin_paths)
        known = default_registry() if registry is None else registry
        if collector is not None and is_of(known, Registry):
            actions, tiers, paths = without_unknown(actions, tiers, paths, known, collector)
        names_too = registry is not None
        faults = config_faults(actions, tiers, known, names_too=names_too, paths=paths)
        if not names_too and (faults or reader.faults):
            # There is something to be mended anyway: say what may have to be mended besides.
            faults = config_faults(actions, tiers, known, names_too=True, paths=paths)
        if reader.faults or faults:
            raise ConfigError([*reader.faults, *faults])
        found = () if collector is None else collector.notices()
        return cls(actions=actions, tiers=tiers, notices=found)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the configuration as dicts, lists, texts and numbers only, ready for JSON.

        What has its default value is left out. `from_mapping` reads what files of kube-batch
        and Volcano hold; this is what `from_dict` reads.
        """
        return _FORMAT.to_dict(self)

    @classmethod
    def from_dict(
        cls, given: Mapping[str, object], /, *, registry: Registry | None = None
    ) -> SchedulerConfig:
        """Return the configuration that `to_dict` has written.

        Args:
            given: what `to_dict` gave.
            registry: what may be named; see `from_mapping`.

        Raises:
            ConfigError: it cannot be read, a newer version has written it, or it is wrong in
                itself; all faults at once, each with its path.

        >>> SchedulerConfig.from_dict(SchedulerConfig().to_dict()) == SchedulerConfig()
        True

        """
        config = _FORMAT.from_dict(given)
        known = default_registry() if registry is None else registry
        names_too = registry is not None
        faults = config_faults(config.actions, config.tiers, known, names_too=names_too)
        if faults:
            raise ConfigError(faults)
        return config

    @classmethod
    def json_schema(cls) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of what `to_dict` gives."""
        return _FORMAT.json_schema()


_FORMAT = Format(SchedulerConfig, version=1, error=ConfigError)
