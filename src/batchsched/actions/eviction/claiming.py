"""Make room by a claim: evict, where it costs least, from queues that borrow.

There are three stages. The first evicts only tasks that no job needs, from queues above their
shares; the second also evicts whole jobs of such queues; the third evicts all that is borrowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

from batchsched.actions.eviction.claim_shortage import ClaimSearch, NodeShortage
from batchsched.actions.eviction.open_nodes import OpenNodes
from batchsched.plugin.extension_points import Claim, ClaimStage
from batchsched.session.curing import curable_nodes
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import NodeState, TaskState

__all__ = ["make_room_by_claim"]

FEW = 8
"""Where at most one of so many nodes has anything on loan, these nodes are looked up."""


def make_room_by_claim(
    session: Session, statement: Statement, task: TaskState, claim: Claim, *, curable: bool = False
) -> bool:
    """Evict the tasks that are in the way of a task, and pipeline it to the node.

    Nodes are tried in node order. When evicting only surplus tasks, the first node with enough of
    them is taken; when evicting whole jobs too, the node where the fewest tasks are evicted.

    Args:
        session: the session.
        statement: records the evictions and the placement.
        task: the claimant, Pending.
        claim: what its queue may reclaim.
        curable: whether to search also, after the others, nodes that refuse the task only for
            reasons that evicting can cure.

    Returns:
        Whether room was made. If not, nothing was changed.

    """
    anywhere = claim.nodes()
    curing = curable_nodes(session, task) if curable else []
    search = ClaimSearch(session, task, claim)
    for node in curing:
        # Enough tasks are leaving already.
        if not NodeShortage(search, node, is_refused=True)(()):
            statement.pipeline(task, node)
            return True
    if not anywhere:
        return False
    for stage in ClaimStage:
        there = claim.nodes_at(stage)
        if not there:
            continue
        best: tuple[NodeState, list[TaskState]] | None = None
        open_nodes = OpenNodes.known_to(session, task, claim, stage)
        feasible = _feasible(session, task, there, open_nodes.slots)
        refusing = [node for node in curing if node.index in there]
        refused = {node.slot for node in refusing}
        too_small: list[int] = []
        for node in chain(feasible, refusing):
            is_refused = node.slot in refused
            short = NodeShortage(search, node, is_refused=is_refused)
            if not is_refused and not short.may_end_without(claim.at_most(node, stage)):
                too_small.append(node.slot)
                continue
            victims = _victims_on(session, claim, node, stage, short)
            if victims is not None and (best is None or len(victims) < len(best[1])):
                best = node, victims
                if stage is ClaimStage.SURPLUS_BEYOND_SHARE or len(victims) == 1:
                    break
        open_nodes.slots.difference_update(too_small)
        if best is not None:
            node, victims = best
            for victim in victims:
                statement.evict(victim, claimant=task)
            statement.pipeline(task, node)
            return True
    return False


def _feasible(
    session: Session, task: TaskState, there: Collection[int], open_slots: set[int]
) -> Iterable[NodeState]:
    """Return the feasible nodes of some indices and slots, in node order."""
    if not open_slots:
        return ()
    if len(there) * FEW < len(open_slots):
        nodes = session.nodes
        return session.placement.feasible(task, open_slots & {nodes[index].slot for index in there})
    return (node for node in session.placement.feasible(task, open_slots) if node.index in there)


def _victims_on(
    session: Session, claim: Claim, node: NodeState, stage: ClaimStage, short: NodeShortage
) -> list[TaskState] | None:
    """Return the tasks to evict on a node, or None if evicting there is not enough."""
    taken = list(claim.victims(node, stage, short))
    if not taken or short(taken):
        return None
    for unit in reversed(taken[:]):
        without = [other for other in taken if other is not unit]
        if without and not short(without):
            taken = without
    victims: dict[str, TaskState] = {}
    for unit in taken:
        for victim in session.in_victim_order(unit.victims):
            victims.setdefault(victim.uid, victim)
    return list(victims.values())
