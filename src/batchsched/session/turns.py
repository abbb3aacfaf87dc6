"""Turns: the next job of the next queue.

The order is live: what a job is given may move it, or its queue, back. Queues come in queue
order, the jobs of a queue in job order. Where a plugin ranks needs, a queue is ranked with what
its next job needs, and jobs by what they need first; in a tree of queues, siblings are compared
from the root down.

The definition computes all keys each time and takes the least (`PlainOrder`, `PlainTree`). The
live orders (`LiveQueue`, `JobsByNeed`, `QueueWalk`) come to the same, and compute only the keys
that may have changed: the ledger tells them what has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from operator import le
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from batchsched.model.cluster import TaskStatus
from batchsched.state.doors import Door
from batchsched.state.groups import Counting
from batchsched.state.needs import (
    Need,
    TasksByGroup,
    TasksInOrder,
    TasksLeft,
    need_of_job,
    need_of_tasks,
)
from batchsched.state.records import JobState, QueueState, Reorders, SortKey, TaskState
from batchsched.state.vectors import Vector

if TYPE_CHECKING:
    from batchsched.session.session import Session


class Waiting(Protocol):
    """An item of a live queue, with a reference to the queue."""

    waits_in: Reorders[Self] | None


WaitingT = TypeVar("WaitingT", bound=Waiting)
ItemT = TypeVar("ItemT")

Taken = Callable[[ItemT, Collection[ItemT]], None]
"""Is called with each item whose turn it is, and the items that go on waiting."""


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
    if need is None or not session.plugin_set.limits_queues:
        return need
    if not exceeds_most(session, need):
        return need
    assert job.queue is not None
    most = session.plugin_set.most_allocatable(job.queue)
    assert most is not None
    possible = [task for task in tasks if task.is_backfill or _within(task.resreq, most)]
    others = need_of_job(job, possible, counting) if len(possible) < len(tasks) else None
    if others is None or (job.groups is None and len(others.tasks) < len(need.tasks)):
        return need
    return others


def exceeds_most(session: Session, need: Need) -> bool:
    """Return whether a need alone exceeds what its queue may have at most."""
    if not session.plugin_set.limits_queues:
        return False
    assert need.job.queue is not None
    most = session.plugin_set.most_allocatable(need.job.queue)
    return most is not None and not _within(need.request, most)


def allowed_together(
    session: Session,
    job: JobState,
    tasks: Collection[TaskState],
    counting: Counting = Counting.HOPED,
) -> Need | None:
    """Return the first tasks that a job's queue may have together, if these are all it needs.

    They are taken greedily, in task order. None: they are too few.
    """
    assert job.queue is not None
    together: list[TaskState] = []
    for task in tasks:
        part = need_of_tasks(job, (*together, task))
        if session.plugin_set.allocatable(job.queue, part) is None:
            together.append(task)
    need = need_of_job(job, together, counting)
    if need is None or (job.groups is None and len(need.tasks) < job.lacks(Counting.PROMISED)):
        return None
    return need


def _within(request: Vector, most: Sequence[float]) -> bool:
    return all(map(le, request, most)) or all(
        amount <= limit for amount, limit in zip(request, most, strict=True) if amount > 0
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


# The loop over turns


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
        session = self._session
        plugins = session.plugin_set
        taken = None if session.teller is None else session.tell_job_taken
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

        def tell(queue: QueueState, others: Iterable[QueueState]) -> None:
            session.tell_queue_taken(queue, others, self._offer)

        taken = None if session.teller is None else tell
        key = session.plugin_set.queue_key
        if self._is_plain:
            return PlainTree(key, self._offer, all_queues, self._waiting, taken=taken)
        return QueueWalk(
            key, self._offer, all_queues, self._waiting, reads_above=reads_above, taken=taken
        )

    def __iter__(self) -> Iterator[Turn]:
        """Yield turns: each time the next job of the next queue. Jobs return by `put_back`."""
        queues, closed = self._queues, self._closed
        changes = self._session.ledger.log.jobs
        returns = self._is_plain or self._session.teller is not None
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
                yield turn
                need = None
                if turn.is_last:
                    self._left.pop(job, None)
                # Where no other queue waits, or nothing has changed, it is this queue's turn again.
                if returns or (queues and (self._ranks_needs or len(changes) != before)):
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
            turn = Turn(self, queue, waiting.pop())
            yield turn
            if turn.is_last:
                self._left.pop(turn.job, None)

    def put_back(self, turn: Turn) -> None:
        """Let a job wait for another turn, with the tasks that it has left."""
        turn.is_last = False
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
        return need_of(self._session, job, self.left_of(job))

    def _offer(self, queue: QueueState) -> Need | None:
        job = self._waiting[queue].first()
        return None if job is None else self.need_of(job)


# The live orders


class LiveQueue(Generic[WaitingT]):
    """Items waiting for their turn, the one with the smallest present key first.

    An item waits in one live queue at a time. The ledger calls `touch` for an item
    that has changed; its key is computed again when the next item is requested. Keys
    must be unique (they end with a UID).

    Cost: `push` and `pop` O(log n) amortised; `touch` O(1).
    """

    __slots__ = ("_heap", "_key", "_keys", "_taken", "_touched")

    def __init__(
        self,
        key: Callable[[WaitingT], SortKey],
        items: Iterable[WaitingT] = (),
        *,
        taken: Taken[WaitingT] | None = None,
    ) -> None:
        self._key = key
        self._taken = taken
        self._keys: dict[WaitingT, SortKey] = {}
        self._touched: dict[WaitingT, None] = {}
        for item in items:
            item.waits_in = self
            self._keys[item] = key(item)
        # Items are never compared, since keys are unique.
        self._heap = sorted((k, item) for item, k in self._keys.items())
        """A heap of items; entries that are not an item's present key are outdated."""

    def __len__(self) -> int:
        return len(self._keys)

    def push(self, item: WaitingT, /) -> None:
        """Add `item`, which must not be waiting here already."""
        item.waits_in = self
        key = self._keys[item] = self._key(item)
        heappush(self._heap, (key, item))

    def touch(self, item: WaitingT, /) -> None:
        """Record that the key of `item` may have changed; ignored if it is not waiting."""
        if item in self._keys:
            self._touched[item] = None

    def first(self) -> WaitingT | None:
        """Return the item with the smallest present key without removing it, or None."""
        entry = self._least()
        return None if entry is None else entry[1]

    def pop(self) -> WaitingT:
        """Remove and return the item with the smallest present key.

        Raises:
            IndexError: no item is waiting.

        """
        entry = self._least()
        if entry is None:
            raise IndexError("no item is waiting")
        # Its entry is outdated from now on.
        del self._keys[entry[1]]
        if self._taken is not None:
            self._taken(entry[1], self._keys.keys())
        return entry[1]

    def _least(self) -> tuple[SortKey, WaitingT] | None:
        """Return the present entry with the smallest key, and drop the outdated ones before it."""
        if self._touched:
            self._settle()
        keys, heap = self._keys, self._heap
        while heap:
            key, item = heap[0]
            if keys.get(item) is key:
                return heap[0]
            heappop(heap)
        return None

    def _settle(self) -> None:
        for item in self._touched:
            key = self._key(item)
            if key != self._keys[item]:
                self._keys[item] = key
                heappush(self._heap, (key, item))
        self._touched.clear()


