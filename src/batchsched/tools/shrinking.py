"""The function `shrink`: reduce a large snapshot to a small one with the same property.

Delta debugging after Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input" (IEEE Transactions on Software Engineering 28(2), 2002), in the greedy form that tries
chunks of halving size; objects are removed together with what depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, islice
from math import inf
from typing import TypeVar, cast

from attrs import NOTHING, Attribute, AttrsInstance, Factory, evolve, fields, frozen, has

from batchsched.errors import ArgumentError, FaultsError, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import asked, checks_arguments
from batchsched.tools.amounts import (
    dimensions_used,
    evolved,
    with_dimension,
    with_dimension_divided,
)
from batchsched.tools.changes import counted

ItemT = TypeVar("ItemT")
PartT = TypeVar("PartT", bound=AttrsInstance)
Step = tuple[str, int]
"""A field of objects, and the position of one of them."""

Without = Callable[[Snapshot, frozenset[str]], Snapshot]
"""Removes named objects from a snapshot."""
_KEPT: dict[type, tuple[str, ...]] = {
    JobInfo: ("name", "namespace", "queue", "tasks", "uid"),
    TaskInfo: ("uid", "name", "namespace", "status", "node_name"),
    NodeInfo: ("name",),
    Queue: ("name", "parent"),
}
"""Fields that identify an object, or what it belongs to; they are not simplified."""
_FEW = 32
"""With at most this many objects, pairs are removed too; with at most this many nodes, merged."""
_SMALL = 10
_REMEMBERED = 64
"""At most so many objects has a snapshot whose answer is remembered."""
_LEAST_BUDGET = 2
_STARTS = 4
"""The most parts of a large snapshot to start from, until a result is small."""


@frozen(kw_only=True)
class Shrunk:
    """What `shrink` found: the smallest snapshot, and whether a smaller one was still looked for.

    >>> found = shrink(Snapshot(queues=[Queue(name=name) for name in "abc"]),
    ...                lambda s: len(s.queues) > 1)
    >>> print(found)
    2 queues, after 5 questions; nothing more can be left out
    """

    snapshot: Snapshot
    """The smallest snapshot found for which the property holds."""
    questions: int
    """How often the function was asked."""
    is_complete: bool
    """Whether everything was tried; false: the budget was spent before."""

    def __str__(self) -> str:
        sizes = (
            (len(self.snapshot.nodes), "node"),
            (len(self.snapshot.queues), "queue"),
            (len(self.snapshot.jobs), "job"),
            (sum(len(job.tasks) for job in self.snapshot.jobs), "task"),
            (len(self.snapshot.other_tasks), "other task"),
        )
        left = ", ".join(counted(number, thing) for number, thing in sizes if number)
        end = "nothing more can be left out"
        if not self.is_complete:
            end = "the budget was spent before everything was tried"
        return f"{left or 'nothing'}, after {counted(self.questions, 'question')}; {end}"


@checks_arguments()
def shrink(
    snapshot: Snapshot,
    holds: Callable[[Snapshot], bool],
    *,
    neutral: bool = False,
    budget: int | None = None,
) -> Shrunk:
    """Reduce a snapshot as far as `holds` stays true, for a bug report or a test.

    Nodes, queues, jobs and tasks are removed as long as `holds` is true without them, each with
    what depends on it: a node with its tasks, a queue with its jobs. Then the rest is simplified:
    constraints, priorities and times are dropped, and amounts become small. In the end no single
    object can be removed and, if few are left, no two. That need not be the smallest snapshot
    possible.

    O(objects left x log objects) calls of `holds`, most of them on small snapshots, and
    O(objects left^2) on the last ones: about a hundred for one that ends small, thousands for one
    that cannot become small. Nearly all the time is that of `holds`; give a slow one a `budget`.
    `python -m benchmarks.answers shrink` measures it on the findings of `check_config`.

    Args:
        snapshot: the snapshot to reduce.
        holds: whether a snapshot has the property of interest, such as a reason or a wrong
            decision. It gets only valid snapshots.
        neutral: whether to replace names with neutral ones in the end (``n1``, ``q1``, ``j1``,
            ``t1``, ``a1``), so that they reveal nothing. If `holds` is not true with neutral names,
            nothing is renamed.
        budget: how often `holds` is called at most, 2 or more; None: as often as it takes. If that
            is spent, the result is the smallest snapshot so far.

    Raises:
        ArgumentError: an argument has the wrong type, `budget` is too small, or `holds` raised.
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
    >>> found = shrink(crowded, lambda s: len(schedule(s).pending) > 0, neutral=True)
    >>> small = found.snapshot
    >>> len(small.nodes), [(job.name, len(job.tasks)) for job in small.jobs]
    (0, [('j1', 1)])

    """
    if budget is not None and budget < _LEAST_BUDGET:
        raise ArgumentError.at("budget", f"expected {_LEAST_BUDGET} or more, got {budget}")
    questions = _Questions(asked("holds", holds), budget, kept=int(neutral))
    best: Snapshot | None = None
    is_complete = True
    for start in islice(_starts(snapshot, questions), _STARTS):
        search = _Search(start, questions)
        is_complete = search.run()
        if best is None or _objects(search.best) < _objects(best):
            best = search.best
        if not is_complete or _objects(best) <= _SMALL:
            break
    if best is None:
        problem = "expected a snapshot for which `holds` is true, got one for which it is not"
        raise SnapshotError.at("snapshot", problem)
    search = _Search(best, questions)
    if neutral:
        questions.kept = 0
        search.try_(lambda: neutral_names(search.best))
    return Shrunk(snapshot=search.best, questions=questions.asked, is_complete=is_complete)


class _SpentError(Exception):
    """No more questions may be asked."""


class _Questions:
    """Asks whether a snapshot has the property, and counts."""

    def __init__(self, holds: Callable[[Snapshot], bool], most: int | None, *, kept: int) -> None:
        self._holds = holds
        self._most = most
        self._not = set[Snapshot]()
        """Small snapshots that do not have it: the rounds of a search try many again."""
        self.asked = 0
        self.kept = kept
        """How many questions are kept for the end: that about neutral names."""

    @property
    def left(self) -> float:
        """How many questions may still be asked now."""
        return inf if self._most is None else self._most - self.asked - self.kept

    def __call__(self, snapshot: Snapshot) -> bool:
        if self.left <= 0:
            raise _SpentError
        is_small = _objects(snapshot) <= _REMEMBERED
        if is_small and snapshot in self._not:
            return False
        self.asked += 1
        answer = self._holds(snapshot)
        if is_small and not answer:
            self._not.add(snapshot)
        return answer


def _starts(snapshot: Snapshot, holds: _Questions) -> Iterator[Snapshot]:
    """Yield small parts of a large snapshot for which `holds` is true, or else the snapshot.

    Small parts are checked quickly, and usually many of them have the property.
    """
    found = False
    for part in _small_parts(snapshot):
        if holds.left <= 1:
            break  # the last question is about the snapshot itself
        if holds(part):
            found = True
            yield part
    if not found and holds(snapshot):
        yield snapshot


def _objects(snapshot: Snapshot) -> int:
    tasks = sum(len(job.tasks) for job in snapshot.jobs) + len(snapshot.other_tasks)
    return len(snapshot.nodes) + len(snapshot.queues) + len(snapshot.jobs) + tasks


class _Search:
    def __init__(self, snapshot: Snapshot, holds: Callable[[Snapshot], bool]) -> None:
        self.best = snapshot
        """The smallest snapshot so far for which `holds` is true."""
        self._holds = holds

    def run(self) -> bool:
        """Remove and simplify until nothing more can be removed; return whether all was tried."""
        before: Snapshot | None = None
        try:
            while before != self.best:
                before = self.best
                self.remove_objects()
                # All amounts at once, before those of one object after the other.
                self.make_amounts_small()
                self.simplify()
                if before == self.best:
                    self.remove_pairs()
            self.make_amounts_small()
        except _SpentError:
            return False
        return True

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
        self._without(lambda: [node.name for node in self.best.nodes], _without_nodes)
        self._without(lambda: [job.uid for job in self.best.jobs], _without_jobs)
        self._without(lambda: [queue.name for queue in self.best.queues], _without_queues)
        self._without(lambda: [queue.name for queue in self.best.queues], _with_queues_joined)
        self._without(self._gangs, _with_half_gangs)
        self._without(lambda: [task.uid for task in self.best.other_tasks], _without_tasks)
        self._without(self._tasks_in_jobs, _without_tasks)
        self._without(self._tasks_in_jobs, _without_tasks_and_their_room)
        if len(self.best.nodes) <= _FEW:
            self._without(lambda: [node.name for node in self.best.nodes], _with_nodes_joined)
        # Removing a node removes its tasks, so more nodes may be removable after the other steps.
        self._without(lambda: [node.name for node in self.best.nodes], _without_nodes)

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
        items: list[tuple[str, Without]] = [(node.name, _without_nodes) for node in best.nodes]
        items += [(queue.name, _without_queues) for queue in best.queues]
        items += [(queue.name, _with_queues_joined) for queue in best.queues]
        items += [(job.uid, _without_jobs) for job in best.jobs]
        items += [(uid, _without_tasks) for uid in self._tasks_in_jobs()]
        items += [(uid, _without_tasks_and_their_room) for uid in self._tasks_in_jobs()]
        return items

    def _tasks_in_jobs(self) -> list[str]:
        return [task.uid for job in self.best.jobs for task in job.tasks]

    def _gangs(self) -> list[str]:
        return [job.uid for job in self.best.jobs if len(job.tasks) > 1]

    def _without(self, items: Callable[[], list[str]], without: Without) -> None:
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
            self._simplify_part(("nodes", position))
        for position in range(len(self.best.queues)):
            self._simplify_part(("queues", position))
        for position in range(len(self.best.jobs)):
            self._simplify_part(("jobs", position))
            for at in range(len(self.best.jobs[position].tasks)):
                self._simplify_part(("jobs", position), ("tasks", at))
        for position in range(len(self.best.other_tasks)):
            self._simplify_part(("other_tasks", position))
        self.try_(lambda: evolve(self.best, now=0.0))

    def _simplify_part(self, *path: Step) -> None:
        part: AttrsInstance = self.best
        for field, position in path:
            part = _items(part, field)[position]
        for name, value in _simpler_values(part):
            self.try_(partial(_with_value, self.best, path, name, value))

    def make_amounts_small(self) -> None:
        """Remove whole dimensions, or divide all amounts of a dimension by the same number."""
        for dimension in sorted(dimensions_used(self.best), reverse=True):
            if self.try_(partial(with_dimension_divided, self.best, dimension, 0)):
                continue
            for divisor in (1 << 20, 1000, 1024, 10, 5, 3, 2):
                while self.try_(partial(with_dimension_divided, self.best, dimension, divisor)):
                    pass


def _without_both(
    snapshot: Snapshot, one: tuple[str, Without], other: tuple[str, Without]
) -> Snapshot:
    for name, without in (one, other):
        snapshot = without(snapshot, frozenset([name]))
    return snapshot


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


def _items(owner: AttrsInstance, field: str) -> Sequence[AttrsInstance]:
    items: Sequence[AttrsInstance] = getattr(owner, field)
    return items


def _with_value(part: PartT, path: Sequence[Step], name: str, value: object) -> PartT:
    """Return an object in which the part at a path has another value in a field."""
    if not path:
        return evolved(part, {name: value})
    (field, position), *rest = path
    items = _items(part, field)
    changed = _with_value(items[position], rest, name, value)
    return evolved(part, {field: (*items[:position], changed, *items[position + 1 :])})


# Reductions: without objects, together with what depends on them

_PLACES = 3
"""The number of parts of each size: the first, one in the middle, and the last."""
_SIZES = (2, 8, 32, 128, 512)
_LARGE = 32
"""The number of nodes or jobs from which small parts of a snapshot are tried."""


def _small_parts(snapshot: Snapshot) -> Iterator[Snapshot]:
    """Yield small parts of a large snapshot, the smallest first; nothing for a small snapshot."""
    largest = max(len(snapshot.nodes), len(snapshot.jobs))
    for size in _SIZES:
        if largest < _LARGE or 2 * size >= largest:
            return
        for place in range(_PLACES):
            try:
                part = _part_of(snapshot, size, place)
            except FaultsError:
                continue
            yield part


def _part_of(snapshot: Snapshot, size: int, place: int) -> Snapshot:
    """Return a part: some nodes with their tasks, and some of the jobs that only wait."""
    gone = frozenset(node.name for node in snapshot.nodes) - {
        node.name for node in _slice(snapshot.nodes, size, place)
    }
    left = _without_nodes(snapshot, gone)
    waiting = [job for job in left.jobs if all(task.node_name is None for task in job.tasks)]
    kept = {job.uid for job in _slice(waiting, size, place)}
    dropped = {job.uid for job in waiting} - kept
    return _without_jobs(left, frozenset(dropped))


def _slice(items: Sequence[ItemT], size: int, place: int) -> Sequence[ItemT]:
    """Return `size` items: the first, those in the middle, or the last."""
    start = max(0, len(items) - size) * place // (_PLACES - 1)
    return items[start : start + size]


def _without_nodes(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Remove nodes, the tasks on them, and the jobs that are left without tasks."""

    def stays(task: TaskInfo) -> bool:
        return task.node_name not in names

    return evolve(
        snapshot,
        nodes=[node for node in snapshot.nodes if node.name not in names],
        jobs=_jobs_with(snapshot.jobs, stays),
        other_tasks=[task for task in snapshot.other_tasks if stays(task)],
    )


