"""The function `shrink`: reduce a large snapshot to a small one with the same property.

Delta debugging after Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input" (IEEE Transactions on Software Engineering 28(2), 2002), in the greedy form that tries
chunks of halving size; objects are removed together with what depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, islice
from typing import TypeVar, cast

from attrs import NOTHING, Attribute, AttrsInstance, Factory, evolve, fields

from batchsched.errors import Fault, FaultsError, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.snapshot import Snapshot
from batchsched.tools.amounts import (
    dimensions_used,
    evolved,
    with_dimension,
    with_dimension_divided,
)
from batchsched.tools.reductions import (
    small_parts,
    with_half_gangs,
    with_nodes_joined,
    with_queues_joined,
    without_jobs,
    without_nodes,
    without_queues,
    without_tasks,
    without_tasks_and_their_room,
)
from batchsched.tools.rename import neutral_names

__all__ = ["shrink"]

ItemT = TypeVar("ItemT")
PartT = TypeVar("PartT", bound=AttrsInstance)

Without = Callable[[Snapshot, frozenset[str]], Snapshot]
"""Removes named objects from a snapshot."""

_KEPT: dict[type, tuple[str, ...]] = {
    JobInfo: ("name", "namespace", "queue", "tasks", "uid"),
    TaskInfo: ("uid", "name", "namespace", "status", "node_name"),
    NodeInfo: ("name",),
    Queue: ("name", "parent"),
}
"""Fields that identify an object, or what it belongs to; they are not simplified."""


def shrink(
    snapshot: Snapshot,
    holds: Callable[[Snapshot], bool],
    *,
    neutral: bool = False,
) -> Snapshot:
    """Reduce a snapshot as far as `holds` stays true, for a bug report or a test.

    Nodes, queues, jobs and tasks are removed as long as `holds` is true without them, each with
    what depends on it: a node with its tasks, a queue with its jobs. Then the rest is simplified:
    constraints, priorities and times are dropped, and amounts become small. In the end no single
    object can be removed and, if few are left, no two. That need not be the smallest snapshot
    possible.

    O(objects left x log objects) calls of `holds`, most of them on small snapshots, and
    O(objects left^2) on the last ones. `python -m benchmarks.answers shrink` measures it on the
    findings of `check_config`.

    Args:
        snapshot: the snapshot to reduce.
        holds: whether a snapshot has the property of interest, such as a reason or a wrong
            decision. It gets only valid snapshots; its exceptions are not caught.
        neutral: whether to replace names with neutral ones in the end (``n1``, ``q1``, ``j1``,
            ``t1``, ``a1``), so that they reveal nothing. If `holds` is not true with neutral names,
            nothing is renamed.

    Raises:
        SnapshotError: `holds` is not true for `snapshot` (nor, if it is large, for the first
            parts of it that are tried).

    >>> from batchsched import schedule
    >>> one = Resource(milli_cpu=1000)
    >>> crowded = Snapshot(
    ...     nodes=[NodeInfo(name=f"node-{i}", allocatable=3 * one) for i in range(9)],
    ...     queues=[Queue(name="research"), Queue(name="idle")],
    ...     jobs=[
    ...         JobInfo(name=f"job-{i}", queue="research", min_available=2, tasks=[
    ...             TaskInfo(uid=f"job-{i}-{k}", name="t", resreq=(k + 1) * one) for k in range(3)
    ...         ])
    ...         for i in range(20)
    ...     ],
    ... )
    >>> small = shrink(crowded, lambda s: len(schedule(s).pending) > 0, neutral=True)
    >>> len(small.nodes), [(job.name, len(job.tasks)) for job in small.jobs]
    (0, [('j1', 1)])

    """
    best: Snapshot | None = None
    for start in islice(_starts(snapshot, holds), _STARTS):
        search = _Search(start, holds)
        search.run()
        if best is None or _objects(search.best) < _objects(best):
            best = search.best
        if _objects(best) <= _SMALL:
            break
    if best is None:
        problem = "expected a snapshot for which `holds` is true, got one for which it is not"
        raise SnapshotError([Fault("snapshot", problem)])
    search = _Search(best, holds)
    if neutral:
        search.try_(lambda: neutral_names(search.best))
    return search.best


def _starts(snapshot: Snapshot, holds: Callable[[Snapshot], bool]) -> Iterator[Snapshot]:
    """Yield small parts of a large snapshot for which `holds` is true, or else the snapshot.

    Small parts are checked quickly, and usually many of them have the property.
    """
    found = False
    for part in filter(holds, small_parts(snapshot)):
        found = True
        yield part
    if not found and holds(snapshot):
        yield snapshot


def _objects(snapshot: Snapshot) -> int:
    tasks = sum(len(job.tasks) for job in snapshot.jobs) + len(snapshot.other_tasks)
    return len(snapshot.nodes) + len(snapshot.queues) + len(snapshot.jobs) + tasks


def _without_both(
    snapshot: Snapshot, one: tuple[str, Without], other: tuple[str, Without]
) -> Snapshot:
    for name, without in (one, other):
        snapshot = without(snapshot, frozenset([name]))
    return snapshot


_FEW = 32
"""With at most this many objects, pairs are removed too; with at most this many nodes, merged."""
_SMALL = 10
_STARTS = 4
"""The most parts of a large snapshot to start from, until a result is small."""


class _Search:
    def __init__(self, snapshot: Snapshot, holds: Callable[[Snapshot], bool]) -> None:
        self.best = snapshot
        """The smallest snapshot so far for which `holds` is true."""
        self._holds = holds

    def run(self) -> None:
        """Remove and simplify until nothing more can be removed."""
        before: Snapshot | None = None
        while before != self.best:
            before = self.best
            self.remove_objects()
            self.simplify()
            if before == self.best:
                self.remove_pairs()
        self.make_amounts_small()

    def try_(self, make: Callable[[], Snapshot]) -> bool:
        """Adopt what `make` returns if it is another valid snapshot for which `holds` is true."""
        try:
            candidate = make()
        except FaultsError:
            return False
        if candidate == self.best or not self._holds(candidate):
            return False
        self.best = candidate
        return True

    # Removing objects

    def remove_objects(self) -> None:
        """Remove as many nodes, jobs, queues and tasks as possible."""
        self._without(lambda: [node.name for node in self.best.nodes], without_nodes)
        self._without(lambda: [job.uid for job in self.best.jobs], without_jobs)
        self._without(lambda: [queue.name for queue in self.best.queues], without_queues)
        self._without(lambda: [queue.name for queue in self.best.queues], with_queues_joined)
        self._without(self._gangs, with_half_gangs)
        self._without(lambda: [task.uid for task in self.best.other_tasks], without_tasks)
        self._without(self._tasks_in_jobs, without_tasks)
        self._without(self._tasks_in_jobs, without_tasks_and_their_room)
        if len(self.best.nodes) <= _FEW:
            self._without(lambda: [node.name for node in self.best.nodes], with_nodes_joined)
        # Removing a node removes its tasks, so more nodes may be removable after the other steps.
        self._without(lambda: [node.name for node in self.best.nodes], without_nodes)

    def remove_pairs(self) -> None:
        """Remove two objects at once where neither can be removed alone, if few are left."""
        items = self._items()
        if len(items) <= _FEW:
            for one, other in combinations(items, 2):
                if one[0] != other[0] and self.try_(partial(_without_both, self.best, one, other)):
                    return

    def _items(self) -> list[tuple[str, Without]]:
        """Return all objects that are left, each with the function that removes it."""
        best = self.best
        items: list[tuple[str, Without]] = [(node.name, without_nodes) for node in best.nodes]
        items += [(queue.name, without_queues) for queue in best.queues]
        items += [(queue.name, with_queues_joined) for queue in best.queues]
        items += [(job.uid, without_jobs) for job in best.jobs]
        items += [(uid, without_tasks) for uid in self._tasks_in_jobs()]
        items += [(uid, without_tasks_and_their_room) for uid in self._tasks_in_jobs()]
        return items

    def _tasks_in_jobs(self) -> list[str]:
        return [task.uid for job in self.best.jobs for task in job.tasks]

    def _gangs(self) -> list[str]:
        return [job.uid for job in self.best.jobs if len(job.tasks) > 1]

    def _without(
        self,
        items: Callable[[], list[str]],
        without: Without,
    ) -> None:
        """Remove chunks of the items, halving the size of the chunks after each round."""
        chunk = len(items())
        while chunk:
            left = items()
            # Start from the last: other objects depend on later ones less often.
            for end in range(len(left), 0, -chunk):
                names = frozenset(left[max(0, end - chunk) : end])
                self.try_(partial(without, self.best, names))
            chunk //= 2

    # Simplifying

    def simplify(self) -> None:
        """Simplify the remaining objects, field by field."""
        for position in range(len(self.best.nodes)):
            self._simplify_part(position, _nodes_of, _with_node)
        for position in range(len(self.best.queues)):
            self._simplify_part(position, _queues_of, _with_queue)
        for position in range(len(self.best.jobs)):
            self._simplify_part(position, _jobs_of, _with_job)
            for at in range(len(self.best.jobs[position].tasks)):
                self._simplify_part(at, partial(_tasks_of, position), partial(_with_task, position))
        for position in range(len(self.best.other_tasks)):
            self._simplify_part(position, _others_of, _with_other)
        self.try_(lambda: evolve(self.best, now=0.0))

    def _simplify_part(
        self,
        position: int,
        parts: Callable[[Snapshot], Sequence[PartT]],
        changed: Callable[[Snapshot, int, PartT], Snapshot],
    ) -> None:
        for name, value in _simpler_values(parts(self.best)[position]):
            part = evolved(parts(self.best)[position], {name: value})
            self.try_(partial(changed, self.best, position, part))

    def make_amounts_small(self) -> None:
        """Remove whole dimensions, or divide all amounts of a dimension by the same number."""
        for dimension in sorted(dimensions_used(self.best), reverse=True):
            if self.try_(partial(with_dimension_divided, self.best, dimension, 0)):
                continue
            for divisor in (1 << 20, 1000, 1024, 10, 5, 3, 2):
                while self.try_(partial(with_dimension_divided, self.best, dimension, divisor)):
                    pass


def _simpler_values(part: AttrsInstance) -> Iterator[tuple[str, object]]:
    """Yield the fields of a part that differ from their defaults, with simpler values."""
    kind = type(part)
    attributes: tuple[Attribute[object], ...] = fields(kind)
    for attribute in attributes:
        if not attribute.init or attribute.name in _KEPT.get(kind, ()):
            continue
        value: object = getattr(part, attribute.name)
        default = _default(attribute)
        if value == default:
            continue
        if default is not NOTHING:
            yield attribute.name, default
        if isinstance(value, Resource):
            yield from ((attribute.name, simpler) for simpler in _simpler_amounts(value))
        elif isinstance(value, int) and not isinstance(value, bool):
            for simpler in (0, 1, value // 2, value - 1):
                if abs(simpler) < abs(value):
                    yield attribute.name, simpler
        elif isinstance(value, tuple) and len(cast("tuple[object, ...]", value)) > 1:
            items = cast("tuple[object, ...]", value)
            for position in range(len(items)):
                yield attribute.name, items[:position] + items[position + 1 :]


def _simpler_amounts(resource: Resource) -> Iterator[Resource]:
    """Yield the resource without each of its dimensions, and with half of each."""
    for dimension, amount in resource.dimensions():
        if amount:
            yield with_dimension(resource, dimension, 0)
            if amount > 1:
                yield with_dimension(resource, dimension, int(amount) // 2)


def _default(attribute: Attribute[object]) -> object:
    default: object = attribute.default
    if isinstance(default, Factory):  # type: ignore[arg-type]  # it is a class at run time
        return default.factory()  # type: ignore[attr-defined]
    return default


def _replaced(items: Sequence[ItemT], position: int, item: ItemT) -> tuple[ItemT, ...]:
    return (*items[:position], item, *items[position + 1 :])


def _nodes_of(snapshot: Snapshot) -> Sequence[NodeInfo]:
    return snapshot.nodes


def _tasks_of(job: int, snapshot: Snapshot) -> Sequence[TaskInfo]:
    return snapshot.jobs[job].tasks


def _queues_of(snapshot: Snapshot) -> Sequence[Queue]:
    return snapshot.queues


def _jobs_of(snapshot: Snapshot) -> Sequence[JobInfo]:
    return snapshot.jobs


def _others_of(snapshot: Snapshot) -> Sequence[TaskInfo]:
    return snapshot.other_tasks


def _with_node(snapshot: Snapshot, position: int, node: NodeInfo) -> Snapshot:
    return evolve(snapshot, nodes=_replaced(snapshot.nodes, position, node))


def _with_queue(snapshot: Snapshot, position: int, queue: Queue) -> Snapshot:
    return evolve(snapshot, queues=_replaced(snapshot.queues, position, queue))


def _with_job(snapshot: Snapshot, position: int, job: JobInfo) -> Snapshot:
    return evolve(snapshot, jobs=_replaced(snapshot.jobs, position, job))


def _with_task(job: int, snapshot: Snapshot, position: int, task: TaskInfo) -> Snapshot:
    info = snapshot.jobs[job]
    tasks = _replaced(info.tasks, position, task)
    return _with_job(snapshot, job, evolve(info, tasks=tasks))


def _with_other(snapshot: Snapshot, position: int, task: TaskInfo) -> Snapshot:
    return evolve(snapshot, other_tasks=_replaced(snapshot.other_tasks, position, task))


# Amounts
