"""reserve: reserve nodes for jobs that would otherwise starve.

Follows the design document "Reserve Action".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from math import ceil

from attrs import frozen
from sortedcontainers import SortedList

from batchsched.actions.placing import (
    NOW,
    can_hold_reservation,
    has_choice_if_empty,
    place,
    promised_to_others,
)
from batchsched.model.cluster import TaskStatus
from batchsched.placement import Fit
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.candidates import NodeSet
from batchsched.session.attempts import tasks_needed
from batchsched.session.candidates import (
    first_set,
    may_go_anywhere,
    try_in,
    try_in_turn_what_is_needed,
    try_what_is_needed,
)
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import (
    has_task_to_place,
    is_starving,
    need_of,
    record_limit,
    tasks_to_place,
)
from batchsched.state.groups import Counting
from batchsched.state.memory import DependsOn, Remembered
from batchsched.state.needs import Need, Stage
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import fits, plus

TWO_DAYS = 172_800


@frozen(kw_only=True)
class ReserveAction:
    """Reserves nodes for starving jobs, unless a job that goes before them could be scheduled now.

    A gang with best-effort tasks gets reservations only once those have a place, so backfill
    should run before this action. So should all actions that place tasks: a job that they failed
    to place in this cycle does not keep the jobs after it from getting reservations.
    """

    starving_job_time_threshold: float = TWO_DAYS
    """Seconds of waiting after which a job is starving."""
    reserved_node_percent: float = 50
    """The percentage of all nodes, rounded up to whole nodes, that may be reserved at once."""
    in_order: bool = False
    """Whether starving jobs get reservations strictly in job order, each on nodes of its own.

    If not, starving jobs share nodes, and a job that finds too little left is passed over. That
    uses nodes better, but many small starving jobs can then keep a large one waiting for ever.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> ReserveAction:
        """Read ``starvingJobTimeThreshold``, ``reservedNodePercent`` and ``inOrder``."""
        return cls(
            starving_job_time_threshold=arguments.number(
                "starvingJobTimeThreshold", default=TWO_DAYS, minimum=0
            ),
            reserved_node_percent=arguments.number(
                "reservedNodePercent", default=50, minimum=0, maximum=100
            ),
            in_order=arguments.boolean("inOrder", default=False),
        )

    def execute(self, session: Session, /) -> None:
        """Go through all waiting jobs in job order, and reserve nodes for the starving ones."""
        limit = ceil(self.reserved_node_percent * len(session.nodes) / 100)
        waiting = session.live_jobs(
            job
            for job in session.jobs_having(TaskStatus.PENDING, TaskStatus.RESERVED)
            if job.count(TaskStatus.RESERVED) or has_task_to_place(job)
        )
        reservable = ReservableNodes(session)
        while waiting:
            job = waiting.pop()
            queue = job.queue
            assert queue is not None
            moved_from: dict[TaskState, NodeState] = {}
            if job.count(TaskStatus.RESERVED):
                moved_from = self._choose_anew(session, job, reservable)
                if not has_task_to_place(job):
                    continue
            if (
                is_starving(session, job, self.starving_job_time_threshold)
                and queue.name not in session.reports.overused_at_open
            ):
                if self._try_to_reserve(session, job, limit, reservable):
                    continue
                if moved_from:
                    _move(session, moved_from)
                if self.in_order and self._waits_for_other_reservations(
                    session, job, limit, reservable
                ):
                    return
            elif not session.plugins.overused(queue) and _could_be_scheduled(session, job):
                return

    def _choose_anew(
        self, session: Session, job: JobState, reservable: ReservableNodes
    ) -> dict[TaskState, NodeState]:
        """Move reservations from nodes where tasks do not fit now to nodes where they do.

        Only if that does not increase the number of reserved nodes. Other reservations stay: the
        longer a node has been reserved, the sooner it is free. So do those of jobs that plugins
        bind to sets of nodes.

        Returns:
            The tasks whose reservations were moved, with the nodes where they were.

        """
        if not may_go_anywhere(session, job):
            return {}
        better = self._better_nodes(session, job, reservable)
        if not better:
            return {}
        by_node: dict[NodeState, list[TaskState]] = {}
        for task in better:
            assert task.node is not None
            by_node.setdefault(task.node, []).append(task)
        moved_from: dict[TaskState, NodeState] = {}
        most = len(session.reserved_nodes)
        with session.statement(is_trial=True) as statement:
            for node, tasks in by_node.items():
                before = len(statement)
                for task in tasks:
                    statement.unallocate(task)
                    statement.reserve(task, better[task])
                if len(session.reserved_nodes) > most:
                    statement.rollback(before)
                else:
                    moved_from.update((task, node) for task in tasks)
            statement.commit()
        return moved_from

    def _better_nodes(
        self, session: Session, job: JobState, reservable: ReservableNodes
    ) -> dict[TaskState, NodeState]:
        """Map Reserved tasks that do not fit now on their nodes to nodes where they do."""
        better: dict[TaskState, NodeState] = {}
        reservable = self._of_turn(session, reservable)
        with session.statement(is_trial=True) as statement:
            short = [
                task
                for task in session.in_task_order(job.having(TaskStatus.RESERVED))
                if not _starts_on_its_node(session, statement, task)
            ]
            statement.rollback(0)
            for task in short:
                node = reservable.most_room_now(task)
                if node is not None:
                    statement.unallocate(task)
                    statement.allocate(task, node)
                    better[task] = node
        return better

    def _try_to_reserve(
        self, session: Session, job: JobState, limit: int, reservable: ReservableNodes
    ) -> bool:
        """Reserve all that a starving job needs to start, or nothing."""
        return session.attempt(partial(self._reserve, session, job, limit, reservable))

    def _waits_for_other_reservations(
        self, session: Session, job: JobState, limit: int, reservable: ReservableNodes
    ) -> bool:
        """Return whether the job could get its reservations if no other job had any."""
        with session.statement(is_trial=True) as statement:
            for other in session.jobs_having(TaskStatus.RESERVED):
                if other is not job:
                    for task in other.having(TaskStatus.RESERVED):
                        statement.unallocate(task)
            return len(statement) > 0 and self._reserve(session, job, limit, reservable, statement)

    def _reserve(
        self,
        session: Session,
        job: JobState,
        limit: int,
        reservable: ReservableNodes,
        statement: Statement,
    ) -> bool:
        if self.in_order:
            for task in job.having(TaskStatus.ALLOCATED):
                if task.node is not None and task.node.reserved_tasks:
                    # The node has been reserved for another job, so the task will lose this place.
                    statement.unallocate(task)
        reservable = self._of_turn(session, reservable)
        if not _is_enough(session, job) and _is_limited(session, job):
            return False
        reserve = partial(_reserve_or_start, session, limit, reservable)
        if not may_go_anywhere(session, job):
            return _is_enough(session, job) or _reserve_in_set(session, statement, job, reserve)
        for task in tasks_needed(session, job, Counting.RESERVED):
            if _is_enough(session, job):
                break
            reserve(statement, task)
        return _is_enough(session, job)

    def _of_turn(self, session: Session, reservable: ReservableNodes) -> ReservableNodes:
        """Return the index of nodes to use for the turn of one job."""
        if not self.in_order:
            return reservable
        # Which nodes can be kept for one job alone differs from job to job.
        return ReservableNodes(session, can_keep_for_one_job)


