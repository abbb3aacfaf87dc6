"""The outcome of tasks, and the use of a cluster once a cycle has taken effect."""

from __future__ import annotations

from attrs import frozen

from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot

__all__ = ["Fate", "Use", "fates", "use_of"]


@frozen
class Fate:
    """The outcome of a cycle for one task."""

    what: str
    """``starts``, ``evicted``, ``promised``, ``reserved``, ``waits``, or its status."""
    node: str | None = None
    reason: str = ""
    """Why it waits; empty if it does not."""

    def __str__(self) -> str:
        where = f" on {self.node}" if self.node is not None and self.what != "evicted" else ""
        return f"{self.what}{where}"


@frozen
class Use:
    """The use of a cluster, as shares of the whole."""

    of_dimension: dict[str, float]
    """Dimension to the share in use of what all nodes have."""
    of_queue: dict[str, float]
    """Queue to the dominant share that its tasks hold."""


def fates(snapshot: Snapshot, result: CycleResult) -> dict[str, Fate]:
    """Return the outcome of each task of each job, by UID."""
    found: dict[str, Fate] = {}
    for job in snapshot.jobs:
        for task in job.tasks:
            reason = result.pending.get(task.uid)
            if reason is not None:
                found[task.uid] = Fate("waits", None, reason.text)
            else:
                found[task.uid] = Fate(task.status.value, task.node_name)
    for uid, outcome in result.tasks.items():
        if outcome.status is TaskStatus.ALLOCATED and outcome.node_name is not None:
            # It has a place, and waits for the rest of its job.
            found[uid] = Fate("promised", outcome.node_name)
    for bind in result.binds:
        found[bind.task_uid] = Fate("starts", bind.node_name)
    for eviction in result.evictions:
        found[eviction.task_uid] = Fate("evicted", eviction.node_name)
    for promises, word in (
        (result.pipelined, "promised"),
        (result.conditional, "promised"),
        (result.reserved, "reserved"),
    ):
        for promise in promises:
            found[promise.task_uid] = Fate(word, promise.node_name)
    return found


def use_of(snapshot: Snapshot, result: CycleResult | None) -> Use:
    """Return the use after a cycle; without a result, the use before it. O(tasks)."""
    starts = set[str]() if result is None else {bind.task_uid for bind in result.binds}
    gone = set[str]() if result is None else {e.task_uid for e in result.evictions}

    def holds(task: TaskInfo) -> bool:
        if task.uid in starts:
            return True
        return task.status.holds and task.status is not TaskStatus.RELEASING

    total = sum_resources(node.allocatable for node in snapshot.nodes)
    by_queue: dict[str, Resource] = {queue.name: Resource() for queue in snapshot.queues}
    for job in snapshot.jobs:
        held = sum_resources(t.resreq for t in job.tasks if t.uid not in gone and holds(t))
        by_queue[job.queue] = by_queue.get(job.queue, Resource()) + held
    others = sum_resources(task.resreq for task in snapshot.other_tasks if holds(task))
    used = sum_resources([others, *by_queue.values()])
    return Use(
        {name: _part(used.get(name), amount) for name, amount in total.dimensions() if amount},
        {
            name: max((_part(held.get(d), a) for d, a in total.dimensions() if a), default=0.0)
            for name, held in sorted(by_queue.items())
        },
    )


def _part(amount: float, total: float) -> float:
    return amount / total if total else 0.0
