"""Which nodes may be reserved for a task, and starting the jobs that have reservations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum

from attrs import Factory, define
from sortedcontainers import SortedList

from batchsched.actions.placing import NOW, place
from batchsched.model.cluster import TaskStatus
from batchsched.session.attempts import tasks_needed
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.memory import NodeCursor, RecentlyUsed
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import fits, plus


def start_reserved_jobs(session: Session) -> None:
    """Give each job with Reserved tasks a turn to start, on its reserved nodes or elsewhere."""
    waiting = session.live_jobs(session.jobs_having(TaskStatus.RESERVED))
    while waiting:
        job = waiting.pop()
        reserved = [
            (task, task.node) for task in session.in_task_order(job.having(TaskStatus.RESERVED))
        ]
        with session.statement() as statement:
            # The job's own reservations must not block it.
            for task, _ in reserved:
                statement.unallocate(task)
            _start(session, statement, job, reserved)
            if not session.job_ready(job):
                continue
            statement.commit()


def _start(
    session: Session,
    statement: Statement,
    job: JobState,
    reserved: list[tuple[TaskState, NodeState | None]],
) -> None:
    for task, node in reserved:
        if (
            node is not None
            and session.placement.refusal(task, node) is None
            and node.fits_now(task.init_resreq)
            and session.may_take_task(task)
        ):
            statement.allocate(task, node)
    for task in tasks_needed(session, job):
        if session.job_ready(job):
            return
        place(session, statement, task, NOW)


def can_hold_reservation(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether the node is large enough for the task in addition to what is reserved there.

    What daemons and other tasks without a job hold is subtracted, for they may never leave.
    """
    return fits(plus(node.reserved, task.init_resreq), session.node_room.for_jobs(node))


