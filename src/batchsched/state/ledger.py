"""The ledger: the only place where the state of a session changes.

The ledger keeps the status and node of each task, and the amounts and counts of
nodes and jobs. It notifies listeners of charges and refunds. It makes no decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain, compress
from typing import NoReturn

from batchsched.errors import InvariantError
from batchsched.model.cluster import (
    JobInfo,
    Queue,
    QueueStatus,
    TaskInfo,
    TaskStatus,
    choices_of,
    left_choices_of,
)
from batchsched.model.immutable import EMPTY
from batchsched.model.snapshot import Snapshot, besides_of
from batchsched.state.groups import JobGroups
from batchsched.state.memory import ChangeLog
from batchsched.state.records import (
    NOT_NEGATIVE,
    TAKEN,
    InAmounts,
    JobState,
    NodeState,
    QueueState,
    RunningTasks,
    TaskState,
)
from batchsched.state.vectors import Dimensions, Vector, plus

Origin = tuple[TaskStatus, NodeState | None, bool, Mapping[str, Hashable]]
"""The status, node, backfill mark and choices of a task."""

_NOTHING: InAmounts = (False, False, False, False)


def overdrawn(task: TaskState, node: NodeState, origin: Origin) -> str:
    """Return a message if a moved task exceeds an amount of its node, else an empty string.

    A node may be overcommitted from the beginning, if its tasks hold too much; then no task may
    take more of that dimension.
    """
    status, where, is_backfill, _ = origin
    before = TAKEN[is_backfill][status.index] if where is node else _NOTHING
    after = TAKEN[task.is_backfill][task.status.index]
    for name, took, takes in zip(NOT_NEGATIVE, before, after, strict=True):
        if not takes or took:
            continue
        amounts: Vector = getattr(node, name)
        for amount, wanted in zip(amounts, task.resreq, strict=True):
            if amount < 0 < wanted:
                return f"{task!r} overcommits {node!r}: {name} would be {amounts}"
    return ""


TaskListener = Callable[[TaskState], None]
"""Called after a task was charged or refunded."""

# Members of enums are slow to find.
_ALLOCATED = TaskStatus.ALLOCATED
_BINDING = TaskStatus.BINDING
_PIPELINED = TaskStatus.PIPELINED
_RESERVED = TaskStatus.RESERVED
_RUNNING = TaskStatus.RUNNING
_WITHOUT_HOLDING = (TaskStatus.PIPELINED, TaskStatus.CONDITIONAL, TaskStatus.RESERVED)
"""The statuses of tasks that are on a node and hold nothing there."""


class Ledger:
    """The state of one session, created from a snapshot. O(size of the snapshot) to create.

    A task that is Reserved in the snapshot on a node that does not exist, or that is held, is
    entered as Pending and listed in `lost_reservations`. Every task that is Pipelined in the
    snapshot is entered as Pending and listed in `initial_promises`.
    """

    # With more than 30 attributes, instances without slots are slow: the names are not shared.
    __slots__ = (
        *("_now", "broken", "besides", "claiming", "classes_end", "cluster", "dimensions"),
        *("initial_promises", "jobs", "jobs_having", "jobs_held", "jobs_in_groups", "jobs_short"),
        "leaving",
        *(
            "log",
            "lost_reservations",
            "node_named",
            "nodes",
            "on_charge",
            "on_occupy",
            "on_promise",
        ),
        *("on_refund", "origins", "other_tasks", "queues", "reads_time", "reserved_nodes"),
        *("slots", "snapshot", "tasks", "vacant"),
    )

    def __init__(self, snapshot: Snapshot) -> None:  # noqa: PLR0915 - they are attributes
        self.snapshot = snapshot
        self.dimensions = Dimensions(
            [node.allocatable for node in snapshot.nodes],
            [
                request
                for task in chain(*(job.tasks for job in snapshot.jobs), snapshot.other_tasks)
                for request in (task.resreq, task.init_resreq)
                if request is not None
            ],
        )
        zero = self.dimensions.zero
        self.nodes: list[NodeState] = [
            NodeState(info, index, self.dimensions.vector(info.allocatable), zero)
            for index, info in enumerate(snapshot.nodes)
        ]
        """In node order."""
        self.slots: list[NodeState] = self.nodes
        """The nodes by slot; see `NodeState.slot`."""
        self.vacant: set[int] = set()
        """The slots that have no node."""
        self.node_named = {node.name: node for node in self.nodes}
        self.queues = _tree_of_queues(snapshot.queues)
        self.jobs: dict[str, JobState] = {}
        self.tasks: dict[str, TaskState] = {}
        """All tasks by UID, including those without a job."""
        self.leaving: dict[str, TaskState] = {}
        """What stands for tasks that move, by UID; see `leaving_of`. Some may be on no node."""
        self.claiming: dict[str, TaskState] = {}
        """The tasks that claim devices, by UID."""
        self.reads_time = False
        """Whether anything has read the time since the ledger was created."""
        self._now = snapshot.now
        self.besides = besides_of(snapshot)
        """What the snapshot says besides what is kept by name, and the time, by field."""
        self.other_tasks: dict[str, TaskState] = {}
        """The tasks without a job, by UID."""
        self.jobs_having: tuple[dict[str, JobState], ...] = tuple({} for _ in TaskStatus)
        """For each `TaskStatus.index`, the jobs with a task in this status, by UID, unordered."""
        self.jobs_held: dict[str, JobState] = {}
        """The jobs with tasks that are held, by UID, unordered."""
        self.jobs_in_groups: dict[str, JobState] = {}
        """The jobs with groups or a maximum, by UID, unordered."""
        self.jobs_short: dict[str, JobState] = {}
        """The jobs with fewer ready tasks than their minimum, by UID, unordered."""
        self.reserved_nodes: dict[str, NodeState] = {}
        """The nodes with reservations, by name, unordered."""
        self.classes_end = 0
        """The first number that no placement engine has given to an equivalence class."""
        self.origins: dict[TaskState, Origin] | None = None
        """The state of moved tasks before their first move; None: it is not recorded."""
        self.lost_reservations: list[tuple[TaskState, str]] = []
        """Tasks that were Reserved on a node that does not exist, or are held, with its name."""
        self.initial_promises: list[tuple[TaskState, str]] = []
        """Tasks that are Pipelined in the snapshot, with the names of their nodes."""
        self.log = ChangeLog()
        self.broken = ""
        """The violated invariant, if any; all operations then raise an error."""
        self.on_charge: tuple[TaskListener, ...] = ()
        """Called when a task is charged: placed, or its eviction undone."""
        self.on_refund: tuple[TaskListener, ...] = ()
        """Called when a task is refunded: evicted, or its placement undone."""
        self.on_occupy: Callable[[TaskState, NodeState, int], None] | None = None
        """Called when a task begins (1) or ceases (-1) to occupy a node."""
        self.on_promise: Callable[[TaskState, NodeState, int], None] | None = None
        """Called when a task becomes (1) or ceases to be (-1) Pipelined on a node."""

        for info in snapshot.jobs:
            job = self._enter_job(info)
            if job.queue is not None:
                job.queue.jobs.append(job)
        for task_info in snapshot.other_tasks:
            self.other_tasks[task_info.uid] = self._enter(task_info, None)
        self.cluster: Vector = reduce(plus, (node.allocatable for node in self.nodes), zero)
        """The sum of the allocatable amounts of all nodes."""

    @property
    def now(self) -> float:
        """The time of the cycle, in seconds."""
        self.reads_time = True
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now

    def _enter_job(self, info: JobInfo) -> JobState:
        """Add a job and its tasks, but not to its queue."""
        named = self.queues.get(info.queue)
        job = JobState(info, None if named is None or named.children else named)
        self.jobs[job.uid] = job
        job.tasks += [self._enter(task_info, job) for task_info in info.tasks]
        job.count_new([task for task in job.tasks if not task.is_held] if job.held else job.tasks)
        for having in compress(self.jobs_having, job.counts):
            having[job.uid] = job
        if job.held:
            self.jobs_held[job.uid] = job
        if job.groups is not None:
            self.jobs_in_groups[job.uid] = job
        if not job.has_minimum():
            self.jobs_short[job.uid] = job
        return job

    def _enter(self, info: TaskInfo, job: JobState | None) -> TaskState:
        vector = self.dimensions.vector
        resreq = vector(info.resreq)
        init_resreq = resreq
        if info.init_resreq is not None:
            init_resreq = vector(info.init_resreq)
        task = self.tasks[info.uid] = TaskState(info, job, resreq, init_resreq)
        if info.claims:
            self.claiming[info.uid] = task
        if info.leaving is not None:
            self._enter_leaving(task)
        status = info.status
        if job is not None and status.to_place and job.holds(info):
            if info.node_name is not None:
                is_promise = status is _PIPELINED
                lost = self.initial_promises if is_promise else self.lost_reservations
                lost.append((task, info.node_name))
            task.status = TaskStatus.PENDING
            job.hold(task)
            job.best_effort_count += task.is_best_effort
            return task
        if status is _PIPELINED:
            # The session decides whether the promise still holds.
            self.initial_promises.append((task, info.node_name or ""))
            task.status = TaskStatus.PENDING
        elif info.node_name is not None:
            node = self.node_named.get(info.node_name)
            if node is None:
                self.lost_reservations.append((task, info.node_name))
                task.status = TaskStatus.PENDING
            else:
                if (info.devices is not None or info.choices) and status is not _RESERVED:
                    task.choices = choices_of(info)
                self._book(task, node, 1)
        if job is not None:
            job.best_effort_count += task.is_best_effort
            if task.is_backfill and task.status.holds and task.node is not None:
                job.backfilling += 1
        return task

    # A task that moves has two places. The promised one is its own; where it still runs, another
    # record stands for it, which is no task of its job: it holds what leaves, like any task that
    # is Releasing, so that amounts, devices, predicates and outlooks need no rule for moves.

    def leaving_of(self, task: TaskState) -> TaskState:
        """Return what stands for a task on the node that it leaves; it is on none if it is new."""
        if task.leaving is None:
            task.leaving = self.leaving[task.uid] = TaskState(
                task.info, None, task.resreq, task.init_resreq
            )
            task.leaving.of_job = task.job
            task.leaving.status = TaskStatus.PENDING
        return task.leaving

    def _enter_leaving(self, task: TaskState) -> None:
        """Put what stands for a task on the node that it leaves by its description."""
        left = task.info.leaving
        node = None if left is None else self.node_named.get(left)
        if node is not None:
            leaving = self.leaving_of(task)
            leaving.status = TaskStatus.RELEASING
            leaving.choices = left_choices_of(task.info)
            self._book(leaving, node, 1)

    def end_promise(self, task: TaskState) -> None:
        """Take what it was promised from a task; one that moves then only leaves.

        It is Pending; where it still runs, it is Releasing.
        """
        leaving = task.leaving
        if leaving is None or leaving.node is None:
            self.move(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)
            return
        node, choices = leaving.node, leaving.choices
        self.move(leaving, TaskStatus.PENDING, None, is_backfill=leaving.is_backfill)
        mark = task.is_backfill
        self.move(task, TaskStatus.RELEASING, node, is_backfill=mark, choices=choices)

    def move(
        self,
        task: TaskState,
        status: TaskStatus,
        node: NodeState | None,
        *,
        is_backfill: bool,
        choices: Mapping[str, Hashable] | None = None,
        is_undo: bool = False,
    ) -> None:
        """Move a task to a status, node and backfill mark, and notify the listeners.

        Args:
            task: the task.
            status: its new status.
            node: its new node.
            is_backfill: its new mark.
            choices: what plugins have chosen for it there; None: what they had chosen before if it
                stays there, else nothing.
            is_undo: whether this restores an earlier state, for which capacity is not checked.

        Raises:
            InvariantError: an amount would become negative, or more negative. The ledger is then
                unusable.

        """
        if self.broken:
            raise InvariantError(self.broken)
        old, old_node, _, _ = origin = task.status, task.node, task.is_backfill, task.choices
        if choices is None:
            choices = task.choices if old_node is node else EMPTY
        if self.origins is not None and task not in self.origins:
            self.origins[task] = origin
        same_accounts = (
            old_node is node
            and old.occupies
            and status.occupies
            and task.is_backfill is is_backfill
            and task.choices is choices
        )
        if not same_accounts and old_node is not None:
            self._book(task, old_node, -1)
        job = task.job
        if job is not None:
            if job.running_by_node is not None:
                job.move_running((old, old_node), (status, node))
            if task.is_backfill and old.holds:
                job.backfilling -= 1
            if is_backfill and status.holds:
                job.backfilling += 1
            if old is not status:
                self._recount(job, task, old, status)
        # Listeners must see the mark with which the task was charged.
        if old.charged and not status.charged:
            task.status = status
            for tell in self.on_refund:
                tell(task)
            task.is_backfill = is_backfill
            task.choices = choices
        else:
            task.status = status
            task.is_backfill = is_backfill
            task.choices = choices
        if not same_accounts and node is not None:
            self._book(task, node, 1)
            if not is_undo and (node.divergence_count or min(node.idle) < 0):
                problem = overdrawn(task, node, origin)
                if problem:
                    self._break(problem)
        if status.charged and not old.charged:
            if job is not None:
                self.log.charged_jobs.append(job)
            for tell in self.on_charge:
                tell(task)
        if job is not None:
            self.log.jobs.append(job)
            if job.waits_in is not None:
                job.waits_in.touch(job)
            queue = job.queue
            if queue is not None and queue.waits_in is not None:
                queue.waits_in.touch(queue)

    def _recount(
        self, job: JobState, task: TaskState, before: TaskStatus, after: TaskStatus
    ) -> None:
        """Count a task whose status changes, and list its job by the statuses of its tasks."""
        job.recount(task, before, after)
        if after.ready != before.ready:
            if job.has_minimum():
                self.jobs_short.pop(job.uid, None)
            else:
                self.jobs_short[job.uid] = job
        old, new = before.index, after.index
        if not job.counts[old]:
            del self.jobs_having[old][job.uid]
        if job.counts[new] == 1:
            self.jobs_having[new][job.uid] = job

    def running_on(self, node: NodeState) -> RunningTasks:
        """Return the tasks of jobs in the session on a node that may leave.

        O(tasks on the node); O(1) unless the node has changed since the last call.
        """
        if node.running is not None:
            return node.running
        # Most tasks run: this is `TaskState.may_leave` without a call for each of them.
        tasks = [
            task
            for task in node.tasks.values()
            if (task.status is _RUNNING or task.may_leave)
            and task.job is not None
            and task.job.in_session
        ]
        kept = [task for task in tasks if task.fulfils and task.status is _BINDING]
        running = node.running = RunningTasks(tasks, has_kept=bool(kept))
        return running

    def admit(self, job: JobState, *, is_admitted: bool) -> None:
        """Set whether the session schedules a job. O(tasks of the job) if that changes."""
        if job.in_session is not is_admitted:
            job.in_session = is_admitted
            for task in job.tasks:
                if task.node is not None:
                    task.node.running = None

    def bind(self, task: TaskState, *, fulfils: bool = False) -> None:
        """Move an Allocated task to Binding, which changes no amount and no charge.

        `fulfils`: whether that was promised to its job, reserved or planned.
        """
        if task.status is not _ALLOCATED:
            raise InvariantError(f"expected an Allocated task to bind, got {task!r}")
        job, node = task.job, task.node
        assert job is not None
        assert node is not None
        job.has_bind = True
        task.fulfils = fulfils
        if node.running is not None:  # it was looked at, since the task was placed there
            node.running = None
            self.log.nodes.append(node.slot)
        self._advance(job, task, _BINDING)
        self.log.jobs.append(job)

    def note_binds(self, job: JobState) -> None:
        """Note whether a job has binds of this cycle left, as one was taken back or restored."""
        job.has_bind = any(task.info.status.to_place for task in job.having(_BINDING))

    def _advance(self, job: JobState, task: TaskState, status: TaskStatus) -> None:
        """Set the status of a task that occupies its node before and after.

        This changes no amount and no charge.
        """
        before, node = task.status, task.node
        assert node is not None
        task.status = status
        self._recount(job, task, before, status)
        if job.running_by_node is not None:
            job.move_running((before, node), (status, node))
        # Plugins may read the statuses of tasks on a node.
        self._note_change(node)

    def _note_change(self, node: NodeState) -> None:
        """Add a node to the log of changes unless it is the last entry."""
        slots = self.log.nodes
        if not slots or slots[-1] != node.slot:
            slots.append(node.slot)

    def _book(self, task: TaskState, node: NodeState, sign: int) -> None:
        """Put a task on a node (1), or take it off (-1)."""
        status = task.status
        task.node = node if sign > 0 else None
        if not (status.holds or status in _WITHOUT_HOLDING):
            self._break(f"{task!r} is on {node!r}, where no such task can be")
        node.running = node.ends = None
        self.log.nodes.append(node.slot)
        node.book(task, sign)
        if status.occupies:
            if self.on_occupy is not None:
                self.on_occupy(task, node, sign)
        elif status is _PIPELINED:
            if self.on_promise is not None:
                self.on_promise(task, node, sign)
        elif status is _RESERVED:
            if sign > 0:
                self.reserved_nodes[node.name] = node
            elif not node.reserved_tasks:
                del self.reserved_nodes[node.name]

    def _break(self, problem: str) -> NoReturn:
        self.broken = problem
        raise InvariantError(problem)


def _tree_of_queues(infos: Iterable[Queue]) -> dict[str, QueueState]:
    queues = {info.name: QueueState(info) for info in infos}
    for queue in queues.values():
        if queue.info.parent is not None:
            queue.parent = queues[queue.info.parent]
            queue.parent.children.append(queue)
    for queue in queues.values():
        above: QueueState | None = queue
        while above is not None:
            if queue.closed_by is None and above.info.state is not QueueStatus.OPEN:
                queue.closed_by = above
            if queue.kept_by is None and not above.info.reclaimable:
                queue.kept_by = above
            above = above.parent
    return queues


def counted_job(info: JobInfo) -> JobState:
    """Return a job with its tasks counted, independent of any ledger."""
    job = JobState(info, None)
    for task_info in info.tasks:
        job.tasks.append(TaskState(task_info, job, (0, 0), (0, 0)))
    job.count_new(job.tasks)
    return job


def audit(ledger: Ledger) -> None:
    """Verify every invariant by computing all amounts and counts again. O(nodes + tasks).

    Raises:
        InvariantError: an amount or count is wrong or negative; the message lists all of them.

    """
    wrong = [*_node_faults(ledger), *_job_faults(ledger)]
    if wrong:
        raise InvariantError("; ".join(wrong))


def _node_faults(ledger: Ledger) -> Iterator[str]:
    zero = ledger.dimensions.zero
    accounts = (
        *("idle", "releasing", "pipelined", "backfilled", "leaving", "conditional"),
        *("reserved", "divergence_count", "ports", "scoring_milli_cpu", "scoring_memory"),
        *("tasks", "reserved_tasks", "host_ports"),
    )
    for node in ledger.nodes:
        if ledger.slots[node.slot] is not node:
            yield f"{node!r} is not at its slot"
        counted = NodeState(node.info, node.index, node.allocatable, zero)
        for task in (*node.tasks.values(), *node.reserved_tasks.values()):
            known = ledger.tasks.get(task.uid), ledger.leaving.get(task.uid)
            if task.node is not node or task not in known:
                yield f"{task!r} is listed on {node!r}"
            counted.book(task, 1)
        for name in accounts:
            booked, real = getattr(node, name), getattr(counted, name)
            if booked != real:
                yield f"{node!r}.{name} is booked as {booked}, and is {real}"
        for name in NOT_NEGATIVE:
            amounts: Vector = getattr(node, name)
            if min(amounts) >= 0:
                continue
            floor: Vector = getattr(_as_described(ledger, node), name)
            if any(amount < min(least, 0) for amount, least in zip(amounts, floor, strict=True)):
                yield f"{node!r}.{name} is negative: {amounts}"
    for task in ledger.leaving.values():
        if task.node is not None and ledger.tasks[task.uid].leaving is not task:
            yield f"{task!r} leaves {task.node!r}, and nobody moves"
    for task in (*ledger.tasks.values(), *ledger.leaving.values()):
        node_of = task.node
        if node_of is not None and task.uid not in node_of.tasks | node_of.reserved_tasks:
            yield f"{task!r} is not listed on its node"
        if (node_of is None) != _is_nowhere(task):
            yield f"{task!r} is {'nowhere' if node_of is None else 'on a node'}"


def _as_described(ledger: Ledger, node: NodeState) -> NodeState:
    """Return a node with the tasks that held resources when the cycle began. O(tasks)."""
    described = NodeState(node.info, node.index, node.allocatable, ledger.dimensions.zero)
    for task in ledger.tasks.values():
        if task.info.held_node == node.name:
            alike = TaskState(task.info, task.job, task.resreq, task.init_resreq)
            if task.info.leaving is not None:
                alike.status = TaskStatus.RELEASING
            described.book(alike, 1)
    return described


def _job_faults(ledger: Ledger) -> Iterator[str]:
    for job in ledger.jobs.values():
        counted = JobState(job.info, job.queue)
        counted.count_new([task for task in job.tasks if not task.is_held])
        for task in job.tasks:
            if task.is_held:
                counted.hold(task)
            elif task.is_backfill and task.status.holds and task.node is not None:
                counted.backfilling += 1
        counted.tasks = job.tasks
        if job.running_by_node is not None:
            counted.running_nodes()
        for name in (
            *("allocated", "counts", "counted", "held", "backfilling", "running_by_node"),
        ):
            booked, real = getattr(job, name), getattr(counted, name)
            if booked != real:
                yield f"{job!r}.{name} is booked as {booked}, and is {real}"
        if job.groups is not None and counted.groups is not None:
            yield from _group_faults(job, job.groups, counted.groups)
        for status, having in zip(TaskStatus, ledger.jobs_having, strict=True):
            if (having.get(job.uid) is job) != bool(counted.counts[status.index]):
                yield f"{job!r} is not listed as it should be among those with {status.value}"
        if (ledger.jobs_held.get(job.uid) is job) != bool(counted.held):
            yield f"{job!r} is not listed as it should be among those that are held"
        is_short = not counted.has_minimum()
        if (ledger.jobs_short.get(job.uid) is job) != is_short:
            yield f"{job!r} is not listed as it should be among those that are short"


def _group_faults(job: JobState, booked: JobGroups, real: JobGroups) -> Iterator[str]:
    if booked.total != real.total:
        yield f"the tasks of {job!r} are booked as {booked.total}, and are {real.total}"
    pairs = zip((booked.root, *booked.groups), (real.root, *real.groups), strict=True)
    for group, counted in pairs:
        for name in ("counts", "placed", "succeeded"):
            has, should = getattr(group, name), getattr(counted, name)
            if has != should:
                yield f"{group!r}.{name} of {job!r} is booked as {has}, and is {should}"


def _is_nowhere(task: TaskState) -> bool:
    if task.status in (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED):
        return True
    if task.status in (TaskStatus.RELEASING, TaskStatus.UNKNOWN):
        return task.node is None
    return False
