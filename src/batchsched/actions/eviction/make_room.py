"""Make room for a task by evicting others.

First by evicting single tasks, on the first node where that is enough. Only if there is no such
node, by evicting replicas and whole jobs too, on the node where that evicts the fewest tasks.
`SearchOn` is the definition; `RememberedSearch` finds the same on the nodes that accept the task,
with what earlier searches have found out.

Nodes may also be searched that refuse the task for a reason that evicting can cure, such as too
many tasks on the node, a host port in use, or a task that it must not run beside. Tasks are then
evicted until the claimant fits and the node accepts it, both judged without all tasks that are
leaving the node.

Where limits of queues keep the claimant out, tasks are evicted until these allow it too. On a node
that would take it as it is, anybody may be evicted for that who is within its scope, on any node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from itertools import islice
from math import inf

from attrs import define, field, frozen

from batchsched.actions.eviction.choosing import (
    Shortfall,
    Unit,
    choose_units,
    curing_units,
    fewest_ahead,
    fewest_by_halving,
    fewest_units,
    members_of,
    room_with,
    units_in_order,
)
from batchsched.actions.placing import take_room
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import Unfit
from batchsched.model.rules import out_of_service
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.candidates import NodeSet
from batchsched.session.limits import limit_on, may_take_task, record_refusal
from batchsched.session.outlook import (
    accepting_nodes,
    accepts_without,
    curable_nodes,
    looks_ahead,
    promises_stand,
    refusals_beside_promises,
)
from batchsched.session.session import Session, Statement, TakenUnit
from batchsched.session.victims import (
    EvictionScope,
    EvictionSearch,
    Judges,
    RecentStarts,
    Victims,
    WholeJobs,
    WhyNot,
    giving_way,
)
from batchsched.state.memory import DependsOn, Remembered, forget, reopening, running_slots
from batchsched.state.records import Fit, NodeState, QueueState, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import Vector, fits, total_of

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

    def allow(self, session: Session, statement: Statement) -> bool:
        """Return whether a statement makes no task leave, or may be committed.

        It must keep the cycle within `most`, and nodes must accept what it has placed, and what
        others were evicted for before it, once all that leaves has left: a later eviction may take
        what an earlier promise is to stand beside. O(tasks that it has placed).
        """
        if not statement.left_by():
            return True
        evictions = statement.evictions
        within = not evictions or len(session.evictions) + evictions <= self.most
        return within and promises_stand(session, statement)


DEFAULT_RULES = EvictionRules()
"""No limits: any number of tasks, whenever started, but only on nodes that accept the claimant."""


@frozen(slots=False)
class Opening:
    """A node, and the units to evict to make room there."""

    node: NodeState
    units: Sequence[Unit]

    @cached_property
    def victims(self) -> Sequence[TaskState]:
        """The tasks of the units, each once."""
        return members_of(self.units)

    @property
    def cost(self) -> int:
        """How many tasks are evicted; what is taken back costs nothing, for no one has seen it."""
        return len([victim for victim in self.victims if victim.status is TaskStatus.RUNNING])

    def taken_for(self, task: TaskState) -> list[TakenUnit]:
        """Return the units as they are taken for a task."""
        return [TakenUnit(unit, task) for unit in self.units]

    def cheaper_on(self, session: Session) -> AbstractSet[int] | None:
        """Return the slots of the nodes where room may cost less; None: of all nodes.

        Only where this cycle has bound tasks may it cost nothing, if room on the node is lacking.
        """
        return None if self.cost > 1 else session.bound_on if self.cost else frozenset()


@define(kw_only=True, eq=False)
class NodeSearch:
    """A search for a node where others are evicted for a task."""

    session: Session
    task: TaskState
    within: NodeSet | None = None
    """The only nodes on which it may be placed, and others evicted; None: any."""
    kept: Mapping[str, Hashable] = EMPTY
    """What plugins must choose for it."""
    may_choose: bool = field(init=False)
    """Whether plugins may choose something for it, of which others may hold too much."""
    ahead: Sequence[NodeState] | None = field(init=False, default=None)
    """The nodes that accept it as they will be, in the order in which they are searched.

    None: it makes no difference to it who leaves or comes.
    """

    def __attrs_post_init__(self) -> None:
        session, task = self.session, self.task
        self.may_choose = session.may_choose(task)
        if looks_ahead(session, task):
            ahead = accepting_nodes(session, task)
            self.ahead = list(session.placement.feasible(task)) if ahead is None else ahead

    @property
    def looks_ahead(self) -> bool:
        """Whether nodes may accept it otherwise once others have left or come."""
        return self.ahead is not None

    def of_set(self, nodes: Iterable[NodeState]) -> list[NodeState]:
        """Return those of some nodes on which it may be placed."""
        slots = None if self.within is None else self.within.slots
        return [node for node in nodes if slots is None or node.slot in slots]

    def slots_of_set(self, among: Collection[int] | None) -> Collection[int] | None:
        """Return those of some slots on which it may be placed; None: all are meant."""
        if self.within is None:
            return among
        return self.within.slots if among is None else self.within.slots.intersection(among)

    def feasible(self, among: Collection[int] | None = None) -> Iterable[NodeState]:
        """Return the nodes that accept it, in the order of the search; `among` these, if given."""
        among = self.slots_of_set(among)
        if self.ahead is None:
            return self.session.placement.feasible(self.task, among)
        return [node for node in self.ahead if among is None or node.slot in among]


@define(kw_only=True, eq=False)
class Claimant(NodeSearch):
    """A task for which room is to be made, and whom that may cost."""

    scope: EvictionScope
    judges: Judges
    """The plugins whose verdicts count."""
    may_use_idle: bool
    """Whether it may take idle resources too; if not, it must fit in what its victims hold."""
    recent: RecentStarts | None
    curable: bool
    """Whether nodes that refuse it for reasons that evicting can cure are searched too."""
    whole_jobs: WholeJobs | None
    """What was found out about whole jobs in this search; None: each is asked about anew."""
    limit: Unfit | None
    """Why the limits of queues forbid it as long as nobody is evicted, if they do."""
    ways: Sequence[Unit] = ()
    """What others give up for it before anybody is evicted; see `giving_way`."""
    spares: bool = False
    """Whether what plugins allow at need alone is not taken; see `batchsched.plugin`."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.ahead is not None:
            self.ahead = self._in_order(self.of_set(self.ahead))

    def allowed(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Return the units that may leave, each with those before it that may."""
        may_leave = self.session.plugins.may_leave_together
        if may_leave is None:
            return units
        taken: list[TaskState] = []
        kept: list[Unit] = []
        for unit in units:
            if may_leave(self.task, [*taken, *unit], self.spares):
                kept.append(unit)
                taken += unit
        return kept

    def is_within_limits(self, gone: Sequence[TaskState]) -> bool:
        """Return whether the limits of queues allow it once some tasks have left."""
        if self.limit is None and not self.may_tighten_limits(gone):
            return True
        return limit_on(self.session, self.task, leaving=gone) is None

    def may_tighten_limits(self, gone: Iterable[TaskState]) -> bool:
        """Return whether limits may forbid it once tasks have left, though they allow it now.

        That is so only on nodes that are out of service, or have lost devices under these tasks:
        there is less to be had then.
        """
        if not self.session.plugins.limits_queues:
            return False
        lost = lost_nodes(self.session)
        return bool(lost) and any(t.node is not None and t.node.slot in lost for t in gone)

    @cached_property
    def on_the_way(self) -> AbstractSet[int]:
        """The slots of the nodes where others give something up."""
        return {task.node.slot for unit in self.ways for task in unit if task.node is not None}

    def way_on(self, node: NodeState, *, is_everywhere: bool) -> list[Unit]:
        """Return what others give up on a node; where only limits are short, on any node."""
        if is_everywhere or node.slot not in self.on_the_way:
            return list(self.ways) if is_everywhere else []
        return [unit for unit in self.ways if any(task.node is node for task in unit)]

    def feasible(self, among: Collection[int] | None = None) -> Iterable[NodeState]:
        """Return the nodes that accept it: best first, or in node order for other queues."""
        if self.ahead is None and self.scope is not EvictionScope.OTHER_QUEUES:
            return self.session.placement.ranked(self.task, self.slots_of_set(among))
        return super().feasible(among)

    def refusing(self) -> list[NodeState]:
        """Return the nodes that may accept it once others are evicted, in the same order."""
        return self._in_order(self.of_set(curable_nodes(self.session, self.task)))

    def _in_order(self, nodes: list[NodeState]) -> list[NodeState]:
        """Return nodes, given in node order, in the order in which they are searched."""
        if self.scope is EvictionScope.OTHER_QUEUES or not nodes:
            return nodes
        task, placement = self.task, self.session.placement
        scores = placement.totals(task, [placement.raw_scores(task, node) for node in nodes])
        order = sorted(range(len(nodes)), key=lambda place: (-scores[place], place))
        return [nodes[place] for place in order]

    def candidates_on(self, node: NodeState, *, with_own_job: bool = False) -> Sequence[TaskState]:
        """Return the tasks on a node that may leave and are within its scope."""
        running = self.session.running_on(node)
        return self.scope.candidates(self.task, running, self.judges, with_own_job=with_own_job)

    def candidates_for(self, node: NodeState, *, refuses: bool) -> Sequence[TaskState]:
        """Return the Running tasks that may be evicted for a place on a node, if plugins agree.

        If only limits forbid that place, they are on all nodes.

        Args:
            node: the node.
            refuses: whether it refuses the claimant as it is.

        """
        if self.lacks_limits_alone(node, refuses=refuses):
            return self.candidates_everywhere()
        return self.candidates_on(node)

    def lacks_limits_alone(self, node: NodeState, *, refuses: bool) -> bool:
        """Return whether nothing but limits keeps it from a node."""
        return (
            self.limit is not None
            and self.fits_on(node)
            and not (refuses and not accepts_without(self.session, self.task, node, ()))
        )

    def fits_on(self, node: NodeState) -> bool:
        """Return whether there is room on a node although nobody is evicted."""
        return self.is_enough_on(node, self.shortfall(node), ())

    def is_enough_on(
        self, node: NodeState, shortfall: Shortfall, gone: Sequence[TaskState]
    ) -> bool:
        """Return whether it fits on a node, and plugins have a choice for it, without some tasks.

        O(tasks x dimensions).
        """
        return shortfall.is_enough_with(gone) and (
            not self.may_choose
            or self.session.no_choice(self.task, node, Fit.LATER, gone=gone, kept=self.kept) is None
        )

    def candidates_everywhere(self) -> list[TaskState]:
        """Return the Running tasks on all nodes that are within its scope."""
        session, job = self.session, self.task.job
        assert job is not None
        nodes: Iterable[NodeState] = self.of_set(session.nodes)
        if self.scope in {EvictionScope.OTHER_JOBS, EvictionScope.SAME_JOB}:
            nodes = [node for node in nodes if session.running_on(node).has_any_of(job.queue)]
        return [task for node in nodes for task in self.candidates_on(node)]

    def victims_among(
        self, candidates: Sequence[TaskState], node: NodeState, *, refuses: bool = False
    ) -> Victims:
        """Return whom plugins let go of some candidates for a place on a node.

        `refuses`: whether it refuses the claimant as it is. If not, the last ones that it must be
        near are no candidates.
        """
        if self.looks_ahead and not refuses:
            units = curing_units(self.session, self.task, node, [(t,) for t in candidates])
            candidates = [candidate for (candidate,) in units]
        if not candidates:
            return Victims()
        in_order = self.session.in_victim_order(candidates)
        return self.judges.victims(self.task, in_order, self.whole_jobs, self.recent)

    def shortfall(self, node: NodeState) -> Shortfall:
        """Return what it lacks on a node."""
        return Shortfall(self.task, node, Fit.LATER, may_use_idle=self.may_use_idle)


def lost_nodes(session: Session) -> AbstractSet[int]:
    """Return the slots of nodes that are out of service, or where tasks hold more than there is.

    O(nodes) once in a session, then O(nodes changed since).
    """

    def look_again(lost: set[int], stale: set[int] | None) -> None:
        assert stale is not None
        lost -= stale
        lost.update(slot for slot in stale if _has_lost(session.slots[slot]))

    def look() -> set[int]:
        return {node.slot for node in session.nodes if _has_lost(node)}

    return session.remembered.recall("lost nodes", look, look_again, DependsOn.NODES)


def _has_lost(node: NodeState) -> bool:
    return min(node.idle) < 0 or out_of_service(node.info) is not None


# The search


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
    node where the fewest tasks are evicted in all.

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
    ways = _ways(session, task, scope)
    if scope is EvictionScope.SAME_JOB and not (ways or task.job.count(TaskStatus.RUNNING)):
        return False
    is_plain = Shortcut.ROOM in session.plain
    limit = limit_on(session, task)
    opening: Opening | None = None
    for spares in (True, False) if session.plugins.spares_first else (False,):
        claimant = Claimant(
            session=session,
            task=task,
            scope=scope,
            judges=session.plugins.judges[scope.point],
            may_use_idle=may_use_idle,
            recent=rules.recent(session),
            curable=rules.curable,
            whole_jobs=None if is_plain else {},
            limit=limit,
            within=statement.within,
            kept=statement.kept_for(task),
            ways=ways,
            spares=spares,
        )
        opening = _search(claimant)
        if opening is not None:
            break
    if opening is None:
        if limit is not None:
            record_refusal(session, task, limit)
        record_search(session, task, scope, rules, may_use_idle=may_use_idle)
        return False
    if not may_take_task(session, task, leaving=opening.victims):
        return False
    take_room(session, statement, task, opening.node, opening.taken_for(task))
    return True


def _search(claimant: Claimant) -> Opening | None:
    """Search all nodes for a claimant, with what earlier searches have found out."""
    is_plain = Shortcut.ROOM in claimant.session.plain
    # What is remembered of a search holds for all nodes, not for those of a set.
    if is_plain or claimant.within is not None or (claimant.ways and claimant.limit is not None):
        return find_opening(claimant, SearchOn(claimant, claimant.feasible()))
    known = RememberedSearch(claimant)
    opening: Opening | None = None
    if not known.fails_again():
        found: SearchOn | RememberedSearch | SearchBesideWays = known
        if claimant.limit is not None:
            found = SearchWithinLimits(claimant)
        elif claimant.ways:
            found = SearchBesideWays(claimant, known)
        opening = find_opening(claimant, found)
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
    session.record_eviction_search(
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


def _ways(session: Session, task: TaskState, scope: EvictionScope) -> Sequence[Unit]:
    """Return what other jobs of its queue give up for a task, the least important job first."""
    if (
        scope not in (EvictionScope.OTHER_JOBS, EvictionScope.SAME_JOB)
        or not session.plugins.judges[scope.point].by_priority
    ):
        return ()
    jobs = session.jobs_having(TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
    if not jobs:
        return ()
    units = giving_way(task, jobs, session.evictions)
    return [session.in_victim_order(unit) for unit in units]


def find_opening(
    claimant: Claimant, feasible: SearchOn | RememberedSearch | SearchBesideWays
) -> Opening | None:
    """Return the node where least has to be evicted for a task, and whom to evict there.

    `feasible`: what can be found on the nodes that accept it as they are.
    """
    searched = [feasible]
    if claimant.curable:
        refusing = claimant.refusing()
        for node in refusing:
            if _is_enough_on(claimant, node, cures=True)(()):
                return Opening(node, ())  # enough is leaving already
        searched.append(SearchOn(claimant, refusing, cures=True))
    for among in searched if claimant.ways else ():
        opening = None if isinstance(among, RememberedSearch) else among.by_ways()
        if opening is not None:
            return opening
    for among in searched:
        opening = among.alone()
        if opening is not None:
            return opening
    return _cheapest(among.with_jobs() for among in searched)


class SearchOn:
    """The room that evictions can make on some nodes, which are tried in order."""

    def __init__(
        self, claimant: Claimant, nodes: Iterable[NodeState], *, cures: bool = False
    ) -> None:
        """Ask on each node whom plugins let go; `cures`: whether the nodes refuse the claimant."""
        self._claimant = claimant
        self._cures = cures
        self._nodes = nodes if isinstance(nodes, Sequence) else list(nodes)
        self._victims: dict[int, Victims] = {}

    def by_ways(self) -> Opening | None:
        """Return the first node where it is enough that others give way."""
        openings = (self.fewest(node, self._way_on(node)) for node in self._nodes)
        return next((opening for opening in openings if opening is not None), None)

    def _way_on(self, node: NodeState) -> list[Unit]:
        claimant = self._claimant
        if not claimant.ways:
            return []
        is_everywhere = claimant.lacks_limits_alone(node, refuses=self._cures)
        return claimant.way_on(node, is_everywhere=is_everywhere)

    def alone(self) -> Opening | None:
        """Return the first node where evicting single tasks is enough."""
        for node in self._nodes:
            alone = self._victims_on(node).alone
            way = self._way_on(node) if alone else []
            opening = self.fewest(node, [*way, *([victim] for victim in alone)])
            if opening is not None:
                return opening
        return None

    def with_jobs(self) -> Opening | None:
        """Return the first of the nodes where, with whole jobs, the fewest tasks are evicted."""
        return _cheapest(
            self.fewest(
                node,
                [
                    *self._way_on(node),
                    *units_in_order(self._claimant.session, self._victims_on(node)),
                ],
            )
            for node in self._nodes
            if not self._victims_on(node).is_all_alone
        )

    def _victims_on(self, node: NodeState) -> Victims:
        known = self._victims.get(node.slot)
        if known is None:
            candidates = self._claimant.candidates_for(node, refuses=self._cures)
            known = self._claimant.victims_among(candidates, node, refuses=self._cures)
            self._victims[node.slot] = known
        return known

    def fewest(self, node: NodeState, units: Sequence[Unit]) -> Opening | None:
        """Return the fewest of some units that are enough on a node."""
        units = self._claimant.allowed(units)
        if not units:
            return None  # room that is there without victims is not made
        claimant = self._claimant
        is_enough = _is_enough_on(claimant, node, cures=self._cures)
        if claimant.looks_ahead and not self._cures:
            chosen = fewest_ahead(claimant.session, claimant.task, node, units, is_enough)
        else:
            chosen = self._choose(units, is_enough)
        return None if chosen is None else Opening(node, chosen)

    def _choose(
        self, units: Sequence[Unit], is_enough: Callable[[Sequence[Unit]], bool]
    ) -> list[Unit] | None:
        return fewest_units(units, is_enough)


def _cheapest(openings: Iterable[Opening | None]) -> Opening | None:
    """Return the first of the openings for which the fewest tasks are evicted, if there is any."""
    return min(
        (opening for opening in openings if opening is not None),
        key=lambda opening: opening.cost,
        default=None,
    )


def _is_enough_on(
    claimant: Claimant, node: NodeState, *, cures: bool
) -> Callable[[Sequence[Unit]], bool]:
    """Return whether a claimant fits on a node, and is accepted, once some units have left."""
    shortfall = claimant.shortfall(node)

    def is_enough(taken: Sequence[Unit]) -> bool:
        gone = members_of(taken)
        here = [victim for victim in gone if victim.node is node]
        return (
            claimant.is_enough_on(node, shortfall, here)
            and claimant.is_within_limits(gone)
            and (not cures or accepts_without(claimant.session, claimant.task, node, gone))
        )

    return is_enough


# What searches have found out. Nothing here decides: without it, nodes would be visited in vain.

MOST_AT_ONCE = 256
"""The most nodes about which plugins are asked at once."""


@frozen
class _Unshielded:
    """The tasks on a node that no plugin shields."""

    tasks: Sequence[TaskState]
    total: Vector
    """What they hold together."""


def slots_of_queue(session: Session, queue: QueueState) -> AbstractSet[int]:
    """Return the slots of the nodes where jobs of a queue run. O(these nodes, and changes)."""

    def look_again(slots: set[int], stale: set[int] | None) -> None:
        assert stale is not None
        for slot in stale:
            has_any = session.running_on(session.slots[slot]).has_any_of(queue)
            (slots.add if has_any else slots.discard)(slot)

    def look() -> set[int]:
        return set[int]().union(*map(running_slots, queue.jobs))

    return session.remembered.recall(("slots of", queue), look, look_again, DependsOn.NODES)


class RememberedSearch:
    """The room that evictions can make on the nodes that accept a claimant; see `SearchOn`.

    A node is left out of a search until something has changed there, if one of these was too
    small:

    - what it has if all tasks leave that plugins do not shield from the claimant, which holds until
      more is charged to the jobs that run there (`batchsched.plugin.EvictionHints`). Plugins are
      asked about many nodes at once, first about one, then about twice as many each time: most
      searches end after a few nodes, but those that fail visit all;
    - the victims themselves, for claimants that plugins cannot tell apart, which holds until what
      is charged to a job there changes.
    """

    def __init__(self, claimant: Claimant) -> None:
        session, task = claimant.session, claimant.task
        job = task.job
        assert job is not None
        assert job.queue is not None
        self._claimant = claimant
        self._job = job
        own = job.uid if claimant.scope is EvictionScope.SAME_JOB else None
        reads_priority = claimant.judges.by_priority and (session.binds or claimant.ways)
        above = job.info.priority if reads_priority else None
        self._who = claimant.scope, job.queue.name, own, claimant.recent, above, claimant.spares
        """Claimants of whom these are equal have the same candidates, but for their own jobs."""
        self._key, self._kind = claimant.judges.claimant_key(task), session.placement.kind(task)
        remembered = session.remembered
        self._alike = remembered if self._key is not None else Remembered(session.log)
        """What was found out for claimants that plugins cannot tell apart."""
        self._same = self._alike if self._kind is not None else Remembered(session.log)
        """What was found out for those of them that ask for the same."""
        self._failures = self._same.recall("failures", set[Hashable], forget, DependsOn.EVERYTHING)
        # What limits a job, such as its turn, may be no limit to another one of its queue.
        is_alone = bool(running_slots(job)) or claimant.limit is not None
        self._search = (
            *(self._who, job.uid if is_alone else "", self._kind, self._key),
            *(claimant.may_use_idle, claimant.curable, task.resreq),
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
        assert job.queue is not None
        runs_on = running_slots(job)
        self._own_nodes: AbstractSet[int] = frozenset()
        """The nodes where claimants of other jobs have candidates that this one has not."""
        if scope in (EvictionScope.OTHER_JOBS, EvictionScope.ANY_OTHER_JOB):
            self._own_nodes = runs_on
        large_enough: AbstractSet[int] = session.state.node_room.large_enough(task.init_resreq)
        if scope is EvictionScope.SAME_JOB:
            large_enough = large_enough & runs_on
        elif scope is EvictionScope.OTHER_JOBS:
            large_enough = large_enough & slots_of_queue(session, job.queue)
        among = job.queue if scope is EvictionScope.OTHER_JOBS else None
        shields = self._who, () if self._key is None else claimant.judges.shield_key(self._key)
        charges = partial(self._alike.recall, reads=DependsOn.CHARGES, among=among)
        self._unshielded = charges(("unshielded", shields), dict[int, _Unshielded], forget)
        self._nobody = charges(("nobody", shields), set[int], forget)
        """The nodes where all are shielded, or nobody runs."""
        self._open = charges(
            ("open", shields, task.init_resreq, claimant.may_use_idle),
            lambda: set(large_enough - self._nobody),
            reopening(large_enough),
        )
        """The nodes where those that are not shielded may be enough."""
        self._closed = self._same.recall(
            ("closed", self._who, self._key, self._kind, claimant.may_use_idle),
            set[int],
            forget,
            DependsOn.QUEUES if scope is EvictionScope.OTHER_QUEUES else DependsOn.ACCOUNTS,
            among,
        )
        """The nodes where the victims of a like search were not enough."""
        self._too_small: list[int] = []
        self._undecided: set[int] = set()
        """The nodes where it depends on limits too whether the victims are enough."""
        self._with_jobs: list[tuple[NodeState, Victims]] = []
        """The nodes where single tasks were not enough, but whole jobs may be."""

    def alone(self) -> Opening | None:
        """Return the first node where evicting single tasks is enough."""
        self._recall()
        among = self._open - (self._closed - self._own_nodes) if self._closed else self._open
        among = among - self._claimant.on_the_way if self._claimant.ways else among
        opening: Opening | None = None
        for node, unshielded in self._promising(among):
            tasks = unshielded
            if node.slot in self._own_nodes:
                tasks = [other for other in tasks if other.job is not self._job]
            victims = self._claimant.victims_among(tasks, node)
            opening = self._single_tasks(node, victims)
            if opening is not None:
                break
            if not victims.is_all_alone:
                self._with_jobs.append((node, victims))
            else:
                self._close({node.slot})
        else:
            # Infeasible nodes are left out too, until they change.
            self._close(among - {node.slot for node, _ in self._with_jobs})
        self._open.difference_update(self._too_small)
        return opening

    def with_jobs(self) -> Opening | None:
        """Return the first of the nodes where, with whole jobs, the fewest tasks are evicted.

        Only after `alone` has found no node.
        """
        fewest: Opening | None = None
        session = self._claimant.session
        cheaper: AbstractSet[int] | None = None
        for node, victims in self._with_jobs:
            if cheaper is not None and node.slot not in cheaper:
                continue
            opening = self._fewest(node, units_in_order(session, victims))
            if opening is None:
                self._close({node.slot})
            elif fewest is None or opening.cost < fewest.cost:
                fewest = opening
                cheaper = opening.cheaper_on(session)
        return fewest

    def _close(self, slots: AbstractSet[int]) -> None:
        """Leave nodes out of like searches, where what all claimants may evict is not enough."""
        self._closed |= slots - self._own_nodes - self._undecided

    def _single_tasks(self, node: NodeState, victims: Victims) -> Opening | None:
        if not victims.alone:
            return None
        if not self._claimant.shortfall(node).is_enough_with(victims.alone):
            return None  # usually not even all of them are enough
        return self._fewest(node, [[one] for one in victims.alone])

    def _fewest(self, node: NodeState, units: Sequence[Unit]) -> Opening | None:
        claimant = self._claimant
        units = claimant.allowed(units)
        tightens = claimant.may_tighten_limits(task for unit in units for task in unit)
        if tightens:
            self._undecided.add(node.slot)
        if tightens or claimant.looks_ahead or claimant.may_choose:
            return SearchOn(claimant, [node]).fewest(node, units)
        chosen = choose_units(units, node, claimant.shortfall(node).is_enough_with)
        return None if chosen is None else Opening(node, chosen)

    # Which nodes are worth asking about

    def _promising(self, among: Collection[int]) -> Iterator[tuple[NodeState, Sequence[TaskState]]]:
        """Yield the nodes where all who are not shielded would be enough, with these tasks."""
        claimant = self._claimant
        request, may_use_idle = claimant.task.init_resreq, claimant.may_use_idle
        nodes = iter(claimant.feasible(among) if among else ())
        at_once = 1
        while some := list(islice(nodes, at_once)):
            self._ask_about(some)
            for node in some:
                known = self._unshielded.get(node.slot)
                if known is not None and fits(
                    request, room_with(node, known.total, may_use_idle=may_use_idle)
                ):
                    yield node, known.tasks
                else:
                    self._too_small.append(node.slot)
            at_once = min(2 * at_once, MOST_AT_ONCE)

    def _ask_about(self, nodes: Sequence[NodeState]) -> None:
        """Ask plugins which tasks they shield on those of some nodes that are not known."""
        claimant, recent = self._claimant, self._claimant.recent
        known, nobody = self._unshielded, self._nobody
        free: dict[int, list[TaskState]] = {}
        candidates: list[TaskState] = []
        for node in nodes:
            if node.slot in known or node.slot in nobody:
                continue
            tasks = claimant.candidates_on(node, with_own_job=True)
            free[node.slot] = []
            if node.slot in self._own_nodes:
                # Plugins may shield tasks from their own job but not from others, or the reverse.
                free[node.slot] = [task for task in tasks if task.job is self._job]
                tasks = [task for task in tasks if task.job is not self._job]
            candidates += tasks
        if not free:
            return
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


class SearchBesideWays:
    """The room on nodes where others give something up, and on all others as it is remembered."""

    def __init__(self, claimant: Claimant, others: RememberedSearch) -> None:
        self._claimant = claimant
        self._on_the_way = SearchOn(claimant, claimant.feasible(claimant.on_the_way))
        self._others = others

    def by_ways(self) -> Opening | None:
        """Return the first node where it is enough that others give way."""
        return self._on_the_way.by_ways()

    def alone(self) -> Opening | None:
        """Return the first node where evicting single tasks is enough."""
        openings = [self._on_the_way.alone(), self._others.alone()]
        return self._first(opening for opening in openings if opening is not None)

    def with_jobs(self) -> Opening | None:
        """Return the first of the nodes where, with whole jobs, the fewest tasks are evicted."""
        found = [self._on_the_way.with_jobs(), self._others.with_jobs()]
        openings = [opening for opening in found if opening is not None]
        least = min((opening.cost for opening in openings), default=0)
        return self._first(opening for opening in openings if opening.cost == least)

    def _first(self, openings: Iterable[Opening]) -> Opening | None:
        """Return the opening on the node that is tried first."""
        by_slot = {opening.node.slot: opening for opening in openings}
        if len(by_slot) < 2:  # noqa: PLR2004
            return next(iter(by_slot.values()), None)
        return by_slot[next(iter(self._claimant.feasible(by_slot.keys()))).slot]


class SearchWithinLimits(SearchOn):
    """The room that evictions can make for a claimant that limits keep out; see `SearchOn`.

    All nodes that would take it as they are share one search, that for the first of them. Where 400
    tasks of a queue at its limit hold none of what is short, a cycle costs 3 times less.
    """

    def __init__(self, claimant: Claimant) -> None:
        """Find the nodes that are worth searching. O(nodes + candidates)."""
        super().__init__(claimant, list(self._worth_searching(claimant)))

    @staticmethod
    def _worth_searching(claimant: Claimant) -> Iterator[NodeState]:
        everybody = claimant.candidates_everywhere()
        if not everybody or not (
            claimant.is_within_limits(everybody) or claimant.may_tighten_limits(everybody)
        ):
            return
        here = {task.node.slot for task in everybody if task.node is not None}
        shares_search = False
        for node in claimant.feasible():
            if shares_search and node.slot not in here:
                continue
            shortfall = claimant.shortfall(node)
            if claimant.is_enough_on(node, shortfall, ()):
                if not shares_search:
                    yield node
                shares_search = True
            elif node.slot in here and shortfall.is_enough_with(claimant.candidates_on(node)):
                yield node

    def _choose(
        self, units: Sequence[Unit], is_enough: Callable[[Sequence[Unit]], bool]
    ) -> list[Unit] | None:
        claimant = self._claimant
        if claimant.may_choose or claimant.may_tighten_limits(t for unit in units for t in unit):
            return fewest_units(units, is_enough)
        return fewest_by_halving(units, is_enough)
