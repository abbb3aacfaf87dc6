"""What queues allow their jobs, and what is recorded of what they refuse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from operator import le

from batchsched.causes import UnfitReason
from batchsched.model.reasons import Unfit
from batchsched.session.known_failures import FailedTurn
from batchsched.session.session import Session
from batchsched.state.groups import Counting
from batchsched.state.needs import Need, need_of_job, need_of_task, need_of_tasks
from batchsched.state.records import (
    JobState,
    QueueState,
    TaskState,
)
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import Vector
from batchsched.trace import (
    QueueRefused,
)

_OF_QUOTAS = frozenset({UnfitReason.BEYOND_QUOTA, UnfitReason.NEVER_LENT})
"""The refusals of what could not be taken back."""


def need_of(
    session: Session,
    job: JobState,
    tasks: Collection[TaskState],
    counting: Counting = Counting.HOPED,
) -> Need | None:
    """Return what a job needs next, of its tasks to place in task order; None: nothing.

    What alone exceeds what its queue may have at most is passed over, if enough others are left.
    """
    need = need_of_job(job, tasks, counting)
    if need is None or not session.plugins.limits_queues:
        return need
    if job.groups is None and len(need.tasks) == len(tasks):
        return need  # no others are left
    assert job.queue is not None
    most = _most_of(session, job.queue)
    if most is None or all(map(le, need.request, most)) or _within(need.request, most):
        return need
    possible = [task for task in tasks if task.is_backfill or _within(task.resreq, most)]
    others = need_of_job(job, possible, counting) if len(possible) < len(tasks) else None
    if others is None or (job.groups is None and len(others.tasks) < len(need.tasks)):
        return need
    return others


def exceeds_most(session: Session, need: Need) -> bool:
    """Return whether a need alone exceeds what its queue may have at most."""
    if not session.plugins.limits_queues:
        return False
    assert need.job.queue is not None
    most = _most_of(session, need.job.queue)
    return most is not None and not _within(need.request, most)


def _most_of(session: Session, queue: QueueState) -> Sequence[float] | None:
    """Return what a queue may have at most; plugins are asked again once a node has changed."""
    now = len(session.log.nodes)
    known = session.most_of.get(queue)
    if known is None or known[0] != now or Shortcut.TURNS in session.plain:
        known = session.most_of[queue] = now, session.plugins.most_allocatable(queue)
    return known[1]


def allowed_together(
    session: Session,
    job: JobState,
    tasks: Collection[TaskState],
    counting: Counting = Counting.HOPED,
) -> Need | None:
    """Return the first tasks that a job's queue may have together, if these are all it needs.

    They are taken greedily, in task order. None: they are too few. A task that is refused alone
    is not asked about again.
    """
    assert job.queue is not None
    if len(tasks) == 1:
        return None
    together: list[TaskState] = []
    for task in tasks:
        part = need_of_tasks(job, (*together, task))
        if session.plugins.allocatable(job.queue, part) is None:
            together.append(task)
    need = need_of_job(job, together, counting)
    if need is None or (job.groups is None and len(need.tasks) < job.lacks(Counting.PROMISED)):
        return None
    return need


def _within(request: Vector, most: Sequence[float]) -> bool:
    pairs = zip(request, most, strict=True)
    return all(amount <= limit for amount, limit in pairs if amount > 0)


def may_take(
    session: Session,
    job: JobState,
    tasks: Collection[TaskState],
    *,
    need: Need | None = None,
    counting: Counting = Counting.HOPED,
    may_reserve: bool = False,
) -> bool:
    """Return whether the queue of a job that is not ready may allocate everything it lacks.

    Or as much of its other tasks. If not, this is recorded for pending reasons. So a gang does
    not hold resources that its queue's limit makes useless.

    Args:
        session: the session.
        job: the job.
        tasks: its tasks to place, in task order.
        need: the part of these that it needs next; None: not known yet.
        counting: which tasks of its groups count as placed.
        may_reserve: whether nodes may be reserved for what it may not have yet, so that it does
            not matter if others hold too much now.

    """
    if not session.plugins.limits_queues or session.plugins.job_ready(job):
        return True
    if need is None:
        need = need_of(session, job, tasks, counting)
    assert job.queue is not None
    refusal = None if need is None else session.plugins.allocatable(job.queue, need)
    if need is None or refusal is None:
        if Shortcut.ATTEMPTS not in session.plain:
            session.reports.accepted_tasks.replace(() if need is None else need.tasks)
        return True
    is_for_now = refusal.reason is UnfitReason.INSUFFICIENT_RESOURCE
    if (may_reserve and is_for_now and not exceeds_most(session, need)) or (
        allowed_together(session, job, tasks, counting) is not None
    ):
        session.reports.accepted_tasks.replace(())
        return True
    record_refused(session, need, refusal, tasks)
    return False


def exceeds_quota(session: Session, need: Need, tasks: Collection[TaskState]) -> bool:
    """Return whether a job needs what could not be taken back from its queue; if so, record why.

    It makes no difference to that what other queues give up.

    Args:
        session: the session.
        need: what the job needs next.
        tasks: its tasks to place, in task order.

    """
    if not session.plugins.limits_queues:
        return False
    job = need.job
    assert job.queue is not None
    refusal = session.plugins.allocatable(job.queue, need)
    if refusal is None or refusal.reason not in _OF_QUOTAS:
        return False
    if not session.plugins.job_ready(job) and allowed_together(session, job, tasks) is not None:
        return False
    record_refused(session, need, refusal, tasks)
    return True


def passed_over(need: Sequence[TaskState], tasks: Collection[TaskState]) -> list[TaskState]:
    """Return the tasks before the last one needed that are not needed, both in task order."""
    before = list(takewhile(lambda task: task is not need[-1], tasks))
    return [] if len(before) < len(need) else [task for task in before if task not in need]


def record_refused(
    session: Session, need: Need, refusal: Unfit, tasks: Collection[TaskState]
) -> None:
    """Record that a queue may not allocate everything that a job needs of some tasks."""
    queue = need.job.queue
    assert queue is not None
    _tell(session, need.tasks, refusal)
    if need.job.groups is None:
        for task in passed_over(need.tasks, tasks):
            may_take_task(session, task)  # which says why not
    for task in need.tasks:
        record_refusal(session, task, refusal)
    if (
        refusal.reason is UnfitReason.INSUFFICIENT_RESOURCE
        and len(need.tasks) > 1
        and session.plugins.allocatable(queue, need_of_task(need.tasks[0])) is None
    ):
        for task in need.tasks:
            session.reports.of_task(task).lacked_company = True


def may_claim(session: Session, job: JobState) -> bool:
    """Return whether others may be evicted for a job; if not, record why."""
    if session.plugins.may_claim(job):
        return True
    if session.plugins.claim_refusal is not None:
        refused = session.plugins.claim_refusal(job)
        if refused is not None:
            session.reports.of_job(job).claims_refused[session.action_name] = refused
    return False


def record_no_set(session: Session, need: Need) -> None:
    """Record that a need was tried in vain in all sets of nodes that plugins offer for it."""
    for task in need.tasks[:1]:
        session.record_failure(task)
    session.reports.of_job(need.job).need_in_sets = need


def record_failed_again(session: Session, job: JobState, turn: FailedTurn) -> None:
    """Record for pending reasons what a failed turn would if it were repeated."""
    need = turn.need
    accepts_need = False
    if need is not None and session.plugins.limits_queues and not session.plugins.job_ready(job):
        assert job.queue is not None
        refusal = session.plugins.allocatable(job.queue, need)
        if refusal is not None and allowed_together(session, job, turn.tasks) is None:
            record_refused(session, need, refusal, turn.tasks)
            return
        accepts_need = refusal is None
    if turn.in_sets and need is not None:
        record_no_set(session, need)
        return
    for task in turn.failed:
        # What a queue may take together it may take one after the other.
        if (accepts_need and task not in turn.beyond_need) or may_take_task(session, task):
            session.record_failure(task)
    session.reports.record_undone(turn.undone)


def record_limit(session: Session, need: Need, refusal: Unfit | None) -> bool:
    """Record why a queue may not allocate a need; return whether waiting would not help.

    Plans and reservations are useless only if the queue is closed or would exceed its limit:
    resources that other jobs hold become free some time.

    Args:
        session: the session.
        need: the need of a job.
        refusal: the answer of `allocatable`.

    """
    if refusal is None or refusal.reason is UnfitReason.INSUFFICIENT_RESOURCE:
        return False
    _tell(session, need.tasks, refusal)
    for task in need.tasks:
        record_refusal(session, task, refusal)
    return True


def record_claim_refusal(session: Session, need: Need, refusal: Unfit) -> None:
    """Record why a queue may not reclaim resources for a need."""
    _tell(session, need.tasks, refusal)
    for task in need.tasks:
        session.reports.of_task(task).claim_refusal = refusal


def _tell(session: Session, tasks: Sequence[TaskState], refusal: Unfit) -> None:
    if session.teller is not None and tasks[0].job is not None:
        session.teller.tell(
            QueueRefused(
                action=session.action_name,
                job=tasks[0].job.uid,
                tasks=tuple(task.uid for task in tasks),
                refusal=refusal,
            )
        )


def may_take_task(session: Session, task: TaskState, *, leaving: Sequence[TaskState] = ()) -> bool:
    """Return whether a task may be placed by the limits of its queue and of its job.

    A refusal of the queue is recorded for pending reasons.

    Args:
        session: the session.
        task: the task, Pending.
        leaving: tasks that would be evicted for it.

    """
    job = task.job
    if job is not None and job.groups is not None and not job.groups.may_take(task):
        return False
    if not session.plugins.limits_queues or session.reports.accepted_tasks.take(task):
        return True
    refusal = limit_on(session, task, leaving=leaving)
    if refusal is None:
        return True
    _tell(session, (task,), refusal)
    record_refusal(session, task, refusal)
    return False


def limit_on(
    session: Session, task: TaskState, *, leaving: Sequence[TaskState] = ()
) -> Unfit | None:
    """Return why the limits of its queue forbid a task, or None.

    Args:
        session: the session.
        task: the task, Pending.
        leaving: tasks that would be evicted for it.

    """
    if not session.plugins.limits_queues:
        return None
    assert task.job is not None
    assert task.job.queue is not None
    need = need_of_task(task, leaving=leaving)
    return session.plugins.allocatable(task.job.queue, need)


def record_refusal(session: Session, task: TaskState, refusal: Unfit) -> None:
    """Record why a queue may not accept a task, which an action therefore skips."""
    session.reports.of_task(task).refusal = refusal
    session.record_failure(task)
