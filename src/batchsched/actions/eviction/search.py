"""Making room for the tasks of a queue, and remembering where that was in vain.

It decides what `make_room` in `victims` decides; `search_cache` keeps what was found out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Literal

from batchsched.actions.eviction.search_cache import Bounds, Claimed, Verdicts, running_nodes
from batchsched.actions.eviction.victims import Shortfall, evict_for, take_until
from batchsched.model.status import TaskStatus
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import HeldBy, NodeState, TaskState

__all__ = ["EvictionScope", "make_room_among"]

Point = Literal["preemptable", "reclaimable"]
"""Which verdicts count: those on tasks of the claimant's queue, or of other queues."""


class EvictionScope(Enum):
    """Which Running tasks may be evicted for a claimant, before any plugin is asked."""

    OTHER_JOBS = "other jobs of the same queue"
    SAME_JOB = "the same job"
    OTHER_QUEUES = "other queues"

    @property
    def point(self) -> Point:
        """Whose verdicts count."""
        return "reclaimable" if self is EvictionScope.OTHER_QUEUES else "preemptable"


def make_room_among(
    session: Session,
    statement: Statement,
    task: TaskState,
    *,
    scope: EvictionScope,
    may_use_idle: bool,
) -> bool:
    """Evict on the first node where that is enough, and promise the task its place there.

    Nodes are tried the best first; in node order where room is made scope other queues.

    Args:
        session: where this happens.
        statement: what records it.
        task: the claimant, Pending.
        scope: which Running tasks may be evicted, if plugins agree.
        may_use_idle: whether the task may take idle resources too; if not, it must find
            room in what its victims hold alone.

    Returns:
        Whether room was made. If not, nothing was changed.

    """
    job = task.job
    assert job is not None
    if scope is EvictionScope.SAME_JOB and not job.count(TaskStatus.RUNNING):
        return False
    search = _Search(session, task, scope, may_use_idle=may_use_idle)
    if search.still_open is not None and not search.still_open:
        return False
    if scope is EvictionScope.OTHER_QUEUES:
        nodes: Iterable[NodeState] = session.placement.feasible(task, search.still_open)
    else:
        nodes = session.placement.ranked(task, search.still_open)
    asked: list[int] = []
    for node in nodes:
        chosen = search.victims_on(node)
        if chosen is not None:
            search.record_rejected(asked)
            evict_for(task, chosen, node, statement)
            return True
        asked.append(node.index)
    # What is not feasible is passed over too: until it changes, that is.
    search.record_rejected(asked if search.still_open is None else search.still_open)
    return False


