"""Who may be evicted: what the verdicts of all plugins come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from attrs import frozen

from batchsched.errors import PluginError, plugin_error
from batchsched.model.status import TaskStatus
from batchsched.plugin.verdicts import Verdict
from batchsched.state.records import JobState, TaskState
from batchsched.state.units import EvictionUnit

__all__ = ["Judge", "Judges", "Kept", "RecentStarts", "VerdictFunction", "Victims", "WholeJobs"]

VerdictFunction = Callable[[TaskState, Sequence[TaskState]], Sequence[Verdict]]

WholeJobs = dict[tuple[JobState | EvictionUnit, int], bool]
"""Jobs, or replicas, and numbers of tiers to whether one may be evicted as a whole."""

Kept = dict[tuple[str, Verdict], list[TaskState]]
"""Who may not be evicted, by the plugin that keeps them from it, and its verdict."""

AnyT = TypeVar("AnyT")

_Answers = list[list[Sequence[Verdict]]]
"""Verdicts on some candidates, by tier and plugin."""

_PASS, _PROTECTED, _WITH_JOB = Verdict.PASS, Verdict.PROTECTED, Verdict.WITH_JOB
_SEVERITY = {_PROTECTED: 0, _PASS: 1, _WITH_JOB: 2, Verdict.VICTIM: 3}
"""What says most of why a candidate is out comes first."""


@frozen
class Victims:
    """Which of some candidates may be evicted."""

    alone: Sequence[TaskState] = ()
    """Who may be evicted on their own, in victim order."""
    whole_jobs: Sequence[JobState] = ()
    """Jobs that may be evicted only as a whole: all their tasks that occupy a node, wherever.

    In the victim order of their first candidates. Such a job may have candidates that can
    go on their own as well.
    """
    replicas: Sequence[EvictionUnit] = ()
    """Groups that their jobs can do without and that may be evicted only as a whole.

    The least valuable first.
    """

    def __bool__(self) -> bool:
        return bool(self.alone or self.replicas or self.whole_jobs)

    @property
    def is_all_alone(self) -> bool:
        """Whether each of them may be evicted on its own."""
        return not (self.whole_jobs or self.replicas)


_NOBODY = Victims()


@frozen
class RecentStarts:
    """The tasks that have just started, whom an action does not evict."""

    now: float
    """The time of the cycle, in seconds."""
    min_runtime: float
    """How many seconds ago a task must have started to be no more of them."""

    def __contains__(self, task: TaskState) -> bool:
        start = task.info.start_time
        return start is not None and self.now - start < self.min_runtime


@frozen
class Judge:
    """A plugin with verdicts."""

    name: str
    """Of the plugin."""
    together: VerdictFunction
    """Its verdicts on candidates in victim order."""
    alone: VerdictFunction | None
    """Its verdicts on candidates each of which stands alone; None: ask one by one."""


class Judges:
    """The plugins with verdicts at one extension point, tier by tier.

    First each candidate is asked about alone, so that nobody who cannot be evicted anyway
    uses up what another plugin would grant. Then all that are left are asked about together.
    Whom any plugin of any tier protects is out; of the others, those of whom no plugin of a
    tier says pass, of the first tier where there are any. Of these, whoever any plugin lets go
    only with the job goes as a part of the whole job, if all of that may go, or not at all.
    """

    __slots__ = ("_point", "_tiers", "_unit_of")

    def __init__(
        self,
        point: str,
        tiers: Sequence[Sequence[Judge]],
        unit_of: Callable[[TaskState], EvictionUnit],
    ) -> None:
        """Put plugins together.

        Args:
            point: the extension point.
            tiers: the plugins that have it, tier by tier.
            unit_of: what a task on a node is evicted with.

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
        """Return which of the candidates may be evicted.

        Args:
            claimant: for whom.
            candidates: Running tasks of jobs in the session, in victim order.
            whole_jobs: what is known of whole jobs as long as neither the claimant nor the
                cluster changes; added to.
            recent: who may not be evicted, whatever plugins say.

        """
        if recent is not None:
            candidates = [candidate for candidate in candidates if candidate not in recent]
        left = self._not_protected(claimant, candidates)
        if not left:
            return _NOBODY
        answers = self._ask_together(claimant, left)
        return self._of_answers(claimant, left, answers, whole_jobs, recent)

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
        """Return who may be evicted of those whom nobody protects alone."""
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

    def kept_by(
        self,
        claimant: TaskState,
        tasks: Sequence[TaskState],
        *,
        is_whole_job: bool,
        recent: RecentStarts | None = None,
    ) -> str | None:
        """Return what keeps tasks that go together from being evicted: a plugin, or minRuntime.

        None: nothing does.

        Args:
            claimant: for whom.
            tasks: Running tasks of one job.
            is_whole_job: whether they are all that the job has.
            recent: who may not be evicted, whatever plugins say.

        """
        if recent is not None and any(task in recent for task in tasks):
            return "minRuntime"
        kept = (_PROTECTED,) if is_whole_job else (_PROTECTED, _WITH_JOB)
        for tier in self._tiers:
            for judge in tier:
                if any(verdict in kept for verdict in self._ask_alone(judge, claimant, tasks)):
                    return judge.name
        return None

    def kept_and_free(
        self,
        claimant: TaskState,
        groups: Sequence[Sequence[TaskState]],
        in_victim_order: Callable[[Iterable[TaskState]], list[TaskState]],
        recent: RecentStarts | None = None,
    ) -> tuple[Kept, list[list[TaskState]]]:
        """Return who may not be evicted, and which plugin keeps them from it; and who may.

        Those that may, on their own or with their jobs, are grouped by node as the candidates
        are, and in victim order. Alone, candidates of all nodes are asked about at once, and
        in any order; together, node by node. None of them is in `recent`, but others of their
        jobs may be.
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
        """Return who may go of a node's candidates whom nobody protects alone; add others."""
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
            may_go = known.get((whole, tier))
            if may_go is None:
                may_go = known[whole, tier] = self._may_go_whole(claimant, whole, tier, recent)
            if may_go:
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
        """Return whether all of a job, or of a replica, may be evicted. O(tasks of the job)."""
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
            problem = f"{len(verdicts)} verdicts on {len(candidates)} candidates"
            raise PluginError(judge.name, self._point, problem)
        for verdict in verdicts:
            if type(verdict) is not Verdict:
                problem = f"expected a Verdict, got {verdict!r}"
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
