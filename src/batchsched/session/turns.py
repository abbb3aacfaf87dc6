"""Turns: the next job of the next queue.

The order is live: what a job is given may move it, or its queue, back. Queues come in queue
order, the jobs of a queue in job order. Where a plugin ranks needs, a queue is ranked with what
its next job needs, and jobs by what they need first; in a tree of queues, siblings are compared
from the root down.

The definition computes all keys each time and takes the least (`PlainOrder`, `PlainTree`). The
orders of `batchsched.state.turn_order` come to the same, and compute only the keys that may have
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from batchsched.model.cluster import TaskStatus
from batchsched.session.known_failures import FailedTurns
from batchsched.session.queue_limits import QueueLimits
from batchsched.state.doors import Door
from batchsched.state.needs import Need, TasksByGroup, TasksInOrder, TasksLeft, need_of_job
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.turn_order import JobsByNeed, LiveQueue, QueueWalk, SortKey, Taken
from batchsched.trace import JobTaken, QueuePassedOver, QueueTaken, Teller

__all__ = [
    "PlainOrder",
    "Turn",
    "TurnTaker",
    "Turns",
    "has_task_to_place",
    "jobs_by_queue",
    "tasks_left",
    "tasks_to_place",
]

ItemT = TypeVar("ItemT")


def tasks_to_place(session: QueueLimits, job: JobState) -> list[TaskState]:
    """Return the job's Pending tasks that request any resources, in task order."""
    pending = [t for t in job.tasks if t.status is TaskStatus.PENDING and not t.is_best_effort]
    return session.in_task_order(pending) if len(pending) > 1 else pending


def has_task_to_place(job: JobState) -> bool:
    """Return whether the job has a Pending task that requests any resources."""
    return bool(job.count(TaskStatus.PENDING)) and any(
        task.status is TaskStatus.PENDING and not task.is_best_effort for task in job.tasks
    )


def tasks_left(session: QueueLimits, job: JobState) -> TasksLeft:
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


# The definition


class Order(Protocol[ItemT]):
    """Items that wait for their turn."""

    def __len__(self) -> int: ...

    def push(self, item: ItemT, /) -> None:
        """Add an item."""
        ...

    def pop(self) -> ItemT:
        """Remove and return the item whose turn it is."""
        ...


class PlainOrder(Generic[ItemT]):
    """Items that wait for their turn; the next is the one with the least key."""

    def __init__(
        self,
        key: Callable[[ItemT], SortKey],
        items: Iterable[ItemT] = (),
        *,
        taken: Taken[ItemT] | None = None,
    ) -> None:
        self._key = key
        self._waiting = dict.fromkeys(items)
        self._taken = taken

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, item: ItemT, /) -> None:
        """Add an item."""
        self._waiting[item] = None

    def first(self) -> ItemT | None:
        """Return the next item without removing it, or None."""
        return min(self._waiting, key=self._key, default=None)

    def pop(self) -> ItemT:
        """Remove and return the next item.

        Raises:
            IndexError: no item is waiting.

        """
        item = self.first()
        if item is None:
            raise IndexError("no item is waiting")
        del self._waiting[item]
        if self._taken is not None:
            self._taken(item, self._waiting.keys())
        return item


class PlainTree(PlainOrder[QueueState]):
    """Leaves of a tree that wait for their turn; the next is found from the root down.

    A leaf offers the need of its next job, an inner queue what its first child offers. Siblings
    are ranked with what they offer.
    """

    def __init__(
        self,
        key: Callable[[QueueState, Need | None], SortKey],
        offer: Callable[[QueueState], Need | None],
        queues: Iterable[QueueState],
        waiting: Iterable[QueueState],
        *,
        taken: Taken[QueueState] | None = None,
    ) -> None:
        super().__init__(lambda queue: key(queue, offer(queue)), waiting, taken=taken)
        self._rank = key
        self._offer = offer
        self._tops = [queue for queue in queues if queue.parent is None]

    def first(self) -> QueueState | None:
        """Return the next leaf without removing it, or None."""
        found = self._first_of(self._tops)
        return None if found is None else found[0]

    def _first_of(self, siblings: Iterable[QueueState]) -> tuple[QueueState, Need | None] | None:
        """Return the next leaf at or below some siblings, and what it offers."""
        least: SortKey | None = None
        first: tuple[QueueState, Need | None] | None = None
        for queue in siblings:
            if queue.children:
                found = self._first_of(queue.children)
            else:
                found = (queue, self._offer(queue)) if queue in self._waiting else None
            if found is not None:
                key = self._rank(queue, found[1])
                if least is None or key < least:
                    least, first = key, found
        return first


