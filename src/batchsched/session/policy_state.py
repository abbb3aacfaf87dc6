"""The state of one configuration on one cluster: opened plugins, the engine, and answers.

On a living cluster it is kept from cycle to cycle.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import cast

from sortedcontainers import SortedDict

from batchsched.errors import BatchschedError, ConfigError, Fault, problem_of
from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo, TaskStatus
from batchsched.model.notice import Ignored
from batchsched.model.reasons import (
    NOT_CONSIDERED,
    JobCondition,
    PendingReason,
    not_reached,
)
from batchsched.model.validation.values import shown
from batchsched.placement import FollowsNodes, Placement
from batchsched.placement.counts import Counts
from batchsched.placement.plain_loop import Evaluator
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.session_view import Besides, SessionView
from batchsched.session.failures import Memory
from batchsched.session.plugins import PluginSet
from batchsched.session.points import ConfiguredPlugin
from batchsched.state.ledger import Ledger
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import Vector, fits, minus
from batchsched.trace import Teller

PlacementFactory = Callable[[Ledger, Evaluator], Placement]
"""Creates the placement engine of a session."""

MOST_CHANGES = 10_000
CHANGES_PER_NODE = 8
"""How many changes of nodes are logged before a new engine is created with an empty log."""
MOST_CLASSES = 2_000
"""The most equivalence classes of an engine before a new one is created."""

_NODE_FUNCTIONS = frozenset({"predicates", "node_scores", "node_key", "choose"})


def ignored_by(plugins: Sequence[ConfiguredPlugin]) -> Ignored:
    """Return what plugins ignore, of no data yet."""
    return Ignored((each.name, getattr(each.plugin, "obeys", ())) for each in plugins)


class PolicyState:
    """The state of one configuration on one cluster."""

    def __init__(
        self,
        ledger: Ledger,
        plugins: Sequence[ConfiguredPlugin],
        placement: PlacementFactory,
        *,
        promises_repel: bool = False,
        plain: frozenset[Shortcut] = frozenset(),
        teller: Teller | None = None,
    ) -> None:
        """Open plugins and create an engine.

        Args:
            ledger: the cluster.
            plugins: the configured plugins.
            placement: creates the engine that finds nodes.
            promises_repel: whether required anti-affinity counts tasks that are promised to a
                node like running ones.
            plain: the shortcuts that are switched off.
            teller: is told what happens, if the cycle is traced.

        """
        self.ledger = ledger
        self.teller = teller
        """What is told what happens, if the cycle is traced."""
        self._promises_repel = promises_repel
        self.plain = plain
        """The shortcuts that are switched off."""
        self.view = SessionView(ledger, promises_repel=promises_repel, plain=plain)
        self._configured = plugins
        self._placement = placement
        self.plugins = PluginSet(plugins, self.view, teller)
        self.placement = self._make_engine()
        self.jobs: MutableMapping[str, JobState] = {}
        """The jobs of the session by UID, in order of UID."""
        self.left_out: dict[str, JobCondition] = {}
        """Why jobs are not in the session, by UID."""
        self.node_room = NodeRoom(ledger)
        self.kept_for_plans: object = None
        """What the action plan keeps of nodes."""
        self.waiting_jobs: dict[JobState, TasksOfWaiting] = {}
        """Data of waiting jobs for pending reasons, for the state of jobs between cycles."""
        self.memory = Memory()
        """What is known of attempts that failed."""
        self.to_admit: Iterable[JobState] = ledger.jobs.values()
        """The jobs whose admission is to be decided."""
        self.ignored = ignored_by(plugins)
        """What the data asks for that no configured plugin does."""
        self.ignored.read_snapshot(ledger.snapshot)

    def _read_jobs(self, touched: Iterable[JobState]) -> None:
        jobs = {job.uid: self.ledger.jobs.get(job.uid) for job in touched}
        infos = {uid: () if job is None else (job.info,) for uid, job in jobs.items()}
        self.ignored.read(JobInfo, infos)
        tasks = {uid: () if job is None else job.tasks for uid, job in jobs.items()}
        self.ignored.read(TaskInfo, {uid: [t.info for t in some] for uid, some in tasks.items()})

    def _read_nodes(self, nodes: Iterable[NodeState], gone: Iterable[NodeState] = ()) -> None:
        left = dict.fromkeys([node.name for node in gone], ())
        self.ignored.read(NodeInfo, {**left, **{node.name: (node.info,) for node in nodes}})

    def _make_engine(self) -> Placement:
        plugins = self.plugins
        ledger = self.ledger
        self._classes_begin = ledger.classes_end
        self.evaluator = evaluator = Evaluator(
            plugins.predicates,
            plugins.node_scores,
            ledger.dimensions,
            plugins.node_key,
            plugins.node_key_signature,
            plugins.choosers,
        )
        try:
            engine = self._placement(ledger, evaluator)
        except BatchschedError:
            raise  # a plugin failed when the engine called it
        except Exception as error:
            message = f"expected it to create a placement engine, but it raised {problem_of(error)}"
            raise ConfigError([Fault("placement", message)]) from error
        if not callable(getattr(engine, "best", None)):
            message = f"expected it to return a placement engine, got {shown(engine)}"
            raise ConfigError([Fault("placement", message)])
        self.view.nodes_known(
            lambda: Counts(
                ledger,
                evaluator,
                [each for _, each in plugins.domains()],
                feasible_for=engine.feasible_for,
                besides=Besides(lambda node, _stage: self.node_room.to_reserve(node)),
                plain=Shortcut.ROOM in self.plain,
            ),
            evaluator.refusal,
            evaluator.fits,
        )
        # To check protocols would cost as much as the other checks of a small cycle together.
        self._follows_nodes = callable(getattr(engine, "nodes_changed", None))  # `FollowsNodes`
        return engine

    def _engine_follows(self) -> bool:
        """Let the engine process changed nodes; return whether it could."""
        if not isinstance(self.ledger, LiveLedger):
            return True
        node_slots = self.ledger.node_slots
        slots = node_slots.take_changed()
        if slots is None:
            return False
        if not slots:
            return True
        return self._follows_nodes and cast("FollowsNodes", self.placement).nodes_changed(slots)

    def diverging(self) -> Iterable[TaskState]:
        """Return the tasks whose state in the ledger differs from their description."""
        return self.ledger.diverging() if isinstance(self.ledger, LiveLedger) else ()

    def live_on(self) -> None:
        """Prepare for changes between cycles."""
        self.jobs = cast("MutableMapping[str, JobState]", SortedDict(self.jobs))
        self._forget_turns()

    def _forget_turns(self) -> None:
        """Drop all failed turns, and record new ones only if the plugins allow it."""
        remembers = Shortcut.ATTEMPTS not in self.plain and self.plugins.vote_on_jobs_alone
        self.memory.forget_turns(self.ledger, remembers=remembers)

    @property
    def is_worn(self) -> bool:
        """Whether the logs are so large that creating a new engine costs little in comparison."""
        ledger = self.ledger
        return (
            len(ledger.log.nodes) > MOST_CHANGES + CHANGES_PER_NODE * len(ledger.nodes)
            or ledger.classes_end - self._classes_begin > MOST_CLASSES
        )

    def resume(
        self,
        changes: Changes,
        *,
        other_tasks_changed: bool = False,
        needs_new_view: bool = False,
    ) -> None:
        """Let plugins and engine process the changes in the ledger.

        Those that cannot are opened or created again, at the cost of a cycle from scratch.
        """
        if isinstance(self.ledger, LiveLedger) and not self._follows_nodes:
            # Do this before anything stores slots.
            self.ledger.node_slots.close_gaps()
        self.view.begin_cycle()
        nodes_changed = bool(changes.nodes or changes.nodes_gone)
        for job in changes.jobs_gone:
            self.jobs.pop(job.uid, None)
            self.left_out.pop(job.uid, None)
        for job in (*changes.jobs_gone, *changes.jobs):
            self.waiting_jobs.pop(job, None)
        if nodes_changed:
            self.waiting_jobs.clear()
            self.node_room.forget_nodes()
        elif other_tasks_changed:
            self.node_room.forget_others()
        self.node_room.trim()
        is_worn = self.is_worn
        if is_worn:
            self.ledger.log.nodes.clear()
        index = self.view.pod_affinity_if_any
        if self.ignored:
            of_tasks = [task.job for task in changes.tasks if task.job is not None]
            self._read_jobs([*changes.jobs, *changes.jobs_gone, *of_tasks])
            self._read_nodes(changes.nodes, changes.nodes_gone)
        if needs_new_view or (is_worn and index is not None and index.is_active):
            self.plugins.forget_keys(self.view)
            self.view = SessionView(
                self.ledger, promises_repel=self._promises_repel, plain=self.plain
            )
            self.ledger.on_occupy = self.ledger.on_promise = None
            self.plugins = PluginSet(self._configured, self.view)
            anew = frozenset({"job_valid", *_NODE_FUNCTIONS})
        else:
            anew = self.plugins.resume(self.view, changes)
        is_new_engine = is_worn or bool(anew & _NODE_FUNCTIONS) or not self._engine_follows()
        if is_new_engine:
            if isinstance(self.ledger, LiveLedger):
                self.ledger.node_slots.take_changed()
            self.placement = self._make_engine()
        elif anew or nodes_changed:
            self.view.forget_counts()
        if is_new_engine or anew:
            self._forget_turns()
        if anew:
            self.waiting_jobs.clear()
        self.to_admit = self.ledger.jobs.values() if "job_valid" in anew else changes.jobs


MOST_REQUESTS = 2_000
"""The most requests that are cached."""


class NodeRoom:
    """What nodes could hold if all tasks of jobs left."""

    __slots__ = ("_besides_others", "_by_size", "_large_enough", "_ledger", "_of_sizes")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._large_enough: dict[Vector, frozenset[int]] = {}
        """For each request, the slots of the nodes where it fits if they are empty."""
        self._by_size: dict[Vector, list[int]] = {}
        """For each allocatable amount, the slots of the nodes that have it."""
        self._of_sizes: dict[tuple[Vector, ...], frozenset[int]] = {}
        """For several allocatable amounts, the slots of the nodes that have one of them."""
        self._besides_others: dict[str, Vector] | None = None
        """What nodes with tasks of no job have without these; None: not computed."""

    def for_jobs(self, node: NodeState) -> Vector:
        """Return what a node has without what tasks of no job hold there, such as daemons.

        Those tasks are never evicted, and may stay for ever.
        """
        known = self._besides_others
        if known is None:
            known = self._besides_others = {}
            for task in self._ledger.other_tasks.values():
                on = task.node
                if on is not None and task.status.holds and task.status is not TaskStatus.RELEASING:
                    known[on.name] = minus(known.get(on.name, on.allocatable), task.resreq)
        return known.get(node.name, node.allocatable)

    def to_reserve(self, node: NodeState) -> Vector:
        """Return what could still be reserved on a node, whoever holds it now."""
        has = self.for_jobs(node)
        return minus(has, node.reserved) if node.reserved_tasks else has

    def large_enough(self, request: Vector) -> frozenset[int]:
        """Return the slots of the nodes where `request` fits if they are empty.

        O(different sizes of nodes) for a new request, else O(1). Requests for which nodes of the
        same sizes are large enough get the same object.
        """
        known = self._large_enough.get(request)
        if known is None:
            by_size = self._by_size
            if not by_size:
                for node in self._ledger.nodes:
                    by_size.setdefault(node.allocatable, []).append(node.slot)
            sizes = tuple(size for size in by_size if fits(request, size))
            known = self._of_sizes.get(sizes)
            if known is None:
                slots = [slot for size in sizes for slot in by_size[size]]
                known = self._of_sizes[sizes] = frozenset(slots)
            self._large_enough[request] = known
        return known

    def forget_others(self) -> None:
        """Drop what depends on tasks of no job, because they or nodes have changed."""
        self._besides_others = None

    def forget_nodes(self) -> None:
        """Drop what depends on nodes, because they have changed."""
        self._besides_others = None
        self._large_enough.clear()
        self._by_size.clear()
        self._of_sizes.clear()

    def trim(self) -> None:
        """Clear the cache of requests if it is too large."""
        if len(self._large_enough) > MOST_REQUESTS:
            self._large_enough.clear()
            self._of_sizes.clear()


class TasksOfWaiting:
    """What is known about a waiting job, valid while it does not change."""

    __slots__ = ("_behind", "_blocked_by", "asks_for_all", "uids")

    def __init__(self, pending: Sequence[TaskState]) -> None:
        self.uids = [task.uid for task in pending]
        """Its Pending tasks, in task order."""
        self.asks_for_all = not any(task.is_best_effort for task in pending)
        """Whether all of them request resources."""
        self._blocked_by: TaskState | None = None
        self._behind: Mapping[str, PendingReason] = {}

    def around(self, blocked_by: TaskState) -> Mapping[str, PendingReason]:
        """Return the reasons of all tasks, given the one that failed; its own is a placeholder.

        O(1) if it is the same task as in the last call.
        """
        if blocked_by is not self._blocked_by:
            self._blocked_by = blocked_by
            before = self.uids.index(blocked_by.uid) + 1
            self._behind = {
                **dict.fromkeys(self.uids[:before], NOT_CONSIDERED),
                **dict.fromkeys(self.uids[before:], not_reached(blocked_by.info)),
            }
        return self._behind
