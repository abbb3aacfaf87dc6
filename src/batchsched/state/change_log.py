"""The log of what changed in the books: nodes and jobs, in the order of the changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter

from batchsched.state.records import JobState

__all__ = ["ChangeLog", "NodeCursor", "Position"]

Position = tuple[int, int, int]
"""A position in the records of changes: of nodes, of jobs, of jobs that were charged."""


class NodeCursor:
    """How far a reader has read the record of changed nodes."""

    __slots__ = ("_changes", "position")

    def __init__(self, changes: Sequence[int]) -> None:
        """Begin at the end: what has changed until now is known."""
        self._changes = changes
        self.position = len(changes)
        """How many changes were read."""

    def unread(self) -> Sequence[int]:
        """Return the slots of the nodes that changed since the last call; a node may come twice.

        O(changes since).
        """
        changes = self._changes
        begin = self.position
        self.position = len(changes)
        return changes[begin:] if begin != self.position else ()


class ChangeLog:
    """What changed, in order, and which stretches of it were undone again."""

    __slots__ = ("_undone", "charged_jobs", "jobs", "nodes")

    def __init__(self) -> None:
        self.nodes: list[int] = []
        """The slots of the nodes that changed."""
        self.jobs: list[JobState] = []
        """The jobs whose accounts changed."""
        self.charged_jobs: list[JobState] = []
        """The jobs that were charged more."""
        self._undone: list[tuple[Position, Position]] = []

    def position(self) -> Position:
        """Return where the records of changes end now."""
        return len(self.nodes), len(self.jobs), len(self.charged_jobs)

    def record_rollback(self, since: Position) -> None:
        """Record that all that changed since a position has been undone again."""
        undone = self._undone
        while undone and undone[-1][0] >= since:
            undone.pop()
        now = self.position()
        if now != since:
            undone.append((since, now))

    def changed_since(self, position: Position) -> tuple[set[int], set[JobState], set[JobState]]:
        """Return what may differ from what it was at a position: nodes, jobs, jobs charged more.

        What changed and was undone since leaves no trace. O(changes since).
        """
        nodes: set[int] = set()
        jobs: set[JobState] = set()
        charged: set[JobState] = set()
        first = bisect_left(self._undone, position, key=itemgetter(0))
        for begin, end in [*islice(self._undone, first, None), (self.position(), position)]:
            nodes.update(self.nodes[position[0] : begin[0]])
            jobs.update(self.jobs[position[1] : begin[1]])
            charged.update(self.charged_jobs[position[2] : begin[2]])
            position = end
        return nodes, jobs, charged

    def begin_cycle(self) -> None:
        """Forget which jobs changed and what was undone; no position is of use any more.

        Which nodes changed is kept: the placement engine may not have caught up with it.
        """
        self.jobs.clear()
        self.charged_jobs.clear()
        self._undone.clear()
