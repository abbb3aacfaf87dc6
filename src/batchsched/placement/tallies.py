"""Tallies of nodes by why they do not accept tasks, for the classes of the indexed engine."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from batchsched.model.reasons import NodeTally
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.evaluator import Evaluator
from batchsched.placement.kept_tallies import KeptTallies
from batchsched.placement.kept_tally import KeptTally
from batchsched.placement.shared_refusals import SharedRefusals
from batchsched.placement.shared_tallies import SharedTallies
from batchsched.state.ledger import Ledger
from batchsched.state.recently_used import RecentlyUsed

__all__ = ["Tallies"]

FEW = 8
"""If at most so many nodes may accept a class, they are checked again for each tally."""

MAX_SHARED_TALLIES = 16
"""The most combinations of constraints for which tallies share what they have in common."""


class Tallies:
    """How many nodes could accept the tasks of a class now, and why the others could not."""

    def __init__(self, ledger: Ledger, evaluator: Evaluator, *, most: int) -> None:
        """Create an empty cache of tallies.

        Args:
            ledger: the ledger, which has the nodes.
            evaluator: says what a node lacks.
            most: the most tallies that are kept node by node.

        """
        self._in_order = ledger.nodes
        self._nodes = ledger.slots
        self._vacant = ledger.vacant
        self._changes = ledger.log.nodes
        self._evaluator = evaluator
        self._kept_tallies = RecentlyUsed[int, tuple[EquivalenceClass, KeptTally]](most=most)
        self._groups: dict[Hashable, KeptTallies] = {}
        """These tallies by the constraints of their classes."""
        self._shared_refusals = RecentlyUsed[Hashable, SharedRefusals](most=most)
        self._shared_tallies = RecentlyUsed[Hashable, SharedTallies](most=MAX_SHARED_TALLIES)
        self._shared_at = -1
        """The number of changes for which `_shared_tallies` are valid."""
        self._tallies: dict[int, tuple[int, NodeTally]] = {}

    def tally(self, number: int, kind: EquivalenceClass) -> NodeTally:
        """Return the present tally of a class that `is_watched`, which has this number."""
        known = self._tallies.get(number)
        now = len(self._changes)
        if known is not None and known[0] == now:
            return known[1]
        only = kind.only_slots
        if known is None or kind.watches or (only is not None and len(only) <= FEW):
            # Most classes are tallied only once.
            tally = self._count_few(kind) or self._count(kind)
        else:
            tally = self._of_all_nodes(number, kind)
        self._tallies[number] = now, tally
        return tally

    def _of_all_nodes(self, number: int, kind: EquivalenceClass) -> NodeTally:
        """Return a tally that is kept node by node."""
        group = self._groups.get(kind.constraints)
        if group is None:
            group = KeptTallies(kind, self._nodes, self._changes, self._vacant)
            self._groups[kind.constraints] = group
        group.refresh()
        known = self._kept_tallies.use(number)
        if known is None:
            known = kind, group.add(kind, self._evaluator)
            dropped = self._kept_tallies.keep(number, known)
            if dropped is not None:
                self._drop(dropped[0])
        return known[1].tally()

    def _drop(self, kind: EquivalenceClass) -> None:
        group = self._groups[kind.constraints]
        group.remove(kind)
        if not group:
            del self._groups[kind.constraints]

    def _count_few(self, kind: EquivalenceClass) -> NodeTally | None:
        """Return the tally of a class with a check that names the nodes that it may accept.

        None: no check does, or a check before it reads more than the node. O(those nodes +
        changes), and O(nodes) if no earlier class had the same checks before it.
        """
        for position, (_, _, described) in enumerate(kind.all_checks):
            if described is not None and described.usual is not None:
                break
            if kind.check_keys[position] is None:
                return None
        else:
            return None
        key = kind.is_best_effort, tuple(kind.check_keys[:position])
        shared = self._shared_refusals.use(key)
        if shared is None:
            before = [(name, check) for name, check, _ in kind.all_checks[:position]]
            shared = SharedRefusals(
                partial(kind.refusal_by, before), self._nodes, self._changes, self._vacant
            )
            self._shared_refusals.keep(key, shared)
        candidates = {*described.accepted, *described.judged_apart}
        return shared.tally(kind, self._evaluator, candidates, described.usual)

    def _count(self, kind: EquivalenceClass) -> NodeTally:
        """Count the nodes, using what classes with equal constraints share."""
        now = len(self._changes)
        if self._shared_at != now:
            self._shared_tallies.clear()
            self._shared_at = now
        shared = self._shared_tallies.use(kind.constraints)
        if shared is None:
            shared = SharedTallies(kind, self._evaluator, self._in_order)
            self._shared_tallies.keep(kind.constraints, shared)
        return shared.tally(kind)
