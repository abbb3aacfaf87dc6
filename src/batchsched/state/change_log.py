"""What changed: the log of changed nodes and jobs, and watches of what is read elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    """The changes in order; what undoes a change is a change, too."""

    __slots__ = ("charged_jobs", "jobs", "nodes")

    def __init__(self) -> None:
        self.nodes: list[int] = []
        """The slots of the nodes that changed."""
        self.jobs: list[JobState] = []
        """The jobs that changed."""
        self.charged_jobs: list[JobState] = []
        """The jobs to which more was charged."""

    def position(self) -> Position:
        """Return the present end of the logs."""
        return len(self.nodes), len(self.jobs), len(self.charged_jobs)

    def changed_since(self, position: Position) -> tuple[set[int], set[JobState], set[JobState]]:
        """Return what may differ from the state at a position: nodes, jobs, and charged jobs.

        O(changes since).
        """
        nodes, jobs, charged = position
        return set(self.nodes[nodes:]), set(self.jobs[jobs:]), set(self.charged_jobs[charged:])

    def begin_cycle(self) -> None:
        """Clear the logs of jobs, which makes all positions invalid.

        The log of nodes is kept: the placement engine may not have read it to the end.
        """
        self.jobs.clear()
        self.charged_jobs.clear()
