"""The nodes that predicates accept by description, kept up to date as nodes change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from batchsched.errors import plugin_error
from batchsched.model.reasons import Unfit
from batchsched.placement.evaluator import checked_unfit
from batchsched.placement.nodes_by_key import NodesByKey
from batchsched.plugin.hints import NodeKeys
from batchsched.plugin.node_functions import Predicate
from batchsched.state.ledger import Ledger
from batchsched.state.records import NodeState, TaskState

__all__ = ["AcceptedNodes", "Accepts", "DescriptionCheck", "FewSlots", "NodeCheck"]

NodeCheck = Callable[[NodeState], Unfit | None]

MANY = 4
"""A check that can accept at most one of so many nodes stores only those that it accepts."""


class FewSlots(dict[int, int]):
    """The slots of few nodes, each with 1; every other slot has 0."""

    __slots__ = ()

    def __missing__(self, slot: int) -> int:
        return 0


Accepts: TypeAlias = bytearray | FewSlots
"""For each slot, 1 if its node is accepted."""


class DescriptionCheck:
    """The answers of one predicate on all node descriptions, for tasks with one signature."""

    __slots__ = ("_check", "_plugin", "_refused", "accepted", "judged_apart", "usual")

    def __init__(
        self, plugin: str, check: NodeCheck, slots: int, *, usual: Unfit | None = None
    ) -> None:
        """Begin with no answers.

        Args:
            plugin: the plugin with the predicate.
            check: the predicate for these tasks.
            slots: how many there are.
            usual: why it rejects nodes that it is not asked about; None: it is asked about all.

        """
        self._plugin = plugin
        self._check = check
        self.usual = usual
        self.accepted: Accepts = bytearray(b"\1" * slots) if usual is None else FewSlots()
        """Those accepted; if all nodes are asked about, vacant slots too."""
        self.judged_apart: set[int] = set()
        """The slots of nodes rejected for other reasons than `usual`, if there is a usual one."""
        self._refused = 0

    @property
    def refuses(self) -> bool:
        """Whether it may reject any node."""
        return self.usual is not None or self._refused > 0

    def ask(self, nodes: Iterable[NodeState]) -> None:
        """Evaluate nodes that were added or changed."""
        accepted, check, usual = self.accepted, self._check, self.usual
        try:
            for node in nodes:
                unfit = check(node)
                if unfit is not None:
                    checked_unfit(unfit)
                now = unfit is None
                if usual is None:
                    self._refused += accepted[node.slot] - now
                    accepted[node.slot] = now
                elif now:
                    accepted[node.slot] = 1
                elif unfit != usual:
                    self.judged_apart.add(node.slot)
        except Exception as error:
            raise plugin_error(self._plugin, "predicates", error) from error

    def forget(self, slots: Iterable[int]) -> None:
        """Drop the answers on the nodes that had these slots."""
        accepted = self.accepted
        for slot in slots:
            if isinstance(accepted, FewSlots):
                accepted.pop(slot, None)
                self.judged_apart.discard(slot)
            else:
                self._refused -= not accepted[slot]
                accepted[slot] = 1


class AcceptedNodes:
    """The nodes that several checks accept together, for each combination in use."""

    def __init__(self, ledger: Ledger) -> None:
        self._nodes: Sequence[NodeState] = ledger.nodes
        self._slots: Sequence[NodeState] = ledger.slots
        self._vacant = ledger.vacant
        self._checks: list[DescriptionCheck] = []
        self._together: dict[tuple[DescriptionCheck, ...], Accepts] = {}
        self._by_key: dict[NodeKeys, NodesByKey] = {}

    def check(
        self, plugin: str, predicate: Predicate, check: NodeCheck, task: TaskState
    ) -> DescriptionCheck:
        """Evaluate a predicate for tasks like this one, on all nodes that it may accept.

        O(nodes), or O(nodes with the keys of the task) if the predicate has `node_keys`.
        """
        candidates = self._candidates(plugin, predicate, task)
        if candidates is None:
            made = DescriptionCheck(plugin, check, len(self._slots))
            made.ask(self._nodes)
        else:
            keys = predicate.hints.node_keys
            assert keys is not None
            made = DescriptionCheck(plugin, check, len(self._slots), usual=keys.otherwise)
            made.ask([self._slots[slot] for slot in candidates])
        self._checks.append(made)
        return made

    def _candidates(
        self, plugin: str, predicate: Predicate, task: TaskState
    ) -> Collection[int] | None:
        """Return the slots of the nodes that the predicate may accept, if they are few."""
        keys = predicate.hints.node_keys
        if keys is None:
            return None
        try:
            wanted = [tuple(each) for each in keys.of_task(task)]
            if not wanted:
                return None
            by_key = self._by_key.get(keys)
            if by_key is None:
                by_key = self._by_key[keys] = NodesByKey(keys.of_node)
                by_key.put(self._nodes)
            return by_key.fewest(wanted, most=len(self._nodes) // MANY)
        except Exception as error:
            raise plugin_error(plugin, "predicates", error) from error

    def by_all(self, checks: Iterable[DescriptionCheck]) -> Accepts | None:
        """Return, for each slot, 1 if it has a node that all checks accept; None: all nodes are.

        Equal combinations get the same object. For a new combination O(nodes), or O(nodes that
        are accepted) if a check stores only those.
        """
        refusing = [check for check in checks if check.refuses]
        if not refusing and not self._vacant:
            return None
        key = tuple(refusing)
        known = self._together.get(key)
        if known is None:
            known = self._together[key] = self._combined(refusing)
        return known

    def _combined(self, refusing: Sequence[DescriptionCheck]) -> Accepts:
        few = [check.accepted for check in refusing if isinstance(check.accepted, FewSlots)]
        if few:
            slots = min(map(sorted, few), key=len)
            for check in refusing:
                accepted = check.accepted
                slots = [slot for slot in slots if accepted[slot]]
            return FewSlots((slot, 1) for slot in slots)
        known = bytearray(b"\1" * len(self._slots))
        for slot in self._vacant:
            known[slot] = 0
        for check in refusing:
            assert isinstance(check.accepted, bytearray)
            known = bytearray(map(int.__and__, known, check.accepted))
        return known

    def nodes_changed(self, slots: Collection[int]) -> None:
        """Evaluate the nodes at these slots again, and invalidate the results of `by_all`.

        O(checks x slots), and O(nodes) for each combination that is used again.
        """
        nodes = [self._slots[slot] for slot in slots if slot not in self._vacant]
        # An index of keys is made again when it is needed: few nodes change, and rarely.
        self._by_key.clear()
        for check in self._checks:
            check.forget(slots)
            check.ask(nodes)
        self._together.clear()
