"""Upper bounds on the victims on nodes, which decide most nodes without asking for verdicts.

The first bound needs no plugin: what a node has if all tasks of the claimant's queue leave. It is
shared by all claimants of the queue, and decides two of three nodes of preempt's searches.
Reclaim has no such bound: the tasks of all other queues are nearly always enough.

Where it is enough, plugins are asked which of these tasks they shield from the claimant, whatever
else is evicted (`batchsched.plugin.EvictionHints`). They are asked about many nodes at once,
first about one, then about twice as many each time: most searches end after a few nodes, but
those that fail visit all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from attrs import define, field, frozen

from batchsched.actions.eviction.scope import EvictionScope
from batchsched.actions.eviction.search_cache import ChangedNodes, RelevantChanges, forget_slots
from batchsched.actions.eviction.victims import room_with
from batchsched.session.session import Session
from batchsched.session.victims import RecentStarts
from batchsched.state.change_log import NodeCursor
from batchsched.state.records import NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, fits, total_of

__all__ = ["BoundFinder", "Bounds", "OpenSlots", "QueueRoom", "VictimBound"]

MOST_AT_ONCE = 256
"""The most nodes about which plugins are asked at once."""


@frozen
class VictimBound:
    """An upper bound on the victims on a node."""

    tasks: Sequence[TaskState]
    total: Vector
    """The resources that they hold together."""
    alone: Vector
    """The resources held together by those that may be evicted without their whole jobs."""


@define
class OpenSlots:
    """The nodes that may have room for a request."""

    read: int
    """How many steps of `ChangedNodes` it takes into account."""
    slots: set[int]


class Bounds:
    """Upper bounds on the victims on nodes, shared by claimants with the same shields."""

    __slots__ = ("_changed", "_changes", "_open", "_open_alone", "held", "without_victims")

    def __init__(self, changes: RelevantChanges) -> None:
        self._changes = changes
        self._changed = ChangedNodes(changes.log.position())
        self.held: dict[int, VictimBound] = {}
        """Slot of a node to the tasks that no plugin shields there, if there are any."""
        self.without_victims: set[int] = set()
        """The nodes without any such task, where no request will find room."""
        self._open: dict[Hashable, OpenSlots] = {}
        """Request to the nodes where the bound may be enough for it."""
        self._open_alone: dict[Hashable, OpenSlots] = {}
        """The same, when evicting single tasks only."""

    def catch_up(self) -> None:
        """Forget what may have changed. O(changes since, plus the tasks of jobs charged)."""
        now = self._changes.log.position()
        if self._changed.position == now:
            return
        changed = self._changes.changed(self._changed.position)
        self._changed.add(changed, now)
        forget_slots(self.held, changed)
        if changed is None:
            self.without_victims.clear()
        else:
            self.without_victims -= changed

    def open_for(
        self, request_key: Hashable, large_enough: AbstractSet[int], *, alone: bool
    ) -> set[int]:
        """Return the nodes, of those that are large enough, that may have room for a request.

        Valid as of the last `catch_up`. The caller discards from it the nodes where the bound is
        not enough. `alone`: by evicting single tasks; if not, by evicting whole jobs too.
        """
        steps = self._changed.count
        which = self._open_alone if alone else self._open
        known = which.get(request_key)
        if known is None:
            known = which[request_key] = OpenSlots(steps, set(large_enough - self.without_victims))
        elif known.read != steps:
            changed = self._changed.since(known.read)
            known.slots |= large_enough if changed is None else changed & large_enough
            known.read = steps
        return known.slots


class QueueRoom:
    """What nodes have for a claimant if all running tasks of its queue leave."""

    __slots__ = ("_changed", "_may_use_idle", "_queue", "_room", "_session")

    def __init__(self, session: Session, queue: QueueState | None, *, may_use_idle: bool) -> None:
        self._session = session
        self._queue = queue
        self._may_use_idle = may_use_idle
        self._changed = NodeCursor(session.log.nodes)
        self._room: dict[int, Vector] = {}

    def catch_up(self) -> None:
        """Forget the nodes that have changed. O(changes since)."""
        for slot in self._changed.unread():
            self._room.pop(slot, None)

    def on(self, node: NodeState) -> Vector:
        """Return the room on a node. O(tasks there) if it has changed, else O(1)."""
        known = self._room.get(node.slot)
        if known is None:
            held = self._session.running_on(node).held_by_queue(self._queue)
            known = room_with(node, held, may_use_idle=self._may_use_idle)
            self._room[node.slot] = known
        return known


@define
class BoundFinder:
    """Finds the nodes where evicting may make room for one claimant."""

    session: Session
    task: TaskState
    scope: EvictionScope
    may_use_idle: bool
    recent: RecentStarts | None
    own_nodes: AbstractSet[int]
    """The slots of the nodes where the claimant has other candidates than other jobs have."""
    bounds: Bounds | None = None
    """Where bounds are cached; None: a plugin does not say what its verdicts depend on."""
    too_small: list[int] = field(init=False, factory=list[int])
    """The slots of the nodes where not even all victims are enough, as far as was found."""
    too_small_alone: list[int] = field(init=False, factory=list[int])
    """The slots of the nodes where victims evicted alone are not enough, as far as was found."""

    def promising(
        self, nodes: Iterable[NodeState], *, alone: bool
    ) -> Iterator[tuple[NodeState, VictimBound]]:
        """Yield the nodes where the bound may be enough, with the bound.

        `alone`: by evicting single tasks; if not, by evicting whole jobs too.
        """
        possible = iter(nodes)
        if self.scope is EvictionScope.OTHER_JOBS:
            possible = self._large_enough_in_all(possible)
        at_once = 1
        while some := list(islice(possible, at_once)):
            for node, bound in zip(some, self._bounds_on(some), strict=True):
                if bound is None:
                    self.too_small.append(node.slot)
                    self.too_small_alone.append(node.slot)
                elif alone and not self._may_have_room(node, bound.alone):
                    self.too_small_alone.append(node.slot)
                    if not self._may_have_room(node, bound.total):
                        self.too_small.append(node.slot)
                elif not alone and not self._may_have_room(node, bound.total):
                    self.too_small.append(node.slot)
                else:
                    yield node, bound
            at_once = min(2 * at_once, MOST_AT_ONCE)

    def _may_have_room(self, node: NodeState, freed: Vector) -> bool:
        room = room_with(node, freed, may_use_idle=self.may_use_idle)
        return fits(self.task.init_resreq, room)

    def _large_enough_in_all(self, nodes: Iterable[NodeState]) -> Iterator[NodeState]:
        """Yield the nodes where evicting all tasks of the claimant's queue might be enough."""
        session, request, bounds = self.session, self.task.init_resreq, self.bounds
        assert self.task.job is not None
        queue = self.task.job.queue
        store = session.memo.store(QueueRoom)
        key = queue, self.may_use_idle
        room = store.get(key)
        if room is None:
            room = store[key] = QueueRoom(session, queue, may_use_idle=self.may_use_idle)
        room.catch_up()
        for node in nodes:
            if fits(request, room.on(node)):
                yield node
                continue
            self.too_small.append(node.slot)
            self.too_small_alone.append(node.slot)
            if bounds is not None and not session.running_on(node).has_any_of(queue):
                bounds.without_victims.add(node.slot)

    def _bounds_on(self, nodes: Sequence[NodeState]) -> list[VictimBound | None]:
        """Return the bound on each node; None: nobody there is a possible victim."""
        bounds = self.bounds
        if bounds is None:
            return [self._without_shields(node) for node in nodes]
        known, nobody = bounds.held, bounds.without_victims
        unknown = [node for node in nodes if node.slot not in known and node.slot not in nobody]
        if unknown:
            self._find(unknown, bounds)
        return [known.get(node.slot) for node in nodes]

    def _without_shields(self, node: NodeState) -> VictimBound | None:
        tasks = self._within_scope(node)
        held = total_of([task.resreq for task in tasks], self.session.dimensions.zero)
        return VictimBound(tasks, held, held) if tasks else None

    def _find(self, nodes: Sequence[NodeState], bounds: Bounds) -> None:
        """Ask plugins which tasks on some nodes they shield, and keep the bounds."""
        mine, point = self.task.job, self.scope.point
        judges = self.session.plugin_set.eviction.at(point)
        free: dict[int, list[TaskState]] = {node.slot: [] for node in nodes}
        bound_to_job: dict[int, list[TaskState]] = {}
        candidates: list[TaskState] = []
        for node in nodes:
            tasks = self._within_scope(node)
            if node.slot in self.own_nodes:
                # Plugins may shield tasks from their own job but not from others, or the reverse.
                free[node.slot] = [task for task in tasks if task.job is mine]
                tasks = [task for task in tasks if task.job is not mine]
            candidates += tasks
        left = judges.unshielded(self.task, candidates)
        if self.recent is not None:
            left = [other for other in left if other not in self.recent]
        for other in left:
            assert other.node is not None
            free[other.node.slot].append(other)
        zero = self.session.dimensions.zero
        for slot, alone in free.items():
            others = bound_to_job.get(slot, [])
            if not alone and not others:
                bounds.without_victims.add(slot)
                continue
            of_alone = total_of([task.resreq for task in alone], zero)
            tasks = [*alone, *others]
            total = total_of([task.resreq for task in tasks], zero) if others else of_alone
            bounds.held[slot] = VictimBound(tasks, total, of_alone)

    def _within_scope(self, node: NodeState) -> Sequence[TaskState]:
        """Return the candidates of claimants like this one, and the tasks of its own job."""
        running, job = self.session.running_on(node), self.task.job
        assert job is not None
        match self.scope:
            case EvictionScope.OTHER_QUEUES:
                return running.of_other_queues(job.queue)
            case EvictionScope.OTHER_JOBS:
                return running.of_queue(job.queue)
            case EvictionScope.SAME_JOB:
                return [other for other in running.all if other.job is job]
            case EvictionScope.ANY_OTHER_JOB:
                return running.all
