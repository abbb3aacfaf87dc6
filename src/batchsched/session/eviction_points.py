"""Determines which tasks may be evicted, from all plugins' verdicts and performance hints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ParamSpec, TypeVar

from batchsched.errors import PluginError, plugin_error
from batchsched.plugin.verdicts import Verdict
from batchsched.session.opened_plugins import Named, OpenedPlugins
from batchsched.session.victims import Judge, Judges, RecentStarts, Victims, WholeJobs
from batchsched.state.records import QueueState, TaskState
from batchsched.state.units import EvictionUnit

__all__ = ["EvictionPoints"]

AskedT = ParamSpec("AskedT")
AnswerT = TypeVar("AnswerT")
_Functions = list[Named[Callable[AskedT, AnswerT]]]
_OfEach = list[Named[Callable[[TaskState, Sequence[TaskState]], Sequence[bool]]]]

_POINTS = ("preemptable", "reclaimable")
_VERDICT_TEXTS = {
    Verdict.PROTECTED: "protected by {plugin}",
    Verdict.PASS: "not a victim of {plugin}",
    Verdict.WITH_JOB: "only with its job, which may not be evicted as a whole",
    Verdict.VICTIM: "victims of an earlier tier come first",
}


class EvictionPoints:
    """The extension points of all plugins that concern evictions."""

    def __init__(self, opened: OpenedPlugins, unit_of: Callable[[TaskState], EvictionUnit]) -> None:
        """Combine plugins.

        Args:
            opened: the plugins.
            unit_of: returns the eviction unit of a task on a node.

        """
        self._opened = opened
        self._unit_of = unit_of
        self._preemptable = self._judges("preemptable")
        self._reclaimable = self._judges("reclaimable")
        self._revocable = self._judges("revocable") if opened.having("revocable") else None
        self._words = dict(opened.on("verdict_reasons"))
        self._may_give: _Functions[[QueueState], bool] = [
            (each.name, each.hints.may_give)
            for each in opened.having("reclaimable")
            if each.hints.may_give is not None
        ]
        self._claimant_keys = {point: self._claimant_keys_on(point) for point in _POINTS}
        self._shields = {point: self._shields_on(point) for point in _POINTS}
        self._shield_keys = {point: self._shield_keys_on(point) for point in _POINTS}
        self._only_with_job = {point: self._only_with_job_on(point) for point in _POINTS}

    def _judges(self, point: str) -> Judges:
        hint = f"{point}_alone"
        tiers: dict[int, list[Judge]] = {}
        for opened in self._opened.having(point):
            judge = Judge(
                opened.name,
                getattr(opened.object, point),
                getattr(opened.hints, hint),
            )
            tiers.setdefault(opened.tier, []).append(judge)
        return Judges(point, [tiers[tier] for tier in sorted(tiers)], self._unit_of)

    def _claimant_keys_on(self, point: str) -> _Functions[[TaskState], Hashable] | None:
        """Return the claimant keys of all plugins with verdicts; None if one has no key."""
        keys: _Functions[[TaskState], Hashable] = []
        for opened in self._opened.having(point):
            if opened.hints.claimant_key is None:
                return None
            keys.append((opened.name, opened.hints.claimant_key))
        return keys

    def _shields_on(self, point: str) -> _OfEach:
        """Return the functions that determine which tasks are always protected."""
        return [
            (opened.name, opened.hints.shielded)
            for opened in self._opened.having(point)
            if opened.hints.shielded is not None and opened.hints.claimant_key is not None
        ]

    def _only_with_job_on(self, point: str) -> _OfEach:
        """Return the functions that determine which tasks cannot be evicted alone."""
        return [
            (opened.name, opened.hints.only_with_job)
            for opened in self._opened.having(point)
            if opened.hints.only_with_job is not None and opened.hints.claimant_key is not None
        ]

    def _shield_keys_on(self, point: str) -> _Functions[[TaskState], Hashable]:
        return [
            (opened.name, hints.claimant_key)
            for opened, hints in [(each, each.hints) for each in self._opened.having(point)]
            if hints.claimant_key is not None
            and (hints.shielded is not None or hints.only_with_job is not None)
        ]

    def preemptable(
        self,
        claimant: TaskState,
        candidates: Sequence[TaskState],
        whole_jobs: WholeJobs | None = None,
        recent: RecentStarts | None = None,
    ) -> Victims:
        """Return the candidates that may be evicted for a task of their own queue."""
        return self._preemptable.victims(claimant, candidates, whole_jobs, recent)

    def reclaimable(
        self,
        claimant: TaskState,
        candidates: Sequence[TaskState],
        whole_jobs: WholeJobs | None = None,
        recent: RecentStarts | None = None,
    ) -> Victims:
        """Return the candidates that may be evicted for a task of another queue."""
        return self._reclaimable.victims(claimant, candidates, whole_jobs, recent)

    def revocable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Victims:
        """Return the backfill tasks that may be evicted for a task promised their resources."""
        if self._revocable is None:
            return Victims(candidates)
        return self._revocable.victims(claimant, candidates)

    def protected_by(
        self, claimant: TaskState, unit: EvictionUnit, recent: RecentStarts | None = None
    ) -> str | None:
        """Return what protects a unit of another queue: a plugin or minRuntime; None: nothing."""
        return self._reclaimable.protected_by(
            claimant, unit.victims, is_whole_job=not unit.is_surplus, recent=recent
        )

    def split_protected(
        self,
        point: str,
        claimant: TaskState,
        groups: Sequence[Sequence[TaskState]],
        in_victim_order: Callable[[Iterable[TaskState]], list[TaskState]],
        recent: RecentStarts | None = None,
    ) -> tuple[Counter[str], list[list[TaskState]]]:
        """Return the number of protected candidates by reason, and the others.

        `point` is ``preemptable`` or ``reclaimable``. Candidates are given by node, in any order;
        those that may be evicted are returned by node, in victim order. None of them is in
        `recent`, but other tasks of their jobs may be.
        """
        judges = self._preemptable if point == "preemptable" else self._reclaimable
        kept, free = judges.split_protected(claimant, groups, in_victim_order, recent)
        reasons: Counter[str] = Counter()
        for (name, verdict), candidates in kept.items():
            general = _VERDICT_TEXTS[verdict].format(plugin=name)
            own = self.verdict_reasons(name, claimant, candidates, verdict)
            for text, count in Counter(own).items():
                reasons[text or general] += count
        return reasons, free

    def verdict_reasons(
        self, name: str, claimant: TaskState, candidates: Sequence[TaskState], verdict: Verdict
    ) -> Sequence[str]:
        """Return a plugin's explanation of this verdict on each candidate; may be empty."""
        if name not in self._words:
            return [""] * len(candidates)
        try:
            own: Sequence[str] = self._words[name](claimant, candidates, verdict)
        except Exception as error:
            raise plugin_error(name, "verdict_reasons", error) from error
        if len(own) != len(candidates):
            problem = (
                f"expected one answer for each of {len(candidates)} candidates, got {len(own)}"
            )
            raise PluginError(name, "verdict_reasons", problem)
        return own

    def shield_key(self, point: str, claimant: TaskState) -> tuple[Hashable, ...]:
        """Return the properties of a claimant that determine which tasks are shielded.

        `point` is ``preemptable`` or ``reclaimable``.
        """
        keys: list[Hashable] = []
        name = ""
        try:
            for name, key_of in self._shield_keys[point]:
                keys.append(key_of(claimant))
        except Exception as error:
            raise plugin_error(name, "claimant_key", error) from error
        return tuple(keys)

    def unshielded(
        self, point: str, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> list[TaskState]:
        """Return the candidates without those that hints show to be protected.

        It is the same for all claimants with the same `shield_key`.
        """
        left = list(candidates)
        name = ""
        try:
            for name, shield in self._shields[point]:
                shielded = shield(claimant, left)
                if len(shielded) != len(left):
                    problem = (
                        f"expected one answer for each of {len(left)} candidates, "
                        f"got {len(shielded)}"
                    )
                    raise PluginError(name, "shielded", problem)
                if any(shielded):
                    left = [c for c, is_so in zip(left, shielded, strict=True) if not is_so]
                    if not left:
                        break
        except PluginError:
            raise
        except Exception as error:
            raise plugin_error(name, "shielded", error) from error
        return left

    def only_with_job(
        self, point: str, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> list[bool]:
        """Return, for each candidate, whether hints show that it cannot be evicted alone.

        It is the same for all claimants with the same `shield_key`.
        """
        known = [False] * len(candidates)
        name = ""
        try:
            for name, function in self._only_with_job[point]:
                answers = function(claimant, candidates)
                known = [a or b for a, b in zip(known, answers, strict=True)]
        except Exception as error:
            raise plugin_error(name, "only_with_job", error) from error
        return known

    def may_give(self, queue: QueueState) -> bool:
        """Return False if no task of the queue can be reclaimed now by any claimant."""
        for name, function in self._may_give:
            try:
                if not function(queue):
                    return False
            except Exception as error:
                raise plugin_error(name, "may_give", error) from error
        return True

    def claimant_key(self, point: str, claimant: TaskState) -> tuple[Hashable, ...] | None:
        """Return what verdicts read of a claimant; None if a plugin gives no key.

        `point` is ``preemptable`` or ``reclaimable``.
        """
        functions = self._claimant_keys[point]
        if functions is None:
            return None
        keys: list[Hashable] = []
        name = ""
        try:
            for name, function in functions:
                key = function(claimant)
                hash(key)
                keys.append(key)
        except Exception as error:
            raise plugin_error(name, "claimant_key", error) from error
        return tuple(keys)
