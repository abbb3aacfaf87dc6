"""Starting jobs that have reservations, and which nodes may be reserved for a task."""

from __future__ import annotations

from batchsched.actions.placing import place_now
from batchsched.model.cluster import TaskStatus
from batchsched.session.attempts import tasks_needed
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import fits, plus

__all__ = [
    "can_hold_reservation",
    "can_keep_for_one_job",
    "first_node_to_reserve",
    "promised_to_others",
    "start_reserved_jobs",
]


def start_reserved_jobs(session: Session) -> None:
    """Give each job with Reserved tasks a turn to start, on its reserved nodes or elsewhere."""
    waiting = session.live_jobs(session.jobs_having(TaskStatus.RESERVED))
    while waiting:
        job = waiting.pop()
        reserved = [
            (task, task.node) for task in session.in_task_order(job.having(TaskStatus.RESERVED))
        ]
        with session.statement() as statement:
            # The job's own reservations must not block it.
            for task, _ in reserved:
                statement.unallocate(task)
            _start(session, statement, job, reserved)
            if not session.job_ready(job):
                continue
            statement.commit()


def _start(
    session: Session,
    statement: Statement,
    job: JobState,
    reserved: list[tuple[TaskState, NodeState | None]],
) -> None:
    for task, node in reserved:
        if (
            node is not None
            and session.placement.refusal(task, node) is None
            and node.fits_now(task.init_resreq)
            and session.may_take_task(task)
        ):
            statement.allocate(task, node)
    for task in tasks_needed(session, job):
        if session.job_ready(job):
            return
        place_now(session, statement, task)


def can_hold_reservation(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether the node is large enough for the task in addition to what is reserved there.

    What daemons and other tasks without a job hold is subtracted, for they may never leave.
    """
    return fits(plus(node.reserved, task.init_resreq), session.node_room.for_jobs(node))


def can_keep_for_one_job(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether the node can be reserved for the task's job alone, large enough for all of it.

    Both what is reserved for the job and what it has been allocated in this session count,
    because both will be reserved in the next cycle.
    """
    wanted = task.init_resreq
    for other in node.reserved_tasks.values():
        if other.job is not task.job:
            return False
        wanted = plus(wanted, other.init_resreq)
    for other in node.tasks.values():
        if other.status is TaskStatus.ALLOCATED:
            if other.job is task.job:
                wanted = plus(wanted, other.init_resreq)
            elif other.job is not None and other.job.count(TaskStatus.RESERVED):
                return False
    return fits(wanted, session.node_room.for_jobs(node))


def _can_hold_beside_its_job(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether the node is large enough in addition to what the task's job has there.

    Without this rule a gang that can never fit would have the room of its own tasks reserved,
    and close nodes for ever.
    """
    wanted = plus(node.reserved, task.init_resreq)
    for other in node.tasks.values():
        if other.job is task.job and other.status is TaskStatus.ALLOCATED:
            wanted = plus(wanted, other.init_resreq)
    return fits(wanted, session.node_room.for_jobs(node))


def first_node_to_reserve(
    session: Session, task: TaskState, *, beside_its_job: bool
) -> NodeState | None:
    """Return the first node that may be reserved for a starving task, in node order.

    `beside_its_job`: whether the room must not include what its job is Allocated there.
    """
    can_hold = _can_hold_beside_its_job if beside_its_job else can_hold_reservation
    for node in session.nodes:
        if (
            can_hold(session, task, node)
            and not promised_to_others(task, node)
            and session.placement.refusal(task, node) is None
        ):
            return node
    return None


def promised_to_others(task: TaskState, node: NodeState) -> bool:
    """Return whether resources of the node are promised to tasks of other jobs."""
    return bool(node.divergence_count) and any(
        other.job is not task.job
        for other in node.tasks.values()
        if other.status is TaskStatus.PIPELINED or other.status is TaskStatus.CONDITIONAL
    )
