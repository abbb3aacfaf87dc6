"""What queues hold at a moment, and what there is room for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batchsched import NodeInfo, TaskInfo, TaskStatus
from tests.reference.queue_shares import DemandedTree
from tests.reference.state import State

__all__ = ["CHARGED", "Amounts", "Holdings", "size_of", "takes_no_tasks", "total_of_dimension"]

CHARGED = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
)

Amounts = dict[str, int]
"""Amounts by dimension."""


def size_of(state: State, dimensions: Iterable[str], tasks: Iterable[TaskInfo]) -> Amounts:
    """Return what queues are charged for tasks, each counted once."""
    charged = {task.uid: task for task in tasks if not state.is_backfill(task)}
    return {d: sum(int(task.resreq.get(d)) for task in charged.values()) for d in dimensions}


def takes_no_tasks(node: NodeInfo) -> bool:
    """Return whether a node is out of service."""
    return (
        node.unschedulable
        or node.conditions.get("Ready", "True") != "True"
        or node.conditions.get("NetworkUnavailable", "False") != "False"
    )


def total_of_dimension(state: State, leaves: Sequence[str], dimension: str) -> int:
    """Return what there is to share (T)."""
    total = 0
    for node in state.snapshot.nodes:
        mine, others = _held_on(state, leaves, dimension, node)
        if takes_no_tasks(node):
            total += sum(amount for _, amount in mine)
        else:
            total += max(0, int(node.allocatable.get(dimension)) - others)
    return total


def _held_on(
    state: State, leaves: Sequence[str], dimension: str, node: NodeInfo
) -> tuple[list[tuple[TaskInfo, int]], int]:
    """Return what each task of a leaf holds on a node, and what all other tasks hold there."""
    mine: list[tuple[TaskInfo, int]] = []
    others = 0
    for task in state.tasks_on(node):
        if state.status(task).holds:
            job = state.job_of.get(task.uid)
            amount = int(task.resreq.get(dimension))
            if job is not None and job.queue in leaves:
                mine.append((task, amount))
            else:
                others += amount
    return mine, others


class Holdings:
    """What all queues hold now, without some tasks and with some others."""

    def __init__(
        self,
        state: State,
        dimensions: Sequence[str],
        leaving: Iterable[TaskInfo] = (),
        joining: Iterable[TaskInfo] = (),
    ) -> None:
        self._state = state
        self._gone = {task.uid for task in leaving}
        joins = {task.uid for task in joining}
        self._trees: dict[str, DemandedTree] = {}
        queues = state.snapshot.queues
        inner = {queue.parent for queue in queues}
        self._leaves = [queue.name for queue in queues if queue.name not in inner]
        charged: dict[str, list[TaskInfo]] = {name: [] for name in self._leaves}
        for job in state.snapshot.jobs:
            if job.queue in charged:
                charged[job.queue] += [
                    task
                    for task in job.tasks
                    if not state.is_backfill(task)
                    and (
                        task.uid in joins
                        or (state.status(task) in CHARGED and task.uid not in self._gone)
                    )
                ]
        for d in dimensions:
            held = {
                name: sum(int(task.resreq.get(d)) for task in tasks)
                for name, tasks in charged.items()
            }
            self._trees[d] = DemandedTree(queues, d, requests={}, allocated=held)

    def allocated(self, name: str, dimension: str) -> int:
        """Return what a queue, or all queues below it, are charged (A)."""
        return self._trees[dimension].allocated(name)

    def hold(self, name: str, dimension: str) -> int:
        """Return what others cannot have of a queue: what it holds, or is guaranteed (H)."""
        return self._trees[dimension].hold(name)

    def top(self, dimension: str) -> int:
        """Return what all queues hold (A), without guarantees."""
        tree = self._trees[dimension]
        return sum(tree.allocated(name) for name in tree.children(None))

    def room(self, dimension: str) -> int:
        """Return what limits leave for all queues together (R)."""
        room = 0
        for node in self._state.snapshot.nodes:
            mine, others = _held_on(self._state, self._leaves, dimension, node)
            stays = sum(
                amount
                for task, amount in mine
                if self._state.status(task) is not TaskStatus.RELEASING
                and task.uid not in self._gone
            )
            if takes_no_tasks(node):
                room += stays
            else:
                room += max(int(node.allocatable.get(dimension)) - others, stays)
        return room

    def excess(self, dimension: str) -> int:
        """Return by how much the holds of all queues exceed the room."""
        tree = self._trees[dimension]
        return sum(tree.hold(name) for name in tree.children(None)) - self.room(dimension)
