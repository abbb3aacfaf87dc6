"""On which nodes what is on loan may be enough for what a task asks for.

A claim that finds nobody would visit all nodes with loans, and the next one like it again. So the
nodes where not even all loans together are enough are remembered, until anything changes there.
"""

from __future__ import annotations

from attrs import define

from batchsched.plugin.claims import Claim, ClaimStage
from batchsched.session.session import Session
from batchsched.state.change_log import Position
from batchsched.state.records import TaskState

__all__ = ["OpenNodes"]


@define
class OpenNodes:
    """The nodes where there may be room for what is asked for once loans are gone."""

    slots: set[int]
    """Their slots. Who finds that a node has too little discards it."""
    _position: Position
    """As of when it holds; see `Ledger.position`."""
    _read: int
    """How many changes of loans were read."""

    @classmethod
    def known_to(
        cls, session: Session, task: TaskState, claim: Claim, stage: ClaimStage
    ) -> OpenNodes:
        """Return the nodes that are not known to have too little for a task.

        O(nodes) the first time that a session asks for as much, then O(changes since).

        Args:
            session: where it is asked.
            task: what asks for it.
            claim: what its queue may reclaim, after `Claim.nodes` was asked.
            stage: who may be evicted.

        """
        log = session.log
        store = session.memo.store(cls)
        key = task.init_resreq, stage is ClaimStage.SURPLUS_BEYOND_SHARE
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
