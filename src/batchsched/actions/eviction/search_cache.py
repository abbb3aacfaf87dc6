"""What searches for room have learned, kept for the next search of the same kind.

A search checks node by node whether evicting tasks there makes room for a claimant.
Two things are remembered, each until the node or the accounts of the jobs and queues
that run there change.

- `victim_bounds.Bounds`: an upper bound on the victims, whatever the accounts become, from plugins
  with the hint `shielded`. Many claimants share it, it holds while accounts become
  smaller, and it decides most nodes.
- `Verdicts`: the victims that plugins allow. Only claimants that plugins cannot tell
  apart (hint `claimant_key`) share them, and they change with every account.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from attrs import Factory, define, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.state.change_log import ChangeLog, Position
from batchsched.state.records import JobState, QueueState

__all__ = [
    "ChangedNodes",
    "FailedSearch",
    "RelevantChanges",
    "forget_slots",
    "running_nodes",
]

AnyT = TypeVar("AnyT")


@define
class RelevantChanges:
    """Determines which changes can alter what is remembered for some claimants."""

    log: ChangeLog
    within: QueueState | None
    """The only queue of the candidates; None: they may be of several queues."""

    def changed(self, position: Position) -> set[int]:
        """Return the nodes whose answers may have changed since a position."""
        nodes, _, charged = self.log.changed_since(position)
        for job in charged:
            if self.within is None or job.queue is self.within:
                nodes |= running_nodes(job)
        return nodes


@frozen
class FailedSearch:
    """A search that found no room."""

    position: Position
    """The position of the log at that time; see `ChangeLog.position`."""

    def is_current(self, log: ChangeLog) -> bool:
        """Return whether nothing has changed since. O(1)."""
        return self.position == log.position()


@define
class ChangedNodes:
    """The nodes whose answers may have changed, for several readers that read them when needed."""

    position: Position
    """The position of the log up to which changes were read; see `ChangeLog.position`."""
    _steps: list[set[int] | None] = Factory(list[set[int] | None])
    """The nodes of each step; None: all nodes."""

    @property
    def count(self) -> int:
        """The number of steps so far; a reader that has read them all has read so many."""
        return len(self._steps)

    def add(self, nodes: set[int] | None, position: Position) -> None:
        """Add the nodes that may have changed up to a position of the log."""
        self.position = position
        if nodes is None or nodes:
            self._steps.append(nodes)

    def since(self, count: int) -> set[int] | None:
        """Return the nodes of all steps after the first `count`; None: all nodes."""
        found: set[int] = set()
        for nodes in self._steps[count:]:
            if nodes is None:
                return None
            found |= nodes
        return found


def forget_slots(known: dict[int, AnyT], changed: Collection[int] | None) -> None:
    """Drop what is known about the nodes with some slots; None: about all nodes."""
    if changed is None:
        known.clear()
    else:
        for slot in changed:
            known.pop(slot, None)


def running_nodes(job: JobState) -> set[int]:
    """Return the slots of the nodes where a job has Running tasks. O(these nodes)."""
    if not job.count(TaskStatus.RUNNING):
        return set()
    return {node.slot for node in job.running_nodes()}
