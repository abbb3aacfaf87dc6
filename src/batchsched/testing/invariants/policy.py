"""What a configuration means, as far as invariants need to know (specification, section 5)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from batchsched.arguments import ArgumentValue
from batchsched.config import ActionOption, PluginOption, SchedulerConfig

__all__ = ["Policy"]

_PLUGINS = frozenset(
    {"priority", "gang", "conformance", "drf", "proportion", "predicates", "nodeorder"}
)
_ACTIONS = frozenset({"allocate", "backfill", "preempt", "reclaim", "reserve"})
_PREEMPTABLE = frozenset({"priority", "gang", "conformance", "drf"})
_RECLAIMABLE = frozenset({"gang", "conformance", "proportion"})
_TRUE = ("1", "t", "true", "yes", "on")
TWO_DAYS = 172_800.0


def _is_true(value: ArgumentValue) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() in _TRUE


@frozen
class Policy:
    """A configuration, asked the questions that invariants have."""

    config: SchedulerConfig
    plugins: Mapping[str, tuple[int, PluginOption]] = field(init=False)
    """Name to tier and options."""
    knows_actions: bool = field(init=False)
    """Whether all actions are those of the specification."""
    knows_plugins: bool = field(init=False)
    """Whether all plugins are those of the specification."""

    def __attrs_post_init__(self) -> None:
        plugins = {
            plugin.name: (position, plugin)
            for position, tier in enumerate(self.config.tiers)
            for plugin in tier.plugins
        }
        names = {action.name for action in self.config.actions}
        object.__setattr__(self, "plugins", plugins)
        object.__setattr__(self, "knows_actions", names <= _ACTIONS)
        object.__setattr__(self, "knows_plugins", plugins.keys() <= _PLUGINS)

    def has(self, plugin: str, flag: str | None = None) -> bool:
        """Return whether a plugin is configured, with one of its extension points on."""
        if plugin not in self.plugins:
            return False
        return flag is None or self.plugins[plugin][1].flags.get(flag, True)

    def argument(self, plugin: str, name: str) -> bool:
        """Return a plugin's argument that is true or false; false by default."""
        return _is_true(self.plugins[plugin][1].arguments.get(name, False))

    @property
    def gang_decides_ready(self) -> bool:
        """Whether no job is ready unless gang says so: nobody can outvote it."""
        if not self.has("gang", "enableJobReady"):
            return False
        tier = self.plugins["gang"][0]
        return all(
            name in _PLUGINS for name, (position, _) in self.plugins.items() if position < tier
        )

    def protects(self, plugin: str, action: str) -> bool:
        """Return whether a plugin's protections hold for evictions by an action."""
        if action == "preempt":
            return plugin in _PREEMPTABLE and self.has(plugin, "enablePreemptable")
        if action == "reclaim":
            return plugin in _RECLAIMABLE and self.has(plugin, "enableReclaimable")
        return False

    def tiers_asked(self, action: str) -> list[list[str]]:
        """Return, by tier, the plugins that are asked for victims; none for other actions.

        A plugin that is not the specification's may have such a function, or not.
        """
        flag = "enablePreemptable" if action == "preempt" else "enableReclaimable"
        with_function = _PREEMPTABLE if action == "preempt" else _RECLAIMABLE
        return [
            [
                plugin.name
                for plugin in tier.plugins
                if plugin.flags.get(flag, True)
                and (plugin.name in with_function or plugin.name not in _PLUGINS)
            ]
            for tier in self.config.tiers
        ]

    def actions(self, name: str) -> list[ActionOption]:
        """Return the configured actions of a name."""
        return [action for action in self.config.actions if action.name == name]

    @property
    def takes_back(self) -> bool:
        """Whether a placement may be undone without a trace: by backfill's strategies."""
        strategies = {
            str(action.arguments.get("strategy", "best-effort"))
            for action in self.actions("backfill")
        }
        return bool(strategies - {"best-effort"}) or not self.knows_actions

    @property
    def undoes(self) -> bool:
        """Whether any action may undo placements, at once or later."""
        return self.takes_back or any(
            action.name in ("preempt", "reclaim", "reserve")
            or action.arguments.get("unready", "hold") != "hold"
            for action in self.config.actions
        )

    def backfill_strategies(self) -> set[str]:
        """Return the strategies of all configured backfill actions."""
        return {
            str(action.arguments.get("strategy", "best-effort"))
            for action in self.actions("backfill")
        }

    @property
    def evicts_backfill(self) -> bool:
        """Whether allocate evicts backfill tasks for those that were promised their room."""
        return any(
            _is_true(action.arguments.get("evictBackfill", False))
            for action in self.actions("allocate")
        )

    @property
    def allocate_thresholds(self) -> list[float]:
        """The starvation thresholds of allocate actions, in seconds."""
        return [t for action in self.actions("allocate") for t in self._thresholds(action)]

    @property
    def reserve_thresholds(self) -> list[float]:
        """The starvation thresholds of reserve actions, in seconds."""
        return [t for action in self.actions("reserve") for t in self._thresholds(action)]

    @property
    def thresholds_before_allocate(self) -> list[float]:
        """The thresholds of actions that reserve and have an allocate after them, in seconds."""
        found: list[float] = []
        for position, action in enumerate(self.config.actions):
            if any(later.name == "allocate" for later in self.config.actions[position + 1 :]):
                found += self._thresholds(action)
        return found

    @staticmethod
    def _thresholds(action: ActionOption) -> list[float]:
        if action.name == "reserve":
            return [float(action.arguments.get("starvingJobTimeThreshold", TWO_DAYS))]
        if action.name == "allocate" and "starvationThreshold" in action.arguments:
            return [float(action.arguments["starvationThreshold"])]
        return []

    @property
    def reserve_percentages(self) -> list[float]:
        """How many of the nodes reserve actions may reserve, in percent."""
        return [
            float(action.arguments.get("reservedNodePercent", 50))
            for action in self.actions("reserve")
        ]