class _Search:
    """A search for room for one claimant, with what earlier searches have found out."""

    __slots__ = (
        *("_among", "_at_home", "_bounds", "_in_vain", "_may_grow", "_open", "_session", "_task"),
        *("_verdicts", "still_open"),
    )

    def __init__(  # noqa: PLR0915 - one list of what a search begins with
        self, session: Session, task: TaskState, scope: EvictionScope, *, may_use_idle: bool
    ) -> None:
        self._session = session
        self._task = task
        self._among = scope
        self._may_grow = may_use_idle
        self._bounds: Bounds | None = None
        self._verdicts: Verdicts | None = None
        self._open: set[int] = set()
        self._in_vain: set[int] = set()
        self._at_home: set[int] = set()
        """The nodes where tasks of the claimant's job run."""
        self.still_open: set[int] | None = None
        """The nodes that are to be asked; None: all."""
        job = task.job
        assert job is not None
        assert job.queue is not None
        if scope is not EvictionScope.OTHER_QUEUES:
            self._at_home = running_nodes(job)
        claimant_key = session.plugin_set.claimant_key(scope.point, task)
        if claimant_key is None:
            return
        large_enough: AbstractSet[int] = session.large_enough(task.init_resreq)
        # Jobs of a queue have the same candidates, but for where they run themselves.
        own = None
        if scope is EvictionScope.SAME_JOB:
            large_enough = self._at_home & large_enough
            own = job.uid
        across = job.queue if scope is EvictionScope.OTHER_QUEUES else None
        claimed = Claimed(session.ledger, across, session.plugin_set.may_give)
        now = session.ledger.position()
        who: Hashable = (
            scope,
            job.queue.name,
            own,
            session.plugin_set.shield_key(scope.point, task),
        )
        known_bounds = session.memo.store(Bounds)
        bounds = known_bounds.get(who)
        if bounds is None:
            bounds = known_bounds[who] = Bounds(claimed, now)
        bounds.catch_up()
        self._bounds = bounds
        self._open = bounds.open_for((task.init_resreq, may_use_idle), large_enough)
        self.still_open = self._open
        kind = session.placement.kind(task)
        if kind is not None:
            who = (scope, job.queue.name, own, claimant_key)
            known_verdicts = session.memo.store(Verdicts)
            verdicts = known_verdicts.get(who)
            if verdicts is None:
                verdicts = known_verdicts[who] = Verdicts(claimed, now)
            verdicts.catch_up()
            self._verdicts = verdicts
            self._in_vain = verdicts.rejected_nodes((kind, may_use_idle))
            if self._in_vain:
                in_vain = self._in_vain
                if scope is EvictionScope.OTHER_JOBS and self._at_home:
                    in_vain = in_vain - self._at_home
                self.still_open = self._open - in_vain

    def record_rejected(self, asked: Iterable[int]) -> None:
        """Take note of nodes that were asked in vain, for other searches like this."""
        if self._among is EvictionScope.OTHER_JOBS and self._at_home:
            asked = set(asked) - self._at_home  # others have more candidates there
        self._in_vain.update(asked)

    def victims_on(self, node: NodeState) -> list[TaskState] | None:
        """Return whom to evict on a node, or None if that cannot be enough."""
        task = self._task
        at_most = self._at_most(node)
        if not at_most.tasks:
            self._open.discard(node.index)
            return None
        room = Shortfall(task.init_resreq, node, may_use_idle=self._may_grow)
        if not room.may_be_enough(at_most.total):
            self._open.discard(node.index)
            return None
        if self._among is EvictionScope.OTHER_JOBS and node.index in self._at_home:
            # These candidates are no other claimant's.
            others = [other for other in self._all_on(node).tasks if other.job is not task.job]
            victims = self._ask(others)
        else:
            verdicts = self._verdicts
            known = None if verdicts is None else verdicts.victims.get(node.index)
            victims = self._ask(self._all_on(node).tasks) if known is None else known
            if known is None and verdicts is not None:
                verdicts.keep(node.index, victims)
        # All of them first: mostly not even that is enough.
        if not victims or not room.is_enough_with(victims):
            return None
        return take_until(victims, room.is_enough_with)

    def _at_most(self, node: NodeState) -> HeldBy:
        """Return who could be victims of a claimant like this at most."""
        bounds = self._bounds
        if bounds is None:
            return self._all_on(node)
        at_most = bounds.held.get(node.index)
        if at_most is None:
            at_most = self._all_on(node)
            candidates, own = at_most.tasks, []
            if self._among is EvictionScope.OTHER_JOBS and node.index in self._at_home:
                # Who is shielded from their own job may not be from others, and the other way.
                candidates = [other for other in at_most.tasks if other.job is not self._task.job]
                own = [other for other in at_most.tasks if other.job is self._task.job]
            left = self._session.plugin_set.unshielded(self._among.point, self._task, candidates)
            left += own
            if len(left) < len(at_most.tasks):
                at_most = HeldBy(left, self._session.ledger.dimensions.zero)
            bounds.held[node.index] = at_most
            if not left:
                bounds.nobody.add(node.index)
        return at_most

    def _ask(self, candidates: Sequence[TaskState]) -> list[TaskState]:
        if not candidates:
            return []
        in_order = self._session.in_victim_order(candidates)
        if self._among is EvictionScope.OTHER_QUEUES:
            return self._session.reclaimable(self._task, in_order)
        return self._session.preemptable(self._task, in_order)

    def _all_on(self, node: NodeState) -> HeldBy:
        """Return the Running tasks that claimants like this may consider, and its own job's."""
        running = self._session.running_on(node)
        job = self._task.job
        assert job is not None
        if self._among is EvictionScope.OTHER_QUEUES:
            return running.of_other_queues(job.queue)
        if self._among is EvictionScope.OTHER_JOBS:
            return running.of_queue(job.queue)
        tasks = [other for other in running.all if other.job is job]
        return HeldBy(tasks, self._session.ledger.dimensions.zero)
