"""The session: the interface of actions to one scheduling cycle.

A session combines the ledger, the plugins and the placement engine; actions read and change the
cluster only through it. What it is opened on may be kept from cycle to cycle on a live cluster:
changes since the last cycle are applied, and the changes of a cycle are undone at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, cast

from sortedcontainers import SortedDict

from batchsched.errors import (
    BatchschedError,
    ConfigError,
    Fault,
    StatementError,
    UnknownNameError,
    problem_of,
)
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import JobCondition
from batchsched.model.result import Bind, Eviction
from batchsched.model.texts import html_table, shown_amount
from batchsched.model.validation.values import shown
from batchsched.placement import Fit, FollowsNodes, Placement
from batchsched.placement.plain_loop import Evaluator
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.session.carried_over import NodeRoom, Plans, Reservations, admit_jobs
from batchsched.session.known_failures import FailedTurns
from batchsched.session.plugins import ConfiguredPlugin, PluginSet
from batchsched.session.queue_limits import AcceptedTasks, CycleReports
from batchsched.session.statement import Statement
from batchsched.session.tracing import telling_best, telling_first
from batchsched.session.turns import TurnTaker
from batchsched.session.victims import EvictionSearch
from batchsched.state.doors import Door
from batchsched.state.ledger import Ledger, audit
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.memory import Remembered
from batchsched.state.records import JobState, NodeState, QueueState, RunningTasks, TaskState
from batchsched.trace import Teller

if TYPE_CHECKING:
    from batchsched.session.reasons import WaitingJob

PlacementFactory = Callable[[Ledger, Evaluator], Placement]
"""Creates the placement engine of a session."""

MOST_CHANGES = 10_000
CHANGES_PER_NODE = 8
"""How many changes of nodes are logged before a new engine is created with an empty log."""
MOST_CLASSES = 2_000
"""The most equivalence classes of an engine before a new one is created."""

_NODE_FUNCTIONS = frozenset({"predicates", "node_scores"})


# What may be kept between cycles


class PolicyState:
    """The state of one configuration on one cluster."""

    def __init__(
        self,
        ledger: Ledger,
        plugins: Sequence[ConfiguredPlugin],
        placement: PlacementFactory,
        *,
        promises_repel: bool = False,
        plain: frozenset[Door] = frozenset(),
        teller: Teller | None = None,
    ) -> None:
        """Open plugins and create an engine.

        Args:
            ledger: the cluster.
            plugins: the configured plugins.
            placement: creates the engine that finds nodes.
            promises_repel: whether required anti-affinity counts tasks that are promised to a
                node like running ones.
            plain: the doors behind which only plain definitions decide.
            teller: is told what happens, if the cycle is traced.

        """
        self.ledger = ledger
        self.teller = teller
        """What is told what happens, if the cycle is traced."""
        self._promises_repel = promises_repel
        self.plain = plain
        """The doors behind which only plain definitions decide."""
        self.view = SessionView(ledger, promises_repel=promises_repel, plain=plain)
        self._configured = plugins
        self._placement = placement
        self.plugin_set = PluginSet(plugins, self.view, teller)
        self.placement = self._make_engine()
        self.jobs: MutableMapping[str, JobState] = {}
        """The jobs of the session by UID, in order of UID."""
        self.left_out: dict[str, JobCondition] = {}
        """Why jobs are not in the session, by UID."""
        self.node_room = NodeRoom(ledger)
        self.waiting_jobs: dict[JobState, WaitingJob] = {}
        """Data of waiting jobs for pending reasons, for the state of jobs between cycles."""
        self.failed_turns: FailedTurns | None = None
        """The failed turns that need not be repeated, on a live cluster."""
        self.to_admit: Iterable[JobState] = ledger.jobs.values()
        """The jobs whose admission is to be decided."""
        self.foresees = self._can_foresee()
        """Whether turns that leave a job below its minimum are known to be rolled back, and the
        engine counts how many like tasks fit."""

    def _make_engine(self) -> Placement:
        plugins = self.plugin_set
        ledger = self.ledger
        self._classes_begin = ledger.classes_end
        evaluator = Evaluator(plugins.predicates, plugins.node_scores, ledger.dimensions)
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
        # To check protocols would cost as much as the other checks of a small cycle together.
        self._follows_nodes = callable(getattr(engine, "nodes_changed", None))  # `FollowsNodes`
        self._counts_room = callable(getattr(engine, "room", None))  # `CountsRoom`
        return engine

    def _can_foresee(self) -> bool:
        return self._counts_room and self.plugin_set.opened.reject_below_minimum

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
        ledger = self.ledger
        remembers = Door.ATTEMPTS not in self.plain and self.plugin_set.opened.vote_on_jobs_alone
        if remembers and isinstance(ledger, LiveLedger):
            self.failed_turns = FailedTurns(ledger)
        else:
            self.failed_turns = None

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
        if needs_new_view or (is_worn and index is not None and index.is_active):
            self.plugin_set.forget_keys(self.view)
            self.view = SessionView(
                self.ledger, promises_repel=self._promises_repel, plain=self.plain
            )
            self.ledger.on_occupy = self.ledger.on_promise = None
            self.plugin_set = PluginSet(self._configured, self.view)
            anew = frozenset({"job_valid", *_NODE_FUNCTIONS})
        else:
            anew = self.plugin_set.resume(self.view, changes)
        if is_worn or anew & _NODE_FUNCTIONS or not self._engine_follows():
            if isinstance(self.ledger, LiveLedger):
                self.ledger.node_slots.take_changed()
            self.placement = self._make_engine()
            self._forget_turns()
        elif anew:
            self._forget_turns()
        if anew:
            self.waiting_jobs.clear()
        self.foresees = self._can_foresee()
        self.to_admit = self.ledger.jobs.values() if "job_valid" in anew else changes.jobs


# One cycle


class Session(TurnTaker):
    """One cycle: actions use it to read and change the state of the cluster.

    Operations outside a statement take effect at once. The operations of a statement
    become decisions when it is committed. Statements do not nest.
    """

    def __init__(self, state: PolicyState) -> None:
        """Open a session on a state, which may be kept between cycles; see `PolicyState.resume`."""
        self.state = state
        """What is kept between cycles."""
        self.teller = state.teller
        """What is told what happens, if the cycle is traced."""
        if self.teller is not None:
            self.teller.session = self
        self._show(state.ledger)
        self.view = state.view
        self.view.begin_cycle()
        self.bind(state.plugin_set)
        self.placement = state.placement
        """The engine that finds nodes."""
        traced = self.teller is not None
        self.best_node: Callable[[TaskState, Fit], NodeState | None] = (
            telling_best(self) if traced else state.placement.best
        )
        """Returns the best of the feasible nodes where a task fits in this way, or None."""
        self.first_node: Callable[[TaskState], NodeState | None] = (
            telling_first(self) if traced else state.placement.first_feasible
        )
        """Returns the first feasible node in node order where a task fits now, or None."""
        self.action_name = ""
        """The action that runs now."""
        self.binds: list[Bind] = []
        self.evictions: list[Eviction] = []
        self.left_out = state.left_out
        self.reports = CycleReports()
        """For pending reasons: what actions tried, and the outcome."""
        self._accepted_tasks = AcceptedTasks(self.ledger.log.charged_jobs)
        self.jobs = state.jobs
        """The jobs of the session by UID, in order of UID."""
        self.plans = Plans()
        """The plans of the action plan."""
        self.remembered = Remembered(self.log)
        """What searches of this cycle have found out about nodes."""
        self.node_room = state.node_room
        """What nodes could hold if other tasks left."""
        self.failed_turns = state.failed_turns
        """Failed turns that need not be repeated; None: they are not recorded."""
        self._statement: Statement | None = None
        self.ledger.on_charge = self.plugin_set.allocate_listeners
        self.ledger.on_refund = self.plugin_set.deallocate_listeners
        admit_jobs(state.to_admit, self.ledger, self.plugin_set, self.jobs, self.left_out)
        self.plugin_set.jobs_admitted()
        self.overused_at_open = {
            queue.name for queue in self._waiting_queues() if self.plugin_set.overused(queue)
        }
        """The names of queues with waiting jobs that were overused when the session opened."""
        self.reservations = Reservations(self.ledger, self.placement, self.node_room)
        """The tasks that are Reserved on a node."""
        self.reservations.drop_stale(self.job_ready)

    def _show(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.now = ledger.now
        """The time of the snapshot, in seconds."""
        self.nodes: Sequence[NodeState] = ledger.nodes
        """All nodes, in node order."""
        self.queues: Mapping[str, QueueState] = ledger.queues
        """All queues by name."""
        self.dimensions = ledger.dimensions
        """The resource dimensions that amounts have one number for, in this order."""
        self.cluster = ledger.cluster
        """What all nodes have together, in each dimension."""
        self.slots = ledger.slots
        """The nodes by `NodeState.slot`, which stays the same as other nodes come and go."""
        self.node_named = ledger.node_named
        """The nodes by name."""
        self.log = ledger.log
        """Which nodes and jobs have changed, in order; for answers that are kept until then."""

    def __repr__(self) -> str:
        tasks = sum(len(job.tasks) for job in self.jobs.values())
        return (
            f"<Session: {len(self.nodes)} nodes, {len(self.queues)} queues, {len(self.jobs)} jobs, "
            f"{tasks} tasks; {len(self.binds)} bound, {len(self.evictions)} evicted>"
        )

    def _repr_html_(self) -> str:
        """Return a table of the nodes and their idle amounts, for notebooks."""
        names = self.ledger.dimensions.names
        rows = (
            (
                node.name,
                len(node.tasks),
                ", ".join(
                    f"{name} {shown_amount(name, amount)}"
                    for name, amount in zip(names, node.idle, strict=True)
                ),
            )
            for node in self.nodes
        )
        header = ("node", "tasks", "idle")
        return html_table(repr(self).strip("<>"), header, rows, count=len(self.nodes))

    # Opening

    def _waiting_queues(self) -> set[QueueState]:
        having = self.ledger.jobs_having
        waiting = (TaskStatus.PENDING, TaskStatus.RESERVED)
        return {
            job.queue
            for status in waiting
            for job in having[status.index].values()
            if job.queue is not None
        }

    def jobs_having(self, *statuses: TaskStatus) -> list[JobState]:
        """Return the jobs of the session with a task in one of some statuses, in order of UID.

        O(n log n) for n such jobs, however many jobs there are.
        """
        found: dict[str, JobState] = {}
        for status in statuses:
            found.update(self.ledger.jobs_having[status.index])
        return [job for _, job in sorted(found.items()) if job.in_session]

    def jobs_changed(self) -> dict[str, JobState]:
        """Return the jobs that the session has changed, by UID and in order of UID.

        O(n log n) for n such jobs. For sessions on a live cluster.
        """
        jobs = {job.uid: job for job in self.ledger.log.jobs if job.in_session}
        for task in self.state.diverging():
            if task.job is not None and task.job.in_session:
                jobs[task.job.uid] = task.job
        return dict(sorted(jobs.items()))

    # The cluster

    def task(self, uid: str) -> TaskState:
        """Return a task by UID.

        Raises:
            UnknownNameError: there is no such task.

        """
        try:
            return self.ledger.tasks[uid]
        except KeyError:
            raise UnknownNameError(f"there is no task {uid!r} in this snapshot") from None

    def node(self, name: str) -> NodeState:
        """Return a node by name.

        Raises:
            UnknownNameError: there is no such node.

        """
        try:
            return self.node_named[name]
        except KeyError:
            raise UnknownNameError(f"there is no node {name!r} in this snapshot") from None

    def check(self) -> None:
        """Verify all amounts and counts by computing them again. O(nodes + tasks).

        Raises:
            InvariantError: an amount is wrong or negative; the message lists all of them.

        """
        audit(self.ledger)

    def running_on(self, node: NodeState) -> RunningTasks:
        """Return the Running tasks of jobs in the session on a node.

        O(1) unless the node has changed since the last call.
        """
        known = node.running
        return self.ledger.list_running(node) if known is None else known

    # What actions do

    def statement(self, *, is_trial: bool = False) -> Statement:
        """Begin a statement.

        Args:
            is_trial: whether it only tests what would be possible; pending reasons then do not
                mention its placements if it is discarded.

        Raises:
            StatementError: another statement is still open.

        """
        if self.has_open_statement:
            raise StatementError("a statement is already open; statements do not nest")
        self._statement = Statement(self, is_trial=is_trial)
        return self._statement

    def record_eviction_search(self, search: EvictionSearch) -> None:
        """Record that an action searched for tasks to evict and found too few.

        The reason of the task then says why others could not be evicted, in the state at the end
        of the cycle.
        """
        self.reports.eviction_searches[search.task.uid, search.action] = search

    @property
    def has_open_statement(self) -> bool:
        """Whether a statement was begun and has not ended."""
        return self._statement is not None and self._statement.is_open

    def allocate(self, task: TaskState, node: NodeState, *, is_backfill: bool = False) -> None:
        """Place a Pending task on a node where it can start now; bind its job if it is ready."""
        job = task.job
        if self._statement is not None:
            self._outside_statement()
        if task.status is not TaskStatus.PENDING or job is None or not job.in_session:
            self.expect(task, TaskStatus.PENDING)
        mark = is_backfill or task.is_backfill
        self.ledger.move(task, TaskStatus.ALLOCATED, node, is_backfill=mark)
        assert job is not None
        self.bind_if_ready(job)

    def pipeline(self, task: TaskState, node: NodeState) -> None:
        """Promise to a Pending task resources of a node that are being released."""
        self._outside_statement()
        self.expect(task, TaskStatus.PENDING)
        self.ledger.move(task, TaskStatus.PIPELINED, node, is_backfill=task.is_backfill)

    def promise(self, task: TaskState, node: NodeState) -> None:
        """Promise to a Pending task resources of a node that backfill tasks hold (Conditional)."""
        self._outside_statement()
        self.expect(task, TaskStatus.PENDING)
        self.ledger.move(task, TaskStatus.CONDITIONAL, node, is_backfill=task.is_backfill)

    def reserve(self, task: TaskState, node: NodeState) -> None:
        """Reserve a node for a Pending task."""
        self._outside_statement()
        self.expect(task, TaskStatus.PENDING)
        self.ledger.move(task, TaskStatus.RESERVED, node, is_backfill=task.is_backfill)

    def unallocate(self, task: TaskState) -> None:
        """Make a task Pending again that is placed, promised or reserved, and not bound."""
        self._outside_statement()
        with self.statement() as statement:
            statement.unallocate(task)
            statement.commit()

    def evict(self, task: TaskState, *, claimant: TaskState) -> None:
        """Evict a Running task to make room for `claimant`."""
        self._outside_statement()
        with self.statement() as statement:
            statement.evict(task, claimant=claimant)
            statement.commit()

    def expect(self, task: TaskState, *statuses: TaskStatus) -> None:
        """Raise an error unless the task has one of these statuses and its job is in the session.

        Raises:
            StatementError: the operation does not apply to the task.

        """
        if task.status not in statuses:
            wanted = " or ".join(status.value for status in statuses)
            raise StatementError(f"expected a task that is {wanted}, got {task!r}")
        if task.job is None or not task.job.in_session:
            raise StatementError(f"expected a task of a job in this session, got {task!r}")

    def _outside_statement(self) -> None:
        if self.has_open_statement:
            raise StatementError("a statement is open; use its operations, or end it first")

    def bind_if_ready(self, job: JobState) -> None:
        """Bind all Allocated tasks of the job, if it is ready."""
        if not job.allocated or not self.plugin_set.job_ready(job):
            return
        tasks = list(job.allocated.values())
        if job.groups is not None:
            # Tasks of an incomplete group wait for the rest of the group.
            tasks = [task for task in tasks if job.groups.may_start(task)]
            if not tasks:
                return
        if len(tasks) > 1:
            tasks.sort(key=_uid)
        for task in tasks:
            node = task.node
            assert node is not None
            self.ledger.bind(task)
            self.binds.append(
                Bind(task_uid=task.uid, node_name=node.name, is_backfill=task.is_backfill)
            )

    def decide_eviction(self, task: TaskState, node: NodeState, claimant: TaskState) -> None:
        """Record an eviction as decided; statements call this when they are committed."""
        self.evictions.append(
            Eviction(
                task_uid=task.uid,
                node_name=node.name,
                action=self.action_name,
                for_task_uid=claimant.uid,
            )
        )


def _uid(task: TaskState) -> str:
    return task.uid
