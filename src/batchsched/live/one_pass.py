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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heapreplace
from itertools import islice
from math import inf
from operator import add, attrgetter, le, sub

from attrs import define, field

from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.immutable import LaterMap
from batchsched.model.result import Bind, CycleResult, LaterQueueOutcomes, TaskOutcome
from batchsched.model.rules import out_of_service
from batchsched.model.snapshot import OF_DEVICES
from batchsched.plugin.queues import QueueTree
from batchsched.plugins.capacity.accounts import DIVISIBLE, WHOLE, fair_shares, fullness
from batchsched.plugins.nodeorder import NodeOrderPlugin, requested_scores
from batchsched.state.records import SortKey
from batchsched.state.vectors import Dimensions, Vector, total_of
from batchsched.transition.content import Content, ContentVersion

MOST_NODES = 256
"""On more nodes it is not used: all are looked at for each task that starts."""
MOST_CHANGES, MOST_KINDS = 50_000, 1_000
"""After so many changes of nodes, or kinds of tasks, the books are made anew."""


def _usual(usual: object, *names: str) -> Callable[[object], bool]:
    """Return what tells whether an object has the same in some fields as a usual one."""
    read = attrgetter(*names)
    values = read(usual)
    return lambda given: bool(read(given) == values)


_is_plain_queue = _usual(Queue(name=""), "parent", "guarantee", "deserved", "limit", "state")
_is_plain_node = _usual(NodeInfo(name=""), "taints", "devices", "counter_sets", "closed_pools")
_is_plain_job = _usual(
    JobInfo(name="", queue=""),
    *("groups", "max_available", "depends_on", "plan", "holds", "topology", "quota_reserved"),
)
_is_plain_task = _usual(
    TaskInfo(uid="", name=""),
    *("init_resreq", "is_backfill", "node_selector", "node_affinity", "host_ports"),
    *("pod_affinity", "pod_anti_affinity", "group", "holds", "claims", "devices", "choices"),
)
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
        binds, status = books.binds(), TaskStatus.BINDING
        names = {bind.task_uid: tasks[bind.task_uid].display_name for bind in binds}
        on = {b.task_uid: TaskOutcome(status=status, node_name=b.node_name) for b in binds}
        self._result = CycleResult(
            binds=tuple(binds),
            tasks=outcomes(on),
            jobs=LaterMap(lambda: whole().jobs),
            queues=LaterQueueOutcomes(lambda: whole().queues),
            names={uid: name for uid, name in names.items() if name != uid},
        )
        return self._result

    def _follow(self) -> bool:
        """Bring the books up to date; return whether nothing has changed but the time."""
        content, version, books = self._content, self._version, self._books
        self._version = content.version
        before = {} if version is None else content.changed_since(version)
        self.changes += len(before)
        touched: dict[str, None] = {}
        is_still, is_new = True, version is None or (books is not None and books.are_long())
        for table, key in before:
            if table == "tasks":
                owner = content.owner.get(key)
                is_still, touched[key if owner is None else owner] = False, None
            elif table in {"jobs", "members"}:
                is_still, touched[key] = False, None
            elif table == "besides":
                is_new |= key in OF_DEVICES
            elif table not in {"owner", "now"}:
                is_new = True
        if is_new:
            self._books = _Books(content) if _is_plain(content) else None
        elif books is not None and not is_still:
            books.enter({**touched, **dict.fromkeys(books.started)})
        return is_still and not is_new


