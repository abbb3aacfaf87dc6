"""The session: the interface of actions to one scheduling cycle.

A session combines the ledger, the plugins and the placement engine; actions read and change the
cluster only through it. It says whose turn it is, asks what a node or a task is, and records for
pending reasons what was tried. What it changes, it changes in statements (`session.statements`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Concatenate, ParamSpec, Protocol

from batchsched.errors import StatementError, UnknownNameError
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import QueueShare, Unfit
from batchsched.model.texts import html_table, shown_amount
from batchsched.placement import Fit
from batchsched.plugin.candidates import NodeSet
from batchsched.session.orders import LiveQueue, PlainOrder, SharedKeys
from batchsched.session.policy_state import PolicyState
from batchsched.session.statements import Decisions, Statement
from batchsched.session.tracing import telling_best, telling_first, telling_jobs, telling_queues
from batchsched.state.ledger import TaskListener, audit
from batchsched.state.needs import Need
from batchsched.state.records import (
    JobState,
    NodeState,
    QueueState,
    TaskState,
)
from batchsched.state.shortcuts import Shortcut
from batchsched.trace import (
    QueuePassedOver,
)

P = ParamSpec("P")


class Guard(Protocol):
    """Checks whether planned starts are still possible."""

    def allows(self, task: TaskState, node: NodeState, /) -> bool:
        """Return whether all plans still fit if a task runs on a node from now to its end."""
        ...


class Session(Decisions):
    """One cycle: actions use it to read and change the state of the cluster.

    Operations outside a statement take effect at once. The operations of a statement
    become decisions when it is committed. Statements do not nest.
    """

    def __init__(self, state: PolicyState) -> None:
        """Open a session without jobs; see `open_session`."""
        super().__init__(state)
        if self.teller is not None:
            self.teller.session = self
        ledger = self.ledger
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
        self.reserved_nodes: Mapping[str, NodeState] = ledger.reserved_nodes
        """The nodes with reservations, by name."""
        self.running_on = ledger.running_on
        """Returns the tasks of jobs in the session on a node that may leave."""
        plugins = self.plugins
        sharing: tuple[TaskListener, ...] = ()
        if plugins.job_order_shares:
            sharing = (SharedKeys(plugins.job_order_shares, state.jobs).charged,)
        ledger.on_charge = plugins.allocate_listeners + sharing
        ledger.on_refund = plugins.deallocate_listeners + sharing
        teller = self.teller
        self.best_node: Callable[[TaskState, Fit], NodeState | None] = (
            state.placement.best
            if teller is None
            else telling_best(teller, state.placement, plugins.node_scores)
        )
        """Returns the best of the feasible nodes where a task fits in this way, or None."""
        self.first_node: Callable[[TaskState], NodeState | None] = (
            state.placement.first_feasible
            if teller is None
            else telling_first(teller, state.placement)
        )
        """Returns the first feasible node in node order where a task fits now, or None."""
        self.jobs = state.jobs
        """The jobs of the session by UID, in order of UID."""
        self.left_out = state.left_out
        """Why jobs are not in the session, by UID."""
        self.guard: Guard | None = None
        """Keeps tasks from delaying planned starts; None: there is nothing to check."""
        self.explains_plans = True
        """Whether reasons are wanted of what is planned."""
        self.most_of: dict[QueueState, tuple[int, Sequence[float] | None]] = {}
        """What plugins let queues have at most, and how long the log of nodes was then."""
        self.sets_asked: tuple[Need, Iterable[NodeSet] | Unfit] | None = None
        """The sets that plugins just offered, and for what."""
        self.remembered_nodes: NodeSet | None = None
        """All nodes as one set, once plugins were asked for sets."""

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

    # The cluster

    @property
    def now(self) -> float:
        """The time of the snapshot, in seconds."""
        return self.ledger.now

    def jobs_having(self, *statuses: TaskStatus) -> list[JobState]:
        """Return the jobs of the session with a task in one of some statuses, in order of UID.

        O(n log n) for n such jobs, however many jobs there are.
        """
        found: dict[str, JobState] = {}
        for status in statuses:
            if having := self.ledger.jobs_having[status.index]:
                found.update(having)
        if not found:
            return []
        return [job for _, job in sorted(found.items()) if job.in_session]

    def jobs_running_in_part(self) -> list[JobState]:
        """Return the jobs of the session that run, but may lack tasks, also in one of their groups.

        In order of UID. O(n log n) for n jobs that lack tasks or have groups.
        """
        known = {**self.ledger.jobs_short, **self.ledger.jobs_in_groups}
        return [job for _, job in sorted(known.items()) if job.in_session and job.runs]

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

    @property
    def moved_for_good(self) -> int:
        """A number that grows as tasks are moved; a statement that is discarded restores it."""
        return len(self.log.jobs) - self.undone

    @property
    def refuses_alike(self) -> bool:
        """Whether what is alike is refused alike, and nobody is told of each attempt."""
        return (
            Shortcut.ATTEMPTS not in self.plain
            and self.teller is None
            and self.guard is None
            and self.plugins.refuse_alike
        )

    def begin_action(self, name: str) -> None:
        """Record which action runs from now on."""
        self.action_name = name
        self.withdrawn.clear()
        self.placed_now.clear()

    # Orders, and whose turn it is

    def in_task_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Return `tasks` in task order."""
        return sorted(tasks, key=self.plugins.task_order_key)

    def in_victim_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Return `tasks` in victim order, the least valuable first."""
        plugins = self.plugins
        costs_nothing = plugins.eviction_price is None
        key = plugins.task_order_key if costs_nothing else plugins.victim_key
        return sorted(tasks, key=key, reverse=True)

    def live_jobs(self, jobs: Iterable[JobState], /) -> PlainOrder[JobState]:
        """Return `jobs` waiting for their turn, in live job order."""
        key = self.plugins.job_order_key
        taken = None if self.teller is None else telling_jobs(self.teller, self.plugins)
        if Shortcut.TURNS in self.plain:
            return PlainOrder(key, jobs, taken=taken)
        return LiveQueue(key, jobs, taken=taken)

    def live_queues(self, queues: Iterable[QueueState], /) -> PlainOrder[QueueState]:
        """Return `queues` waiting for their turn, in live queue order."""
        key = self.plugins.queue_order_key
        taken = None if self.teller is None else telling_queues(self.teller, self.plugins)
        if Shortcut.TURNS in self.plain:
            return PlainOrder(key, queues, taken=taken)
        return LiveQueue(key, queues, taken=taken)

    def queue_share(self, queue: QueueState) -> QueueShare | None:
        """Return what a queue deserves and has, if a plugin knows."""
        share = self.plugins.queue_share(queue)
        if share is None:
            return None
        deserved, allocated = map(self.dimensions.resource, share)
        return QueueShare(deserved=deserved, allocated=allocated)

    def passes_over(self, queue: QueueState) -> bool:
        """Return whether a queue gets no turn because it is overused, and record it if so."""
        if not self.plugins.overused(queue):
            return False
        self.record_overused(queue.name)
        if self.teller is not None:
            self.teller.tell(QueuePassedOver(action=self.action_name, queue=queue.name))
        return True

    def record_overused(self, name: str) -> None:
        """Record that an action skipped a queue because it is overused."""
        if name not in self.reports.queues_overused:
            self.reports.queues_overused[name] = self.queue_share(self.ledger.queues[name])

    # What actions do

    def statement(self, *, is_trial: bool = False, within: NodeSet | None = None) -> Statement:
        """Begin a statement.

        Args:
            within: the only nodes on which it places tasks; None: any.
            is_trial: whether it only tests what would be possible; pending reasons then do not
                mention its placements if it is discarded.

        Raises:
            StatementError: another statement is still open.

        """
        if self.open_statement is not None:
            raise StatementError("a statement is open; use its operations, or end it first")
        self.open_statement = Statement(self, is_trial=is_trial, within=within)
        return self.open_statement

    def attempt(
        self,
        tries: Callable[[Statement], bool],
        *,
        is_trial: bool = False,
        within: NodeSet | None = None,
        fulfils: bool = False,
    ) -> bool:
        """Try something in a statement; return whether it is kept, else it is as if it never was.

        Args:
            tries: does something in the statement; returns whether to commit that.
            is_trial: see `statement`.
            within: see `statement`.
            fulfils: whether jobs start on what was promised to them, reserved or planned.

        """
        with self.statement(is_trial=is_trial, within=within) as statement:
            is_kept = tries(statement)
            if is_kept:
                statement.commit(fulfils=fulfils)
        return is_kept

    def best_among(self, task: TaskState, nodes: Sequence[NodeState], /) -> NodeState:
        """Return the best of some nodes, at least one, given in node order. O(nodes x scores)."""
        evaluator = self.state.evaluator
        if len(nodes) == 1 or not (evaluator.scores or evaluator.node_key):
            return nodes[0]
        return evaluator.best(task, nodes)

    def fits(
        self,
        task: TaskState,
        node: NodeState,
        fit: Fit,
        /,
        *,
        kept: Mapping[str, Hashable] = EMPTY,
    ) -> bool:
        """Return whether a task fits on a node in a way, and plugins have a choice for it there.

        `kept`: what plugins have chosen for it there before; see `batchsched.plugin.Choices`.
        """
        return node.fits(task, fit) and (
            not self.plugins.choosers or self.no_choice(task, node, fit, kept=kept) is None
        )

    def can_start(
        self, task: TaskState, node: NodeState, /, *, kept: Mapping[str, Hashable] = EMPTY
    ) -> bool:
        """Return whether a node accepts a task as it is, and it fits there now; see `fits`."""
        return self.fits(task, node, Fit.NOW, kept=kept) and (
            self.placement.refusal(task, node) is None
        )

    def no_choice(
        self,
        task: TaskState,
        node: NodeState,
        fit: Fit,
        /,
        *,
        gone: Collection[TaskState] = (),
        kept: Mapping[str, Hashable] = EMPTY,
    ) -> Unfit | None:
        """Return why a plugin has no choice for a task on a node, once some tasks are gone."""
        if not self.plugins.choosers:
            return None
        found = self.state.evaluator.choices(task, node, fit, gone=gone, kept=kept)
        return found if isinstance(found, Unfit) else None

    def may_choose(self, task: TaskState, /) -> bool:
        """Return whether any plugin may choose something for a task."""
        return bool(self.plugins.choosers) and self.state.evaluator.may_choose(task)

    def allocate(self, task: TaskState, node: NodeState, *, is_backfill: bool = False) -> None:
        """Place a task at once; see `Statement.allocate`. Its job is bound if it is ready."""
        self._at_once(Statement.allocate, task, node, is_backfill=is_backfill)

    def pipeline(self, task: TaskState, node: NodeState) -> None:
        """Promise resources that are being released at once; see `Statement.pipeline`."""
        self._at_once(Statement.pipeline, task, node)

    def promise(self, task: TaskState, node: NodeState) -> None:
        """Promise resources that backfill tasks hold at once; see `Statement.promise`."""
        self._at_once(Statement.promise, task, node)

    def reserve(self, task: TaskState, node: NodeState) -> None:
        """Reserve a node for a task at once; see `Statement.reserve`."""
        self._at_once(Statement.reserve, task, node)

    def unallocate(self, task: TaskState) -> None:
        """Take a task off its node at once; see `Statement.unallocate`."""
        self._at_once(Statement.unallocate, task)

    def evict(self, task: TaskState, *, claimant: TaskState) -> None:
        """Evict a task to make room for `claimant` at once; see `Statement.evict`."""
        self._at_once(Statement.evict, task, claimant=claimant)

    def move(self, task: TaskState, node: NodeState, *, claimant: TaskState | None = None) -> None:
        """Give a running task another place at once; see `Statement.move`."""
        self._at_once(Statement.move, task, node, claimant=claimant)

    def _at_once(
        self, operation: Callable[Concatenate[Statement, P], None], *given: P.args, **how: P.kwargs
    ) -> None:
        with self.statement() as statement:
            operation(statement, *given, **how)
            statement.commit()

    # Records of what was tried

    def record_failure(self, task: TaskState) -> None:
        """Record that an action tried to place a task and found no node.

        The pending reason of the task then says why each node rejects it, and `reserve` does not
        wait for another action to place its job in this cycle.
        """
        self.reports.of_task(task).found_no_place = True
