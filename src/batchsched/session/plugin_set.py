"""The extension points of all plugins, compiled for one cycle: what tiers mean, in one place.

Each extension point is a list of functions by tier, made once when the session opens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import ParamSpec, TypeVar

from batchsched.errors import PluginError, plugin_error
from batchsched.model.queue_outcome import QueueOutcome
from batchsched.model.reasons import JobCondition, Unfit
from batchsched.model.validation.values import shown
from batchsched.plugin.changes import Changes
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.node_functions import NodeScore, Predicate
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Vote
from batchsched.session.aggregation import (
    Named,
    asked_first,
    expect_unfit,
    guarded,
    listed,
    takes_need,
    voting,
    without_need,
)
from batchsched.session.eviction_points import EvictionPoints
from batchsched.session.opened_plugins import ConfiguredPlugin, OpenedPlugins
from batchsched.session.victims import RecentStarts
from batchsched.state.live_queue import SortKey
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.units import EvictionUnit

__all__ = ["PluginSet"]

AskedT = ParamSpec("AskedT")
AnswerT = TypeVar("AnswerT")
_Functions = list[Named[Callable[AskedT, AnswerT]]]
_Voters = list[list[Named[Callable[[JobState], Vote | bool]]]]


class PluginSet:
    """The extension points of all plugins of one cycle.

    Raises:
        PluginError: a plugin raised when it was opened, or gave an object that
            implements no extension point.

    """

    def __init__(self, plugins: Sequence[ConfiguredPlugin], view: SessionView) -> None:
        self._unit_of = view.unit_of
        self._keyed: list[TaskState] = []
        """The tasks whose keys under `task_order` were made, if they are to be made anew."""
        self.opened = OpenedPlugins(plugins, view)
        self._compile()
        view.open_orders(self.task_key)
        self._open_past(view)

    def resume(self, view: SessionView, changes: Changes) -> frozenset[str]:
        """Let each plugin catch up, or open it anew; return what is answered by others now.

        That is, the extension points of the plugins that were opened anew.
        """
        anew = self.opened.resume(view, changes)
        if "task_order_key" in anew:
            self.forget_keys(view)
        if anew:
            self._compile()
            self._open_past(view)
        return anew

    def forget_keys(self, view: SessionView) -> None:
        """Forget the keys of tasks, because others say what they are from now on."""
        # Those of plugins that meant to keep their keys were not noted.
        for task in self._keyed if self._forgets_keys else view.tasks.values():
            task.order_key = None
        self._keyed.clear()

    def _compile(self) -> None:
        self.job_orders: _Functions[[JobState], object] = self.opened.on("job_order_key")
        self.queue_orders: _Functions[[QueueState, Need | None], object] = []
        self.orders_by_need = False
        """Whether any plugin ranks siblings in a tree of queues by what they need."""
        for name, function in self.opened.on("queue_order_key"):
            by_need = takes_need(function)
            self.orders_by_need |= by_need
            self.queue_orders.append((name, function if by_need else without_need(function)))
        self._need_orders: _Functions[[Need], object] = self.opened.on("need_order_key")
        self.orders_jobs_by_need = self.orders_by_need and bool(self._need_orders)
        """Whether jobs of a queue are ranked first by what they ask for."""
        self._claims: _Functions[[Need, ClaimTerms], Claim | Unfit] = self.opened.on("claim")
        self._allocatable: _Functions[[QueueState, Need], Unfit | None] = self.opened.on(
            "allocatable"
        )
        self.task_orders: _Functions[[TaskState], object] = self.opened.on("task_order_key")
        self._forgets_keys = any(
            not hasattr(opened.object, "resume") for opened in self.opened.having("task_order_key")
        )
        self.limits_queues = bool(self._allocatable)
        """Whether any plugin says what queues may take."""
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
        """Returns whether a job's tasks that have a place may be bound."""
        self.job_pipelined = self._voting("job_pipelined")
        """Returns whether what was promised to a job is enough."""
        self.job_condition_ready = self._voting("job_condition_ready")
        """Returns whether a job is ready or conditionally ready."""
        self.eviction = EvictionPoints(self.opened, self._unit_of)
        """Who may be evicted for whom."""
        self.predicates: list[tuple[str, Predicate]] = [
            (name, predicate)
            for name, function in self.opened.on("predicates")
            for predicate in listed(name, "predicates", function, Predicate)
        ]
        """All predicates, in the order in which they are asked, with their plugins' names."""
        self.node_scores: list[tuple[str, NodeScore]] = [
            (name, score)
            for name, function in self.opened.on("node_scores")
            for score in listed(name, "node_scores", function, NodeScore)
            if _sound_weight(name, score)
        ]
        """All scores that count, with their plugins' names."""

    # Orders

    def names_on(self, point: str) -> list[str]:
        """Return the plugins that have an extension point that is on, in the order of asking."""
        return [name for name, _ in self.opened.on(point)]

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

    def need_key(self, need: Need | None) -> SortKey:
        """Return the key of a need, by which jobs of a queue go before job_order; None is least."""
        if need is None:
            return ()
        key: list[object] = []
        name = ""
        try:
            for name, function in self._need_orders:
                key.append(function(need))
        except Exception as error:
            raise plugin_error(name, "need_order_key", error) from error
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

    def task_key(self, task: TaskState) -> SortKey:
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

    def _open_past(self, view: SessionView) -> None:
        """Let plugins that share by the past ask those that know it."""
        weights = asked_first(self.opened.on("surplus_weights"), "surplus_weights")
        view.open_past(weights, asked_first(self.opened.on("past_use_key"), "past_use_key"))

    @property
    def has_claims(self) -> bool:
        """Whether a plugin says what queues may take back from others."""
        return bool(self._claims)

    def claim(self, need: Need, recent: RecentStarts | None = None) -> Claim | Unfit:
        """Return what may be taken back for a need, never from `recent`, or why nothing may."""
        claimant = need.tasks[0]

        def kept_by(unit: EvictionUnit) -> str | None:
            return self.eviction.kept_by(claimant, unit, recent)

        terms = ClaimTerms(self.task_key, kept_by)
        name, function = self._claims[0]
        try:
            return function(need, terms)
        except PluginError:
            raise
        except Exception as error:
            raise plugin_error(name, "claim", error) from error

    def queue_outcomes(self) -> Mapping[str, QueueOutcome]:
        """Return how queues stand, by name; of nobody, if no plugin knows."""
        for name, function in self._queue_outcomes:
            try:
                outcomes: Mapping[str, QueueOutcome] = function(self.task_key)
            except Exception as error:
                raise plugin_error(name, "queue_outcomes", error) from error
            return outcomes
        return {}

    def jobs_admitted(self) -> None:
        """Tell plugins that it is known which jobs the session schedules."""
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
                return share
        return None

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

    # The end

    def close(self) -> dict[str, JobCondition]:
        """Close all plugins in configured order; return the jobs that could not be scheduled."""
        conditions: dict[str, JobCondition] = {}
        for name, function in self._close:
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
