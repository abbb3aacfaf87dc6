"""An index of nodes by what their descriptions say, such as a label or a taint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from batchsched.state.records import NodeState

__all__ = ["NodesByKey"]


class NodesByKey:
    """The slots of nodes by key; a node may have any number of keys.

    >>> from types import SimpleNamespace
    >>> nodes = [SimpleNamespace(slot=slot, color=color) for slot, color in enumerate("rgrr")]
    >>> by_color = NodesByKey(lambda node: node.color)
    >>> by_color.put(nodes)
    >>> by_color.fewest([["r"], ["g", "b"]], most=2)
    {1}
    """

    __slots__ = ("_keys", "_slots")

    def __init__(self, keys: Callable[[NodeState], Iterable[Hashable]]) -> None:
        """Create an empty index; `keys` returns the keys of a node."""
        self._keys = keys
        self._slots: dict[Hashable, list[int]] = {}

    def put(self, nodes: Iterable[NodeState]) -> None:
        """Add nodes. O(keys)."""
        slots = self._slots
        for node in nodes:
            for key in self._keys(node):
                slots.setdefault(key, []).append(node.slot)

    def fewest(
        self, alternatives: Sequence[Collection[Hashable]], *, most: int
    ) -> Collection[int] | None:
        """Return the slots of the nodes that have any key of the alternative with the fewest nodes.

        None: there are more than `most`. O(keys given + slots returned).
        """
        counts = [sum(len(self._slots.get(key, ())) for key in each) for each in alternatives]
        fewest = min(counts)
        if fewest > most:
            return None
        chosen = alternatives[counts.index(fewest)]
        return {slot for key in chosen for slot in self._slots.get(key, ())}