def _is_plain(content: Content) -> bool:
    """Return whether all but the jobs is plain. O(nodes + queues)."""
    nodes, queues = content.nodes.values(), content.queues.values()
    is_small = (
        len(nodes) <= MOST_NODES
        and not any(content.of_devices().values())
        and not content.topologies
    )
    is_usual = is_small and all(map(_is_plain_queue, queues)) and all(map(_is_plain_node, nodes))
    return is_usual and not any(map(out_of_service, nodes))


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
        self._nodes = [*map(_Node, names, has, has, room)]
        self._position = {name: position for position, name in enumerate(names)}
        self._total = total_of(has, dimensions.zero)
        self._tree = QueueTree(content.queues.values())
        self._nothing = [0] * len(self._tree.names)
        self._held = [self._nothing.copy() for _ in self._total]
        self._wanted = [self._nothing.copy() for _ in self._total]
        """What queues hold, and hold and wait for, by dimension, then by position."""
        self._waiting = [list[tuple[int, float, str]]() for _ in self._nothing]
        """The places of their jobs that wait, in job order."""
        self._jobs: dict[str, _Job] = {}
        self._kinds: dict[tuple[object, ...], _Kind] = {}
        self._changed: list[int] = []
        """The nodes that have changed, in order."""
        self._foreign: set[str] = set()
        """The UIDs of jobs that are not plain."""
        self.started: list[str] = []
        """The UIDs of jobs that start in the last pass."""
        self.enter(content.jobs)

    def are_plain(self) -> bool:
        """Return whether all jobs are plain, and no node holds more than it has."""
        return not self._foreign and all([min(node.idle) >= 0 for node in self._nodes])  # noqa: C419

    def are_long(self) -> bool:
        """Return whether they have so many changes or kinds that they are better made anew."""
        return len(self._changed) > MOST_CHANGES or len(self._kinds) > MOST_KINDS

    def enter(self, uids: Iterable[str]) -> None:
        """Enter jobs as they are now, those that are there, in place of what they were."""
        self.started.clear()
        for uid in uids:
            info, old = self._content.jobs.get(uid), self._jobs.pop(uid, None)
            self._foreign.discard(uid)
            job = None if info is None else self._read(info, old)
            if job is not None:
                self._jobs[uid] = job
            elif info is not None:
                self._foreign.add(uid)
            # Most have started as was decided: then what they hold is counted already.
            is_same = old is not None and job is not None and _holdings(old) == _holdings(job)
            for each, sign in ((old, -1), (job, 1)):
                if each is not None and not is_same:
                    self._count(each, sign)
                if each is not None and each.waiting:
                    places = self._waiting[each.queue]
                    if sign > 0:
                        insort(places, each.place)
                    else:
                        del places[bisect_left(places, each.place)]

    def _read(self, info: JobInfo, old: _Job | None) -> _Job | None:
        """Return a job as it is now; None: it is not plain. `old`: as it was read last."""
        members, queue = self._content.members[info.uid], self._tree.position.get(info.queue)
        count, least, waiting = len(members), info.min_available, 0
        if not members or least > count or queue is None or not _is_plain_job(info):
            return None
        tasks = [*map(self._content.tasks.__getitem__, members)]
        asked = tasks[0].resreq, tasks[0].scoring_request
        on: list[int] = []
        for task in tasks:  # tuples look first whether their items are the same objects
            if (task.resreq, task.scoring_request) != asked or not _is_plain_task(task):
                return None
            if task.status is _PENDING:
                waiting += 1
            elif task.status in _HOLDING and task.node_name in self._position:
                on.append(self._position[task.node_name])
            elif task.status is not _SUCCEEDED:
                return None
        known = old.kind if old and old.kind.asked == asked else self._kinds.get(asked)
        kind = known or self._kind_of(tasks[0])
        if kind is None or (waiting and not waiting == least == count):
            return None
        place, request = (-info.priority, info.creation_time, info.uid), kind.request
        if not waiting:
            return _Job(queue, kind, len(on), place, (), request, on)
        if waiting > 1:
            tasks.sort(key=attrgetter("creation_time", "uid"))
            tasks.sort(key=attrgetter("priority"), reverse=True)
            request = tuple([amount * waiting for amount in request])
        return _Job(queue, kind, waiting, place, tasks, request, on)

    def _kind_of(self, task: TaskInfo) -> _Kind | None:
        """Return a new kind for a task; None: it requests nothing, or what no node has."""
        has, resreq, scoring = self._dimensions.names, task.resreq, task.counts_in_scores()
        if any(name not in has for name in resreq.scalars) or task.is_best_effort:
            return None
        asked = resreq, task.scoring_request
        kind = _Kind(asked, self._dimensions.vector(resreq), scoring.milli_cpu, scoring.memory)
        self._kinds[asked] = kind
        return kind if any(kind.request) else None

    def _count(self, job: _Job, sign: int) -> None:
        """Count what a job holds and waits for (sign 1), or take it off (-1)."""
        for position in job.on:
            self._put(position, job.kind, sign)
        queue, size, on = job.queue, sign * job.size, sign * len(job.on)
        for amount, held, wanted in zip(job.kind.request, self._held, self._wanted, strict=True):
            held[queue] += on * amount
            wanted[queue] += size * amount

    def _put(self, position: int, kind: _Kind, sign: int) -> None:
        """Put a task of a kind on a node (sign 1), or take it off (-1)."""
        node = self._nodes[position]
        node.idle = tuple(map(sub if sign > 0 else add, node.idle, kind.request))
        node.room -= sign
        node.scoring_milli_cpu += sign * kind.scoring_milli_cpu
        node.scoring_memory += sign * kind.scoring_memory
        self._changed.append(position)

    def binds(self) -> list[Bind]:
        """Give turns to all jobs that wait; return what starts."""
        deal = partial(fair_shares, self._tree, guarantees=self._nothing, deserved=self._nothing)
        units = [1 if name in DIVISIBLE else WHOLE for name in self._dimensions.names]
        shares = [
            deal(total=total, demands=wanted, unit=unit)
            for total, wanted, unit in zip(self._total, self._wanted, units, strict=True)
        ]
        ranks: list[dict[Vector, SortKey]] = [{} for _ in self._nothing]
        """The ranks of queues by what they offer, while they hold what they hold."""
        offers = [*map(iter, self._waiting)]

        def offered(queue: int) -> tuple[SortKey, int, _Job] | None:
            place = next(offers[queue], None)
            if place is None:
                return None
            job = self._jobs[place[-1]]
            rank = ranks[queue].get(job.request)
            if rank is None:
                rank = ranks[queue][job.request] = self._rank(queue, job.request, shares)
            return rank, queue, job

        line = [*filter(None, map(offered, range(len(offers))))]
        heapify(line)
        binds: list[Bind] = []
        too_many: dict[_Kind, int] = {}
        """The least number of tasks that do not all find nodes: no more do after these turns."""
        while line:
            _, queue, job = line[0]
            if job.size < too_many.get(job.kind, inf):
                if self._starts(job):
                    self.started.append(job.place[-1])
                    ranks[queue].clear()
                    for held, amount in zip(self._held, job.request, strict=True):
                        held[queue] += amount
                    places = zip([task.uid for task in job.waiting], job.on, strict=True)
                    for uid, position in sorted(places):  # as a session binds them
                        binds.append(Bind(task_uid=uid, node_name=self._nodes[position].name))
                else:
                    too_many[job.kind] = job.size
            following = offered(queue)
            _ = heappop(line) if following is None else heapreplace(line, following)
        return binds

    def _rank(self, queue: int, request: Vector, shares: Sequence[Sequence[int]]) -> SortKey:
        """Return the place of a queue in queue order, with what its next job requests."""
        rows = zip(request, self._held, shares, self._total, strict=True)
        parts = [(held[queue], more, of[queue], all_) for more, held, of, all_ in rows if more]
        is_within = all([held + more <= share for held, more, share, _ in parts])  # noqa: C419
        fill = 0 if is_within else 1
        full = fullness([(held + fill * more, share, all_) for held, more, share, all_ in parts])
        info = self._tree.queues[queue]
        return not is_within, -info.priority, full, info.creation_time, info.name

    def _starts(self, job: _Job) -> bool:
        """Put a job on nodes if all of its tasks fit: alike, they do in any order or in none."""
        kind, nodes = job.kind, self._nodes
        if job.size == 1 or sum([node.takes(kind.request) for node in nodes]) >= job.size:
            job.on = [*islice(self._best_nodes(kind), job.size)]
        return bool(job.on)

    def _best_nodes(self, kind: _Kind) -> Iterator[int]:
        """Put tasks of a kind on the best nodes, while any fits; yield their positions."""
        nodes, scores, score_all = self._nodes, kind.scores, requested_scores(_WEIGHTS, kind)
        stale: Iterable[int] = set(self._changed[kind.read :])
        if not scores:
            scores += [_NOWHERE] * len(nodes)
            stale = range(len(nodes))
        while True:
            kind.read = len(self._changed)
            fitting: list[int] = []
            for position in stale:
                scores[position], node = _NOWHERE, nodes[position]
                if node.room >= 1 and all(map(le, kind.request, node.idle)):
                    fitting.append(position)
            of_fitting = score_all([nodes[position] for position in fitting])
            for position, score in zip(fitting, of_fitting, strict=True):
                scores[position] = score
            best = max(scores, default=_NOWHERE)
            if best == _NOWHERE:
                return
            position = scores.index(best)  # among equals the first in node order
            self._put(position, kind, 1)
            stale = (position,)
            yield position
