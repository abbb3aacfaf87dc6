"""What searches for room have learned, kept for the next search of the same kind.

A search checks node by node whether evicting tasks there makes room for a claimant.
Two things are remembered, each until the node or the accounts of the jobs and queues
that run there change.

- `Bounds`: an upper bound on the victims, whatever the accounts become, from plugins
  with the hint `shielded`. Many claimants share it, it holds while accounts become
  smaller, and it decides most nodes.
- `Verdicts`: the victims that plugins allow. Only claimants that plugins cannot tell
  apart (hint `claimant_key`) share them, and they change with every account.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from collections.abc import Set as AbstractSet

from attrs import Factory, define, frozen

from batchsched.model.status import TaskStatus
from batchsched.session.victims import Victims
from batchsched.state.change_log import ChangeLog, Position
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector

__all__ = [
    "Bounds",
    "FailedSearch",
    "NodesAsOf",
    "RelevantChanges",
    "SearchResults",
    "Verdicts",
    "VictimBound",
    "running_nodes",
]


@define
class RelevantChanges:
    """Determines which changes can alter what is remembered for some claimants."""

    log: ChangeLog
    across_queues: QueueState | None
    """The claimants' queue, if they reclaim from other queues, whose accounts then matter too."""
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
            for job in relevant:
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


@frozen
class VictimBound:
    """An upper bound on the victims on a node."""

    tasks: Sequence[TaskState]
    total: Vector
    """The resources that they hold together."""
    alone: Vector
    """The resources held together by those that may be evicted without their whole jobs."""


@define
class NodesAsOf:
    """A set of nodes, valid at a position of the log."""

    position: Position
    """The position of the log at which it is valid; see `ChangeLog.position`."""
    indices: set[int]


@define
class Bounds:
    """Upper bounds on the victims on nodes."""

    changes: RelevantChanges
    position: Position
    """The position of the log at which `held` is valid; see `ChangeLog.position`."""
    held: dict[int, VictimBound] = Factory(dict[int, VictimBound])
    """Slot of a node to the tasks that no plugin shields there."""
    without_victims: set[int] = Factory(set[int])
    """The nodes without any such task, where no request will find room."""
    _open: dict[Hashable, NodesAsOf] = Factory(dict[Hashable, NodesAsOf])
    """Request to the nodes where the bound may be enough for it."""
    _open_alone: dict[Hashable, NodesAsOf] = Factory(dict[Hashable, NodesAsOf])
    """The same, when evicting single tasks only."""

    def catch_up(self) -> None:
        """Forget what may have changed. O(changes since, plus the tasks of jobs charged)."""
        now = self.changes.log.position()
        if self.position != now:
            changed = self._changed(self.position)
            _forget(self.held, changed)
            if changed is None:
                self.without_victims.clear()
            else:
                self.without_victims -= changed
            self.position = now

    def open_for(
        self, request_key: Hashable, large_enough: AbstractSet[int], *, alone: bool
    ) -> set[int]:
        """Return the nodes, of those that are large enough, that may have room for a request.

        The caller discards from it the nodes where the bound is not enough. `alone`: by
        evicting single tasks; if not, by evicting whole jobs too.
        """
        now = self.changes.log.position()
        which = self._open_alone if alone else self._open
        known = which.get(request_key)
        if known is None:
            known = which[request_key] = NodesAsOf(now, set(large_enough - self.without_victims))
        elif known.position != now:
            changed = self._changed(known.position)
            known.indices |= large_enough if changed is None else changed & large_enough
            known.position = now
        return known.indices

    def _changed(self, position: Position) -> set[int] | None:
        return self.changes.changed(position, givers=set(), charged_only=True)


@define
class SearchResults:
    """What searches for one kind of request have learned about nodes."""

    position: Position
    """The position of the log at which it is valid; see `ChangeLog.position`."""
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
        self.insufficient -= set(changed)
        self.insufficient_alone -= set(changed)
        for index in changed:
            self.with_jobs.pop(index, None)


@define
class Verdicts:
    """The victims that plugins allow on nodes."""

    changes: RelevantChanges
    position: Position
    """The position of the log at which `victims` is valid; see `ChangeLog.position`."""
    victims: dict[int, Victims] = Factory(dict[int, Victims])
    """Slot of a node to the victims that plugins allow there."""
    _searched: dict[Hashable, SearchResults] = Factory(dict[Hashable, SearchResults])
    """Kind of request to what searches for it have learned."""
    _givers: set[QueueState] = Factory(set[QueueState])

    def catch_up(self) -> None:
        """Forget what may have changed. O(changes since, plus the tasks of jobs that changed)."""
        now = self.changes.log.position()
        if self.position != now:
            _forget(self.victims, self._changed(self.position))
            self.position = now

    def keep(self, node_index: int, victims: Victims) -> None:
        """Remember the victims that plugins allow on a node."""
        self.victims[node_index] = victims
        if self.changes.across_queues is not None:
            for victim in victims.alone:
                assert victim.job is not None
                self._add_giver(victim.job)
            for job in [*victims.whole_jobs, *(unit.job for unit in victims.replicas)]:
                self._add_giver(job)

    def _add_giver(self, job: JobState) -> None:
        assert job.queue is not None
        self._givers.add(job.queue)

    def searched(self, request_key: Hashable) -> SearchResults:
        """Return what earlier searches for a request have learned, for this search to extend."""
        now = self.changes.log.position()
        known = self._searched.get(request_key)
        if known is None:
            known = self._searched[request_key] = SearchResults(now)
        elif known.position != now:
            known.forget(self._changed(known.position))
            known.position = now
        return known

    def _changed(self, position: Position) -> set[int] | None:
        return self.changes.changed(position, givers=self._givers, charged_only=False)


def _forget(
    known: dict[int, VictimBound] | dict[int, Victims], changed: Collection[int] | None
) -> None:
    if changed is None:
        known.clear()
    else:
        for index in changed:
            known.pop(index, None)


def running_nodes(job: JobState) -> set[int]:
    """Return the slots of the nodes where a job has Running tasks. O(these nodes)."""
    if not job.count(TaskStatus.RUNNING):
        return set()
    return {node.slot for node in job.running_nodes()}