class QueueWalk:
    """Leaves waiting for their turn, in the order of the tree.

    It has the methods of a `LiveQueue`. The ledger calls `touch` for a leaf that has changed; the
    keys on its path are computed again when the next leaf is requested.

    Cost: `push` and `pop` O(depth x log children) amortised; `touch` O(1).
    """

    __slots__ = (
        *("_dirty", "_families", "_key", "_keys", "_offer", "_offers", "_related", "_taken"),
        "_waiting",
    )

    def __init__(
        self,
        key: Callable[[QueueState, Need | None], SortKey],
        offer: Callable[[QueueState], Need | None],
        queues: Collection[QueueState],
        waiting: Iterable[QueueState],
        *,
        reads_above: bool = False,
        taken: Taken[QueueState] | None = None,
    ) -> None:
        """Create the walk.

        Args:
            key: ranks a queue among its siblings, given its offer; unique among them.
            offer: returns the need of the next job of a waiting leaf.
            queues: all queues of the snapshot.
            waiting: the leaves that wait initially.
            reads_above: whether the offer of a leaf depends on amounts charged to queues above it.
                A change then affects all leaves below the same top-level queue.
            taken: is called with each leaf that is taken out.

        """
        self._key = key
        self._offer = offer
        self._taken = taken
        self._waiting: dict[QueueState, None] = dict.fromkeys(waiting)
        self._keys: dict[QueueState, SortKey] = {}
        """The keys of waiting leaves and their ancestors."""
        self._offers: dict[QueueState, Need | None] = {}
        self._families: dict[QueueState | None, list[tuple[SortKey, QueueState]]] = {None: []}
        """Heaps of children; entries that are not a child's present key are outdated."""
        for queue in queues:
            if queue.children:
                self._families[queue] = []
            else:
                queue.waits_in = self
        self._dirty: dict[QueueState, None] = dict.fromkeys(self._waiting)
        self._related: dict[QueueState, list[QueueState]] = {}
        """For each leaf below a top-level queue, all leaves below that queue."""
        if reads_above:
            below: dict[QueueState, list[QueueState]] = {}
            for queue in queues:
                if not queue.children and queue.parent is not None:
                    below.setdefault(_top(queue), []).append(queue)
            self._related = {leaf: leaves for leaves in below.values() for leaf in leaves}

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, queue: QueueState, /) -> None:
        """Add a leaf."""
        self._waiting[queue] = None
        self._dirty[queue] = None

    def touch(self, queue: QueueState, /) -> None:
        """Record a change that may affect the key of `queue` or of a queue above it."""
        self._dirty[queue] = None

    def offered(self, queue: QueueState, /) -> Need | None:
        """Return what the leaf that was taken out last has offered, if anything."""
        return self._offers.get(queue)

    def pop(self) -> QueueState:
        """Remove and return the leaf whose turn it is.

        Raises:
            IndexError: no queue is waiting.

        """
        if self._dirty:
            self._settle()
        queue = self._least(None)
        if queue is None:
            raise IndexError("no queue is waiting")
        while queue.children:
            queue = self._least(queue)
            assert queue is not None
        del self._waiting[queue]
        self._dirty[queue] = None
        if self._taken is not None:
            self._taken(queue, self._waiting.keys())
        return queue

    def _least(self, parent: QueueState | None) -> QueueState | None:
        heap = self._families[parent]
        while heap:
            key, queue = heap[0]
            if self._keys.get(queue) is key:
                return queue
            heappop(heap)
        return None

    def _settle(self) -> None:
        """Compute the keys again on all paths from changed queues."""
        if self._related:
            for leaf in list(self._dirty):
                self._dirty.update(dict.fromkeys(self._related.get(leaf, ())))
        if len(self._dirty) == 1:
            queue: QueueState | None = next(iter(self._dirty))
            self._dirty.clear()
            while queue is not None:
                self._refresh(queue)
                queue = queue.parent
            return
        by_depth: list[dict[QueueState, None]] = []
        for leaf in self._dirty:
            path = [leaf]
            while path[-1].parent is not None:
                path.append(path[-1].parent)
            while len(by_depth) < len(path):
                by_depth.append({})
            for depth, queue in enumerate(reversed(path)):
                by_depth[depth][queue] = None
        self._dirty.clear()
        for queues in reversed(by_depth):
            for queue in queues:
                self._refresh(queue)

    def _refresh(self, queue: QueueState) -> None:
        if queue.children:
            least = self._least(queue)
            is_waiting = least is not None
            offer = None if least is None else self._offers[least]
        else:
            is_waiting = queue in self._waiting
            offer = self._offer(queue) if is_waiting else None
        if not is_waiting:
            self._keys.pop(queue, None)
            self._offers.pop(queue, None)
            return
        self._offers[queue] = offer
        key = self._key(queue, offer)
        if key != self._keys.get(queue):
            self._keys[queue] = key
            heappush(self._families[queue.parent], (key, queue))


