"""Raw scores that depend on the descriptions of nodes alone, computed once for each node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import cast

from batchsched.placement.score_index import Raw
from batchsched.state.recently_used import RecentlyUsed
from batchsched.state.records import NodeState

__all__ = ["KeptRawScores", "RawScores"]

_Compute = Callable[[Sequence[NodeState]], list[Raw]]


class RawScores:
    """The raw scores of all nodes for tasks with certain signatures; call it with nodes."""

    __slots__ = ("_compute", "_kept")

    def __init__(self, compute: _Compute, kept: RecentlyUsed[RawScores, dict[int, Raw]]) -> None:
        """Begin with none.

        Args:
            compute: computes the raw scores of nodes from their descriptions.
            kept: the known raw scores by slot, of these and other tasks; may drop those of any.

        """
        self._compute = compute
        self._kept = kept

    def __call__(self, nodes: Sequence[NodeState], /) -> list[Raw]:
        """Return the raw scores of each of several nodes. O(nodes)."""
        known = self._kept.use(self)
        if known is None:
            known = dict[int, Raw]()
            self._kept.keep(self, known)
        found = [known.get(node.slot) for node in nodes]
        if None in found:
            missing = [node for node, raw in zip(nodes, found, strict=True) if raw is None]
            for node, raw in zip(missing, self._compute(missing), strict=True):
                known[node.slot] = raw
            return [known[node.slot] for node in nodes]
        return cast("list[Raw]", found)


class KeptRawScores:
    """Raw scores by signature; only the most recently used are kept."""

    __slots__ = ("_by_signature", "_kept")

    def __init__(self, *, most: int) -> None:
        """Begin with none; keep those for at most so many signatures."""
        self._by_signature: dict[Hashable, RawScores] = {}
        self._kept = RecentlyUsed[RawScores, dict[int, Raw]](most=most)

    def of(self, signature: Hashable, compute: _Compute) -> RawScores:
        """Return the raw scores for tasks with a signature. O(1)."""
        known = self._by_signature.get(signature)
        if known is None:
            known = self._by_signature[signature] = RawScores(compute, self._kept)
        return known

    def nodes_changed(self, slots: Collection[int]) -> None:
        """Forget nodes that were added, removed or changed. O(signatures kept x slots)."""
        for known in self._kept.values():
            for slot in slots:
                known.pop(slot, None)
