"""A tally that is kept by node and updated only where something has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.model.resources import EPSILON
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.evaluator import Evaluator
from batchsched.state.records import NodeState

__all__ = ["KeptTally"]

_NOTHING: tuple[Unfit, ...] = ()


class KeptTally:
    """The tally of one class of tasks, with the reasons of each node. O(nodes) to create.

    `KeptTallies` says which nodes must be asked again.
    """

    __slots__ = (
        "_available",
        "_kind",
        "_lacking",
        "_nodes",
        "_said",
        "_tally",
        "_unfit",
        "_vacant",
        "_wanted",
        "stale",
    )

    def __init__(
        self,
        kind: EquivalenceClass,
        evaluator: Evaluator,
        nodes: Sequence[NodeState],
        vacant: AbstractSet[int] = frozenset(),
    ) -> None:
        self._kind = kind
        self._lacking = evaluator.lacking
        self._nodes = nodes
        self._vacant = vacant
        self._wanted = [
            (dimension, amount, evaluator.lacking_in(dimension))
            for dimension, amount in enumerate(kind.request)
            if amount >= EPSILON
        ]
        self._said = [self._ask(slot) for slot in range(len(nodes))]
        """For each slot, why its node does not accept these tasks now; empty: it does.

        None: the slot is vacant."""
        self._available = self._said.count(_NOTHING)
        self._unfit = Counter(unfit for said in self._said for unfit in said or ())
        self._tally: NodeTally | None = None
        self.stale: set[int] = set()
        """The slots of nodes that must be asked again."""

    def tally(self) -> NodeTally:
        """Return the present tally; the same object while it is unchanged. O(stale slots)."""
        if self.stale:
            self._ask_again(self.stale)
            self.stale.clear()
        if self._tally is None:
            count = len(self._nodes) - len(self._vacant)
            self._tally = NodeTally(count, self._available, dict(self._unfit))
        return self._tally

    def _ask(self, slot: int) -> tuple[Unfit, ...] | None:
        if slot in self._vacant:
            return None
        kind, node = self._kind, self._nodes[slot]
        refusal = kind.infeasible(node)
        if refusal is not None:
            return (refusal,)
        if node.divergence_count:
            fits = node.fits_now(kind.request)
            return _NOTHING if fits else self._lacking(kind.request, node)
        idle = node.idle
        return tuple(
            [
                lack
                for dimension, amount, lack in self._wanted
                if amount - idle[dimension] >= EPSILON
            ]
        )

    def _ask_again(self, slots: Iterable[int]) -> None:
        unfit = self._unfit
        for slot in slots:
            said = self._ask(slot)
            before = self._said[slot]
            if said == before:
                continue
            self._said[slot] = said
            self._tally = None
            self._available += (said == _NOTHING) - (before == _NOTHING)
            for reason in before or ():
                unfit[reason] -= 1
                if not unfit[reason]:
                    del unfit[reason]
            for reason in said or ():
                unfit[reason] += 1
