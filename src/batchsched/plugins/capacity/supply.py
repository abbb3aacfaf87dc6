"""What there is for queues: the total that they share, the ceiling that limits them, and its units.

Both sums are over the nodes. What runs on devices that were lost counts differently: the total is
what exists, so that nothing is shared out that is not there; the ceiling has what stays on lost
devices, since it leaves no less for others than before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce

from batchsched.model.cluster import TaskStatus
from batchsched.model.rules import out_of_service
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, minus, plus, total_of


class Supply:
    """The total and the ceiling of all queues together: the definition."""

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._zero = view.dimensions.zero

    def catch_up(self, changes: Changes, /) -> None:
        """Take note of what changed between two cycles."""

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

    def ceiling(self, leaving: Collection[TaskState] = (), /) -> Vector:
        """Return the most that queues may hold together, once some tasks have left.

        On a node in service that is at least what tasks of queues hold there and keep holding.
        """
        gone = {task.uid for task in leaving}
        ceiling = self._zero
        for node in self._view.nodes:
            available, staying = self._available(node), self._staying(node, gone)
            ceiling = plus(ceiling, staying if available is None else _larger(available, staying))
        return ceiling

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
    """The total and the ceiling, kept up to date: only few nodes are looked at again.

    Ceiling and total differ only on nodes that are out of service, and on those that are
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
        """By how much the ceiling exceeds the total for odd nodes, as far as it is known."""
        self._ceiling: Vector | None = None
        self._read_up_to = len(view.node_log)
        self._without_queue = {job.uid: job for job in view.jobs.values() if job.queue is None}
        self._others = self._held_by_others()
        for node in view.nodes:
            self._enter(node)

    def catch_up(self, changes: Changes, /) -> None:
        """Update the sums. O(changed nodes and tasks), or O(nodes) if tasks of no queue changed."""
        for node in changes.nodes_gone:
            self._leave(node.name)
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
        self._read_up_to = len(self._view.node_log)

    def total(self) -> Vector:
        """Return what queues share. O(nodes out of service + tasks there)."""
        held = [self._held(node) for name, node in self._odd.items() if name not in self._of_node]
        return reduce(plus, held, self._sum)

    def ceiling(self, leaving: Collection[TaskState] = (), /) -> Vector:
        """Return the most that queues may hold together.

        O(changes; tasks leaving, and tasks on odd nodes where tasks are leaving or have moved).
        """
        if self._odd:
            log = self._view.node_log
            for slot in log[self._read_up_to :]:
                if self._beyond.pop(self._view.slots[slot].name, None) is not None:
                    self._ceiling = None
            self._read_up_to = len(log)
        if self._ceiling is None:
            self._ceiling = reduce(plus, map(self._more_on, self._odd.values()), self._sum)
        if not (leaving and self._odd):
            return self._ceiling
        ceiling, gone = self._ceiling, {task.uid for task in leaving}
        there = {task.node for task in leaving if task.node is not None}
        for node in there:
            if node.name in self._odd:
                ceiling = plus(minus(ceiling, self._more_on(node)), self._beyond_on(node, gone))
        return ceiling

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
        self._ceiling = None
        is_odd = min(node.idle) < 0
        if out_of_service(node.info) is not None:
            is_odd = True
        else:
            left = node.allocatable
            others = self._others.get(node.name)
            if others is not None:
                left = _not_negative(minus(left, others))
            self._of_node[node.name] = left
            self._sum = plus(self._sum, left)
        if is_odd:
            self._odd[node.name] = node

    def _leave(self, name: str) -> None:
        self._ceiling = None
        self._odd.pop(name, None)
        self._beyond.pop(name, None)
        known = self._of_node.pop(name, None)
        if known is not None:
            self._sum = minus(self._sum, known)


def _is_of_queue(task: TaskState) -> bool:
    return task.of_job is not None and task.of_job.queue is not None


def _larger(left: Vector, right: Vector) -> Vector:
    return tuple(map(max, left, right))


def _not_negative(vector: Vector) -> Vector:
    return tuple([max(0, amount) for amount in vector])
