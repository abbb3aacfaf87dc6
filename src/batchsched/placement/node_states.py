"""Numbers for what scores read of nodes: nodes with equal numbers get equal scores.

Nodes of one size that hold the same amounts are in the same state, and a node comes back to states
that others were in before. So a score is asked for once for each state, and the answer serves all
tasks with the same signature.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from batchsched.errors import plugin_error
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.state.change_log import NodeCursor
from batchsched.state.recently_used import RecentlyUsed
from batchsched.state.records import NodeState

__all__ = ["NodeStates", "ScoreByState"]

ScoreByState = dict[int, float]
"""The sum of the scores of a class of tasks, by the number of the node's state."""

VACANT = -1
"""The number of a slot without a node."""

FEWEST_STATES = 4096
"""So many states have numbers at least before numbers are given anew."""

STATES_PER_NODE = 4
"""So many, if that is more, for each node."""


class NodeStates:
    """The number of each node's state, brought up to date when asked."""

    __slots__ = (
        *("_cursor", "_known", "_most", "_nodes", "_numbers", "_reads", "_vacant", "edition", "of"),
    )

    def __init__(
        self,
        nodes: Sequence[NodeState],
        changes: Sequence[int],
        reads: Iterable[tuple[str, Callable[[NodeState], Hashable]]],
        *,
        vacant: AbstractSet[int] = frozenset(),
        most_classes: int,
    ) -> None:
        """Give numbers to the states of all nodes. O(nodes).

        Args:
            nodes: the nodes by slot.
            changes: the record of changed nodes.
            reads: what each score reads of a node, with its plugin; see `ScoreHints.state`.
            vacant: the slots without a node.
            most_classes: for how many classes of tasks scores are remembered at most.

        """
        self._nodes = nodes
        self._cursor = NodeCursor(changes)
        self._reads = tuple(reads)
        self._vacant = vacant
        self._most = max(FEWEST_STATES, STATES_PER_NODE * len(nodes))
        self._numbers: dict[Hashable, int] = {}
        self._known = RecentlyUsed[Hashable, ScoreByState](most=most_classes)
        self.edition = 0
        """How often numbers were given anew; what is known by number is of one edition."""
        self.of: list[int] = []
        """The number of the state of the node in each slot, as of the last `refresh`."""
        self._begin()

    def refresh(self) -> None:
        """Bring the numbers up to date. O(changes since the last time), at most O(nodes)."""
        changed = self._cursor.unread()
        if not changed:
            return
        if len(self._numbers) > self._most:
            # States that no node is in any more are of no use, and their number would grow.
            self.edition += 1
            self._known.clear()
            self._begin()
            return
        for slot in set(changed):
            self.of[slot] = self._number(self._nodes[slot])

    def known_scores(self, kind: EquivalenceClass) -> ScoreByState:
        """Return what is known of scores, to be added to; of no use in another edition. O(1)."""
        key = kind.scoring_key
        known = self._known.use(key)
        if known is None:
            known = ScoreByState()
            self._known.keep(key, known)
        return known

    def scores(
        self, kind: EquivalenceClass, slots: Sequence[int], known: ScoreByState | None
    ) -> list[float]:
        """Return the sum of the scores of each of several nodes; ask once for each state.

        Args:
            kind: a class of tasks that `is_scored_by_state`.
            slots: where the nodes are.
            known: what is known of its scores, to which is added; None: nothing, and that is not
                to be remembered.

        """
        of, nodes = self.of, self._nodes
        if known is None:
            known = ScoreByState()
        if not known:
            one_of = {of[slot]: slot for slot in slots}
            scores = kind.score([nodes[slot] for slot in one_of.values()])
            known.update(zip(one_of, scores, strict=True))
        found = list(map(known.get, map(of.__getitem__, slots)))
        if None in found:
            # Mostly few nodes, and in different states.
            missing = [place for place, score in enumerate(found) if score is None]
            scores = kind.score([nodes[slots[place]] for place in missing])
            for place, score in zip(missing, scores, strict=True):
                found[place] = known[of[slots[place]]] = score
        return cast("list[float]", found)

    def _begin(self) -> None:
        self._numbers.clear()
        self.of = list(map(self._number, self._nodes))

    def _number(self, node: NodeState) -> int:
        if node.slot in self._vacant:
            return VACANT
        numbers = self._numbers
        name = ""
        try:
            state: list[Hashable] = []
            for name, read in self._reads:
                state.append(read(node))
            return numbers.setdefault(tuple(state), len(numbers))
        except Exception as error:
            raise plugin_error(name, "node_scores", error) from error
