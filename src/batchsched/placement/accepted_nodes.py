"""Which nodes predicates accept by what describes the nodes, kept as nodes come, go and change."""

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
    """What one predicate says of the descriptions of nodes, to tasks with one signature."""

    __slots__ = ("_check", "_plugin", "accepted", "refused")

    def __init__(self, plugin: str, check: NodeCheck, slots: int) -> None:
        self._plugin = plugin
        self._check = check
        self.accepted = bytearray(b"\1" * slots)
        """For each slot, 1 if the node is accepted, or there is none."""
        self.refused = 0
        """How many nodes are refused."""

    def ask(self, nodes: Iterable[NodeState]) -> None:
        """Ask about nodes that came, or are described anew."""
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
        """Forget what was said of the nodes that had these slots."""
        for slot in slots:
            self.refused -= not self.accepted[slot]
            self.accepted[slot] = 1


class AcceptedNodes:
    """Which nodes several such checks accept together, for each combination that is asked for."""

    def __init__(self, ledger: Ledger) -> None:
        self._nodes: Sequence[NodeState] = ledger.nodes
        self._slots: Sequence[NodeState] = ledger.slots
        self._vacant = ledger.vacant
        self._checks: list[DescriptionCheck] = []
        self._together: dict[tuple[DescriptionCheck, ...], bytearray] = {}

    def check(self, plugin: str, check: NodeCheck) -> DescriptionCheck:
        """Ask a check about all nodes. O(nodes)."""
        made = DescriptionCheck(plugin, check, len(self._slots))
        made.ask(self._nodes)
        self._checks.append(made)
        return made

    def by_all(self, checks: Iterable[DescriptionCheck]) -> bytearray | None:
        """Return, for each slot, 1 if there is a node that all checks accept; None: all nodes are.

        Equal combinations get the same object. O(nodes) for one that is new.
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
        """Ask again about the nodes at these slots; what `by_all` gave is of no use any more.

        O(checks x slots), and O(nodes) for each combination that is asked for again.
        """
        nodes = [self._slots[slot] for slot in slots if slot not in self._vacant]
        for check in self._checks:
            check.forget(slots)
            check.ask(nodes)
        self._together.clear()
