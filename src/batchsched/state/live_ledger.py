"""A ledger that outlives a cycle and is updated incrementally, O(changes).

Between cycles the ledger equals the cluster's content. The changes of a cycle are recorded, and
undone at its end.

Nodes have slots: stable numbers by which engines store data of each node. Slots follow node order,
as positions do, but adding or removing a node changes few other slots: there are vacant slots in
between. The layout is that of a packed-memory array; Itai, Konheim and Rodeh, "A Sparse Table
Implementation of Priority Queues" (ICALP 1981).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping
from itertools import compress
from operator import attrgetter
from typing import cast

from sortedcontainers import SortedDict

from batchsched.model.cluster import (
    JobInfo,
    NodeInfo,
    Queue,
    TaskInfo,
    TaskStatus,
    choices_of,
)
from batchsched.model.immutable import EMPTY
from batchsched.model.resources import Resource
from batchsched.model.snapshot import Snapshot
from batchsched.state.ledger import Ledger, Origin
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import Vector, minus, plus

PER_VACANT = 8
"""One of this many slots is left vacant when nodes are spread out."""
FARTHEST = 64
"""The most nodes that are moved to make room for one; otherwise all are spread out again."""


class NodeSlots:
    """The nodes of a cluster by slot, and in order."""

    def __init__(self, nodes: list[NodeState], changes: list[int], zero: Vector) -> None:
        self._in_order = nodes
        self._changes = changes
        self._zero = zero
        self.by_slot: list[NodeState] = list(nodes)
        """The node at each slot; vacant slots have a placeholder."""
        self.vacant: set[int] = set()
        """The slots without a node."""
        self._noted: set[int] | None = set()
        """The slots whose node was replaced or changed; None: possibly all."""

    def insert(self, node: NodeState) -> None:
        """Add a node. O(nodes) for the positions; few slots change."""
        place = bisect_left(self._in_order, node.name, key=attrgetter("name"))
        self._in_order.insert(place, node)
        self._number(place)
        slot = self._room_at(place)
        if slot is None:
            self.spread()
        else:
            self._put(slot, node)

    def remove(self, node: NodeState) -> None:
        """Remove a node. O(nodes) for the positions; one slot changes."""
        del self._in_order[node.index]
        self._number(node.index)
        self._vacate(node.slot)

    def note(self, slot: int) -> None:
        """Record that the node at a slot was replaced or changed."""
        self._changes.append(slot)
        if self._noted is not None:
            self._noted.add(slot)

    def take_changed(self) -> set[int] | None:
        """Return the slots noted since the last call; None: all slots were assigned again."""
        noted, self._noted = self._noted, set()
        return noted

    def spread(self) -> None:
        """Assign all slots again, with vacant slots evenly in between. O(nodes)."""
        self._lay_out(gap_after=PER_VACANT - 1)

    def close_gaps(self) -> None:
        """Make the slot of each node equal to its position. O(nodes)."""
        if self.vacant:
            self._lay_out(gap_after=len(self._in_order) + 1)

    def _lay_out(self, *, gap_after: int) -> None:
        self._noted = None
        self.by_slot.clear()
        self.vacant.clear()
        for position, node in enumerate(self._in_order):
            if position and not position % gap_after:
                self._append_vacant()
            node.slot = len(self.by_slot)
            self.by_slot.append(node)
        if gap_after <= len(self._in_order):
            self._append_vacant()

    def _append_vacant(self) -> None:
        slot = len(self.by_slot)
        self.vacant.add(slot)
        self.by_slot.append(self._nobody(slot))

    def _nobody(self, slot: int) -> NodeState:
        """Return the placeholder for a vacant slot: an empty node that is never evaluated."""
        nobody = NodeState(NodeInfo(name=""), -1, self._zero, self._zero)
        nobody.slot = slot
        return nobody

    def _room_at(self, place: int) -> int | None:
        """Return a vacant slot between the neighbours of a position, moving nodes if necessary."""
        nodes = self._in_order
        before = nodes[place - 1].slot if place else -1
        after = nodes[place + 1].slot if place + 1 < len(nodes) else len(self.by_slot)
        if after - before > 1:
            return (before + after) // 2
        for distance in range(FARTHEST):
            if after + distance in self.vacant:
                for slot in range(after + distance, after, -1):
                    self._put(slot, self.by_slot[slot - 1])
                return after
            if before - distance in self.vacant:
                for slot in range(before - distance, before):
                    self._put(slot, self.by_slot[slot + 1])
                return before
        return None

    def _put(self, slot: int, node: NodeState) -> None:
        node.slot = slot
        self.by_slot[slot] = node
        self.vacant.discard(slot)
        self.note(slot)

    def _vacate(self, slot: int) -> None:
        self.by_slot[slot] = self._nobody(slot)
        self.vacant.add(slot)
        self.note(slot)

    def _number(self, first: int) -> None:
        for index in range(first, len(self._in_order)):
            self._in_order[index].index = index


class LiveLedger(Ledger):
    """A ledger whose cluster changes between cycles. O(size of the snapshot) to open."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.node_slots = NodeSlots(self.nodes, self.log.nodes, self.dimensions.zero)
        self.slots = self.node_slots.by_slot
        self.vacant = self.node_slots.vacant
        self.jobs = cast("dict[str, JobState]", SortedDict(self.jobs))
        self.origins = {}
        self._diverging: dict[str, TaskState] = {}
        """Tasks whose state differs from their description, by UID.

        They are Pending and on no node: each session decides on their promises or reservations.
        """
        self._scalars = Counter(
            name
            for node in snapshot.nodes
            for name, amount in node.allocatable.scalars.items()
            if amount
        )
        """The number of nodes that have each scalar."""
        for task in self.tasks.values():
            self._note_divergence(task)

    # A cycle

    def begin_cycle(self) -> None:
        """Clear the logs of earlier cycles; list the promises and reservations to decide on."""
        self.log.begin_cycle()
        assert not self.origins
        self.lost_reservations.clear()
        self.initial_promises.clear()
        for task in sorted(self._diverging.values(), key=_job_and_uid):
            is_promise = task.info.status is TaskStatus.PIPELINED
            awaits = self.initial_promises if is_promise else self.lost_reservations
            awaits.append((task, task.info.node_name or ""))

    def moved(self) -> dict[TaskState, Origin]:
        """Return the tasks that were moved in this cycle, with their state before."""
        assert self.origins is not None
        return self.origins

    def diverging(self) -> Iterable[TaskState]:
        """Return the tasks whose state differs from their description."""
        return self._diverging.values()

    def undo_cycle(self, now: Mapping[str, TaskInfo]) -> list[JobState]:
        """Restore the state before the cycle, without notifying listeners; return changed jobs.

        Bound tasks stay where they are if their present description agrees: `settle` then moves
        them, or they leave with their jobs. O(moved tasks).

        Args:
            now: the present descriptions of tasks, by UID.

        """
        assert self.origins is not None
        if not self.origins:
            return []
        all_origins, self.origins = self.origins, None
        self.on_charge = self.on_refund = ()
        origins = {
            task: origin
            for task, origin in all_origins.items()
            if task.status is not TaskStatus.BINDING or not _has_come_true(task, now.get(task.uid))
        }
        for task, (status, node, is_backfill, _) in origins.items():
            # Remove placed tasks first, so that there is room for those that return.
            if task.node is not None and (task.node is not node or not status.holds):
                self.move(task, TaskStatus.PENDING, None, is_backfill=is_backfill)
        for task, (status, node, is_backfill, choices) in origins.items():
            self._let_be(task, status, node, is_backfill=is_backfill, choices=choices)
        for task in all_origins:
            if task.node is not None:  # what was bound is bound by another cycle from now on
                task.node.running = None
            if task.job is None:
                self._forget_leaving(task)
        jobs = dict.fromkeys(task.job for task in all_origins if task.job is not None)
        for job in jobs:
            job.has_bind = False
        self.origins = {}
        return list(jobs)

    def _forget_leaving(self, leaving: TaskState) -> None:
        """Drop what stood for a task that moved, once it is on no node."""
        task = self.tasks.get(leaving.uid)
        if leaving.node is None and task is not None and task.leaving is leaving:
            task.leaving = None
            del self.leaving[task.uid]

    def _let_be(
        self,
        task: TaskState,
        status: TaskStatus,
        node: NodeState | None,
        *,
        is_backfill: bool,
        choices: Mapping[str, Hashable],
    ) -> None:
        before, job = task.status, task.job
        stays = task.node is node and task.is_backfill is is_backfill and task.choices == choices
        if stays and before is status:
            return
        if stays and job is not None and before.occupies and status.occupies:
            self._advance(job, task, status)
        else:
            self.move(task, status, node, is_backfill=is_backfill, choices=choices, is_undo=True)
        if node is not None:
            # A change of status alone is not logged for the node, but plugins may read it.
            node.running = None
            self._note_change(node)

    # Between cycles

    def knows(self, resource: Resource | None) -> bool:
        """Return whether the ledger has all dimensions of a resource."""
        if resource is None or not resource.scalars:
            return True
        names = self.dimensions.names
        return all(name in names for name in resource.scalars)

    def enter_job(self, info: JobInfo) -> JobState:
        """Add a new job. O(log jobs + tasks of the job)."""
        job = self._enter_job(info)
        if job.queue is not None:
            insort(job.queue.jobs, job, key=attrgetter("uid"))
        for task in job.tasks:
            self._note_divergence(task)
        return job

    def leave_job(self, uid: str) -> JobState:
        """Remove a job. O(log jobs + tasks of the job + jobs of the queue)."""
        job = self.jobs.pop(uid)
        for task in job.tasks:
            self._leave(task)
        job.running_by_node = None
        for having in compress(self.jobs_having, job.counts):
            del having[uid]
        self.jobs_short.pop(uid, None)
        self.jobs_held.pop(uid, None)
        self.jobs_in_groups.pop(uid, None)
        if job.queue is not None:
            jobs = job.queue.jobs
            del jobs[bisect_left(jobs, uid, key=attrgetter("uid"))]
        return job

    def enter_other(self, info: TaskInfo) -> None:
        """Add a task without a job."""
        self.other_tasks[info.uid] = self._enter(info, None)

    def leave_other(self, uid: str) -> None:
        """Remove a task without a job."""
        self._leave(self.other_tasks.pop(uid))

    def _leave(self, task: TaskState) -> None:
        if task.node is not None:
            self._book(task, task.node, -1)
        self._take_off_leaving(task)
        del self.tasks[task.uid]
        self.claiming.pop(task.uid, None)
        self._diverging.pop(task.uid, None)

    def _take_off_leaving(self, task: TaskState) -> None:
        """Take what stands for a task off the node that it leaves, and drop it."""
        leaving = task.leaving
        if leaving is not None:
            if leaving.node is not None:
                self._book(leaving, leaving.node, -1)
            task.leaving = None
            del self.leaving[task.uid]

    def describe(self, task: TaskState, info: TaskInfo) -> None:
        """Set a task's description, without a change of requests; `settle` moves the task."""
        task.info = info
        if task.job is not None:
            task.job.likeness = None
        if info.claims:
            self.claiming[task.uid] = task
        else:
            self.claiming.pop(task.uid, None)

    def describe_queue(self, info: Queue) -> None:
        """Set a queue's description, with the same name and parent."""
        self.queues[info.name].info = info

    @staticmethod
    def forget_answers(task: TaskState) -> None:
        """Clear the cached values of a task, because its description has changed."""
        task.kind = -1
        task.order_key = None

    def settle(self, tasks: Iterable[TaskState], *, nodes_gone: Container[str] = ()) -> None:
        """Move tasks to the state in their descriptions, without notifying listeners.

        Args:
            tasks: the tasks.
            nodes_gone: the names of nodes that are about to be removed.

        """
        assert self.origins is not None
        self.origins = None
        self.on_charge = self.on_refund = ()
        tasks = list(tasks)
        # Remove tasks first, so that there is room for those that come.
        for task in tasks:
            info = task.info
            self._take_off_leaving(task)
            if task.node is not None and task.node.name != info.node_name:
                # Most of them have ended, and so are where they belong at once.
                status = info.status if info.node_name is None else TaskStatus.PENDING
                self.move(task, status, None, is_backfill=info.is_backfill)
        for task in tasks:
            info = task.info
            node = None
            if info.node_name is not None and info.node_name not in nodes_gone:
                node = self.node_named.get(info.node_name)
            status = info.status
            if status is TaskStatus.PIPELINED or (info.node_name is not None and node is None):
                status, node = TaskStatus.PENDING, None  # see `Ledger._enter`
            is_placed = node is not None and status is not TaskStatus.RESERVED
            choices = choices_of(info) if is_placed else EMPTY
            self._let_be(task, status, node, is_backfill=info.is_backfill, choices=choices)
            self._enter_leaving(task)
            if task.node is not None:
                task.node.ends = None  # the task's start may have changed even if it did not move
            self._note_divergence(task)
        self.origins = {}

    def _note_divergence(self, task: TaskState) -> None:
        if task.node is None and task.info.node_name is not None:
            self._diverging[task.uid] = task
        else:
            self._diverging.pop(task.uid, None)

    def may_change(self, name: str, info: NodeInfo | None) -> bool:
        """Return whether a node can be added, removed or changed with the same dimensions."""
        if info is not None and not self.knows(info.allocatable):
            return False
        before = self.node_named.get(name)
        scalars = set[str]()
        for described, sign in ((None if before is None else before.info, -1), (info, 1)):
            if described is not None:
                for scalar, amount in described.allocatable.scalars.items():
                    if amount:
                        self._scalars[scalar] += sign
                        scalars.add(scalar)
        there = self.dimensions.names[2 : self.dimensions.in_cluster]
        return all((self._scalars[scalar] > 0) == (scalar in there) for scalar in scalars)

    def put_node(self, info: NodeInfo) -> None:
        """Add a node, or set its description. O(nodes) for a new one."""
        node = self.node_named.get(info.name)
        allocatable = self.dimensions.vector(info.allocatable)
        if node is None:
            node = NodeState(info, -1, allocatable, self.dimensions.zero)
            self.node_slots.insert(node)
            self.node_named[info.name] = node
            self.cluster = plus(self.cluster, allocatable)
            return
        more = minus(allocatable, node.allocatable)
        node.info = info
        node.allocatable = allocatable
        node.idle = plus(node.idle, more)
        self.node_slots.note(node.slot)
        self.cluster = plus(self.cluster, more)

    def remove_node(self, name: str) -> NodeState:
        """Remove an empty node and return it. O(nodes)."""
        node = self.node_named.pop(name)
        assert not node.tasks
        assert not node.reserved_tasks
        self.node_slots.remove(node)
        self.cluster = minus(self.cluster, node.allocatable)
        return node


def _has_come_true(task: TaskState, now: TaskInfo | None) -> bool:
    """Return whether a task that was bound is described anew, as holding its place there."""
    return (
        now is not None
        and now is not task.info
        and now.status.occupies
        and task.node is not None
        and now.node_name == task.node.name
        and now.is_backfill is task.is_backfill
    )


def _job_and_uid(task: TaskState) -> tuple[str, str]:
    return ("" if task.job is None else task.job.uid, task.uid)
