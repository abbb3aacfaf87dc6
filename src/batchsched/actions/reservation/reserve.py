"""reserve: close nodes for jobs that would starve otherwise.

Follows the design document "Reserve Action".
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from attrs import frozen

from batchsched.actions.action import has_task_to_place, tasks_to_place
from batchsched.actions.placing import can_still_start, place_now
from batchsched.actions.reservation.eligibility import (
    can_hold_reservation,
    can_keep_for_one_job,
    promised_to_others,
)
from batchsched.actions.reservation.node_index import ReservableNodes
from batchsched.model.status import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import JobState, NodeState, TaskState

__all__ = ["ReserveAction"]

TWO_DAYS = 172_800


@frozen(kw_only=True)
class ReserveAction:
    """Reserves nodes for starving jobs, unless a job that goes first could be scheduled now.

    A gang with best-effort tasks gets reservations only when these have a place, so that
    backfill should run before. So should everything that places tasks: a job that was tried in
    vain in this cycle is known not to go first.
    """

    starving_job_time_threshold: float = TWO_DAYS
    """Seconds after which a job that waits is starving."""
    reserved_node_percent: float = 50
    """How many of all nodes, in percent and rounded up, may be reserved at once."""
    in_order: bool = False
    """Whether starving jobs are served strictly in job order, each with nodes of its own.

    If not, starving jobs share nodes, and one that finds too little left is passed over. That
    uses nodes better, but many small starving jobs can then keep a large one waiting for ever.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> ReserveAction:
        """Read ``starvingJobTimeThreshold``, ``reservedNodePercent`` and ``inOrder``."""
        return cls(
            starving_job_time_threshold=arguments.number(
                "starvingJobTimeThreshold", default=TWO_DAYS, minimum=0
            ),
            reserved_node_percent=arguments.number(
                "reservedNodePercent", default=50, minimum=0, maximum=100
            ),
            in_order=arguments.boolean("inOrder", default=False),
        )

    def execute(self, session: Session, /) -> None:
        """Go through all jobs that wait, in job order; reserve for those that starve."""
        limit = ceil(self.reserved_node_percent * len(session.nodes) / 100)
        waiting = session.live_jobs(
            filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING))
        )
        reservable = ReservableNodes(session)
        while waiting:
            job = waiting.pop()
            queue = job.queue
            assert queue is not None
            if (
                session.is_starving(job, self.starving_job_time_threshold)
                and queue.name not in session.overused_at_open
            ):
                if (
                    not self._try_to_reserve(session, job, limit, reservable)
                    and self.in_order
                    and self._waits_for_other_reservations(session, job, limit, reservable)
                ):
                    return
            elif not session.overused(queue) and _could_be_scheduled(session, job):
                return

    def _try_to_reserve(
        self, session: Session, job: JobState, limit: int, reservable: ReservableNodes
    ) -> bool:
        """Reserve for a starving job all that it needs to start, or nothing."""
        with session.statement() as statement:
            if self._reserve(session, statement, job, limit, reservable):
                statement.commit()
                return True
        return False

    def _waits_for_other_reservations(
        self, session: Session, job: JobState, limit: int, reservable: ReservableNodes
    ) -> bool:
        """Return whether the job could be reserved for if no other job had reservations."""
        with session.statement(is_trial=True) as statement:
            for other in session.jobs_having(TaskStatus.RESERVED):
                if other is not job:
                    for task in other.having(TaskStatus.RESERVED):
                        statement.unallocate(task)
            return len(statement) > 0 and self._reserve(session, statement, job, limit, reservable)

    def _reserve(
        self,
        session: Session,
        statement: Statement,
        job: JobState,
        limit: int,
        reservable: ReservableNodes,
    ) -> bool:
        if self.in_order:
            for task in job.having(TaskStatus.ALLOCATED):
                if task.node is not None and task.node.reserved_tasks:
                    # Reserved for another job since: the task will not find its place again.
                    statement.unallocate(task)
        for task in tasks_to_place(session, job):
            if session.job_ready(job) or session.job_condition_ready(job):
                break
            self._allocate_or_reserve(session, statement, task, limit, reservable)
        return session.job_ready(job) or session.job_condition_ready(job)

    def _allocate_or_reserve(
        self,
        session: Session,
        statement: Statement,
        task: TaskState,
        limit: int,
        reservable: ReservableNodes,
    ) -> None:
        # What nodes can be kept for one job alone depends on more than the node and the task.
        is_known = not self.in_order and reservable.knows(task)
        nodes = [] if is_known else self._possible(session, task)
        if is_known:
            node = reservable.most_room_now(task)
        else:
            node = _most_room(
                session,
                task,
                nodes,
                lambda n: not n.reserved_tasks and n.fits_now(task.init_resreq),
            )
        if node is not None:
            statement.allocate(task, node)
            return
        is_full = reservable.count_reserved() >= limit
        if is_known:
            node = reservable.most_room(task, only_reserved=is_full)
        else:
            node = _most_room(session, task, nodes, lambda n: bool(n.reserved_tasks) or not is_full)
        if node is not None:
            statement.reserve(task, node)
        else:
            session.record_failure(task)

    def _possible(self, session: Session, task: TaskState) -> list[NodeState]:
        can_hold = can_keep_for_one_job if self.in_order else can_hold_reservation
        return [
            node
            for node in session.nodes
            if can_hold(session, task, node)
            and not promised_to_others(task, node)
            and session.placement.refusal(task, node) is None
        ]


def _could_be_scheduled(session: Session, job: JobState) -> bool:
    """Return whether the job would become ready now, or one more task of a ready job fits.

    A job with a task that an action tried to place in vain in this very cycle could not: what
    room it finds now, it finds because others gave it back since, and in the next cycle they
    will have it again. If such a job stopped the action, it could do so for ever.
    """
    tasks = tasks_to_place(session, job)
    if any(session.was_tried_in_vain(task) for task in tasks):
        return False
    with session.statement(is_trial=True) as statement:
        for left, task in zip(reversed(range(len(tasks))), tasks, strict=True):
            if place_now(session, statement, task):
                if session.job_ready(job):
                    return True
            elif not can_still_start(session, job, left):
                return False
    return False


def _most_room(
    session: Session,
    task: TaskState,
    nodes: list[NodeState],
    is_eligible: Callable[[NodeState], bool],
) -> NodeState | None:
    best: NodeState | None = None
    highest = 0.0
    for node in nodes:
        if is_eligible(node):
            score = session.plugin_set.node_order_on_resource(task, node)
            if best is None or score > highest:
                best, highest = node, score
    return best
