"""Make room on nodes that refuse a task for a reason that evicting can cure.

Examples are too many tasks on the node, a host port in use, and a task that it must not run
beside. Tasks are evicted until the claimant fits and the node accepts it, both judged without
all tasks that are leaving the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from batchsched.actions.eviction.scope import EvictionScope, candidates_on
from batchsched.actions.eviction.victims import Shortfall, Unit
from batchsched.session.curing import accepts_without, curable_nodes
from batchsched.session.session import Session
from batchsched.session.victims import RecentStarts, Victims, WholeJobs
from batchsched.state.records import NodeState, TaskState

__all__ = ["CuringSearch", "fewest_units"]

_Found = tuple[NodeState, list[TaskState]]
"""A node, and the tasks to evict to make room there."""


class CuringSearch:
    """A search, for one claimant, of the nodes that refuse it for reasons that evicting can cure.

    Nodes are tried best first, or in node order for `EvictionScope.OTHER_QUEUES`. Tasks on other
    nodes are evicted only as part of a replica or job. O(units x tasks on the node) for each node.
    """

    def __init__(
        self,
        session: Session,
        task: TaskState,
        scope: EvictionScope,
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

    @cached_property
    def _nodes(self) -> list[NodeState]:
        """The nodes in the order in which they are tried."""
        task, placement = self._task, self._session.placement
        nodes = curable_nodes(self._session, task)
        if self._scope is EvictionScope.OTHER_QUEUES or len(nodes) < 2:  # noqa: PLR2004
            return nodes
        scores = placement.totals(task, [placement.raw_scores(task, node) for node in nodes])
        order = sorted(range(len(nodes)), key=lambda place: (-scores[place], place))
        return [nodes[place] for place in order]

    @cached_property
    def _candidates(self) -> list[tuple[NodeState, Victims]]:
        """The nodes that have possible victims, with those victims."""
        with_victims = [(node, self._victims_on(node)) for node in self._nodes]
        return [(node, victims) for node, victims in with_victims if victims]

    def without_evicting(self) -> _Found | None:
        """Find the first node where no eviction is needed, because enough is leaving already."""
        for node in self._nodes:
            if self._choose(node, []) is not None:
                return node, []
        return None

    def alone(self) -> _Found | None:
        """Find the first node where evicting single tasks is enough."""
        for node, victims in self._candidates:
            chosen = self._choose(node, [[victim] for victim in victims.alone])
            if chosen is not None:
                return node, chosen
        return None

    def with_jobs(self) -> Iterator[_Found]:
        """Yield the nodes where evicting single tasks, replicas and whole jobs is enough."""
        for node, victims in self._candidates:
            if victims.is_all_alone:
                continue
            in_order = self._session.in_victim_order
            units: list[Unit] = [
                *([victim] for victim in victims.alone),
                *(in_order(unit.victims) for unit in victims.replicas),
                *map(self._session.whole_job, victims.whole_jobs),
            ]
            chosen = self._choose(node, units)
            if chosen is not None:
                yield node, chosen

    def _victims_on(self, node: NodeState) -> Victims:
        session, task = self._session, self._task
        candidates = candidates_on(session, task, self._scope, node)
        if not candidates:
            return Victims()
        in_order = session.in_victim_order(candidates)
        judges = session.plugin_set.eviction.at(self._scope.point)
        return judges.victims(task, in_order, self._whole_jobs, self._recent)

    def _choose(self, node: NodeState, units: Sequence[Unit]) -> list[TaskState] | None:
        """Return the tasks to evict, taking units in order; None if all units are not enough."""
        room = Shortfall(self._task.init_resreq, node, may_use_idle=self._may_use_idle)

        def is_enough(taken: Sequence[Unit]) -> bool:
            gone = _members(taken)
            here = [victim for victim in gone if victim.node is node]
            return room.is_enough_with(here) and accepts_without(
                self._session, self._task, node, gone
            )

        chosen = fewest_units(units, is_enough)
        return None if chosen is None else _members(chosen)


def fewest_units(
    units: Sequence[Unit], is_enough: Callable[[Sequence[Unit]], bool]
) -> list[Unit] | None:
    """Take units in order until they are enough, then drop those not needed; None if too few.

    Dropping one unit may make it possible to drop another, so it repeats until none can go.
    """
    taken: list[Unit] = []
    remaining = iter(units)
    while not is_enough(taken):
        unit = next(remaining, None)
        if unit is None:
            return None
        taken.append(unit)
    has_dropped = True
    while has_dropped:
        has_dropped = False
        for unit in reversed(taken[:]):
            without = [other for other in taken if other is not unit]
            if is_enough(without):
                taken, has_dropped = without, True
    return taken


def _members(units: Sequence[Unit]) -> list[TaskState]:
    """Return the tasks of some units, each once, in order."""
    return list({task.uid: task for unit in units for task in unit}.values())
