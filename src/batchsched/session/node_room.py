"""What nodes could hold if other tasks left, cached from cycle to cycle."""

from __future__ import annotations

from batchsched.model.status import TaskStatus
from batchsched.state.ledger import Ledger
from batchsched.state.records import NodeState
from batchsched.state.vectors import Vector, fits, minus

__all__ = ["NodeRoom"]

MOST_REQUESTS = 2_000
"""The most requests that are cached."""


class NodeRoom:
    """What nodes could hold if all tasks of jobs left."""

    __slots__ = ("_besides_others", "_large_enough", "_ledger")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._large_enough: dict[Vector, frozenset[int]] = {}
        """For each request, the slots of the nodes where it fits if they are empty."""
        self._besides_others: dict[str, Vector] | None = None
        """What nodes with tasks of no job have without these; None: not computed."""

    def for_jobs(self, node: NodeState) -> Vector:
        """Return what a node has without what tasks of no job hold there, such as daemons.

        Those tasks are never evicted, and may stay for ever.
        """
        known = self._besides_others
        if known is None:
            known = self._besides_others = {}
            for task in self._ledger.other_tasks.values():
                on = task.node
                if on is not None and task.status.holds and task.status is not TaskStatus.RELEASING:
                    known[on.name] = minus(known.get(on.name, on.allocatable), task.resreq)
        return known.get(node.name, node.allocatable)

    def large_enough(self, request: Vector) -> frozenset[int]:
        """Return the slots of the nodes where `request` fits if they are empty.

        O(nodes) for a new request, else O(1).
        """
        known = self._large_enough.get(request)
        if known is None:
            known = self._large_enough[request] = frozenset(
                node.slot for node in self._ledger.nodes if fits(request, node.allocatable)
            )
        return known

    def forget_others(self) -> None:
        """Drop what depends on tasks of no job, because they or nodes have changed."""
        self._besides_others = None

    def forget_nodes(self) -> None:
        """Drop what depends on nodes, because they have changed."""
        self._besides_others = None
        self._large_enough.clear()

    def trim(self) -> None:
        """Clear the cache of requests if it is too large."""
        if len(self._large_enough) > MOST_REQUESTS:
            self._large_enough.clear()
