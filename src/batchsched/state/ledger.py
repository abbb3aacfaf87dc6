"""The books of a session: the one place where the state of a cluster changes.

The ledger keeps where each task stands and the
accounts of nodes and jobs; it tells its listeners what was charged and given
back. It decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import islice
from operator import add, itemgetter, sub
from typing import NoReturn

from batchsched.errors import InvariantError
from batchsched.model.cluster import JobInfo, Queue, TaskInfo
from batchsched.model.resources import EPSILON, Resource
from batchsched.model.snapshot import Snapshot
from batchsched.model.status import TaskStatus
from batchsched.state.groups import JobGroups
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Dimensions, Vector, plus

__all__ = ["Ledger", "Origin", "Position", "TaskListener", "counted_job"]

TaskListener = Callable[[TaskState], None]
"""Called after a task was charged, or given back what it was charged."""

_ALLOCATED = TaskStatus.ALLOCATED
_BINDING = TaskStatus.BINDING
_RESERVED = TaskStatus.RESERVED


Origin = tuple[TaskStatus, NodeState | None, bool]
"""Status, node and mark of a task."""

_NOT_NEGATIVE = ("idle", "future_idle", "accessible", "eventual")
"""The accounts of a node that nothing in a session makes negative, or more so."""

_Taken = tuple[bool, bool, bool, bool]
"""From which of them a task takes what it holds, or is promised."""

_NOTHING: _Taken = (False, False, False, False)


Position = tuple[int, int, int]
"""A position in the records of changes: of nodes, of jobs, of jobs that were charged."""


class Ledger:
    """The books of one session, opened on a snapshot. O(size of the snapshot) to open.

    A task that the snapshot has as Reserved on a node that is not there is entered as
    Pending; `lost_reservations` lists them. So is every task that the snapshot has as Pipelined;
    `initial_promises` lists them.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.dimensions = Dimensions(
            [node.allocatable for node in snapshot.nodes], _requests(snapshot)
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
        """All tasks by UID, those of no job included."""
        self.now = snapshot.now
        """The time of the cycle, in seconds."""
        self.other_tasks: dict[str, TaskState] = {}
        """The tasks of no job, by UID."""
        self.jobs_having: tuple[dict[str, JobState], ...] = tuple({} for _ in TaskStatus)
        """For each `TaskStatus.index`, the jobs that have tasks with it, by UID, in no order."""
        self.jobs_short: dict[str, JobState] = {}
        """The jobs with fewer ready tasks than must start together, by UID, in no order."""
        self.reserved_nodes: dict[str, NodeState] = {}
        """The nodes that are reserved for a task, by name, in no order."""
        self.classes_end = 0
        """The number after the last that placement engines have given to a class of tasks."""
        self.origins: dict[TaskState, Origin] | None = None
        """Where tasks stood before they were first moved, if that is to be noted."""
        self.lost_reservations: list[tuple[TaskState, str]] = []
        """Tasks that were Reserved on a node that is gone, with the node's name."""
        self.initial_promises: list[tuple[TaskState, str]] = []
        """Tasks that the snapshot has as Pipelined, with the names of their nodes."""
        self.changes: list[int] = []
        """The slots of the nodes that changed, in the order of the changes."""
        self.job_changes: list[JobState] = []
        """The jobs whose accounts changed, in the order of the changes."""
        self.charged_jobs: list[JobState] = []
        """The jobs that were charged more, in the order in which they were."""
        self._undone: list[tuple[Position, Position]] = []
        self.broken = ""
        """What broke the books, if anything did: they refuse everything from then on."""
        self.on_charge: tuple[TaskListener, ...] = ()
        """Told of every task that is charged: placed, or no longer evicted."""
        self.on_refund: tuple[TaskListener, ...] = ()
        """Told of every task that is not charged any more: evicted, or no longer placed."""
        self.on_occupy: Callable[[TaskState, NodeState, int], None] | None = None
        """Told of every task that begins (1) or ends (-1) to occupy a node."""

        self._enter_all(snapshot)
        self.cluster: Vector = reduce(plus, (node.allocatable for node in self.nodes), zero)
        """The sum of what all nodes have."""

    def _enter_all(self, snapshot: Snapshot) -> None:
        for info in snapshot.jobs:
            named = self.queues.get(info.queue)
            leaf = None if named is None or named.children else named
            job = self.jobs[info.uid] = JobState(info, leaf)
            if leaf is not None:
                leaf.jobs.append(job)
            for task_info in info.tasks:
                job.tasks.append(self._enter(task_info, job))
            self._register(job)
        for task_info in snapshot.other_tasks:
            self.other_tasks[task_info.uid] = self._enter(task_info, None)

    def _register(self, job: JobState) -> None:
        """Let a job be found by the statuses of its tasks."""
        uid = job.uid
        for count, having in zip(job.counts, self.jobs_having, strict=True):
            if count:
                having[uid] = job
        if not job.has_minimum():
            self.jobs_short[uid] = job

    def _enter(self, info: TaskInfo, job: JobState | None) -> TaskState:
        vector = self.dimensions.vector
        resreq = vector(info.resreq)
        init_resreq = resreq
        if info.init_resreq is not None:
            # It may be less than `resreq` by what makes no difference; what it holds counts too.
            init_resreq = tuple(map(max, vector(info.init_resreq), resreq))
        task = self.tasks[info.uid] = TaskState(info, job, resreq, init_resreq)
        if info.status is TaskStatus.PIPELINED:
            # Whether the promise still holds is for the session to decide.
            self.initial_promises.append((task, info.node_name or ""))
            task.status = TaskStatus.PENDING
        elif info.node_name is not None:
            node = self.node_named.get(info.node_name)
            if node is None:
                self.lost_reservations.append((task, info.node_name))
                task.status = TaskStatus.PENDING
            else:
                self._put_on(task, node)
        if job is not None:
            _count(job, task)
            if task.is_backfill and task.status.holds and task.node is not None:
                job.backfilling += 1
        return task

    def move(
        self,
        task: TaskState,
        status: TaskStatus,
        node: NodeState | None,
        *,
        is_backfill: bool,
        is_undo: bool = False,
    ) -> None:
        """Let `task` have this status, node and mark from now on, and tell the listeners.

        `is_undo`: whether this only goes back to what was before, which needs no room.

        Raises:
            InvariantError: an account would become negative, or one that was more so. The
                books are then of no use.

        """
        if self.broken:
            raise InvariantError(self.broken)
        old = task.status
        old_node = task.node
        origin = (old, old_node, task.is_backfill)
        if self.origins is not None and task not in self.origins:
            self.origins[task] = origin
        same_accounts = (
            old_node is node
            and old.occupies
            and status.occupies
            and task.is_backfill is is_backfill
        )
        if not same_accounts and old_node is not None:
            self._take_off(task, old_node)
        job = task.job
        if job is not None:
            if task.is_backfill and old.holds:
                job.backfilling -= 1
            if is_backfill and status.holds:
                job.backfilling += 1
            if old is not status:
                self._recount(job, task, old, status)
                if status.ready != old.ready:
                    self._add_ready(job, status.ready - old.ready)
                job.waiting_count += status.waiting - old.waiting
                job.conditionally_ready_count += (
                    status.conditionally_ready - old.conditionally_ready
                )
                job.valid_count += status.valid - old.valid
                if status is _ALLOCATED:
                    job.allocated[task.uid] = task
                elif old is _ALLOCATED:
                    del job.allocated[task.uid]
        # A refund goes out with the mark that the task was charged with.
        if old.charged and not status.charged:
            task.status = status
            for tell in self.on_refund:
                tell(task)
            task.is_backfill = is_backfill
        else:
            task.status = status
            task.is_backfill = is_backfill
        if not same_accounts and node is not None:
            self._put_on(task, node)
            if not is_undo and (node.special or min(node.idle) < -EPSILON):
                self._expect_room(task, node, origin)
        if status.charged and not old.charged:
            if job is not None:
                self.charged_jobs.append(job)
            for tell in self.on_charge:
                tell(task)
        if job is not None:
            self.job_changes.append(job)
            if job.waits_in is not None:
                job.waits_in.touch(job)
            queue = job.queue
            if queue is not None and queue.waits_in is not None:
                queue.waits_in.touch(queue)

    def _add_ready(self, job: JobState, more: int) -> None:
        job.ready_count += more
        groups = job.groups
        if job.ready_count < job.min_available or (groups is not None and not job.has_minimum()):
            self.jobs_short[job.uid] = job
        else:
            self.jobs_short.pop(job.uid, None)

    def _recount(
        self, job: JobState, task: TaskState, before: TaskStatus, after: TaskStatus
    ) -> None:
        """Count a task of a job under another status."""
        if job.groups is not None:
            job.groups.move(task, before, after)
        old, new = before.index, after.index
        counts, having = job.counts, self.jobs_having
        counts[old] -= 1
        if not counts[old]:
            del having[old][job.uid]
        if not counts[new]:
            having[new][job.uid] = job
        counts[new] += 1

    def position(self) -> Position:
        """Return where the records of changes end now."""
        return len(self.changes), len(self.job_changes), len(self.charged_jobs)

    def record_rollback(self, since: Position) -> None:
        """Take note that all that changed since a position has been undone again."""
        undone = self._undone
        while undone and undone[-1][0] >= since:
            undone.pop()
        now = self.position()
        if now != since:
            undone.append((since, now))

    def changed_since(self, position: Position) -> tuple[set[int], set[JobState], set[JobState]]:
        """Return what may differ from what it was at a position: nodes, jobs, jobs charged more.

        What changed and was undone since leaves no trace. O(changes since).
        """
        nodes: set[int] = set()
        jobs: set[JobState] = set()
        charged: set[JobState] = set()
        first = bisect_left(self._undone, position, key=itemgetter(0))
        for begin, end in [*islice(self._undone, first, None), (self.position(), position)]:
            nodes.update(self.changes[position[0] : begin[0]])
            jobs.update(self.job_changes[position[1] : begin[1]])
            charged.update(self.charged_jobs[position[2] : begin[2]])
            position = end
        return nodes, jobs, charged

    def forget_rollbacks(self) -> None:
        """Forget what was undone, when no position in the records is of use any more."""
        self._undone.clear()

    def bind(self, task: TaskState) -> None:
        """Let an Allocated task be Binding from now on; no account and no charge changes."""
        if task.status is not _ALLOCATED:
            raise InvariantError(f"{task!r} is to be bound and is not Allocated")
        task.status = _BINDING
        job = task.job
        assert job is not None
        self._recount(job, task, _ALLOCATED, _BINDING)
        del job.allocated[task.uid]
        self.job_changes.append(job)
        node = task.node
        assert node is not None
        if self.changes[-1] != node.slot:
            # Plugins may read how far the tasks on a node are.
            self.changes.append(node.slot)

    def _put_on(self, task: TaskState, node: NodeState) -> None:
        status = task.status
        task.node = node
        node.running = None
        self.changes.append(node.slot)
        if status is _RESERVED:
            node.reserved_tasks[task.uid] = task
            self.reserved_nodes[node.name] = node
            node.reserved = tuple(map(add, node.reserved, task.init_resreq))
            return
        node.tasks[task.uid] = task
        node.scoring_milli_cpu += task.scoring_milli_cpu
        node.scoring_memory += task.scoring_memory
        if task.info.host_ports:
            _count_ports(task, node, 1)
        if status.holds:
            node.idle = tuple(map(sub, node.idle, task.resreq))
            if status.occupies:
                if task.is_backfill:
                    node.special += 1
                    node.backfilled = tuple(map(add, node.backfilled, task.resreq))
                if self.on_occupy is not None:
                    self.on_occupy(task, node, 1)
                return
        self._book_special(task, node, 1)

    def _take_off(self, task: TaskState, node: NodeState) -> None:
        status = task.status
        task.node = None
        node.running = None
        self.changes.append(node.slot)
        if status is _RESERVED:
            del node.reserved_tasks[task.uid]
            if not node.reserved_tasks:
                del self.reserved_nodes[node.name]
            node.reserved = tuple(map(sub, node.reserved, task.init_resreq))
            return
        del node.tasks[task.uid]
        node.scoring_milli_cpu -= task.scoring_milli_cpu
        node.scoring_memory -= task.scoring_memory
        if task.info.host_ports:
            _count_ports(task, node, -1)
        if status.holds:
            node.idle = tuple(map(add, node.idle, task.resreq))
            if status.occupies:
                if task.is_backfill:
                    node.special -= 1
                    node.backfilled = tuple(map(sub, node.backfilled, task.resreq))
                if self.on_occupy is not None:
                    self.on_occupy(task, node, -1)
                return
        self._book_special(task, node, -1)

    def _book_special(self, task: TaskState, node: NodeState, sign: int) -> None:
        operator = add if sign > 0 else sub
        match task.status:
            case TaskStatus.RELEASING:
                node.releasing = tuple(map(operator, node.releasing, task.resreq))
                if task.is_backfill:
                    node.leaving = tuple(map(operator, node.leaving, task.resreq))
            case TaskStatus.PIPELINED:
                node.pipelined = tuple(map(operator, node.pipelined, task.resreq))
            case TaskStatus.CONDITIONAL:
                node.conditional = tuple(map(operator, node.conditional, task.resreq))
            case TaskStatus.UNKNOWN:
                return
            case _:
                self._break(f"{task!r} is on {node!r}, where no such task can be")
        node.special += sign

    def _expect_room(self, task: TaskState, node: NodeState, origin: Origin) -> None:
        """Break if a task has come to take of an account what is not there.

        A node may have less than nothing, if its tasks held too much from the beginning; then
        nobody may take more of that.
        """
        status, where, is_backfill = origin
        before = _taken(status, is_backfill=is_backfill) if where is node else _NOTHING
        after = _taken(task.status, is_backfill=task.is_backfill)
        for name, took, takes in zip(_NOT_NEGATIVE, before, after, strict=True):
            if not takes or took:
                continue
            amounts: Vector = getattr(node, name)
            for amount, wanted in zip(amounts, task.resreq, strict=True):
                if amount < -EPSILON and wanted >= EPSILON:
                    self._break(f"{task!r} takes more than there is on {node!r}: {name} {amounts}")

    def _break(self, problem: str) -> NoReturn:
        self.broken = problem
        raise InvariantError(problem)

    def check(self) -> None:
        """Assert every invariant of the books by counting everything anew. O(nodes + tasks).

        Raises:
            InvariantError: an account is wrong or negative; the message lists all that are.

        """
        wrong = [*self._node_faults(), *self._job_faults()]
        if wrong:
            raise InvariantError("; ".join(wrong))

    def _node_faults(self) -> Iterator[str]:
        fresh = Ledger.__new__(Ledger)
        fresh.changes = []
        fresh.reserved_nodes = {}
        fresh.on_occupy = None
        zero = self.dimensions.zero
        accounts = (
            *("idle", "releasing", "pipelined", "backfilled", "leaving", "conditional"),
            *("reserved", "special", "ports", "scoring_milli_cpu", "scoring_memory"),
            *("tasks", "reserved_tasks", "host_ports"),
        )
        for node in self.nodes:
            if self.slots[node.slot] is not node:
                yield f"{node!r} is not at its slot"
            counted = NodeState(node.info, node.index, node.allocatable, zero)
            for task in (*node.tasks.values(), *node.reserved_tasks.values()):
                if task.node is not node or self.tasks.get(task.uid) is not task:
                    yield f"{task!r} is listed on {node!r}"
                fresh._put_on(task, counted)
                task.node = node
            for name in accounts:
                booked, real = getattr(node, name), getattr(counted, name)
                if booked != real:
                    yield f"{node!r}.{name} is booked as {booked}, and is {real}"
            # Tasks that ask for next to nothing of something come even where there is none.
            nothing_asked = [
                sum(amount for amount in held if amount < EPSILON)
                for held in zip(*[task.resreq for task in node.tasks.values()], strict=True)
            ] or zero
            for name in _NOT_NEGATIVE:
                amounts: Vector = getattr(node, name)
                if min(amounts) >= -EPSILON:
                    continue
                floor: Vector = getattr(self._as_described(node), name)
                if any(
                    amount + tiny < min(least, 0) - EPSILON
                    for amount, tiny, least in zip(amounts, nothing_asked, floor, strict=True)
                ):
                    yield f"{node!r}.{name} is negative: {amounts}"
        for task in self.tasks.values():
            node_of = task.node
            if node_of is not None and task.uid not in node_of.tasks | node_of.reserved_tasks:
                yield f"{task!r} is not listed on its node"
            if (node_of is None) != _is_nowhere(task):
                yield f"{task!r} is {'nowhere' if node_of is None else 'on a node'}"

    def _as_described(self, node: NodeState) -> NodeState:
        """Return a node as it was when the cycle began, with what tasks held there. O(tasks)."""
        described = NodeState(node.info, node.index, node.allocatable, self.dimensions.zero)
        fresh = Ledger.__new__(Ledger)
        fresh.changes = []
        fresh.reserved_nodes = {}
        fresh.on_occupy = None
        for task in self.tasks.values():
            if task.info.node_name == node.name and task.info.status.holds:
                alike = TaskState(task.info, task.job, task.resreq, task.init_resreq)
                fresh._put_on(alike, described)
        return described

    def _job_faults(self) -> Iterator[str]:
        for job in self.jobs.values():
            counted = JobState(job.info, job.queue)
            for task in job.tasks:
                _count(counted, task)
                if task.is_backfill and task.status.holds and task.node is not None:
                    counted.backfilling += 1
            for name in (
                *("allocated", "counts", "backfilling", "ready_count", "waiting_count"),
                *("conditionally_ready_count", "valid_count"),
            ):
                booked, real = getattr(job, name), getattr(counted, name)
                if booked != real:
                    yield f"{job!r}.{name} is booked as {booked}, and is {real}"
            if job.groups is not None and counted.groups is not None:
                yield from _group_faults(job, job.groups, counted.groups)
            for status, having in zip(TaskStatus, self.jobs_having, strict=True):
                if (having.get(job.uid) is job) != bool(counted.counts[status.index]):
                    yield f"{job!r} is not listed as it should be among those with {status.value}"
            is_short = not counted.has_minimum()
            if (self.jobs_short.get(job.uid) is job) != is_short:
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


def _tree_of_queues(infos: Iterable[Queue]) -> dict[str, QueueState]:
    queues = {info.name: QueueState(info) for info in infos}
    for queue in queues.values():
        if queue.info.parent is not None:
            queue.parent = queues[queue.info.parent]
            queue.parent.children.append(queue)
    return queues


def _requests(snapshot: Snapshot) -> Iterator[Resource]:
    for job in snapshot.jobs:
        for task in job.tasks:
            yield task.resreq
            if task.init_resreq is not None:
                yield task.init_resreq
    for task in snapshot.other_tasks:
        yield task.resreq
        if task.init_resreq is not None:
            yield task.init_resreq


def _count(job: JobState, task: TaskState) -> None:
    status = task.status
    job.counts[status.index] += 1
    job.ready_count += status.ready
    job.waiting_count += status.waiting
    job.conditionally_ready_count += status.conditionally_ready
    job.valid_count += status.valid
    if status is _ALLOCATED:
        job.allocated[task.uid] = task
    if job.groups is not None:
        job.groups.enter(task)


def _count_ports(task: TaskState, node: NodeState, sign: int) -> None:
    node.ports += sign
    for port in task.info.host_ports:
        key = (port.protocol, port.port)
        of_number = node.host_ports.setdefault(key, {})
        count = of_number.get(port, 0) + sign
        if count:
            of_number[port] = count
        else:
            del of_number[port]
            if not of_number:
                del node.host_ports[key]


def _taken(status: TaskStatus, *, is_backfill: bool) -> _Taken:
    if status.occupies:
        return True, True, not is_backfill, not is_backfill
    match status:
        case TaskStatus.UNKNOWN:
            return True, True, True, True
        case TaskStatus.RELEASING:
            return True, False, not is_backfill, False
        case TaskStatus.PIPELINED:
            return False, True, False, True
        case TaskStatus.CONDITIONAL:
            return False, False, True, True
        case _:
            return _NOTHING


def counted_job(info: JobInfo) -> JobState:
    """Return a job by itself, in no books: its tasks have their statuses, and are counted."""
    job = JobState(info, None)
    for task_info in info.tasks:
        task = TaskState(task_info, job, (0, 0), (0, 0))
        job.tasks.append(task)
        _count(job, task)
    return job


def _is_nowhere(task: TaskState) -> bool:
    if task.status in (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED):
        return True
    if task.status in (TaskStatus.RELEASING, TaskStatus.UNKNOWN):
        return task.node is None
    return False
