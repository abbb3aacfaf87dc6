"""What changed: the log of changed nodes and jobs, and watches of what is read elsewhere."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import islice
from operator import itemgetter
from typing import Protocol

from batchsched.state.records import JobState

__all__ = [
    "ChangeLog",
    "NodeCursor",
    "Position",
    "Watch",
]


class Watch(Protocol):
    """Reports the nodes for which an answer that reads the whole cluster may have changed."""

    def changed_since(self, position: int, /) -> tuple[int, Collection[int] | None]:
        """Return the present end of the log, and what changed since `position`.

        Changes are given as slots of nodes; None: any node may have changed. Nodes whose own
        tasks changed need not be included.
        """
        ...


Position = tuple[int, int, int]
"""A position in the logs of changed nodes, changed jobs, and charged jobs."""


class NodeCursor:
    """The position of a reader in the log of changed nodes."""

    __slots__ = ("_changes", "position")

    def __init__(self, changes: Sequence[int]) -> None:
        """Begin at the end: earlier changes are known to the reader."""
        self._changes = changes
        self.position = len(changes)
        """The number of changes that were read."""

    def unread(self) -> Sequence[int]:
        """Return the slots of nodes changed since the last call; a slot may occur twice.

        O(changes since).
        """
        changes = self._changes
        begin = self.position
        self.position = len(changes)
        return changes[begin:] if begin != self.position else ()


class ChangeLog:
    """The changes in order, with the ranges that were undone."""

    __slots__ = ("_undone", "charged_jobs", "jobs", "nodes")

    def __init__(self) -> None:
        self.nodes: list[int] = []
        """The slots of the nodes that changed."""
        self.jobs: list[JobState] = []
        """The jobs that changed."""
        self.charged_jobs: list[JobState] = []
        """The jobs to which more was charged."""
        self._undone: list[tuple[Position, Position]] = []

    def position(self) -> Position:
        """Return the present end of the logs."""
        return len(self.nodes), len(self.jobs), len(self.charged_jobs)

    def record_rollback(self, since: Position) -> None:
        """Record that all changes since a position have been undone."""
        undone = self._undone
        while undone and undone[-1][0] >= since:
            undone.pop()
        now = self.position()
        if now != since:
            undone.append((since, now))

    def changed_since(self, position: Position) -> tuple[set[int], set[JobState], set[JobState]]:
        """Return what may differ from the state at a position: nodes, jobs, and charged jobs.

        Changes that were undone since then are not included. O(changes since).
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
        """Clear the logs of jobs and of undone ranges, which makes all positions invalid.

        The log of nodes is kept: the placement engine may not have read it to the end.
        """
        self.jobs.clear()
        self.charged_jobs.clear()
        self._undone.clear()