def can_keep_for_one_job(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether the node can be reserved for the task's job alone, large enough for all of it.

    Both what is reserved for the job and what it has been allocated in this session count,
    because both will be reserved in the next cycle.
    """
    wanted = task.init_resreq
    for other in node.reserved_tasks.values():
        if other.job is not task.job:
            return False
        wanted = plus(wanted, other.init_resreq)
    for other in node.tasks.values():
        if other.status is TaskStatus.ALLOCATED:
            if other.job is task.job:
                wanted = plus(wanted, other.init_resreq)
            elif other.job is not None and other.job.count(TaskStatus.RESERVED):
                return False
    return fits(wanted, session.node_room.for_jobs(node))


def _can_hold_beside_its_job(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether the node is large enough in addition to what the task's job has there.

    Without this rule a gang that can never fit would have the room of its own tasks reserved,
    and close nodes for ever.
    """
    wanted = plus(node.reserved, task.init_resreq)
    for other in node.tasks.values():
        if other.job is task.job and other.status is TaskStatus.ALLOCATED:
            wanted = plus(wanted, other.init_resreq)
    return fits(wanted, session.node_room.for_jobs(node))


def first_node_to_reserve(
    session: Session, task: TaskState, *, beside_its_job: bool
) -> NodeState | None:
    """Return the first node that may be reserved for a starving task, in node order.

    `beside_its_job`: whether the room must not include what its job is Allocated there.
    """
    can_hold = _can_hold_beside_its_job if beside_its_job else can_hold_reservation
    for node in session.nodes:
        if (
            can_hold(session, task, node)
            and not promised_to_others(task, node)
            and session.placement.refusal(task, node) is None
        ):
            return node
    return None


def promised_to_others(task: TaskState, node: NodeState) -> bool:
    """Return whether resources of the node are promised to tasks of other jobs."""
    return bool(node.divergence_count) and any(
        other.job is not task.job
        for other in node.tasks.values()
        if other.status is TaskStatus.PIPELINED or other.status is TaskStatus.CONDITIONAL
    )


MOST_KINDS = 64
"""Nodes are kept sorted for at most this many kinds of tasks, the most recently used."""

Entry = tuple[float, int]
"""Minus a node's score, and its slot: the smallest goes first."""


class _Group(Enum):
    OPEN = "no reservations, and the task fits now"
    SHORT = "no reservations, and the task does not fit now"
    RESERVED = "reservations"


def _group_of(task: TaskState, node: NodeState) -> _Group:
    if node.reserved_tasks:
        return _Group.RESERVED
    return _Group.OPEN if node.fits_now(task.init_resreq) else _Group.SHORT


def _no_entries() -> dict[_Group, SortedList[Entry]]:
    return {group: SortedList() for group in _Group}


@define
class _Ranked:
    """The nodes that may hold a reservation for one kind of task, by group and score."""

    cursor: NodeCursor
    """Position in the log of changed nodes."""
    is_new: bool = True
    """Whether no node was ranked yet."""
    entries: dict[_Group, SortedList[Entry]] = Factory(_no_entries)
    with_promises: dict[_Group, dict[int, Entry]] = Factory(lambda: {group: {} for group in _Group})
    """Nodes where something may be promised to others, for which jobs get different answers."""
    group_of: dict[int, tuple[_Group, Entry]] = Factory(dict[int, tuple[_Group, Entry]])

    def take_out(self, index: int) -> None:
        known = self.group_of.pop(index, None)
        if known is not None:
            group, entry = known
            if self.with_promises[group].pop(index, None) is None:
                self.entries[group].remove(entry)

    def put_in(self, node: NodeState, group: _Group, score: float) -> None:
        entry = (-score, node.slot)
        self.group_of[node.slot] = (group, entry)
        if node.divergence_count:
            self.with_promises[group][node.slot] = entry
        else:
            self.entries[group].add(entry)


class ReservableNodes:
    """The nodes that may be reserved, kept up to date while reserve goes through the jobs."""

    def __init__(
        self,
        session: Session,
        can_hold: Callable[[Session, TaskState, NodeState], bool] = can_hold_reservation,
    ) -> None:
        self._session = session
        self._can_hold = can_hold
        """Whether a node may hold a reservation; depends on the node and the kind of task only."""
        self._ranked = RecentlyUsed[int, _Ranked](most=MOST_KINDS)
        """By kind of task."""
        self._cursor = NodeCursor(session.log.nodes)
        self._reserved = {node.slot for node in session.nodes if node.reserved_tasks}

    def count_reserved(self) -> int:
        """Return how many nodes have reservations. O(changes since the last call)."""
        for index in set(self._cursor.unread()):
            if self._session.slots[index].reserved_tasks:
                self._reserved.add(index)
            else:
                self._reserved.discard(index)
        return len(self._reserved)

    def most_room_now(self, task: TaskState) -> NodeState | None:
        """Return the best node without reservations where the task fits now."""
        return self._best(task, [_Group.OPEN])

    def most_room(self, task: TaskState, *, only_reserved: bool) -> NodeState | None:
        """Return the best node; if `only_reserved`, of the nodes that have reservations."""
        return self._best(task, [_Group.RESERVED] if only_reserved else list(_Group))

    def _best(self, task: TaskState, groups: Collection[_Group]) -> NodeState | None:
        """Return the node of some groups that has the most room and may hold the reservation."""
        if self._keeps_sorted(task):
            return self._first(task, groups)
        best: NodeState | None = None
        highest = 0.0
        for node in self._session.nodes:
            if (
                _group_of(task, node) in groups
                and self._can_hold(self._session, task, node)
                and not promised_to_others(task, node)
                and self._session.placement.refusal(task, node) is None
            ):
                score = self._session.plugin_set.node_order_on_resource(task, node)
                if best is None or score > highest:
                    best, highest = node, score
        return best

    # The same, by nodes that are kept sorted

    def _keeps_sorted(self, task: TaskState) -> bool:
        """Return whether nodes are kept sorted for this kind of task.

        They are not for the first task of a kind, which may be the only one, nor for tasks whose
        kind is unknown.
        """
        kind = self._session.placement.kind(task)
        if kind is None:
            return False
        if self._ranked.use(kind) is not None:
            return True
        self._ranked.keep(kind, _Ranked(NodeCursor(self._session.log.nodes)))
        return False

    def _first(self, task: TaskState, groups: Collection[_Group]) -> NodeState | None:
        ranked = self._refreshed(task)
        nodes = self._session.slots
        found: list[Entry] = []
        for group in groups:
            if ranked.entries[group]:
                found.append(ranked.entries[group][0])
            for index, entry in ranked.with_promises[group].items():
                if not promised_to_others(task, nodes[index]):
                    found.append(entry)
        return nodes[min(found)[1]] if found else None

    def _refreshed(self, task: TaskState) -> _Ranked:
        session = self._session
        kind = session.placement.kind(task)
        assert kind is not None
        ranked = self._ranked[kind]
        changed: Iterable[int] = set(ranked.cursor.unread())
        if ranked.is_new:
            changed = [node.slot for node in session.nodes]
            ranked.is_new = False
        for index in changed:
            node = session.slots[index]
            ranked.take_out(index)
            if (
                not self._can_hold(session, task, node)
                or session.placement.refusal(task, node) is not None
            ):
                continue
            score = session.plugin_set.node_order_on_resource(task, node)
            ranked.put_in(node, _group_of(task, node), score)
        return ranked
