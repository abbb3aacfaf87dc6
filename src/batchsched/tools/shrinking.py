"""The function `shrink`: reduce a large snapshot to a small one with the same property.

Delta debugging after Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input" (IEEE Transactions on Software Engineering 28(2), 2002), in the greedy form that tries
chunks of halving size; objects are removed together with what depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TypeVar, cast

from attrs import NOTHING, Attribute, AttrsInstance, Factory, define, evolve, fields, frozen, has

from batchsched.errors import ArgumentError, FaultsError, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted
from batchsched.model.validation.arguments import asked, checks_arguments
from batchsched.tools.amounts import (
    dimensions_used,
    evolved,
    with_dimension,
    with_dimension_divided,
)

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
_FIRST = (2, 8, 32)
"""Of more, it is tried first whether so many are enough."""
_REMEMBERED = 64
"""At most so many objects has a snapshot whose answer is remembered."""
_LEAST_BUDGET = 2


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
        SnapshotError: `holds` is not true for `snapshot`.

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
    # One question is kept for the end: that about neutral names.
    most = None if budget is None else budget - neutral
    search = _Search(asked("holds", holds), snapshot, most)
    is_complete = search.run()
    if neutral:
        search.most = budget
        search.try_(lambda: neutral_names(search.best))
    return Shrunk(snapshot=search.best, questions=search.asked, is_complete=is_complete)


class _SpentError(Exception):
    """No more questions may be asked."""


@define
class _Search:
    """Looks for smaller snapshots that have a property, and counts how often it asks."""

    holds: Callable[[Snapshot], bool]
    best: Snapshot
    """The smallest snapshot so far that has the property."""
    most: int | None
    """How often it may ask; None: as often as it takes."""
    asked: int = 0
    _refuted: set[Snapshot] = Factory(set[Snapshot])
    """Small snapshots that do not have it: the rounds of a search try many again."""

    def has_it(self, snapshot: Snapshot) -> bool:
        """Ask whether a snapshot has the property."""
        if self.asked == self.most:
            raise _SpentError
        is_small = _objects(snapshot) <= _REMEMBERED
        if is_small and snapshot in self._refuted:
            return False
        self.asked += 1
        answer = self.holds(snapshot)
        if is_small and not answer:
            self._refuted.add(snapshot)
        return answer

    def run(self) -> bool:
        """Remove and simplify until nothing more can be removed; return whether all was tried."""
        if not self.has_it(self.best):
            problem = "expected a snapshot for which `holds` is true, got one for which it is not"
            raise SnapshotError.at("snapshot", problem)
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
        """Adopt what `make` returns if it is another valid snapshot that has the property."""
        try:
            candidate = make()
        except FaultsError:
            return False
        if candidate == self.best or not self.has_it(candidate):
            return False
        self.best = candidate
        return True

    # Removing objects

    def remove_objects(self) -> None:
        """Remove as many nodes, jobs, queues and tasks as possible."""
        for names_of, without in _REMOVALS:
            self._without(names_of, without)
        if len(self.best.nodes) <= _FEW:
            self._without(_nodes, _with_nodes_joined)
        # Removing a node removes its tasks, so more nodes may be removable after the other steps.
        self._without(_nodes, _without_nodes)

    def remove_pairs(self) -> None:
        """Remove two objects at once where neither can be removed alone, if few are left."""
        items = [(name, without) for names, without in _REMOVALS for name in names(self.best)]
        for pair in combinations(items if len(items) <= _FEW else (), 2):
            if pair[0][0] != pair[1][0] and self.try_(partial(_without_all, self.best, pair)):
                return

    def _without(self, names_of: Callable[[Snapshot], list[str]], without: Without) -> None:
        """Remove chunks of the items, halving the size of the chunks after each round.

        Of many, all but the first few come before: then nearly all questions are about little.
        """
        left = names_of(self.best)
        for few in _FIRST if len(left) > _FEW else ():
            if self.try_(partial(without, self.best, frozenset(left[few:]))):
                break
        chunk = len(names_of(self.best))
        while chunk:
            left = names_of(self.best)
            # Start from the last: other objects depend on later ones less often.
            for end in range(len(left), 0, -chunk):
                names = frozenset(left[max(0, end - chunk) : end])
                self.try_(partial(without, self.best, names))
            chunk //= 2

    # Simplifying

    def simplify(self) -> None:
        """Simplify the remaining objects, field by field."""
        for field in ("nodes", "queues", "jobs", "other_tasks"):
            for position in range(len(_items(self.best, field))):
                self._simplify_part((field, position))
                for at in range(len(self.best.jobs[position].tasks) if field == "jobs" else 0):
                    self._simplify_part((field, position), ("tasks", at))
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


def _without_all(snapshot: Snapshot, items: Iterable[tuple[str, Without]]) -> Snapshot:
    for name, without in items:
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


def _with_tasks(
    snapshot: Snapshot,
    change: Callable[[TaskInfo], TaskInfo | None],
    nodes: Sequence[NodeInfo] | None = None,
) -> Snapshot:
    """Change tasks, or remove them (None), and the jobs that are left without tasks.

    `min_available` becomes the number of tasks that are left, if that is less.
    """
    jobs: list[JobInfo] = []
    for job in snapshot.jobs:
        tasks = [new for new in map(change, job.tasks) if new is not None]
        could = job.min_available > len(job.tasks)
        least = job.min_available if could else min(job.min_available, len(tasks))
        if tasks or not job.tasks:
            jobs.append(evolve(job, tasks=tasks, min_available=least))
    others = [new for new in map(change, snapshot.other_tasks) if new is not None]
    nodes = snapshot.nodes if nodes is None else nodes
    return evolve(snapshot, nodes=nodes, jobs=jobs, other_tasks=others)


def _without_nodes(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Remove nodes, the tasks on them, and the jobs that are left without tasks."""
    left = [node for node in snapshot.nodes if node.name not in names]
    return _with_tasks(snapshot, lambda t: None if t.node_name in names else t, left)


