"""The session: one cycle of scheduling, as actions see it.

A session joins the books, the tiers of plugins and
the placement engine; actions act on the cluster through it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from attrs import evolve

from batchsched.errors import StatementError, UnknownNameError
from batchsched.model.amounts import shown_amount
from batchsched.model.cluster import NodeInfo
from batchsched.model.eligibility import Unmet, unmet_dependencies
from batchsched.model.html import html_table
from batchsched.model.reasons import (
    ConditionReason,
    JobCondition,
    NodeTally,
    Unfit,
    UnfitReason,
)
from batchsched.model.result import Bind, Eviction
from batchsched.model.shortage import QueueShare
from batchsched.model.snapshot import Snapshot
from batchsched.model.status import TaskStatus
from batchsched.session.books import Books, PlacementFactory
from batchsched.session.eviction_search import EvictionSearch
from batchsched.session.memo import Memo
from batchsched.session.opened_plugins import ConfiguredPlugin
from batchsched.session.plans import Plans
from batchsched.session.statement import Statement
from batchsched.session.victims import RecentStarts, Victims
from batchsched.state.audit import audit
from batchsched.state.ledger import Ledger
from batchsched.state.live_queue import LiveQueue, SortKey
from batchsched.state.needs import Need, need_of_job, need_of_task
from batchsched.state.queue_walk import QueueWalk
from batchsched.state.records import JobState, NodeState, QueueState, RunningTasks, TaskState
from batchsched.state.vectors import Vector, fits, minus

__all__ = ["PlacementFactory", "QueueTurns", "Session"]

QueueTurns = LiveQueue[QueueState] | QueueWalk
"""Queues waiting for their turn."""


class OverusedQueues:
    """The queues that an action passed over because they were overused, and their shares then."""

    __slots__ = ("_session", "_shares")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shares: dict[str, QueueShare | None] = {}

    def add(self, name: str, /) -> None:
        """Record that a queue was passed over. Only the first time counts."""
        if name not in self._shares:
            self._shares[name] = self._session.queue_share(self._session.queues[name])

    def __contains__(self, name: str) -> bool:
        return name in self._shares

    @property
    def names(self) -> tuple[str, ...]:
        """The queues by name, in the order in which they were passed over."""
        return tuple(self._shares)

    def share(self, name: str, /) -> QueueShare | None:
        """Return what the queue deserved and had then, if a plugin knows."""
        return self._shares.get(name)


class Session:
    """One cycle: what actions read of the cluster, and do to it.

    Operations outside a statement are decided at once. A statement's operations
    become decisions when it is committed. Statements do not nest.
    """

    statement_type: ClassVar[type[Statement]] = Statement
    """What `statement` begins."""

    def __init__(
        self,
        snapshot: Snapshot,
        plugins: Sequence[ConfiguredPlugin],
        placement: PlacementFactory,
    ) -> None:
        self._begin(Books(Ledger(snapshot), plugins, placement))

    @classmethod
    def on(cls, books: Books) -> Session:
        """Open a session on books that live on; see `Books.resume`. O(what is to be looked at)."""
        session = cls.__new__(cls)
        session._begin(books)
        return session

    def _begin(self, books: Books) -> None:
        self.ledger = books.ledger
        self.view = books.view
        self.view.forget_units()
        self.plugin_set = books.plugin_set
        self.placement = books.placement
        self.action_name = ""
        """The action that runs now."""
        self.binds: list[Bind] = []
        self.evictions: list[Eviction] = []
        self.initial_reservations: list[TaskState] = []
        """The tasks that the snapshot has as Reserved, those on nodes that are gone included."""
        self.left_out = books.left_out
        self._unplaced: dict[str, TaskState] = {}
        self.unplaced: Mapping[str, TaskState] = MappingProxyType(self._unplaced)
        """For the reasons: tasks that an action tried to place and could not, by UID."""
        self._rolled_back: dict[str, TaskState] = {}
        self.rolled_back: Mapping[str, TaskState] = MappingProxyType(self._rolled_back)
        """For the reasons: tasks that had a place in a turn that was undone, by UID."""
        self._tried_in_vain: set[str] = set()
        self._refusals: dict[str, Unfit] = {}
        self.refusals: Mapping[str, Unfit] = MappingProxyType(self._refusals)
        """For the reasons: why queues could not take tasks, by UID, when last asked."""
        self._claim_refusals: dict[str, Unfit] = {}
        self.claim_refusals: Mapping[str, Unfit] = MappingProxyType(self._claim_refusals)
        """For the reasons: why queues could claim nothing for tasks, by UID."""
        self.queues_overused = OverusedQueues(self)
        """Queues that an action passed over because they were overused, by name."""
        self.jobs = books.jobs
        """The jobs of the session by UID, in order of UID."""
        self.plans = Plans()
        """What the action plan has planned."""
        self.eviction_searches: dict[tuple[str, str], EvictionSearch] = {}
        """For the reasons: searches for tasks to evict that came to nothing, by task and action."""
        self.gang_needs = books.gang_needs
        """For the reasons: what gangs need that can never start, of jobs as the cycle began."""
        self.memo = Memo()
        """What actions remember for the rest of this cycle."""
        self._books = books
        self._statement: Statement | None = None
        self.ledger.on_charge = self.plugin_set.allocate_listeners()
        self.ledger.on_refund = self.plugin_set.deallocate_listeners()
        self._admit_jobs(books.to_admit)
        self.plugin_set.jobs_admitted()
        self.overused_at_open = {
            queue.name for queue in self._waiting_queues() if self.plugin_set.overused(queue)
        }
        """Queues with jobs that wait that were overused when the session was opened, by name."""
        self._remember_reservations()
        self._drop_stale_reservations()

    def __repr__(self) -> str:
        tasks = sum(len(job.tasks) for job in self.jobs.values())
        return (
            f"<Session: {len(self.nodes)} nodes, {len(self.queues)} queues, {len(self.jobs)} jobs, "
            f"{tasks} tasks; {len(self.binds)} bound, {len(self.evictions)} evicted>"
        )

    def _repr_html_(self) -> str:
        """Return a table of the nodes and what is idle there now, for notebooks."""
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

    def _admit_jobs(self, jobs: Iterable[JobState]) -> None:
        jobs = list(jobs)
        unmet = self._unmet(jobs)
        for uid in unmet.keys() - {job.uid for job in jobs}:
            # What it waits for may have changed, though the job has not.
            self.left_out[uid] = _not_eligible(unmet[uid])
        for job in jobs:
            refusal = None
            if job.queue is None:
                refusal = _without_queue(job, self.ledger.queues)
            elif job.uid in unmet:
                refusal = _not_eligible(unmet[job.uid])
            else:
                refused = self.plugin_set.job_valid(job)
                refusal = None if refused is None else refused[1]
            if job.in_session is not (refusal is None):
                job.in_session = refusal is None
                for task in job.tasks:
                    if task.node is not None:
                        task.node.running = None
            if refusal is None:
                self.jobs[job.uid] = job
                self.left_out.pop(job.uid, None)
            else:
                self.left_out[job.uid] = refusal
                self.jobs.pop(job.uid, None)

    def _unmet(self, jobs: Iterable[JobState]) -> Mapping[str, Unmet]:
        """Return those of some jobs, and of those left out, that are not eligible, by UID."""
        known = self.ledger.jobs
        waiting = {job.uid: job for job in jobs if _may_wait(job)}
        for uid, condition in self.left_out.items():
            if condition.reason in _WAITS and uid in known:
                waiting[uid] = known[uid]
        if not waiting:
            return {}
        concerned = dict(waiting)
        for job in waiting.values():
            for dependency in job.info.depends_on:
                if dependency.job in known:
                    concerned[dependency.job] = known[dependency.job]
        return unmet_dependencies(
            evolve(job.info, tasks=[task.info for task in job.tasks])
            for _, job in sorted(concerned.items())
        )

    def jobs_having(self, *statuses: TaskStatus) -> list[JobState]:
        """Return the jobs of the session that have tasks with a status, in order of UID.

        O(n log n) for n such jobs, however many jobs there are.
        """
        found: dict[str, JobState] = {}
        for status in statuses:
            found.update(self.ledger.jobs_having[status.index])
        return [job for _, job in sorted(found.items()) if job.in_session]

    def jobs_changed(self) -> dict[str, JobState]:
        """Return the jobs of the session that it has changed by UID, in order of UID.

        O(n log n) for n such jobs. For sessions on books that live on.
        """
        jobs = {job.uid: job for job in self.ledger.log.jobs if job.in_session}
        for task in self._books.diverging():
            if task.job is not None and task.job.in_session:
                jobs[task.job.uid] = task.job
        return dict(sorted(jobs.items()))

    def _remember_reservations(self) -> None:
        self.initial_reservations += [task for task, _ in self.ledger.lost_reservations]
        for job in self._jobs_reserving():
            self.initial_reservations += job.having(TaskStatus.RESERVED)

    def _jobs_reserving(self) -> list[JobState]:
        reserving = self.ledger.jobs_having[TaskStatus.RESERVED.index]
        return [job for _, job in sorted(reserving.items())]

    def _drop_stale_reservations(self) -> None:
        for _, node in sorted(self.ledger.reserved_nodes.items()):
            if node.reserved_tasks and not fits(node.reserved, self.room_for_jobs(node)):
                for task in sorted(node.reserved_tasks.values(), key=_uid):
                    self._drop_reservation(task)
            elif node.reserved_tasks:
                # Nobody knows for how long. Meanwhile other nodes could be reserved.
                for task in sorted(node.reserved_tasks.values(), key=_uid):
                    if self.is_out_of_service(task, node):
                        self._drop_reservation(task)
        for job in self._jobs_reserving():
            if not job.in_session or self.job_ready(job):
                self.drop_reservations(job)

    def drop_reservations(self, job: JobState) -> None:
        """Make all Reserved tasks of a job Pending again."""
        for task in job.having(TaskStatus.RESERVED):
            self._drop_reservation(task)

    def _drop_reservation(self, task: TaskState) -> None:
        self.ledger.move(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)

    def is_out_of_service(self, task: TaskState, node: NodeState) -> bool:
        """Return whether a node takes no tasks at all for now, this one included."""
        return _takes_no_tasks(node.info) and self.placement.refusal(task, node) is not None

    # What there is

    @property
    def now(self) -> float:
        """The time of the snapshot, in seconds."""
        return self.ledger.now

    @property
    def nodes(self) -> Sequence[NodeState]:
        """All nodes, in node order."""
        return self.ledger.nodes

    @property
    def queues(self) -> Mapping[str, QueueState]:
        """All queues by name."""
        return self.ledger.queues

    def room_for_jobs(self, node: NodeState) -> Vector:
        """Return what a node has besides what tasks of no job hold there, such as daemons.

        Nothing makes those leave, and they may stay for ever.
        """
        known = self._books.room_for_jobs
        if known is None:
            known = self._books.room_for_jobs = {}
            for task in self.ledger.other_tasks.values():
                on = task.node
                if on is not None and task.status.holds and task.status is not TaskStatus.RELEASING:
                    known[on.name] = minus(known.get(on.name, on.allocatable), task.resreq)
        return known.get(node.name, node.allocatable)

    def task(self, uid: str) -> TaskState:
        """Return a task by UID.

        Raises:
            UnknownNameError: there is no such task.

        """
        try:
            return self.ledger.tasks[uid]
        except KeyError:
            raise UnknownNameError(f"{uid!r} is the UID of no task of this snapshot") from None

    def node(self, name: str) -> NodeState:
        """Return a node by name.

        Raises:
            UnknownNameError: there is no such node.

        """
        try:
            return self.ledger.node_named[name]
        except KeyError:
            raise UnknownNameError(f"there is no node {name!r} in this snapshot") from None

    def check(self) -> None:
        """Assert that all accounts are right, by counting everything anew. O(nodes + tasks).

        Raises:
            InvariantError: an account is wrong or negative; the message lists all that are.

        """
        audit(self.ledger)

    # What plugins say

    def job_ready(self, job: JobState) -> bool:
        """Return whether the job's tasks that have a place may be bound."""
        return self.plugin_set.job_ready(job)

    def job_pipelined(self, job: JobState) -> bool:
        """Return whether what was promised to the job is enough."""
        return self.plugin_set.job_pipelined(job)

    def job_condition_ready(self, job: JobState) -> bool:
        """Return whether the job is ready or conditionally ready."""
        return self.plugin_set.job_condition_ready(job)

    def job_valid(self, job: JobState) -> JobCondition | None:
        """Return why plugins refuse the job as a whole, or None."""
        refusal = self.plugin_set.job_valid(job)
        return None if refusal is None else refusal[1]

    def overused(self, queue: QueueState) -> bool:
        """Return whether the queue has all that it deserves."""
        return self.plugin_set.overused(queue)

    def allocatable(self, queue: QueueState, need: Need) -> Unfit | None:
        """Return why the queue may not take what is needed, or None."""
        return self.plugin_set.allocatable(queue, need)

    def may_take(self, job: JobState, tasks: Collection[TaskState]) -> bool:
        """Return whether the queue of a job that is not ready may take all that it lacks.

        If not, it is recorded for the reasons. So a gang does not hold what its queue will not
        let it complete.

        Args:
            job: the job.
            tasks: its tasks to place, in task order.

        """
        if not self.plugin_set.limits_queues or self.job_ready(job):
            return True
        need = need_of_job(job, tasks)
        assert job.queue is not None
        refusal = None if need is None else self.plugin_set.allocatable(job.queue, need)
        if need is None or refusal is None:
            return True
        for task in need.tasks:
            self.record_refusal(task, refusal)
        return False

    def may_take_task(self, task: TaskState, *, leaving: Sequence[TaskState] = ()) -> bool:
        """Return whether the queue of a task may take it, and its job one more.

        If the queue may not, it is recorded for the reasons.

        Args:
            task: the task, Pending.
            leaving: tasks that would be evicted for it.

        """
        job = task.job
        if job is not None and job.groups is not None and not job.groups.may_take(task):
            return False
        if not self.plugin_set.limits_queues:
            return True
        assert task.job is not None
        assert task.job.queue is not None
        need = need_of_task(task, leaving=leaving)
        refusal = self.plugin_set.allocatable(task.job.queue, need)
        if refusal is None:
            return True
        self.record_refusal(task, refusal)
        return False

    def tally(self, task: TaskState) -> NodeTally:
        """Return how many nodes could take a task now, and what stands in the way on others."""
        tally = self.placement.tally(task)
        guard = self.plans.guard
        if guard is None or not tally.available:
            return tally
        closed = sum(
            node.fits_now(task.init_resreq) and not guard.allows(task, node)
            for node in self.placement.feasible(task)
        )
        if not closed:
            return tally
        unfit = {**tally.unfit, Unfit(UnfitReason.PLANNED): closed}
        return NodeTally(tally.total, tally.available - closed, unfit)

    def record_claim_refusal(self, tasks: Iterable[TaskState], refusal: Unfit) -> None:
        """Record, for the reasons, why the queue of tasks may claim nothing for them."""
        for task in tasks:
            self._claim_refusals[task.uid] = refusal

    def record_refusal(self, task: TaskState, refusal: Unfit) -> None:
        """Record, for the reasons, why queues may not take a task; an action goes on without it."""
        self._refusals[task.uid] = refusal
        self.record_failure(task)

    def queue_share(self, queue: QueueState) -> QueueShare | None:
        """Return what a queue deserves and has, if a plugin that says who is overused knows."""
        share = self.plugin_set.queue_share(queue)
        if share is None:
            return None
        deserved, allocated = map(self.ledger.dimensions.resource, share)
        return QueueShare(deserved=deserved, allocated=allocated)

    def preemptable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Victims:
        """Return which of the candidates may be evicted for a task of their own queue."""
        return self.plugin_set.eviction.preemptable(claimant, candidates)

    def reclaimable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Victims:
        """Return which of the candidates may be evicted for a task of another queue."""
        return self.plugin_set.eviction.reclaimable(claimant, candidates)

    def whole_job(self, job: JobState) -> list[TaskState]:
        """Return the tasks that are evicted when a job is as a whole, in victim order. O(tasks)."""
        return self.in_victim_order(job.having(TaskStatus.RUNNING))

    def job_order_key(self, job: JobState) -> SortKey:
        """Return the key of a job under job_order; the least goes first."""
        return self.plugin_set.job_key(job)

    def queue_order_key(self, queue: QueueState) -> SortKey:
        """Return the key of a queue under queue_order; the least goes first."""
        return self.plugin_set.queue_key(queue)

    def task_order_key(self, task: TaskState) -> SortKey:
        """Return the key of a task under task_order; the least goes first."""
        return self.plugin_set.task_key(task)

    def live_jobs(self, jobs: Iterable[JobState]) -> LiveQueue[JobState]:
        """Return `jobs` waiting for their turn, in live job order."""
        return LiveQueue(self.plugin_set.job_key, jobs)

    def live_queues(self, queues: Iterable[QueueState]) -> LiveQueue[QueueState]:
        """Return `queues` waiting for their turn, in live queue order."""
        return LiveQueue(self.plugin_set.queue_key, queues)

    def queue_turns(
        self,
        jobs: Mapping[QueueState, LiveQueue[JobState]],
        tasks_of: Callable[[JobState], Collection[TaskState]],
    ) -> QueueTurns:
        """Return queues waiting for their turn, with the jobs that wait in each.

        If a plugin ranks queues by need, the next queue is found by walking down the tree.

        Args:
            jobs: the jobs that wait in each queue.
            tasks_of: what a job that waits has left to place, in task order.

        """
        if not self.plugin_set.orders_by_need:
            return LiveQueue(self.plugin_set.queue_key, jobs)

        def offer(queue: QueueState) -> Need | None:
            job = jobs[queue].first()
            return None if job is None else need_of_job(job, tasks_of(job))

        return QueueWalk(self.plugin_set.queue_key, offer, self.queues.values(), jobs)

    def in_task_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Return `tasks` in task order."""
        return sorted(tasks, key=self.plugin_set.task_key)

    def in_victim_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Return `tasks` in victim order, the least valuable first."""
        return sorted(tasks, key=self.plugin_set.task_key, reverse=True)

    def running_on(self, node: NodeState) -> RunningTasks:
        """Return the Running tasks of jobs in the session on a node.

        O(1) unless the node changed since it was last asked.
        """
        if node.running is None:
            tasks = [
                task
                for task in node.tasks.values()
                if task.status is TaskStatus.RUNNING
                and task.job is not None
                and task.job.in_session
            ]
            node.running = RunningTasks(tasks, self.ledger.dimensions.zero)
        return node.running

    def large_enough(self, request: Vector) -> frozenset[int]:
        """Return the slots of the nodes where `request` fits when nothing is there.

        O(nodes) for a request that is new, else O(1).
        """
        large_enough = self._books.large_enough
        known = large_enough.get(request)
        if known is None:
            known = large_enough[request] = frozenset(
                node.slot for node in self.nodes if fits(request, node.allocatable)
            )
        return known

    def is_starving(self, job: JobState, threshold: float) -> bool:
        """Return whether the job has waited longer than `threshold` seconds to no avail."""
        return (
            self.now - job.info.creation_time > threshold
            and not self.job_ready(job)
            and not self.job_condition_ready(job)
        )

    # What actions do

    def statement(self, *, is_trial: bool = False) -> Statement:
        """Begin a statement.

        Args:
            is_trial: whether it only asks what would be possible and is discarded whatever
                comes of it. Reasons do not mention the places that a trial gave.

        Raises:
            StatementError: another statement has not ended yet.

        """
        if self._statement is not None:
            raise StatementError("a statement is open already; statements do not nest")
        self._statement = self.statement_type(self, is_trial=is_trial)
        return self._statement

    def record_eviction_search(
        self,
        task: TaskState,
        *,
        point: str,
        among: str,
        may_use_idle: bool,
        candidates_on: Callable[[NodeState], Sequence[TaskState]],
        recent: RecentStarts | None = None,
    ) -> None:
        """Record that an action looked for tasks to evict for a task, and found too few.

        The reason of the task then says why the others could not be evicted, as things stand
        at the end of the cycle.

        Args:
            task: the claimant.
            point: whose verdicts counted, ``preemptable`` or ``reclaimable``.
            among: whose running tasks were considered, as a name.
            may_use_idle: whether the task could have taken idle resources too.
            candidates_on: which running tasks of a node were considered.
            recent: which of them could not be evicted because they have just started.

        """
        action = self.action_name or point
        search = EvictionSearch(task, action, point, among, may_use_idle, candidates_on, recent)
        self.eviction_searches[task.uid, action] = search

    def record_failure(self, task: TaskState) -> None:
        """Record that an action tried to place a task and found no place for it.

        The reason of the task then says why each node refuses it, and `reserve` does not wait
        for its job in this cycle.
        """
        self._unplaced[task.uid] = task
        self._tried_in_vain.add(task.uid)

    def was_tried_in_vain(self, task: TaskState) -> bool:
        """Return whether an action of this cycle tried to place the task and found no place."""
        return task.uid in self._tried_in_vain

    def record_rollback(self, tasks: Iterable[TaskState]) -> None:
        """Record, for the reasons, tasks whose places are taken back.

        Statements do so when they are discarded.
        """
        for task in tasks:
            self._rolled_back[task.uid] = task

    @property
    def has_open_statement(self) -> bool:
        """Whether a statement was begun and has not ended."""
        return self._statement is not None

    def statement_ended(self) -> None:
        """Take note that the open statement was committed or discarded; it calls this itself."""
        self._statement = None

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
        """Promise a Pending task resources of a node that are being released."""
        self._outside_statement()
        self.expect(task, TaskStatus.PENDING)
        self.ledger.move(task, TaskStatus.PIPELINED, node, is_backfill=task.is_backfill)

    def promise(self, task: TaskState, node: NodeState) -> None:
        """Promise a Pending task resources of a node that backfill tasks hold (Conditional)."""
        self._outside_statement()
        self.expect(task, TaskStatus.PENDING)
        self.ledger.move(task, TaskStatus.CONDITIONAL, node, is_backfill=task.is_backfill)

    def reserve(self, task: TaskState, node: NodeState) -> None:
        """Close a node for a Pending task."""
        self._outside_statement()
        self.expect(task, TaskStatus.PENDING)
        self.ledger.move(task, TaskStatus.RESERVED, node, is_backfill=task.is_backfill)

    def unallocate(self, task: TaskState) -> None:
        """Make a task Pending again that has a place or a promise and is not bound."""
        self._outside_statement()
        with self.statement() as statement:
            statement.unallocate(task)
            statement.commit()

    def evict(self, task: TaskState, *, claimant: TaskState) -> None:
        """Take a Running task off its node, to make room for `claimant`."""
        self._outside_statement()
        with self.statement() as statement:
            statement.evict(task, claimant=claimant)
            statement.commit()

    def expect(self, task: TaskState, *statuses: TaskStatus) -> None:
        """Raise unless the task has one of these statuses and its job is in the session.

        Raises:
            StatementError: the operation does not apply to the task.

        """
        if task.status not in statuses:
            wanted = " or ".join(status.value for status in statuses)
            raise StatementError(f"{task!r} is not {wanted}")
        if task.job is None or not task.job.in_session:
            raise StatementError(f"{task!r} belongs to no job of this session")

    def _outside_statement(self) -> None:
        if self._statement is not None:
            raise StatementError("a statement is open; use its operations, or end it first")

    def bind_if_ready(self, job: JobState) -> None:
        """Bind all Allocated tasks of the job, if it is ready."""
        if not job.allocated or not self.plugin_set.job_ready(job):
            return
        tasks = list(job.allocated.values())
        if job.groups is not None:
            # What is of no use in part waits for the rest.
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
        job.has_bind = True

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


def _without_queue(job: JobState, queues: Mapping[str, QueueState]) -> JobCondition:
    name = job.info.queue
    queue = queues.get(name)
    if queue is None:
        message = f"queue {name!r} is not in the snapshot"
        return JobCondition(ConditionReason.QUEUE_UNKNOWN, message)
    message = f"queue {name!r} has other queues below it, such as {queue.children[0].name!r}"
    return JobCondition(ConditionReason.QUEUE_NOT_LEAF, f"{message}; jobs name one of those")


def _takes_no_tasks(node: NodeInfo) -> bool:
    """Return whether the node says that it takes no tasks at all, whichever they are."""
    return (
        node.unschedulable
        or node.conditions.get("Ready", "True") != "True"
        or node.conditions.get("NetworkUnavailable", "False") != "False"
    )


_WAITS = (ConditionReason.WAITS_FOR, ConditionReason.NEVER_ELIGIBLE)


def _may_wait(job: JobState) -> bool:
    return bool(job.info.depends_on) and job.info.eligible_time is None


def _not_eligible(unmet: Unmet) -> JobCondition:
    reason = ConditionReason.NEVER_ELIGIBLE if unmet.never else ConditionReason.WAITS_FOR
    return JobCondition(reason, unmet.text)
