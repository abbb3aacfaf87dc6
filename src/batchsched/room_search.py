"""What searches for room have found out, for the next search of the same sort.

A search asks, of one node after the other, whether evicting tasks there makes room
for a claimant. Whom plugins would let go on a node is the same for all claimants that
plugins cannot tell apart; and where a search was in vain it is in vain for any such
claimant that asks for the same, until something changes: on the node, or in the
accounts of the jobs and queues that run there. What plugins promise that makes this
right stands with `batchsched.plugin.ClaimantKey`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from attrs import Factory, define

from batchsched.ledger import Ledger, Position
from batchsched.states import JobState, QueueState, TaskState
from batchsched.status import TaskStatus

__all__ = ["Claims", "RoomSearch"]


@define
class RoomSearch:
    """The nodes that are still to be asked for claimants that ask for the same."""

    position: Position
    """As of when this holds; see `Ledger.position`."""
    open_nodes: set[int]
    """The indices of the nodes that were not asked in vain."""


@define
class Claims:
    """What is known for claimants that plugins cannot tell apart."""

    ledger: Ledger
    across_queues: QueueState | None
    """The claimants' queue, if they claim from other queues; then their accounts matter too."""
    may_give: Callable[[QueueState], bool]
    """Whether any task of a queue could be a victim now."""
    position: Position
    """As of when `victims` holds; see `Ledger.position`."""
    victims: dict[int, list[TaskState]] = Factory(dict[int, list[TaskState]])
    """Index of a node to whom plugins would let go there, in victim order."""
    hopeless: set[int] = Factory(set[int])
    """The indices of the nodes where that is nobody."""
    searches: dict[Hashable, RoomSearch] = Factory(dict[Hashable, RoomSearch])
    """What claimants ask for to the search for it."""
    _givers: set[QueueState] = Factory(set[QueueState])

    def catch_up(self) -> None:
        """Forget what may have changed. O(changes since, and the tasks of jobs that changed)."""
        if self.position == self.ledger.position():
            return
        nodes, jobs, charged = self.ledger.changed_since(self.position)
        self.position = self.ledger.position()
        opened = self._opened(nodes, charged)
        if opened is None:
            self.hopeless.clear()
        else:
            self.hopeless -= opened
        if self.across_queues is None:
            for job in jobs:
                nodes |= _nodes_of(job)
        elif self._touches_givers(jobs):
            self.victims.clear()
        for index in nodes:
            self.victims.pop(index, None)

    def keep(self, node_index: int, victims: list[TaskState]) -> None:
        """Remember whom plugins would let go on a node."""
        self.victims[node_index] = victims
        if not victims:
            self.hopeless.add(node_index)
        elif self.across_queues is not None:
            for victim in victims:
                assert victim.job is not None
                assert victim.job.queue is not None
                self._givers.add(victim.job.queue)

    def search(self, asked_for: Hashable) -> RoomSearch:
        """Return the search for what is asked for, brought up to date. O(changes since)."""
        ledger = self.ledger
        now = ledger.position()
        search = self.searches.get(asked_for)
        if search is None:
            search = RoomSearch(now, set(range(len(ledger.nodes))))
            self.searches[asked_for] = search
        elif search.position != now:
            nodes, _, charged = ledger.changed_since(search.position)
            opened = self._opened(nodes, charged)
            search.open_nodes.update(range(len(ledger.nodes)) if opened is None else opened)
            search.position = now
        return search

    def _opened(self, nodes: set[int], charged: set[JobState]) -> set[int] | None:
        """Return the nodes where somebody may have become a victim; None: on any node.

        Smaller accounts make nobody a victim; only what was charged more does.
        """
        opened = set(nodes)
        for job in charged:
            queue = job.queue
            if self.across_queues is None:
                opened |= _nodes_of(job)
            elif queue is not None and queue is not self.across_queues and self.may_give(queue):
                return None
        return opened

    def _touches_givers(self, jobs: set[JobState]) -> bool:
        return any(
            queue is not self.across_queues and (queue in self._givers or self.may_give(queue))
            for queue in {job.queue for job in jobs}
            if queue is not None
        )


def _nodes_of(job: JobState) -> set[int]:
    if not job.count(TaskStatus.RUNNING):
        return set()
    return {
        task.node.index
        for task in job.tasks
        if task.status is TaskStatus.RUNNING and task.node is not None
    }
