"""The configuration of a cycle: which actions and plugins, in which order, with what arguments.

It reads the parsed content of a kube-batch configuration file. Mistakes in it are errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import cast

from attrs import frozen

__all__ = ["ActionConf", "Arguments", "Conf", "PluginConf", "read_conf"]


@frozen
class Arguments:
    """The arguments of one action or plugin, as strings or as values of their own types."""

    values: Mapping[str, object] = MappingProxyType({})

    def boolean(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean argument."""
        return _boolean(self.values.get(name, default))

    def integer(self, name: str, default: int) -> int:
        """Return an argument that is a whole number."""
        return int(str(self.values.get(name, default)))

    def number(self, name: str, default: float) -> float:
        """Return an argument that is a number."""
        return float(str(self.values.get(name, default)))

    def number_or_all(self, name: str, default: float) -> float:
        """Return an argument that is a number, or infinity for ``all``."""
        return inf if self.values.get(name) == "all" else self.number(name, default)

    def word(self, name: str, choices: Sequence[str]) -> str:
        """Return an argument that is one of `choices`; the first of them if it is not given."""
        value = str(self.values.get(name, choices[0]))
        if value not in choices:
            raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")
        return value


@frozen
class ActionConf:
    """An action of the cycle."""

    name: str
    arguments: Arguments


@frozen
class PluginConf:
    """A plugin of a tier; `disabled` names the flags that are false, such as enableJobOrder."""

    name: str
    disabled: frozenset[str]
    arguments: Arguments


@frozen
class Conf:
    """The whole configuration."""

    actions: tuple[ActionConf, ...]
    tiers: tuple[tuple[PluginConf, ...], ...]
    has_default_tiers: bool
    """Whether it names no tiers, or the default ones."""

    def cures(self, action: ActionConf) -> bool:
        """Return whether an action also searches nodes that accept a task only after evictions."""
        evicts = action.name in ("preempt", "reclaim")
        return evicts and action.arguments.boolean("curable", default=self.has_default_tiers)

    def cures_loans(self, action: ActionConf) -> bool:
        """Return whether backfill tasks also leave where they alone have a node refuse a task."""
        return action.arguments.boolean("curable", default=self.has_default_tiers)

    def retries(self, action: ActionConf) -> bool:
        """Return whether a turn that fails is made once more, with the largest tasks first."""
        holds = action.arguments.word("unready", ("discard", "hold")) == "hold"
        choices = ("none", "largest-first")
        if self.has_default_tiers and not holds:
            choices = ("largest-first", "none")
        return action.arguments.word("retry", choices) == "largest-first"

    def unblocks(self, action: ActionConf) -> bool:
        """Return whether broken jobs take from each other what they need."""
        preempts = action.name == "preempt"
        return preempts and action.arguments.boolean("unblock", default=self.has_default_tiers)


DEFAULT_TIERS = (
    {
        "plugins": [
            "priority",
            {"name": "gang", "arguments": {"atMinimum": "whole-job"}},
            "conformance",
            "protection",
        ]
    },
    {
        "plugins": [
            {"name": "drf", "enablePreemptable": False},
            "predicates",
            "devices",
            "topology",
            "capacity",
            "nodeorder",
        ]
    },
)
"""The tiers of a configuration that names none."""


def read_conf(conf: Mapping[str, object]) -> Conf:
    """Read a parsed kube-batch configuration."""
    actions = conf.get("actions", "allocate, backfill")
    names: list[object] = list(actions.split(",")) if isinstance(actions, str) else _list(actions)
    tiers = _tiers(conf.get("tiers", DEFAULT_TIERS))
    return Conf(
        actions=tuple(_action(action) for action in names),
        tiers=tiers,
        has_default_tiers=tiers == _tiers(DEFAULT_TIERS),
    )


def _tiers(tiers: object) -> tuple[tuple[PluginConf, ...], ...]:
    return tuple(
        tuple(_plugin(plugin) for plugin in _list(_mapping(tier).get("plugins", [])))
        for tier in _list(tiers)
    )


def _action(action: object) -> ActionConf:
    if isinstance(action, str):
        return ActionConf(action.strip(), Arguments())
    described = _mapping(action)
    return ActionConf(str(described["name"]), Arguments(_mapping(described.get("arguments", {}))))


def _plugin(plugin: object) -> PluginConf:
    if isinstance(plugin, str):
        return PluginConf(plugin, frozenset(), Arguments())
    described = _mapping(plugin)
    disabled = frozenset(
        key for key, value in described.items() if key.startswith("enable") and not _boolean(value)
    )
    arguments = Arguments(_mapping(described.get("arguments", {})))
    return PluginConf(str(described["name"]), disabled, arguments)


def _boolean(value: object) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError(f"expected true or false, got {value!r}")
    return text == "true"


def _mapping(value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a mapping, got {value!r}")
    return cast("Mapping[str, object]", value)


def _list(value: object) -> list[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"expected a list, got {value!r}")
    return list(cast("Sequence[object]", value))
