"""The single differences of two configurations, and those of them that give a whole change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from attrs import evolve, frozen

from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import BatchschedError

Key = tuple[str, ...]
"""A part of a configuration in which two may differ."""

OptionT = TypeVar("OptionT", ActionOption, PluginOption)

_ACTIONS: Key = ("actions",)
_TIERS: Key = ("tiers",)
_EXCLUSIVE = {"capacity", "proportion"}
"""Plugins of which only one can be configured."""
_MOST_TRIALS = 40


@frozen
class ConfigDifference:
    """One thing in which a configuration differs from another."""

    text: str
    """What it is, in words."""
    keys: frozenset[Key]
    names: frozenset[str]
    """The actions or plugins that it is about."""


def config_differences(
    before: SchedulerConfig, after: SchedulerConfig
) -> tuple[ConfigDifference, ...]:
    """Return the single differences of two configurations, the smallest first.

    First arguments and flags, then plugins and actions that only one has, then their order.

    >>> one = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["gang", "proportion"]}]})
    >>> other = SchedulerConfig.from_mapping({"actions": "reclaim, allocate, backfill",
    ...                                       "tiers": [{"plugins": ["gang", "capacity"]}]})
    >>> for difference in config_differences(one, other):
    ...     print(difference.text)
    plugin 'capacity' instead of 'proportion'
    action 'reclaim', which only the second has
    """
    return (
        *_of_values("plugin", _plugins(before), _plugins(after)),
        *_of_values("action", _actions(before), _actions(after)),
        *_of_names("plugin", _plugins(before), _plugins(after)),
        *_of_names("action", _actions(before), _actions(after)),
        *_of_order(before, after),
    )


def _actions(config: SchedulerConfig) -> dict[str, ActionOption]:
    return {action.name: action for action in config.actions}


def _plugins(config: SchedulerConfig) -> dict[str, PluginOption]:
    return {plugin.name: plugin for tier in config.tiers for plugin in tier.plugins}


def _of_values(
    what: str,
    before: Mapping[str, ActionOption | PluginOption],
    after: Mapping[str, ActionOption | PluginOption],
) -> Iterator[ConfigDifference]:
    """Yield each argument and flag that differs of what both have."""
    for name in sorted(before.keys() & after.keys()):
        one, other = before[name], after[name]
        for field in ("flags", "arguments"):
            left: Mapping[str, object] = getattr(one, field, {})
            right: Mapping[str, object] = getattr(other, field, {})
            for key in sorted({*left, *right}):
                if left.get(key) == right.get(key) and (key in left) == (key in right):
                    continue
                values = [
                    str(given[key]) if key in given else "its default" for given in (right, left)
                ]
                yield ConfigDifference(
                    f"{what} {name!r}: {key} {values[0]} instead of {values[1]}",
                    frozenset([(what, name, field, key)]),
                    frozenset([name]),
                )


def _of_names(
    what: str, before: Collection[str], after: Collection[str]
) -> Iterator[ConfigDifference]:
    """Yield each name that only one has; what excludes each other counts as one."""
    gone = [name for name in before if name not in after]
    new = [name for name in after if name not in before]
    replaced = _EXCLUSIVE & {*gone}, _EXCLUSIVE & {*new}
    if what == "plugin" and all(replaced):
        names = _EXCLUSIVE
        text = f"plugin {min(replaced[1])!r} instead of {min(replaced[0])!r}"
        yield ConfigDifference(text, frozenset((what, name) for name in names), frozenset(names))
        gone, new = ([name for name in each if name not in names] for each in (gone, new))
    for side, names_of in (("second", new), ("first", gone)):
        for name in names_of:
            text = f"{what} {name!r}, which only the {side} has"
            yield ConfigDifference(text, frozenset([(what, name)]), frozenset([name]))


def _of_order(before: SchedulerConfig, after: SchedulerConfig) -> Iterator[ConfigDifference]:
    """Yield the order of what both have, if it differs."""
    for key, what, layout in ((_ACTIONS, "actions", _action_layout), (_TIERS, "plugins", _layout)):
        one, other = layout(before), layout(after)
        both = {name for part in one for name in part} & {name for part in other for name in part}
        one, other = ([[n for n in part if n in both] for part in each] for each in (one, other))
        one, other = ([part for part in each if part] for each in (one, other))
        if one != other:
            texts = [" | ".join(", ".join(part) for part in each) for each in (other, one)]
            text = f"the {what} in the order {texts[0]} instead of {texts[1]}"
            yield ConfigDifference(text, frozenset([key]), frozenset(both))


def _action_layout(config: SchedulerConfig) -> list[list[str]]:
    return [[action.name for action in config.actions]]


def _layout(config: SchedulerConfig) -> list[list[str]]:
    return [[plugin.name for plugin in tier.plugins] for tier in config.tiers]


# Configurations between two others


def with_differences(
    before: SchedulerConfig, after: SchedulerConfig, keys: Collection[Key]
) -> SchedulerConfig:
    """Return the first configuration with some of what differs taken from the second."""
    actions = _merged("action", _actions(before), _actions(after), keys)
    plugins = _merged("plugin", _plugins(before), _plugins(after), keys)
    first, second = (after, before) if _ACTIONS in keys else (before, after)
    (names,) = _arranged(_action_layout(first), _action_layout(second), actions)
    first, second = (after, before) if _TIERS in keys else (before, after)
    tiers = _arranged(_layout(first), _layout(second), plugins)
    return evolve(
        before,
        actions=[actions[name] for name in names],
        tiers=[Tier(plugins=[plugins[name] for name in tier]) for tier in tiers],
        notices=(),
    )


def _merged(
    what: str,
    before: Mapping[str, OptionT],
    after: Mapping[str, OptionT],
    keys: Collection[Key],
) -> dict[str, OptionT]:
    found: dict[str, OptionT] = {}
    for name in {**before, **after}:
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            kept = other if (what, name) in keys else one
            if kept is not None:
                found[name] = kept
            continue
        changes: dict[str, object] = {}
        for field in ("flags", "arguments"):
            left: Mapping[str, object] = getattr(one, field, {})
            right: Mapping[str, object] = getattr(other, field, {})
            values = {
                key: (right if (what, name, field, key) in keys else left)
                for key in sorted({*left, *right})
            }
            if values:
                changes[field] = {key: side[key] for key, side in values.items() if key in side}
        found[name] = evolve(one, **changes)  # type: ignore[arg-type]  # by name of the field
    return found


def _arranged(
    order: Sequence[Sequence[str]], other: Sequence[Sequence[str]], names: Collection[str]
) -> list[list[str]]:
    """Return names in one order; those that only the other has, behind what they follow there."""
    found = [[name for name in part if name in names] for part in order] or [[]]
    placed = {name for part in found for name in part}
    for at, part in enumerate(other):
        before: str | None = None
        for name in part:
            if name in names and name not in placed:
                into = next((each for each in found if before in each), None)
                if into is None:
                    into = found[min(at, len(found) - 1)]
                into.insert(into.index(before) + 1 if before in into else 0, name)
                placed.add(name)
            if name in placed:
                before = name
    return found


def smallest_differences(
    before: SchedulerConfig,
    after: SchedulerConfig,
    decides_like_after: Callable[[SchedulerConfig], bool],
) -> tuple[tuple[ConfigDifference, ...], SchedulerConfig]:
    """Return differences that together give a whole change, and the first with these alone.

    Each single one is tried first, the smallest first; if none is enough, one after the other is
    left out as long as the rest is enough. At most 40 trials; all differences give the change.

    Args:
        before: the configuration without them.
        after: the configuration with all of them.
        decides_like_after: whether a configuration gives the whole change; it may raise.

    """
    kept = config_differences(before, after)
    left = _MOST_TRIALS

    def is_enough(some: Sequence[ConfigDifference]) -> SchedulerConfig | None:
        nonlocal left
        left -= 1
        if left < 0:
            return None
        keys = frozenset(key for each in some for key in each.keys)
        try:
            config = with_differences(before, after, keys)
            return config if decides_like_after(config) else None
        except BatchschedError:
            return None  # some parts need others

    if len(kept) > 1:
        for each in kept:
            alone = is_enough([each])
            if alone is not None:
                return (each,), alone
    config = after
    for each in reversed(kept if len(kept) > 2 else ()):  # noqa: PLR2004 - of two neither is enough
        rest = tuple(other for other in kept if other is not each)
        enough = is_enough(rest)
        if enough is not None:
            kept, config = rest, enough
    return kept, config
