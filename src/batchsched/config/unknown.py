"""Removes names and arguments from a configuration that are unknown, with a notice for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve

from batchsched.config.checker import Paths
from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.registry import Registry
from batchsched.config.volcano import (
    consequence_of_action,
    consequence_of_argument,
    consequence_of_plugin,
)
from batchsched.model.notice import NoticeCode, NoticeCollector
from batchsched.plugin.arguments import Arguments, ArgumentValue

__all__ = ["without_unknown"]

_Parts = tuple[tuple[ActionOption, ...], tuple[Tier, ...], Paths]


def without_unknown(
    actions: tuple[ActionOption, ...],
    tiers: tuple[Tier, ...],
    paths: Paths,
    registry: Registry,
    notices: NoticeCollector,
) -> _Parts:
    """Return actions, tiers and paths without unknown names and arguments."""
    pruning = _Pruning(registry, notices)
    kept_actions = [
        (kept_action, path)
        for action, path in zip(actions, paths[0], strict=True)
        if (kept_action := pruning.action(action, path)) is not None
    ]
    kept_tiers = [
        [
            (kept, path)
            for plugin, path in zip(tier.plugins, tier_paths, strict=True)
            if (kept := pruning.plugin(plugin, path)) is not None
        ]
        for tier, tier_paths in zip(tiers, paths[1], strict=True)
    ]
    return (
        tuple(action for action, _ in kept_actions),
        tuple(Tier(plugins=[plugin for plugin, _ in kept]) for kept in kept_tiers),
        ([path for _, path in kept_actions], [[path for _, path in kept] for kept in kept_tiers]),
    )


class _Pruning:
    def __init__(self, registry: Registry, notices: NoticeCollector) -> None:
        self._registry = registry
        self._notices = notices

    def action(self, action: ActionOption, path: str) -> ActionOption | None:
        factory = self._registry.action_factory(action.name)
        if factory is None:
            consequence = consequence_of_action(action.name, self._registry.action_names)
            self._note(NoticeCode.UNKNOWN_ACTION, "action", action.name, path, consequence)
            return None
        return evolve(action, arguments=self._known(action.arguments, factory, path))

    def plugin(self, plugin: PluginOption, path: str) -> PluginOption | None:
        factory = self._registry.plugin_factory(plugin.name)
        if factory is None:
            consequence = consequence_of_plugin(plugin.name, self._registry.plugin_names)
            self._note(NoticeCode.UNKNOWN_PLUGIN, "plugin", plugin.name, path, consequence)
            return None
        return evolve(plugin, arguments=self._known(plugin.arguments, factory, path))

    def _known(
        self,
        given: Mapping[str, ArgumentValue],
        factory: Callable[[Arguments], object],
        path: str,
    ) -> Mapping[str, ArgumentValue]:
        """Return the arguments that a factory reads."""
        probe = Arguments(given, f"{path}.arguments")
        try:
            factory(probe)
        except Exception:
            return given  # the checker reports the fault
        unknown = probe.unknown_names()
        for name in unknown:
            self._note(
                NoticeCode.UNKNOWN_ARGUMENT,
                "argument",
                name,
                f"{path}.arguments[{name!r}]",
                consequence_of_argument(name, probe.known_names()),
            )
        return {name: value for name, value in given.items() if name not in unknown}

    def _note(self, code: NoticeCode, kind: str, name: str, path: str, consequence: str) -> None:
        self._notices.note(code, kind, name, name=path, path=path, consequence=consequence)