def _reserve_or_start(
    session: Session, limit: int, reservable: ReservableNodes, statement: Statement, task: TaskState
) -> bool:
    """Start a task where it fits now, or reserve a node; return whether there was one."""
    node = reservable.most_room_now(task, statement.within)
    if node is not None:
        statement.allocate(task, node)
        return True
    is_full = len(session.reserved_nodes) >= limit
    node = reservable.most_room(task, statement.within, only_reserved=is_full)
    if node is None:
        session.record_failure(task)
        return False
    statement.reserve(task, node)
    return True


def _reserve_in_set(
    session: Session,
    statement: Statement,
    job: JobState,
    reserve: Callable[[Statement, TaskState], bool],
) -> bool:
    """Reserve nodes in the first set that plugins offer for a job; return whether it is enough.

    If not, what is reserved for it already is given up for another set.
    """

    def attempt(need: Need) -> bool:
        trial = first_set(session, need, Stage.EMPTY)
        if trial is None:
            return False
        is_done = try_in(session, statement, trial, lambda on, task, _: reserve(on, task))
        statement.within = None
        return is_done

    begin = len(statement)
    for is_anew in (False, True):
        if is_anew:
            before = job.having(TaskStatus.RESERVED)
            if not before:
                return False
            for task in before:
                statement.unallocate(task)
        tasks = tasks_to_place(session, job)
        found = try_what_is_needed(session, statement, job, tasks, attempt, Counting.RESERVED)
        if found is not None and _is_enough(session, job):
            return True
        statement.rollback(begin)
    return False


