"""What searches for room have found out, for the next search of the same sort.

A search asks, of one node after the other, whether evicting tasks there makes room
for a claimant. Two things are remembered, each until it may have changed: on the node,
or in the accounts of the jobs and queues that run there.

- `Bounds`: who could be evicted at most, whatever becomes of the accounts, as plugins
  with a `batchsched.plugin.Shield` tell. It is the same for many claimants, it holds
  while accounts become smaller, and it settles most nodes.
- `Verdicts`: whom plugins would let go. It is the same only for claimants that plugins
  cannot tell apart (`batchsched.plugin.ClaimantKey`), and changes with every account.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from collections.abc import Set as AbstractSet

from attrs import Factory, define

from batchsched.model.status import TaskStatus
from batchsched.state.ledger import Ledger, Position
from batchsched.state.records import HeldBy, JobState, QueueState, TaskState

__all__ = ["Bounds", "Claimed", "SomeNodes", "Verdicts", "running_nodes"]


@define
class Claimed:
    """From whom claimants claim."""

    ledger: Ledger
    across_queues: QueueState | None
    """The claimants' queue, if they claim from other queues; then their accounts matter too."""
    may_give: Callable[[QueueState], bool]
    """Whether any task of a queue could be a victim now."""

    def changed(
        self, position: Position, *, givers: set[QueueState], charged_only: bool
    ) -> set[int] | None:
        """Return the nodes where an answer may be another than at a position; None: on any.

        Args:
            position: see `Ledger.position`.
            givers: queues besides those that may give now whose accounts matter.
            charged_only: whether accounts matter only if they have become larger.
        """
        nodes, jobs, charged = self.ledger.changed_since(position)
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


@define
class SomeNodes:
    """Nodes of which something holds."""

    position: Position
    """As of when it holds; see `Ledger.position`."""
    indices: set[int]


@define
class Bounds:
    """Who could be evicted at most."""

    claimed: Claimed
    position: Position
    """As of when `held` holds; see `Ledger.position`."""
    held: dict[int, HeldBy] = Factory(dict[int, HeldBy])
    """Index of a node to the tasks that no plugin shields there."""
    nobody: set[int] = Factory(set[int])
    """The nodes where there is no such task, so that nothing that is asked for will find room."""
    _open: dict[Hashable, SomeNodes] = Factory(dict[Hashable, SomeNodes])
    """What claimants ask for to the nodes where the bound may be enough for it."""

    def catch_up(self) -> None:
        """Forget what may have changed. O(changes since, and the tasks of jobs charged)."""
        now = self.claimed.ledger.position()
        if self.position != now:
            changed = self._changed(self.position)
            _forget(self.held, changed)
            if changed is None:
                self.nobody.clear()
            else:
                self.nobody -= changed
            self.position = now

    def open_for(self, asked_for: Hashable, large_enough: AbstractSet[int]) -> set[int]:
        """Return which nodes, of those that are large enough, may have room for what is asked for.

        Discard from it the nodes where the bound is not enough.
        """
        now = self.claimed.ledger.position()
        known = self._open.get(asked_for)
        if known is None:
            known = self._open[asked_for] = SomeNodes(now, set(large_enough - self.nobody))
        elif known.position != now:
            changed = self._changed(known.position)
            known.indices |= large_enough if changed is None else changed & large_enough
            known.position = now
        return known.indices

    def _changed(self, position: Position) -> set[int] | None:
        return self.claimed.changed(position, givers=set(), charged_only=True)


@define
class Verdicts:
    """Whom plugins would let go."""

    claimed: Claimed
    position: Position
    """As of when `victims` holds; see `Ledger.position`."""
    victims: dict[int, list[TaskState]] = Factory(dict[int, list[TaskState]])
    """Index of a node to whom plugins would let go there, in victim order."""
    _in_vain: dict[Hashable, SomeNodes] = Factory(dict[Hashable, SomeNodes])
    """What claimants ask for to the nodes that were asked for it in vain."""
    _givers: set[QueueState] = Factory(set[QueueState])

    def catch_up(self) -> None:
        """Forget what may have changed. O(changes since, and the tasks of jobs that changed)."""
        now = self.claimed.ledger.position()
        if self.position != now:
            _forget(self.victims, self._changed(self.position))
            self.position = now

    def keep(self, node_index: int, victims: list[TaskState]) -> None:
        """Remember whom plugins would let go on a node."""
        self.victims[node_index] = victims
        if self.claimed.across_queues is not None:
            for victim in victims:
                assert victim.job is not None
                assert victim.job.queue is not None
                self._givers.add(victim.job.queue)

    def rejected_nodes(self, asked_for: Hashable) -> set[int]:
        """Return the nodes that were asked in vain for what is asked for; add those that are."""
        now = self.claimed.ledger.position()
        known = self._in_vain.get(asked_for)
        if known is None:
            known = self._in_vain[asked_for] = SomeNodes(now, set())
        elif known.position != now:
            changed = self._changed(known.position)
            if changed is None:
                known.indices.clear()
            else:
                known.indices -= changed
            known.position = now
        return known.indices

    def _changed(self, position: Position) -> set[int] | None:
        return self.claimed.changed(position, givers=self._givers, charged_only=False)


def _forget(
    known: dict[int, HeldBy] | dict[int, list[TaskState]], changed: Collection[int] | None
) -> None:
    if changed is None:
        known.clear()
    else:
        for index in changed:
            known.pop(index, None)


def running_nodes(job: JobState) -> set[int]:
    """Return the indices of the nodes where a job has Running tasks. O(tasks)."""
    if not job.count(TaskStatus.RUNNING):
        return set()
    return {
        task.node.index
        for task in job.tasks
        if task.status is TaskStatus.RUNNING and task.node is not None
    }
