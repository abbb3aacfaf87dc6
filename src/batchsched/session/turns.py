"""Turns: the next job of the next queue, what it needs next, and what its queue allows it.

The order is live: what a job is given may move it, or its queue, back. Queues come in queue
order, the jobs of a queue in job order. Where a plugin ranks needs, a queue is ranked with what
its next job needs, and jobs by what they need first; in a tree of queues, siblings are compared
from the root down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from operator import le

from batchsched.causes import UnfitReason
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.session.failures import AlikeJobs, FailedTurn
from batchsched.session.orders import JobsByNeed, PlainOrder, PlainTree, QueueWalk
from batchsched.session.session import Session
from batchsched.session.tracing import telling_jobs, telling_queues
from batchsched.state.groups import Counting
from batchsched.state.needs import (
    Need,
    TasksByGroup,
    TasksInOrder,
    TasksLeft,
    need_of_job,
    need_of_task,
    need_of_tasks,
)
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


def tasks_to_place(session: Session, job: JobState) -> list[TaskState]:
    """Return the job's Pending tasks that request any resources, in task order.

    What the action that runs has taken back it does not place again.
    """
    pending = [t for t in job.having(TaskStatus.PENDING) if not t.is_best_effort]
    if session.withdrawn:
        pending = [task for task in pending if task not in session.withdrawn]
    return session.in_task_order(pending) if len(pending) > 1 else pending


def has_task_to_place(job: JobState) -> bool:
    """Return whether the job has a Pending task that requests any resources."""
    return bool(job.count(TaskStatus.PENDING)) and any(
        task.status is TaskStatus.PENDING and not task.is_best_effort and not task.is_held
        for task in job.tasks
    )


def is_starving(session: Session, job: JobState, threshold: float) -> bool:
    """Return whether a job has waited more than `threshold` seconds and is still not ready."""
    return (
        session.now - job.info.creation_time > threshold
        and not session.plugins.job_ready(job)
        and not session.plugins.job_condition_ready(job)
    )


def tasks_left(session: Session, job: JobState) -> TasksLeft:
    """Return the tasks that a job has yet to place, in task order; turns remove tasks from it."""
    tasks = tasks_to_place(session, job)
    return TasksInOrder(tasks) if job.groups is None else TasksByGroup(job.groups, tasks)


def jobs_by_queue(jobs: Iterable[JobState]) -> dict[QueueState, list[JobState]]:
    """Group `jobs` by queue, keeping their order."""
    by_queue: dict[QueueState, list[JobState]] = {}
    for job in jobs:
        assert job.queue is not None
        by_queue.setdefault(job.queue, []).append(job)
    return by_queue


class Turn:
    """The turn of a job."""

    __slots__ = ("_turns", "is_last", "job", "offered", "queue")

    def __init__(
        self, turns: Turns, queue: QueueState, job: JobState, offered: Need | None = None
    ) -> None:
        self._turns = turns
        self.queue = queue
        self.job = job
        self.offered = offered
        """What the job needs next, if that is known already."""
        self.is_last = True
        """Whether the job is not put back."""

    @property
    def left(self) -> TasksLeft:
        """The tasks that the job has yet to place; what the turn tries is to be removed."""
        return self._turns.left_of(self.job)

    def take_up_again(self) -> None:
        """Let the job have left again what the turn has tried in vain."""
        self._turns.forget_left(self.job)

    @property
    def need(self) -> Need | None:
        """What the job needs next, as the turn begins; None: nothing."""
        if self.offered is None:
            self.offered = self._turns.need_of(self.job)
        return self.offered


class Turns:
    """The turns of jobs in an action."""

    def __init__(
        self,
        session: Session,
        jobs: Iterable[JobState],
        *,
        by_need: bool = True,
        closed: Callable[[QueueState], bool] | None = None,
        tasks_return: bool = False,
        alike: bool = False,
    ) -> None:
        """Let jobs wait for their turns.

        Args:
            session: the session.
            jobs: the jobs.
            by_need: whether needs count, if a plugin ranks them.
            closed: returns whether a queue whose turn it is gets no more turns; None: it does as
                long as it has jobs.
            tasks_return: whether jobs that wait may get more tasks to place, because tasks of
                theirs lose their places.
            alike: whether no more turns are given to jobs that fail as one like them has; see
                `AlikeJobs`.

        """
        self._session = session
        self._closed = closed
        self._keeps_left = not tasks_return
        self._left: dict[JobState, TasksLeft] = {}
        self.jobs: Mapping[QueueState, Collection[JobState]] = jobs_by_queue(jobs)
        """The jobs of each queue, in the order given."""
        self.alike = AlikeJobs(session, chain(*self.jobs.values()), may_apply=alike)
        """The jobs of which others are known to fail."""
        self._is_plain = Shortcut.TURNS in session.plain
        self._ranks_needs = by_need and session.plugins.orders_by_need
        ranks_jobs = by_need and session.plugins.orders_jobs_by_need
        self._waiting = {
            queue: self._jobs_by_need(jobs) if ranks_jobs else session.live_jobs(jobs)
            for queue, jobs in self.jobs.items()
        }
        self._queues: PlainOrder[QueueState] = (
            self._queues_by_need(reads_above=ranks_jobs)
            if self._ranks_needs
            else session.live_queues(self._waiting)
        )

    def _jobs_by_need(self, jobs: Iterable[JobState]) -> PlainOrder[JobState]:
        """Return jobs of one queue, those first whose needs rank first."""
        session = self._session
        plugins = session.plugins
        taken = None if session.teller is None else telling_jobs(session.teller, plugins)
        if not self._is_plain:
            return JobsByNeed(
                plugins.job_order_key, plugins.need_order_key, self.need_of, jobs, taken=taken
            )
        return PlainOrder(
            lambda job: (plugins.need_order_key(self.need_of(job)), plugins.job_order_key(job)),
            jobs,
            taken=taken,
        )

    def _queues_by_need(self, *, reads_above: bool) -> PlainOrder[QueueState]:
        """Return the queues, ranked with what their next jobs need."""
        session = self._session
        all_queues = session.ledger.queues.values()
        teller = session.teller
        taken = None if teller is None else telling_queues(teller, session.plugins, self._offer)
        key = session.plugins.queue_order_key
        if self._is_plain:
            return PlainTree(key, self._offer, all_queues, self._waiting, taken=taken)
        return QueueWalk(
            key, self._offer, all_queues, self._waiting, reads_above=reads_above, taken=taken
        )

    def __iter__(self) -> Iterator[Turn]:
        """Yield turns: each time the next job of the next queue. Jobs return by `put_back`."""
        queues, closed, session = self._queues, self._closed, self._session
        alike = self.alike if self.alike.applies else None
        changes = session.ledger.log.jobs
        returns = self._is_plain or session.teller is not None
        while queues:
            queue = queues.pop()
            waiting = self._waiting[queue]
            need = queues.offered(queue) if isinstance(queues, QueueWalk) else None
            while (closed is None or not closed(queue)) and waiting:
                job = waiting.pop()
                before = len(changes)
                turn = Turn(
                    self, queue, job, need if need is not None and need.job is job else None
                )
                if session.plugins.on_turn_begin is not None:
                    session.plugins.on_turn_begin(job)
                if alike is None:
                    yield turn
                else:
                    for _ in alike.turns_of(job):
                        yield turn
                if session.plugins.on_turn_end is not None:
                    session.plugins.on_turn_end(job)
                need = None
                if turn.is_last:
                    self._left.pop(job, None)
                # Where no other queue waits, or nothing has changed, it is this queue's turn again.
                if returns or (
                    queues and (len(changes) != before or not self._is_next(queue, job))
                ):
                    queues.push(queue)
                    break

    def _is_next(self, queue: QueueState, failed: JobState) -> bool:
        """Return whether a queue comes first again after a turn that has changed nothing."""
        if not self._ranks_needs:
            return True
        job = self._waiting[queue].first()
        return job is not None and self.alike.is_like(job, failed)

    def by_queue(self) -> Iterator[tuple[QueueState, Iterator[Turn]]]:
        """Yield each queue once, with its turns: each time its next job."""
        while self._queues:
            queue = self._queues.pop()
            yield queue, self._of(queue)

    def _of(self, queue: QueueState) -> Iterator[Turn]:
        waiting, plugins = self._waiting[queue], self._session.plugins
        while waiting:
            turn = Turn(self, queue, waiting.pop())
            if plugins.on_turn_begin is not None:
                plugins.on_turn_begin(turn.job)
            for _ in self.alike.turns_of(turn.job):
                yield turn
            if plugins.on_turn_end is not None:
                plugins.on_turn_end(turn.job)
            if turn.is_last:
                self._left.pop(turn.job, None)

    def once_more(self, queue: QueueState) -> Iterator[JobState]:
        """Yield the jobs of a queue, without those that fail as one like them has just done."""
        alike = AlikeJobs(self._session)
        for job in self.jobs[queue]:
            for _ in alike.turns_of(job):
                yield job

    def put_back(self, turn: Turn) -> None:
        """Let a job wait for another turn, with the tasks that it has left."""
        turn.is_last = False
        self._waiting[turn.queue].push(turn.job)

    def leave_out(self, fails: Callable[[JobState], bool]) -> None:
        """Give no turns to jobs that wait of which it is known that they fail."""
        for waiting in self._waiting.values():
            waiting.leave_out(fails)

    def forget_left(self, job: JobState) -> None:
        """List anew what a job has yet to place, when it is asked for."""
        self._left.pop(job, None)

    def left_of(self, job: JobState) -> TasksLeft:
        """Return the tasks that a job has yet to place."""
        left = self._left.get(job)
        if left is None:
            left = tasks_left(self._session, job)
            if self._keeps_left:
                self._left[job] = left
        return left

    def need_of(self, job: JobState) -> Need | None:
        """Return what a job needs next; None: nothing."""
        session = self._session
        if job in self._left or self._is_plain:
            return need_of(session, job, self.left_of(job))
        failed = session.memory.turns
        need = None if failed is None else failed.need_of(job)
        return need_of(session, job, self.left_of(job)) if need is None else need

    def _offer(self, queue: QueueState) -> Need | None:
        job = self._waiting[queue].first()
        return None if job is None else self.need_of(job)