def _move(session: Session, reservations: Mapping[TaskState, NodeState]) -> None:
    """Reserve other nodes for tasks that are Reserved."""
    with session.statement(is_trial=True) as statement:
        for task, node in reservations.items():
            statement.unallocate(task)
            statement.reserve(task, node)
        statement.commit()


def _starts_on_its_node(session: Session, statement: Statement, task: TaskState) -> bool:
    """Start a Reserved task on its reserved node if possible now; return whether it started."""
    node = task.node
    assert node is not None
    if session.can_start(task, node):
        statement.allocate(task, node)
        return True
    return False


def _is_enough(session: Session, job: JobState) -> bool:
    """Return whether a job can start, now or once what is reserved for it is free."""
    return session.plugins.job_ready(job) or session.plugins.job_condition_ready(job)


def _is_limited(session: Session, job: JobState) -> bool:
    """Return whether the limits of the job's queue forbid what it needs, whichever tasks leave."""
    need = need_of(session, job, tasks_to_place(session, job))
    if need is None:
        return False
    assert job.queue is not None
    return record_limit(session, need, session.plugins.allocatable(job.queue, need))


def _could_be_scheduled(session: Session, job: JobState) -> bool:
    """Return whether the job could become ready now, or one more task of a ready job fits.

    A job with a task that an action already failed to place in this cycle could not: any room
    that it finds now was given back by others since, and they will hold it again in the next
    cycle. If such a job stopped the action, it could do so for ever.
    """
    tasks = tasks_to_place(session, job)
    if any(session.reports.about(task).found_no_place for task in tasks):
        return False
    with session.statement(is_trial=True) as statement:
        if not may_go_anywhere(session, job):
            place_now = partial(place, session, ladder=NOW)
            found = try_in_turn_what_is_needed(session, statement, job, tasks, place_now)
            return found is not None
        if job.groups is not None:
            need = need_of(session, job, tasks)
            return need is not None and all(
                place(session, statement, task, NOW) for task in need.tasks
            )
        for left, task in zip(reversed(range(len(tasks))), tasks, strict=True):
            if place(session, statement, task, NOW):
                if session.plugins.job_ready(job):
                    return True
            elif job.lacks(Counting.HOPED) > left and not session.plugins.job_ready(job):
                return False
    return False


# Which nodes may be reserved


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
    return fits(wanted, session.state.node_room.for_jobs(node)) and has_choice_if_empty(
        session, task, node
    )


MOST_KINDS = 64
"""Nodes are kept sorted for at most this many kinds of tasks, the most recently used."""

Entry = tuple[float, int]
"""Minus a node's score, and its slot: the smallest goes first."""


class _Group(Enum):
    OPEN = "no reservations, and the task fits now"
    SHORT = "no reservations, and the task does not fit now"
    RESERVED = "reservations"


