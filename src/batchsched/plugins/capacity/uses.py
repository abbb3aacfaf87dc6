"""Computes what leaves hold and request, and the supply, when a session opens.

On a live cluster both are updated from cycle to cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import define

from batchsched.model.cluster import TaskStatus
from batchsched.model.rules import out_of_service
from batchsched.plugin.changes import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.queue_tree import QueueTree
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import Vector, minus, plus

__all__ = ["Supply", "UsesOfJobs", "uses_of_leaves"]

_WANTED = (TaskStatus.PENDING, TaskStatus.RESERVED)


def uses_of_leaves(
    view: SessionView, tree: QueueTree
) -> tuple[Mapping[int, Vector], Mapping[int, Vector]]:
    """Return what leaves with jobs hold, and hold or wait for, by position. O(tasks)."""
    held: dict[int, Vector] = {}
    requests: dict[int, Vector] = {}
    zero = view.dimensions.zero
    for queue in view.queues.values():
        if queue.jobs:
            position = tree.position[queue.name]
            charged = [each for job in queue.jobs for each in _charged(job)]
            wanted = [each for job in queue.jobs if job.in_session for each in _wanted(job, view)]
            held[position] = _sum(charged, zero)
            requests[position] = plus(held[position], _sum(wanted, zero))
    return held, requests


def _charged(job: JobState) -> list[Vector]:
    return [t.resreq for t in job.tasks if t.status.charged and not t.is_backfill]


def _wanted(job: JobState, view: SessionView) -> list[Vector]:
    """Return the requests of the tasks that a job waits for, as far as its maxima allow."""
    wanted = [t for t in job.tasks if t.status in _WANTED and not t.is_backfill]
    if job.groups is not None:
        reserved = [t for t in wanted if t.status is TaskStatus.RESERVED]
        pending = [t for t in wanted if t.status is TaskStatus.PENDING]
        wanted = reserved + job.groups.within_maxima(view.in_task_order(pending))
    return [t.resreq for t in wanted]


def _sum(vectors: Sequence[Vector], zero: Vector) -> Vector:
    if not vectors:
        return zero
    first, count = vectors[0], len(vectors)
    if vectors.count(first) == count:  # the usual case
        return first if count == 1 else tuple([a * count for a in first])
    total = zero
    for vector, times in Counter(vectors).items():
        total = plus(total, tuple([a * times for a in vector]))
    return total


@define(eq=False)
class _Use:
    """The use of one job: what it holds and waits for."""

    job: JobState
    leaf: int
    held: Vector
    wanted: Vector
    counts: bool
    """Whether `wanted` is included: whether the job was in the session at the last update."""


class UsesOfJobs:
    """The use of each job of a live cluster, and of each leaf."""

    def __init__(self, view: SessionView, tree: QueueTree) -> None:
        """Compute the uses of all jobs. O(tasks)."""
        self._view = view
        self._tree = tree
        self._zero = view.dimensions.zero
        self._of_job: dict[str, _Use] = {}
        self._waiting: dict[str, _Use] = {}
        self._held: dict[int, Vector] = {}
        self._wanted: dict[int, Vector] = {}
        self._requests: dict[int, Vector] = {}
        """What leaves hold or wait for, without the changes of those in `_changed`."""
        self._changed: set[int] = set()
        for job in view.jobs.values():
            self._enter(job)

    def catch_up(self, changes: Changes) -> None:
        """Update the uses of changed jobs. O(their tasks)."""
        for job in changes.jobs_gone:
            self._leave(job.uid)
        for job in changes.jobs:
            self._leave(job.uid)
            self._enter(job)

    def of_leaves(self) -> tuple[Mapping[int, Vector], Mapping[int, Vector]]:
        """Return what leaves hold, and hold or wait for. O(changed leaves + waiting jobs)."""
        for use in self._waiting.values():
            if use.counts is not use.job.in_session:
                use.counts = use.job.in_session
                change = plus if use.counts else minus
                self._wanted[use.leaf] = change(self._wanted[use.leaf], use.wanted)
                self._changed.add(use.leaf)
        for leaf in self._changed:
            self._requests[leaf] = plus(self._held[leaf], self._wanted[leaf])
        self._changed.clear()
        return self._held, self._requests

    def _enter(self, job: JobState) -> None:
        if job.queue is None:
            return
        leaf = self._tree.position[job.queue.name]
        held = _sum(_charged(job), self._zero)
        waits = job.count(TaskStatus.PENDING) or job.count(TaskStatus.RESERVED)
        wanted = _sum(_wanted(job, self._view), self._zero) if waits else self._zero
        use = self._of_job[job.uid] = _Use(job, leaf, held, wanted, counts=False)
        if any(wanted):
            self._waiting[job.uid] = use
        self._held[leaf] = plus(self._held.get(leaf, self._zero), held)
        self._wanted.setdefault(leaf, self._zero)
        self._changed.add(leaf)

    def _leave(self, uid: str) -> None:
        use = self._of_job.pop(uid, None)
        if use is None:
            return
        self._held[use.leaf] = minus(self._held[use.leaf], use.held)
        self._changed.add(use.leaf)
        if self._waiting.pop(uid, None) is not None and use.counts:
            self._wanted[use.leaf] = minus(self._wanted[use.leaf], use.wanted)


class Supply:
    """The supply of queues: nodes in service, without what tasks of no queue hold there."""

    def __init__(self, view: SessionView) -> None:
        """Compute the supply. O(nodes + tasks of no queue + tasks on nodes out of service)."""
        self._view = view
        self._zero = view.dimensions.zero
        self._out_of_service: dict[str, NodeState] = {}
        self._of_node: dict[str, Vector] = {}
        """The supply of each node in service, by name."""
        self._sum = self._zero
        self._without_queue = {job.uid: job for job in view.jobs.values() if job.queue is None}
        self._others = self._held_by_others()
        for node in view.nodes:
            self._enter(node)

    def catch_up(self, changes: Changes) -> None:
        """Update the supply. O(changed nodes), or O(nodes) if tasks of no queue changed."""
        touched = {node.name: node for node in changes.nodes}
        for node in changes.nodes_gone:
            self._leave(node.name)
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

    def _others_changed(self, changes: Changes) -> bool:
        found = changes.other_tasks or bool(changes.nodes or changes.nodes_gone)
        for job in changes.jobs_gone:
            found |= self._without_queue.pop(job.uid, None) is not None
        for job in changes.jobs:
            if job.queue is None:
                self._without_queue[job.uid] = job
                found = True
        return found

    def total(self) -> Vector:
        """Return the supply. O(nodes out of service + tasks there)."""
        total = self._sum
        for node in self._out_of_service.values():
            for task in node.tasks.values():
                if task.status.holds and _is_of_queue(task):
                    total = plus(total, task.resreq)
        return total

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
        if out_of_service(node.info) is not None:
            self._out_of_service[node.name] = node
            return
        left = node.allocatable
        others = self._others.get(node.name)
        if others is not None:
            left = tuple([max(0, amount) for amount in minus(left, others)])
        self._of_node[node.name] = left
        self._sum = plus(self._sum, left)

    def _leave(self, name: str) -> None:
        self._out_of_service.pop(name, None)
        known = self._of_node.pop(name, None)
        if known is not None:
            self._sum = minus(self._sum, known)


def _is_of_queue(task: TaskState) -> bool:
    return task.job is not None and task.job.queue is not None
