"""What a cycle begins with and leaves: admitted jobs, reservations, promises and plans.

What nodes could hold if others left is kept from cycle to cycle, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Protocol

from attrs import Factory, define, evolve

from batchsched.model.cluster import Plan, TaskStatus
from batchsched.model.reasons import (
    ConditionReason,
    JobCondition,
    PendingReason,
    queue_not_leaf,
    queue_unknown,
)
from batchsched.model.rules import Unmet, out_of_service, unmet_dependencies
from batchsched.placement import Placement
from batchsched.session.plugins import PluginSet
from batchsched.session.statement import Statement
from batchsched.state.ledger import Ledger
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, fits, minus

if TYPE_CHECKING:
    from batchsched.session.session import Session

_WAITS = (ConditionReason.WAITS_FOR, ConditionReason.NEVER_ELIGIBLE)


def admit_jobs(
    jobs: Iterable[JobState],
    ledger: Ledger,
    plugins: PluginSet,
    admitted: MutableMapping[str, JobState],
    left_out: MutableMapping[str, JobCondition],
) -> None:
    """Decide which of some jobs are in the session.

    Args:
        jobs: the jobs.
        ledger: the state of the session.
        plugins: the plugins that decide whether a job is valid.
        admitted: the jobs of the session by UID; updated.
        left_out: why other jobs are not in it, by UID; updated.

    """
    jobs = list(jobs)
    unmet = _unmet(jobs, ledger, left_out)
    if unmet:
        for uid in unmet.keys() - {job.uid for job in jobs}:
            # The jobs that it depends on may have changed, although the job itself has not.
            left_out[uid] = _not_eligible(unmet[uid])
    for job in jobs:
        refusal = None
        if job.queue is None:
            refusal = _without_queue(job, ledger.queues)
        elif job.uid in unmet:
            refusal = _not_eligible(unmet[job.uid])
        else:
            refusal = plugins.job_valid(job)
        ledger.admit(job, is_admitted=refusal is None)
        if refusal is None:
            if admitted.get(job.uid) is not job:  # to write into a sorted map costs more
                admitted[job.uid] = job
            left_out.pop(job.uid, None)
        else:
            left_out[job.uid] = refusal
            admitted.pop(job.uid, None)


def _unmet(
    jobs: Iterable[JobState], ledger: Ledger, left_out: Mapping[str, JobCondition]
) -> Mapping[str, Unmet]:
    """Return the ineligible jobs among some jobs and those left out, by UID."""
    known = ledger.jobs
    waiting = {job.uid: job for job in jobs if _may_wait(job)}
    for uid, condition in left_out.items():
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


def _without_queue(job: JobState, queues: Mapping[str, QueueState]) -> JobCondition:
    name = job.info.queue
    queue = queues.get(name)
    if queue is None:
        return queue_unknown(name)
    return queue_not_leaf(name, queue.children[0].name)


def _may_wait(job: JobState) -> bool:
    return bool(job.info.depends_on) and job.info.eligible_time is None


def _not_eligible(unmet: Unmet) -> JobCondition:
    reason = ConditionReason.NEVER_ELIGIBLE if unmet.never else ConditionReason.WAITS_FOR
    return JobCondition(reason, unmet.text)


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


class Guard(Protocol):
    """Checks whether planned starts are still possible."""

    def allows(self, task: TaskState, node: NodeState, /) -> bool:
        """Return whether all plans still fit if a task runs on a node from now to its end."""
        ...


@define
class Plans:
    """The plans of a session."""

    made: dict[str, Plan] = Factory(dict[str, Plan])
    """The plans by UID of the job."""
    late: list[str] = Factory(list[str])
    """UIDs of jobs whose planned start is too late."""
    reasons: dict[str, PendingReason] = Factory(dict[str, PendingReason])
    """Why jobs wait that are planned or cannot be planned, by UID."""
    guard: Guard | None = None
    """Keeps tasks from delaying planned starts; None: there is nothing to check."""


class Reservations:
    """The tasks of a session that are Reserved on a node."""

    __slots__ = ("_ledger", "_node_room", "_placement", "initial")

    def __init__(self, ledger: Ledger, placement: Placement, node_room: NodeRoom) -> None:
        self._ledger = ledger
        self._placement = placement
        self._node_room = node_room
        self.initial: list[TaskState] = [task for task, _ in ledger.lost_reservations]
        """The Reserved tasks of the snapshot, including those on nodes that no longer exist."""
        for job in self._jobs_reserving():
            self.initial += job.having(TaskStatus.RESERVED)

    def _jobs_reserving(self) -> list[JobState]:
        reserving = self._ledger.jobs_having[TaskStatus.RESERVED.index]
        return [job for _, job in sorted(reserving.items())]

    def drop_stale(self, is_ready: Callable[[JobState], bool]) -> None:
        """Drop reservations on nodes that cannot hold them, and of jobs that need none."""
        for _, node in sorted(self._ledger.reserved_nodes.items()):
            if node.reserved_tasks and not fits(node.reserved, self._node_room.for_jobs(node)):
                for task in sorted(node.reserved_tasks.values(), key=_uid):
                    self._drop(task)
            elif node.reserved_tasks:
                # It is not known for how long; other nodes can be reserved in the meantime.
                for task in sorted(node.reserved_tasks.values(), key=_uid):
                    if self.is_out_of_service(task, node):
                        self._drop(task)
        for job in self._jobs_reserving():
            if not job.in_session or is_ready(job):
                self.drop_of(job)

    def drop_of(self, job: JobState) -> None:
        """Make all Reserved tasks of a job Pending again."""
        for task in job.having(TaskStatus.RESERVED):
            self._drop(task)

    def _drop(self, task: TaskState) -> None:
        self._ledger.move(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)

    def is_out_of_service(self, task: TaskState, node: NodeState) -> bool:
        """Return whether a node accepts no tasks at all for now, including this one."""
        if out_of_service(node.info) is None:
            return False
        return self._placement.refusal(task, node) is not None


def _uid(task: TaskState) -> str:
    return task.uid


def keep_promises(session: Session) -> None:
    """Restore the promises of the last cycle, job by job in live job order.

    A promise is restored if its node exists and is in service, and the task still fits the future
    idle amount. If these are not enough for a job, all of its promises end.
    """
    promised: dict[JobState, dict[TaskState, NodeState]] = {}
    for task, node_name in session.ledger.initial_promises:
        job, node = task.job, session.ledger.node_named.get(node_name)
        if job is not None and job.in_session and node is not None:
            promised.setdefault(job, {})[task] = node
    waiting = session.live_jobs(promised)
    while waiting:
        job = waiting.pop()
        with session.statement(is_trial=True) as statement:
            for task in session.in_task_order(promised[job]):
                node = promised[job][task]
                if job.groups is not None and not job.groups.may_take(task):
                    continue
                if not session.reservations.is_out_of_service(task, node) and node.fits_later(
                    task.init_resreq
                ):
                    statement.pipeline(task, node)
            if session.job_pipelined(job):
                statement.commit()


def start_promised_jobs(session: Session) -> None:
    """Start the jobs whose promised resources are free, in live job order; others keep waiting."""
    waiting = session.live_jobs({task.job: None for task in _kept(session) if task.job is not None})
    while waiting:
        job = waiting.pop()
        with session.statement(is_trial=True) as statement:
            for task in session.in_task_order(job.having(TaskStatus.PIPELINED)):
                node = task.node
                assert node is not None
                before = len(statement)
                if _fits_without_its_promise(session, statement, task, node):
                    statement.allocate(task, node)
                else:
                    statement.rollback(before)
            if session.job_ready(job):
                statement.commit()


def end_promises(session: Session) -> None:
    """End the promises of the last cycle that can no longer be fulfilled.

    These are promises on nodes without Releasing tasks, where the task still cannot start. If
    the other promises are not enough for a job, all of its promises end.
    """
    kept = _kept(session)
    over = [task for task in kept if _is_over(session, task)]
    for task in over:
        _end(session, task)
    for job in {task.job: None for task in over}:
        if job is not None and not session.job_pipelined(job):
            for task in kept:
                if task.job is job and task.status is TaskStatus.PIPELINED:
                    _end(session, task)


def places_of_claimants(session: Session) -> Iterator[TaskState]:
    """Yield the tasks that will be Pipelined on their present nodes in the next cycle.

    These are the Pipelined and Allocated tasks of jobs for which tasks were evicted, in this
    cycle or an earlier one, if the job's promises are enough for it.
    """
    claimants = {eviction.for_task_uid for eviction in session.evictions}
    tasks = [*(session.ledger.tasks[uid] for uid in sorted(claimants)), *_kept(session)]
    for job in {task.job: None for task in tasks}:
        if job is not None and job.in_session and session.job_pipelined(job):
            yield from job.having(TaskStatus.PIPELINED)
            yield from job.having(TaskStatus.ALLOCATED)


def _kept(session: Session) -> list[TaskState]:
    """Return the tasks whose promises of the last cycle still hold."""
    return [
        task
        for task, node_name in session.ledger.initial_promises
        if task.status is TaskStatus.PIPELINED
        and task.node is not None
        and task.node.name == node_name
    ]


def _is_over(session: Session, task: TaskState) -> bool:
    node = task.node
    assert node is not None
    if any(other.status is TaskStatus.RELEASING for other in node.tasks.values()):
        return False
    with session.statement(is_trial=True) as statement:
        return not _fits_without_its_promise(session, statement, task, node)


def _fits_without_its_promise(
    session: Session, statement: Statement, task: TaskState, node: NodeState
) -> bool:
    """Remove a promise, and return whether the task can start on its node."""
    statement.unallocate(task)
    accepts = session.placement.refusal(task, node) is None
    return accepts and node.fits_now(task.init_resreq)


def _end(session: Session, task: TaskState) -> None:
    session.ledger.move(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)