def _group_of(session: Session, task: TaskState, node: NodeState) -> _Group:
    if node.reserved_tasks:
        return _Group.RESERVED
    return _Group.OPEN if session.fits(task, node, Fit.NOW) else _Group.SHORT


class _Ranked:
    """The nodes that may hold a reservation for one kind of task, by group and score."""

    def __init__(self) -> None:
        self.entries: dict[_Group, SortedList[Entry]] = {group: SortedList() for group in _Group}
        self.with_promises: dict[_Group, dict[int, Entry]] = {group: {} for group in _Group}
        """Nodes where something may be promised to others, for which jobs get different answers."""
        self._group_of: dict[int, tuple[_Group, Entry]] = {}

    def take_out(self, slot: int) -> None:
        known = self._group_of.pop(slot, None)
        if known is not None:
            group, entry = known
            if self.with_promises[group].pop(slot, None) is None:
                self.entries[group].remove(entry)

    def put_in(self, node: NodeState, group: _Group, score: float) -> None:
        entry = (-score, node.slot)
        self._group_of[node.slot] = (group, entry)
        if node.divergence_count:
            self.with_promises[group][node.slot] = entry
        else:
            self.entries[group].add(entry)


class ReservableNodes:
    """The nodes that may be reserved, sorted for each kind of task."""

    def __init__(
        self,
        session: Session,
        can_hold: Callable[[Session, TaskState, NodeState], bool] = can_hold_reservation,
    ) -> None:
        self._session = session
        self._can_hold = can_hold
        """Whether a node may hold a reservation; depends on the node and the kind of task only."""
        self._remembered = Remembered(session.log, most=MOST_KINDS)

    def most_room_now(self, task: TaskState, within: NodeSet | None = None) -> NodeState | None:
        """Return the best node without reservations where the task fits now, of a set if given."""
        return self._best(task, within, [_Group.OPEN])

    def most_room(
        self, task: TaskState, within: NodeSet | None = None, *, only_reserved: bool
    ) -> NodeState | None:
        """Return the best node; if `only_reserved`, of the nodes that have reservations."""
        return self._best(task, within, [_Group.RESERVED] if only_reserved else list(_Group))

    def _best(
        self, task: TaskState, within: NodeSet | None, groups: Iterable[_Group]
    ) -> NodeState | None:
        """Return the node of some groups that has the most room and may hold the reservation.

        O(log nodes); O(nodes) within a set.
        """
        ranked, nodes = self._ranked_for(task), self._session.slots
        found: list[Entry] = []
        for group in groups:
            entries = ranked.entries[group]
            if within is None:
                found += entries[:1]
            else:
                first = next((entry for entry in entries if entry[1] in within.slots), None)
                found += [] if first is None else [first]
            for slot, entry in ranked.with_promises[group].items():
                if (within is None or slot in within.slots) and not promised_to_others(
                    task, nodes[slot]
                ):
                    found.append(entry)
        return nodes[min(found)[1]] if found else None

    def _ranked_for(self, task: TaskState) -> _Ranked:
        """Return the nodes for tasks of the same kind; nothing is kept for an unknown kind."""
        session = self._session

        def rank(ranked: _Ranked, changed: Iterable[int] | None) -> _Ranked:
            slots = [node.slot for node in session.nodes] if changed is None else changed
            for slot in slots:
                node = session.slots[slot]
                ranked.take_out(slot)
                if (
                    self._can_hold(session, task, node)
                    and session.placement.refusal(task, node) is None
                ):
                    score = session.plugins.node_order_on_resource(task, node)
                    ranked.put_in(node, _group_of(session, task, node), score)
            return ranked

        kind = session.placement.kind(task)
        if kind is None:
            return rank(_Ranked(), None)
        return self._remembered.recall(kind, lambda: rank(_Ranked(), None), rank, DependsOn.NODES)
