"""One pass: which jobs of a small plain cluster start now, found without a session.

With the default tiers and actions, a cycle of a plain cluster is short work: each queue offers its
next job, the queue that comes first by its share gets the turn, and the job starts if all of its
tasks find nodes. So the books of the pass have amounts alone, of queues, nodes and jobs, and follow
the content; of the result they make the binds, and the rest is made when it is read.

*Plain* are queues side by side that share by weight, nodes in service without taints or devices,
and jobs whose tasks are alike, start together, and ask for nothing but amounts. While anything else
is there, and for reasons, the library itself decides: that is the definition of this pass.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from math import inf
from operator import add, attrgetter, le, sub

from attrs import define, field

from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.immutable import LaterMap
from batchsched.model.result import Bind, CycleResult, LaterQueueOutcomes, TaskOutcome
from batchsched.model.rules import out_of_service
from batchsched.model.snapshot import OF_DEVICES
from batchsched.plugins.capacity.accounts import DIVISIBLE, WHOLE, fill, fullness
from batchsched.plugins.nodeorder import NodeOrderPlugin, requested_scores
from batchsched.state.records import SortKey
from batchsched.state.vectors import Dimensions, Vector, total_of
from batchsched.transition.content import Content, ContentVersion

MOST_NODES = 256
"""On more nodes it is not used: all are looked at for each task that starts."""
MOST_CHANGES, MOST_KINDS = 50_000, 1_000
"""After so many changes of nodes, or kinds of tasks, the books are made anew."""

# What has the same in these fields as a usual one is plain.
_of_queue = attrgetter("parent", "guarantee", "deserved", "limit", "state")
_of_node = attrgetter("taints", "devices", "counter_sets", "closed_pools")
_of_job = attrgetter(
    *("groups", "max_available", "depends_on", "plan", "holds", "topology", "quota_reserved")
)
_of_task = attrgetter(
    *("init_resreq", "is_backfill", "node_selector", "node_affinity", "host_ports"),
    *("pod_affinity", "pod_anti_affinity", "group", "holds", "claims", "devices", "choices"),
)
_USUAL_QUEUE, _USUAL_NODE = _of_queue(Queue(name="")), _of_node(NodeInfo(name=""))
_USUAL_JOB, _USUAL_TASK = _of_job(JobInfo(name="", queue="")), _of_task(TaskInfo(uid="", name=""))
_holdings = attrgetter("on", "kind", "queue", "size")
_PENDING, _SUCCEEDED = TaskStatus.PENDING, TaskStatus.SUCCEEDED
_HOLDING = (TaskStatus.RUNNING, TaskStatus.BOUND)
_WEIGHTS, _NOWHERE = NodeOrderPlugin(), -1


@define(eq=False)
class _Kind:
    """Tasks that are alike to all nodes."""

    asked: tuple[object, ...]
    request: Vector
    scoring_milli_cpu: int
    scoring_memory: int
    scores: list[float] = field(init=False, factory=list[float])
    """The scores of nodes, `_NOWHERE` where it does not fit. Empty: none is known yet."""
    read: int = 0
    """How many of the changes of nodes are in these."""


@define(eq=False)
class _Node:
    """A node in the books, with room for so many more tasks."""

    name: str
    outcome: TaskOutcome
    """That of a task that starts here."""
    allocatable: Vector
    idle: Vector
    room: float
    scoring_milli_cpu: int = 0
    scoring_memory: int = 0

    def takes(self, request: Vector) -> float:
        """Return how many tasks with this request fit here. O(dimensions)."""
        pairs = zip(request, self.idle, strict=True)
        return min([self.room, *[there // wanted for wanted, there in pairs if wanted]])


@define(eq=False)
class _Job:
    """A job in the books; nodes and queues are known by their positions."""

    queue: int
    kind: _Kind
    size: int
    """How many tasks wait or run."""
    place: tuple[int, float, str]
    """Its place in job order, which ends with its UID."""
    waiting: Sequence[TaskInfo]
    """Its tasks in task order, if it waits."""
    request: Vector
    """What these request together."""
    on: list[int]
    """The nodes of those that run, or start in the last pass."""


class OnePass:
    """The cycles of a cluster, while it is small and plain."""

    def __init__(self, content: Content) -> None:
        """Begin without books: they are made when they are needed first."""
        self._content = content
        self._version: ContentVersion | None = None
        """The content of the last pass."""
        self._books: _Books | None = None
        """None: other than the jobs, something is not plain."""
        self._result: CycleResult | None = None
        self.changes = 0
        """How many entries of the content have changed since this was last set to 0."""

    @property
    def known(self) -> CycleResult | None:
        """What was decided on the present content, if it was by a pass."""
        return self._result if self._version is self._content.version else None

    def schedule(
        self,
        outcomes: Callable[[Mapping[str, TaskOutcome]], Mapping[str, TaskOutcome]],
        whole: Callable[[], CycleResult],
    ) -> CycleResult | None:
        """Return what a cycle decides, without reasons; None: the library has to decide.

        O(changes since the last pass + waiting jobs x log queues), and O(nodes) for each task that
        starts and each size of jobs that do not. `outcomes` adds all others to the outcomes of
        tasks that start; `whole` returns what the library decides, whenever it is asked.
        """
        if self._follow() and self._result is not None:
            return self._result
        books, tasks = self._books, self._content.tasks
        if books is None or not books.are_plain() or self._content.others:
            self._result = None
            return None
        on = books.turns()
        names = [(uid, tasks[uid].display_name) for uid in on]
        self._result = CycleResult(
            binds=tuple([Bind(task_uid=uid, node_name=node.name) for uid, node in on.items()]),
            tasks=outcomes({uid: node.outcome for uid, node in on.items()}),
            jobs=LaterMap(lambda: whole().jobs),
            queues=LaterQueueOutcomes(lambda: whole().queues),
            names={uid: name for uid, name in names if name != uid},
        )
        return self._result

    def _follow(self) -> bool:
        """Bring the books up to date; return whether nothing has changed but the time."""
        content, version, books = self._content, self._version, self._books
        is_new = version is None or (books is not None and books.are_long())
        touched: dict[str, None] = {}
        while version is not None:
            self.changes += len(version.before)
            for table, key in version.before:
                if table == "tasks":
                    touched[content.owner.get(key) or key] = None
                elif table in {"jobs", "members"}:
                    touched[key] = None
                elif table not in {"owner", "now"} and (table != "besides" or key in _NONE_OF):
                    is_new = True
            version = version.next
        self._version = content.version
        if is_new:
            self._books = _Books(content) if _is_plain(content) else None
        elif books is not None and touched:
            books.enter({**touched, **dict.fromkeys(books.started)})
        return not touched and not is_new


_NONE_OF = ("topologies", *OF_DEVICES)
"""What a plain cluster has none of, besides what its nodes, queues and jobs say."""


def _is_plain(content: Content) -> bool:
    """Return whether all but the jobs is plain. O(nodes + queues)."""
    nodes, queues = content.nodes.values(), content.queues.values()
    has_common = any(content.besides[name] for name in _NONE_OF)
    are_usual = [_of_queue(queue) == _USUAL_QUEUE for queue in queues]
    are_usual += [_of_node(node) == _USUAL_NODE and not out_of_service(node) for node in nodes]
    return len(nodes) <= MOST_NODES and not has_common and all(are_usual)


class _Books:
    """What queues, nodes and jobs hold and wait for."""

    def __init__(self, content: Content) -> None:
        """Enter all that is there. O(content)."""
        self._content = content
        infos: Sequence[NodeInfo] = content.in_order("nodes")
        dimensions = self._dimensions = Dimensions([info.allocatable for info in infos], ())
        has = [dimensions.vector(info.allocatable) for info in infos]
        room = [inf if info.max_tasks is None else info.max_tasks for info in infos]
        names = [info.name for info in infos]
        on = [TaskOutcome(status=TaskStatus.BINDING, node_name=name) for name in names]
        self._nodes = [*map(_Node, names, on, has, has, room)]
        self._position = {name: position for position, name in enumerate(names)}
        self._total = total_of(has, dimensions.zero)
        self._units = [1 if name in DIVISIBLE else WHOLE for name in dimensions.names]
        queues = sorted(content.queues.values(), key=attrgetter("creation_time", "name"))
        queues.sort(key=attrgetter("priority"), reverse=True)
        self._queues = {queue.name: position for position, queue in enumerate(queues)}
        self._priorities = [queue.priority for queue in queues]
        by_priority = groupby(queues, key=attrgetter("priority"))
        self._weights = [[queue.weight for queue in equals] for _, equals in by_priority]
        """The weights of queues by priority: those of the first are served before all others."""
        self._held = [[0] * len(self._total) for _ in queues]
        """What queues hold, by position, then by dimension."""
        self._wanted = [[0] * len(queues) for _ in self._total]
        """What they hold and wait for, by dimension, then by position."""
        self._waiting = [list[tuple[tuple[int, float, str], _Job]]() for _ in queues]
        """Their jobs that wait, in job order."""
        self._jobs: dict[str, _Job] = {}
        self._kinds: dict[tuple[object, ...], _Kind] = {}
        self._changed: list[int] = []
        """The nodes that have changed, in order."""
        self._overfull: set[int] = set()
        """The nodes that hold more than they have."""
        self._foreign: set[str] = set()
        """The UIDs of jobs that are not plain."""
        self.started: list[str] = []
        """The UIDs of jobs that start in the last pass."""
        self.enter(content.jobs)

    def are_plain(self) -> bool:
        """Return whether all jobs are plain, and no node holds more than it has."""
        return not self._foreign and not self._overfull

    def are_long(self) -> bool:
        """Return whether they have so many changes or kinds that they are better made anew."""
        return len(self._changed) > MOST_CHANGES or len(self._kinds) > MOST_KINDS

    def enter(self, uids: Iterable[str]) -> None:
        """Enter jobs as they are now, those that are there, in place of what they were."""
        self.started.clear()
        for uid in uids:
            info, old = self._content.jobs.get(uid), self._jobs.pop(uid, None)
            job = None if info is None else self._read(info, old)
            self._foreign.discard(uid)
            if old is not None and old.waiting:
                del self._waiting[old.queue][bisect_left(self._waiting[old.queue], (old.place,))]
            if job is not None:
                self._jobs[uid] = job
                if job.waiting:
                    insort(self._waiting[job.queue], (job.place, job))
            elif info is not None:
                self._foreign.add(uid)
            # Most have started as was decided: then what they hold is counted already.
            if old is None or job is None or _holdings(old) != _holdings(job):
                for each, sign in ((old, -1), (job, 1)):
                    if each is not None:
                        self._count(each, sign)

    def _read(self, info: JobInfo, old: _Job | None) -> _Job | None:
        """Return a job as it is now; None: it is not plain. `old`: as it was read last."""
        members, queue = self._content.members[info.uid], self._queues.get(info.queue)
        count, least, waiting = len(members), info.min_available, 0
        if not members or least > count or queue is None or _of_job(info) != _USUAL_JOB:
            return None
        tasks = [*map(self._content.tasks.__getitem__, members)]
        asked = tasks[0].resreq, tasks[0].scoring_request
        on: list[int] = []
        for task in tasks:  # tuples look first whether their items are the same objects
            if (task.resreq, task.scoring_request) != asked or _of_task(task) != _USUAL_TASK:
                return None
            if task.status is _PENDING:
                waiting += 1
            elif task.status in _HOLDING and task.node_name in self._position:
                on.append(self._position[task.node_name])
            elif task.status is not _SUCCEEDED:
                return None
        known = old.kind if old and old.kind.asked == asked else self._kinds.get(asked)
        kind = known or self._kind_of(tasks[0], asked)
        if kind is None or (waiting and not waiting == least == count):
            return None
        place, request = (-info.priority, info.creation_time, info.uid), kind.request
        if waiting > 1:
            tasks.sort(key=attrgetter("creation_time", "uid"))
            tasks.sort(key=attrgetter("priority"), reverse=True)
            request = tuple([amount * waiting for amount in request])
        return _Job(queue, kind, waiting or len(on), place, tasks if waiting else (), request, on)

    def _kind_of(self, task: TaskInfo, asked: tuple[object, ...]) -> _Kind | None:
        """Return a new kind for a task; None: it requests nothing, or what no node has."""
        has, resreq, scoring = self._dimensions.names, task.resreq, task.counts_in_scores()
        if any(name not in has for name in resreq.scalars) or task.is_best_effort:
            return None
        request = self._dimensions.vector(resreq)
        kind = self._kinds[asked] = _Kind(asked, request, scoring.milli_cpu, scoring.memory)
        return kind

    def _count(self, job: _Job, sign: int) -> None:
        """Count what a job holds and waits for (sign 1), or take it off (-1)."""
        for position in job.on:
            self._put(position, job.kind, sign)
        held, on, size = self._held[job.queue], sign * len(job.on), sign * job.size
        for dimension, amount in enumerate(job.kind.request):
            held[dimension] += on * amount
            self._wanted[dimension][job.queue] += size * amount

    def _put(self, position: int, kind: _Kind, sign: int) -> None:
        """Put a task of a kind on a node (sign 1), or take it off (-1)."""
        node = self._nodes[position]
        node.idle = tuple(map(sub if sign > 0 else add, node.idle, kind.request))
        node.room -= sign
        node.scoring_milli_cpu += sign * kind.scoring_milli_cpu
        node.scoring_memory += sign * kind.scoring_memory
        self._changed.append(position)
        (self._overfull.add if min(node.idle) < 0 else self._overfull.discard)(position)

    def turns(self) -> dict[str, _Node]:
        """Give turns to all jobs that wait; return the nodes of tasks that start, by their UIDs."""
        shares = [*zip(*map(self._shares, self._total, self._wanted, self._units), strict=True)]
        ranks: list[dict[Vector, SortKey]] = [{} for _ in shares]
        """The ranks of queues by what they offer, while they hold what they hold."""
        offers = [*map(iter, self._waiting)]

        def offered(queue: int) -> tuple[SortKey, int, _Job] | None:
            for _, job in offers[queue]:
                rank = ranks[queue].get(job.request)
                if rank is None:
                    rank = ranks[queue][job.request] = self._rank(queue, job.request, shares[queue])
                return rank, queue, job
            return None

        line = [*filter(None, map(offered, range(len(offers))))]
        heapify(line)
        on: dict[str, _Node] = {}
        too_many: dict[_Kind, int] = {}
        """The least number of tasks that do not all find nodes: no more do after these turns."""
        while line:
            _, queue, job = line[0]
            if job.size < too_many.get(job.kind, inf):
                if self._starts(job):
                    self.started.append(job.place[-1])
                    ranks[queue].clear()
                    self._held[queue] = [*map(add, self._held[queue], job.request)]
                    places = zip([task.uid for task in job.waiting], job.on, strict=True)
                    for uid, position in sorted(places):  # as a session binds them
                        on[uid] = self._nodes[position]
                else:
                    too_many[job.kind] = job.size
            following = offered(queue)
            _ = heappop(line) if following is None else heapreplace(line, following)
        return on

    def _shares(self, left: int, wanted: Sequence[int], unit: int) -> Sequence[int]:
        """Return the fair share of each queue in a dimension: by priority, and then by weight."""
        shares: list[int] = []
        for weights in self._weights:
            more, left = fill(left, wanted[len(shares) :][: len(weights)], weights, unit)
            shares += more
        return shares

    def _rank(self, queue: int, request: Vector, share: Sequence[int]) -> SortKey:
        """Return the place of a queue in queue order, with what its next job requests."""
        rows = zip(request, self._held[queue], share, self._total, strict=True)
        parts = [row for row in rows if row[0]]
        fill_up = any([held + more > of for more, held, of, _ in parts])  # noqa: C419
        full = fullness([(held + fill_up * more, of, all_) for more, held, of, all_ in parts])
        return fill_up, -self._priorities[queue], full

    def _starts(self, job: _Job) -> bool:
        """Put a job on nodes if all of its tasks fit: alike, they do in any order or in none."""
        kind, nodes = job.kind, self._nodes
        if job.size > 1 and sum([node.takes(kind.request) for node in nodes]) < job.size:
            return False
        for _ in range(job.size):
            scores = self._scores(kind)
            best = max(scores, default=_NOWHERE)
            if best == _NOWHERE:
                return False
            position = scores.index(best)  # among equals the first in node order
            self._put(position, kind, 1)
            job.on.append(position)
        return True

    def _scores(self, kind: _Kind) -> Sequence[float]:
        """Return what nodes are worth to tasks of a kind. O(nodes that have changed since)."""
        nodes, scores = self._nodes, kind.scores
        changed: Iterable[int] = set(self._changed[kind.read :])
        if not scores:
            scores += [_NOWHERE] * len(nodes)
            changed = range(len(nodes))
        kind.read = len(self._changed)
        fitting: list[int] = []
        for position in changed:
            scores[position], node = _NOWHERE, nodes[position]
            if node.room >= 1 and all(map(le, kind.request, node.idle)):
                fitting.append(position)
        if fitting:
            score_all = requested_scores(_WEIGHTS, kind)
            of_fitting = score_all([nodes[position] for position in fitting])
            for position, score in zip(fitting, of_fitting, strict=True):
                scores[position] = score
        return scores
