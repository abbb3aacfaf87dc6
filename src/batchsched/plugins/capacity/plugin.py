"""The plugin capacity: who goes first in a tree of queues, and what each may take at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from batchsched.model.reasons import Unfit, UnfitReason
from batchsched.model.status import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.session_view import SessionView
from batchsched.plugins.capacity.accounts import Accounts, Excess
from batchsched.plugins.capacity.amounts import shown_amount
from batchsched.state.needs import Need
from batchsched.state.queue_tree import QueueTree
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, minus, plus

__all__ = ["CapacityPlugin"]

_WANTED = (TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED)


@frozen(kw_only=True)
class CapacityPlugin:
    """Shares the cluster among a tree of queues, and keeps each to its limits.

    It stands in the place of proportion.
    """

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> CapacityPlugin:
        """Take no arguments."""
        return cls()

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Capacity(view)


class _Capacity:
    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._dimensions = view.dimensions.names
        self._tree = QueueTree(queue.info for queue in view.queues.values())
        self._accounts: Accounts | None = None

    @property
    def accounts(self) -> Accounts:
        """What queues are entitled to and hold."""
        if self._accounts is None:
            self._accounts = self._opened()
        return self._accounts

    def jobs_admitted(self) -> None:
        self._accounts = self._opened()

    def _opened(self) -> Accounts:
        held: dict[int, Vector] = {}
        requests: dict[int, Vector] = {}
        zero = self._view.dimensions.zero
        for queue in self._view.queues.values():
            if queue.jobs:
                position = self._tree.position[queue.name]
                held[position] = _sum((t for job in queue.jobs for t in _charged(job)), zero)
                wanted = (t for job in queue.jobs if job.in_session for t in _wanted(job))
                requests[position] = plus(held[position], _sum(wanted, zero))
        return Accounts(
            self._tree,
            self._dimensions,
            total=self._total(),
            held=held,
            requests=requests,
        )

    def _total(self) -> Vector:
        """Return what there is for queues: what others hold is gone, and so is what is down."""
        total = zero = self._view.dimensions.zero
        for node in self._view.nodes:
            of_queues, of_others = zero, zero
            for task in node.tasks.values():
                if task.status.holds:
                    if task.job is not None and task.job.queue is not None:
                        of_queues = plus(of_queues, task.resreq)
                    else:
                        of_others = plus(of_others, task.resreq)
            if _is_in_service(node):
                left = minus(node.allocatable, of_others)
                total = plus(total, tuple([max(0, amount) for amount in left]))
            else:
                total = plus(total, of_queues)
        return total

    # Order

    def queue_order_key(self, queue: QueueState, need: Need | None, /) -> tuple[int, int, float]:
        accounts = self.accounts
        position = self._tree.position[queue.name]
        if need is None:
            return 0, -queue.info.priority, 0.0
        is_within = accounts.is_within_share(position, need.request, need.dimensions)
        saturation = accounts.saturation(position, need.dimensions)
        return int(not is_within), -queue.info.priority, saturation

    # Limits

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        accounts = self.accounts
        leaf = self._tree.position[queue.name]
        closed = accounts.closed_on_path(leaf)
        if closed is not None:
            state = self._tree.queues[closed].state.value
            detail = f"queue {self._tree.names[closed]!r} is {state}"
            return Unfit(UnfitReason.QUEUE_CLOSED, plugin="capacity", detail=detail)
        excess = accounts.excess(leaf, need.request, need.dimensions, self._leaving(need))
        return None if excess is None else self._over_limit(excess)

    def _leaving(self, need: Need) -> Iterator[tuple[int, Vector]]:
        for task in need.leaving:
            leaf = self._leaf_of(task)
            if leaf is not None:
                yield leaf, task.resreq

    def _over_limit(self, excess: Excess) -> Unfit:
        position, dimension, wanted, most = excess
        name = self._dimensions[dimension]
        amounts = (
            f"{shown_amount(name, wanted)} of {name}, {shown_amount(name, wanted - most)} more"
        )
        if position < 0:
            detail = f"with what is guaranteed, queues would hold {amounts} than there is"
        else:
            detail = f"queue {self._tree.names[position]!r} would hold {amounts} than it may"
        return Unfit(UnfitReason.QUEUE_LIMIT, plugin="capacity", detail=detail)

    # Events

    def on_allocate(self, task: TaskState, /) -> None:
        leaf = self._leaf_of(task)
        if leaf is not None:
            self.accounts.charge(leaf, task.resreq, 1)

    def on_deallocate(self, task: TaskState, /) -> None:
        leaf = self._leaf_of(task)
        if leaf is not None:
            self.accounts.charge(leaf, task.resreq, -1)

    def _leaf_of(self, task: TaskState) -> int | None:
        """Return the position of the queue that is charged for a task, if any is."""
        if task.is_backfill or task.job is None or task.job.queue is None:
            return None
        return self._tree.position[task.job.queue.name]


def _is_in_service(node: NodeState) -> bool:
    info = node.info
    return not (
        info.unschedulable
        or info.conditions.get("Ready", "True") != "True"
        or info.conditions.get("NetworkUnavailable", "False") != "False"
    )


def _charged(job: JobState) -> Iterator[TaskState]:
    return (t for t in job.tasks if t.status.occupies and not t.is_backfill)


def _wanted(job: JobState) -> Iterator[TaskState]:
    return (t for t in job.tasks if t.status in _WANTED and not t.is_backfill)


def _sum(tasks: Iterable[TaskState], zero: Vector) -> Vector:
    counts: dict[Vector, int] = {}
    for task in tasks:
        counts[task.resreq] = counts.get(task.resreq, 0) + 1
    total = zero
    for vector, count in counts.items():
        total = plus(total, vector if count == 1 else tuple([a * count for a in vector]))
    return total
