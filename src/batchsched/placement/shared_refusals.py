"""Counts of nodes by the first predicate that rejects them, shared by classes of tasks.

Classes that differ in their node selectors mostly have the same predicates before that. How many
nodes those reject is counted once, and each class then examines only the nodes that it selects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.evaluator import Evaluator
from batchsched.state.change_log import NodeCursor
from batchsched.state.records import NodeState

__all__ = ["SharedRefusals"]


class SharedRefusals:
    """Why the first checks of a class reject each node, updated as nodes change."""

    __slots__ = ("_count", "_cursor", "_nodes", "_refusal", "_said", "_vacant")

    def __init__(
        self,
        refusal: Callable[[NodeState], Unfit | None],
        nodes: Sequence[NodeState],
        changes: Sequence[int],
        vacant: AbstractSet[int],
    ) -> None:
        """Check all nodes. O(nodes).

        Args:
            refusal: returns why a node is rejected, or None; it depends on that node alone.
            nodes: the nodes by slot.
            changes: the log of changed nodes.
            vacant: the slots without a node.

        """
        self._refusal = refusal
        self._nodes = nodes
        self._cursor = NodeCursor(changes)
        self._vacant = vacant
        self._said: dict[int, Unfit | None] = {}
        self._count = Counter[Unfit | None]()
        self._ask(range(len(nodes)))

    def tally(
        self,
        kind: EquivalenceClass,
        evaluator: Evaluator,
        candidates: Iterable[int],
        otherwise: Unfit,
    ) -> NodeTally:
        """Return the tally of a class that rejects all but some nodes for one reason.

        O(candidates + changes since the last time).

        Args:
            kind: the class; these are its first checks.
            evaluator: says what a node lacks.
            candidates: the slots of nodes that may be accepted or rejected for other reasons.
            otherwise: why the next check rejects all other nodes.

        """
        self._refresh()
        said = self._said
        unfit = self._count.copy()
        available = 0
        for slot in candidates:
            unfit[said[slot]] -= 1
            node = self._nodes[slot]
            refusal = kind.infeasible(node)
            if refusal is not None:
                unfit[refusal] += 1
            elif node.fits_now(kind.request):
                available += 1
            else:
                unfit.update(evaluator.lacking(kind.request, node))
        unfit[otherwise] += unfit.pop(None, 0)
        total = len(self._nodes) - len(self._vacant)
        return NodeTally(
            total,
            available,
            {reason: count for reason, count in unfit.items() if reason is not None and count},
        )

    def _refresh(self) -> None:
        changed = set(self._cursor.unread())
        for slot in changed:
            if slot in self._said:
                self._count[self._said.pop(slot)] -= 1
        self._ask(changed)

    def _ask(self, slots: Iterable[int]) -> None:
        for slot in slots:
            if slot not in self._vacant:
                refusal = self._said[slot] = self._refusal(self._nodes[slot])
                self._count[refusal] += 1
