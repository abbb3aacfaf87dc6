"""Making room by a claim: where taking back what is on loan costs least.

In three stages: of what queues have beyond their shares, tasks that no job needs; then whole jobs
too; then all that is on loan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from batchsched.model.resources import EPSILON
from batchsched.plugin.claims import Claim, ClaimStage
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.needs import Need, need_of_task
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import plus

__all__ = ["make_room_by_claim"]

_Short = Callable[[Sequence[EvictionUnit]], tuple[int, ...]]


def make_room_by_claim(
    session: Session, statement: Statement, task: TaskState, claim: Claim
) -> bool:
    """Evict what has to go for a task, and promise the task its place there.

    Nodes are tried in node order: first for surplus alone, where the first node that is enough
    is taken; then with whole jobs, where of those that are enough the one is taken that costs
    the fewest tasks.

    Returns:
        Whether room was made. If not, nothing was changed.

    """
    there = set(claim.nodes())
    if not there:
        return False
    nodes = list(session.placement.feasible(task, there))
    for stage in ClaimStage:
        best: tuple[NodeState, list[TaskState]] | None = None
        for node in nodes:
            victims = _victims_on(session, task, claim, node, stage)
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
    session: Session, task: TaskState, claim: Claim, node: NodeState, stage: ClaimStage
) -> list[TaskState] | None:
    """Return whom to evict on a node, or None if that cannot be enough."""
    short = _shortage(task, claim, node)
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


def _shortage(task: TaskState, claim: Claim, node: NodeState) -> _Short:
    """Return what says in which dimensions a task is short on a node, given who has gone."""
    asked = [(d, wanted) for d, wanted in enumerate(task.init_resreq) if wanted >= EPSILON]
    future_idle, eventual = node.future_idle, node.eventual
    alone = need_of_task(task)

    def short(taken: Sequence[EvictionUnit]) -> tuple[int, ...]:
        leaving = {victim.uid: victim for unit in taken for victim in unit.victims}
        now, in_the_end = future_idle, eventual
        for victim in leaving.values():
            if victim.node is node:
                now = plus(now, victim.resreq)
                if not victim.is_backfill:
                    in_the_end = plus(in_the_end, victim.resreq)
        lacking = [
            d
            for d, wanted in asked
            if wanted - now[d] >= EPSILON or wanted - in_the_end[d] >= EPSILON
        ]
        limits = claim.short_of_limits(
            Need(alone.job, alone.tasks, alone.request, alone.dimensions, tuple(leaving.values()))
        )
        return tuple(sorted({*lacking, *limits})) if limits else tuple(lacking)

    return short
