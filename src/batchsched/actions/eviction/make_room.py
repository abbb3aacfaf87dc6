"""Make room for a task by evicting others, within the limits of an action.

See `batchsched.actions.eviction.searching` for where, and whom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from attrs import frozen

from batchsched.actions.eviction.choosing import (
    Unit,
)
from batchsched.actions.eviction.remembered_search import (
    RememberedSearch,
    SearchWhereSomeGiveWay,
    SearchWithinLimits,
)
from batchsched.actions.eviction.searching import (
    Claimant,
    Opening,
    Search,
    SearchOn,
    find_victims,
    sparing_at_first,
)
from batchsched.actions.eviction.telling import told_of_search
from batchsched.model.cluster import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.session.candidates import MayGo
from batchsched.session.outlook import (
    promises_stand,
    refusals_beside_promises,
)
from batchsched.session.session import Session
from batchsched.session.statements import Statement, TakenUnit
from batchsched.session.turns import limit_on, record_refusal
from batchsched.session.victims import (
    EvictionScope,
    EvictionSearch,
    RecentStarts,
    WhyNot,
    giving_way,
)
from batchsched.state.records import TaskState
from batchsched.state.units import EvictionUnit

# Limits


@frozen(kw_only=True)
class EvictionRules:
    """Limits on an action's evictions, which hold whatever plugins say."""

    most: float = inf
    """The most tasks that a cycle may evict in all; a turn that would exceed it is rolled back."""
    min_runtime: float = 0.0
    """Tasks that started less than this many seconds ago are not evicted; 0: no such rule.

    A job or replica that is evicted only as a whole is spared if any of its tasks is. The start
    times of tasks must be known.
    """

    curable: bool = False
    """Whether to search also nodes that refuse the claimant only for reasons evicting can cure.

    See `batchsched.plugin.Predicate.curable`. By default, only in configurations that name no
    tiers.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> EvictionRules:
        """Read ``maxEvictions`` and ``minRuntime``, numbers from 0, and ``curable``."""
        most = arguments.integer("maxEvictions", default=0, minimum=0)
        return cls(
            most=most if arguments.is_given("maxEvictions") else inf,
            min_runtime=arguments.number("minRuntime", default=0, minimum=0),
            curable=arguments.boolean("curable", default=arguments.has_default_tiers),
        )

    def recent(self, session: Session) -> RecentStarts | None:
        """Return the rule for tasks that started recently; None if there is no such rule."""
        return RecentStarts(session.now, self.min_runtime) if self.min_runtime > 0 else None

    def may_go(self, session: Session, scope: EvictionScope) -> MayGo:
        """Return what says whom plugins and the rule for recent starts let leave, each alone."""
        judges = session.plugins.judges[scope.point]
        return partial(judges.possible_victims, recent=self.recent(session))

    def allow(self, session: Session, statement: Statement) -> bool:
        """Return whether a statement makes no task leave, or may be committed.

        It must keep the cycle within `most`, and nodes must accept what it has placed, and what
        others were evicted for before it, once all that leaves has left: a later eviction may take
        what an earlier promise is to stand beside. O(tasks that it has placed).
        """
        if not statement.nodes_given_up():
            return True
        evictions = statement.evictions
        within = not evictions or len(session.evictions) + len(evictions) <= self.most
        return within and promises_stand(session, statement)


DEFAULT_RULES = EvictionRules()
"""No limits: any number of tasks, whenever started, but only on nodes that accept the claimant."""


# Making room


def make_room(
    session: Session,
    statement: Statement,
    task: TaskState,
    *,
    scope: EvictionScope,
    may_use_idle: bool,
    rules: EvictionRules = DEFAULT_RULES,
) -> bool:
    """Evict the tasks that are in the way of a task, and pipeline it to the node.

    Nodes are tried best first, or in node order for `EvictionScope.OTHER_QUEUES`. Single tasks are
    evicted on the first node where that is enough; only if there is none, whole jobs too, on the
    node where the fewest tasks are evicted in all. With the plugin ``priority``, in preemption, of
    all nodes those first whose most important victim is least important.

    Args:
        session: the session.
        statement: records the evictions and the placement.
        task: the claimant, Pending.
        scope: which Running tasks may be evicted, if plugins agree.
        may_use_idle: whether the task may take idle resources too; if not, it must fit in what
            its victims hold.
        rules: what holds whatever plugins say. If nodes that are searched because evicting can
            cure them (`EvictionRules.curable`) include one that will accept it once the tasks that
            are leaving have left, none is evicted; else feasible nodes go first.

    Returns:
        Whether room was made. If not, nothing was changed.

    """
    assert task.job is not None
    if scope is EvictionScope.SAME_JOB and not task.job.count(TaskStatus.RUNNING):
        return False
    claimant = claimant_for(session, statement, task, scope, rules, may_use_idle=may_use_idle)
    opening = sparing_at_first(claimant, _search)
    limit = claimant.limit
    if opening is None:
        if limit is not None:
            record_refusal(session, task, limit)
        record_search(session, task, scope, rules, may_use_idle=may_use_idle)
        return False
    node = opening.node

    def told(taken: Sequence[TakenUnit]) -> Sequence[TakenUnit]:
        is_limited = limit is not None and claimant.room_on(node).is_there_without(())
        return told_of_search(
            session,
            node,
            taken,
            scope=scope,
            candidates=claimant.candidates_on(node),
            recent=claimant.recent,
            limit=limit if is_limited else None,
        )

    return claimant.take(statement, opening, told)


def claimant_for(
    session: Session,
    statement: Statement,
    task: TaskState,
    scope: EvictionScope,
    rules: EvictionRules,
    *,
    may_use_idle: bool = True,
    units: Sequence[EvictionUnit] | None = None,
) -> Claimant:
    """Return a task as a claimant, as it is asked about in a statement now.

    `units`: those who may leave, and nobody else; None: whom plugins let go. See `make_room`.
    """
    return Claimant(
        session=session,
        task=task,
        scope=scope,
        judges=session.plugins.judges[scope.point],
        may_use_idle=may_use_idle,
        recent=rules.recent(session),
        curable=rules.curable,
        limit=limit_on(session, task),
        within=statement.within,
        kept=statement.kept_for(task),
        giving_way=_giving_way(session, task, scope),
        units=units,
    )


def _search(claimant: Claimant) -> Opening | None:
    """Search all nodes for a claimant, with what earlier searches have found out."""
    # What is remembered of a search holds for all nodes, not for those of a set.
    if (
        claimant.is_plain
        or claimant.within is not None
        or (claimant.giving_way and claimant.limit is not None)
    ):
        return find_victims(claimant, SearchOn(claimant, claimant.feasible()))
    known = RememberedSearch(claimant)
    opening: Opening | None = None
    if not known.fails_again():
        found: Search = known
        if claimant.limit is not None:
            found = SearchWithinLimits(claimant, known)
        elif claimant.giving_way:
            found = SearchWhereSomeGiveWay(claimant, known)
        opening = find_victims(claimant, found)
    if opening is None:
        known.remember_failure()
    return opening


def record_search(
    session: Session,
    task: TaskState,
    scope: EvictionScope,
    rules: EvictionRules,
    *,
    may_use_idle: bool,
    why_not: Callable[[], WhyNot] | None = None,
) -> None:
    """Record that an action searched for tasks to evict and found too few; see `EvictionSearch`."""
    session.reports.record_search(
        EvictionSearch(
            task=task,
            action=session.action_name or scope.point,
            scope=scope,
            may_use_idle=may_use_idle,
            recent=rules.recent(session),
            curable=rules.curable,
            beside_promises=refusals_beside_promises(session, task),
            why_not=why_not,
        )
    )


def _giving_way(session: Session, task: TaskState, scope: EvictionScope) -> Sequence[Unit]:
    """Return what other jobs of its queue give up for a task, the least important job first."""
    if scope is not EvictionScope.OTHER_JOBS or not session.plugins.judges[scope.point].by_priority:
        return ()
    jobs = session.jobs_having(TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
    if not jobs:
        return ()
    units = giving_way(task, jobs, [*session.evictions, *session.moves])
    return [session.in_victim_order(unit) for unit in units]
