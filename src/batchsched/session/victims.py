"""Determines which tasks may be evicted, by combining the verdicts of all plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from attrs import frozen

from batchsched.errors import PluginError, plugin_error
from batchsched.model.cluster import TaskStatus
from batchsched.plugin.verdicts import Verdict
from batchsched.state.records import JobState, TaskState
from batchsched.state.units import EvictionUnit

__all__ = ["Judge", "Judges", "Kept", "RecentStarts", "VerdictFunction", "Victims", "WholeJobs"]

VerdictFunction = Callable[[TaskState, Sequence[TaskState]], Sequence[Verdict]]

WholeJobs = dict[tuple[JobState | EvictionUnit, int], bool]
"""Whether a job or replica, with the number of a tier, may be evicted as a whole."""

Kept = dict[tuple[str, Verdict], list[TaskState]]
"""The tasks that may not be evicted, by the plugin and its verdict."""

AnyT = TypeVar("AnyT")

_Answers = list[list[Sequence[Verdict]]]
"""Verdicts on some candidates, by tier and plugin."""

_ONLY_VERDICTS = frozenset((Verdict,))
_PASS, _PROTECTED, _WITH_JOB = Verdict.PASS, Verdict.PROTECTED, Verdict.WITH_JOB
_SEVERITY = {_PROTECTED: 0, _PASS: 1, _WITH_JOB: 2, Verdict.VICTIM: 3}
"""The order in which verdicts explain why a candidate is not a victim."""


@frozen
class Victims:
    """The candidates that may be evicted."""

    alone: Sequence[TaskState] = ()
    """The tasks that may be evicted alone, in victim order."""
    whole_jobs: Sequence[JobState] = ()
    """Jobs that may be evicted only as a whole: all tasks that occupy any node.

    They are in the victim order of their first candidates. Such a job may also have candidates
    that may be evicted alone.
    """
    replicas: Sequence[EvictionUnit] = ()
    """Groups that their jobs do not need and that may be evicted only as a whole.

    The least valuable first.
    """

    def __bool__(self) -> bool:
        return bool(self.alone or self.replicas or self.whole_jobs)

    @property
    def is_all_alone(self) -> bool:
        """Whether each of them may be evicted alone."""
        return not (self.whole_jobs or self.replicas)


_NOBODY = Victims()


@frozen
class RecentStarts:
    """The tasks that started recently, which an action does not evict."""

    now: float
    """The time of the cycle, in seconds."""
    min_runtime: float
    """The number of seconds for which a task counts as recently started."""

    def __contains__(self, task: TaskState) -> bool:
        start = task.info.start_time
        return start is not None and self.now - start < self.min_runtime


@frozen
class Judge:
    """A plugin with verdicts."""

    name: str
    """The name of the plugin."""
    together: VerdictFunction
    """Its verdicts on candidates in victim order."""
    alone: VerdictFunction | None
    """Its verdicts on candidates, each as the only one; None: call `together` for each."""


class Judges:
    """The plugins with verdicts at one extension point, tier by tier.

    First the verdict on each candidate alone is requested, so that candidates which cannot be
    evicted anyway do not count against others. Then the remaining candidates get verdicts
    together. A candidate that any plugin of any tier protects is excluded. Of the others, the
    victims are those on which no plugin of a tier passes, for the first tier with any. A victim
    that some plugin allows only with its job is evicted with the whole job, if all of the job
    may be evicted, or not at all.
    """

    __slots__ = ("_point", "_tiers", "_unit_of")

    def __init__(
        self,
        point: str,
        tiers: Sequence[Sequence[Judge]],
        unit_of: Callable[[TaskState], EvictionUnit],
    ) -> None:
        """Combine plugins.

        Args:
            point: the extension point.
            tiers: the plugins with this extension point, tier by tier.
            unit_of: returns the eviction unit of a task on a node.

        """
        self._point = point
        self._tiers = tiers
        self._unit_of = unit_of

    def victims(
        self,
        claimant: TaskState,
        candidates: Sequence[TaskState],
        whole_jobs: WholeJobs | None = None,
        recent: RecentStarts | None = None,
    ) -> Victims:
        """Return the candidates that may be evicted.

        Args:
            claimant: the task for which they would be evicted.
            candidates: Running tasks of jobs in the session, in victim order.
            whole_jobs: a cache for whole jobs, valid while neither the claimant nor the cluster
                changes; updated.
            recent: tasks that may not be evicted, whatever the verdicts.

        """
        if recent is not None:
            candidates = [candidate for candidate in candidates if candidate not in recent]
        if len(candidates) == 1:
            left, answers = candidates, self._ask_alone_of_one(claimant, candidates)
        else:
            left = self._not_protected(claimant, candidates)
            answers = self._ask_together(claimant, left) if left else []
        if not answers:
            return _NOBODY
        return self._of_answers(claimant, left, answers, whole_jobs, recent)

    def _ask_alone_of_one(self, claimant: TaskState, candidates: Sequence[TaskState]) -> _Answers:
        """Return the verdicts on an only candidate; nothing if it is protected.

        Together with no others, it gets the verdict that it gets alone.
        """
        answers: _Answers = []
        for tier in self._tiers:
            of_tier: list[Sequence[Verdict]] = []
            for judge in tier:
                verdicts = self._ask_alone(judge, claimant, candidates)
                if _PROTECTED in verdicts:
                    return []
                of_tier.append(verdicts)
            answers.append(of_tier)
        return answers

    def _ask_together(self, claimant: TaskState, left: Sequence[TaskState]) -> _Answers:
        return [
            [self._ask(judge, judge.together, claimant, left) for judge in tier]
            for tier in self._tiers
        ]

    def _of_answers(
        self,
        claimant: TaskState,
        left: Sequence[TaskState],
        answers: _Answers,
        whole_jobs: WholeJobs | None,
        recent: RecentStarts | None,
    ) -> Victims:
        """Return the victims among the candidates that are not protected alone."""
        protected = [_PROTECTED in verdicts for verdicts in _by_candidate(answers)]
        for number, tier in enumerate(answers):
            chosen = [
                position
                for position, verdicts in enumerate(zip(*tier, strict=True))
                if not protected[position] and _PASS not in verdicts
            ]
            if chosen:
                return self._split(claimant, left, answers, chosen, number, whole_jobs, recent)
        return _NOBODY

    def protected_by(
        self,
        claimant: TaskState,
        tasks: Sequence[TaskState],
        *,
        is_whole_job: bool,
        recent: RecentStarts | None = None,
    ) -> str | None:
        """Return what protects tasks that would be evicted together: a plugin or minRuntime.

        None: nothing does.

        Args:
            claimant: the task for which they would be evicted.
            tasks: Running tasks of one job.
            is_whole_job: whether they are all tasks of the job.
            recent: tasks that may not be evicted, whatever the verdicts.

        """
        if recent is not None and any(task in recent for task in tasks):
            return "minRuntime"
        kept = (_PROTECTED,) if is_whole_job else (_PROTECTED, _WITH_JOB)
        for tier in self._tiers:
            for judge in tier:
                if any(verdict in kept for verdict in self._ask_alone(judge, claimant, tasks)):
                    return judge.name
        return None

    def split_protected(
        self,
        claimant: TaskState,
        groups: Sequence[Sequence[TaskState]],
        in_victim_order: Callable[[Iterable[TaskState]], list[TaskState]],
        recent: RecentStarts | None = None,
    ) -> tuple[Kept, list[list[TaskState]]]:
        """Return the candidates that may not be evicted, by plugin and verdict, and the others.

        The others are grouped by node, like the candidates, in victim order. Verdicts on single
        candidates are requested for all nodes at once, in any order; verdicts on candidates
        together, node by node. No candidate is in `recent`, but other tasks of their jobs may be.
        """
        kept: Kept = {}
        free: list[list[TaskState]] = [[] for _ in groups]
        left = [candidate for group in groups for candidate in group]
        if left and not self._tiers:
            kept["", _PASS] = left
            return kept, free
        of_node = [number for number, group in enumerate(groups) for _ in group]
        for tier in self._tiers:
            for judge in tier:
                if not left:
                    return kept, free
                verdicts = self._ask_alone(judge, claimant, left)
                if _PROTECTED in verdicts:
                    out = _where(left, verdicts, is_protected=True)
                    kept.setdefault((judge.name, _PROTECTED), []).extend(out)
                    of_node = _where(of_node, verdicts, is_protected=False)
                    left = _where(left, verdicts, is_protected=False)
        for number, candidate in zip(of_node, left, strict=True):
            free[number].append(candidate)
        for number in dict.fromkeys(of_node):
            company = free[number]
            if len(company) > 1:
                company = in_victim_order(company)
            free[number] = self._free_of(claimant, company, kept, recent)
        return kept, free

    def _free_of(
        self,
        claimant: TaskState,
        company: list[TaskState],
        kept: Kept,
        recent: RecentStarts | None,
    ) -> list[TaskState]:
        """Return the victims among a node's candidates; add the others to `kept`."""
        answers = self._ask_together(claimant, company)
        victims = self._of_answers(claimant, company, answers, None, recent)
        chosen = {task.uid for task in victims.alone}
        chosen.update(task.uid for unit in victims.replicas for task in unit.victims)
        whole = {job.uid for job in victims.whole_jobs}
        names = [judge.name for tier in self._tiers for judge in tier]
        free: list[TaskState] = []
        for task, verdicts in zip(company, _by_candidate(answers), strict=True):
            if task.uid in chosen or (task.job is not None and task.job.uid in whole):
                free.append(task)
            else:
                said = min(zip(names, verdicts, strict=True), key=_severity)
                kept.setdefault(said, []).append(task)
        return free

    def _not_protected(
        self, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> Sequence[TaskState]:
        left = candidates
        for tier in self._tiers:
            for judge in tier:
                if not left:
                    return left
                verdicts = self._ask_alone(judge, claimant, left)
                if _PROTECTED in verdicts:
                    left = [
                        candidate
                        for candidate, verdict in zip(left, verdicts, strict=True)
                        if verdict is not _PROTECTED
                    ]
        return left if self._tiers else ()

    def _split(
        self,
        claimant: TaskState,
        left: Sequence[TaskState],
        answers: _Answers,
        chosen: Sequence[int],
        tier: int,
        whole_jobs: WholeJobs | None,
        recent: RecentStarts | None,
    ) -> Victims:
        with_job = {
            position
            for of_tier in answers
            for verdicts in of_tier
            if _WITH_JOB in verdicts
            for position in chosen
            if verdicts[position] is _WITH_JOB
        }
        if not with_job:
            return Victims([left[position] for position in chosen])
        known = {} if whole_jobs is None else whole_jobs
        jobs: list[JobState] = []
        replicas: list[EvictionUnit] = []
        for position in sorted(with_job):
            job = left[position].job
            assert job is not None
            whole: JobState | EvictionUnit = job
            if job.groups is not None:
                unit = self._unit_of(left[position])
                if not (unit.is_core or unit.is_surplus):
                    whole = unit
            if whole in jobs or whole in replicas:
                continue
            is_evictable = known.get((whole, tier))
            if is_evictable is None:
                is_evictable = known[whole, tier] = self._may_go_whole(
                    claimant, whole, tier, recent
                )
            if is_evictable:
                if isinstance(whole, JobState):
                    jobs.append(whole)
                else:
                    replicas.append(whole)
        replicas.sort(key=_value, reverse=True)
        return Victims([left[p] for p in chosen if p not in with_job], jobs, replicas)

    def _may_go_whole(
        self,
        claimant: TaskState,
        whole: JobState | EvictionUnit,
        tier: int,
        recent: RecentStarts | None,
    ) -> bool:
        """Return whether a job or replica may be evicted as a whole. O(tasks of the job)."""
        if isinstance(whole, EvictionUnit):
            if not whole.is_whole:
                return False
            tasks = whole.victims
        else:
            running = whole.count(TaskStatus.RUNNING)
            if whole.ready_count - whole.count(TaskStatus.SUCCEEDED) != running:
                return False
            tasks = whole.having(TaskStatus.RUNNING)
        if recent is not None and any(task in recent for task in tasks):
            return False
        for number, judges in enumerate(self._tiers):
            for judge in judges:
                verdicts = self._ask_alone(judge, claimant, tasks)
                if _PROTECTED in verdicts or (number == tier and _PASS in verdicts):
                    return False
        return True

    def _ask_alone(
        self, judge: Judge, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> Sequence[Verdict]:
        if judge.alone is not None:
            return self._ask(judge, judge.alone, claimant, candidates)
        return [
            self._ask(judge, judge.together, claimant, [candidate])[0] for candidate in candidates
        ]

    def _ask(
        self,
        judge: Judge,
        function: VerdictFunction,
        claimant: TaskState,
        candidates: Sequence[TaskState],
    ) -> Sequence[Verdict]:
        try:
            verdicts = tuple(function(claimant, candidates))
        except Exception as error:
            raise plugin_error(judge.name, self._point, error) from error
        if len(verdicts) != len(candidates):
            count = len(candidates)
            problem = f"expected one verdict for each of {count} candidates, got {len(verdicts)}"
            raise PluginError(judge.name, self._point, problem)
        if not _ONLY_VERDICTS.issuperset(map(type, verdicts)):
            wrong = next(verdict for verdict in verdicts if type(verdict) is not Verdict)
            problem = f"expected a Verdict, got {wrong!r}"
            raise PluginError(judge.name, self._point, problem)
        return verdicts


def _value(unit: EvictionUnit) -> tuple[object, ...]:
    return unit.value


def _severity(said: tuple[str, Verdict]) -> int:
    return _SEVERITY[said[1]]


def _where(these: Sequence[AnyT], verdicts: Sequence[Verdict], *, is_protected: bool) -> list[AnyT]:
    return [
        each
        for each, verdict in zip(these, verdicts, strict=True)
        if (verdict is _PROTECTED) is is_protected
    ]


def _by_candidate(answers: _Answers) -> list[tuple[Verdict, ...]]:
    return list(zip(*[verdicts for tier in answers for verdicts in tier], strict=True))
