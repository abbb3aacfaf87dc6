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

from collections.abc import Callable, Collection, Hashable
from typing import TypeVar

from attrs import Factory, define, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.session.victims import Victims
from batchsched.state.change_log import ChangeLog, Position
from batchsched.state.records import JobState, QueueState

__all__ = [
    "ChangedNodes",
    "FailedSearch",
    "RelevantChanges",
    "SearchResults",
    "Verdicts",
    "forget_slots",
    "running_nodes",
]

AnyT = TypeVar("AnyT")


@define
class RelevantChanges:
    """Determines which changes can alter what is remembered for some claimants."""

    log: ChangeLog
    across_queues: QueueState | None
    """The claimants' queue, if they reclaim from other queues, whose accounts then matter too."""
    within: QueueState | None
    """The only queue of the candidates; None: they may be of several queues."""
    may_give: Callable[[QueueState], bool]
    """Returns whether any task of a queue could be a victim now."""

    def changed(
        self, position: Position, *, givers: set[QueueState], charged_only: bool
    ) -> set[int] | None:
        """Return the nodes whose answers may have changed since a position; None: all nodes.

        Args:
            position: see `ChangeLog.position`.
            givers: queues whose accounts matter, besides those that could have victims now.
            charged_only: whether accounts matter only if they have become larger.
        """
        nodes, jobs, charged = self.log.changed_since(position)
        relevant = charged if charged_only else jobs
        if self.across_queues is None:
            within = self.within
            for job in relevant:
                if within is None or job.queue is within:
                    nodes |= running_nodes(job)
        elif self._touches(relevant, givers):
            return None
        return nodes

    def _touches(self, jobs: set[JobState], givers: set[QueueState]) -> bool:
        return any(
            queue is not self.across_queues and (queue in givers or self.may_give(queue))
            for queue in {job.queue for job in jobs}
            if queue is not None
        )


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


@define
class SearchResults:
    """What searches for one kind of request have learned about nodes."""

    read: int
    """How many steps of `ChangedNodes` it takes into account."""
    insufficient: set[int] = Factory(set[int])
    """The nodes where evicting is not enough."""
    insufficient_alone: set[int] = Factory(set[int])
    """The nodes where evicting single tasks is not enough."""
    with_jobs: dict[int, int] = Factory(dict[int, int])
    """Slot of a node where evicting whole jobs too is enough to the number of tasks evicted."""

    def forget(self, changed: Collection[int] | None) -> None:
        """Forget some nodes; None: all."""
        if changed is None:
            self.insufficient.clear()
            self.insufficient_alone.clear()
            self.with_jobs.clear()
            return
        self.insufficient.difference_update(changed)
        self.insufficient_alone.difference_update(changed)
        if self.with_jobs:
            for slot in changed:
                self.with_jobs.pop(slot, None)


class Verdicts:
    """The victims that plugins allow on nodes."""

    __slots__ = ("_changed", "_changes", "_givers", "_searched", "victims")

    def __init__(self, changes: RelevantChanges) -> None:
        self._changes = changes
        self._changed = ChangedNodes(changes.log.position())
        self.victims: dict[int, Victims] = {}
        """Slot of a node to the victims that plugins allow there."""
        self._searched: dict[Hashable, SearchResults] = {}
        """Kind of request to what searches for it have learned."""
        self._givers: set[QueueState] = set()

    def catch_up(self) -> None:
        """Forget what may have changed. O(changes since, plus the tasks of jobs that changed)."""
        now = self._changes.log.position()
        if self._changed.position == now:
            return
        changed = self._changes.changed(
            self._changed.position, givers=self._givers, charged_only=False
        )
        self._changed.add(changed, now)
        forget_slots(self.victims, changed)

    def keep(self, slot: int, victims: Victims) -> None:
        """Remember the victims that plugins allow on a node."""
        self.victims[slot] = victims
        if self._changes.across_queues is not None:
            for victim in victims.alone:
                assert victim.job is not None
                self._add_giver(victim.job)
            for job in [*victims.whole_jobs, *(unit.job for unit in victims.replicas)]:
                self._add_giver(job)

    def _add_giver(self, job: JobState) -> None:
        assert job.queue is not None
        self._givers.add(job.queue)

    def searched(self, request_key: Hashable) -> SearchResults:
        """Return what earlier searches for a request have learned, for this search to extend.

        Valid as of the last `catch_up`.
        """
        steps = self._changed.count
        known = self._searched.get(request_key)
        if known is None:
            known = self._searched[request_key] = SearchResults(steps)
        elif known.read != steps:
            known.forget(self._changed.since(known.read))
            known.read = steps
        return known


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
