"""Findings about unknown parts of a configuration, and about parts that cannot be built."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from batchsched.config.options import ENABLE_FLAGS, ActionOption, PluginOption, Tier
from batchsched.config.reading import without_unknown
from batchsched.config.registry import Registry, default_registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError
from batchsched.model.notice import NoticeCode, NoticeCollector
from batchsched.model.validation.values import is_mapping, is_text, is_tuple
from batchsched.scheduler import Scheduler
from batchsched.tools.finding import Finding
from batchsched.tools.small_clusters import small_clusters

__all__ = ["what_cannot_be_built", "what_was_left_out"]


def what_cannot_be_built(
    config: SchedulerConfig | None, error: ConfigError, registry: Registry | None
) -> Iterator[Finding]:
    """Yield a finding for each fault: unknown parts with their own codes, all others as Invalid.

    Args:
        config: the configuration; None: it could not even be read.
        error: the error that it caused.
        registry: the plugins and actions that it may name.

    """
    instead, codes = None, dict[str, str]()
    if config is not None and _is_sound(config):
        instead, codes = _without_unknown(config, registry)
    working = None if instead is None else _scheduler(instead, registry)
    # Without a working alternative, use the default to show what would be scheduled.
    shown_by = Scheduler() if working is None else working
    snapshot = next((c for c in small_clusters() if shown_by.schedule(c).binds), None)
    for fault in error.faults:
        code = codes.get(fault.path)
        yield Finding(
            code="Invalid" if code is None else code,
            place=fault.path,
            consequence=f"the configuration cannot be built: {fault.message}",
            advice="correct it, or leave it out" if code is None else "leave it out",
            shows="cannot be built",
            snapshot=small_clusters()[0] if snapshot is None else snapshot,
            instead=None if working is None else instead,
        )


def what_was_left_out(config: SchedulerConfig, scheduler: Scheduler) -> Iterator[Finding]:
    """Yield a finding for each part that was ignored when a configuration was read."""
    snapshot = next((c for c in small_clusters() if scheduler.schedule(c).binds), None)
    for notice in config.notices:
        yield Finding(
            code=notice.code.value,
            place=", ".join(notice.examples),
            consequence=f"{notice.kind} {notice.field!r}: {notice.consequence}",
            advice="leave it out, or correct its name",
            shows="has no effect",
            snapshot=small_clusters()[0] if snapshot is None else snapshot,
            instead=evolve(config, notices=()),
        )


class _Unknown(NoticeCollector):
    """Remembers the codes of unknown parts by path."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, str] = {}

    def note(
        self, code: NoticeCode, kind: str, field: str, *, name: str, path: str, consequence: str
    ) -> None:
        self.codes[path] = code.value
        super().note(code, kind, field, name=name, path=path, consequence=consequence)


def _without_unknown(
    config: SchedulerConfig, registry: Registry | None
) -> tuple[SchedulerConfig, dict[str, str]]:
    """Return the configuration without its unknown parts, and their codes by path."""
    unknown = _Unknown()
    known = default_registry() if registry is None else registry
    paths = (
        [f"actions[{position}]" for position in range(len(config.actions))],
        [
            [f"tiers[{at}].plugins[{position}]" for position in range(len(tier.plugins))]
            for at, tier in enumerate(config.tiers)
        ],
    )
    tiers = [
        Tier(plugins=[_without_flags(plugin, path, unknown.codes) for plugin, path in placed])
        for placed in (
            zip(tier.plugins, at, strict=True)
            for tier, at in zip(config.tiers, paths[1], strict=True)
        )
    ]
    actions, kept, _ = without_unknown(config.actions, tuple(tiers), paths, known, unknown)
    return evolve(config, actions=actions, tiers=kept), unknown.codes


def _without_flags(plugin: PluginOption, path: str, codes: dict[str, str]) -> PluginOption:
    for flag in plugin.flags:
        if flag not in ENABLE_FLAGS:
            codes[f"{path}.{flag}"] = NoticeCode.UNKNOWN_FLAG.value
    flags = {flag: is_on for flag, is_on in plugin.flags.items() if flag in ENABLE_FLAGS}
    return evolve(plugin, flags=flags)


def _is_sound(config: object) -> bool:
    """Return whether all parts of a configuration have the right types."""
    if not isinstance(config, SchedulerConfig):
        return False
    return (
        all(_is_option(action, ActionOption) for action in _items(config.actions))
        and all(isinstance(tier, Tier) for tier in _items(config.tiers))
        and all(
            _is_option(plugin, PluginOption) and is_mapping(getattr(plugin, "flags", None))
            for tier in config.tiers
            for plugin in _items(tier.plugins)
        )
    )


def _items(given: object) -> tuple[object, ...]:
    return given if is_tuple(given) else (None,)


def _is_option(given: object, kind: type[ActionOption | PluginOption]) -> bool:
    return isinstance(given, kind) and is_text(given.name) and is_mapping(given.arguments)


def _scheduler(config: SchedulerConfig, registry: Registry | None) -> Scheduler | None:
    try:
        return Scheduler(config, registry)
    except ConfigError:
        return None
