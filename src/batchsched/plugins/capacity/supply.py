"""What there is for queues: the total that they share, the room that limits them, and its units.

Both sums are over the nodes. What runs on devices that were lost counts differently: the total is
what exists, so that nothing is shared out that is not there; the room also has what stays on lost
devices, since it leaves no less for others than before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from batchsched.model.cluster import TaskStatus
from batchsched.model.rules import out_of_service
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.queues import QueueTree
from batchsched.plugin.session_view import SessionView
from batchsched.plugins.capacity.shares import Entitlements
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import Vector, minus, plus, total_of

WHOLE = 1000
"""The amount of one device, in the unit of a `Resource`."""


class Supply:
    """The total and the room of all queues together: the definition."""

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._zero = view.dimensions.zero

    def catch_up(self, changes: Changes, /) -> None:
        """Take note of what changed between two cycles."""

    def record_move(self, task: TaskState, /) -> None:
        """Take note of a task that was charged or refunded."""

    def total(self) -> Vector:
        """Return what queues share: what nodes in service have for them.

        That is what is not held by tasks of no queue. Of nodes out of service, what tasks of
        queues hold there.
        """
        total = self._zero
        for node in self._view.nodes:
            available = self._available(node)
            total = plus(total, self._held(node) if available is None else available)
        return total

    def room(self, leaving: Collection[TaskState] = (), /) -> Vector:
        """Return the most that queues may hold together, once some tasks have left.

        On a node in service that is at least what tasks of queues hold there and keep holding.
        """
        gone = {task.uid for task in leaving}
        room = self._zero
        for node in self._view.nodes:
            available, staying = self._available(node), self._staying(node, gone)
            room = plus(room, staying if available is None else _larger(available, staying))
        return room

    def _available(self, node: NodeState) -> Vector | None:
        """Return what a node has for queues; None: it is out of service."""
        if out_of_service(node.info) is not None:
            return None
        return _not_negative(minus(node.allocatable, self._held(node, by_queues=False)))

    def _held(self, node: NodeState, *, by_queues: bool = True) -> Vector:
        """Return what tasks of queues, or all others, hold on a node."""
        return self._sum_of(
            task
            for task in node.tasks.values()
            if task.status.holds and _is_of_queue(task) is by_queues
        )

    def _staying(self, node: NodeState, gone: Collection[str]) -> Vector:
        """Return what tasks of queues hold on a node that are not leaving it."""
        return self._sum_of(
            task
            for task in node.tasks.values()
            if task.status.holds
            and task.status is not TaskStatus.RELEASING
            and task.uid not in gone
            and _is_of_queue(task)
        )

    def _sum_of(self, tasks: Iterable[TaskState]) -> Vector:
        return total_of([task.resreq for task in tasks], self._zero)


class RememberedSupply(Supply):
    """The total and the room, kept up to date: only few nodes are looked at again.

    Room and total differ only on nodes that are out of service, and on those that are
    overcommitted, which they can become only between cycles.
    """

    def __init__(self, view: SessionView) -> None:
        """Compute them. O(nodes + tasks of no queue + tasks on nodes out of service)."""
        super().__init__(view)
        self._of_node: dict[str, Vector] = {}
        """What each node in service has for queues, by name."""
        self._sum = self._zero
        """What all of them have."""
        self._odd: dict[str, NodeState] = {}
        """The nodes that are out of service or overcommitted, by name."""
        self._beyond: dict[str, Vector] = {}
        """What the room on odd nodes is more than the total, as far as it is known."""
        self._room: Vector | None = None
        self._where: dict[str, str] = {}
        """The odd nodes where tasks are, or were, by UID."""
        self._without_queue = {job.uid: job for job in view.jobs.values() if job.queue is None}
        self._others = self._held_by_others()
        for node in view.nodes:
            self._enter(node)

    def catch_up(self, changes: Changes, /) -> None:
        """Update the sums. O(changed nodes and tasks), or O(nodes) if tasks of no queue changed."""
        for node in changes.nodes_gone:
            self._leave(node.name)
        self._where.clear()
        # Any other node becomes overcommitted, or ceases to be, only by tasks that changed.
        touched = dict(self._odd)
        nodes = dict.fromkeys(task.node for job in changes.jobs for task in job.tasks)
        touched.update(
            (node.name, node) for node in nodes if node is not None and min(node.idle) < 0
        )
        touched.update((node.name, node) for node in changes.nodes)
        before = self._others
        if self._others_changed(changes):
            self._others = self._held_by_others()
        if before != self._others:
            known = before.keys() | self._others.keys()
            concerned = (node for node in self._view.nodes if node.name in known)
            touched.update((node.name, node) for node in concerned)
        for name, node in touched.items():
            self._leave(name)
            self._enter(node)

    def record_move(self, task: TaskState, /) -> None:
        """Take note of a task that was charged or refunded. O(1)."""
        if not self._odd:
            return
        if task.node is not None and task.node.name in self._odd:
            self._where[task.uid] = task.node.name
        where = self._where.get(task.uid)  # a task that is refunded is on no node just then
        if where is not None:
            self._beyond.pop(where, None)
            self._room = None

    def total(self) -> Vector:
        """Return what queues share. O(nodes out of service + tasks there)."""
        total = self._sum
        for name, node in self._odd.items():
            if name not in self._of_node:
                total = plus(total, self._held(node))
        return total

    def room(self, leaving: Collection[TaskState] = (), /) -> Vector:
        """Return the most that queues may hold together.

        O(tasks leaving, and tasks on odd nodes where tasks are leaving or have moved).
        """
        if self._room is None:
            room = self._sum
            for node in self._odd.values():
                room = plus(room, self._more_on(node))
            self._room = room
        if not (leaving and self._odd):
            return self._room
        room, gone = self._room, {task.uid for task in leaving}
        there = {task.node for task in leaving if task.node is not None}
        for node in there:
            if node.name in self._odd:
                room = plus(minus(room, self._more_on(node)), self._beyond_on(node, gone))
        return room

    def _more_on(self, node: NodeState) -> Vector:
        known = self._beyond.get(node.name)
        if known is None:
            known = self._beyond[node.name] = self._beyond_on(node, ())
        return known

    def _beyond_on(self, node: NodeState, gone: Collection[str]) -> Vector:
        staying = self._staying(node, gone)
        available = self._of_node.get(node.name)
        return staying if available is None else _not_negative(minus(staying, available))

    def _others_changed(self, changes: Changes) -> bool:
        found = changes.other_tasks or bool(changes.nodes or changes.nodes_gone)
        for job in changes.jobs_gone:
            found |= self._without_queue.pop(job.uid, None) is not None
        for job in changes.jobs:
            if job.queue is None:
                self._without_queue[job.uid] = job
                found = True
        return found

    def _held_by_others(self) -> dict[str, Vector]:
        """Return what tasks of no queue hold on nodes, by name."""
        held: dict[str, Vector] = {}
        of_jobs = (task for job in self._without_queue.values() for task in job.tasks)
        for task in (*self._view.other_tasks.values(), *of_jobs):
            if task.node is not None and task.status.holds:
                name = task.node.name
                held[name] = plus(held.get(name, self._zero), task.resreq)
        return held

    def _enter(self, node: NodeState) -> None:
        self._room = None
        if out_of_service(node.info) is not None:
            self._enter_odd(node)
            return
        left = node.allocatable
        others = self._others.get(node.name)
        if others is not None:
            left = _not_negative(minus(left, others))
        self._of_node[node.name] = left
        self._sum = plus(self._sum, left)
        if min(node.idle) < 0:
            self._enter_odd(node)

    def _enter_odd(self, node: NodeState) -> None:
        self._odd[node.name] = node
        self._where.update(dict.fromkeys(node.tasks, node.name))

    def _leave(self, name: str) -> None:
        self._room = None
        self._odd.pop(name, None)
        self._beyond.pop(name, None)
        known = self._of_node.pop(name, None)
        if known is not None:
            self._sum = minus(self._sum, known)


class WholeDevices:
    """Finds the dimensions of which the snapshot has whole devices only.

    Cpu and memory are never among them. No name decides: in a dimension of which anything asks for
    half a device, thousandths are shared.
    """

    def __init__(self, view: SessionView, tree: QueueTree) -> None:
        """Look at everything. O(nodes + tasks), or O(1) without other dimensions."""
        self._view = view
        names = view.dimensions.names
        self._candidates = [
            dimension
            for dimension in range(2, len(names))
            if not _grants_parts(Entitlements(tree, names[dimension]))
        ]
        self._of_jobs: dict[str, frozenset[int]] = {}
        """The dimensions in which jobs ask for parts of devices, by UID, if they do."""
        self._of_nodes: dict[str, frozenset[int]] = {}
        """Those in which nodes have parts of devices, by name, if they do."""
        self._of_others = frozenset[int]()
        """Those in which tasks without a job ask for them."""
        if self._candidates:
            self._look_at_nodes(view.nodes)
            self._look_at_jobs(view.jobs.values())
            self._look_at_others()

    def catch_up(self, changes: Changes, /) -> None:
        """Take note of what changed between two cycles. O(changed nodes and tasks)."""
        if not self._candidates:
            return
        for gone in changes.jobs_gone:
            self._of_jobs.pop(gone.uid, None)
        for node in changes.nodes_gone:
            self._of_nodes.pop(node.name, None)
        self._look_at_nodes(changes.nodes)
        self._look_at_jobs(changes.jobs)
        if changes.other_tasks:
            self._look_at_others()

    def units(self) -> Sequence[int]:
        """Return, by dimension, the unit in which shares are dealt: 1, or 1000 for a device."""
        in_parts = self._of_others.union(*self._of_jobs.values(), *self._of_nodes.values())
        whole = {each for each in self._candidates if each not in in_parts}
        return [WHOLE if d in whole else 1 for d in range(len(self._view.dimensions.names))]

    def _look_at_nodes(self, nodes: Iterable[NodeState]) -> None:
        for node in nodes:
            _note(self._of_nodes, node.name, self._parts_in([node.allocatable]))

    def _look_at_jobs(self, jobs: Collection[JobState]) -> None:
        # There are far fewer different requests than jobs, and mostly no parts at all.
        distinct = {task.resreq for job in jobs for task in job.tasks}
        parts = {resreq: self._parts_in([resreq]) for resreq in distinct}
        if not self._of_jobs and not any(parts.values()):
            return
        for job in jobs:
            of_tasks = [parts[task.resreq] for task in job.tasks]
            _note(self._of_jobs, job.uid, frozenset[int]().union(*of_tasks))

    def _look_at_others(self) -> None:
        others = self._view.other_tasks.values()
        self._of_others = self._parts_in(task.resreq for task in others)

    def _parts_in(self, vectors: Iterable[Vector]) -> frozenset[int]:
        distinct = set(vectors)
        return frozenset(d for d in self._candidates if any(each[d] % WHOLE for each in distinct))


def _note(parts_of: dict[str, frozenset[int]], name: str, parts: frozenset[int]) -> None:
    if parts:
        parts_of[name] = parts
    else:
        parts_of.pop(name, None)


def _grants_parts(granted: Entitlements) -> bool:
    """Return whether queues are granted parts of devices."""
    amounts = (*granted.guarantees, *granted.deserved, *granted.limits)
    return any(amount is not None and amount % WHOLE for amount in amounts)


def _is_of_queue(task: TaskState) -> bool:
    return task.job is not None and task.job.queue is not None


def _larger(left: Vector, right: Vector) -> Vector:
    return tuple(map(max, left, right))


def _not_negative(vector: Vector) -> Vector:
    return tuple([max(0, amount) for amount in vector])
