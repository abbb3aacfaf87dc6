"""The kept tallies of classes with equal constraints, and which nodes they must ask again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter

from batchsched.model.reasons import Unfit
from batchsched.model.resources import EPSILON
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.evaluator import Evaluator
from batchsched.placement.kept_tally import KeptTally
from batchsched.state.change_log import NodeCursor
from batchsched.state.records import NodeState
from batchsched.state.vectors import Vector

__all__ = ["KeptTallies"]

_Column = tuple[list[int], list[KeptTally]]
"""The requests of classes in one dimension, in ascending order, with the tallies of the classes."""


class KeptTallies:
    """Kept tallies of classes that differ only in their requests.

    A changed node is examined once for all of them. It is asked again only by classes to which
    its answer may have changed: those whose request in some dimension lies between the idle
    amounts before and after the change, and all if it was rejected before, or is now, or if it
    has promises or releases.
    """

    __slots__ = ("_any_kind", "_by_request", "_cursor", "_known", "_nodes", "_tallies", "_vacant")

    def __init__(
        self,
        kind: EquivalenceClass,
        nodes: Sequence[NodeState],
        changes: Sequence[int],
        vacant: AbstractSet[int],
    ) -> None:
        """Examine all nodes. O(nodes).

        Args:
            kind: any of the classes.
            nodes: the nodes by slot.
            changes: the log of changed nodes.
            vacant: the slots without a node.

        """
        self._any_kind = kind
        self._nodes = nodes
        self._vacant = vacant
        self._cursor = NodeCursor(changes)
        self._known = [self._look_at(slot) for slot in range(len(nodes))]
        self._tallies: dict[EquivalenceClass, KeptTally] = {}
        self._by_request: list[_Column] | None = None
        """For each dimension, what classes request of it; None: not sorted yet."""

    def __len__(self) -> int:
        return len(self._tallies)

    def add(self, kind: EquivalenceClass, evaluator: Evaluator) -> KeptTally:
        """Add the tally of a class. O(nodes)."""
        self.refresh()
        tally = self._tallies[kind] = KeptTally(kind, evaluator, self._nodes, self._vacant)
        self._by_request = None
        return tally

    def remove(self, kind: EquivalenceClass) -> None:
        """Remove the tally of a class."""
        del self._tallies[kind]
        self._by_request = None

    def refresh(self) -> None:
        """Tell each tally which nodes it must ask again. O(changes x log classes)."""
        changed = self._cursor.unread()
        if not changed or not self._tallies:
            return
        columns = self._columns()
        for slot in set(changed):
            before, now = self._known[slot], self._look_at(slot)
            if before == now and now is not None:
                continue
            self._known[slot] = now
            if isinstance(before, tuple) and isinstance(now, tuple):
                for there, is_there, column in zip(before, now, columns, strict=True):
                    for tally in _between(column, there, is_there) if there != is_there else ():
                        tally.stale.add(slot)
            else:
                for tally in self._tallies.values():
                    tally.stale.add(slot)

    def _look_at(self, slot: int) -> Vector | Unfit | None:
        """Return what a node has idle or why it is rejected; None: neither says all."""
        if slot in self._vacant:
            return None
        node = self._nodes[slot]
        refusal = self._any_kind.infeasible(node)
        if refusal is not None:
            return refusal
        return None if node.divergence_count else node.idle

    def _columns(self) -> list[_Column]:
        if self._by_request is None:
            self._by_request = []
            for dimension in range(len(self._any_kind.request)):
                column = sorted(
                    (
                        (kind.request[dimension], tally)
                        for kind, tally in self._tallies.items()
                        if kind.request[dimension] >= EPSILON
                    ),
                    key=itemgetter(0),
                )
                self._by_request.append(([r for r, _ in column], [tally for _, tally in column]))
        return self._by_request


def _between(column: _Column, before: int, now: int) -> Sequence[KeptTally]:
    """Return the tallies of classes whose request fits only one of two idle amounts."""
    requests, tallies = column
    least, most = min(before, now), max(before, now)
    first = bisect_left(requests, least)
    last = bisect_left(requests, True, first, key=lambda wanted: wanted - most >= EPSILON)
    return tallies[first:last]
