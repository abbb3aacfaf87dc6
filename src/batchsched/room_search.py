"""What a search for room has found out, for the next search of the same kind.

A search asks, of one node after the other, whether evicting tasks there makes room
for a claimant. Where that was in vain it is in vain for any claimant of the same
kind, until something changes on the node, or in the accounts of the jobs that run there.
"""

from __future__ import annotations

from attrs import define

from batchsched.ledger import Ledger
from batchsched.states import QueueState
from batchsched.status import TaskStatus

__all__ = ["RoomSearch"]


@define
class RoomSearch:
    """The nodes that are still to be asked, as of a position in the record of changes."""

    position: tuple[int, int]
    """As of when this holds; see `Ledger.position`."""
    open_nodes: set[int]
    """The indices of the nodes that were not asked in vain."""

    def catch_up(self, ledger: Ledger) -> None:
        """Open again what changed since. O(changes since, and the tasks of jobs that changed)."""
        nodes, jobs = ledger.changed_since(self.position)
        self.open_nodes |= nodes
        for job in jobs:
            if job.count(TaskStatus.RUNNING):
                self.open_nodes.update(
                    task.node.index
                    for task in job.tasks
                    if task.status is TaskStatus.RUNNING and task.node is not None
                )
        self.position = ledger.position()

    def catch_up_with_queues(self, ledger: Ledger, own: QueueState) -> None:
        """Do the same where verdicts read the accounts of all queues but the claimant's own."""
        nodes, jobs = ledger.changed_since(self.position)
        touched = {job.queue for job in jobs if job.queue is not own}
        if touched:
            self.open_nodes = set(range(len(ledger.nodes)))
            self.position = ledger.position()
        else:
            self.open_nodes |= nodes
            self.position = ledger.position()
