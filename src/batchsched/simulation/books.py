"""The nodes of a simulation: what is free there, what jobs hold, and how equal ones are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add, sub
from typing import Protocol

from attrs import define, field, frozen

from batchsched.model.cluster import NodeInfo, TaskInfo
from batchsched.model.devices import DevicePick
from batchsched.model.immutable import EMPTY
from batchsched.model.resources import Resource
from batchsched.model.rules import accepts_by_description, out_of_service
from batchsched.simulation.jobs import Machine
from batchsched.simulation.settings import Reservation
from batchsched.simulation.work import CPU

Vector = tuple[int, ...]
"""Amounts by dimension."""
Places = Sequence[tuple[int, int]]
"""Pairs of a node and the number of processors taken there."""
Pairs = tuple[tuple[str, int], ...]
"""Names of nodes, and how many tasks are there, in the order in which tasks are counted."""


class TaskKind:
    """Tasks that are alike: what each needs, and which nodes accept it."""

    __slots__ = ("_accepted", "hold", "info", "needs", "start")

    def __init__(self, start: Vector, hold: Vector, info: TaskInfo | None) -> None:
        self.start = start
        self.hold = hold
        self.info = info
        self.needs = [
            (place, first, each)
            for place, (first, each) in enumerate(zip(start, hold, strict=True))
            if first
        ]
        """The dimensions that it needs: index, what it needs to start, and what it then holds."""
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
        for place, start, hold in self.needs:
            there = free[place]
            if start > there:
                return 0
            if hold and start + hold * (most - 1) > there:
                most = 1 + (there - start) // hold
        return most


_ANY_TASK = TaskInfo(uid="task", name="task")


@define(eq=False)
class JobShape:
    """What a job needs: its tasks in the order in which they are counted."""

    kinds: Sequence[TaskKind]
    runs: Sequence[tuple[int, int]]
    """Numbers of tasks that are alike and follow one another, each with its kind."""
    need: int
    most: int
    source: tuple[TaskInfo, ...] = ()
    """The tasks as they were given, in order of UID."""
    numbers: tuple[int, ...] = ()
    """The position there of each task, in the order in which they are counted."""
    needed: tuple[tuple[int, int], ...] = field(init=False)
    """The runs of the tasks that it needs."""
    cpu: int = field(init=False)
    """The cpu that these hold, in thousandths."""

    def __attrs_post_init__(self) -> None:
        self.needed = tuple(_first(self.runs, self.need))
        self.cpu = sum(self.kinds[kind].hold[0] * count for kind, count in self.needed)


def _first(runs: Iterable[tuple[int, int]], count: int) -> Iterator[tuple[int, int]]:
    for kind, length in runs:
        if count <= 0:
            return
        yield kind, min(length, count)
        count -= length


@define(eq=False)
class Holding:
    """What a job holds."""

    counts: dict[tuple[int, int], int]
    """The number of tasks by node and kind."""
    places: Pairs
    tasks: int
    enough: bool = field(kw_only=True)
    """Whether it is all that the job needs."""
    mapping: Mapping[str, str] | None = None
    """The node of each task by UID, where unlike tasks were placed one by one."""
    devices: Mapping[str, tuple[DevicePick, ...]] = EMPTY
    """The devices of each task by UID."""

    def holds_the_same(self, other: Holding) -> bool:
        """Return whether another is the same on each node, and on the same devices."""
        return self.counts == other.counts and self.devices == other.devices


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

    def room(self, kind: TaskKind, free: Sequence[int], tasks: int, most: int) -> int:
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
        self.open = list(self.nodes)
        """The nodes that take tasks: in service and not drained."""
        self.has_reservations = False
        self.has_limits = any(info.max_tasks is not None for info in infos)

    def set_node(self, node: NodeBook, *, in_service: bool, drained: bool) -> None:
        """Note whether a node is in service, and whether it is drained."""
        node.in_service, node.drained = in_service, drained
        self.open = [each for each in self.nodes if each.in_service and not each.drained]

    def vector(self, amounts: Resource) -> Vector:
        """Return amounts as a vector of the dimensions that nodes offer."""
        return tuple(int(amounts.get(name)) for name in self.dimensions)

    def resource(self, vector: Sequence[int]) -> Resource:
        """Return a vector as amounts."""
        named = dict(zip(self.dimensions, vector, strict=True))
        return Resource(milli_cpu=named.pop("cpu", 0), memory=named.pop("memory", 0), scalars=named)

    def shape(
        self, tasks: Sequence[TaskInfo], source: Sequence[TaskInfo], need: int, most: int
    ) -> JobShape | None:
        """Return the shape of a job; None if it needs something that no node offers.

        Args:
            tasks: Its tasks, in the order in which they are counted.
            source: The same, in order of UID.
            need: How many it needs.
            most: The most that may run.
        """
        kinds: list[TaskKind] = []
        known = dict[object, int]()
        runs: list[tuple[int, int]] = []
        for task in tasks:
            start = task.start_request
            if any(amount and name not in self.dimensions for name, amount in start.dimensions()):
                return None
            key = (start, task.resreq, task.node_selector, task.node_affinity, task.tolerations)
            number = known.setdefault(key, len(kinds))
            if number == len(kinds):
                kinds.append(TaskKind(self.vector(start), self.vector(task.resreq), task))
            if runs and runs[-1][0] == number:
                runs[-1] = (number, runs[-1][1] + 1)
            else:
                runs.append((number, 1))
        places = {task.uid: place for place, task in enumerate(source)}
        numbers = tuple(places[task.uid] for task in tasks)
        return JobShape(kinds, runs, need, most, tuple(source), numbers)

    def plain_shape(self, processors: int) -> JobShape:
        """Return the shape of a job of processors: tasks of a cpu each, all needed."""
        cpu = tuple(CPU if name == "cpu" else 0 for name in self.dimensions)
        return JobShape([TaskKind(cpu, cpu, None)], [(0, processors)], processors, processors)

    def free_processors(self) -> int:
        """Return the whole cpus that are free on nodes that take tasks."""
        return sum([node.free[0] // CPU for node in self.open])

    def named_places(self, places: Iterable[tuple[int, int]]) -> Pairs:
        """Return places with the names of nodes instead of their indexes."""
        return tuple([(self.nodes[node].info.name, count) for node, count in places])

    def hold(self, job: int, shape: JobShape, node: int, kind: int, count: int) -> None:
        """Take (or, if `count` is negative, give back) what tasks hold on a node."""
        book = self.nodes[node]
        amounts = [amount * count for amount in shape.kinds[kind].hold]
        book.free = (
            tuple(map(sub, book.free, amounts)) if amounts[1:] else (book.free[0] - amounts[0],)
        )
        book.tasks += count
        amounts.append(count)
        before = book.held.get(job)
        if before is not None:
            amounts = [*map(add, before, amounts)]
        if amounts[-1]:
            book.held[job] = amounts
        else:
            del book.held[job]


def books_of_machine(machine: Machine, *, as_pool: bool) -> Books:
    """Return the books of a machine; one of processors is one node, or nodes by number."""
    if machine.infos:
        return Books(machine.infos)
    width, each = len(str(machine.nodes)), machine.processors if as_pool else machine.per_node
    names = ["pool"] if as_pool else [f"node-{n:0{width}}" for n in range(machine.nodes)]
    allocatable = Resource(milli_cpu=CPU * each)
    return Books([NodeInfo(name=name, allocatable=allocatable) for name in names])


class Nodes(Protocol):
    """The nodes of one simulation."""

    def take(self, processors: int) -> Places | None:
        """Take processors for a job; return their places, or None if it cannot be placed now."""

    def give_back(self, places: Places) -> None:
        """Release the places of a job."""


class NodeChoice(Protocol):
    """A strategy to choose nodes."""

    def begin(self, machine: Machine) -> Nodes:
        """Return the nodes of a machine, all free."""
        ...


@frozen
class Consolidated:
    """Use as few nodes as possible, and the fullest of them.

    A job that fits on one node goes to the node with the fewest free processors that are enough. A
    larger job takes whole nodes, which must be entirely free, in order; its remainder goes to the
    node that then has the most free processors. Among equals the first.

    Source: the simulator of Hu, Sun, Yan, Wen, Zhang, "Characterization and Prediction of Deep
    Learning Workloads in Large-Scale GPU Datacenters" (Helios), SC 2021.
    """

    def begin(self, machine: Machine) -> Nodes:
        """Return the nodes of a machine, all free."""
        return _ConsolidatedNodes(machine)

    def __str__(self) -> str:
        return "consolidated"


@frozen
class FirstFit:
    """Use the first nodes with enough free processors.

    A job that fits on one node goes to the first node where it fits. A larger job takes whole
    nodes, the first that are entirely free, rounded up.
    """

    def begin(self, machine: Machine) -> Nodes:
        """Return the nodes of a machine, all free."""
        return _FirstFitNodes(machine)

    def __str__(self) -> str:
        return "first fit"


class _Nodes:
    def __init__(self, machine: Machine) -> None:
        self._per_node = machine.per_node
        self._free = [machine.per_node] * machine.nodes

    def give_back(self, places: Places) -> None:
        for node, processors in places:
            self._free[node] += processors

    def hold(self, places: Places) -> bool:
        if any(self._free[node] < processors for node, processors in places):
            return False
        self._taken(places)
        return True

    def _taken(self, places: Places) -> Places:
        for node, processors in places:
            self._free[node] -= processors
        return places


class _ConsolidatedNodes(_Nodes):
    def take(self, processors: int) -> Places | None:
        free, per_node = self._free, self._per_node
        if processors <= per_node:
            enough = [(left, node) for node, left in enumerate(free) if left >= processors]
            return self._taken([(min(enough)[1], processors)]) if enough else None
        whole, rest = divmod(processors, per_node)
        empty = [node for node, left in enumerate(free) if left == per_node]
        if len(empty) < whole:
            return None
        places = [(node, per_node) for node in empty[:whole]]
        if rest:
            chosen = set(empty[:whole])
            others = [(-left, node) for node, left in enumerate(free) if node not in chosen]
            if not others or -min(others)[0] < rest:
                return None
            places.append((min(others)[1], rest))
        return self._taken(places)


class _FirstFitNodes(_Nodes):
    def take(self, processors: int) -> Places | None:
        free, per_node = self._free, self._per_node
        if processors <= per_node:
            for node, left in enumerate(free):
                if left >= processors:
                    return self._taken([(node, processors)])
            return None
        nodes = -(-processors // per_node)
        empty = [node for node, left in enumerate(free) if left == per_node]
        if len(empty) < nodes:
            return None
        return self._taken([(node, per_node) for node in empty[:nodes]])


def hold_places(nodes: Nodes, places: Places) -> bool:
    """Take these places, if the placement can and all are free; return whether they are taken."""
    return isinstance(nodes, _Nodes) and nodes.hold(places)


def take_open(nodes: Nodes, processors: int, is_open: Sequence[bool]) -> Places | None:
    """Take processors on nodes that are open; None: there is no place.

    Closed nodes are filled for the time of the search, since a placement knows of none.
    """
    filled: list[tuple[int, int]] = []
    while True:
        places = nodes.take(processors)
        closed = [each for each in places or () if not is_open[each[0]]]
        if not closed:
            break
        assert places is not None
        filled += closed
        nodes.give_back([each for each in places if is_open[each[0]]])
    nodes.give_back(filled)
    return places
