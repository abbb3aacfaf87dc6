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
    Bounds,
    FailedSearch,
    RelevantChanges,
    SearchResults,
    Verdicts,
    VictimBound,
    running_nodes,
)
from batchsched.actions.eviction.victims import (
    Shortfall,
    choose_units,
    evict_for,
    take_until,
)
from batchsched.model.status import TaskStatus
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.victims import RecentStarts, Victims, WholeJobs
from batchsched.state.records import HeldBy, NodeState, TaskState

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
    claimant_key = session.plugin_set.eviction.claimant_key(scope.point, task)
    kind = None if claimant_key is None else session.placement.kind(task)
    same: Hashable = (scope, job.uid, kind, may_use_idle, claimant_key, recent, curable)
    failed = session.memo.store(FailedSearch)
    found: _Found | None = None
    if kind is None or not failed.get(same, _NEVER).is_current(session.log):
        search = _Search(
            session, task, scope, claimant_key, may_use_idle=may_use_idle, recent=recent
        )
        found = (
            _search_all(
                search,
                CuringSearch(session, task, scope, may_use_idle=may_use_idle, recent=recent),
            )
            if curable
            else search.alone() or search.with_jobs()
        )
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
        *("_own_nodes", "_bounds", "_may_use_idle", "_open", "_open_alone", "_recent", "_scope"),
        *("_searched", "_session", "_task", "_verdicts", "_whole_jobs"),
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
        self._bounds: Bounds | None = None
        self._verdicts: Verdicts | None = None
        self._searched = SearchResults(session.log.position())
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
        if claimant_key is not None:
            self._recall(claimant_key)

    def _recall(self, claimant_key: Hashable) -> None:
        """Load what equal searches have learned."""
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
        across = job.queue if scope is EvictionScope.OTHER_QUEUES else None
        changes = RelevantChanges(session.log, across, session.plugin_set.eviction.may_give)
        now = session.log.position()
        shield_key = session.plugin_set.eviction.shield_key(scope.point, task)
        who: Hashable = (scope, job.queue.name, own, shield_key, self._recent)
        known_bounds = session.memo.store(Bounds)
        bounds = known_bounds.get(who)
        if bounds is None:
            bounds = known_bounds[who] = Bounds(changes, now)
        bounds.catch_up()
        self._bounds = bounds
        request_key = (task.init_resreq, self._may_use_idle)
        self._open = bounds.open_for(request_key, large_enough, alone=False)
        self._open_alone = bounds.open_for(request_key, large_enough, alone=True)
        kind = session.placement.kind(task)
        if kind is not None:
            who = (scope, job.queue.name, own, claimant_key, self._recent)
            known_verdicts = session.memo.store(Verdicts)
            verdicts = known_verdicts.get(who)
            if verdicts is None:
                verdicts = known_verdicts[who] = Verdicts(changes, now)
            verdicts.catch_up()
            self._verdicts = verdicts
            self._searched = verdicts.searched((kind, self._may_use_idle))

    # Both passes

    def alone(self) -> _Found | None:
        """Find the first node where evicting single tasks is enough."""
        open_ = self._open_alone
        if open_ is not None:
            open_ = open_ - self._without_own_nodes(self._searched.insufficient_alone)
        tried: list[int] = []
        for node in self._feasible(open_):
            victims = self._alone_on(node)
            if victims is not None:
                self._record_insufficient(tried, alone=True)
                return node, victims
            tried.append(node.slot)
        # Infeasible nodes are skipped too, until they change.
        self._record_insufficient(tried if open_ is None else open_, alone=True)
        return None

    def with_jobs(self) -> _Found | None:
        """Find the node where, with whole jobs, the fewest tasks are evicted; the first of equals.

        Only after `alone` has found no node.
        """
        open_ = self._open
        searched = self._searched
        if open_ is not None:
            open_ = open_ - self._without_own_nodes(searched.insufficient)
        best: NodeState | None = None
        fewest = 0
        tried: list[int] = []
        is_complete = True
        for node in self._feasible(open_):
            index = node.slot
            count = None if index in self._own_nodes else searched.with_jobs.get(index)
            if count is None:
                victims = self._with_jobs_on(node)
                if victims is None:
                    tried.append(index)
                    continue
                count = len(victims)
                if index not in self._own_nodes:
                    searched.with_jobs[index] = count
            if best is None or count < fewest:
                best, fewest = node, count
                if count == 1:
                    is_complete = False
                    break
        if is_complete and open_ is not None:
            self._record_insufficient(open_ - searched.with_jobs.keys(), alone=False)
        else:
            self._record_insufficient(tried, alone=False)
        if best is None:
            return None
        chosen = self._with_jobs_on(best)
        assert chosen is not None
        return best, chosen

    def _feasible(self, among: Collection[int] | None) -> Iterable[NodeState]:
        """Return the feasible nodes in the order of the search."""
        if among is not None and not among:
            return ()
        if self._scope is EvictionScope.OTHER_QUEUES:
            return self._session.placement.feasible(self._task, among)
        return self._session.placement.ranked(self._task, among)

    def _without_own_nodes(self, indices: set[int]) -> set[int]:
        """Drop the nodes where the claimant's job runs, since its candidates differ there."""
        return indices - self._own_nodes if self._own_nodes else indices

    def _record_insufficient(self, tried: Iterable[int], *, alone: bool) -> None:
        searched = self._searched
        known = searched.insufficient_alone if alone else searched.insufficient
        known.update(self._without_own_nodes(set(tried)))

    # One node

    def _alone_on(self, node: NodeState) -> list[TaskState] | None:
        """Return the single tasks to evict on a node, or None if they are not enough."""
        bound = self._bound_on(node)
        if not bound.tasks:
            self._close(node, self._open_alone)
            self._close(node, self._open)
            return None
        room = Shortfall(self._task.init_resreq, node, may_use_idle=self._may_use_idle)
        if not room.may_be_enough(bound.alone):
            self._close(node, self._open_alone)
            if not room.may_be_enough(bound.total):
                self._close(node, self._open)
            return None
        victims = self._victims_on(node)
        if victims.alone and room.is_enough_with(victims.alone):
            # Try all of them first: usually not even that is enough.
            return take_until(victims.alone, room.is_enough_with)
        if victims.is_all_alone:
            self._record_insufficient([node.slot], alone=False)
        return None

    def _with_jobs_on(self, node: NodeState) -> list[TaskState] | None:
        """Return the tasks to evict on a node, whole jobs included, or None if not enough."""
        room = Shortfall(self._task.init_resreq, node, may_use_idle=self._may_use_idle)
        if not room.may_be_enough(self._bound_on(node).total):
            self._close(node, self._open)
            return None
        victims = self._victims_on(node)
        if victims.is_all_alone:
            return None
        units = [
            *([victim] for victim in victims.alone),
            *(self._session.in_victim_order(unit.victims) for unit in victims.replicas),
            *map(self._session.whole_job, victims.whole_jobs),
        ]
        return choose_units(units, node, room.is_enough_with)

    @staticmethod
    def _close(node: NodeState, open_: set[int] | None) -> None:
        if open_ is not None:
            open_.discard(node.slot)

    def _victims_on(self, node: NodeState) -> Victims:
        if node.slot in self._own_nodes:
            # No other claimant has these candidates, so they are not cached.
            mine = self._task.job
            others = [other for other in self._all_on(node).tasks if other.job is not mine]
            return self._victims_among(others)
        verdicts = self._verdicts
        known = None if verdicts is None else verdicts.victims.get(node.slot)
        if known is None:
            known = self._victims_among(self._all_on(node).tasks)
            if verdicts is not None:
                verdicts.keep(node.slot, known)
        return known

    def _bound_on(self, node: NodeState) -> VictimBound:
        """Return the upper bound on the victims of claimants like this one, cached if known."""
        bounds = self._bounds
        if bounds is None:
            all_ = self._all_on(node)
            return VictimBound(all_.tasks, all_.total, all_.total)
        bound = bounds.held.get(node.slot)
        if bound is None:
            bound = bounds.held[node.slot] = self._compute_bound(node)
            if not bound.tasks:
                bounds.without_victims.add(node.slot)
        return bound

    def _compute_bound(self, node: NodeState) -> VictimBound:
        all_ = self._all_on(node)
        zero = self._session.dimensions.zero
        if not all_.tasks:
            return VictimBound((), zero, zero)
        candidates: Sequence[TaskState] = all_.tasks
        own: Sequence[TaskState] = ()
        if node.slot in self._own_nodes:
            # Plugins may shield tasks from their own job but not from others, or the reverse.
            candidates = [other for other in all_.tasks if other.job is not self._task.job]
            own = [other for other in all_.tasks if other.job is self._task.job]
        plugins, point = self._session.plugin_set.eviction, self._scope.point
        left = plugins.unshielded(point, self._task, candidates)
        if self._recent is not None:
            left = [other for other in left if other not in self._recent]
        if not left and not own:
            return VictimBound((), zero, zero)
        only_with_job = plugins.only_with_job(point, self._task, left)
        alone = [one for one, needs_job in zip(left, only_with_job, strict=True) if not needs_job]
        total = all_ if len(left) + len(own) == len(all_.tasks) else HeldBy([*left, *own], zero)
        of_alone = total if len(alone) == len(left) else HeldBy([*alone, *own], zero)
        return VictimBound(total.tasks, total.total, of_alone.total)

    def _victims_among(self, candidates: Sequence[TaskState]) -> Victims:
        if not candidates:
            return Victims()
        in_order = self._session.in_victim_order(candidates)
        plugins = self._session.plugin_set.eviction
        if self._scope is EvictionScope.OTHER_QUEUES:
            return plugins.reclaimable(self._task, in_order, self._whole_jobs, self._recent)
        return plugins.preemptable(self._task, in_order, self._whole_jobs, self._recent)

    def _all_on(self, node: NodeState) -> HeldBy:
        """Return the candidates of claimants like this one, and the tasks of its own job."""
        running = self._session.running_on(node)
        job = self._task.job
        assert job is not None
        if self._scope is EvictionScope.OTHER_QUEUES:
            return running.of_other_queues(job.queue)
        if self._scope is EvictionScope.OTHER_JOBS:
            return running.of_queue(job.queue)
        tasks = running.all
        if self._scope is EvictionScope.SAME_JOB:
            tasks = [other for other in tasks if other.job is job]
        return HeldBy(tasks, self._session.dimensions.zero)
