"""Queues as plugins that share see them: their tree, and what each uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from batchsched.causes import HoldKind
from batchsched.model.cluster import Queue, TaskStatus
from batchsched.plugin.extension_points import Changes
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector, minus, plus


class QueueTree:
    """A forest of queues under an unnamed root.

    Queues are identified by their position in order of name. `batchsched.Snapshot` has checked
    that every parent exists and that there are no cycles.

    >>> tree = QueueTree([Queue(name="b", parent="c"), Queue(name="a"), Queue(name="c")])
    >>> tree.names, tree.tops, tree.children[2], tree.path(1)
    (('a', 'b', 'c'), (0, 2), (1,), (1, 2))

    O(queues log queues) to create.
    """

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.queues: Sequence[Queue] = sorted(queues, key=attrgetter("name"))
        """By position."""
        self.names = tuple(queue.name for queue in self.queues)
        self.position = {name: position for position, name in enumerate(self.names)}
        """The position of each queue, by name."""
        self.parents = tuple(
            -1 if queue.parent is None else self.position[queue.parent] for queue in self.queues
        )
        """The parent of each queue by position; -1: it has no parent."""
        children: list[list[int]] = [[] for _ in self.queues]
        tops: list[int] = []
        for position, parent in enumerate(self.parents):
            (tops if parent < 0 else children[parent]).append(position)
        self.children = tuple(map(tuple, children))
        """The children of each queue, in order of name."""
        self.tops = tuple(tops)
        """The queues without a parent, in order of name."""
        downward = list(tops)
        for position in downward:
            downward.extend(children[position])
        self.downward = tuple(downward)
        """All queues, each before its children."""
        self.inner_upward = tuple(p for p in reversed(downward) if children[p])
        """The queues with children, each after those below it."""
        self.all_have_weights = all(queue.weight for queue in self.queues)
        """Whether no queue has weight 0."""
        self._paths: dict[int, tuple[int, ...]] = {}

    def is_leaf(self, position: int) -> bool:
        """Return whether a queue has no children, so that jobs may name it."""
        return not self.children[position]

    def path(self, position: int) -> tuple[int, ...]:
        """Return a queue and its ancestors, from itself to the top."""
        known = self._paths.get(position)
        if known is None:
            path = [position]
            while (parent := self.parents[path[-1]]) >= 0:
                path.append(parent)
            known = self._paths[position] = tuple(path)
        return known

    def branches(self, left: int, right: int) -> tuple[int, int]:
        """Return the ancestors of two queues (or the queues) that are siblings.

        Neither queue may be below the other, or equal to it.
        """
        left_path, right_path = self.path(left), self.path(right)
        steps = min(len(left_path), len(right_path))
        for step in range(1, steps + 1):
            if left_path[-step] != right_path[-step]:
                return left_path[-step], right_path[-step]
        names = f"{self.names[left]!r} and {self.names[right]!r}"
        raise ValueError(f"expected queues on different paths, got {names}")


def reserved_tasks(job: JobState) -> list[TaskState]:
    """Return the tasks of a job whose quota is reserved that are on no node yet.

    Those by which the job is to grow, and which a controller has not admitted, have none.
    """
    return [
        task
        for task in job.tasks
        if not task.is_backfill
        and task.status is TaskStatus.PENDING
        and not any(hold.kind is HoldKind.NOT_ADMITTED for hold in task.info.holds)
    ]


class Use(NamedTuple):
    """What some jobs hold, and what they request: that, and what they wait for."""

    held: Vector
    request: Vector


def sum_of_requests(tasks: Sequence[TaskState], zero: Vector, /) -> Vector:
    """Return what tasks request together. O(tasks), and little where most are alike."""
    if not tasks:
        return zero
    if len(tasks) == 1:
        return tasks[0].resreq
    vectors = [task.resreq for task in tasks]
    first, total = vectors[0], zero
    if vectors.count(first) == len(vectors):  # the usual case
        return tuple([amount * len(vectors) for amount in first])
    for vector, count in Counter(vectors).items():
        total = plus(total, tuple([amount * count for amount in vector]))
    return total


class QueueUses:
    """The use of each queue that has jobs, kept up to date job by job."""

    def __init__(
        self, use_of: Callable[[Collection[JobState]], Use], jobs: Iterable[JobState]
    ) -> None:
        """Begin with some jobs; `use_of` returns what jobs of one queue use. O(tasks)."""
        self._use_of = use_of
        self._of_job: dict[str, tuple[QueueState, Use]] = {}
        self._waiting: dict[str, tuple[JobState, bool]] = {}
        """The jobs with tasks to place, and whether they were in the session when last counted."""
        self._jobs: Counter[str] = Counter()
        """The number of jobs of each queue."""
        self.of_queue: dict[str, Use] = {}
        """By name of queue."""
        for job in jobs:
            self._count(job)

    def catch_up(self, changes: Changes) -> set[str]:
        """Count changed jobs anew; return the names of their queues. O(their tasks)."""
        touched = {self._leave(job.uid) for job in changes.jobs_gone}
        for job in changes.jobs:
            known = self._of_job.get(job.uid)
            if known is not None and known[0] is not job.queue:
                touched.add(self._leave(job.uid))
            touched.add(self._count(job))
        return {name for name in touched if name is not None}

    def admit(self) -> set[str]:
        """Count jobs anew that are in the session now and were not, or the other way round.

        Returns the names of their queues. O(waiting jobs).
        """
        changed = [job for job, was_in in self._waiting.values() if job.in_session is not was_in]
        return {name for job in changed if (name := self._count(job)) is not None}

    def _count(self, job: JobState) -> str | None:
        """Count a job, in place of what it used before; return its queue's name, if it has one."""
        if job.queue is None:
            return None
        if job.count(TaskStatus.PENDING) or job.count(TaskStatus.RESERVED):
            self._waiting[job.uid] = job, job.in_session
        else:
            self._waiting.pop(job.uid, None)
        name, use = job.queue.name, self._use_of([job])
        known, total = self._of_job.get(job.uid), self.of_queue.get(name)
        if known is None:
            self._jobs[name] += 1
        elif use == known[1]:
            return name
        self._of_job[job.uid] = job.queue, use
        if known is not None and total is not None:
            total = Use(*map(minus, total, known[1]))
        self.of_queue[name] = use if total is None else Use(*map(plus, total, use))
        return name

    def _leave(self, uid: str) -> str | None:
        """Remove a job; return the name of its queue, if it had one."""
        if uid not in self._of_job:
            return None
        queue, use = self._of_job.pop(uid)
        self._waiting.pop(uid, None)
        self._jobs[queue.name] -= 1
        if self._jobs[queue.name]:
            self.of_queue[queue.name] = Use(*map(minus, self.of_queue[queue.name], use))
        else:
            del self._jobs[queue.name], self.of_queue[queue.name]
        return queue.name
