"""What nodes could hold if others left, remembered from cycle to cycle."""

from __future__ import annotations

from batchsched.model.status import TaskStatus
from batchsched.state.ledger import Ledger
from batchsched.state.records import NodeState
from batchsched.state.vectors import Vector, fits, minus

__all__ = ["NodeRoom"]

MOST_REQUESTS = 2_000
"""For so many requests it is remembered where they fit."""


class NodeRoom:
    """What nodes of a ledger could hold if the tasks of jobs left."""

    __slots__ = ("_besides_others", "_large_enough", "_ledger")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._large_enough: dict[Vector, frozenset[int]] = {}
        """What tasks request to the slots of the nodes where it fits when nothing is there."""
        self._besides_others: dict[str, Vector] | None = None
        """What nodes have besides what tasks of no job hold there, where any do; None: unknown."""

    def for_jobs(self, node: NodeState) -> Vector:
        """Return what a node has besides what tasks of no job hold there, such as daemons.

        Nothing makes those leave, and they may stay for ever.
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
        """Return the slots of the nodes where `request` fits when nothing is there.

        O(nodes) for a request that is new, else O(1).
        """
        known = self._large_enough.get(request)
        if known is None:
            known = self._large_enough[request] = frozenset(
                node.slot for node in self._ledger.nodes if fits(request, node.allocatable)
            )
        return known

    def forget_others(self) -> None:
        """Forget what depends on tasks of no job, because they or nodes have changed."""
        self._besides_others = None

    def forget_nodes(self) -> None:
        """Forget what depends on nodes, because they have changed."""
        self._besides_others = None
        self._large_enough.clear()

    def trim(self) -> None:
        """Forget what was found for requests, if there were very many."""
        if len(self._large_enough) > MOST_REQUESTS:
            self._large_enough.clear()