class TurnTaker(QueueLimits):
    """The part of a session that puts jobs and queues in order, and tells whose turn it is."""

    action_name: str
    failed_turns: FailedTurns | None
    teller: Teller | None

    def live_jobs(self, jobs: Iterable[JobState], /) -> LiveQueue[JobState] | PlainOrder[JobState]:
        """Return `jobs` waiting for their turn, in live job order."""
        order = PlainOrder[JobState] if Door.TURNS in self.plain else LiveQueue[JobState]
        return order(self.plugin_set.job_key, jobs, taken=self.job_taken)

    def live_queues(
        self, queues: Iterable[QueueState], /
    ) -> LiveQueue[QueueState] | PlainOrder[QueueState]:
        """Return `queues` waiting for their turn, in live queue order."""
        order = PlainOrder[QueueState] if Door.TURNS in self.plain else LiveQueue[QueueState]
        taken = None if self.teller is None else self.tell_queue_taken
        return order(self.plugin_set.queue_key, queues, taken=taken)

    def passes_over(self, queue: QueueState) -> bool:
        """Return whether a queue gets no turn because it is overused, and record it if so."""
        if not self.overused(queue):
            return False
        self.reports.queues_overused.add(queue.name)
        if self.teller is not None:
            self.teller.tell(QueuePassedOver(action=self.action_name, queue=queue.name))
        return True

    @property
    def job_taken(self) -> Taken[JobState] | None:
        """What tells of each job that is taken; None: nobody listens."""
        return None if self.teller is None else self._tell_job_taken

    def _tell_job_taken(self, job: JobState, others: Iterable[JobState]) -> None:
        assert self.teller is not None
        names = [*self.plugin_set.names_on("job_order_key"), "creation_time", "uid"]

        def key(job: JobState) -> dict[str, object]:
            return dict(zip(names, self.plugin_set.job_key(job), strict=True))

        rivals = {other.uid: key(other) for other in others} if self.teller.wants_rivals else {}
        self.teller.tell(
            JobTaken(
                action=self.action_name,
                job=job.uid,
                queue=job.info.queue,
                key=key(job),
                rivals=rivals,
            )
        )

    def tell_queue_taken(
        self,
        queue: QueueState,
        others: Iterable[QueueState],
        need_of: Callable[[QueueState], Need | None] = lambda _: None,
    ) -> None:
        """Tell that it is a queue's turn, ahead of others."""
        assert self.teller is not None
        names = [*self.plugin_set.names_on("queue_order_key"), "creation_time", "name"]

        def key(queue: QueueState) -> dict[str, object]:
            return dict(zip(names, self.plugin_set.queue_key(queue, need_of(queue)), strict=True))

        rivals = {other.name: key(other) for other in others} if self.teller.wants_rivals else {}
        self.teller.tell(
            QueueTaken(action=self.action_name, queue=queue.name, key=key(queue), rivals=rivals)
        )


# The loop over turns


