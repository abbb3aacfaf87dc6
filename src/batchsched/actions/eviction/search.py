"""Make room for a task by evicting others.

First by evicting single tasks, on the first node where that is enough. Only if there is no such
node, by evicting whole jobs too, on the node where that evicts the fewest tasks. What a search
learns is kept in `search_cache` for the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from batchsched.actions.eviction.curing import CuringSearch
from batchsched.actions.eviction.scope import EvictionScope, candidates_on
from batchsched.actions.eviction.search_cache import (
    FailedSearch,
    RelevantChanges,
    running_nodes,
)
from batchsched.actions.eviction.victim_bounds import BoundFinder, Bounds, VictimBound
from batchsched.actions.eviction.victims import (
    Shortfall,
    choose_units,
    evict_for,
    take_until,
)
from batchsched.model.cluster import TaskStatus
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.victims import RecentStarts, Victims, WholeJobs
from batchsched.state.records import NodeState, TaskState

__all__ = ["EvictionScope", "make_room"]

_Found = tuple[NodeState, list[TaskState]]
"""A node, and the tasks to evict to make room there."""


_NEVER = FailedSearch((-1, -1, -1))


def make_room(
    session: Session,
    statement: Statement,
    task: TaskState,
    *,
    scope: EvictionScope,
    may_use_idle: bool,
    recent: RecentStarts | None = None,
    curable: bool = False,
) -> bool:
    """Evict the tasks that are in the way of a task, and pipeline it to the node.

    Nodes are tried best first, or in node order for `EvictionScope.OTHER_QUEUES`. Single tasks are
    evicted on the first node where that is enough; only if there is none, whole jobs too, on the
    node where the fewest tasks are evicted in all.

    Args:
        session: the session.
        statement: records the evictions and the placement.
        task: the claimant, Pending.
        scope: which Running tasks may be evicted, if plugins agree.
        may_use_idle: whether the task may take idle resources too; if not, it must fit in what
            its victims hold.
        recent: the rule that spares recently started tasks, whatever plugins say.
        curable: whether to search also nodes that refuse the task only for reasons that evicting
            can cure (`batchsched.plugin.Predicate.curable`). If one of them will accept it once
            the tasks that are leaving have left, none is evicted; else feasible nodes go first.

    Returns:
        Whether room was made. If not, nothing was changed.

    """
    job = task.job
    assert job is not None
    if scope is EvictionScope.SAME_JOB and not job.count(TaskStatus.RUNNING):
        return False
    claimant_key = session.plugin_set.eviction.at(scope.point).claimant_key(task)
    kind = None if claimant_key is None else session.placement.kind(task)
    same: Hashable = (scope, job.uid, kind, may_use_idle, claimant_key, recent, curable)
    failed = session.memo.store(FailedSearch)
    found: _Found | None = None
    if kind is None or not failed.get(same, _NEVER).is_current(session.log):
        if curable:
            found = _search_all(
                _Search(
                    session, task, scope, claimant_key, may_use_idle=may_use_idle, recent=recent
                ),
                CuringSearch(session, task, scope, may_use_idle=may_use_idle, recent=recent),
            )
        else:
            search = _Search(
                session, task, scope, claimant_key, may_use_idle=may_use_idle, recent=recent
            )
            found = search.alone() or search.with_jobs()
    if found is None:
        failed[same] = FailedSearch(session.log.position())
        session.record_eviction_search(
            task,
            point=scope.point,
            among=scope.value,
            may_use_idle=may_use_idle,
            candidates_on=partial(candidates_on, session, task, scope),
            recent=recent,
            curable=curable,
        )
        return False
    node, victims = found
    if not session.may_take_task(task, leaving=victims):
        return False
    evict_for(task, victims, node, statement)
    return True


def _search_all(search: _Search, curing: CuringSearch) -> _Found | None:
    """Search the feasible nodes, and those that evicting can make feasible."""
    found = curing.without_evicting() or search.alone() or curing.alone()
    if found is not None:
        return found
    feasible = search.with_jobs()
    possible = [*([feasible] if feasible is not None else ()), *curing.with_jobs()]
    return min(possible, key=lambda choice: len(choice[1]), default=None)


class _Search:
    """A search for room for one claimant, using what earlier searches have learned."""

    __slots__ = (
        *("_finder", "_may_use_idle", "_open", "_open_alone", "_own_nodes", "_recent"),
        *("_scope", "_session", "_task", "_victims", "_whole_jobs"),
    )

    def __init__(
        self,
        session: Session,
        task: TaskState,
        scope: EvictionScope,
        claimant_key: Hashable,
        *,
        may_use_idle: bool,
        recent: RecentStarts | None,
    ) -> None:
        self._session = session
        self._task = task
        self._scope = scope
        self._may_use_idle = may_use_idle
        self._recent = recent
        self._whole_jobs: WholeJobs = {}
        self._victims: dict[int, Victims] = {}
        self._open: set[int] | None = None
        """The nodes where there may be room; None: any."""
        self._open_alone: set[int] | None = None
        """The nodes where evicting single tasks may make room; None: any."""
        self._own_nodes: set[int] = set()
        """The nodes where this claimant has other candidates than claimants of other jobs."""
        job = task.job
        assert job is not None
        if scope in (EvictionScope.OTHER_JOBS, EvictionScope.ANY_OTHER_JOB):
            self._own_nodes = running_nodes(job)
        bounds = None if claimant_key is None else self._recall()
        self._finder = BoundFinder(
            session, task, scope, may_use_idle, recent, self._own_nodes, bounds
        )

    def _recall(self) -> Bounds:
        """Load what equal searches have learned; return the bounds on victims."""
        session, task, scope = self._session, self._task, self._scope
        job = task.job
        assert job is not None
        assert job.queue is not None
        large_enough: AbstractSet[int] = session.node_room.large_enough(task.init_resreq)
        # Jobs of a queue have the same candidates, except on nodes where they run themselves.
        own = None
        if scope is EvictionScope.SAME_JOB:
            large_enough = running_nodes(job) & large_enough
            own = job.uid
        within = job.queue if scope is EvictionScope.OTHER_JOBS else None
        changes = RelevantChanges(session.log, within)
        shield_key = session.plugin_set.eviction.at(scope.point).shield_key(task)
        who: Hashable = (scope, job.queue.name, own, shield_key, self._recent)
        known_bounds = session.memo.store(Bounds)
        bounds = known_bounds.get(who)
        if bounds is None:
            bounds = known_bounds[who] = Bounds(changes)
        bounds.catch_up()
        request_key = (task.init_resreq, self._may_use_idle)
        self._open = bounds.open_for(request_key, large_enough, alone=False)
        self._open_alone = bounds.open_for(request_key, large_enough, alone=True)
        return bounds

    # Both passes

    def alone(self) -> _Found | None:
        """Find the first node where evicting single tasks is enough."""
        found: _Found | None = None
        nodes = self._feasible(self._open_alone)
        for node, bound in self._finder.promising(nodes, alone=True):
            victims = self._alone_on(node, bound)
            if victims is not None:
                found = node, victims
                break
        self._record_too_small()
        return found

    def with_jobs(self) -> _Found | None:
        """Find the node where, with whole jobs, the fewest tasks are evicted; the first of equals.

        Only after `alone` has found no node.
        """
        best: _Found | None = None
        for node, bound in self._finder.promising(self._feasible(self._open), alone=False):
            victims = self._with_jobs_on(node, bound)
            if victims is not None and (best is None or len(victims) < len(best[1])):
                best = node, victims
                if len(victims) == 1:
                    break
        self._record_too_small()
        return best

    def _feasible(self, among: Collection[int] | None) -> Iterable[NodeState]:
        """Return the feasible nodes in the order of the search."""
        if among is not None and not among:
            return ()
        if self._scope is EvictionScope.OTHER_QUEUES:
            return self._session.placement.feasible(self._task, among)
        return self._session.placement.ranked(self._task, among)

    def _record_too_small(self) -> None:
        """Close the nodes where the bound was not enough."""
        if self._open is not None:
            self._open.difference_update(self._finder.too_small)
        if self._open_alone is not None:
            self._open_alone.difference_update(self._finder.too_small_alone)

    # One node

    def _alone_on(self, node: NodeState, bound: VictimBound) -> list[TaskState] | None:
        """Return the single tasks to evict on a node, or None if they are not enough."""
        victims = self._victims_on(node, bound)
        if victims.alone:
            room = Shortfall(self._task.init_resreq, node, may_use_idle=self._may_use_idle)
            if room.is_enough_with(victims.alone):
                # Try all of them first: usually not even that is enough.
                return take_until(victims.alone, room.is_enough_with)
        return None

    def _with_jobs_on(self, node: NodeState, bound: VictimBound) -> list[TaskState] | None:
        """Return the tasks to evict on a node, whole jobs included, or None if not enough."""
        victims = self._victims_on(node, bound)
        if victims.is_all_alone:
            return None
        room = Shortfall(self._task.init_resreq, node, may_use_idle=self._may_use_idle)
        units = [
            *([victim] for victim in victims.alone),
            *(self._session.in_victim_order(unit.victims) for unit in victims.replicas),
            *map(self._session.whole_job, victims.whole_jobs),
        ]
        return choose_units(units, node, room.is_enough_with)

    def _victims_on(self, node: NodeState, bound: VictimBound) -> Victims:
        if node.slot in self._own_nodes:
            # No other claimant has these candidates, so they are not cached.
            mine = self._task.job
            return self._victims_among([other for other in bound.tasks if other.job is not mine])
        known = self._victims.get(node.slot)
        if known is None:
            known = self._victims[node.slot] = self._victims_among(bound.tasks)
        return known

    def _victims_among(self, candidates: Sequence[TaskState]) -> Victims:
        if not candidates:
            return Victims()
        in_order = self._session.in_victim_order(candidates)
        judges = self._session.plugin_set.eviction.at(self._scope.point)
        return judges.victims(self._task, in_order, self._whole_jobs, self._recent)
