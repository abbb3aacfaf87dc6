"""A table: the nodes where one kind of task fits in one way, kept as the cluster changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from batchsched.placement.kind import Kind
from batchsched.placement.ranking import Raw
from batchsched.states import NodeState

__all__ = ["Table"]


class Keeps(Protocol):
    """What keeps nodes by score: a `Ranking` or an `Order`."""

    def load(self, scored: list[tuple[int, Raw, float]]) -> None: ...

    def put(self, index: int, raw: Raw, score: float) -> None: ...

    def discard(self, index: int) -> None: ...


KeepsT = TypeVar("KeepsT", bound=Keeps)


class Table(Generic[KeepsT]):
    """The nodes that meet a condition for a kind of task, with their scores.

    It looks again at the nodes that changed since it was last asked, and at no others.
    """

    __slots__ = ("_changes", "_kind", "_make", "_meets", "_nodes", "_position", "_seen", "kept")

    def __init__(
        self,
        kind: Kind,
        nodes: Sequence[NodeState],
        changes: Sequence[int],
        meets: Callable[[NodeState], bool],
        make: Callable[[], KeepsT],
    ) -> None:
        self._kind = kind
        self._nodes = nodes
        self._changes = changes
        self._meets = meets
        self._make = make
        self._position = -1
        self._seen = [0] * len(kind.watches)
        self.kept = make()
        """The nodes, by score, as of the last `refresh`."""

    def refresh(self) -> None:
        """Look again at what changed. O(changes since the last time), at most O(nodes)."""
        changes = self._changes
        now = len(changes)
        if self._position == now:
            return
        changed = None if self._position < 0 else set(changes[self._position :])
        self._position = now
        for number, watch in enumerate(self._kind.watches):
            self._seen[number], elsewhere = watch.changed_since(self._seen[number])
            if elsewhere is None:
                changed = None
            elif changed is not None:
                changed.update(elsewhere)
        if changed is None:
            self._load()
        else:
            self._look_again(changed)

    def _load(self) -> None:
        kind = self._kind
        meets = self._meets
        feasible = kind.is_feasible
        score = kind.score
        raw = kind.raw
        is_raw = bool(kind.normalised)
        self.kept = self._make()
        self.kept.load(
            [
                (node.index, raw(node) if is_raw else (), score(node))
                for node in self._nodes
                if meets(node) and feasible(node)
            ]
        )

    def _look_again(self, changed: set[int]) -> None:
        # The one loop that matters: benchmarks/, workloads a and b.
        kind = self._kind
        meets = self._meets
        feasible = kind.is_feasible
        score = kind.score
        raw = kind.raw
        is_raw = bool(kind.normalised)
        nodes = self._nodes
        put = self.kept.put
        discard = self.kept.discard
        for index in changed:
            node = nodes[index]
            if meets(node) and feasible(node):
                put(index, raw(node) if is_raw else (), score(node))
            else:
                discard(index)