class Turn:
    """The turn of a job."""

    __slots__ = ("_turns", "job", "offered", "queue")

    def __init__(
        self, turns: Turns, queue: QueueState, job: JobState, offered: Need | None = None
    ) -> None:
        self._turns = turns
        self.queue = queue
        self.job = job
        self.offered = offered
        """What the job needs next, if that is known already."""

    @property
    def left(self) -> TasksLeft:
        """The tasks that the job has yet to place; what the turn tries is to be removed."""
        return self._turns.left_of(self.job)

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
        session: TurnTaker,
        jobs: Iterable[JobState],
        *,
        by_need: bool = True,
        closed: Callable[[QueueState], bool] | None = None,
        tasks_return: bool = False,
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

        """
        self._session = session
        self._closed = closed
        self._keeps_left = not tasks_return
        self._left: dict[JobState, TasksLeft] = {}
        self.jobs: Mapping[QueueState, Collection[JobState]] = jobs_by_queue(jobs)
        """The jobs of each queue, in the order given."""
        self._is_plain = Door.TURNS in session.plain
        self._ranks_needs = by_need and session.plugin_set.orders_by_need
        ranks_jobs = by_need and session.plugin_set.orders_jobs_by_need
        self._waiting = {
            queue: self._jobs_by_need(jobs) if ranks_jobs else session.live_jobs(jobs)
            for queue, jobs in self.jobs.items()
        }
        self._queues: Order[QueueState] = (
            self._queues_by_need(reads_above=ranks_jobs)
            if self._ranks_needs
            else session.live_queues(self._waiting)
        )

    def _jobs_by_need(self, jobs: Iterable[JobState]) -> LiveQueue[JobState] | PlainOrder[JobState]:
        """Return jobs of one queue, those first whose needs rank first."""
        plugins, taken = self._session.plugin_set, self._session.job_taken
        if not self._is_plain:
            return JobsByNeed(plugins.job_key, plugins.need_key, self.need_of, jobs, taken=taken)
        return PlainOrder(
            lambda job: (plugins.need_key(self.need_of(job)), plugins.job_key(job)),
            jobs,
            taken=taken,
        )

    def _queues_by_need(self, *, reads_above: bool) -> Order[QueueState]:
        """Return the queues, ranked with what their next jobs need."""
        session = self._session
        all_queues = session.ledger.queues.values()
        taken: Taken[QueueState] | None = None
        if session.teller is not None:

            def taken(queue: QueueState, others: Iterable[QueueState]) -> None:
                session.tell_queue_taken(queue, others, self._offer)

        key = session.plugin_set.queue_key
        if self._is_plain:
            return PlainTree(key, self._offer, all_queues, self._waiting, taken=taken)
        return QueueWalk(
            key, self._offer, all_queues, self._waiting, reads_above=reads_above, taken=taken
        )

    def __iter__(self) -> Iterator[Turn]:
        """Yield turns: each time the next job of the next queue. Jobs return by `put_back`."""
        queues, log = self._queues, self._session.ledger.log
        while queues:
            queue = queues.pop()
            waiting = self._waiting[queue]
            need = queues.offered(queue) if isinstance(queues, QueueWalk) else None
            while not (self._closed is not None and self._closed(queue)) and waiting:
                job = waiting.pop()
                before = log.position()
                yield Turn(self, queue, job, need if need is not None and need.job is job else None)
                need = None
                # Where no other queue waits, or nothing has changed, it is this queue's turn again.
                stays = not queues or (not self._ranks_needs and log.position() == before)
                if not stays or self._is_plain or self._session.teller is not None:
                    queues.push(queue)
                    break

    def by_queue(self) -> Iterator[tuple[QueueState, Iterator[Turn]]]:
        """Yield each queue once, with its turns: each time its next job."""
        while self._queues:
            queue = self._queues.pop()
            yield queue, self._of(queue)

    def _of(self, queue: QueueState) -> Iterator[Turn]:
        waiting = self._waiting[queue]
        while waiting:
            job = waiting.pop()
            yield Turn(self, queue, job)

    def put_back(self, turn: Turn) -> None:
        """Let a job wait for another turn, with the tasks that it has left."""
        self._waiting[turn.queue].push(turn.job)

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
        failed_turns = self._session.failed_turns
        if failed_turns is not None and job not in self._left and not self._is_plain:
            need = failed_turns.need_of(job)
            if need is not None:
                return need
        return need_of_job(job, self.left_of(job))

    def _offer(self, queue: QueueState) -> Need | None:
        job = self._waiting[queue].first()
        return None if job is None else self.need_of(job)
