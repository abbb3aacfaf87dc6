"""Queues as a tree by position, so that traversals need no look-ups by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from batchsched.model.cluster import Queue

__all__ = ["QueueTree"]


class QueueTree:
    """A forest of queues under an unnamed root.

    Queues are identified by their position in order of name. `batchsched.Snapshot` has checked
    that every parent exists and that there are no cycles.

    >>> tree = QueueTree([Queue(name="b", parent="c"), Queue(name="a"), Queue(name="c")])
    >>> tree.names, tree.tops, tree.children[2], tree.path(1)
    (('a', 'b', 'c'), (0, 2), (1,), (1, 2))

    O(queues log queues) to create.
    """

    __slots__ = (
        *("_paths", "all_have_weights", "children", "downward", "inner_upward", "names"),
        *("parents", "position", "queues", "tops"),
    )

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.queues: Sequence[Queue] = sorted(queues, key=attrgetter("name"))
        """By position."""
        self.names = tuple(queue.name for queue in self.queues)
        self.position = {name: position for position, name in enumerate(self.names)}
        """The position of each queue, by name."""
        self.parents = tuple(
            -1 if queue.parent is None else self.position[queue.parent] for queue in self.queues
        )
        """The parent of each queue by position; -1: it has no parent."""
        children: list[list[int]] = [[] for _ in self.queues]
        tops: list[int] = []
        for position, parent in enumerate(self.parents):
            (tops if parent < 0 else children[parent]).append(position)
        self.children = tuple(map(tuple, children))
        """The children of each queue, in order of name."""
        self.tops = tuple(tops)
        """The queues without a parent, in order of name."""
        downward = list(tops)
        for position in downward:
            downward.extend(children[position])
        self.downward = tuple(downward)
        """All queues, each before its children."""
        self.inner_upward = tuple(p for p in reversed(downward) if children[p])
        """The queues with children, each after those below it."""
        self.all_have_weights = all(queue.weight for queue in self.queues)
        """Whether no queue has weight 0."""
        self._paths: dict[int, tuple[int, ...]] = {}

    def is_leaf(self, position: int) -> bool:
        """Return whether a queue has no children, so that jobs may name it."""
        return not self.children[position]

    def path(self, position: int) -> tuple[int, ...]:
        """Return a queue and its ancestors, from itself to the top."""
        known = self._paths.get(position)
        if known is None:
            path = [position]
            while (parent := self.parents[path[-1]]) >= 0:
                path.append(parent)
            known = self._paths[position] = tuple(path)
        return known

    def branches(self, left: int, right: int) -> tuple[int, int]:
        """Return the ancestors of two queues (or the queues) that are siblings.

        Neither queue may be below the other, or equal to it.
        """
        left_path, right_path = self.path(left), self.path(right)
        steps = min(len(left_path), len(right_path))
        for step in range(1, steps + 1):
            if left_path[-step] != right_path[-step]:
                return left_path[-step], right_path[-step]
        names = f"{self.names[left]!r} and {self.names[right]!r}"
        raise ValueError(f"expected queues on different paths, got {names}")
