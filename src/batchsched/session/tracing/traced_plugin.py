"""A plugin that reports its verdicts as trace events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict
from batchsched.session.opened_plugins import ConfiguredPlugin, points_of
from batchsched.state.records import TaskState
from batchsched.trace import Teller, VerdictsGiven

__all__ = ["TracedPlugin"]

_JUDGES = ("preemptable", "reclaimable")
_Verdicts = Callable[[TaskState, Sequence[TaskState]], Sequence[Verdict]]


class TracedPlugin:
    """A plugin that reports its verdicts as trace events."""

    def __init__(self, configured: ConfiguredPlugin, teller: Teller) -> None:
        self._configured = configured
        self._teller = teller

    def open(self, view: SessionView, /) -> object:
        name = self._configured.name
        opened = self._configured.plugin.open(view)
        points = points_of(name, opened) - self._configured.disabled
        if not points.intersection(_JUDGES):
            return opened
        return _Judge(name, opened, self._teller)


class _Judge:
    """The opened object of a plugin, with verdicts reported; everything else is passed through."""

    __slots__ = ("_name", "_opened", "_teller")

    def __init__(self, name: str, opened: object, teller: Teller) -> None:
        self._name = name
        self._opened = opened
        self._teller = teller

    def __getattr__(self, point: str) -> object:
        function: object = getattr(self._opened, point)
        if function is None or point not in _JUDGES:
            return function
        return self._told(point, cast("_Verdicts", function))

    def _told(self, point: str, judge: _Verdicts) -> _Verdicts:
        def told(claimant: TaskState, candidates: Sequence[TaskState]) -> Sequence[Verdict]:
            verdicts = tuple(judge(claimant, candidates))
            teller = self._teller
            by_task = {
                candidate.uid: getattr(verdict, "value", str(verdict))
                for candidate, verdict in zip(candidates, verdicts, strict=False)
            }
            teller.keep(
                VerdictsGiven(
                    action=teller.action,
                    plugin=self._name,
                    point=point,
                    alone=len(candidates) == 1,
                    claimant=claimant.uid,
                    verdicts=by_task,
                )
            )
            return verdicts

        return told
