"""What nodes could hold if other tasks left, cached from cycle to cycle."""

from __future__ import annotations

from batchsched.model.cluster import TaskStatus
from batchsched.state.ledger import Ledger
from batchsched.state.records import NodeState
from batchsched.state.vectors import Vector, fits, minus

__all__ = ["NodeRoom"]

MOST_REQUESTS = 2_000
"""The most requests that are cached."""


class NodeRoom:
    """What nodes could hold if all tasks of jobs left."""

    __slots__ = ("_besides_others", "_by_size", "_large_enough", "_ledger", "_of_sizes")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._large_enough: dict[Vector, frozenset[int]] = {}
        """For each request, the slots of the nodes where it fits if they are empty."""
        self._by_size: dict[Vector, list[int]] = {}
        """For each allocatable amount, the slots of the nodes that have it."""
        self._of_sizes: dict[tuple[Vector, ...], frozenset[int]] = {}
        """For several allocatable amounts, the slots of the nodes that have one of them."""
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

        O(different sizes of nodes) for a new request, else O(1). Requests for which nodes of the
        same sizes are large enough get the same object.
        """
        known = self._large_enough.get(request)
        if known is None:
            by_size = self._by_size
            if not by_size:
                for node in self._ledger.nodes:
                    by_size.setdefault(node.allocatable, []).append(node.slot)
            sizes = tuple(size for size in by_size if fits(request, size))
            known = self._of_sizes.get(sizes)
            if known is None:
                slots = [slot for size in sizes for slot in by_size[size]]
                known = self._of_sizes[sizes] = frozenset(slots)
            self._large_enough[request] = known
        return known

    def forget_others(self) -> None:
        """Drop what depends on tasks of no job, because they or nodes have changed."""
        self._besides_others = None

    def forget_nodes(self) -> None:
        """Drop what depends on nodes, because they have changed."""
        self._besides_others = None
        self._large_enough.clear()
        self._by_size.clear()
        self._of_sizes.clear()

    def trim(self) -> None:
        """Clear the cache of requests if it is too large."""
        if len(self._large_enough) > MOST_REQUESTS:
            self._large_enough.clear()
            self._of_sizes.clear()
