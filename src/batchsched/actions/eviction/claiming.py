"""Make room by a claim: evict, where it costs least, from queues that borrow.

There are three stages. The first evicts only tasks that no job needs, from queues above their
shares; the second also evicts whole jobs of such queues; the third evicts all that is borrowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import evolve

from batchsched.model.resources import EPSILON
from batchsched.plugin.claims import Claim, ClaimStage
from batchsched.session.curing import accepts_without, curable_nodes
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.needs import need_of_task
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import plus

__all__ = ["make_room_by_claim"]


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
    search = _Search(session, task, claim)
    for node in curing:
        # Enough tasks are leaving already.
        if not _Shortage(search, node, is_refused=True)(()):
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
            short = _Shortage(search, node, is_refused=node.slot in refusing)
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
    session: Session, claim: Claim, node: NodeState, stage: ClaimStage, short: _Shortage
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


class _Search:
    """What holds on all nodes that are searched for a task."""

    __slots__ = ("_alone", "_limits", "asked", "claim", "session", "task")

    def __init__(self, session: Session, task: TaskState, claim: Claim) -> None:
        self.session = session
        self.task = task
        self.claim = claim
        self.asked = [d for d, wanted in enumerate(task.init_resreq) if wanted >= EPSILON]
        """The dimensions that the task asks for."""
        self._alone = need_of_task(task)
        self._limits = claim.short_of_limits(self._alone)

    def limits_once_gone(self, leaving: Collection[TaskState]) -> tuple[int, ...]:
        """Return the dimensions in which limits keep the task out once some tasks are gone."""
        if not self._limits or not leaving:
            return self._limits  # who leaves makes them no tighter
        return self.claim.short_of_limits(evolve(self._alone, leaving=tuple(leaving)))


class _Shortage:
    """The dimensions that a task still lacks on a node, given which units are evicted.

    While the node would refuse the task even without those units, the task lacks all dimensions
    that it requests.
    """

    __slots__ = ("_is_refused", "_node", "_rooms", "_search")

    def __init__(self, search: _Search, node: NodeState, *, is_refused: bool) -> None:
        """Begin with a node; `is_refused`: whether it refuses the task now."""
        self._search = search
        self._node = node
        self._is_refused = is_refused
        self._rooms = (node.future_idle, node.eventual) if node.special else (node.idle, node.idle)

    def __call__(self, taken: Sequence[EvictionUnit], /) -> Collection[int]:
        search = self._search
        leaving = {victim.uid: victim for unit in taken for victim in unit.victims}
        found = self._short_here(leaving.values())
        limits = search.limits_once_gone(leaving.values())
        if limits:
            found = sorted({*found, *limits})
        if (
            not found
            and self._is_refused
            and not accepts_without(search.session, search.task, self._node, leaving.values())
        ):
            return search.asked
        return found

    def may_be(self) -> Collection[int]:
        """Return the dimensions in which it may be short, whoever is gone."""
        return {*self._search.asked, *self(())} if self._is_refused else self(())

    def may_end_with(self, units: Iterable[EvictionUnit], /) -> bool:
        """Return False if the task is short whichever of some units are gone."""
        leaving = {victim.uid: victim for unit in units for victim in unit.victims}
        return not (
            self._short_here(leaving.values()) or self._search.limits_once_gone(leaving.values())
        )

    def _short_here(self, leaving: Iterable[TaskState]) -> list[int]:
        now, finally_free = self._rooms
        for victim in leaving:
            if victim.node is self._node:
                now = plus(now, victim.resreq)
                if not victim.is_backfill:
                    finally_free = plus(finally_free, victim.resreq)
        wanted = self._search.task.init_resreq
        return [
            d
            for d in self._search.asked
            if wanted[d] - now[d] >= EPSILON or wanted[d] - finally_free[d] >= EPSILON
        ]
