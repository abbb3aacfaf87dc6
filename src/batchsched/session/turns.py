"""Turns: the next job of the next queue.

The order is live: what a job is given may move it, or its queue, back. Queues come in queue
order, the jobs of a queue in job order. Where a plugin ranks needs, a queue is ranked with what
its next job needs, and jobs by what they need first; in a tree of queues, siblings are compared
from the root down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain

from batchsched.model.cluster import TaskStatus
from batchsched.session.alike import AlikeJobs
from batchsched.session.limits import need_of
from batchsched.session.orders import JobsByNeed, PlainOrder, PlainTree, QueueWalk
from batchsched.session.session import Session
from batchsched.session.tracing import telling_jobs, telling_queues
from batchsched.state.needs import (
    Need,
    TasksByGroup,
    TasksInOrder,
    TasksLeft,
)
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.shortcuts import Shortcut


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

    def put_back(self, turn: Turn) -> None:
        """Let a job wait for another turn, with the tasks that it has left."""
        turn.is_last = False
        self._waiting[turn.queue].push(turn.job)

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
        failed_turns = session.state.failed_turns
        need = None if failed_turns is None else failed_turns.need_of(job)
        return need_of(session, job, self.left_of(job)) if need is None else need

    def _offer(self, queue: QueueState) -> Need | None:
        job = self._waiting[queue].first()
        return None if job is None else self.need_of(job)
