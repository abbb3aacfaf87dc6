"""Whom plugins let an action evict: their verdicts, combined tier by tier.

The rule, for some candidates in victim order:

1. Every plugin is asked about each candidate as the only one. Those that one protects are out,
   so that they do not use up what another plugin grants.
2. Every plugin is asked about all that are left together. Those that one protects stay.
3. The first tier with a candidate on which none of its plugins passes decides: its victims are
   these candidates.
4. A victim that some plugin of any tier lets go only with its job goes with the whole job, or
   with its whole replica, and only if nothing protects any task of that; else it stays.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from enum import Enum
from math import isfinite
from operator import attrgetter
from typing import Literal, NamedTuple, cast

from attrs import frozen

from batchsched.errors import PluginError, plugin_error
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import FrozenMap
from batchsched.model.reasons import MINIMUM_RUNTIME, Unfit
from batchsched.model.result import Eviction, Move
from batchsched.model.validation.values import shown
from batchsched.plugin.extension_points import Verdict
from batchsched.session.points import OpenedPlugin
from batchsched.state.records import JobState, NodeState, RunningTasks, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.trace import Teller, VerdictsGiven

Point = Literal["preemptable", "reclaimable"]
"""The extension point whose verdicts count: for tasks of the claimant's queue, or of others."""

WholeJobs = dict[tuple[JobState | EvictionUnit, int], bool]
"""Whether a job or replica, with the number of a tier, may be evicted as a whole."""

_PASS, _PROTECTED, _WITH_JOB = Verdict.PASS, Verdict.PROTECTED, Verdict.WITH_JOB
_NOT_NOW = Verdict.NOT_NOW
_REFUSALS = (_PROTECTED, _NOT_NOW)
"""A candidate to which any plugin gives such a verdict stays."""
# Not sets: those call a function for the hash of each verdict, and verdicts are asked for often.
_ALONE = Verdict.ALONE
_VICTIM = Verdict.VICTIM
_GRANTS = (_VICTIM, _WITH_JOB)
"""A tier chooses a candidate to which any of its plugins gives such a verdict, and none passes."""
_SEVERITY = {
    _PROTECTED: 0,
    _NOT_NOW: 1,
    _PASS: 2,
    _WITH_JOB: 3,
    Verdict.VICTIM: 4,
    Verdict.ALONE: 5,
    Verdict.NO_SAY: 6,
}
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
        if task.status is not TaskStatus.RUNNING:
            return False  # this cycle has bound it, and it has not started
        return start is not None and self.now < start + self.min_runtime

    @property
    def text(self) -> str:
        """The rule, with who says for how long."""
        return f"{MINIMUM_RUNTIME} (minRuntime {self.min_runtime:g} s)"

    def refused_until(self, tasks: Iterable[TaskState]) -> float | None:
        """Return when the first of some tasks that started recently ceases to count as that."""
        starts = [task.info.start_time for task in tasks if task in self]
        return min((s + self.min_runtime for s in starts if s is not None), default=None)


def may_leave(task: TaskState, claimant: TaskState, *, by_priority: bool) -> bool:
    """Return whether a task may leave for a claimant of another job, before plugins are consulted.

    It runs, or this cycle has bound it. What was bound as promised, reserved or planned leaves
    only for a job of higher priority, in preempt, and where priorities count (`by_priority`): else
    what was evicted for it would have left in vain.
    """
    if task.may_be_reclaimed:
        return True
    mine, other = claimant.job, task.job
    assert mine is not None
    assert other is not None
    return task.may_leave and by_priority and mine.info.priority > other.info.priority


