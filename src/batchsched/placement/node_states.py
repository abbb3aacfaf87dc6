"""Numbers for what scores read from nodes: nodes with equal numbers get equal scores.

Nodes of one size that hold the same amounts are in the same state, and nodes often enter states
that other nodes were in before. So where all nodes are scored, a score is computed once for each
state, and serves all tasks with the same signature.
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
"""The least number of states that are kept before all are numbered again."""

STATES_PER_NODE = 4
"""The states that are kept for each node, if that is more in all."""


class NodeStates:
    """The number of each node's state, updated by `refresh`."""

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
        """Number the states of all nodes. O(nodes).

        Args:
            nodes: the nodes by slot.
            changes: the log of changed nodes.
            reads: what each score reads from a node, with its plugin; see `ScoreHints.state`.
            vacant: the slots without a node.
            most_classes: the most classes of tasks whose scores are kept.

        """
        self._nodes = nodes
        self._cursor = NodeCursor(changes)
        self._reads = tuple(reads)
        self._vacant = vacant
        self._most = max(FEWEST_STATES, STATES_PER_NODE * len(nodes))
        self._numbers: dict[Hashable, int] = {}
        self._known = RecentlyUsed[Hashable, ScoreByState](most=most_classes)
        self.edition = 0
        """How often all states were numbered again; scores by number are valid in one edition."""
        self.of: list[int] = []
        """By slot, the number of the node's state at the last `refresh`."""
        self._begin()

    def refresh(self) -> None:
        """Update the numbers. O(changes since the last time), at most O(nodes)."""
        changed = self._cursor.unread()
        if not changed:
            return
        if len(self._numbers) > self._most:
            # States that no node is in any more would pile up.
            self.edition += 1
            self._known.clear()
            self._begin()
            return
        for slot in set(changed):
            self.of[slot] = self._number(self._nodes[slot])

    def known_scores(self, kind: EquivalenceClass) -> ScoreByState:
        """Return the known scores, to which callers add; valid in this edition only. O(1)."""
        key = kind.scoring_key
        known = self._known.use(key)
        if known is None:
            known = ScoreByState()
            self._known.keep(key, known)
        return known

    def scores(
        self, kind: EquivalenceClass, slots: Sequence[int], known: ScoreByState | None
    ) -> list[float]:
        """Return the sum of scores for each of several nodes, computed once for each state.

        Args:
            kind: a class of tasks that `is_scored_by_state`.
            slots: the slots of the nodes.
            known: the known scores, to which new ones are added; None: they are not kept.

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
            # These are mostly few nodes, in different states.
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
