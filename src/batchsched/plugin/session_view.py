"""A plugin's view of a session: the state of the cluster, and shared indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Never, Protocol

from attrs import frozen

from batchsched.model.cluster import Budget, PastEviction, TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.model.topology import Topology
from batchsched.plugin.candidates import NodeSet
from batchsched.state.device_books import DeviceBooks
from batchsched.state.ledger import Ledger
from batchsched.state.needs import Need, Stage
from batchsched.state.pod_affinity import PodAffinityIndex
from batchsched.state.records import Fit, JobState, NodeState, QueueState, SortKey, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.units import EvictionUnit, units_of
from batchsched.state.vectors import Dimensions, Vector


def _no_past(_queue: QueueState, _need: Need | None) -> float:
    return 0.0


class DomainCounts(Protocol):
    """Counts how many like tasks sets of nodes hold."""

    def of(self, domain: NodeSet, /) -> int:
        """Return how many tasks a set holds."""
        ...

    def on(self, node: NodeState, /) -> int:
        """Return how many tasks a node holds."""
        ...

    @property
    def changed(self) -> Sequence[NodeSet]:
        """The log of sets of `domains` whose count has changed, in order."""
        ...


@frozen
class Besides:
    """What an action counts nodes without: in the stage `EVICTING` whom it may evict."""

    has: Callable[[NodeState, Stage], Vector]
    """Returns what a node has then, in the stages `EVICTING` and `EMPTY`."""
    leaving: Callable[[NodeState], int] | None = None
    """Returns how many tasks of a node leave in the stage `EVICTING`; None: they do not count."""
    accepts: Callable[[TaskState, NodeState], bool] | None = None
    """Returns whether a node that refuses a task accepts it in the stage `EVICTING`; None: none."""


class TaskCounts(Protocol):
    """Counts what sets of nodes hold, for plugins that offer such sets."""

    besides: Besides
    """Says what holds of nodes in the stages that depend on the action."""

    def of(self, need: Need, stage: Stage, /) -> DomainCounts | None:
        """Return how many tasks like those of a need sets hold; None: they are not alike."""
        ...

    def free(self, domain: NodeSet, /) -> Vector:
        """Return what is idle in a set."""
        ...

    def has(self, node: NodeState, stage: Stage, /) -> Vector:
        """Return the most that a request may ask of a node in a stage."""
        ...


def _too_early(*_asked: object) -> Never:
    raise RuntimeError("expected all plugins to be open before they are asked about tasks")


def _too_early_for_nodes(*_asked: object) -> Never:
    raise RuntimeError("expected all plugins to be open before they ask about nodes")


class SessionView:
    """A plugin's read-only view of the session."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        promises_repel: bool = False,
        plain: frozenset[Shortcut] = frozenset(),
    ) -> None:
        """Create a view.

        Args:
            ledger: the state of the session.
            promises_repel: whether required anti-affinity counts tasks that are promised to a
                node like running ones.
            plain: the optimisations that are switched off.

        """
        self.plain = plain
        """The optimisations that are switched off; see `Shortcut`."""
        self._ledger = ledger
        self.nodes: Sequence[NodeState] = ledger.nodes
        """All nodes, in node order."""
        self.slots: Sequence[NodeState] = ledger.slots
        """The nodes by `NodeState.slot`."""
        self.node_log: Sequence[int] = ledger.log.nodes
        """The slot of each node that changed, in order: its amounts, its tasks, or their choices.
        What is kept of nodes holds until their slots are here. It begins anew at some cycles: keep
        a position in it only from one `open` or `resume` to the next."""
        self.queues: Mapping[str, QueueState] = ledger.queues
        """All queues by name, in order of name."""
        self.jobs: Mapping[str, JobState] = ledger.jobs
        """All jobs by UID, in order of UID, including those of unknown queues."""
        self.tasks: Mapping[str, TaskState] = ledger.tasks
        """All tasks by UID, including those without a job."""
        self.other_tasks: Mapping[str, TaskState] = ledger.other_tasks
        """The tasks without a job, by UID."""
        self.claiming: Mapping[str, TaskState] = ledger.claiming
        """The tasks that claim devices, by UID."""
        self.dimensions: Dimensions = ledger.dimensions
        """The dimensions of a `Vector`."""
        self.evicted_now: Callable[[], Sequence[tuple[JobState, JobState]]] = tuple
        """Returns the jobs that lose running tasks in this cycle, and for whose job each, once."""
        self.cluster: Vector = ledger.cluster
        """The sum of the allocatable amounts of all nodes."""
        self._promises_repel = promises_repel
        self._make_counts: Callable[[], TaskCounts] = _too_early_for_nodes
        self._refusal: Callable[[TaskState, NodeState], Unfit | None] = _too_early_for_nodes
        self._fits: Callable[[TaskState, NodeState, Fit], bool] = _too_early_for_nodes
        self._counts: TaskCounts | None = None
        self._pod_affinity: PodAffinityIndex | None = None
        self._device_books: DeviceBooks | None = None
        self.task_order_key: Callable[[TaskState], SortKey] = _too_early
        """Ranks tasks by all plugins together; the task with the smallest key comes first.

        Like `protects_any`, it can be called when all plugins are open.
        """
        self.protects_any: Callable[[Sequence[TaskState]], bool] = _too_early
        """Returns whether a plugin protects any of some tasks from every claim, whoever asks.

        What gang protects does not count: that is for the other tasks of the job.
        """
        self.room_score: Callable[[TaskState, NodeState], float] = _too_early
        """Returns what plugins say of the room for a task on a node (`NodeOrderOnResource`)."""
        self._surplus: Callable[[Sequence[QueueState], int], Sequence[int]] | None = None
        self.knows_past = False
        """Whether a plugin corrects weights by past use."""
        self.ranks_by_past_use = False
        """Whether a plugin ranks queues by `past_use_key` itself, which sets this when it opens:
        then the plugin with that key does not rank them as well."""
        self.past_use_key: Callable[[QueueState, Need | None], float] = _no_past
        """Ranks a queue among its siblings by past use; see `PastUse`."""
        self._units: dict[str, tuple[int, dict[str, EvictionUnit]]] = {}
        """By UID of job: its version, and the eviction unit of each of its tasks."""

    @property
    def now(self) -> float:
        """The time of the snapshot, in seconds."""
        return self._ledger.now

    def counts(self, need: Need, stage: Stage, /) -> DomainCounts | None:
        """Return how many tasks like those of a need sets of nodes hold; None: they are not alike.

        Tasks are alike if they request the same, and if no predicate tells them apart or reads, for
        them, the tasks of nodes or other nodes. O(1) for sets that `domains` returned, else
        O(nodes).
        """
        return self._known_counts().of(need, stage)

    def free(self, domain: NodeSet, /) -> Vector:
        """Return the sum of what is idle on the nodes of a set, where that is not negative."""
        return self._known_counts().free(domain)

    def has(self, node: NodeState, stage: Stage, /) -> Vector:
        """Return the most that a request may ask of a node to fit there in a stage."""
        return self._known_counts().has(node, stage)

    def refusal(self, task: TaskState, node: NodeState, /) -> Unfit | None:
        """Return why the predicates reject a node for a task, or None."""
        return self._refusal(task, node)

    def fits(self, task: TaskState, node: NodeState, fit: Fit, /) -> bool:
        """Return whether a node has room for a task, and plugins a choice; asks no predicate."""
        return self._fits(task, node, fit)

    def nodes_known(
        self,
        counts: Callable[[], TaskCounts],
        refusal: Callable[[TaskState, NodeState], Unfit | None],
        fits: Callable[[TaskState, NodeState, Fit], bool],
        /,
    ) -> None:
        """Answer what needs the engine that finds nodes, from now on. The session calls this."""
        self._make_counts, self._refusal, self._fits = counts, refusal, fits
        self.forget_counts()

    def count_beside(self, besides: Besides, /) -> None:
        """Say what holds of nodes in stages that depend on the action, from now on.

        The session calls this.
        """
        self._known_counts().besides = besides

    def forget_counts(self) -> None:
        """Count anew what sets of nodes hold, as they have changed. The session calls this."""
        self._counts = None

    def _known_counts(self) -> TaskCounts:
        if self._counts is None:
            self._counts = self._make_counts()
        return self._counts

    @property
    def device_books(self) -> DeviceBooks:
        """What is held of devices on each node, and what claims would get."""
        if self._device_books is None:
            self._device_books = DeviceBooks(self._ledger, is_plain=Shortcut.ENGINE in self.plain)
        return self._device_books

    @property
    def topologies(self) -> Sequence[Topology]:
        """The topologies of the snapshot, in order of name; the same object while unchanged."""
        topologies: Sequence[Topology] = self._ledger.besides["topologies"]
        return topologies

    @property
    def budgets(self) -> Sequence[Budget]:
        """The budgets of the snapshot, in order of namespace and name."""
        budgets: Sequence[Budget] = self._ledger.besides["budgets"]
        return budgets

    @property
    def evictions_kept(self) -> float:
        """For how many seconds the snapshot keeps the entries of its ledger of evictions."""
        kept: float = self._ledger.besides["evictions_kept"]
        return kept

    @property
    def past_evictions(self) -> Sequence[PastEviction]:
        """The ledger of evictions, the oldest first."""
        past: Sequence[PastEviction] = self._ledger.besides["evictions"]
        return past

    @property
    def jobs_short(self) -> Sequence[JobState]:
        """The jobs with fewer ready tasks than must start together, in order of UID.

        O(n log n) for n such jobs, however many jobs there are.
        """
        return [job for _, job in sorted(self._ledger.jobs_short.items())]

    def jobs_having(self, *statuses: TaskStatus) -> Iterable[JobState]:
        """Return the jobs with a task in one of some statuses, each once, in no particular order.

        O(n) for n such jobs, however many jobs there are.
        """
        found: dict[str, JobState] = {}
        for status in statuses:
            found.update(self._ledger.jobs_having[status.index])
        return found.values()

    def plugins_opened(
        self,
        task_key: Callable[[TaskState], SortKey],
        surplus_weights: Callable[[Sequence[QueueState], int], Sequence[int]] | None,
        past_use_key: Callable[[QueueState, Need | None], float] | None,
        protects_any: Callable[[Sequence[TaskState]], bool],
        room_score: Callable[[TaskState, NodeState], float],
        /,
    ) -> None:
        """Answer what needs all plugins to be open, from now on. The session calls this."""
        self.task_order_key = task_key
        self.protects_any = protects_any
        self.room_score = room_score
        self._surplus = surplus_weights
        self.knows_past = surplus_weights is not None
        self.past_use_key = past_use_key or _no_past
        self._units.clear()  # units are in task order

    def surplus_weights(self, siblings: Sequence[QueueState], dimension: int, /) -> Sequence[int]:
        """Return the weights by which siblings share the surplus; see `SurplusWeights`."""
        if self._surplus is None:
            return [queue.info.weight for queue in siblings]
        return self._surplus(siblings, dimension)

    def in_task_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Return tasks in the task order of all plugins together.

        Raises:
            RuntimeError: not all plugins are open yet; they are when actions run.

        """
        return sorted(tasks, key=self.task_order_key)

    def unit_of(self, task: TaskState) -> EvictionUnit:
        """Return the eviction unit of a task on a node.

        O(tasks of its job), and O(1) for a job with groups that has not changed.

        Raises:
            RuntimeError: the task has no job, or not all plugins are open yet.

        """
        job = task.job
        if job is None:
            raise RuntimeError(f"expected a task of a job, got {task!r}")
        version = 0 if job.groups is None else job.groups.version
        known = self._units.get(job.uid)
        if known is None or known[0] != version or job.groups is None:
            units = units_of(job, self.task_order_key)
            known = version, {each.uid: unit for unit in units for each in unit.tasks}
            self._units[job.uid] = known
        return known[1][task.uid]

    def begin_cycle(self) -> None:
        """Follow the ledger to another cycle on a live cluster. The session calls this."""
        self.cluster = self._ledger.cluster
        self._units.clear()

    @property
    def pod_affinity(self) -> PodAffinityIndex:
        """The index of inter-pod affinity, kept up to date as tasks are placed and removed."""
        if self._pod_affinity is None:
            ledger = self._ledger
            index = self._pod_affinity = PodAffinityIndex(
                ledger.tasks.values(), ledger.nodes, promises_repel=self._promises_repel
            )
            if index.is_active:
                ledger.on_occupy = index.occupy
                if self._promises_repel:
                    ledger.on_promise = index.promise
        return self._pod_affinity

    @property
    def pod_affinity_if_any(self) -> PodAffinityIndex | None:
        """The index of inter-pod affinity if it is in use, else None."""
        return self._pod_affinity