def giving_way(
    claimant: TaskState, jobs: Iterable[JobState], stopped: Iterable[Eviction | Move]
) -> list[list[TaskState]]:
    """Return what jobs give up for a claimant of their queue and of a higher priority.

    That is what they are promised, and what they are Allocated and not bound: nothing that runs. A
    job for which a task was evicted or moved in this cycle gives nothing up, or that would be in
    vain; nor does one of which tasks move. It goes as a whole for each job, the least important
    job first.

    Args:
        claimant: the task.
        jobs: the jobs that may have such tasks.
        stopped: the evictions and moves of this cycle.

    """
    mine = claimant.job
    assert mine is not None
    below = [
        job
        for job in jobs
        if job.queue is mine.queue and job.info.priority < mine.info.priority and job.in_session
    ]
    if not below:
        return []
    stopped_for = {each.for_task_uid for each in stopped}
    below.sort(key=lambda job: (job.info.creation_time, job.uid), reverse=True)
    below.sort(key=lambda job: job.info.priority)
    given: list[list[TaskState]] = []
    for job in below:
        if job.moves or any(task.uid in stopped_for for task in job.tasks):
            continue
        unit = [*job.having(TaskStatus.PIPELINED), *job.having(TaskStatus.ALLOCATED)]
        if unit:
            given.append(unit)
    return given


class EvictionScope(Enum):
    """Which tasks may be evicted for a claimant, before plugins are consulted.

    They run, or this cycle has bound them (`may_leave`); within a job only those that run.
    """

    # That of Enum hashes the name each time, and each search is looked up by its scope.
    __hash__ = object.__hash__

    OTHER_JOBS = "other jobs of the same queue"
    SAME_JOB = "the same job"
    OTHER_QUEUES = "other queues"
    ANY_OTHER_JOB = "other jobs of any queue"

    @property
    def point(self) -> Point:
        """The plugin point whose verdicts count."""
        return "reclaimable" if self is EvictionScope.OTHER_QUEUES else "preemptable"

    def candidates(
        self,
        claimant: TaskState,
        running: RunningTasks,
        judges: Judges,
        *,
        with_own_job: bool = False,
    ) -> Sequence[TaskState]:
        """Return the tasks on a node that may leave for a claimant, if plugins let them go.

        Args:
            claimant: the task.
            running: the tasks on the node that may leave.
            judges: the plugins that will be asked.
            with_own_job: whether tasks of its own job count as other ones, as they are for
                claimants of other jobs.

        """
        job = claimant.job
        assert job is not None
        match self:
            case EvictionScope.OTHER_QUEUES:
                found: Sequence[TaskState] = running.of_other_queues(job.queue)
            case EvictionScope.SAME_JOB:
                runs = TaskStatus.RUNNING
                return [each for each in running.all if each.job is job and each.status is runs]
            case EvictionScope.OTHER_JOBS:
                found = running.of_queue(job.queue)
            case EvictionScope.ANY_OTHER_JOB:
                found = running.all
        if not (with_own_job or self is EvictionScope.OTHER_QUEUES):
            found = [other for other in found if other.job is not job]
        if not running.has_kept:
            return found
        by_priority = judges.by_priority
        return [each for each in found if may_leave(each, claimant, by_priority=by_priority)]


GivesVerdicts = Callable[[TaskState, Sequence[TaskState]], Sequence[Verdict]]
"""A plugin's function that gives verdicts on candidates for eviction."""

WhyNot = Callable[[NodeState, Sequence[TaskState]], Sequence[str | None]]
"""Returns why a claim does not evict tasks of a node; None for those that it would evict."""


@frozen
class EvictionSearch:
    """A search for tasks to evict that found none, or too few."""

    task: TaskState
    """The claimant."""
    action: str
    """The action that searched."""
    scope: EvictionScope
    """Which running tasks it considered."""
    may_use_idle: bool
    """Whether the task may take idle resources too."""
    recent: RecentStarts | None = None
    """The tasks that it may not evict because they started recently."""
    curable: bool = False
    """Whether it also searched nodes that reject the task for reasons evictions can remove."""
    beside_promises: Mapping[Unfit, int] = FrozenMap()
    """How many nodes refused the task only because of what was promised, by reason."""
    why_not: Callable[[], WhyNot] | None = None
    """For a claim, which takes the place of verdicts: returns what explains it as things are."""
    most_moves: int | None = None
    """How many tasks it would let move at most, where it searched for those, with `why_not`."""
    tries: int | None = None
    """How many tries it had, if it ended with the last of them."""
    asked_for: TaskState | None = None
    """The task like this one for which it searched; None: the claimant itself."""

    @property
    def reads_claim(self) -> bool:
        """Whether its report reads a claim, which is that of one job, and not of others like it."""
        return self.why_not is not None and self.most_moves is None

    def of_one_like_it(self, task: TaskState) -> EvictionSearch:
        """Return the search that fails for a task in the same way."""
        return EvictionSearch(
            task=task,
            action=self.action,
            scope=self.scope,
            may_use_idle=self.may_use_idle,
            recent=self.recent,
            curable=self.curable,
            beside_promises=self.beside_promises,
            why_not=self.why_not,
            most_moves=self.most_moves,
            tries=self.tries,
            asked_for=self.asked_for or self.task,
        )