def _top(queue: QueueState) -> QueueState:
    while queue.parent is not None:
        queue = queue.parent
    return queue


class JobsByNeed(LiveQueue[JobState]):
    """Jobs of one queue waiting for their turn, ordered by need, and then by job order.

    The rank of a need may change at any time, such as by a placement in another queue, so it is
    computed whenever the next job is requested. Jobs with equal requests have the same rank, so
    it is computed once for all of them.

    Cost: `push` O(log n) amortised; `first` and `pop` O(different requests + log n) amortised;
    `touch` O(1).
    """

    __slots__ = ("_heaps", "_need_key", "_need_of", "_needs")

    def __init__(
        self,
        key: Callable[[JobState], SortKey],
        need_key: Callable[[Need | None], SortKey],
        need_of: Callable[[JobState], Need | None],
        jobs: Iterable[JobState] = (),
        *,
        taken: Taken[JobState] | None = None,
    ) -> None:
        """Create the queue.

        Args:
            key: ranks a job; unique.
            need_key: ranks a need, by its job's queue and its request alone.
            need_of: returns what a waiting job needs next.
            jobs: the jobs that wait initially.
            taken: is called with each job that is taken out.

        """
        super().__init__(key, taken=taken)
        self._need_key = need_key
        self._need_of = need_of
        self._needs: dict[JobState, Need | None] = {}
        self._heaps: dict[Vector | None, list[tuple[SortKey, JobState]]] = {}
        """Heaps of jobs by request; entries that are not a job's present key are outdated."""
        for job in jobs:
            self.push(job)

    def push(self, item: JobState, /) -> None:
        """Add a job, which must not be waiting here already."""
        item.waits_in = self
        self._enter(item, self._key(item), self._need_of(item))

    def first(self) -> JobState | None:
        """Return the job that is next now, without removing it, or None."""
        if self._touched:
            self._settle()
        best: tuple[SortKey, SortKey] | None = None
        found: JobState | None = None
        for request, heap in list(self._heaps.items()):
            while heap and self._keys.get(heap[0][1]) is not heap[0][0]:
                heappop(heap)
            if not heap:
                del self._heaps[request]
                continue
            key, job = heap[0]
            rank = self._need_key(self._needs[job]), key
            if best is None or rank < best:
                best, found = rank, job
        return found

    def pop(self) -> JobState:
        """Remove and return the job that is next now.

        Raises:
            IndexError: no job is waiting.

        """
        job = self.first()
        if job is None:
            raise IndexError("no job is waiting")
        del self._keys[job], self._needs[job]
        self._touched.pop(job, None)
        if self._taken is not None:
            self._taken(job, self._keys.keys())
        return job

    def _settle(self) -> None:
        for job in self._touched:
            key, need = self._key(job), self._need_of(job)
            if key != self._keys[job] or _request(need) != _request(self._needs[job]):
                self._enter(job, key, need)
            else:
                self._needs[job] = need
        self._touched.clear()

    def _enter(self, job: JobState, key: SortKey, need: Need | None) -> None:
        self._keys[job] = key
        self._needs[job] = need
        heappush(self._heaps.setdefault(_request(need), []), (key, job))


def _request(need: Need | None) -> Vector | None:
    return None if need is None else need.request