def _without_jobs(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Remove jobs."""
    return evolve(snapshot, jobs=[job for job in snapshot.jobs if job.uid not in uids])


def _without_queues(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Remove queues and their jobs."""
    return evolve(
        snapshot,
        queues=[queue for queue in snapshot.queues if queue.name not in names],
        jobs=[job for job in snapshot.jobs if job.queue not in names],
    )


def _with_queues_joined(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Remove queues, and move their jobs to the first queue that is left."""
    left = [queue for queue in snapshot.queues if queue.name not in names]
    if not left:
        return snapshot
    jobs = [evolve(job, queue=left[0].name) if job.queue in names else job for job in snapshot.jobs]
    return evolve(snapshot, queues=left, jobs=jobs)


def _with_nodes_joined(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Merge nodes into the first one that is left, with their resources and tasks."""
    left = [node for node in snapshot.nodes if node.name not in names]
    if not left:
        return snapshot
    gone = [node.allocatable for node in snapshot.nodes if node.name in names]
    first = evolve(left[0], allocatable=sum_resources([left[0].allocatable, *gone]))

    def moved(task: TaskInfo) -> TaskInfo:
        return evolve(task, node_name=first.name) if task.node_name in names else task

    return evolve(
        snapshot,
        nodes=[first, *left[1:]],
        jobs=[evolve(job, tasks=map(moved, job.tasks)) for job in snapshot.jobs],
        other_tasks=map(moved, snapshot.other_tasks),
    )


def _without_tasks_and_their_room(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Remove tasks, and what they hold from the resources of their nodes."""
    tasks = [*snapshot.other_tasks, *(task for job in snapshot.jobs for task in job.tasks)]
    held: dict[str | None, list[Resource]] = {}
    for task in tasks:
        if task.uid in uids and task.status.holds:
            held.setdefault(task.node_name, []).append(task.resreq)

    def shrunk(node: NodeInfo) -> NodeInfo:
        if node.name not in held:
            return node
        gone = sum_resources(held[node.name])
        room = node.allocatable
        return evolve(node, allocatable=room.max_with(gone) - gone)

    left = _without_tasks(snapshot, uids)
    return evolve(left, nodes=[shrunk(node) for node in left.nodes])


def _without_tasks(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Remove tasks, and the jobs that are left without tasks."""

    def stays(task: TaskInfo) -> bool:
        return task.uid not in uids

    return evolve(
        snapshot,
        jobs=_jobs_with(snapshot.jobs, stays),
        other_tasks=[task for task in snapshot.other_tasks if stays(task)],
    )


def _with_half_gangs(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Halve the tasks and the `min_available` of jobs."""
    jobs: list[JobInfo] = []
    for job in snapshot.jobs:
        if job.uid in uids:
            tasks = job.tasks[: (len(job.tasks) + 1) // 2]
            jobs.append(evolve(job, tasks=tasks, min_available=(job.min_available + 1) // 2))
        else:
            jobs.append(job)
    return evolve(snapshot, jobs=jobs)


def _jobs_with(jobs: Iterable[JobInfo], stays: Callable[[TaskInfo], bool]) -> list[JobInfo]:
    """Keep the tasks that stay, and lower `min_available` to their number if necessary."""
    changed: list[JobInfo] = []
    for job in jobs:
        tasks = [task for task in job.tasks if stays(task)]
        if len(tasks) == len(job.tasks):
            changed.append(job)
        elif tasks:
            could = job.min_available > len(job.tasks)
            least = job.min_available if could else min(job.min_available, len(tasks))
            changed.append(evolve(job, tasks=tasks, min_available=least))
    return changed


# Neutral names

_WELL_KNOWN = ("kubernetes.io/", "k8s.io/", "nvidia.com/", "amd.com/", "intel.com/")
_ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - it is compared with
_PLAIN_KEYS = ("Ready", "metadata.name")


def neutral_names(snapshot: Snapshot) -> Snapshot:
    """Replace the names of a snapshot with neutral ones in the same order: ``n1``, ``q1``, ``j1``.

    Nodes, queues, jobs, tasks, namespaces, labels and scalars are renamed wherever they are
    referenced. Well-known keys, such as those of Kubernetes, are kept.

    >>> from batchsched import JobInfo, Queue
    >>> plan = JobInfo(name="secret-plan", namespace="board", queue="mergers")
    >>> neutral = neutral_names(Snapshot(queues=[Queue(name="mergers")], jobs=[plan]))
    >>> neutral.queues[0].name, neutral.jobs[0].uid
    ('q1', 's1/j1')
    """
    names = {
        "node": _numbered("n", {node.name for node in snapshot.nodes} | _node_names(snapshot)),
        "queue": _numbered(
            "q", {q.name for q in snapshot.queues} | {job.queue for job in snapshot.jobs}
        ),
        "namespace": _numbered(
            "s",
            {job.namespace for job in snapshot.jobs}
            | {task.namespace for job in snapshot.jobs for task in job.tasks}
            | {task.namespace for task in snapshot.other_tasks},
            stays=("kube-system", "default"),
        ),
        "job": _numbered("j", {job.name for job in snapshot.jobs}),
        "task": _numbered(
            "t",
            {task.uid for job in snapshot.jobs for task in job.tasks}
            | {task.uid for task in snapshot.other_tasks},
        ),
    }
    names["group"] = _numbered("g", {group.name for job in snapshot.jobs for group in job.groups})
    # Dependencies refer to jobs by UID.
    names["job uid"] = {
        job.uid: f"{names['namespace'][job.namespace]}/{names['job'][job.name]}"
        for job in snapshot.jobs
    }
    words = _Words(names)
    return cast("Snapshot", words.renamed(snapshot))


def _node_names(snapshot: Snapshot) -> set[str]:
    tasks = [*snapshot.other_tasks, *(task for job in snapshot.jobs for task in job.tasks)]
    return {task.node_name for task in tasks if task.node_name is not None}


def _numbered(letter: str, names: set[str], stays: tuple[str, ...] = ()) -> dict[str, str]:
    """Number names in their sorted order, because the order may break ties."""
    width = len(str(len(names)))
    return {
        name: name if name in stays else f"{letter}{number:0{width}}"
        for number, name in enumerate(sorted(names), 1)
    }


class _Words:
    """Renames all strings of a value, depending on the field that holds them."""

    def __init__(self, names: Mapping[str, Mapping[str, str]]) -> None:
        self._names = names
        self._words: dict[str, str] = {}

    def renamed(self, value: object, field: str = "", kind: str = "") -> object:
        if isinstance(value, str):
            return self._text(value, field, kind)
        if isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            return tuple(self.renamed(item, field, kind) for item in items)
        if isinstance(value, Mapping):
            content = cast("Mapping[str, object]", value)
            if (kind, field) == ("Plan", "nodes"):
                tasks, nodes = self._names["task"], self._names["node"]
                places = cast("Mapping[str, str]", value)
                return {
                    tasks.get(uid, self._word(uid)): nodes.get(node, self._word(node))
                    for uid, node in places.items()
                }
            return {
                self._word(key): self._word(item) if isinstance(item, str) else item
                for key, item in content.items()
                if field != "conditions"
            } or dict(content)
        if has(type(value)):
            return self._part(cast("AttrsInstance", value))
        return value

    def _part(self, part: PartT) -> PartT:
        attributes: tuple[Attribute[object], ...] = fields(type(part))
        kind = type(part).__name__
        changes: dict[str, object] = {}
        for attribute in attributes:
            if attribute.init:
                value: object = getattr(part, attribute.name)
                changes[attribute.name] = self.renamed(value, attribute.name, kind)
        if kind == "TaskInfo":
            changes["name"] = changes["uid"]
        return evolve(part, **changes)  # type: ignore[misc]  # every part is of an attrs class

    def _text(self, text: str, field: str, kind: str) -> str:
        if (kind, field) in (("NodeInfo", "name"), ("TaskInfo", "node_name")):
            return self._names["node"].get(text, text)
        if (kind, field) in (("Queue", "name"), ("Queue", "parent"), ("JobInfo", "queue")):
            return self._names["queue"].get(text, text)
        if (kind, field) == ("JobInfo", "name"):
            return self._names["job"].get(text, text)
        if (kind, field) == ("TaskInfo", "uid"):
            return self._names["task"].get(text, text)
        if (kind, field) in (("TaskGroup", "name"), ("TaskGroup", "parent"), ("TaskInfo", "group")):
            return self._names["group"].get(text, text)
        if (kind, field) == ("Dependency", "job"):
            return self._names["job uid"].get(text, self._word(text))
        if field in ("user", "priority_class_name") and not text.startswith("system-"):
            return self._word(text)
        if (kind, field) == ("HostPort", "address") and text not in _ANY_ADDRESS:
            return self._word(text)
        if field in ("namespace", "namespaces"):
            return self._names["namespace"].get(text, self._word(text))
        if field in ("key", "values", "topology_key", "value") and text:
            return self._names["node"].get(text, self._word(text))
        return text

    def _word(self, text: str) -> str:
        if text in _PLAIN_KEYS or any(part in text for part in _WELL_KNOWN):
            return text
        if not text or text.lstrip("-").isdigit():
            return text  # numbers may be compared
        if text not in self._words:
            self._words[text] = f"a{len(self._words) + 1}"
        return self._words[text]