class _Judge(NamedTuple):
    """A plugin with verdicts at an extension point, and its hints on them."""

    name: str
    verdicts: GivesVerdicts
    untold: GivesVerdicts
    """The same, of which a traced cycle is not told."""
    claimant_key: Callable[[TaskState], Hashable] | None
    shielded: Callable[[TaskState, Sequence[TaskState]], Sequence[bool]] | None
    refused_until: Callable[[TaskState, Sequence[TaskState]], Sequence[float | None]] | None


_Answers = list[list[Sequence[Verdict]]]
"""Verdicts on some candidates, by tier and plugin."""


class Judges:
    """The plugins with verdicts at one extension point, tier by tier."""

    __slots__ = (
        *("_judges", "_point", "_shields", "_tells_keys", "_tiers", "_unit_of", "_uses_hints"),
        *("by_priority", "tells_ends"),
    )

    def __init__(
        self,
        plugins: Iterable[OpenedPlugin],
        point: str,
        unit_of: Callable[[TaskState], EvictionUnit],
        *,
        uses_hints: bool,
        by_priority: bool = False,
        teller: Teller | None = None,
    ) -> None:
        """Combine plugins.

        Args:
            plugins: the plugins with verdicts, in configured order.
            point: the extension point.
            unit_of: returns the eviction unit of a task on a node.
            uses_hints: whether plugins are asked for their hints.
            by_priority: whether priorities count, in preemption within a queue.
            teller: is told the verdicts, if the cycle is traced.

        """
        self._point = point
        self._unit_of = unit_of
        self._uses_hints = uses_hints
        self.by_priority = by_priority and point == "preemptable"
        """Whether jobs of higher priority may take more; see `may_leave`."""
        tiers: dict[int, list[_Judge]] = {}
        for plugin in plugins:
            untold = verdicts = cast("GivesVerdicts", getattr(plugin.object, point))
            if teller is not None:
                verdicts = _telling(teller, plugin.name, point, untold)
            hints = plugin.hints
            until = getattr(plugin.object, "refused_until", None)
            judge = _Judge(plugin.name, verdicts, untold, hints.claimant_key, hints.shielded, until)
            tiers.setdefault(plugin.tier, []).append(judge)
        self._tiers = [tiers[tier] for tier in sorted(tiers)]
        self._judges = [judge for tier in self._tiers for judge in tier]
        self._shields = [
            judge for judge in self._judges if judge.shielded and judge.claimant_key is not None
        ]
        self._tells_keys = uses_hints and all(
            judge.claimant_key is not None for judge in self._judges
        )
        self.tells_ends = any(judge.refused_until is not None for judge in self._judges)
        """Whether any plugin says until when it protects tasks."""

    # The rule

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
            whole_jobs: what was found out about whole jobs, valid while neither the claimant nor
                the cluster changes; updated.
            recent: tasks that may not be evicted, whatever the verdicts.

        """
        left = candidates if self._judges else ()
        if recent is not None:
            left = [candidate for candidate in left if candidate not in recent]
        is_one = len(left) == 1
        said: list[Sequence[Verdict]] = []
        for judge in self._judges:
            verdicts = self._of_each(judge, claimant, left)
            said.append(verdicts)
            if _PROTECTED in verdicts or _NOT_NOW in verdicts:
                left = [
                    candidate
                    for candidate, verdict in zip(left, verdicts, strict=True)
                    if verdict not in _REFUSALS
                ]
        if not left:
            return _NOBODY
        if is_one:  # together with no others, it gets the verdicts that it got alone
            of_each = iter(said)
            answers = [[next(of_each) for _ in tier] for tier in self._tiers]
        else:
            answers = self._answers(claimant, left)
        return self._combined(claimant, left, answers, whole_jobs, recent)

    def _combined(
        self,
        claimant: TaskState,
        left: Sequence[TaskState],
        answers: _Answers,
        whole_jobs: WholeJobs | None,
        recent: RecentStarts | None,
    ) -> Victims:
        """Return the victims among candidates, from the verdicts on them together."""
        protected = [
            _PROTECTED in verdicts or _NOT_NOW in verdicts for verdicts in _by_candidate(answers)
        ]
        for number, tier in enumerate(answers):
            chosen = [
                position
                for position, verdicts in enumerate(zip(*tier, strict=True))
                if not protected[position]
                and _PASS not in verdicts
                and (_VICTIM in verdicts or _WITH_JOB in verdicts)
            ]
            if chosen:
                return self._with_jobs(claimant, left, answers, chosen, number, whole_jobs, recent)
        return _NOBODY

    def _with_jobs(
        self,
        claimant: TaskState,
        left: Sequence[TaskState],
        answers: _Answers,
        chosen: Sequence[int],
        tier: int,
        whole_jobs: WholeJobs | None,
        recent: RecentStarts | None,
    ) -> Victims:
        """Return the chosen candidates, those that go only with their jobs as whole jobs."""
        said = [verdicts for of_tier in answers for verdicts in of_tier if _WITH_JOB in verdicts]
        with_job = [p for p in chosen if any(verdicts[p] is _WITH_JOB for verdicts in said)]
        if not with_job:
            return Victims([left[position] for position in chosen])
        known = {} if whole_jobs is None else whole_jobs
        jobs: list[JobState] = []
        replicas: list[EvictionUnit] = []
        for whole in dict.fromkeys(self._whole_of(left[position]) for position in with_job):
            may_go = known.get((whole, tier))
            if may_go is None:
                may_go = known[whole, tier] = self._may_go(claimant, whole, tier, recent)
            if may_go and isinstance(whole, JobState):
                jobs.append(whole)
            elif may_go and isinstance(whole, EvictionUnit):
                replicas.append(whole)
        replicas.sort(key=attrgetter("value"), reverse=True)
        out = set(with_job)
        return Victims([left[p] for p in chosen if p not in out], jobs, replicas)

    def _whole_of(self, task: TaskState) -> JobState | EvictionUnit:
        """Return what a task goes with: its replica, if it is in one that its job does not need."""
        job = task.job
        assert job is not None
        if job.groups is None:
            return job
        unit = self._unit_of(task)
        return job if unit.is_core or unit.is_surplus else unit

    def _may_go(
        self,
        claimant: TaskState,
        whole: JobState | EvictionUnit,
        tier: int,
        recent: RecentStarts | None,
    ) -> bool:
        """Return whether a job or replica may be evicted as a whole. O(tasks of the job)."""
        if isinstance(whole, EvictionUnit):
            tasks = whole.victims
        else:
            tasks = whole.may_leave()
            if whole.moves:  # what moves stays, and the job was promised that
                return False
            if whole.ready_count - whole.count(TaskStatus.SUCCEEDED) != len(tasks):
                return False
        by_priority = self.by_priority
        if not all(may_leave(task, claimant, by_priority=by_priority) for task in tasks):
            return False
        if recent is not None and any(task in recent for task in tasks):
            return False
        for number, judges in enumerate(self._tiers):
            for judge in judges:
                verdicts = self._of_each(judge, claimant, tasks)
                if (
                    _PROTECTED in verdicts
                    or _NOT_NOW in verdicts
                    or _ALONE in verdicts
                    or (number == tier and _PASS in verdicts)
                ):
                    return False
        return True

    def possible_victims(
        self,
        claimant: TaskState,
        candidates: Sequence[TaskState],
        recent: RecentStarts | None = None,
    ) -> Sequence[TaskState]:
        """Return the candidates that nothing protects from a claimant when asked about alone.

        No others can be among the `victims`. A traced cycle is not told of the verdicts.
        """
        left = candidates
        if recent is not None:
            left = [candidate for candidate in left if candidate not in recent]
        for judge in self._judges:
            if not left:
                break
            verdicts = self._of_many(judge._replace(verdicts=judge.untold), claimant, left)
            if _PROTECTED in verdicts or _NOT_NOW in verdicts:
                said = zip(left, verdicts, strict=True)
                left = [candidate for candidate, verdict in said if verdict not in _REFUSALS]
        return left

    # Why, why not, and who protects

    def granted_by(self, claimant: TaskState, tasks: Sequence[TaskState]) -> tuple[str, ...]:
        """Return the plugins of the first tier that lets each of some tasks go."""
        for tier in self._tiers:
            said = {judge.name: self._of_each(judge, claimant, tasks) for judge in tier}
            granting = [
                name for name, verdicts in said.items() if all(each in _GRANTS for each in verdicts)
            ]
            if granting and not any(_PASS in verdicts for verdicts in said.values()):
                return tuple(granting)
        return ()

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
        kept = _REFUSALS if is_whole_job else {*_REFUSALS, _WITH_JOB}
        for judge in self._judges:
            if self._asks_shield(judge) and any(_shielded(judge, claimant, tasks)):
                return judge.name
            verdicts = self._of_each(judge, claimant, tasks)
            if any(verdict in verdicts for verdict in kept):
                return judge.name
        return None

    def protects_any(
        self,
        tasks: Sequence[TaskState],
        claimant: TaskState,
        *,
        but: Collection[str],
        for_ever: bool = False,
    ) -> bool:
        """Return whether any plugin but some protects any of some tasks, asked about it alone.

        `for_ever`: protection for a time only does not count.
        """
        return self.protector_of(tasks, claimant, but=but, for_ever=for_ever) is not None

    def protector_of(
        self,
        tasks: Sequence[TaskState],
        claimant: TaskState,
        *,
        but: Collection[str],
        for_ever: bool = False,
    ) -> str | None:
        """Return the first plugin that protects any of some tasks; see `protects_any`."""
        refusals = (_PROTECTED,) if for_ever else _REFUSALS
        for judge in self._judges:
            if judge.name not in but:
                verdicts = self._of_each(judge, claimant, tasks)
                if any(each in verdicts for each in refusals):
                    return judge.name
        return None

    def refused_until(self, claimant: TaskState, tasks: Sequence[TaskState]) -> float | None:
        """Return when the first of some tasks ceases to be protected by a plugin for a time only.

        Each is asked about alone. None: none of them is, or no plugin says when. O(tasks x
        plugins that say it).
        """
        ends: list[float] = []
        for judge in self._judges:
            if judge.refused_until is None:
                continue
            verdicts = self._of_each(judge, claimant, tasks)
            if _NOT_NOW in verdicts:
                said = zip(tasks, verdicts, strict=True)
                for_now = [task for task, verdict in said if verdict is _NOT_NOW]
                ends.extend(_ends(judge, claimant, for_now))
        return min(ends, default=None)

    def staying_and_free(
        self,
        claimant: TaskState,
        groups: Sequence[Sequence[TaskState]],
        in_victim_order: Callable[[Iterable[TaskState]], list[TaskState]],
        recent: RecentStarts | None = None,
    ) -> tuple[dict[tuple[str, Verdict], list[TaskState]], list[list[TaskState]]]:
        """Return the candidates that may not be evicted, by plugin and verdict, and the others.

        The others are grouped by node, like the candidates, in victim order. No candidate is in
        `recent`, but other tasks of their jobs may be.
        """
        staying: dict[tuple[str, Verdict], list[TaskState]] = {}
        left = [candidate for group in groups for candidate in group]
        if left and not self._judges:
            return {("", _PASS): left}, [[] for _ in groups]
        for judge in self._judges:
            verdicts = self._of_many(judge, claimant, left)
            if _PROTECTED in verdicts or _NOT_NOW in verdicts:
                said = list(zip(left, verdicts, strict=True))
                for task, verdict in said:
                    if verdict in _REFUSALS:
                        staying.setdefault((judge.name, verdict), []).append(task)
                left = [task for task, verdict in said if verdict not in _REFUSALS]
        on_their_own = {task.uid for task in left}
        free: list[list[TaskState]] = []
        for group in groups:
            company = [task for task in group if task.uid in on_their_own]
            if len(company) > 1:
                company = in_victim_order(company)
            free.append(self._free_of(claimant, company, staying, recent) if company else [])
        return staying, free

    def _free_of(
        self,
        claimant: TaskState,
        company: list[TaskState],
        staying: dict[tuple[str, Verdict], list[TaskState]],
        recent: RecentStarts | None,
    ) -> list[TaskState]:
        """Return the victims among a node's candidates; add the others to `staying`."""
        answers = self._answers(claimant, company)
        victims = self._combined(claimant, company, answers, None, recent)
        chosen = {task.uid for task in victims.alone}
        chosen.update(task.uid for unit in victims.replicas for task in unit.victims)
        free: list[TaskState] = []
        for task, verdicts in zip(company, _by_candidate(answers), strict=True):
            if task.uid in chosen or task.job in victims.whole_jobs:
                free.append(task)
            else:
                names = [judge.name for judge in self._judges]
                said = min(zip(names, verdicts, strict=True), key=_severity)
                staying.setdefault(said, []).append(task)
        return free

    # Hints

    def claimant_key(self, claimant: TaskState) -> tuple[Hashable, ...] | None:
        """Return what verdicts read of a claimant; None if a plugin does not say."""
        return _keys_of(self._judges, claimant) if self._tells_keys else None

    def claimant_key_without(
        self, claimant: TaskState, but: Collection[str]
    ) -> tuple[Hashable, ...] | None:
        """Return what verdicts of all plugins but some read of a claimant; see `claimant_key`."""
        judges = [judge for judge in self._judges if judge.name not in but]
        if not self._uses_hints or any(judge.claimant_key is None for judge in judges):
            return None
        return _keys_of(judges, claimant)

    def shield_key(self, claimant_key: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        """Return the part of a claimant's key that shields depend on."""
        return tuple(
            key
            for key, judge in zip(claimant_key, self._judges, strict=True)
            if judge.shielded is not None
        )

    def unshielded(self, claimant: TaskState, candidates: Sequence[TaskState]) -> list[TaskState]:
        """Return the candidates without those that hints show to be protected.

        It is the same for all claimants with the same `shield_key`.
        """
        left = list(candidates)
        for judge in self._shields if self._uses_hints else ():
            if not left:
                break
            shielded = _shielded(judge, claimant, left)
            left = [task for task, is_so in zip(left, shielded, strict=True) if not is_so]
        return left

    # Asking

    def _answers(self, claimant: TaskState, candidates: Sequence[TaskState]) -> _Answers:
        """Return the verdicts on candidates together."""
        return [[self._ask(judge, claimant, candidates) for judge in tier] for tier in self._tiers]

    def _of_each(
        self, judge: _Judge, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> Sequence[Verdict]:
        """Return a plugin's verdicts on candidates, each as the only one."""
        ask = judge.verdicts
        try:
            answers = [tuple(ask(claimant, [candidate])) for candidate in candidates]
        except Exception as error:
            raise plugin_error(judge.name, self._point, error) from error
        verdicts = [verdict for answer in answers for verdict in answer]
        if set(map(len, answers)) - {1} or set(map(type, verdicts)) - {Verdict}:
            for answer in answers:
                self._check(judge, answer, 1)
        return verdicts

    def _asks_shield(self, judge: _Judge) -> bool:
        """Return whether hints of a plugin say of many candidates at once that they stay."""
        return self._uses_hints and judge in self._shields

    def _of_many(
        self, judge: _Judge, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> Sequence[Verdict]:
        """Return the same as `_of_each`, without asking about candidates that hints shield."""
        if not (candidates and self._asks_shield(judge)):
            return self._of_each(judge, claimant, candidates)
        shielded = _shielded(judge, claimant, candidates)
        others = [task for task, is_so in zip(candidates, shielded, strict=True) if not is_so]
        verdicts = iter(self._of_each(judge, claimant, others))
        return [_PROTECTED if is_so else next(verdicts) for is_so in shielded]

    def _ask(
        self, judge: _Judge, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> Sequence[Verdict]:
        try:
            verdicts = tuple(judge.verdicts(claimant, candidates))
        except Exception as error:
            raise plugin_error(judge.name, self._point, error) from error
        self._check(judge, verdicts, len(candidates))
        return verdicts

    def _check(self, judge: _Judge, verdicts: Sequence[object], count: int) -> None:
        if len(verdicts) != count:
            problem = f"expected one verdict for each of {count} candidates, got {len(verdicts)}"
            raise PluginError(judge.name, self._point, problem)
        for verdict in verdicts:
            if type(verdict) is not Verdict:
                raise PluginError(judge.name, self._point, f"expected a Verdict, got {verdict!r}")


def _keys_of(judges: Iterable[_Judge], claimant: TaskState) -> tuple[Hashable, ...]:
    keys: list[Hashable] = []
    for judge in judges:
        assert judge.claimant_key is not None
        try:
            key = judge.claimant_key(claimant)
            hash(key)
        except Exception as error:
            raise plugin_error(judge.name, "claimant_key", error) from error
        keys.append(key)
    return tuple(keys)


def _shielded(
    judge: _Judge, claimant: TaskState, candidates: Sequence[TaskState]
) -> Sequence[bool]:
    assert judge.shielded is not None
    try:
        shielded = judge.shielded(claimant, candidates)
        count = len(shielded)
    except Exception as error:
        raise plugin_error(judge.name, "shielded", error) from error
    if count != len(candidates):
        problem = f"expected one answer for each of {len(candidates)} candidates, got {count}"
        raise PluginError(judge.name, "shielded", problem)
    return shielded


def _ends(judge: _Judge, claimant: TaskState, tasks: Sequence[TaskState]) -> list[float]:
    """Return when tasks cease to be protected, as far as a plugin knows."""
    assert judge.refused_until is not None
    try:
        said = list[object](judge.refused_until(claimant, tasks))
        ends = [end for end in said if end is not None]
        count = len(said)
    except Exception as error:
        raise plugin_error(judge.name, "refused_until", error) from error
    times = [float(end) for end in ends if isinstance(end, (int, float)) and isfinite(end)]
    problem = ""
    if count != len(tasks):
        problem = f"expected one answer for each of {len(tasks)} candidates, got {count}"
    elif len(times) != len(ends):
        problem = f"expected times in seconds, or None, got {shown(ends)}"
    if problem:
        raise PluginError(judge.name, "refused_until", problem)
    return times


def _severity(said: tuple[str, Verdict]) -> int:
    return _SEVERITY[said[1]]


def _by_candidate(answers: _Answers) -> list[tuple[Verdict, ...]]:
    return list(zip(*[verdicts for tier in answers for verdicts in tier], strict=True))


def _telling(teller: Teller, plugin: str, point: str, judge: GivesVerdicts) -> GivesVerdicts:
    """Return a function that gives the verdicts of a plugin, and tells of them."""

    def told(claimant: TaskState, candidates: Sequence[TaskState]) -> Sequence[Verdict]:
        verdicts = tuple(judge(claimant, candidates))
        teller.keep(
            VerdictsGiven(
                action=teller.action,
                plugin=plugin,
                point=point,
                alone=len(candidates) == 1,
                claimant=claimant.uid,
                verdicts={
                    candidate.uid: getattr(verdict, "value", str(verdict))
                    for candidate, verdict in zip(candidates, verdicts, strict=False)
                },
            )
        )
        return verdicts

    return told
