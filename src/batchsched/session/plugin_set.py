"""The extension points of all plugins, compiled for one cycle: what tiers mean, in one place.

Each extension point is a list of functions by tier,
made once when the session opens; a plugin whose flag is off for a point is not
on that point's list.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import isfinite
from typing import Any, ParamSpec, TypeVar, cast

from attrs import frozen

from batchsched.errors import PluginError, plugin_error
from batchsched.model.queue_outcome import QueueOutcome
from batchsched.model.reasons import JobCondition, Unfit
from batchsched.model.validation.values import shown
from batchsched.plugin.changes import Changes
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.extension_points import ClaimantKey, Plugin, Shield
from batchsched.plugin.node_functions import NodeScore, Predicate
from batchsched.plugin.point_names import points_of
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict, Vote
from batchsched.session.aggregation import (
    Named,
    by_tier,
    combine_votes,
    expect_unfit,
    guarded,
    listed,
    takes_need,
    without_need,
)
from batchsched.session.victims import Judge, Judges, RecentStarts, Victims, WholeJobs
from batchsched.state.live_queue import SortKey
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.units import EvictionUnit

__all__ = ["ConfiguredPlugin", "PluginSet"]

AskedT = ParamSpec("AskedT")
AnswerT = TypeVar("AnswerT")
_Functions = list[Named[Callable[AskedT, AnswerT]]]
_Voters = list[list[Named[Callable[[JobState], Vote | bool]]]]


_VERDICT_TEXTS = {
    Verdict.PROTECTED: "protected by {plugin}",
    Verdict.PASS: "not for the reason of {plugin}",
    Verdict.WITH_JOB: "only with its job, all of which may not go",
    Verdict.VICTIM: "victims of an earlier tier go first",
}


@frozen
class ConfiguredPlugin:
    """A plugin as it stands in a configuration."""

    name: str
    tier: int
    plugin: Plugin
    disabled: frozenset[str] = frozenset()
    """The extension points that are off, by method name; see `ENABLE_FLAGS`."""


@frozen
class _Opened:
    name: str
    tier: int
    object: object
    points: frozenset[str]
    """The extension points that it has and that are on, by method name."""


def _opened(configured: ConfiguredPlugin, view: SessionView) -> _Opened:
    try:
        opened = configured.plugin.open(view)
    except PluginError:
        raise
    except Exception as error:
        raise plugin_error(configured.name, "open", error) from error
    enabled = points_of(configured.name, opened) - configured.disabled
    return _Opened(configured.name, configured.tier, opened, enabled)


class PluginSet:
    """The extension points of all plugins of one cycle.

    Raises:
        PluginError: a plugin raised when it was opened, or gave an object that
            implements no extension point.

    """

    def __init__(self, plugins: Sequence[ConfiguredPlugin], view: SessionView) -> None:
        self._configured = plugins
        self._unit_of = view.unit_of
        self._keyed: list[TaskState] = []
        """The tasks whose keys under `task_order` were made, if they are to be made anew."""
        self._opened = [_opened(configured, view) for configured in plugins]
        self._compile()
        view.open_orders(self.signature)

    def resume(self, view: SessionView, changes: Changes) -> frozenset[str]:
        """Let each plugin catch up, or open it anew; return what is answered by others now.

        That is, the extension points of the plugins that were opened anew.
        """
        anew: set[str] = set()
        for position, configured in enumerate(self._configured):
            known = self._opened[position]
            resume = getattr(known.object, "resume", None)
            try:
                if resume is not None and resume(changes) is True:
                    continue
            except PluginError:
                raise
            except Exception as error:
                raise plugin_error(configured.name, "resume", error) from error
            opened = self._opened[position] = _opened(configured, view)
            anew |= known.points | opened.points
        if "task_order_key" in anew:
            self.forget_keys(view)
        if anew:
            self._compile()
        return frozenset(anew)

    def forget_keys(self, view: SessionView) -> None:
        """Forget the keys of tasks, because others say what they are from now on."""
        # Those of plugins that meant to keep their keys were not noted.
        for task in self._keyed if self._forgets_keys else view.tasks.values():
            task.order_key = None
        self._keyed.clear()

    def _compile(self) -> None:
        self.job_orders: _Functions[[JobState], object] = self._on("job_order_key")
        self.queue_orders: _Functions[[QueueState, Need | None], object] = []
        self.orders_by_need = False
        """Whether any plugin ranks siblings in a tree of queues by what they need."""
        for name, function in self._on("queue_order_key"):
            by_need = takes_need(function)
            self.orders_by_need |= by_need
            self.queue_orders.append((name, function if by_need else without_need(function)))
        self._claims: _Functions[[Need, ClaimTerms], Claim | Unfit] = self._on("claim")
        self._allocatable: _Functions[[QueueState, Need], Unfit | None] = self._on("allocatable")
        self.task_orders: _Functions[[TaskState], object] = self._on("task_order_key")
        self._forgets_keys = any(
            "task_order_key" in opened.points and not hasattr(opened.object, "resume")
            for opened in self._opened
        )
        self._overused: _Functions[[QueueState], bool] = self._on("overused")
        self._may_give: _Functions[[QueueState], bool] = self._on("may_give", "reclaimable")
        self._queue_shares: _Functions[
            [QueueState], tuple[Sequence[float], Sequence[float]] | None
        ] = self._on("queue_share")
        self._valid: _Functions[[JobState], JobCondition | None] = self._on("job_valid")
        self._on_resource: _Functions[[TaskState, NodeState], float] = self._on(
            "node_order_on_resource"
        )
        self._ready: _Voters = self._by_tier("job_ready")
        self._pipelined: _Voters = self._by_tier("job_pipelined")
        self._condition_ready: _Voters = self._by_tier("job_condition_ready")
        self._preemptable = self._judges("preemptable")
        self._reclaimable = self._judges("reclaimable")
        revocable = self._judges("revocable")
        self._revocable = revocable if self._on("revocable") else None
        points = ("preemptable", "reclaimable")
        self._claimant_keys = {point: self._claimant_keys_on(point) for point in points}
        self._shields = {point: self._shields_on(point) for point in points}
        self._shield_keys = {point: self._shield_keys_on(point) for point in points}
        self._only_with_job = {
            point: self._on("only_with_job", "claimant_key", point) for point in points
        }
        self.predicates: list[tuple[str, Predicate]] = [
            (name, predicate)
            for name, function in self._on("predicates")
            for predicate in listed(name, "predicates", function, Predicate)
        ]
        """All predicates, in the order in which they are asked, with their plugins' names."""
        self.node_scores: list[tuple[str, NodeScore]] = [
            (name, score)
            for name, function in self._on("node_scores")
            for score in listed(name, "node_scores", function, NodeScore)
            if _sound_weight(name, score)
        ]
        """All scores that count, with their plugins' names."""

    # The functions of an extension point are what `batchsched.plugin` says, or the first call
    # tells: to ask protocols with `isinstance` would take half of the time of opening.

    def _on(self, point: str, *others: str) -> list[Named[Any]]:
        """Return the functions of an extension point that are on, with their plugins' names.

        Only those of plugins that have the others on too.
        """
        return [
            (opened.name, getattr(opened.object, point))
            for opened in self._opened
            if opened.points.issuperset((point, *others))
        ]

    def _by_tier(self, point: str) -> list[list[Named[Any]]]:
        return by_tier(
            (opened.name, opened.tier, getattr(opened.object, point))
            for opened in self._opened
            if point in opened.points
        )

    def _judges(self, point: str) -> Judges:
        alone = f"{point}_alone"
        tiers: dict[int, list[Judge]] = {}
        for opened in self._opened:
            if point in opened.points:
                judge = Judge(
                    opened.name,
                    getattr(opened.object, point),
                    getattr(opened.object, alone) if alone in opened.points else None,
                )
                tiers.setdefault(opened.tier, []).append(judge)
        return Judges(point, [tiers[tier] for tier in sorted(tiers)], self._unit_of)

    def _claimant_keys_on(self, point: str) -> _Functions[[TaskState], Hashable] | None:
        """Return what tells claimants apart, of all plugins with verdicts; None if one lacks it."""
        judges = [opened for opened in self._opened if point in opened.points]
        if not all("claimant_key" in opened.points for opened in judges):
            return None
        return [(opened.name, cast("ClaimantKey", opened.object).claimant_key) for opened in judges]

    def _shields_on(self, point: str) -> list[Named[Shield]]:
        """Return the plugins with verdicts that know who is protected in any case."""
        return [
            (opened.name, cast("Shield", opened.object))
            for opened in self._opened
            if opened.points.issuperset((point, "claimant_key", "shielded"))
        ]

    def _shield_keys_on(self, point: str) -> _Functions[[TaskState], Hashable]:
        return [
            (opened.name, cast("ClaimantKey", opened.object).claimant_key)
            for opened in self._opened
            if opened.points.issuperset((point, "claimant_key"))
            and ("shielded" in opened.points or "only_with_job" in opened.points)
        ]

    # Orders

    def names_on(self, point: str) -> list[str]:
        """Return the plugins that have an extension point that is on, in the order of asking."""
        return [name for name, _ in self._on(point)]

    def job_key(self, job: JobState) -> SortKey:
        """Return the key of a job under job_order; the least goes first."""
        key: list[object] = []
        name = ""
        try:
            for name, function in self.job_orders:
                key.append(function(job))
        except Exception as error:
            raise plugin_error(name, "job_order_key", error) from error
        key.append(job.info.creation_time)
        key.append(job.uid)
        return tuple(key)

    def queue_key(self, queue: QueueState, need: Need | None = None) -> SortKey:
        """Return the key of a queue under queue_order; the least goes first.

        `need` is that of the next job below it, for plugins that rank queues by it.
        """
        key: list[object] = []
        name = ""
        try:
            for name, function in self.queue_orders:
                key.append(function(queue, need))
        except Exception as error:
            raise plugin_error(name, "queue_order_key", error) from error
        key.append(queue.info.creation_time)
        key.append(queue.name)
        return tuple(key)

    def signature(self, task: TaskState) -> SortKey:
        """Return the key of a task under task_order; the least goes first. Made once a task."""
        if task.order_key is None:
            key: list[object] = []
            name = ""
            try:
                for name, function in self.task_orders:
                    key.append(function(task))
            except Exception as error:
                raise plugin_error(name, "task_order_key", error) from error
            key.append(task.info.creation_time)
            key.append(task.uid)
            task.order_key = tuple(key)
            if self._forgets_keys:
                self._keyed.append(task)
        return task.order_key

    # Readiness and validity

    def job_ready(self, job: JobState) -> bool:
        """Return whether the job's tasks that have a place may be bound."""
        return combine_votes(self._ready, job, "job_ready")

    def job_pipelined(self, job: JobState) -> bool:
        """Return whether what was promised to the job is enough."""
        return combine_votes(self._pipelined, job, "job_pipelined")

    def job_condition_ready(self, job: JobState) -> bool:
        """Return whether the job is ready or conditionally ready."""
        return combine_votes(self._condition_ready, job, "job_condition_ready")

    def job_valid(self, job: JobState) -> tuple[str, JobCondition] | None:
        """Return the first refusal, with the plugin's name, or None."""
        for name, function in self._valid:
            try:
                refusal = function(job)
            except Exception as error:
                raise plugin_error(name, "job_valid", error) from error
            if refusal is not None:
                _expect_condition(name, "job_valid", refusal)
                return name, refusal
        return None

    def overused(self, queue: QueueState) -> bool:
        """Return whether any plugin says that the queue has all that it deserves."""
        for name, function in self._overused:
            try:
                if function(queue):
                    return True
            except Exception as error:
                raise plugin_error(name, "overused", error) from error
        return False

    def allocatable(self, queue: QueueState, need: Need) -> Unfit | None:
        """Return why the queue may not take what is needed; the first refusal counts."""
        for name, function in self._allocatable:
            try:
                refusal = function(queue, need)
            except Exception as error:
                raise plugin_error(name, "allocatable", error) from error
            if refusal is not None:
                expect_unfit(name, refusal)
                return refusal
        return None

    @property
    def has_claims(self) -> bool:
        """Whether a plugin says what queues may take back from others."""
        return bool(self._claims)

    def claim(self, need: Need, recent: RecentStarts | None = None) -> Claim | Unfit:
        """Return what may be taken back for a need, never from `recent`, or why nothing may."""
        claimant = need.tasks[0]

        def may_go(unit: EvictionUnit) -> bool:
            return self._reclaimable.lets_go(
                claimant, unit.victims, is_whole_job=not unit.is_surplus, recent=recent
            )

        terms = ClaimTerms(self.signature, may_go)
        name, function = self._claims[0]
        try:
            return function(need, terms)
        except PluginError:
            raise
        except Exception as error:
            raise plugin_error(name, "claim", error) from error

    def queue_outcomes(self) -> Mapping[str, QueueOutcome]:
        """Return how queues stand, by name; of nobody, if no plugin knows."""
        for name, function in self._on("queue_outcomes"):
            try:
                outcomes: Mapping[str, QueueOutcome] = function(self.signature)
            except Exception as error:
                raise plugin_error(name, "queue_outcomes", error) from error
            return outcomes
        return {}

    @property
    def limits_queues(self) -> bool:
        """Whether any plugin says what queues may take."""
        return bool(self._allocatable)

    def jobs_admitted(self) -> None:
        """Tell plugins that it is known which jobs the session schedules."""
        for name, function in self._on("jobs_admitted"):
            try:
                function()
            except Exception as error:
                raise plugin_error(name, "jobs_admitted", error) from error

    def queue_share(self, queue: QueueState) -> tuple[Sequence[float], Sequence[float]] | None:
        """Return what a queue deserves and has, from the first plugin that knows, or None."""
        for name, function in self._queue_shares:
            try:
                share = function(queue)
            except Exception as error:
                raise plugin_error(name, "queue_share", error) from error
            if share is not None:
                return share
        return None

    # Victims

    def preemptable(
        self,
        claimant: TaskState,
        candidates: Sequence[TaskState],
        whole_jobs: WholeJobs | None = None,
        recent: RecentStarts | None = None,
    ) -> Victims:
        """Return which of the candidates may be evicted for a task of their own queue."""
        return self._preemptable.victims(claimant, candidates, whole_jobs, recent)

    def reclaimable(
        self,
        claimant: TaskState,
        candidates: Sequence[TaskState],
        whole_jobs: WholeJobs | None = None,
        recent: RecentStarts | None = None,
    ) -> Victims:
        """Return which of the candidates may be evicted for a task of another queue."""
        return self._reclaimable.victims(claimant, candidates, whole_jobs, recent)

    def revocable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Victims:
        """Return which backfill tasks may be evicted for one that was promised their room."""
        if self._revocable is None:
            return Victims(candidates)
        return self._revocable.victims(claimant, candidates)

    def why_not_evicted(
        self,
        point: str,
        claimant: TaskState,
        groups: Sequence[Sequence[TaskState]],
        recent: RecentStarts | None = None,
    ) -> list[list[str | None]]:
        """Return why each candidate may not be evicted, in words; None for those that may.

        `point` is ``preemptable`` or ``reclaimable``; candidates come node by node, in victim
        order. None of them is in `recent`, but others of their jobs may be.
        """
        judges = self._preemptable if point == "preemptable" else self._reclaimable
        why = judges.why_not(claimant, groups, recent)
        words = dict(self._on("verdict_reasons"))
        reasons: list[list[str | None]] = [[None] * len(group) for group in groups]
        places: dict[tuple[str, Verdict], list[tuple[int, int]]] = {}
        for number, of_group in enumerate(why):
            for place, said in enumerate(of_group):
                if said is not None:
                    places.setdefault(said, []).append((number, place))
        for (name, verdict), where in places.items():
            general = _VERDICT_TEXTS[verdict].format(plugin=name)
            own: Sequence[str] = ()
            if name in words:
                candidates = [groups[number][place] for number, place in where]
                try:
                    own = words[name](claimant, candidates, verdict)
                except Exception as error:
                    raise plugin_error(name, "verdict_reasons", error) from error
                if len(own) != len(candidates):
                    problem = f"{len(own)} answers on {len(candidates)} candidates"
                    raise PluginError(name, "verdict_reasons", problem)
            for index, (number, place) in enumerate(where):
                reasons[number][place] = (own[index] if own else "") or general
        return reasons

    def shield_key(self, point: str, claimant: TaskState) -> tuple[Hashable, ...]:
        """Return what of a claimant decides who is shielded.

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
        """Return the candidates that may be victims as far as is known without verdicts.

        It is the same for all claimants with one `shield_key`.
        """
        left = list(candidates)
        name = ""
        try:
            for name, shield in self._shields[point]:
                shielded = shield.shielded(claimant, left)
                if len(shielded) != len(left):
                    problem = f"{len(shielded)} answers on {len(left)} candidates"
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
        """Return, for each candidate, whether it is known that it cannot go on its own.

        It is the same for all claimants with one `shield_key`.
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
        """Return False if no task of the queue can be reclaimed now, whoever claims it."""
        for name, function in self._may_give:
            try:
                if not function(queue):
                    return False
            except Exception as error:
                raise plugin_error(name, "may_give", error) from error
        return True

    def claimant_key(self, point: str, claimant: TaskState) -> tuple[Hashable, ...] | None:
        """Return what verdicts read of a claimant; None if a plugin does not say.

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

    # Nodes

    def node_order_on_resource(self, task: TaskState, node: NodeState) -> float:
        """Return how much room the node has for the task, as all plugins together see it."""
        total: float = 0
        for name, function in self._on_resource:
            try:
                answer = function(task, node)
                if not isfinite(0.0 + answer):
                    raise ValueError(f"expected a finite number, got {answer!r}")
                total += answer
            except Exception as error:
                raise plugin_error(name, "node_order_on_resource", error) from error
        return total

    # Events and the end

    def allocate_listeners(self) -> tuple[Callable[[TaskState], None], ...]:
        """Return what is to be told of placements."""
        listeners = self._on("on_allocate")
        return tuple(guarded(name, "on_allocate", tell) for name, tell in listeners)

    def deallocate_listeners(self) -> tuple[Callable[[TaskState], None], ...]:
        """Return what is to be told of evictions and undone placements."""
        return tuple(
            guarded(name, "on_deallocate", tell) for name, tell in self._on("on_deallocate")
        )

    def close(self) -> dict[str, JobCondition]:
        """Close all plugins in configured order; return the jobs that could not be scheduled."""
        conditions: dict[str, JobCondition] = {}
        for name, function in self._on("close"):
            try:
                for job, condition in function():
                    _expect_condition(name, "close", condition)
                    conditions.setdefault(job.uid, condition)
            except PluginError:
                raise
            except Exception as error:
                raise plugin_error(name, "close", error) from error
        return conditions


def _expect_condition(name: str, point: str, condition: object) -> None:
    if not isinstance(condition, JobCondition):
        raise PluginError(name, point, f"expected a JobCondition, got {condition!r}")


def _sound_weight(name: str, score: NodeScore) -> float:
    """Return the weight of a score, if it is a finite number."""
    weight = score.weight
    if type(weight) not in (int, float) or not isfinite(weight):
        problem = f"expected a finite number as the weight of a score, got {shown(weight)}"
        raise PluginError(name, "node_scores", problem)
    return weight
