"""Make room by a claim: evict, where it costs least, what queues have on loan.

There are four stages. The first evicts only tasks that no job needs, from queues above their
shares; the second also evicts whole jobs of such queues; the third evicts all that is on loan; the
fourth also what fair shares cover, as far as the claim may take that. In the first stage the first
node with enough victims is taken; in the others, the node with the fewest. The claim says whom it
takes for a node, as long as the task is short of something there (`NodeShortage`): of room, or of
what limits let its queue have.

At the end of a turn, units that the turn can do without are spared (`spare_units`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain

from attrs import define, evolve, field

from batchsched.actions.eviction.make_room import spare_units
from batchsched.actions.eviction.searching import (
    NodeSearch,
    Opening,
    find_opening,
    held_by_importance,
    importance_among,
    importances_in,
    lost_nodes,
    sparing_at_first,
)
from batchsched.actions.eviction.telling import told_of_claim
from batchsched.model.resources import EPSILON
from batchsched.placement import Fit
from batchsched.plugin.claims import Claim, ClaimStage, Lack
from batchsched.session.session import Session
from batchsched.session.statements import Statement, TakenUnit
from batchsched.session.victims import EvictionScope, WhyNot
from batchsched.state.memory import DependsOn, forget, reopening
from batchsched.state.needs import Need, need_of_task
from batchsched.state.records import NodeState, QueueState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, total_of


@define
class ClaimTurn:
    """A turn in which tasks claim, and what it has taken so far."""

    session: Session
    statement: Statement
    """Records the evictions and the placements, and nothing else."""
    claim: Claim
    """What the queue may reclaim."""
    curable: bool = False
    """Whether to search also, after the others, nodes that refuse a task only for reasons that
    evicting can cure."""

    def make_room(self, task: TaskState) -> bool:
        """Evict the tasks that are in the way of a task, and pipeline it to the node.

        Nodes are tried in node order. When evicting only surplus tasks, the first node with enough
        of them is taken; when evicting whole jobs too, the node where the fewest tasks are evicted.

        Returns:
            Whether room was made. If not, nothing was changed.

        """
        search = ClaimSearch(
            session=self.session,
            task=task,
            claim=self.claim,
            within=self.statement.within,
            kept=self.statement.kept_for(task),
            curable=self.curable,
        )
        opening = sparing_at_first(search, _find_victims)
        if opening is None:
            return False
        session, claim, node = self.session, self.claim, opening.node

        def told(taken: Sequence[TakenUnit]) -> Sequence[TakenUnit]:
            why_not = partial(why_not_victims, session, task, claim, curable=self.curable)
            return told_of_claim(session, claim, node, taken, why_not)

        # A claim keeps to the limits that it knows; other plugins may have limits too.
        return search.take(self.statement, opening, told)

    def spare_units(self, placed: Sequence[TaskState], *, may_be_of_one: bool) -> bool:
        """Drop units that the turn can do without; see `batchsched.actions.eviction.make_room`.

        One that another takes along is not dropped. Returns whether the rest is allowed.
        """

        def may_be_dropped(one: TakenUnit, without: Sequence[TakenUnit]) -> bool:
            mine, others = one.unit, [other.unit for other in without if other.unit is not None]
            return mine is None or not any(other.takes_along(mine) for other in others)

        def is_allowed(without: Sequence[TakenUnit]) -> bool:
            return self.claim.allows([other.unit for other in without if other.unit is not None])

        return spare_units(
            self.session,
            self.statement,
            placed,
            may_be_dropped=may_be_dropped,
            is_allowed=is_allowed,
            may_be_of_one=may_be_of_one,
        )


def _find_victims(search: ClaimSearch) -> Opening | None:
    """Return the node where least has to be evicted, and whom the claim evicts there."""
    return find_opening(search, partial(_best_of, search))


def _best_of(search: ClaimSearch, refusing: Sequence[NodeState]) -> Opening | None:
    """Search the nodes that accept the task as they are, and those that may once others leave."""
    session, claim = search.session, search.claim
    refused = {node.slot for node in refusing}
    search.least = None
    claim.begin()
    for stage in ClaimStage:
        feasible = search.feasible() if search.is_plain else nodes_with_loans(search, stage)
        for node in chain(feasible, refusing):
            if not search.may_be_better_on(node):
                continue
            short = NodeShortage(search, node, is_refused=node.slot in refused)
            taken = claim.victims(node, stage, short)
            if not taken:
                continue
            taken = _spared(search, taken, short)
            units = [session.in_victim_order(unit.victims) for unit in taken]
            opening = Opening(node, units, claimed=taken, stage=int(stage))
            if search.least is None or _is_better(search, opening, search.least):
                search.least = opening
                if stage is ClaimStage.SURPLUS_BEYOND_SHARE or search.is_least():
                    break
        if search.least is not None:
            return search.least
    return None


def _is_better(search: ClaimSearch, opening: Opening, than: Opening) -> bool:
    """Return whether an opening costs less than one found before.

    Of those that cost equally much, all of the leaf queue of the first one: if the most important
    victim is less important.
    """
    if opening.cost != than.cost or not search.by_importance:
        return opening.cost < than.cost
    queues = {victim.job.queue for victim in (*than.victims, *opening.victims) if victim.job}
    if len(queues) > 1:
        return False
    return importance_among(opening.victims) < importance_among(than.victims)


def _spared(
    search: ClaimSearch, taken: Sequence[EvictionUnit], short: NodeShortage
) -> Sequence[EvictionUnit]:
    """Return units without those that are not needed, the last taken dropped first."""
    for unit in reversed(taken):
        without = [other for other in taken if other is not unit]
        if (
            without
            and not short(without)
            and short.may_be_gone(without)
            and search.claim.allows(without)
        ):
            taken = without
    return taken


def why_not_victims(
    session: Session, task: TaskState, claim: Claim, *, curable: bool = False
) -> WhyNot:
    """Return what says why evicting Running tasks of a node does not make room there for a task.

    None: they would be evicted, but are not enough. It describes the present state.
    """
    search = ClaimSearch(session=session, task=task, claim=claim, curable=curable)
    refused = {node.slot for node in search.refusing()}
    claim.begin()

    def why_not(node: NodeState, tasks: Sequence[TaskState]) -> Sequence[str | None]:
        short = NodeShortage(search, node, is_refused=node.slot in refused)
        return claim.why_not(node, tasks, short)

    return why_not


# What is short


@define(kw_only=True, eq=False)
class ClaimSearch(NodeSearch):
    """The part of a search for a task that is the same on all nodes."""

    claim: Claim
    asked: list[int] = field(init=False)
    """The dimensions that the task requests."""
    by_importance: bool = field(init=False)
    """Whether it matters how important victims are."""
    least: Opening | None = field(init=False, default=None)
    """The best that was found, once any was."""
    _alone: Need = field(init=False)
    _limits: Collection[Lack] = field(init=False)
    """The limits that it exceeds now."""
    _lost: AbstractSet[int] = field(init=False)
    """The slots of nodes; once tasks there have left, limits may forbid more."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        point = EvictionScope.OTHER_JOBS.point
        self.by_importance = self.session.plugins.judges[point].by_priority
        self.asked = [d for d, wanted in enumerate(self.task.init_resreq) if wanted >= EPSILON]
        self._alone = need_of_task(self.task)
        self._limits = self.claim.short_of_limits(self._alone)
        self._lost = lost_nodes(self.session)

    def has_room_soon(self, node: NodeState) -> bool:
        """Return whether on a node that refuses it enough is leaving already."""
        return not NodeShortage(self, node, is_refused=True)(())

    def is_least(self) -> bool:
        """Return whether nothing better than what was found can be found on any other node."""
        least = self.least
        if least is None or least.cost > 1:
            return False
        return not (least.cost and (self.session.bound_on or self._may_be_less_important(least)))

    def may_be_better_on(self, node: NodeState) -> bool:
        """Return False if no room on a node can be better than what was found elsewhere.

        Where one task is evicted, it is only where binds are taken back, or where a less important
        task of the same queue runs.
        """
        least = self.least
        if least is None or self.is_plain or least.cost > 1 or node.slot in self.session.bound_on:
            return True
        if not (least.cost and self._may_be_less_important(least)):
            return False
        held = held_by_importance(self.session, _queue_of(least), node)
        return bool(held) and held[0][0] < importance_among(least.victims)

    def _may_be_less_important(self, opening: Opening) -> bool:
        queue = _queue_of(opening)
        if not self.by_importance or queue is None:
            return False
        return importances_in(self.session, queue)[0] < importance_among(opening.victims)

    @property
    def is_limited(self) -> bool:
        """Whether limits keep the task out if nobody is evicted."""
        return bool(self._limits)

    def limits_once_gone(self, units: Sequence[EvictionUnit]) -> Collection[Lack]:
        """Return the limits that keep the task out once some units have left."""
        may_change = self.is_plain or self._limits or (self._lost and self._may_tighten(units))
        if not units or not may_change:
            return self._limits
        leaving = tuple(victims_of(units))
        return self.claim.short_of_limits(evolve(self._alone, leaving=leaving))

    def _may_tighten(self, units: Iterable[EvictionUnit]) -> bool:
        nodes = (victim.node for unit in units for victim in unit.victims)
        return any(node is not None and node.slot in self._lost for node in nodes)


