"""Find room with what earlier searches of the cycle have found out.

A node is left out of a search until something has changed there, if one of these was too small:

- what the node has if all tasks of the claimant's queue leave; no plugin needs to be asked;
- what it has if all tasks leave that plugins do not shield from the claimant, which holds until
  more is charged to the jobs that run there (`batchsched.plugin.EvictionHints`). Plugins are asked
  about many nodes at once, first about one, then about twice as many each time: most searches end
  after a few nodes, but those that fail visit all;
- the victims themselves, for claimants that plugins cannot tell apart, which holds until what is
  charged to a job there changes;
- what is on loan there, for claims.

Nothing here decides: without what is remembered, the nodes would be visited in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice

from attrs import define, frozen

from batchsched.actions.eviction.victims import (
    Claimant,
    EvictionScope,
    Room,
    choose_units,
    room_with,
)
from batchsched.model.resources import EPSILON
from batchsched.plugin.extension_points import Claim, ClaimStage
from batchsched.session.session import Session
from batchsched.session.victims import Victims
from batchsched.state.memory import Reads, Remembered, forget, running_slots
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, fits, total_of

MOST_AT_ONCE = 256
"""The most nodes about which plugins are asked at once."""


@frozen
class _Unshielded:
    """The tasks on a node that no plugin shields."""

    tasks: Sequence[TaskState]
    total: Vector
    """What they hold together."""


class RememberedRoom:
    """The room that evictions can make on the nodes that accept a claimant; see `RoomOn`."""

    def __init__(self, claimant: Claimant) -> None:
        session, task = claimant.session, claimant.task
        job = task.job
        assert job is not None
        assert job.queue is not None
        self._claimant = claimant
        self._job = job
        own = job.uid if claimant.scope is EvictionScope.SAME_JOB else None
        self._who = claimant.scope, job.queue.name, own, claimant.recent
        """Claimants of whom these are equal have the same candidates, but for their own jobs."""
        self._key, self._kind = claimant.judges.claimant_key(task), session.placement.kind(task)
        remembered = session.remembered
        self._alike = remembered if self._key is not None else Remembered(session.log)
        """What was found out for claimants that plugins cannot tell apart."""
        self._same = self._alike if self._kind is not None else Remembered(session.log)
        """What was found out for those of them that ask for the same."""
        self._failures = self._same.recall("failures", set[Hashable], forget, Reads.EVERYTHING)
        self._search = (
            *(self._who, job.uid, self._kind, self._key),
            *(claimant.may_use_idle, claimant.curable),
        )

    def fails_again(self) -> bool:
        """Return whether the same search has failed, and nothing has changed since."""
        return self._search in self._failures

    def remember_failure(self) -> None:
        """Record that this search has failed."""
        self._failures.add(self._search)

    def _recall(self) -> None:
        """Recall what searches for like claimants have found out about nodes."""
        claimant, job = self._claimant, self._job
        session, task, scope = claimant.session, claimant.task, claimant.scope
        runs_on = running_slots(job)
        self._own_nodes: AbstractSet[int] = frozenset()
        """The nodes where claimants of other jobs have candidates that this one has not."""
        if scope in (EvictionScope.OTHER_JOBS, EvictionScope.ANY_OTHER_JOB):
            self._own_nodes = runs_on
        large_enough: AbstractSet[int] = session.node_room.large_enough(task.init_resreq)
        if scope is EvictionScope.SAME_JOB:
            large_enough = large_enough & runs_on
        among = job.queue if scope is EvictionScope.OTHER_JOBS else None
        shields = self._who, () if self._key is None else claimant.judges.shield_key(self._key)
        charges = partial(self._alike.recall, reads=Reads.CHARGES, among=among)
        self._unshielded = charges(("unshielded", shields), dict[int, _Unshielded], forget)
        self._nobody = charges(("nobody", shields), set[int], forget)
        """The nodes where all are shielded, or nobody runs."""
        self._open = charges(
            ("open", shields, task.init_resreq, claimant.may_use_idle),
            lambda: set(large_enough - self._nobody),
            _reopening(large_enough),
        )
        """The nodes where those that are not shielded may be enough."""
        self._closed = self._same.recall(
            ("closed", self._who, self._key, self._kind, claimant.may_use_idle),
            set[int],
            forget,
            Reads.QUEUES if scope is EvictionScope.OTHER_QUEUES else Reads.ACCOUNTS,
            among,
        )
        """The nodes where the victims of a like search were not enough."""
        self._queue_room = session.remembered.recall(
            ("queue room", job.queue, claimant.may_use_idle),
            dict[int, Vector],
            forget,
            Reads.NODES,
        )
        self._too_small: list[int] = []
        self._with_jobs: list[tuple[NodeState, Victims]] = []
        """The nodes where single tasks were not enough, but whole jobs may be."""

    def alone(self) -> Room | None:
        """Return the first node where evicting single tasks is enough."""
        self._recall()
        among = self._open - (self._closed - self._own_nodes) if self._closed else self._open
        room: Room | None = None
        for node, tasks in self._promising(among):
            victims = self._victims_of(node, tasks)
            room = self._single_tasks(node, victims)
            if room is not None:
                break
            if not victims.is_all_alone:
                self._with_jobs.append((node, victims))
            elif node.slot not in self._own_nodes:
                self._closed.add(node.slot)
        else:
            # Infeasible nodes are left out too, until they change.
            self._closed |= among - self._own_nodes - {node.slot for node, _ in self._with_jobs}
        self._open.difference_update(self._too_small)
        return room

    def with_jobs(self) -> Room | None:
        """Return the first of the nodes where, with whole jobs, the fewest tasks are evicted.

        Only after `alone` has found no node.
        """
        fewest: Room | None = None
        for node, victims in self._with_jobs:
            shortfall = self._claimant.shortfall(node)
            units = self._claimant.units(victims)
            chosen = choose_units(units, node, shortfall.is_enough_with)
            if chosen is not None:
                if fewest is None or len(chosen) < fewest.cost:
                    fewest = Room(node, chosen)
                    if len(chosen) == 1:
                        break
            elif node.slot not in self._own_nodes:
                self._closed.add(node.slot)
        return fewest

    def _victims_of(self, node: NodeState, tasks: Sequence[TaskState]) -> Victims:
        if node.slot in self._own_nodes:
            tasks = [other for other in tasks if other.job is not self._job]
        return self._claimant.victims_among(tasks)

    def _single_tasks(self, node: NodeState, victims: Victims) -> Room | None:
        if not victims.alone:
            return None
        shortfall = self._claimant.shortfall(node)
        if not shortfall.is_enough_with(victims.alone):
            return None  # usually not even all of them are enough
        chosen = choose_units([[one] for one in victims.alone], node, shortfall.is_enough_with)
        assert chosen is not None
        return Room(node, chosen)

    # Which nodes are worth asking about

    def _promising(self, among: Collection[int]) -> Iterator[tuple[NodeState, Sequence[TaskState]]]:
        """Yield the nodes where all who are not shielded would be enough, with these tasks."""
        nodes = iter(self._claimant.feasible(among) if among else ())
        if self._claimant.scope is EvictionScope.OTHER_JOBS:
            nodes = self._with_room_in_queue(nodes)
        at_once = 1
        while some := list(islice(nodes, at_once)):
            self._ask_about(some)
            for node in some:
                known = self._unshielded.get(node.slot)
                if known is not None and self._may_have_room(node, known.total):
                    yield node, known.tasks
                else:
                    self._too_small.append(node.slot)
            at_once = min(2 * at_once, MOST_AT_ONCE)

    def _may_have_room(self, node: NodeState, freed: Vector) -> bool:
        room = room_with(node, freed, may_use_idle=self._claimant.may_use_idle)
        return fits(self._claimant.task.init_resreq, room)

    def _with_room_in_queue(self, nodes: Iterable[NodeState]) -> Iterator[NodeState]:
        """Yield the nodes where evicting all tasks of the claimant's queue might be enough."""
        claimant, session, queue = self._claimant, self._claimant.session, self._job.queue
        request, known = claimant.task.init_resreq, self._queue_room
        for node in nodes:
            room = known.get(node.slot)
            if room is None:
                held = session.running_on(node).held_by_queue(queue)
                room = known[node.slot] = room_with(node, held, may_use_idle=claimant.may_use_idle)
            if fits(request, room):
                yield node
                continue
            self._too_small.append(node.slot)
            if not session.running_on(node).has_any_of(queue):
                self._nobody.add(node.slot)

    def _ask_about(self, nodes: Sequence[NodeState]) -> None:
        """Ask plugins which tasks they shield on those of some nodes that are not known."""
        known, nobody = self._unshielded, self._nobody
        free: dict[int, list[TaskState]] = {}
        candidates: list[TaskState] = []
        for node in nodes:
            if node.slot in known or node.slot in nobody:
                continue
            tasks = self._candidates_on(node)
            free[node.slot] = []
            if node.slot in self._own_nodes:
                # Plugins may shield tasks from their own job but not from others, or the reverse.
                free[node.slot] = [task for task in tasks if task.job is self._job]
                tasks = [task for task in tasks if task.job is not self._job]
            candidates += tasks
        if not free:
            return
        claimant, recent = self._claimant, self._claimant.recent
        for other in claimant.judges.unshielded(claimant.task, candidates):
            if recent is None or other not in recent:
                assert other.node is not None
                free[other.node.slot].append(other)
        zero = claimant.session.dimensions.zero
        for slot, left in free.items():
            if left:
                known[slot] = _Unshielded(left, total_of([task.resreq for task in left], zero))
            else:
                nobody.add(slot)

    def _candidates_on(self, node: NodeState) -> Sequence[TaskState]:
        """Return the candidates of claimants like this one, and the tasks of its own job."""
        running = self._claimant.session.running_on(node)
        match self._claimant.scope:
            case EvictionScope.OTHER_QUEUES:
                return running.of_other_queues(self._job.queue)
            case EvictionScope.OTHER_JOBS:
                return running.of_queue(self._job.queue)
            case EvictionScope.SAME_JOB:
                return [other for other in running.all if other.job is self._job]
            case EvictionScope.ANY_OTHER_JOB:
                return running.all


def _reopening(
    slots: AbstractSet[int],
) -> Callable[[set[int], set[int] | None], None]:
    """Return a function that puts back those of some slots that may have changed."""

    def reopen(opened: set[int], stale: set[int] | None) -> None:
        opened |= slots if stale is None else stale & slots

    return reopen


# Claims

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
    reopen = _reopening(large_enough)
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
