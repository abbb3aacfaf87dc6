"""What all plugins of a cycle say together; defines the meaning of tiers.

Each extension point becomes one function when the session opens; see `OpenedPlugins.asking`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Protocol, TypeVar

from batchsched.errors import PluginError, plugin_error, problem_of
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import JobCondition, QueueShare, Unfit
from batchsched.model.result import QueueOutcome
from batchsched.model.validation.values import shown
from batchsched.plugin.changes import Changes
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.node_functions import NodeScore, Predicate
from batchsched.plugin.session_view import SessionView
from batchsched.session.opened_plugins import ConfiguredPlugin, Named, OpenedPlugins, takes_need
from batchsched.session.victims import EvictionPoints, RecentStarts, Victims
from batchsched.state.doors import Door
from batchsched.state.ledger import Ledger
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, SortKey, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.trace import Teller

__all__ = ["AsksPlugins", "PluginSet"]

ItemT = TypeVar("ItemT")


class _QueueKey(Protocol):
    def __call__(self, queue: QueueState, need: Need | None = None, /) -> SortKey:
        """Return the key of a queue in queue order; the smallest comes first.

        `need` is that of the next job below it, for plugins that rank queues by need.
        """
        ...


class PluginSet:
    """The combined answers of all plugins of one cycle.

    Raises:
        PluginError: a plugin raised an exception when it was opened, or its `open`
            returned an object without extension points.

    """

    def __init__(
        self,
        plugins: Sequence[ConfiguredPlugin],
        view: SessionView,
        teller: Teller | None = None,
    ) -> None:
        self._unit_of = view.unit_of
        self._keyed: list[TaskState] = []
        """The tasks with cached keys in task order, if they must be computed again."""
        self.opened = OpenedPlugins(plugins, view, teller)
        self._compile(view)
        view.open_orders(self.task_key)

    def resume(self, view: SessionView, changes: Changes) -> frozenset[str]:
        """Resume each plugin, or open it again.

        Returns:
            The extension points of the plugins that were opened again.

        """
        anew = self.opened.resume(view, changes)
        if "task_order_key" in anew:
            self.forget_keys(view)
        if anew:
            self._compile(view)
        return anew

    def forget_keys(self, view: SessionView) -> None:
        """Drop the cached keys of tasks, because other plugin objects compute them from now on."""
        # The keys of plugins that support `resume` were not noted.
        for task in self._keyed if self._forgets_keys else view.tasks.values():
            task.order_key = None
        self._keyed.clear()

    def _compile(self, view: SessionView) -> None:
        asking, has = self.opened.asking, self.opened.having
        # Orders: the smallest key comes first.
        self.job_key: Callable[[JobState], SortKey] = asking("job_order_key")
        self.queue_key: _QueueKey = asking("queue_order_key")
        self._need_key: Callable[[Need], SortKey] = asking("need_order_key")
        self._task_key: Callable[[TaskState], SortKey] = asking("task_order_key")
        self._forgets_keys = any(
            not hasattr(opened.object, "resume") for opened in has("task_order_key")
        )
        self.orders_by_need = any(takes_need(key) for _, key in self.opened.on("queue_order_key"))
        """Whether any plugin ranks sibling queues by need."""
        self.orders_jobs_by_need = self.orders_by_need and bool(has("need_order_key"))
        """Whether jobs of a queue are ranked by need first."""
        # Jobs
        self.job_valid: Callable[[JobState], JobCondition | None] = asking("job_valid")
        """Returns why a job is invalid, or None."""
        self.job_ready: Callable[[JobState], bool] = asking("job_ready")
        """Returns whether a job's allocated tasks may be bound."""
        self.job_pipelined: Callable[[JobState], bool] = asking("job_pipelined")
        """Returns whether the promises to a job are enough for it to start."""
        self.job_condition_ready: Callable[[JobState], bool] = asking("job_condition_ready")
        """Returns whether a job is ready or conditionally ready."""
        # Queues
        self.overused: Callable[[QueueState], bool] = asking("overused")
        """Returns whether a queue has its deserved share."""
        self.limits_queues = bool(has("allocatable"))
        """Whether any plugin limits what queues may allocate."""
        self.allocatable: Callable[[QueueState, Need], Unfit | None] = asking("allocatable")
        """Returns why a queue may not allocate a need, or None."""
        self.queue_share: Callable[[QueueState], tuple[Sequence[float], Sequence[float]] | None] = (
            asking("queue_share")
        )
        """Returns what a queue deserves and has, if a plugin knows."""
        self._queue_outcomes: Callable[
            [Callable[[TaskState], SortKey]], Mapping[str, QueueOutcome] | None
        ] = asking("queue_outcomes")
        view.open_past(
            asking("surplus_weights") if has("surplus_weights") else None,
            asking("past_use_key") if has("past_use_key") else None,
        )
        # Evictions
        self.eviction = EvictionPoints(
            self.opened, self._unit_of, uses_hints=Door.ROOM not in view.plain
        )
        """The verdicts of plugins."""
        self.has_claims = bool(has("claim"))
        """Whether a plugin determines what queues may reclaim."""
        self._claim: Callable[[Need, ClaimTerms], Claim | Unfit] = asking("claim")
        # Nodes
        self.predicates: list[Named[Predicate]] = asking("predicates")()
        """All predicates, in the order of evaluation, with their plugins' names."""
        scores: list[Named[NodeScore]] = asking("node_scores")()
        self.node_scores = [(name, score) for name, score in scores if score.weight]
        """All scores with a weight other than 0, with their plugins' names."""
        self.node_order_on_resource: Callable[[TaskState, NodeState], float] = asking(
            "node_order_on_resource"
        )
        """Returns the sum of all scores for the room of a node for a task."""
        # Events
        self.jobs_admitted: Callable[[], None] = asking("jobs_admitted")
        """Tells plugins that the jobs of the session are known."""
        self.allocate_listeners: tuple[Callable[[TaskState], None], ...] = (
            (asking("on_allocate"),) if has("on_allocate") else ()
        )
        """To call with each task that was placed."""
        self.deallocate_listeners: tuple[Callable[[TaskState], None], ...] = (
            (asking("on_deallocate"),) if has("on_deallocate") else ()
        )
        """To call with each task that was evicted, or whose placement was undone."""
        self._close: Callable[[], Iterable[Named[tuple[JobState, JobCondition]]]] = asking("close")

    def names_on(self, point: str) -> list[str]:
        """Return the plugins for which an extension point is enabled, in the order of calls."""
        return [opened.name for opened in self.opened.having(point)]

    def need_key(self, need: Need | None) -> SortKey:
        """Return the key of a need, which ranks jobs before job order; None is the smallest."""
        return () if need is None else self._need_key(need)

    def task_key(self, task: TaskState) -> SortKey:
        """Return the key of a task in task order; the smallest comes first. It is cached."""
        if task.order_key is None:
            task.order_key = self._task_key(task)
            if self._forgets_keys:
                self._keyed.append(task)
        return task.order_key

    def claim(self, need: Need, recent: RecentStarts | None = None) -> Claim | Unfit:
        """Return what may be reclaimed for a need, without `recent`, or why nothing may."""
        claimant = need.tasks[0]

        def protected_by(unit: EvictionUnit) -> str | None:
            return self.eviction.reclaimable.protected_by(
                claimant, unit.victims, is_whole_job=not unit.is_surplus, recent=recent
            )

        return self._claim(need, ClaimTerms(self.task_key, protected_by))

    def queue_outcomes(self) -> Mapping[str, QueueOutcome]:
        """Return the outcomes of queues by name; empty if no plugin reports them."""
        return self._queue_outcomes(self.task_key) or {}

    def close(self) -> dict[str, JobCondition]:
        """Close all plugins in configured order; return the jobs that could not be scheduled."""
        conditions: dict[str, JobCondition] = {}
        for _, (job, condition) in self._close():
            conditions.setdefault(job.uid, condition)
        return conditions

    def unordered_keys(
        self, jobs: Iterable[JobState], queues: Iterable[QueueState]
    ) -> PluginError | None:
        """Return an error for the first plugin whose keys cannot be compared, or None.

        Called only after a failure. It compares all pairs of keys of each plugin: O(n squared) for
        n jobs, queues or tasks.
        """
        on, by_job = self.opened.on, {f"job {job.uid!r}": job for job in jobs}
        by_queue = {f"queue {queue.name!r}": queue for queue in queues}
        by_task = {f"task {task.uid!r}": task for job in by_job.values() for task in job.tasks}
        without_need: list[Named[Callable[[QueueState], object]]] = [
            (name, partial(_with_no_need, key) if takes_need(key) else key)
            for name, key in on("queue_order_key")
        ]
        return (
            _first_fault("job_order_key", on("job_order_key"), by_job)
            or _first_fault("queue_order_key", without_need, by_queue)
            or _first_fault("task_order_key", on("task_order_key"), by_task)
        )


