"""Make room by a claim: evict, where it costs least, from queues that borrow.

There are three stages. The first evicts only tasks that no job needs, from queues above their
shares; the second also evicts whole jobs of such queues; the third evicts all that is borrowed.
In the first stage the first node with enough victims is taken; in the others, the node with the
fewest. The claim says whom it takes on a node, one after the other, for as long as the task is
short of something there (`NodeShortage`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from attrs import define, evolve

from batchsched.actions.eviction.make_room import Room
from batchsched.model.resources import EPSILON
from batchsched.plugin.extension_points import Claim, ClaimStage
from batchsched.session.curing import accepts_without, curable_nodes
from batchsched.session.session import Session, Statement
from batchsched.state.doors import Door
from batchsched.state.memory import Reads, reopening
from batchsched.state.needs import need_of_task
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, plus


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
    room = _find_room(ClaimSearch(session, task, claim), curable=curable)
    if room is None:
        return False
    for victim in room.victims:
        statement.evict(victim, claimant=task)
    statement.pipeline(task, room.node)
    return True


def _find_room(search: ClaimSearch, *, curable: bool) -> Room | None:
    """Return the node where least has to be evicted, and whom to evict there."""
    session, task, claim = search.session, search.task, search.claim
    refusing = curable_nodes(session, task) if curable else []
    for node in refusing:
        if not NodeShortage(search, node, is_refused=True)(()):
            return Room(node, ())  # enough is leaving already
    refused = {node.slot for node in refusing}
    claim.nodes()  # begins a search
    for stage in ClaimStage:
        feasible = (
            session.placement.feasible(task)
            if search.is_plain
            else nodes_with_loans(session, task, claim, stage)
        )
        fewest: Room | None = None
        for node in chain(feasible, refusing):
            victims = _victims_on(search, node, stage, is_refused=node.slot in refused)
            if victims is not None and (fewest is None or len(victims) < fewest.cost):
                fewest = Room(node, victims)
                if stage is ClaimStage.SURPLUS_BEYOND_SHARE or len(victims) == 1:
                    break
        if fewest is not None:
            return fewest
    return None


def _victims_on(
    search: ClaimSearch, node: NodeState, stage: ClaimStage, *, is_refused: bool
) -> list[TaskState] | None:
    """Return the tasks to evict on a node, or None if evicting there is not enough."""
    short = NodeShortage(search, node, is_refused=is_refused)
    taken = list(search.claim.victims(node, stage, short))
    if not taken or short(taken):
        return None
    for unit in reversed(taken[:]):
        without = [other for other in taken if other is not unit]
        if without and not short(without):
            taken = without
    victims: dict[str, TaskState] = {}
    for unit in taken:
        for victim in search.session.in_victim_order(unit.victims):
            victims.setdefault(victim.uid, victim)
    return list(victims.values())


# What is short


class ClaimSearch:
    """The part of a search for a task that is the same on all nodes."""

    __slots__ = ("_alone", "_limits", "asked", "claim", "is_plain", "session", "task")

    def __init__(self, session: Session, task: TaskState, claim: Claim) -> None:
        """Compute the request of the task and the limits that it exceeds now."""
        self.session = session
        self.task = task
        self.claim = claim
        self.is_plain = Door.ROOM in session.plain
        """Whether nothing is foreseen: each node is tried to the end."""
        self.asked = [d for d, wanted in enumerate(task.init_resreq) if wanted >= EPSILON]
        """The dimensions that the task requests."""
        self._alone = need_of_task(task)
        self._limits = claim.short_of_limits(self._alone)

    def limits_once_gone(self, leaving: Collection[TaskState]) -> tuple[int, ...]:
        """Return the dimensions in which limits keep the task out once some tasks have left."""
        if not self._limits or not leaving:
            return self._limits  # evictions make limits no tighter
        return self.claim.short_of_limits(evolve(self._alone, leaving=tuple(leaving)))


class NodeShortage:
    """The dimensions that a task still lacks on a node, given which units are evicted.

    While the node would refuse the task even without those units, the task lacks all dimensions
    that it requests.
    """

    __slots__ = ("_is_refused", "_node", "_rooms", "_search")

    def __init__(self, search: ClaimSearch, node: NodeState, *, is_refused: bool) -> None:
        """Begin with a node; `is_refused`: whether it refuses the task now."""
        self._search = search
        self._node = node
        self._is_refused = is_refused
        self._rooms = (
            (node.future_idle, node.eventual) if node.divergence_count else (node.idle, node.idle)
        )

    def __call__(self, taken: Sequence[EvictionUnit], /) -> Collection[int]:
        """Return the dimensions that it lacks once some units are evicted."""
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
        """Return the dimensions in which it may be short, whatever is evicted."""
        return {*self._search.asked, *self(())} if self._is_refused else self(())

    def may_end_with(self, units: Iterable[EvictionUnit], /) -> bool:
        """Return False if the task is short even if all of some units are evicted."""
        if self._search.is_plain:
            return True
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


# Where room may be. Nothing here decides: without it, nodes would be visited in vain.

FEW = 8
"""Where at most one of so many nodes has anything on loan, these nodes are looked up."""


@define
class _OpenToClaims:
    """The nodes that may have room for a request once loans are evicted."""

    slots: set[int]
    changes_read: int
    """How many entries of `Claim.changes` were read."""


def nodes_with_loans(
    session: Session, task: TaskState, claim: Claim, stage: ClaimStage
) -> Iterator[NodeState]:
    """Yield the nodes that accept a task and where what is on loan may be enough, in node order.

    O(nodes) for the first request of this size in a session, then O(changes since).

    Args:
        session: the session.
        task: the claimant.
        claim: what its queue may reclaim; `Claim.nodes` must have been called.
        stage: which units may be evicted.

    """
    there = claim.nodes_at(stage)
    if not there:
        return
    large_enough = session.node_room.large_enough(task.init_resreq)
    reopen = reopening(large_enough)
    known = session.remembered.recall(
        ("loans", task.init_resreq, stage),
        lambda: _OpenToClaims(set(large_enough), len(claim.changes)),
        lambda open_, stale: reopen(open_.slots, stale),
        Reads.NODES,
    )
    nodes = session.nodes
    known.slots.update(nodes[index].slot for index in claim.changes[known.changes_read :])
    known.changes_read = len(claim.changes)
    if not known.slots:
        return
    if len(there) * FEW < len(known.slots):
        among = known.slots & {nodes[index].slot for index in there}
    else:
        among = known.slots
    too_small: list[int] = []
    try:
        for node in session.placement.feasible(task, among):
            if node.index not in there:
                continue
            if _may_be_enough(task, node, claim.at_most(node, stage)):
                yield node
            else:
                too_small.append(node.slot)
    finally:
        known.slots.difference_update(too_small)


def _may_be_enough(task: TaskState, node: NodeState, freed: Vector) -> bool:
    """Return False if a task lacks room on a node even once some resources are free."""
    now, finally_free = (
        (node.future_idle, node.eventual) if node.divergence_count else (node.idle, node.idle)
    )
    for d, wanted in enumerate(task.init_resreq):
        least = wanted - freed[d]
        if wanted >= EPSILON and (least - now[d] >= EPSILON or least - finally_free[d] >= EPSILON):
            return False
    return True
