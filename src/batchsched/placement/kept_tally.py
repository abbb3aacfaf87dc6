"""A tally that is kept by node, so that it is counted again only where something changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.evaluator import Evaluator
from batchsched.state.records import NodeState

__all__ = ["KeptTally"]

_NOTHING: tuple[Unfit, ...] = ()


class KeptTally:
    """What each node says of one class of tasks. O(nodes) to make."""

    __slots__ = (
        "_available",
        "_changes",
        "_kind",
        "_lacking",
        "_nodes",
        "_position",
        "_said",
        "_tally",
        "_unfit",
    )

    def __init__(
        self,
        kind: EquivalenceClass,
        evaluator: Evaluator,
        nodes: Sequence[NodeState],
        changes: Sequence[int],
    ) -> None:
        self._kind = kind
        self._lacking = evaluator.lacking
        self._nodes = nodes
        self._changes = changes
        self._position = len(changes)
        self._said = [self._ask(node) for node in nodes]
        """For each node, why it does not take such a task now; nothing: it does."""
        self._available = sum(not said for said in self._said)
        self._unfit = Counter(unfit for said in self._said for unfit in said)
        self._tally: NodeTally | None = None

    def tally(self) -> NodeTally:
        """Return the tally as of now; the same object while it stays the same. O(changes)."""
        changes = self._changes
        if self._position != len(changes):
            self._ask_again(set(changes[self._position :]))
            self._position = len(changes)
        if self._tally is None:
            self._tally = NodeTally(len(self._nodes), self._available, dict(self._unfit))
        return self._tally

    def _ask(self, node: NodeState) -> tuple[Unfit, ...]:
        kind = self._kind
        refusal = kind.infeasible(node)
        if refusal is not None:
            return (refusal,)
        if kind.fits_idle(node.idle) and (not node.special or node.fits_now(kind.request)):
            return _NOTHING
        return self._lacking(kind.request, node)

    def _ask_again(self, indices: Iterable[int]) -> None:
        unfit = self._unfit
        for index in indices:
            said = self._ask(self._nodes[index])
            before = self._said[index]
            if said == before:
                continue
            self._said[index] = said
            self._tally = None
            self._available += (not said) - (not before)
            for reason in before:
                unfit[reason] -= 1
                if not unfit[reason]:
                    del unfit[reason]
            for reason in said:
                unfit[reason] += 1
