"""Make room by a claim: evict, where it costs least, from queues that borrow.

There are three stages. The first evicts only tasks that no job needs, from queues above their
shares; the second also evicts whole jobs of such queues; the third evicts all that is borrowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from batchsched.model.resources import EPSILON
from batchsched.plugin.claims import Claim, ClaimStage
from batchsched.session.curing import accepts_without, curable_nodes
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.needs import Need, need_of_task
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import plus

__all__ = ["make_room_by_claim"]

_Short = Callable[[Sequence[EvictionUnit]], tuple[int, ...]]


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
    there = {session.nodes[index].slot for index in claim.nodes()}
    curing = curable_nodes(session, task) if curable else []
    for node in curing:
        # Enough tasks are leaving already.
        if not _shortage(session, task, claim, node, is_refused=True)(()):
            statement.pipeline(task, node)
            return True
    if not there:
        return False
    curing = [node for node in curing if node.slot in there]
    refusing = {node.slot for node in curing}
    nodes = [*session.placement.feasible(task, there), *curing]
    for stage in ClaimStage:
        best: tuple[NodeState, list[TaskState]] | None = None
        for node in nodes:
            short = _shortage(session, task, claim, node, is_refused=node.slot in refusing)
            victims = _victims_on(session, claim, node, stage, short)
            if victims is not None and (best is None or len(victims) < len(best[1])):
                best = node, victims
                if stage is ClaimStage.SURPLUS_BEYOND_SHARE or len(victims) == 1:
                    break
        if best is not None:
            node, victims = best
            for victim in victims:
                statement.evict(victim, claimant=task)
            statement.pipeline(task, node)
            return True
    return False


def _victims_on(
    session: Session, claim: Claim, node: NodeState, stage: ClaimStage, short: _Short
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


def _shortage(
    session: Session, task: TaskState, claim: Claim, node: NodeState, *, is_refused: bool
) -> _Short:
    """Return a function from evicted units to the dimensions that a task still lacks on a node.

    While the node would refuse the task even without those units, the task lacks all dimensions
    that it requests. `is_refused`: whether the node refuses it now.
    """
    asked = [(d, wanted) for d, wanted in enumerate(task.init_resreq) if wanted >= EPSILON]
    future_idle, eventual = node.future_idle, node.eventual
    alone = need_of_task(task)

    def short(taken: Sequence[EvictionUnit]) -> tuple[int, ...]:
        leaving = {victim.uid: victim for unit in taken for victim in unit.victims}
        now, finally_free = future_idle, eventual
        for victim in leaving.values():
            if victim.node is node:
                now = plus(now, victim.resreq)
                if not victim.is_backfill:
                    finally_free = plus(finally_free, victim.resreq)
        short_here = [
            d
            for d, wanted in asked
            if wanted - now[d] >= EPSILON or wanted - finally_free[d] >= EPSILON
        ]
        limits = claim.short_of_limits(
            Need(alone.job, alone.tasks, alone.request, alone.dimensions, tuple(leaving.values()))
        )
        found = tuple(sorted({*short_here, *limits})) if limits else tuple(short_here)
        if is_refused and not found and not accepts_without(session, task, node, leaving.values()):
            return tuple([dimension for dimension, _ in asked])
        return found

    return short