def _queue_of(opening: Opening) -> QueueState | None:
    """Return the queue of the first of the victims."""
    return next((victim.job.queue for victim in opening.victims if victim.job), None)


def victims_of(units: Iterable[EvictionUnit]) -> Collection[TaskState]:
    """Return the tasks that leave with some units, each once."""
    return {victim.uid: victim for unit in units for victim in unit.victims}.values()


class NodeShortage:
    """What a task still lacks on a node, given which units are evicted.

    While the node would refuse the task even without those units, the task lacks all dimensions
    that it requests.
    """

    __slots__ = ("_missing", "_room", "_search")

    def __init__(self, search: ClaimSearch, node: NodeState, *, is_refused: bool) -> None:
        """Begin with a node; `is_refused`: whether it refuses the task now."""
        self._search = search
        self._room = search.room_on(node, refuses=is_refused)
        missing, for_good = node.lacking(search.task.init_resreq, Fit.LATER)
        self._missing = [(d, missing[d], for_good[d]) for d in search.asked]

    def __call__(self, taken: Sequence[EvictionUnit], /) -> Collection[Lack]:
        """Return what it lacks once some units are evicted."""
        search = self._search
        here = self._short_here(taken)
        limits = search.limits_once_gone(taken)
        if not here and search.may_choose:
            gone = [each for each in victims_of(taken) if each.node is self._room.node]
            here = here if self._room.has_choice_without(gone) else search.asked
        if not here and self._room.is_refused and not self._accepts(taken):
            here = search.asked
        return [*(Lack(dimension, None) for dimension in here), *limits]

    def may_be_gone(self, units: Sequence[EvictionUnit], /) -> bool:
        """Return whether some units may be evicted, and the node then still accepts the task.

        Where it refuses the task as it is, it need not.
        """
        room = self._room
        return self._search.may_leave_together(victims_of(units)) and (
            room.is_refused or not room.looks_ahead or self._accepts(units)
        )

    def _accepts(self, units: Iterable[EvictionUnit]) -> bool:
        return self._room.is_accepted_without(victims_of(units))

    def may_end_with(self, units: Iterable[EvictionUnit], /) -> bool:
        """Return False if the task is short whichever of some units are evicted."""
        return self._search.is_plain or not self._short_here(units)

    def _short_here(self, units: Iterable[EvictionUnit]) -> list[int]:
        node = self._room.node
        leaving = {v.uid: v for unit in units for v in unit.victims if v.node is node}.values()
        zero = (0,) * len(node.allocatable)
        charged = [victim.resreq for victim in leaving if not victim.is_backfill]
        freed = finally_freed = total_of(charged, zero)
        if len(charged) < len(leaving):
            freed = total_of([victim.resreq for victim in leaving], zero)
        return [
            d
            for d, now, finally_ in self._missing
            if now - freed[d] >= EPSILON or finally_ - finally_freed[d] >= EPSILON
        ]