def _without_jobs(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
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

    return _with_tasks(snapshot, moved, [first, *left[1:]])


def _without_tasks(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Remove tasks, and the jobs that are left without tasks."""
    return _with_tasks(snapshot, lambda task: None if task.uid in uids else task)


def _without_tasks_and_their_room(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Remove tasks, and what they hold from the resources of their nodes."""
    held: dict[str | None, list[Resource]] = {}
    for task in _all_tasks(snapshot):
        if task.uid in uids and task.status.holds:
            held.setdefault(task.node_name, []).append(task.resreq)

    def shrunk(node: NodeInfo) -> NodeInfo:
        gone = sum_resources(held.get(node.name, ()))
        return evolve(node, allocatable=node.allocatable.max_with(gone) - gone)

    left = _without_tasks(snapshot, uids)
    return evolve(left, nodes=[shrunk(n) if n.name in held else n for n in left.nodes])


def _with_half_gangs(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Halve the tasks and the `min_available` of jobs."""

    def halved(job: JobInfo) -> JobInfo:
        tasks = job.tasks[: (len(job.tasks) + 1) // 2]
        return evolve(job, tasks=tasks, min_available=(job.min_available + 1) // 2)

    return evolve(snapshot, jobs=[halved(j) if j.uid in uids else j for j in snapshot.jobs])


def _all_tasks(snapshot: Snapshot) -> list[TaskInfo]:
    return [*snapshot.other_tasks, *(task for job in snapshot.jobs for task in job.tasks)]


def _objects(snapshot: Snapshot) -> int:
    jobs = len(snapshot.jobs) + sum(len(job.tasks) for job in snapshot.jobs)
    return len(snapshot.nodes) + len(snapshot.queues) + jobs + len(snapshot.other_tasks)


def _nodes(snapshot: Snapshot) -> list[str]:
    return [node.name for node in snapshot.nodes]


def _queues(snapshot: Snapshot) -> list[str]:
    return [queue.name for queue in snapshot.queues]


_REMOVALS: tuple[tuple[Callable[[Snapshot], list[str]], Without], ...] = (
    (_nodes, _without_nodes),
    (lambda s: [job.uid for job in s.jobs], _without_jobs),
    (_queues, _without_queues),
    (_queues, _with_queues_joined),
    (lambda s: [job.uid for job in s.jobs if len(job.tasks) > 1], _with_half_gangs),
    (lambda s: [task.uid for task in _all_tasks(s)], _without_tasks),
    (lambda s: [task.uid for task in _all_tasks(s)], _without_tasks_and_their_room),
)
"""What is removed, in this order, and how."""


# Neutral names

_KEPT_PARTS = ("kubernetes.io/", "k8s.io/", "nvidia.com/", "amd.com/", "intel.com/", "system-")
"""Keys and classes with these in them are kept."""
_KEPT_WORDS = ("", "Ready", "metadata.name", "0.0.0.0", "::")  # noqa: S104 - any address


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
    tasks, jobs = _all_tasks(snapshot), snapshot.jobs
    spaces = {job.namespace for job in jobs} | {task.namespace for task in tasks}
    on_nodes = {task.node_name for task in tasks if task.node_name is not None}
    names = {
        "node": _numbered("n", {*_nodes(snapshot)} | on_nodes),
        "queue": _numbered("q", {*_queues(snapshot)} | {job.queue for job in jobs}),
        "namespace": _numbered("s", spaces, stays=("kube-system", "default")),
        "job": _numbered("j", {job.name for job in jobs}),
        "task": _numbered("t", {task.uid for task in tasks}),
        "group": _numbered("g", {group.name for job in jobs for group in job.groups}),
    }
    # Dependencies refer to jobs by UID.
    names["job uid"] = {
        job.uid: f"{names['namespace'][job.namespace]}/{names['job'][job.name]}" for job in jobs
    }
    words = _Renaming(names)
    return cast("Snapshot", words.renamed(snapshot))


def _numbered(letter: str, names: set[str], stays: tuple[str, ...] = ()) -> dict[str, str]:
    """Number names in their sorted order, because the order may break ties."""
    width = len(str(len(names)))
    return {
        name: name if name in stays else f"{letter}{number:0{width}}"
        for number, name in enumerate(sorted(names), 1)
    }


_NAMED = {
    ("NodeInfo", "name"): "node",
    ("TaskInfo", "node_name"): "node",
    ("Queue", "name"): "queue",
    ("Queue", "parent"): "queue",
    ("JobInfo", "queue"): "queue",
    ("JobInfo", "name"): "job",
    ("Dependency", "job"): "job uid",
    ("TaskInfo", "uid"): "task",
    ("TaskGroup", "name"): "group",
    ("TaskGroup", "parent"): "group",
    ("TaskInfo", "group"): "group",
    ("HostPort", "address"): "",
    **{("", field): "node" for field in ("key", "values", "topology_key", "value")},
    **{("", field): "namespace" for field in ("namespace", "namespaces")},
    **{("", field): "" for field in ("user", "priority_class_name")},
}
"""The fields that have names, by class (empty: of all classes), and of what they are."""
_NAMED_IN_MAPPINGS = {("Plan", "nodes"): ("task", "node")}
"""Those that map names to names."""


class _Renaming:
    """Renames all strings of a value, depending on the field that holds them."""

    def __init__(self, names: Mapping[str, Mapping[str, str]]) -> None:
        self._names = names
        self._words: dict[str, str] = {}

    def renamed(self, value: object, field: str = "", kind: str = "") -> object:
        if isinstance(value, str):
            named = _NAMED.get((kind, field), _NAMED.get(("", field)))
            return value if named is None else self._text(value, named)
        if isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            return tuple(self.renamed(item, field, kind) for item in items)
        if isinstance(value, Mapping):
            content = cast("Mapping[str, object]", value)
            if field == "conditions":
                return dict(content)
            of_key, of_value = _NAMED_IN_MAPPINGS.get((kind, field), ("", ""))
            return {
                self._text(key, of_key): self._text(item, of_value)
                if isinstance(item, str)
                else item
                for key, item in content.items()
            }
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

    def _text(self, text: str, named: str) -> str:
        return self._names.get(named, {}).get(text) or self._word(text)

    def _word(self, text: str) -> str:
        if text in _KEPT_WORDS or any(part in text for part in _KEPT_PARTS):
            return text
        if text.lstrip("-").isdigit():
            return text  # numbers may be compared
        if text not in self._words:
            self._words[text] = f"a{len(self._words) + 1}"
        return self._words[text]
