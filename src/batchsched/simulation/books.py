"""The books of the general engine: nodes, what is free there, what jobs hold, and the profile."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf, nextafter
from typing import Protocol

from batchsched.model.cluster import NodeInfo, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.rules import accepts_by_description, out_of_service
from batchsched.simulation.incidents import Reservation
from batchsched.simulation.tasks import CPU
from batchsched.simulation.workload import Machine

Vector = tuple[int, ...]
"""Amounts by dimension."""
Pairs = tuple[tuple[str, int], ...]
"""Names of nodes, and how many tasks are there, in the order in which tasks are counted."""


class Kind:
    """Tasks that are alike: what each needs, and which nodes accept it."""

    __slots__ = ("_accepted", "hold", "info", "start")

    def __init__(self, start: Vector, hold: Vector, info: TaskInfo | None) -> None:
        self.start = start
        self.hold = hold
        self.info = info
        self._accepted = dict[int, bool]()

    def accepts(self, node: NodeBook) -> bool:
        """Return whether the description of a node accepts such a task."""
        accepted = self._accepted.get(node.index)
        if accepted is None:
            task = self.info or _ANY_TASK
            accepted = out_of_service(node.info) is None and accepts_by_description(node.info, task)
            self._accepted[node.index] = accepted
        return accepted

    def room(self, free: Sequence[int], most: int) -> int:
        """Return how many of `most` such tasks fit into what is free. O(dimensions)."""
        for start, hold, there in zip(self.start, self.hold, free, strict=True):
            if start:
                if start > there:
                    return 0
                if hold and start + hold * (most - 1) > there:
                    most = 1 + (there - start) // hold
        return most


_ANY_TASK = TaskInfo(uid="task", name="task")


class Shape:
    """What a job needs: its tasks in the order in which they are counted."""

    __slots__ = ("cpu", "kinds", "most", "need", "needed", "numbers", "runs", "source")

    def __init__(
        self,
        kinds: Sequence[Kind],
        runs: Sequence[tuple[int, int]],
        need: int,
        most: int,
        source: tuple[TaskInfo, ...] = (),
        numbers: tuple[int, ...] = (),
    ) -> None:
        self.kinds = kinds
        self.runs = runs
        """Numbers of tasks that are alike and follow one another, each with its kind."""
        self.need = need
        self.most = most
        self.needed = tuple(_first(runs, need))
        """The same of the tasks that it needs."""
        self.cpu = sum(kinds[kind].hold[0] * count for kind, count in self.needed)
        """The cpu that these hold, in thousandths."""
        self.source = source
        """The tasks as they were given, in order of UID."""
        self.numbers = numbers
        """The position there of each task, in the order in which they are counted."""


def _first(runs: Iterable[tuple[int, int]], count: int) -> Iterator[tuple[int, int]]:
    for kind, length in runs:
        if count <= 0:
            return
        yield kind, min(length, count)
        count -= length


class Holding:
    """What a job holds."""

    __slots__ = ("counts", "enough", "mapping", "places", "tasks")

    def __init__(
        self,
        counts: dict[tuple[int, int], int],
        places: Pairs,
        tasks: int,
        *,
        enough: bool,
        mapping: Mapping[str, str] | None = None,
    ) -> None:
        self.counts = counts
        """The number of tasks by node and kind."""
        self.places = places
        self.tasks = tasks
        self.enough = enough
        """Whether it is all that the job needs."""
        self.mapping = mapping
        """The node of each task by UID, where unlike tasks were placed one by one."""


class NodeBook:
    """A node: what is free, who holds what, and whether it is open."""

    __slots__ = (
        "capacity", "drained", "failures", "free", "held", "in_service", "index", "info",
        "reservations", "reserved", "tasks",
    )  # fmt: skip

    def __init__(self, index: int, info: NodeInfo, capacity: Vector) -> None:
        self.index = index
        self.info = info
        self.capacity = capacity
        self.free = capacity
        self.tasks = 0
        self.held = dict[int, list[int]]()
        """Job to what it holds here, by dimension."""
        self.in_service = True
        self.drained = False
        self.failures = 0
        self.reserved: tuple[Reservation, frozenset[int]] | None = None
        """The reservation that lasts now, and its jobs."""
        self.reservations: list[tuple[float, float, frozenset[int]]] = []
        """All reservations: start, end, jobs."""

    def room(self, kind: Kind, free: Sequence[int], tasks: int, most: int) -> int:
        """Return how many of `most` such tasks fit, if so much is free and so many are here."""
        limit = self.info.max_tasks
        if limit is not None:
            most = min(most, limit - tasks)
        return kind.room(free, most) if most > 0 else 0

    def is_closed(self, job: int, start: float, end: float) -> bool:
        """Return whether it is reserved for others at some time from start until end."""
        return any(
            begin < end and start < finish and job not in jobs
            for begin, finish, jobs in self.reservations
        )


def dimensions_of(infos: Iterable[NodeInfo]) -> tuple[str, ...]:
    """Return the dimensions that some node offers: cpu, memory, then scalars by name."""
    offered = {name for info in infos for name, amount in info.allocatable.dimensions() if amount}
    first = [name for name in ("cpu", "memory") if name in offered or name == "cpu"]
    return (*first, *sorted(offered - {"cpu", "memory"}))


class Books:
    """All nodes. Nodes are identified by their index in order of name, jobs by their index."""

    def __init__(self, infos: Sequence[NodeInfo]) -> None:
        self.dimensions = dimensions_of(infos)
        self.nodes = [
            NodeBook(index, info, self.vector(info.allocatable)) for index, info in enumerate(infos)
        ]
        self.named = {info.name: index for index, info in enumerate(infos)}

    def vector(self, amounts: Resource) -> Vector:
        """Return amounts as a vector of the dimensions that nodes offer."""
        return tuple(int(amounts.get(name)) for name in self.dimensions)

    def resource(self, vector: Sequence[int]) -> Resource:
        """Return a vector as amounts."""
        named = dict(zip(self.dimensions, vector, strict=True))
        return Resource(milli_cpu=named.pop("cpu", 0), memory=named.pop("memory", 0), scalars=named)

    def shape(
        self, tasks: Sequence[TaskInfo], source: Sequence[TaskInfo], need: int, most: int
    ) -> Shape | None:
        """Return the shape of a job; None if it needs something that no node offers.

        Args:
            tasks: Its tasks, in the order in which they are counted.
            source: The same, in order of UID.
            need: How many it needs.
            most: The most that may run.
        """
        kinds: list[Kind] = []
        known = dict[object, int]()
        runs: list[tuple[int, int]] = []
        for task in tasks:
            start = task.start_request
            if any(amount and name not in self.dimensions for name, amount in start.dimensions()):
                return None
            key = (start, task.resreq, task.node_selector, task.node_affinity, task.tolerations)
            number = known.setdefault(key, len(kinds))
            if number == len(kinds):
                kinds.append(Kind(self.vector(start), self.vector(task.resreq), task))
            if runs and runs[-1][0] == number:
                runs[-1] = (number, runs[-1][1] + 1)
            else:
                runs.append((number, 1))
        places = {task.uid: place for place, task in enumerate(source)}
        numbers = tuple(places[task.uid] for task in tasks)
        return Shape(kinds, runs, need, most, tuple(source), numbers)

    def plain_shape(self, processors: int) -> Shape:
        """Return the shape of a job of processors: tasks of a cpu each, all needed."""
        cpu = tuple(CPU if name == "cpu" else 0 for name in self.dimensions)
        return Shape([Kind(cpu, cpu, None)], [(0, processors)], processors, processors)

    def free_processors(self) -> int:
        """Return the whole cpus that are free on nodes that take tasks."""
        return sum(
            node.free[0] // CPU for node in self.nodes if node.in_service and not node.drained
        )

    def hold(self, job: int, shape: Shape, node: int, kind: int, count: int) -> None:
        """Take (or, if `count` is negative, give back) what tasks hold on a node."""
        book = self.nodes[node]
        hold = shape.kinds[kind].hold
        book.free = tuple(
            free - amount * count for free, amount in zip(book.free, hold, strict=True)
        )
        book.tasks += count
        held = book.held.get(job)
        if held is None:
            held = book.held[job] = [0] * (len(hold) + 1)
        for place, amount in enumerate(hold):
            held[place] += amount * count
        held[-1] += count
        if not held[-1]:
            del book.held[job]


def books_of_machine(machine: Machine, *, as_pool: bool) -> Books:
    """Return the books of a machine; one of processors is one node, or nodes by number."""
    if machine.infos:
        return Books(machine.infos)
    if as_pool:
        everything = Resource(milli_cpu=CPU * machine.processors)
        return Books([NodeInfo(name="pool", allocatable=everything)])
    width = len(str(machine.nodes))
    allocatable = Resource(milli_cpu=CPU * machine.per_node)
    return Books(
        [
            NodeInfo(name=f"node-{number:0{width}}", allocatable=allocatable)
            for number in range(machine.nodes)
        ]
    )


# What is free over time


class _Steps:
    """What is free on a node as a step function of time, from now on."""

    __slots__ = ("decreases", "free", "times")

    def __init__(
        self, now: float, free: Vector, ends: Iterable[tuple[float, Sequence[int]]]
    ) -> None:
        self.times = [now]
        self.free = [free]
        self.decreases = False
        """Whether anything is taken, so that less may be free later than before."""
        at_once = nextafter(now, inf)
        for end, held in ends:
            if end == inf:
                break
            moment = max(end, at_once)
            free = tuple([a + b for a, b in zip(free, held, strict=False)])
            if moment == self.times[-1]:
                self.free[-1] = free
            else:
                self.times.append(moment)
                self.free.append(free)

    def room(self, kind: Kind, start: float, end: float, most: int) -> int:
        """Return how many of `most` such tasks fit at every time from start until end."""
        times = self.times
        place = bisect_right(times, start) - 1
        most = kind.room(self.free[place], most)
        if self.decreases:
            place += 1
            while most and place < len(times) and times[place] < end:
                most = kind.room(self.free[place], most)
                place += 1
        return most

    def take(self, hold: Vector, count: int, start: float, end: float) -> None:
        """Subtract what tasks hold from start until end (negative: put it back)."""
        self.decreases = True
        first = self._step_at(start)
        last = len(self.times) if end == inf else self._step_at(end)
        for place in range(first, last):
            self.free[place] = tuple(
                [free - amount * count for free, amount in zip(self.free[place], hold, strict=True)]
            )

    def _step_at(self, time: float) -> int:
        place = bisect_left(self.times, time)
        if place == len(self.times) or self.times[place] != time:
            self.times.insert(place, time)
            self.free.insert(place, self.free[place - 1])
        return place


class Asking(Protocol):
    """A job that asks for places, as the profile sees it."""

    @property
    def index(self) -> int:
        """Its index in the workload."""
        ...

    @property
    def shape(self) -> Shape:
        """What it needs."""
        ...

    @property
    def duration(self) -> float:
        """For how long it is expected to run."""
        ...


class Timeline:
    """What is free on each node that takes tasks, over time, less what plans take."""

    def __init__(self, books: Books, now: float, expected: Callable[[int], float]) -> None:
        self._now = now
        self._nodes = books.nodes
        self._open = [node for node in books.nodes if node.in_service and not node.drained]
        self.free_now = sum([node.free[0] for node in self._open])
        """The cpu that is free now, in thousandths."""
        self._limited = any(node.info.max_tasks is not None for node in self._open)
        self._expected = expected
        self._steps = dict[int, _Steps]()
        self._tasks = dict[int, int]()

    def _of(self, node: NodeBook) -> _Steps:
        steps = self._steps.get(node.index)
        if steps is None:
            expected = self._expected
            ends = sorted([(expected(job), held) for job, held in node.held.items()])
            steps = self._steps[node.index] = _Steps(self._now, node.free, ends)
        return steps

    def end_of(self, start: float, duration: float) -> float:
        """Return the end of a run; always after its start."""
        end = start + duration
        return end if end > start else nextafter(start, inf)

    def place(self, job: Asking, start: float) -> list[tuple[int, int, int]] | None:
        """Take places for what a job needs; return node, kind and count of each; None: no room.

        What starts now goes to nodes where it could not stay for ever, if it fits there; what
        starts later to nodes where it does not fit from now on. Among equals, the first by name.
        """
        shape = job.shape
        if start == self._now and shape.cpu > self.free_now:
            return None
        end = self.end_of(start, job.duration)
        taken: list[tuple[int, int, int]] = []
        for kind_index, count in shape.needed:
            found = self._rooms(job, shape.kinds[kind_index], count, start, end)
            if found is None:
                self.put_back(job, taken, start)
                return None
            for node, some in found:
                self._take(job, node.index, kind_index, some, start, end)
                taken.append((node.index, kind_index, some))
        return taken

    def _rooms(
        self, job: Asking, kind: Kind, count: int, start: float, end: float
    ) -> list[tuple[NodeBook, int]] | None:
        """Return nodes for tasks that are alike, and how many go to each; None: no room."""
        now = self._now
        found: list[tuple[NodeBook, int]] = []
        later: list[tuple[NodeBook, int]] = []
        is_alone = len(self._open) == 1
        for node in self._open:
            if not kind.accepts(node):
                continue
            if node.reservations and node.is_closed(job.index, start, end):
                continue
            steps = self._steps.get(node.index) or self._of(node)
            room = steps.room(kind, start, end, count)
            limit = node.info.max_tasks
            if room and limit is not None:
                room = min(room, limit - self._tasks.get(node.index, node.tasks))
            if room <= 0:
                continue
            stays = not is_alone and steps.room(kind, now, inf, 1) > 0
            if stays and not (node.reservations and node.is_closed(job.index, now, inf)):
                later.append((node, room))  # it fits from now on, for ever
                continue
            if room >= count:
                found.append((node, count))
                return found
            found.append((node, room))
            count -= room
        for node, room in later:
            found.append((node, min(room, count)))
            count -= room
            if count <= 0:
                return found
        return None

    def _take(
        self, job: Asking, node: int, kind: int, count: int, start: float, end: float
    ) -> None:
        hold = job.shape.kinds[kind].hold
        self._steps[node].take(hold, count, start, end)
        if start == self._now:
            self.free_now -= hold[0] * count
        if self._limited:
            self._tasks[node] = self._tasks.get(node, self._nodes[node].tasks) + count

    def put_back(self, job: Asking, places: Iterable[tuple[int, int, int]], start: float) -> None:
        """Undo `place`."""
        end = self.end_of(start, job.duration)
        for node, kind, count in places:
            self._take(job, node, kind, -count, start, end)

    def take_again(self, job: Asking, places: Iterable[tuple[int, int, int]], start: float) -> bool:
        """Take the same places, or none if one does not fit; return whether they were taken."""
        end = self.end_of(start, job.duration)
        taken: list[tuple[int, int, int]] = []
        for node, kind_index, count in places:
            kind, book = job.shape.kinds[kind_index], self._nodes[node]
            if (
                not book.in_service
                or book.drained
                or book.is_closed(job.index, start, end)
                or self._of(book).room(kind, start, end, count) < count
            ):
                self.put_back(job, taken, start)
                return False
            self._take(job, node, kind_index, count, start, end)
            taken.append((node, kind_index, count))
        return True

    def moments(self) -> list[float]:
        """Return now, and the times at which more becomes free, ascending."""
        found = {self._now}
        for node in self._open:
            found.update(self._of(node).times)
            found.update(end for _, end, _ in node.reservations if end > self._now)
        return sorted(found)

    def earliest(self, job: Asking) -> tuple[float, list[tuple[int, int, int]]] | None:
        """Take places at the first moment at which there are any; None: there are never."""
        moments = self.moments()
        if len(self._open) == len(job.shape.needed) == 1 and not self._open[0].reservations:
            [(kind, count)] = job.shape.needed
            one, steps = job.shape.kinds[kind], self._of(self._open[0])
            both = zip(steps.times, steps.free, strict=True)
            moments = [time for time, free in both if one.room(free, count) >= count]
        for moment in moments:
            places = self.place(job, moment)
            if places is not None:
                return moment, places
        return None
