"""What outlives a cycle: reservations, promises and plans.

A snapshot may have Reserved tasks, whose nodes are kept for them, and Pipelined ones. Evicted tasks
take time to leave. If the claimant were only Pending in the next cycle, other tasks could use the
resources, or the evicted task could return and be evicted again, for ever. So promises are restored
when the session opens, they start before the first action if they can, and those that can no longer
be fulfilled end at close. Planned starts are kept possible while other actions place tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from attrs import Factory, define

from batchsched.model.cluster import Plan, TaskStatus
from batchsched.model.reasons import PendingReason
from batchsched.model.rules import out_of_service
from batchsched.placement import Placement
from batchsched.session.node_room import NodeRoom
from batchsched.session.statement import Statement
from batchsched.state.ledger import Ledger
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import fits

if TYPE_CHECKING:
    from batchsched.session.session import Session

__all__ = [
    "Guard",
    "Plans",
    "Reservations",
    "end_promises",
    "keep_promises",
    "places_of_claimants",
    "start_promised_jobs",
]


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