class AsksPlugins:
    """The part of a session that asks all plugins; most answers are bound directly."""

    ledger: Ledger
    plugin_set: PluginSet
    job_ready: Callable[[JobState], bool]
    """Returns whether the job's allocated tasks may be bound."""
    job_pipelined: Callable[[JobState], bool]
    """Returns whether the promises to the job are enough for it to start."""
    job_condition_ready: Callable[[JobState], bool]
    """Returns whether the job is ready or conditionally ready."""
    job_valid: Callable[[JobState], JobCondition | None]
    """Returns why the job is invalid, or None."""
    overused: Callable[[QueueState], bool]
    """Returns whether the queue has its deserved share."""
    allocatable: Callable[[QueueState, Need], Unfit | None]
    """Returns why the queue may not allocate the need, or None."""
    job_order_key: Callable[[JobState], SortKey]
    """Returns the key of a job in job order; the smallest comes first."""
    task_order_key: Callable[[TaskState], SortKey]
    """Returns the key of a task in task order; the smallest comes first."""

    def bind(self, plugins: PluginSet, /) -> None:
        """Ask these plugins from now on."""
        self.plugin_set = plugins
        self.job_ready = plugins.job_ready
        self.job_pipelined = plugins.job_pipelined
        self.job_condition_ready = plugins.job_condition_ready
        self.job_valid = plugins.job_valid
        self.overused = plugins.overused
        self.allocatable = plugins.allocatable
        self.job_order_key = plugins.job_key
        self.task_order_key = plugins.task_key

    def queue_order_key(self, queue: QueueState) -> SortKey:
        """Return the key of a queue in queue order; the smallest comes first."""
        return self.plugin_set.queue_key(queue)

    def queue_share(self, queue: QueueState) -> QueueShare | None:
        """Return what a queue deserves and has, if a plugin knows."""
        share = self.plugin_set.queue_share(queue)
        if share is None:
            return None
        deserved, allocated = map(self.ledger.dimensions.resource, share)
        return QueueShare(deserved=deserved, allocated=allocated)

    def preemptable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Victims:
        """Return the candidates that may be evicted for a task of their own queue."""
        return self.plugin_set.eviction.preemptable.victims(claimant, candidates)

    def reclaimable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Victims:
        """Return the candidates that may be evicted for a task of another queue."""
        return self.plugin_set.eviction.reclaimable.victims(claimant, candidates)

    def is_starving(self, job: JobState, threshold: float) -> bool:
        """Return whether a job has waited more than `threshold` seconds and is still not ready."""
        return (
            self.ledger.now - job.info.creation_time > threshold
            and not self.job_ready(job)
            and not self.job_condition_ready(job)
        )

    def in_task_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Return `tasks` in task order."""
        return sorted(tasks, key=self.task_order_key)

    def in_victim_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Return `tasks` in victim order, the least valuable first."""
        return sorted(tasks, key=self.task_order_key, reverse=True)

    def whole_job(self, job: JobState) -> list[TaskState]:
        """Return the tasks that are evicted with a whole job, in victim order. O(tasks)."""
        return self.in_victim_order(job.having(TaskStatus.RUNNING))


def _with_no_need(key: Callable[[QueueState, Need | None], object], queue: QueueState) -> object:
    return key(queue, None)


def _first_fault(
    point: str,
    functions: Sequence[Named[Callable[[ItemT], object]]],
    items: Mapping[str, ItemT],
) -> PluginError | None:
    for name, function in functions:
        try:
            keys = [(about, function(item)) for about, item in items.items()]
        except Exception as error:
            return plugin_error(name, point, error)
        for (one, left), (other, right) in combinations(keys, 2):
            try:
                if left != right:  # equal keys are never ordered
                    bool(left < right or right < left)  # type: ignore[operator]
            except Exception as error:
                said = f"the keys of {one} and {other}, {shown(left)} and {shown(right)}"
                return PluginError(name, point, f"{said}, do not compare: {problem_of(error)}")
    return None
