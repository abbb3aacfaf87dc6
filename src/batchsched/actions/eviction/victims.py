"""Whom an action may evict for a task, what that frees, and the fewest that are enough."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from math import inf

from attrs import define, frozen

from batchsched.model.resources import EPSILON
from batchsched.plugin.arguments import Arguments
from batchsched.session.curing import curable_nodes
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.victims import Judges, Point, RecentStarts, Victims, WholeJobs
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, fits, is_empty, minus, plus, total_of

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

    See `batchsched.plugin.Predicate.curable`.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> EvictionRules:
        """Read ``maxEvictions`` and ``minRuntime``, numbers from 0, and ``curable``."""
        most = arguments.integer("maxEvictions", default=0, minimum=0)
        return cls(
            most=most if arguments.is_given("maxEvictions") else inf,
            min_runtime=arguments.number("minRuntime", default=0, minimum=0),
            curable=arguments.boolean("curable", default=False),
        )

    def recent(self, session: Session) -> RecentStarts | None:
        """Return the rule for tasks that started recently; None if there is no such rule."""
        return RecentStarts(session.now, self.min_runtime) if self.min_runtime > 0 else None

    def allow(self, session: Session, statement: Statement) -> bool:
        """Return whether a statement evicts no task, or keeps the cycle within `most`. O(1)."""
        evictions = statement.evictions
        return not evictions or len(session.evictions) + evictions <= self.most


DEFAULT_RULES = EvictionRules()
"""No limits: any number of tasks, whenever started, but only on nodes that accept the claimant."""


# Candidates


class EvictionScope(Enum):
    """Which Running tasks may be evicted for a claimant, before plugins are consulted."""

    OTHER_JOBS = "other jobs of the same queue"
    SAME_JOB = "the same job"
    OTHER_QUEUES = "other queues"
    ANY_OTHER_JOB = "other jobs of any queue"

    @property
    def point(self) -> Point:
        """The plugin point whose verdicts count."""
        return "reclaimable" if self is EvictionScope.OTHER_QUEUES else "preemptable"


def candidates_on(
    session: Session, task: TaskState, scope: EvictionScope, node: NodeState
) -> list[TaskState]:
    """Return the Running tasks on a node that are within the scope for a claimant."""
    job = task.job
    assert job is not None
    running = session.running_on(node)
    match scope:
        case EvictionScope.OTHER_QUEUES:
            return running.of_other_queues(job.queue)
        case EvictionScope.OTHER_JOBS:
            return [other for other in running.of_queue(job.queue) if other.job is not job]
        case EvictionScope.SAME_JOB:
            return [other for other in running.all if other.job is job]
        case EvictionScope.ANY_OTHER_JOB:
            return [other for other in running.all if other.job is not job]


Unit = Sequence[TaskState]
"""Tasks that are evicted together or not at all, on any nodes."""


@frozen
class Room:
    """A node, and the tasks to evict to make room there."""

    node: NodeState
    victims: Sequence[TaskState]

    @property
    def cost(self) -> int:
        """How many tasks are evicted."""
        return len(self.victims)


@define(kw_only=True, eq=False)
class Claimant:
    """A task for which room is to be made, and whom that may cost."""

    session: Session
    task: TaskState
    scope: EvictionScope
    may_use_idle: bool
    """Whether it may take idle resources too; if not, it must fit in what its victims hold."""
    recent: RecentStarts | None
    curable: bool
    """Whether nodes that refuse it for reasons that evicting can cure are searched too."""
    whole_jobs: WholeJobs | None
    """What was found out about whole jobs in this search; None: each is asked about anew."""

    @property
    def judges(self) -> Judges:
        """The plugins whose verdicts count."""
        return self.session.plugin_set.eviction.at(self.scope.point)

    def feasible(self, among: Collection[int] | None = None) -> Iterable[NodeState]:
        """Return the nodes that accept it: best first, or in node order for other queues."""
        placement = self.session.placement
        if self.scope is EvictionScope.OTHER_QUEUES:
            return placement.feasible(self.task, among)
        return placement.ranked(self.task, among)

    def refusing(self) -> list[NodeState]:
        """Return the nodes that may accept it once others are evicted, in the same order."""
        if not self.curable:
            return []
        task, placement = self.task, self.session.placement
        nodes = curable_nodes(self.session, task)
        if self.scope is EvictionScope.OTHER_QUEUES or not nodes:
            return nodes
        scores = placement.totals(task, [placement.raw_scores(task, node) for node in nodes])
        order = sorted(range(len(nodes)), key=lambda place: (-scores[place], place))
        return [nodes[place] for place in order]

    def victims_among(self, candidates: Sequence[TaskState]) -> Victims:
        """Return whom plugins let go of some candidates on one node."""
        if not candidates:
            return Victims()
        in_order = self.session.in_victim_order(candidates)
        return self.judges.victims(self.task, in_order, self.whole_jobs, self.recent)

    def units(self, victims: Victims) -> list[Unit]:
        """Return what may be evicted: single tasks, then replicas, then whole jobs."""
        session = self.session
        return [
            *([victim] for victim in victims.alone),
            *(session.in_victim_order(unit.victims) for unit in victims.replicas),
            *map(session.whole_job, victims.whole_jobs),
        ]

    def shortfall(self, node: NodeState) -> Shortfall:
        """Return what it lacks on a node."""
        return Shortfall(self.task.init_resreq, node, may_use_idle=self.may_use_idle)


# Resources


class FreedResources:
    """The resources that some victims hold together, updated as victims are added and removed."""

    __slots__ = ("_all", "_for_good")

    def __init__(self, victims: Sequence[TaskState] = ()) -> None:
        self._all = _sum_of(victims)
        for_good = [victim for victim in victims if not victim.is_backfill]
        self._for_good = self._all if len(for_good) == len(victims) else _sum_of(for_good)

    def add(self, victim: TaskState) -> None:
        """Count one more victim. O(dimensions)."""
        amounts = victim.resreq
        self._all = plus(self._all, amounts) if self._all else amounts
        if not victim.is_backfill:
            self._for_good = plus(self._for_good, amounts) if self._for_good else amounts

    def remove(self, victim: TaskState) -> None:
        """Stop counting a victim. O(dimensions)."""
        self._all = minus(self._all, victim.resreq)
        if not victim.is_backfill:
            self._for_good = minus(self._for_good, victim.resreq)

    def covers(self, missing: Vector) -> bool:
        """Return whether the victims hold at least `missing`."""
        return fits(missing, self._all) if self._all else is_empty(missing)

    def covers_for_good(self, missing: Vector) -> bool:
        """Return whether the victims that are not backfill tasks hold at least `missing`.

        A node's `accessible` and `eventual` already include what backfill tasks hold.
        """
        return fits(missing, self._for_good) if self._for_good else is_empty(missing)


def _sum_of(victims: Sequence[TaskState]) -> Vector:
    """Return the sum of what victims hold; an empty tuple if there are none."""
    return total_of([victim.resreq for victim in victims], ())


class Shortfall:
    """The resources that a request lacks on a node, and whether victims would free them."""

    __slots__ = ("_missing", "_missing_for_good", "_request")

    def __init__(self, request: Vector, node: NodeState, *, may_use_idle: bool) -> None:
        self._missing = _missing(request, node.future_idle if node.divergence_count else node.idle)
        self._missing_for_good = (
            _missing(request, node.eventual) if node.divergence_count else self._missing
        )
        self._request = None if may_use_idle else request

    def is_enough_with(self, victims: Sequence[TaskState] | FreedResources) -> bool:
        """Return whether there is room without `victims`.

        O(victims x dimensions); O(dimensions) given their `FreedResources`.
        """
        freed = victims if isinstance(victims, FreedResources) else FreedResources(victims)
        return (
            freed.covers(self._missing)
            and (self._request is None or freed.covers(self._request))
            and freed.covers_for_good(self._missing_for_good)
        )

    def is_enough_for_now_with(self, freed: FreedResources) -> bool:
        """Return whether there is room without the victims, ignoring conditional promises."""
        return freed.covers(self._missing)


def _missing(request: Vector, there: Vector) -> Vector:
    """Return what a request lacks; 0 in dimensions that it does not request."""
    return tuple(
        wanted - amount if wanted >= EPSILON else 0
        for wanted, amount in zip(request, there, strict=True)
    )


def room_with(node: NodeState, freed: Vector, *, may_use_idle: bool) -> Vector:
    """Return the most that a request may ask for on a node if victims free some resources.

    Amounts are exact, so that a request which does not fit in it is not met by any victims that
    together hold at most `freed`; see `Shortfall`. O(dimensions).
    """
    if node.divergence_count:
        now, finally_free = plus(node.future_idle, freed), plus(node.eventual, freed)
        room = tuple(map(min, now, finally_free))
    else:
        room = plus(node.idle, freed)
    return room if may_use_idle else tuple(map(min, room, freed))


def choose_units(
    units: Sequence[Unit], node: NodeState, is_enough: Callable[[FreedResources], bool]
) -> list[TaskState] | None:
    """Take units in order until they are enough, then drop those that are not needed.

    Returns the tasks of the units that are left; None if all units are not enough. A task may be
    in several units. Only what tasks on the node hold counts. O(tasks of the units x dimensions).
    """
    on_node = [[task for task in unit if task.node is node] for unit in units]
    freed = FreedResources()
    times: dict[str, int] = {}

    def take(tasks: Unit) -> None:
        for task in tasks:
            times[task.uid] = times.get(task.uid, 0) + 1
            if times[task.uid] == 1:
                freed.add(task)

    def drop(tasks: Unit) -> None:
        for task in tasks:
            times[task.uid] -= 1
            if not times[task.uid]:
                freed.remove(task)

    taken = 0
    while not is_enough(freed):
        if taken == len(units):
            return None
        take(on_node[taken])
        taken += 1
    kept: list[Unit] = []
    for position in reversed(range(taken)):
        drop(on_node[position])
        if not is_enough(freed):
            take(on_node[position])
            kept.append(units[position])
    return list({task.uid: task for unit in reversed(kept) for task in unit}.values())
