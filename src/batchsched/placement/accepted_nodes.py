"""The nodes that predicates accept by description, kept up to date as nodes change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from batchsched.errors import plugin_error
from batchsched.model.reasons import Unfit
from batchsched.placement.evaluator import checked_unfit
from batchsched.state.ledger import Ledger
from batchsched.state.records import NodeState

__all__ = ["AcceptedNodes", "DescriptionCheck", "NodeCheck"]

NodeCheck = Callable[[NodeState], Unfit | None]


class DescriptionCheck:
    """The answers of one predicate on all node descriptions, for tasks with one signature."""

    __slots__ = ("_check", "_plugin", "accepted", "refused")

    def __init__(self, plugin: str, check: NodeCheck, slots: int) -> None:
        self._plugin = plugin
        self._check = check
        self.accepted = bytearray(b"\1" * slots)
        """For each slot, 1 if the node is accepted or the slot is vacant."""
        self.refused = 0
        """The number of rejected nodes."""

    def ask(self, nodes: Iterable[NodeState]) -> None:
        """Evaluate nodes that were added or changed."""
        accepted, check = self.accepted, self._check
        try:
            for node in nodes:
                unfit = check(node)
                if unfit is not None:
                    checked_unfit(unfit)
                now = unfit is None
                self.refused += accepted[node.slot] - now
                accepted[node.slot] = now
        except Exception as error:
            raise plugin_error(self._plugin, "predicates", error) from error

    def forget(self, slots: Iterable[int]) -> None:
        """Drop the answers on the nodes that had these slots."""
        for slot in slots:
            self.refused -= not self.accepted[slot]
            self.accepted[slot] = 1


class AcceptedNodes:
    """The nodes that several checks accept together, for each combination in use."""

    def __init__(self, ledger: Ledger) -> None:
        self._nodes: Sequence[NodeState] = ledger.nodes
        self._slots: Sequence[NodeState] = ledger.slots
        self._vacant = ledger.vacant
        self._checks: list[DescriptionCheck] = []
        self._together: dict[tuple[DescriptionCheck, ...], bytearray] = {}

    def check(self, plugin: str, check: NodeCheck) -> DescriptionCheck:
        """Evaluate a check on all nodes. O(nodes)."""
        made = DescriptionCheck(plugin, check, len(self._slots))
        made.ask(self._nodes)
        self._checks.append(made)
        return made

    def by_all(self, checks: Iterable[DescriptionCheck]) -> bytearray | None:
        """Return, for each slot, 1 if it has a node that all checks accept; None: all nodes are.

        Equal combinations get the same object. O(nodes) for a new combination.
        """
        refusing = [check for check in checks if check.refused]
        if not refusing and not self._vacant:
            return None
        key = tuple(refusing)
        known = self._together.get(key)
        if known is None:
            known = bytearray(b"\1" * len(self._slots))
            for slot in self._vacant:
                known[slot] = 0
            for check in refusing:
                known = bytearray(map(int.__and__, known, check.accepted))
            self._together[key] = known
        return known

    def nodes_changed(self, slots: Collection[int]) -> None:
        """Evaluate the nodes at these slots again, and invalidate the results of `by_all`.

        O(checks x slots), and O(nodes) for each combination that is used again.
        """
        nodes = [self._slots[slot] for slot in slots if slot not in self._vacant]
        for check in self._checks:
            check.forget(slots)
            check.ask(nodes)
        self._together.clear()
