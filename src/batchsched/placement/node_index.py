"""An index of the nodes where one kind of task fits, kept up to date as nodes change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from batchsched.placement.score_index import Scored
from batchsched.state.change_log import NodeCursor, Watch

__all__ = ["Evaluate", "EvaluateOne", "NodeIndex"]

Evaluate = Callable[[Collection[int] | None], list[Scored]]
"""Scores those of some nodes (None: all) that are feasible and where the task fits."""


class Keeps(Protocol):
    """A collection of nodes by score: a `ScoreIndex` or an `Order`."""

    def load(self, scored: list[Scored], /) -> None: ...

    def put(self, scored: list[Scored], /) -> None: ...

    def put_one(self, index: int, score: float, /) -> None: ...

    def discard(self, indices: Iterable[int], /) -> None: ...


EvaluateOne = Callable[[int], float | None]
"""Scores a node if it is feasible and the task fits there; for kinds without raw scores."""

FEW = 12
"""Up to this many changes are processed one by one; more, all at once."""

KeepsT = TypeVar("KeepsT", bound=Keeps)


class NodeIndex(Generic[KeepsT]):
    """The nodes that meet a condition for a kind of task, with their scores.

    It evaluates only the nodes that have changed since the last `refresh`.
    """

    __slots__ = (
        *("_cursor", "_evaluate", "_evaluate_one", "_is_new", "_make", "_seen", "_watches"),
        "kept",
    )

    def __init__(
        self,
        evaluate: Evaluate,
        changes: Sequence[int],
        watches: Sequence[Watch],
        make: Callable[[], KeepsT],
        evaluate_one: EvaluateOne | None = None,
        scan: tuple[NodeCursor, list[Scored]] | None = None,
    ) -> None:
        """Create an index.

        Args:
            evaluate: scores nodes that meet the condition.
            changes: the log of changed nodes.
            watches: report other changes.
            make: creates the collection of nodes.
            evaluate_one: scores one node.
            scan: a known result of `evaluate` for all nodes, and the position in the change log at
                that time; not with `watches`. None: not evaluated yet.

        """
        self._evaluate = evaluate
        self._evaluate_one = evaluate_one
        self._cursor = NodeCursor(changes)
        self._watches = watches
        self._make = make
        self._is_new = True
        self._seen = [0] * len(watches)
        self.kept = make()
        """The nodes by score, as of the last `refresh`."""
        if scan is not None:
            self._cursor, scored = scan
            self.kept.load(scored)
            self._is_new = False

    def refresh(self) -> None:
        """Evaluate what changed. O(changes since the last time), at most O(nodes)."""
        unread = self._cursor.unread()
        is_new = self._is_new
        if not unread and not is_new:
            return
        if self._evaluate_one is not None and not is_new and len(unread) <= FEW:
            for index in unread:
                score = self._evaluate_one(index)
                if score is None:
                    self.kept.discard((index,))
                else:
                    self.kept.put_one(index, score)
            return
        changed = None if is_new else set(unread)
        self._is_new = False
        for number, watch in enumerate(self._watches):
            self._seen[number], elsewhere = watch.changed_since(self._seen[number])
            if elsewhere is None:
                changed = None
            elif changed is not None:
                changed.update(elsewhere)
        if changed is None:
            self.kept = self._make()
            self.kept.load(self._evaluate(None))
            return
        scored = self._evaluate(changed)
        self.kept.put(scored)
        if len(scored) < len(changed):
            changed.difference_update([index for index, _, _ in scored])
            self.kept.discard(changed)
