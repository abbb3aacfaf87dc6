"""What a configuration says: which plugins and actions run, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from batchsched.config.options import DEFAULT_TIERS, ActionOption, PluginOption
from batchsched.config.registry import Registry, default_registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.plugin.arguments import ArgumentValue

_PLUGINS = frozenset(
    {
        *("capacity", "conformance", "devices", "drf", "gang", "nodeorder", "placement"),
        *("predicates", "priority", "proportion", "protection", "topology"),
    }
)
_ACTIONS = frozenset(
    {"allocate", "backfill", "consolidate", "plan", "preempt", "reclaim", "reserve"}
)
_ASKED_BY = {
    "preempt": ("enablePreemptable", frozenset({"priority", "gang", "conformance", "drf"})),
    "reclaim": (
        "enableReclaimable",
        frozenset({"gang", "conformance", "proportion", "capacity"}),
    ),
}
"""By action: with which flag it asks plugins for victims, and which built-in plugins name some."""
_OURS = default_registry()
_TRUE = ("1", "t", "true", "yes", "on")
TWO_DAYS = 172_800.0


def is_true(value: ArgumentValue) -> bool:
    """Return whether an argument says yes."""
    return value if isinstance(value, bool) else str(value).strip().lower() in _TRUE


class ConfiguredPolicy:
    """A configuration with the properties that invariants use."""

    def __init__(self, config: SchedulerConfig, registry: Registry = _OURS) -> None:
        self.config = config
        self.plugins: Mapping[str, tuple[int, PluginOption]] = {
            plugin.name: (position, plugin)
            for position, tier in enumerate(config.tiers)
            for plugin in tier.plugins
        }
        """Name to tier and options."""
        self.known_plugins = frozenset(
            name for name in _PLUGINS if registry.plugin_factory(name) == _OURS.plugin_factory(name)
        )
        """The names under which the registry has the built-in plugins."""
        self.known_actions = frozenset(
            name for name in _ACTIONS if registry.action_factory(name) == _OURS.action_factory(name)
        )
        """The names under which the registry has the built-in actions."""
        self.knows_actions = {action.name for action in config.actions} <= self.known_actions
        """Whether all actions are built in."""
        self.knows_plugins = self.plugins.keys() <= self.known_plugins
        """Whether all plugins are built in."""

    def has(self, plugin: str, flag: str | None = None) -> bool:
        """Return whether a built-in plugin is configured, with one of its extension points on.

        False for a custom plugin with the name of a built-in one.
        """
        if plugin not in self.plugins or plugin not in self.known_plugins:
            return False
        return flag is None or self.plugins[plugin][1].flags.get(flag, True)

    def argument(self, plugin: str, name: str) -> bool:
        """Return a boolean argument of a plugin; False by default."""
        return is_true(self.plugins[plugin][1].arguments.get(name, False))

    @property
    def evicts_whole_jobs(self) -> bool:
        """Whether jobs may be evicted as a whole, according to gang or custom plugins."""
        if not self.knows_plugins:
            return True
        if "gang" not in self.plugins:
            return False
        return self.plugins["gang"][1].arguments.get("atMinimum", "protect") != "protect"

    @property
    def gang_decides_ready(self) -> bool:
        """Whether gang decides the readiness of jobs, so that no custom plugin can overrule it."""
        if not self.has("gang", "enableJobReady"):
            return False
        tier = self.plugins["gang"][0]
        return all(
            name in self.known_plugins
            for name, (position, _) in self.plugins.items()
            if position < tier
        )

    def protects(self, plugin: str, action: str) -> bool:
        """Return whether a built-in plugin's protections hold for evictions by an action."""
        if action not in self.known_actions:
            return False
        if action == "allocate":
            return plugin == "conformance" and self.has(plugin)
        flag, plugins = _ASKED_BY.get(action, ("", frozenset[str]()))
        return plugin in (*plugins, "protection") and self.has(plugin, flag)

    def tiers_asked(self, action: str) -> list[set[str]] | None:
        """Return, by tier, the plugins that are asked for victims; None for other actions.

        A plugin that is not built in may have such a function, or not.
        """
        if action not in _ASKED_BY or action not in self.known_actions:
            return None
        flag, plugins = _ASKED_BY[action]
        return [
            {
                plugin.name
                for plugin in tier.plugins
                if plugin.flags.get(flag, True)
                and (plugin.name in plugins or plugin.name not in self.known_plugins)
            }
            for tier in self.config.tiers
        ]

    def has_own_action_after(self, name: str) -> bool:
        """Return whether a custom action runs after an action of this name."""
        names = [action.name for action in self.config.actions]
        later = names[names.index(name) + 1 :] if name in names else names
        return not self.known_actions.issuperset(later)

    def actions(self, name: str) -> list[ActionOption]:
        """Return the configured actions of a name, if it is the built-in one."""
        if name not in self.known_actions:
            return []
        return [action for action in self.config.actions if action.name == name]

    def given(self, action: str, argument: str, default: ArgumentValue) -> list[ArgumentValue]:
        """Return the values of an argument of the configured built-in actions of a name."""
        return [each.arguments.get(argument, default) for each in self.actions(action)]

    @property
    def takes_back(self) -> bool:
        """Whether a later action may undo a placement without a record."""
        return any(self.may_take_back(action) for action in self.config.actions)

    @property
    def takes_back_after_evicting(self) -> bool:
        """Whether a placement may be undone without a record after tasks were evicted."""
        actions = self.config.actions
        first = next((n for n, action in enumerate(actions) if self._may_evict(action)), None)
        return first is not None and any(map(self.may_take_back, actions[first:]))

    def _may_evict(self, action: ActionOption) -> bool:
        if action.name == "allocate" and action.name in self.known_actions:
            return is_true(action.arguments.get("evictBackfill", False))
        return action.name in ("preempt", "reclaim") or action.name not in self.known_actions

    def may_take_back(self, action: ActionOption) -> bool:
        """Return whether an action may undo a placement without a record."""
        if action.name == "backfill" and action.name in self.known_actions:
            return str(action.arguments.get("strategy", "best-effort")) != "best-effort"
        if action.name == "reserve" and action.name in self.known_actions:
            return is_true(action.arguments.get("inOrder", False))
        return action.name not in self.known_actions

    @property
    def cures(self) -> bool:
        """Whether tasks may be pipelined to nodes that accept them only once others have left."""
        default = self.config.tiers == DEFAULT_TIERS
        curable = (self.given(action, "curable", default) for action in ("preempt", "reclaim"))
        return self.moves or any(map(is_true, chain(*curable)))

    @property
    def moves(self) -> bool:
        """Whether tasks may move for others."""
        return any(int(str(most)) > 0 for most in self.given("consolidate", "maxMoves", 4))

    @property
    def unblocks(self) -> bool:
        """Whether preempt may evict broken jobs and groups for others that are broken."""
        default = self.config.tiers == DEFAULT_TIERS
        return any(map(is_true, self.given("preempt", "unblock", default)))

    def backfill_strategies(self) -> set[str]:
        """Return the strategies of all configured backfill actions."""
        return set(map(str, self.given("backfill", "strategy", "best-effort")))

    @property
    def thresholds_before_allocate(self) -> list[float]:
        """The thresholds of actions that reserve and have an allocate after them, in seconds."""
        found: list[float] = []
        for position, action in enumerate(self.config.actions):
            if any(later.name == "allocate" for later in self.config.actions[position + 1 :]):
                found += self.thresholds_of(action)
        return found

    @staticmethod
    def thresholds_of(action: ActionOption) -> list[float]:
        """Return after how many seconds an action reserves for a job; none if it does not."""
        if action.name == "reserve":
            return [float(str(action.arguments.get("starvingJobTimeThreshold", TWO_DAYS)))]
        if action.name == "allocate" and "starvationThreshold" in action.arguments:
            return [float(str(action.arguments["starvationThreshold"]))]
        return []
