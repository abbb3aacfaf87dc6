"""The extension points of all plugins, compiled for one cycle; defines the meaning of tiers.

Each extension point is a list of functions by tier, built once when the session opens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite, isnan
from typing import ParamSpec, TypeVar

from batchsched.errors import PluginError, plugin_error
from batchsched.model.reasons import JobCondition, Unfit
from batchsched.model.result import QueueOutcome
from batchsched.model.validation.values import shown
from batchsched.plugin.changes import Changes
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.node_functions import NodeScore, Predicate
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Vote
from batchsched.session.aggregation import (
    Named,
    asked_first,
    guarded,
    listed,
    takes_need,
    voting,
    without_need,
)
from batchsched.session.answers import (
    check_bool,
    check_claim,
    check_condition,
    check_outcomes,
    check_past_use,
    check_refusal,
    check_share,
    check_weights,
    no_order_key,
)
from batchsched.session.eviction_points import EvictionPoints
from batchsched.session.opened_plugins import ConfiguredPlugin, OpenedPlugins
from batchsched.session.victims import RecentStarts
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.turn_order import SortKey
from batchsched.state.units import EvictionUnit

__all__ = ["PluginSet"]

AskedT = ParamSpec("AskedT")
AnswerT = TypeVar("AnswerT")
_Functions = list[Named[Callable[AskedT, AnswerT]]]
_Voters = list[list[Named[Callable[[JobState], Vote | bool]]]]


class PluginSet:
    """The extension points of all plugins of one cycle.

    Raises:
        PluginError: a plugin raised an exception when it was opened, or its `open`
            returned an object without extension points.

    """

    def __init__(self, plugins: Sequence[ConfiguredPlugin], view: SessionView) -> None:
        self._unit_of = view.unit_of
        self._keyed: list[TaskState] = []
        """The tasks with cached keys in task order, if they must be computed again."""
        self.opened = OpenedPlugins(plugins, view)
        self._compile()
        view.open_orders(self.task_key)
        self._open_past(view)

    def resume(self, view: SessionView, changes: Changes) -> frozenset[str]:
        """Resume each plugin, or open it again.

        Returns:
            The extension points of the plugins that were opened again.

        """
        anew = self.opened.resume(view, changes)
        if "task_order_key" in anew:
            self.forget_keys(view)
        if anew:
            self._compile()
            self._open_past(view)
        return anew

    def forget_keys(self, view: SessionView) -> None:
        """Drop the cached keys of tasks, because other plugin objects compute them from now on."""
        # The keys of plugins that support `resume` were not noted.
        for task in self._keyed if self._forgets_keys else view.tasks.values():
            task.order_key = None
        self._keyed.clear()

    def _compile(self) -> None:
        self.job_orders: _Functions[[JobState], object] = self.opened.on("job_order_key")
        self.queue_orders: _Functions[[QueueState, Need | None], object] = []
        self.orders_by_need = False
        """Whether any plugin ranks sibling queues by need."""
        for name, function in self.opened.on("queue_order_key"):
            by_need = takes_need(function)
            self.orders_by_need |= by_need
            self.queue_orders.append((name, function if by_need else without_need(function)))
        self._need_orders: _Functions[[Need], object] = self.opened.on("need_order_key")
        self.orders_jobs_by_need = self.orders_by_need and bool(self._need_orders)
        """Whether jobs of a queue are ranked by need first."""
        self._claims: _Functions[[Need, ClaimTerms], Claim | Unfit] = self.opened.on("claim")
        self._allocatable: _Functions[[QueueState, Need], Unfit | None] = self.opened.on(
            "allocatable"
        )
        self.task_orders: _Functions[[TaskState], object] = self.opened.on("task_order_key")
        self._forgets_keys = any(
            not hasattr(opened.object, "resume") for opened in self.opened.having("task_order_key")
        )
        self.limits_queues = bool(self._allocatable)
        """Whether any plugin limits what queues may allocate."""
        self._overused: _Functions[[QueueState], bool] = self.opened.on("overused")
        self._queue_shares: _Functions[
            [QueueState], tuple[Sequence[float], Sequence[float]] | None
        ] = self.opened.on("queue_share")
        self._queue_outcomes: _Functions[
            [Callable[[TaskState], SortKey]], Mapping[str, QueueOutcome]
        ] = self.opened.on("queue_outcomes")
        self._jobs_admitted: _Functions[[], None] = self.opened.on("jobs_admitted")
        self._close: _Functions[[], Iterable[tuple[JobState, JobCondition]]] = self.opened.on(
            "close"
        )
        self.allocate_listeners: tuple[Callable[[TaskState], None], ...] = tuple(
            guarded(name, "on_allocate", tell) for name, tell in self.opened.on("on_allocate")
        )
        """What is to be told of placements."""
        self.deallocate_listeners: tuple[Callable[[TaskState], None], ...] = tuple(
            guarded(name, "on_deallocate", tell) for name, tell in self.opened.on("on_deallocate")
        )
        """What is to be told of evictions and undone placements."""
        self._valid: _Functions[[JobState], JobCondition | None] = self.opened.on("job_valid")
        self._on_resource: _Functions[[TaskState, NodeState], float] = self.opened.on(
            "node_order_on_resource"
        )
        self.job_ready = self._voting("job_ready")
        """Returns whether a job's allocated tasks may be bound."""
        self.job_pipelined = self._voting("job_pipelined")
        """Returns whether the promises to a job are enough for it to start."""
        self.job_condition_ready = self._voting("job_condition_ready")
        """Returns whether a job is ready or conditionally ready."""
        self.eviction = EvictionPoints(self.opened, self._unit_of)
        """The extension points that concern evictions."""
        self.predicates: list[tuple[str, Predicate]] = [
            (name, predicate)
            for name, function in self.opened.on("predicates")
            for predicate in listed(name, "predicates", function, Predicate)
        ]
        """All predicates, in the order of evaluation, with their plugins' names."""
        self.node_scores: list[tuple[str, NodeScore]] = [
            (name, score)
            for name, function in self.opened.on("node_scores")
            for score in listed(name, "node_scores", function, NodeScore)
            if _sound_weight(name, score)
        ]
        """All scores with a weight other than 0, with their plugins' names."""

    # Orders

    def names_on(self, point: str) -> list[str]:
        """Return the plugins for which an extension point is enabled, in the order of calls."""
        return [name for name, _ in self.opened.on(point)]

    def job_key(self, job: JobState) -> SortKey:
        """Return the key of a job in job order; the smallest comes first."""
        key: list[object] = []
        name = ""
        try:
            for name, function in self.job_orders:
                answer = function(job)
                if type(answer) is float and isnan(answer):
                    raise no_order_key(name, "job_order_key", answer)
                key.append(answer)
        except Exception as error:
            raise plugin_error(name, "job_order_key", error) from error
        key.append(job.info.creation_time)
        key.append(job.uid)
        return tuple(key)

    def need_key(self, need: Need | None) -> SortKey:
        """Return the key of a need, which ranks jobs before job order; None is the smallest."""
        if need is None:
            return ()
        key: list[object] = []
        name = ""
        try:
            for name, function in self._need_orders:
                answer = function(need)
                if type(answer) is float and isnan(answer):
                    raise no_order_key(name, "need_order_key", answer)
                key.append(answer)
        except Exception as error:
            raise plugin_error(name, "need_order_key", error) from error
        return tuple(key)

    def queue_key(self, queue: QueueState, need: Need | None = None) -> SortKey:
        """Return the key of a queue in queue order; the smallest comes first.

        `need` is that of the next job below it, for plugins that rank queues by need.
        """
        key: list[object] = []
        name = ""
        try:
            for name, function in self.queue_orders:
                answer = function(queue, need)
                if type(answer) is float and isnan(answer):
                    raise no_order_key(name, "queue_order_key", answer)
                key.append(answer)
        except Exception as error:
            raise plugin_error(name, "queue_order_key", error) from error
        key.append(queue.info.creation_time)
        key.append(queue.name)
        return tuple(key)

    def task_key(self, task: TaskState) -> SortKey:
        """Return the key of a task in task order; the smallest comes first. It is cached."""
        if task.order_key is None:
            key: list[object] = []
            name = ""
            try:
                for name, function in self.task_orders:
                    answer = function(task)
                    if type(answer) is float and isnan(answer):
                        raise no_order_key(name, "task_order_key", answer)
                    key.append(answer)
            except Exception as error:
                raise plugin_error(name, "task_order_key", error) from error
            key.append(task.info.creation_time)
            key.append(task.uid)
            task.order_key = tuple(key)
            if self._forgets_keys:
                self._keyed.append(task)
        return task.order_key

    # Readiness and validity

    def _voting(self, point: str) -> Callable[[JobState], bool]:
        voters: _Voters = self.opened.by_tier(point)
        return voting(voters, point)

    def job_valid(self, job: JobState) -> tuple[str, JobCondition] | None:
        """Return the first refusal, with the plugin's name, or None."""
        for name, function in self._valid:
            try:
                refusal = function(job)
            except Exception as error:
                raise plugin_error(name, "job_valid", error) from error
            if refusal is not None:
                check_condition(name, "job_valid", refusal)
                return name, refusal
        return None

    def overused(self, queue: QueueState) -> bool:
        """Return whether any plugin says that the queue has its deserved share."""
        for name, function in self._overused:
            try:
                answer = function(queue)
            except Exception as error:
                raise plugin_error(name, "overused", error) from error
            if answer is not True and answer is not False:
                check_bool(name, "overused", answer)
            if answer:
                return True
        return False

    def allocatable(self, queue: QueueState, need: Need) -> Unfit | None:
        """Return the first plugin's reason why the queue may not allocate the need, or None."""
        for name, function in self._allocatable:
            try:
                refusal = function(queue, need)
            except Exception as error:
                raise plugin_error(name, "allocatable", error) from error
            if refusal is not None:
                check_refusal(name, refusal)
                return refusal
        return None

    def _open_past(self, view: SessionView) -> None:
        """Give the view the functions for past use."""
        view.open_past(
            asked_first(self.opened.on("surplus_weights"), "surplus_weights", check_weights),
            asked_first(self.opened.on("past_use_key"), "past_use_key", check_past_use),
        )

    @property
    def has_claims(self) -> bool:
        """Whether a plugin determines what queues may reclaim."""
        return bool(self._claims)

    def claim(self, need: Need, recent: RecentStarts | None = None) -> Claim | Unfit:
        """Return what may be reclaimed for a need, without `recent`, or why nothing may."""
        claimant = need.tasks[0]

        def protected_by(unit: EvictionUnit) -> str | None:
            return self.eviction.protected_by(claimant, unit, recent)

        terms = ClaimTerms(self.task_key, protected_by)
        name, function = self._claims[0]
        try:
            claim = function(need, terms)
        except Exception as error:
            raise plugin_error(name, "claim", error) from error
        check_claim(name, claim)
        return claim

    def queue_outcomes(self) -> Mapping[str, QueueOutcome]:
        """Return the outcomes of queues by name; empty if no plugin reports them."""
        for name, function in self._queue_outcomes:
            try:
                outcomes: Mapping[str, QueueOutcome] = function(self.task_key)
            except Exception as error:
                raise plugin_error(name, "queue_outcomes", error) from error
            check_outcomes(name, outcomes)
            return outcomes
        return {}

    def jobs_admitted(self) -> None:
        """Notify plugins that the jobs of the session are known."""
        for name, function in self._jobs_admitted:
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
                check_share(name, share)
                return share
        return None

    # Nodes

    def node_order_on_resource(self, task: TaskState, node: NodeState) -> float:
        """Return the sum of all plugins' scores for the room of a node for a task."""
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

    # The end

    def close(self) -> dict[str, JobCondition]:
        """Close all plugins in configured order; return the jobs that could not be scheduled."""
        conditions: dict[str, JobCondition] = {}
        for name, function in self._close:
            try:
                for job, condition in function():
                    check_condition(name, "close", condition)
                    conditions.setdefault(job.uid, condition)
            except PluginError:
                raise
            except Exception as error:
                raise plugin_error(name, "close", error) from error
        return conditions


def _sound_weight(name: str, score: NodeScore) -> float:
    """Return the weight of a score, which must be a finite number."""
    weight = score.weight
    if type(weight) not in (int, float) or not isfinite(weight):
        problem = f"expected a finite number as the weight of a score, got {shown(weight)}"
        raise PluginError(name, "node_scores", problem)
    return weight
