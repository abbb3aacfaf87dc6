"""The displace strategy of backfill: a job that can start takes the place of one that cannot.

Specification: section 10. Follows the design document "BackFill Action".
"""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.actions.action import has_task_to_place, jobs_by_queue, tasks_to_place
from batchsched.actions.make_room import spare
from batchsched.placement import Fit
from batchsched.session import Session
from batchsched.statement import Statement
from batchsched.states import JobState, NodeState, TaskState
from batchsched.status import TaskStatus
from batchsched.vectors import Vector, fits, plus

__all__ = ["displace"]


def displace(session: Session) -> None:
    """Start jobs in what unready jobs of their own queue hold."""
    collected = [job for job in session.jobs.values() if has_task_to_place(job)]
    jobs = {queue: session.live_jobs(jobs) for queue, jobs in jobs_by_queue(collected).items()}
    queues = session.live_queues(jobs)
    while queues:
        waiting = jobs[queues.pop()]
        while waiting:
            job = waiting.pop()
            if _take_turn(session, job):
                waiting.push(job)


def _take_turn(session: Session, job: JobState) -> bool:
    """Give a job its turn; return whether it is to come back."""
    placed = False
    with session.statement() as statement:
        for task in tasks_to_place(session, job):
            if _place(session, statement, task):
                placed = True
            else:
                session.unplaced[task.uid] = task
            if session.job_ready(job):
                break
        if session.job_ready(job):
            statement.commit()
            return placed
        session.note_undone(statement)
    return False


def _place(session: Session, statement: Statement, task: TaskState) -> bool:
    node = session.placement.best(task, Fit.NOW)
    if node is not None:
        statement.allocate(task, node)
        return True
    choice = _best_to_displace_on(session, statement, task)
    if choice is None:
        return False
    node, victims = choice
    for victim in victims:
        statement.take_back(victim)
        session.undone[victim.uid] = victim
    statement.allocate(task, node)
    return True


def _best_to_displace_on(
    session: Session, statement: Statement, task: TaskState
) -> tuple[NodeState, list[TaskState]] | None:
    """Try every node without its releasable tasks, one at a time; return the best."""
    choices: list[tuple[NodeState, list[TaskState]]] = []
    raw: list[tuple[float, ...]] = []
    placement = session.placement
    for node in session.nodes:
        if node.is_closed and not task.is_best_effort:
            continue
        releasable = [t for t in node.tasks.values() if _is_releasable(session, t, task)]
        if not releasable:
            continue
        victims = _enough(task, node, session.in_victim_order(releasable))
        if victims is None:
            continue
        before = len(statement)
        for victim in victims:
            statement.take_back(victim)
        if placement.refusal(task, node) is None:
            choices.append((node, victims))
            raw.append(placement.raw_scores(task, node))
        statement.undo_to(before)
    if not choices:
        return None
    totals = placement.totals(task, raw)
    return choices[max(range(len(choices)), key=lambda position: (totals[position], -position))]


def _is_releasable(session: Session, task: TaskState, claimant: TaskState) -> bool:
    if task.status is not TaskStatus.ALLOCATED:
        return False
    owner, mine = task.job, claimant.job
    assert owner is not None
    assert mine is not None
    return (
        owner is not mine
        and owner.queue is mine.queue
        and not session.job_ready(owner)
        and not session.job_condition_ready(owner)
    )


def _enough(
    task: TaskState, node: NodeState, releasable: list[TaskState]
) -> list[TaskState] | None:
    def is_enough(taken: Sequence[TaskState]) -> bool:
        return _fits_without(task.init_resreq, node, taken)

    taken: list[TaskState] = []
    for victim in releasable:
        taken.append(victim)
        if is_enough(taken):
            return spare(taken, is_enough)
    return None


def _fits_without(request: Vector, node: NodeState, taken: Sequence[TaskState]) -> bool:
    accounts = [node.idle, node.future_idle, node.accessible, node.eventual]
    for victim in taken:
        # An Allocated task that is marked as backfill is part of accessible and eventual already.
        freed = 2 if victim.is_backfill else len(accounts)
        accounts[:freed] = [plus(account, victim.resreq) for account in accounts[:freed]]
    return all(fits(request, account) for account in accounts)
