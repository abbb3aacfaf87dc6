"""The records of tasks, jobs, queues and nodes during a session.

Actions and plugins read them; only the ledger writes them (`batchsched.state.ledger`), except for
a few cached values whose descriptions name their writer.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import Enum
from operator import add, itemgetter, sub
from typing import Protocol, TypeVar

from batchsched.causes import HoldKind
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.constraints import HostPort
from batchsched.model.immutable import EMPTY
from batchsched.state.groups import FIRST_COUNTING, NEVER, Counting, JobGroups
from batchsched.state.vectors import Vector, fits, lacking, minus, plus

ItemT_contra = TypeVar("ItemT_contra", contravariant=True)

SortKey = tuple[object, ...]
"""A sort key: the smallest comes first. Keys of the same order are comparable."""


class Reorders(Protocol[ItemT_contra]):
    """Keeps items in the order of their changing keys."""

    def touch(self, item: ItemT_contra, /) -> None:
        """Record that the key of `item` may have changed."""
        ...


_NO_TASKS = [0] * len(TaskStatus)


class Fit(Enum):
    """When a task fits on a node."""

    # That of Enum hashes the name each time, and what a task gets on a node is looked up by it.
    __hash__ = object.__hash__

    NOW = "now"
    """It can start without using what is promised to other tasks."""
    LATER = "later"
    """It can start once releasing tasks have left."""
    CONDITIONALLY = "conditionally"
    """It can start once backfill tasks have left."""


_ALLOCATED = TaskStatus.ALLOCATED
_BINDING = TaskStatus.BINDING
_PIPELINED = TaskStatus.PIPELINED
_RESERVED = TaskStatus.RESERVED
_RUNNING = TaskStatus.RUNNING
_counts_running = itemgetter(
    *(s.index for s in (TaskStatus.RUNNING, TaskStatus.BINDING, TaskStatus.BOUND))
)
"""Returns from `JobState.counts` how many tasks run or are about to, by status."""


class QueueState:
    """A queue during a session."""

    __slots__ = (
        *("children", "closed_by", "info", "jobs", "kept_by", "name", "parent"),
        "waits_in",
    )

    def __init__(self, info: Queue) -> None:
        self.info = info
        self.name = info.name
        self.parent: QueueState | None = None
        """Its parent queue, if any."""
        self.children: list[QueueState] = []
        """Its children, in order of name; only queues without children have jobs."""
        self.closed_by: QueueState | None = None
        """The first queue from itself to the top that is not open; None: all are. Set when the
        tree is built."""
        self.jobs: list[JobState] = []
        """All jobs of the snapshot that name the queue, in order of UID."""
        self.kept_by: QueueState | None = None
        """The first queue from itself to the top that is not reclaimable; None: all are. Set when
        the tree is built."""
        self.waits_in: Reorders[QueueState] | None = None
        """Where the queue waits for its turn; written by `LiveQueue`."""

    def __repr__(self) -> str:
        return f"<queue {self.name}>"


_MAY_SOON_LEAVE = (TaskStatus.RUNNING, TaskStatus.ALLOCATED, TaskStatus.BINDING)
"""Running tasks, and those that this cycle has bound or may bind."""
counts_leaving = itemgetter(*(s.index for s in _MAY_SOON_LEAVE))
"""Returns from `JobState.counts` how many tasks may leave, or may soon, by status."""


class JobState:
    """A job during a session."""

    __slots__ = (
        "allocated",
        "backfilling",
        "best_effort_count",
        "counted",
        "counts",
        "groups",
        "has_bind",
        "held",
        "in_session",
        "info",
        "likeness",
        "min_available",
        "queue",
        "ready_count",
        "running_by_node",
        "tasks",
        "uid",
        "waits_in",
    )

    def __init__(self, info: JobInfo, queue: QueueState | None) -> None:
        self.info = info
        self.uid = info.uid
        self.groups: JobGroups | None = None
        """The counters of its groups; None: it has neither groups nor a maximum."""
        self.min_available = info.min_available
        """The minimum number of tasks that must be able to start together, in any groups."""
        self.counted = [0] * NEVER
        """By `Counting`: the number of its tasks that count."""
        if info.groups or info.max_available is not None:
            self.groups = JobGroups(info)
            self.min_available = self.groups.minimum
            self.counted = self.groups.total
        self.ready_count = 0
        """Tasks that hold resources or have succeeded: `counted` of READY, which is read most."""
        self.queue = queue
        """None if the job names a queue that is not in the snapshot, or one with children."""
        self.tasks: list[TaskState] = []
        """In order of UID."""
        self.in_session = False
        """Whether the session schedules the job: its queue exists and it is valid."""
        self.allocated: dict[str, TaskState] | None = None
        """The tasks that are Allocated, by UID; None: there are none, as mostly."""
        self.counts = _NO_TASKS.copy()
        """The number of tasks by `TaskStatus.index`, without those that are held."""
        self.held: list[TaskState] = []
        """The Pending tasks that something holds, in order of UID. They are in no other count than
        `Counting.VALID`, so that nothing that places tasks or adds up requests meets them."""
        self.best_effort_count = 0
        """The number of its tasks without requests, whatever their status."""
        self.backfilling = 0
        """The number of its backfill tasks that hold resources on a node."""
        self.has_bind = False
        """Whether a task of the job was bound in this session, and not taken back."""
        self.running_by_node: dict[NodeState, int] | None = None
        """The number of its tasks on each node with any that run, or may be bound in this cycle;
        None: not counted yet."""
        self.waits_in: Reorders[JobState] | None = None
        """Where the job waits for its turn; written by `LiveQueue`."""
        self.likeness: tuple[object, object | None] | None = None
        """The engine, and what all jobs have that are alike to it and described alike; written by
        `AlikeJobs`."""

    def has_minimum(self, counting: Counting = Counting.READY, /) -> bool:
        """Return whether the tasks that count are enough, in number and in each group. O(1)."""
        if self.groups is None:
            return self.counted[counting] >= self.min_available
        return self.groups.is_satisfied(counting)

    @property
    def runs(self) -> bool:
        """Whether any task of it runs, or is about to. O(1)."""
        return any(_counts_running(self.counts))

    @property
    def is_broken(self) -> bool:
        """Whether it has lost tasks that it needs: it is not ready, and some of it runs. O(1).

        What is only Allocated has not begun to run. What moves is not lost, as long as it is
        promised its place and the job has its minimum with all that is promised to it.
        """
        if self.has_minimum() or not self.runs:
            return False
        return not (self.moves and self.has_minimum(Counting.PROMISED))

    @property
    def moves(self) -> bool:
        """Whether any task of it moves. O(1) unless some are promised places, then O(tasks)."""
        return bool(self.counts[_PIPELINED.index]) and any(task.moves for task in self.tasks)

    @property
    def spare(self) -> int:
        """How many of its tasks may leave one by one; negative: it lacks some. O(1).

        Without groups; none of a job that is evicted as a whole.
        """
        beyond = self.ready_count - self.min_available
        return min(0, beyond) if self.info.evict_whole else beyond

    def lacks(self, counting: Counting = Counting.READY, /) -> int:
        """Return how many more tasks must count for `min_available`; negative: it has more. O(1).

        A job whose groups lack tasks may lack none by number; see `has_minimum`.
        """
        return self.min_available - self.counted[counting]

    def count_new(self, tasks: Collection[TaskState]) -> None:
        """Count the tasks of a new job that are not held. O(tasks x depth)."""
        counts, counted, groups = self.counts, self.counted, self.groups
        statuses = [task.status for task in tasks]
        for status in dict.fromkeys(statuses):  # mostly they have one
            index, count = status.index, statuses.count(status)
            counts[index] += count
            if groups is None:
                for counting in range(FIRST_COUNTING[index], NEVER):
                    counted[counting] += count
        if counts[_ALLOCATED.index]:
            self.allocated = {task.uid: task for task in tasks if task.status is _ALLOCATED}
        if groups is not None:
            for task in tasks:
                groups.recount(task, None, task.status)
        self.ready_count = self.counted[0]

    def recount(self, task: TaskState, before: TaskStatus, after: TaskStatus) -> None:
        """Count a task that changes from one status to another. O(depth)."""
        counts = self.counts
        counts[after.index] += 1
        counts[before.index] -= 1
        first, now = FIRST_COUNTING[before.index], FIRST_COUNTING[after.index]
        if self.groups is not None:
            self.groups.recount(task, before, after)
        elif now < first:
            counted = self.counted
            for counting in range(now, first):
                counted[counting] += 1
        elif first < now:
            counted = self.counted
            for counting in range(first, now):
                counted[counting] -= 1
        self.ready_count = self.counted[0]
        if after is _ALLOCATED:
            if self.allocated is None:
                self.allocated = {}
            self.allocated[task.uid] = task
        elif before is _ALLOCATED:
            assert self.allocated is not None
            del self.allocated[task.uid]
            if not self.allocated:
                self.allocated = None

    def holds(self, info: TaskInfo, /) -> bool:
        """Return whether something holds a task of it that would be Pending."""
        queue = self.queue
        return bool(info.holds or self.info.holds or (queue is not None and queue.closed_by))

    def hold(self, task: TaskState, /) -> None:
        """Enter a new task that is Pending and held, in place of `count_new`. O(depth)."""
        task.is_held = True
        self.held.append(task)
        if self.info.holds or any(hold.kind is HoldKind.GATE for hold in task.info.holds):
            return  # it may not start even where nothing else is in the way
        if self.groups is not None:
            self.groups.recount(task, None, TaskStatus.PENDING)
        else:
            self.counted[Counting.VALID] += 1

    def count(self, status: TaskStatus, /) -> int:
        """Return how many tasks have `status`, without those that are held. O(1)."""
        return self.counts[status.index]

    def may_leave(self) -> list[TaskState]:
        """Return the tasks that may leave their nodes (`TaskState.may_leave`), in order of UID."""
        if not self.counts[_BINDING.index]:
            return self.having(TaskStatus.RUNNING)
        return [task for task in self.tasks if task.may_leave]

    def having(self, status: TaskStatus, /) -> list[TaskState]:
        """Return the tasks that have `status` and are not held, in order of UID. O(tasks)."""
        if not self.counts[status.index]:
            return []
        if self.held:
            return [task for task in self.tasks if task.status is status and not task.is_held]
        return [task for task in self.tasks if task.status is status]

    def running_nodes(self) -> Collection[NodeState]:
        """Return the nodes where tasks of it may leave, or may soon. O(tasks), then O(1)."""
        if self.running_by_node is None:
            self.running_by_node = {}
            for task in self.tasks:
                self._count_running(task.status, task.node, 1)
        return self.running_by_node.keys()

    def move_running(
        self,
        before: tuple[TaskStatus, NodeState | None],
        after: tuple[TaskStatus, NodeState | None],
    ) -> None:
        """Update `running_by_node` for a task that had one status and node, and gets others."""
        self._count_running(*before, -1)
        self._count_running(*after, 1)

    def _count_running(self, status: TaskStatus, node: NodeState | None, sign: int) -> None:
        by_node = self.running_by_node
        if by_node is not None and status in _MAY_SOON_LEAVE and node is not None:
            count = by_node.get(node, 0) + sign
            if count:
                by_node[node] = count
            else:
                del by_node[node]

    def __repr__(self) -> str:
        return f"<job {self.uid}>"


class TaskState:
    """A task during a session."""

    __slots__ = (
        "choices",
        "fulfils",
        "info",
        "init_resreq",
        "is_backfill",
        "is_best_effort",
        "is_held",
        "job",
        "kind",
        "leaving",
        "node",
        "of_job",
        "order_key",
        "resreq",
        "scoring_memory",
        "scoring_milli_cpu",
        "status",
        "uid",
    )

    def __init__(
        self, info: TaskInfo, job: JobState | None, resreq: Vector, init_resreq: Vector
    ) -> None:
        self.info = info
        self.uid = info.uid
        self.job = job
        """None for a task that this scheduler does not manage."""
        self.of_job = job
        """The job that it holds resources for: `job`, or that of the task for which it stands on
        the node that this leaves (`leaving`)."""
        self.status = info.status
        self.node: NodeState | None = None
        """The node that it is on, or that is promised to it or reserved for it."""
        self.leaving: TaskState | None = None
        """What stands for it on the node that it leaves, where it moves: Releasing and of no job.
        It has the same UID. None, or on no node: it does not move. See `Ledger.leaving_of`."""
        self.choices: Mapping[str, Hashable] = EMPTY
        """What plugins have chosen for it on its node, by plugin; see `batchsched.plugin.Choices`.
        Empty where it is on no node, or only reserved one."""
        self.is_backfill = info.is_backfill
        self.is_held = False
        """Whether it is Pending and may not be placed; see `JobState.held`."""
        self.fulfils = False
        """Whether this cycle bound it with what was promised to its job, reserved or planned."""
        self.resreq = resreq
        """What it holds while it runs, by dimension."""
        self.init_resreq = init_resreq
        """What it needs to start, by dimension."""
        self.is_best_effort = not any(init_resreq)
        milli_cpu, memory = resreq[0], resreq[1]
        if info.scoring_request is None and milli_cpu and memory:
            # The result of `counts_in_scores` for nearly all tasks, without creating an object.
            self.scoring_milli_cpu, self.scoring_memory = milli_cpu, memory
        else:
            scoring = info.counts_in_scores()
            self.scoring_milli_cpu, self.scoring_memory = scoring.milli_cpu, scoring.memory
        self.kind = -1
        """The number of its equivalence class, written by the placement engine.

        -1: not assigned yet."""
        self.order_key: tuple[object, ...] | None = None
        """Its cached key in task order, written by `PluginSet`; None: not computed yet."""

    @property
    def moves(self) -> bool:
        """Whether it leaves a node, and is promised another one where it starts again."""
        return self.leaving is not None and self.leaving.node is not None

    @property
    def must_be_near(self) -> bool:
        """Whether it must be near others, by required inter-pod affinity. O(1)."""
        near = self.info.pod_affinity
        return near is not None and bool(near.required)

    @property
    def may_leave(self) -> bool:
        """Whether it may be evicted: it runs, or this cycle has bound it.

        No caller has seen yet what this cycle has bound, so that can be taken back. Backfill tasks
        stay.
        """
        return self.status is _RUNNING or (
            self.status is _BINDING and self.info.status.to_place and not self.is_backfill
        )

    @property
    def may_be_reclaimed(self) -> bool:
        """Whether it may leave for other queues, too: what fulfils a promise may not."""
        return self.may_leave and not (self.fulfils and self.status is _BINDING)

    def __repr__(self) -> str:
        where = "" if self.node is None else f" on {self.node.name}"
        return f"<task {self.info.display_name} {self.status.value}{where}>"


class RunningTasks:
    """The tasks of jobs in the session on a node that may leave, listed until the node changes.

    They run, or this cycle has bound them; see `TaskState.may_leave`.
    """

    __slots__ = ("_queues", "all", "has_kept")

    def __init__(self, tasks: Sequence[TaskState], *, has_kept: bool) -> None:
        self.all = tasks
        """All tasks, in no meaningful order."""
        self.has_kept = has_kept
        """Whether some may leave only for jobs of higher priority; see `may_be_reclaimed`."""
        self._queues: set[QueueState | None] | None = None
        """Their queues; None: not computed yet."""

    def of_queue(self, queue: QueueState | None) -> list[TaskState]:
        """Return the tasks of a queue. O(tasks)."""
        return [t for t in self.all if t.job is not None and t.job.queue is queue]

    def of_other_queues(self, queue: QueueState | None) -> list[TaskState]:
        """Return the tasks of all other queues. O(tasks)."""
        return [t for t in self.all if t.job is not None and t.job.queue is not queue]

    def has_any_of(self, queue: QueueState | None) -> bool:
        """Return whether there are tasks of a queue. O(tasks on first use), then O(1)."""
        if self._queues is None:
            self._queues = {task.job.queue for task in self.all if task.job is not None}
        return queue in self._queues


def accounts_of(status: TaskStatus, /, *, is_backfill: bool) -> tuple[str, ...]:
    """Return the amounts of a node, beside `idle`, to which a task there adds its request."""
    match status:
        case TaskStatus.RELEASING:
            return ("releasing", "leaving") if is_backfill else ("releasing",)
        case TaskStatus.PIPELINED:
            return ("pipelined",)
        case TaskStatus.CONDITIONAL:
            return ("conditional",)
        case TaskStatus.RESERVED:
            return ("reserved",)  # what the task needs to start
        case _:
            return ("backfilled",) if is_backfill and status.occupies else ()


_ACCOUNTS = [
    [accounts_of(status, is_backfill=is_backfill) for status in TaskStatus]
    for is_backfill in (False, True)
]
"""By backfill mark and `TaskStatus.index`."""


NOT_NEGATIVE = ("idle", "future_idle", "accessible", "eventual")
"""The amounts of a node that a session must not make negative, or more negative."""

InAmounts = tuple[bool, bool, bool, bool]
"""Something for each of `NOT_NEGATIVE`."""


def _taken(status: TaskStatus, *, is_backfill: bool) -> InAmounts:
    """Return from which of these amounts a task on a node is subtracted; see `eventual`."""
    leaves = status is TaskStatus.RELEASING
    gives_way = is_backfill and (status.occupies or leaves)
    later, conditional = status is TaskStatus.PIPELINED, status is TaskStatus.CONDITIONAL
    return (
        status.holds,
        (status.holds and not leaves) or later,
        (status.holds and not gives_way) or conditional,
        (status.holds and not leaves and not gives_way) or later or conditional,
    )


TAKEN = [
    [_taken(status, is_backfill=is_backfill) for status in TaskStatus]
    for is_backfill in (False, True)
]
"""From which of `NOT_NEGATIVE` a task is subtracted, by backfill mark and `TaskStatus.index`."""


_NOW, _LATER = Fit.NOW, Fit.LATER


class NodeState:
    """A node during a session, with its amounts."""

    __slots__ = (
        "allocatable",
        "backfilled",
        "conditional",
        "divergence_count",
        "ends",
        "host_ports",
        "idle",
        "index",
        "info",
        "leaving",
        "name",
        "pipelined",
        "ports",
        "releasing",
        "reserved",
        "reserved_tasks",
        "running",
        "scoring_memory",
        "scoring_milli_cpu",
        "slot",
        "tasks",
    )

    def __init__(self, info: NodeInfo, index: int, allocatable: Vector, zero: Vector) -> None:
        self.info = info
        self.name = info.name
        self.index = index
        """The node's position in node order."""
        self.slot = index
        """A number for storing data of the node: it follows node order, and mostly stays the same
        when other nodes are added or removed."""
        self.allocatable = allocatable
        self.idle = allocatable
        """What no task holds; may be negative."""
        self.releasing = zero
        """What Releasing tasks hold."""
        self.pipelined = zero
        """What is promised to Pipelined tasks."""
        self.backfilled = zero
        """What backfill tasks hold, without Releasing ones."""
        self.leaving = zero
        """What Releasing backfill tasks hold."""
        self.conditional = zero
        """What is promised to Conditional tasks."""
        self.reserved = zero
        """What Reserved tasks need to start."""
        self.tasks: dict[str, TaskState] = {}
        """All tasks on the node except Reserved ones, by UID."""
        self.reserved_tasks: dict[str, TaskState] = {}
        """The Reserved tasks, by UID."""
        self.divergence_count = 0
        """The number of its tasks that make derived amounts differ from `idle`."""
        self.scoring_milli_cpu = 0
        """The sum of the tasks' scoring requests, in thousandths of a cpu."""
        self.scoring_memory = 0
        """The sum of the tasks' scoring requests, in bytes."""
        self.ports = 0
        """The number of its tasks with host ports, without Reserved ones."""
        self.host_ports: dict[tuple[str, int], dict[HostPort, int]] = {}
        """The number of its tasks with each host port, by protocol and port number."""
        self.ends: Sequence[tuple[float, Vector]] | None = None
        """The expected ends of its tasks, with the amounts freed; None: not computed yet.

        Written by the profiles of planning."""
        self.running: RunningTasks | None = None
        """Its Running tasks of jobs in the session; None: not listed yet."""

    def book(self, task: TaskState, sign: int) -> None:
        """Add a task, by its status and mark, to the amounts (1), or take it off them (-1)."""
        status = task.status
        more, less = (add, sub) if sign > 0 else (sub, add)
        if status is _RESERVED:
            self.reserved = tuple(map(more, self.reserved, task.init_resreq))
            if sign > 0:
                self.reserved_tasks[task.uid] = task
            else:
                del self.reserved_tasks[task.uid]
            return
        if sign > 0:
            self.tasks[task.uid] = task
        else:
            del self.tasks[task.uid]
        self.scoring_milli_cpu += sign * task.scoring_milli_cpu
        self.scoring_memory += sign * task.scoring_memory
        if task.info.host_ports:
            self._count_ports(task, sign)
        if status.holds:
            self.idle = tuple(map(less, self.idle, task.resreq))
        accounts = _ACCOUNTS[task.is_backfill][status.index]
        if accounts:
            self.divergence_count += sign
            for name in accounts:
                setattr(self, name, tuple(map(more, getattr(self, name), task.resreq)))

    def _count_ports(self, task: TaskState, sign: int) -> None:
        self.ports += sign
        for port in task.info.host_ports:
            key = (port.protocol, port.port)
            of_number = self.host_ports.setdefault(key, {})
            count = of_number.get(port, 0) + sign
            if count:
                of_number[port] = count
            else:
                del of_number[port]
                if not of_number:
                    del self.host_ports[key]

    @property
    def future_idle(self) -> Vector:
        """The idle amount after Releasing tasks have left and Pipelined tasks have started."""
        return minus(plus(self.idle, self.releasing), self.pipelined)

    @property
    def accessible(self) -> Vector:
        """The idle amount after backfill tasks have left and Conditional tasks have started."""
        return minus(plus(plus(self.idle, self.backfilled), self.leaving), self.conditional)

    @property
    def eventual(self) -> Vector:
        """The idle amount after Releasing and backfill tasks have left and promises are kept."""
        gone = plus(plus(self.idle, self.releasing), self.backfilled)
        return minus(minus(gone, self.pipelined), self.conditional)

    @property
    def is_closed(self) -> bool:
        """Whether the node is reserved: no other task with a request may be placed."""
        return bool(self.reserved_tasks) and any(self.reserved)

    def fits(self, task: TaskState, fit: Fit = Fit.NOW, /) -> bool:
        """Return whether a task fits in this way; what predicates say is another question."""
        request = task.init_resreq
        if not self.divergence_count:
            return fits(request, self.idle)
        # Of what `room` takes the least of, one amount mostly says no already.
        one = self.idle if fit is _NOW else self.future_idle if fit is _LATER else self.accessible
        return fits(request, one) and fits(request, self.room(fit))

    def room(self, fit: Fit, /) -> Vector:
        """Return the most that a request may ask for to fit in this way."""
        if not self.divergence_count:
            return self.idle
        now = self.future_idle if fit is _LATER else self.accessible
        room = tuple(map(min, now, self.eventual))
        return tuple(map(min, room, self.idle, self.future_idle)) if fit is _NOW else room

    def lacking(self, request: Vector, fit: Fit, /) -> tuple[Vector, Vector]:
        """Return what a request lacks to fit in this way, if others were to leave for it.

        First what any of them free, then what only those free that are not backfill tasks:
        `accessible` and `eventual` include what backfill tasks hold.
        """
        if not self.divergence_count:
            missing = lacking(request, self.idle)
            return missing, missing
        if fit is _NOW:
            now = tuple(map(min, self.idle, self.future_idle))
            return lacking(request, now), lacking(
                request, tuple(map(min, self.accessible, self.eventual))
            )
        now = self.future_idle if fit is _LATER else self.accessible
        return lacking(request, now), lacking(request, self.eventual)

    def __repr__(self) -> str:
        return f"<node {self.name}>"
