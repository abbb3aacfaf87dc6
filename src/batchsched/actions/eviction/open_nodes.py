"""The nodes where loans may free enough for a task.

A claim that finds no victims would visit all nodes with loans, and so would the next like claim.
So the nodes where not even all loans together are enough are remembered until they change.
"""

from __future__ import annotations

from attrs import define

from batchsched.plugin.extension_points import Claim, ClaimStage
from batchsched.session.session import Session
from batchsched.state.change_log import Position
from batchsched.state.records import TaskState

__all__ = ["OpenNodes"]


@define
class OpenNodes:
    """The nodes that may have room for a request once loans are evicted."""

    slots: set[int]
    """Their slots. A search that finds too little on a node discards its slot."""
    _position: Position
    """The position in the log up to which `slots` is valid; see `ChangeLog.position`."""
    _read: int
    """How many entries of `Claim.changes` were read."""

    @classmethod
    def known_to(
        cls, session: Session, task: TaskState, claim: Claim, stage: ClaimStage
    ) -> OpenNodes:
        """Return the nodes that are not known to have too little for a task.

        O(nodes) for the first request of this size in a session, then O(changes since).

        Args:
            session: the session.
            task: the claimant.
            claim: what its queue may reclaim; `Claim.nodes` must have been called.
            stage: which units may be evicted.

        """
        log = session.log
        store = session.memo.store(cls)
        key = task.init_resreq, stage
        known = store.get(key)
        if known is None:
            large_enough = set(session.node_room.large_enough(task.init_resreq))
            known = store[key] = cls(large_enough, log.position(), len(claim.changes))
            return known
        if known._position != log.position():
            nodes, _, _ = log.changed_since(known._position)
            known.slots |= nodes
            known._position = log.position()
        known.slots.update(session.nodes[index].slot for index in claim.changes[known._read :])
        known._read = len(claim.changes)
        return known
