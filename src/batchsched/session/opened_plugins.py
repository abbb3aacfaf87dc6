"""The opened plugins of one cycle, with their extension points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from attrs import frozen

from batchsched.errors import PluginError, plugin_error
from batchsched.model.validation.values import shown
from batchsched.plugin.changes import Changes
from batchsched.plugin.extension_points import Hints, Plugin
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.point_names import points_of
from batchsched.plugin.session_view import SessionView
from batchsched.session.aggregation import Named, by_tier

__all__ = ["ConfiguredPlugin", "OpenedPlugin", "OpenedPlugins"]

_NO_HINTS = EvictionHints()


@frozen
class ConfiguredPlugin:
    """A plugin with its options in a configuration."""

    name: str
    tier: int
    plugin: Plugin
    disabled: frozenset[str] = frozenset()
    """The disabled extension points, by method name; see `ENABLE_FLAGS`."""


_READINESS = frozenset({"job_ready", "job_pipelined", "job_condition_ready"})
_VOTES = _READINESS | {"on_allocate", "on_deallocate"}


@frozen
class OpenedPlugin:
    """The object that a plugin opened for a cycle, with its extension points."""

    name: str
    tier: int
    object: object
    points: frozenset[str]
    """Its enabled extension points, by method name."""
    hints: EvictionHints
    """Its performance hints."""


def _open(configured: ConfiguredPlugin, view: SessionView) -> OpenedPlugin:
    try:
        opened = configured.plugin.open(view)
    except PluginError:
        raise
    except Exception as error:
        raise plugin_error(configured.name, "open", error) from error
    enabled = points_of(configured.name, opened) - configured.disabled
    hints = _hints_of(configured.name, opened) if "hints" in enabled else _NO_HINTS
    return OpenedPlugin(configured.name, configured.tier, opened, enabled, hints)


def _hints_of(name: str, opened: object) -> EvictionHints:
    try:
        hints = cast("Hints", opened).hints()
    except Exception as error:
        raise plugin_error(name, "hints", error) from error
    if not isinstance(cast("object", hints), EvictionHints):
        raise PluginError(name, "hints", f"expected EvictionHints, got {shown(hints)}")
    return hints


class OpenedPlugins:
    """The plugins of a configuration, opened.

    Extension points that are disabled by a flag do not count.

    Raises:
        PluginError: a plugin raised an exception when it was opened, or its `open`
            returned an object without extension points.

    """

    def __init__(self, configured: Sequence[ConfiguredPlugin], view: SessionView) -> None:
        self._configured = configured
        self.all = [_open(each, view) for each in configured]
        """In configured order."""

    def resume(self, view: SessionView, changes: Changes) -> frozenset[str]:
        """Resume each plugin, or open it again; return the points of those opened again."""
        anew: set[str] = set()
        for position, configured in enumerate(self._configured):
            known = self.all[position]
            resume = getattr(known.object, "resume", None)
            try:
                if resume is not None and resume(changes) is True:
                    continue
            except PluginError:
                raise
            except Exception as error:
                raise plugin_error(configured.name, "resume", error) from error
            opened = self.all[position] = _open(configured, view)
            anew |= known.points | opened.points
        return frozenset(anew)

    @property
    def vote_on_jobs_alone(self) -> bool:
        """Whether all votes depend on the job alone; see `Resumes`."""
        return all(
            getattr(opened.object, "votes_on_jobs_alone", False) is True
            for opened in self.all
            if not _VOTES.isdisjoint(opened.points)
        )

    @property
    def reject_below_minimum(self) -> bool:
        """Whether no job is ready, pipelined or conditionally ready below its minimum."""
        voting = [opened for opened in self.all if not _READINESS.isdisjoint(opened.points)]
        first = min([opened.tier for opened in voting], default=0)
        return self.vote_on_jobs_alone and any(
            # The vote of the first tier decides, and a rejection decides that.
            opened.tier == first
            and opened.points >= _READINESS
            and getattr(opened.object, "rejects_below_minimum", False) is True
            for opened in voting
        )

    # Signatures are not checked; a wrong one fails at the first call. Checking protocols with
    # `isinstance` would take half of the time of opening.

    def on(self, point: str, *others: str) -> list[Named[Any]]:
        """Return the enabled functions of an extension point, with their plugins' names.

        Only of plugins for which the other points are enabled too.
        """
        return [
            (opened.name, getattr(opened.object, point)) for opened in self.having(point, *others)
        ]

    def by_tier(self, point: str) -> list[list[Named[Any]]]:
        """Return the enabled functions of an extension point, tier by tier."""
        return by_tier(
            (opened.name, opened.tier, getattr(opened.object, point))
            for opened in self.having(point)
        )

    def having(self, *points: str) -> list[OpenedPlugin]:
        """Return the plugins for which all of these points are enabled, in configured order."""
        return [opened for opened in self.all if opened.points.issuperset(points)]