# Where room may be. Nothing here decides: without it, nodes would be visited in vain.


@define
class _OpenToClaims:
    """The nodes that may have room for a request once loans are evicted."""

    slots: set[int]
    enough: set[int]
    """Those of them where all loans would be enough, as far as it was asked."""
    changes_read: int
    """How many entries of `Claim.changes` were read."""


def nodes_with_loans(search: ClaimSearch, stage: ClaimStage) -> Iterator[NodeState]:
    """Yield the nodes that accept a task and where what is on loan may be enough, in node order.

    O(nodes) for the first request of this size in a session, then O(changes since).

    Args:
        search: the search of a claimant; `Claim.begin` must have been called.
        stage: which units may be evicted.

    """
    session, task, claim = search.session, search.task, search.claim
    there = claim.nodes_at(stage)
    if not there:
        return
    if search.is_limited and search.has_room:
        yield from _nodes_beside_limits(search, stage, there)
        return
    large_enough = session.state.node_room.large_enough(task.init_resreq)
    reopen = reopening(large_enough)

    def look_again(open_: _OpenToClaims, stale: set[int] | None) -> None:
        reopen(open_.slots, stale)
        forget(open_.enough, stale)

    known = session.remembered.recall(
        ("loans", task.init_resreq, stage),
        lambda: _OpenToClaims(set(large_enough), set(), len(claim.changes)),
        look_again,
        DependsOn.NODES,
    )
    nodes = session.nodes
    look_again(known, {nodes[index].slot for index in claim.changes[known.changes_read :]})
    known.changes_read = len(claim.changes)
    if not known.slots:
        return
    among = known.slots & {nodes[index].slot for index in there}
    for node in search.feasible(among):
        if not search.may_be_better_on(node):
            continue
        missing, slot = _missing(search, node), node.slot
        if _may_be_enough(missing, claim.may_take(node, stage)):
            yield node
        elif slot not in known.enough:
            if _may_be_enough(missing, claim.at_most(node, stage)):
                known.enough.add(slot)
            else:
                known.slots.discard(slot)


def _nodes_beside_limits(
    search: ClaimSearch, stage: ClaimStage, there: Collection[int]
) -> Iterator[NodeState]:
    """Yield the same nodes for a task that limits keep out, whatever room there is. O(nodes).

    Of the nodes that have room for it, only the first: for all of them, the same units go.
    """
    has_room = False
    for node in search.feasible():
        missing = _missing(search, node)
        if not missing:
            if not has_room:
                yield node
            has_room = True
        elif node.index in there and _may_be_enough(missing, search.claim.may_take(node, stage)):
            yield node


def _missing(search: ClaimSearch, node: NodeState) -> Sequence[tuple[int, int]]:
    """Return how much room a task lacks on a node, by dimension."""
    wanted, free = search.task.init_resreq, node.room(Fit.LATER)
    return [(d, wanted[d] - free[d]) for d in search.asked if wanted[d] - free[d] >= EPSILON]


def _may_be_enough(missing: Iterable[tuple[int, int]], freed: Vector) -> bool:
    """Return False if room is missing even once some resources are free."""
    return not [d for d, amount in missing if amount - freed[d] >= EPSILON]
