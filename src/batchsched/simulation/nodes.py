"""Jobs that are placed on nodes, and stopped and resumed: placement, costs and outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from attrs import field, frozen

from batchsched.simulation.policy import Interval, Outcome
from batchsched.simulation.pool import Arrivals
from batchsched.simulation.workload import Machine, Workload

Places = Sequence[tuple[int, int]]
"""Pairs of a node and the number of processors taken there."""


class Nodes(Protocol):
    """The nodes of one simulation."""

    def take(self, processors: int) -> Places | None:
        """Take processors for a job; return their places, or None if it cannot be placed now."""

    def give_back(self, places: Places) -> None:
        """Release the places of a job."""


class Placement(Protocol):
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


class Cost(Protocol):
    """The seconds of work that a job loses."""

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:
        """Return the seconds lost by a job, given its size, the size of a node, and its labels."""
        ...


@frozen
class NoCost:
    """Nothing is lost."""

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:  # noqa: ARG002
        """Return 0."""
        return 0


@frozen
class ByDistance:
    """A cost that depends on the extent of the job: one processor, one node, or several nodes.

    The defaults are those of the simulator of Helios (SC 2021).
    """

    processor: float = 7
    node: float = 30
    nodes: float = 60

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:  # noqa: ARG002
        """Return the seconds lost by a job of this size."""
        if processors == 1:
            return self.processor
        return self.node if processors <= per_node else self.nodes


@frozen
class ByModel:
    """The cost measured for the model that the job trains (label `model`), by processors.

    >>> ByModel({"bert": {1: 10, 2: 12}}).seconds(2, 8, {"model": "bert"})
    12
    """

    table: Mapping[str, Mapping[int, float]] = field(repr=False)
    otherwise: float = 10
    """The cost for models and sizes that are not in the table."""

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:  # noqa: ARG002
        """Return the seconds lost by this job."""
        return self.table.get(labels.get("model", ""), {}).get(processors, self.otherwise)


class Courses:
    """When jobs arrive, run and end in a simulation in which running jobs may be stopped."""

    def __init__(self, workload: Workload) -> None:
        count = len(workload)
        self.ends: list[float | None] = [None] * count
        self.preemptions = [0] * count
        """How often each job was stopped before its end."""
        self.since = dict[int, float]()
        """When each running job was started last."""
        self._workload = workload
        self._starts: list[float | None] = [None] * count
        self._intervals: list[Interval] = []
        self._coming: list[tuple[float, int]] = []
        self._arrivals = Arrivals(workload, lambda time, job: heappush(self._coming, (time, job)))
        self._arrivals.push_next()

    def next_arrival(self) -> float:
        """Return the time of the next arrival; infinity if none is known."""
        return self._coming[0][0] if self._coming else inf

    def arrived_by(self, now: float) -> Iterator[int]:
        """Yield the jobs that have arrived by now, each once, in order."""
        while self._coming and self._coming[0][0] <= now:
            _, job = heappop(self._coming)
            yield job
            if self._arrivals.is_last_known(job):
                self._arrivals.push_next()

    def start(self, job: int, now: float) -> None:
        """Start a job, or start it again."""
        self.since[job] = now
        if self._starts[job] is None:
            self._starts[job] = now

    def stop(self, job: int, now: float) -> None:
        """Stop a running job, which will be started again."""
        self.preemptions[job] += 1
        self._intervals.append((job, self.since.pop(job), now))

    def end(self, job: int, now: float) -> None:
        """End a running job."""
        self._intervals.append((job, self.since.pop(job), now))
        self.ends[job] = now
        self._arrivals.push_followers(job, now)

    def outcome(self) -> Outcome:
        """Return the outcome; jobs that never ended cannot be placed, or never arrived."""
        held: list[float] = [0] * len(self.ends)
        for job, start, end in self._intervals:
            held[job] += end - start
        return Outcome(
            starts=self._starts,
            ends=self.ends,
            held=held,
            preemptions=self.preemptions,
            intervals=sorted(self._intervals),
            eligible=self._arrivals.eligible,
            unfinished={
                job: self._arrivals.why_never(job)
                or f"its {self._workload.processors[job]} processors cannot be placed on "
                f"{self._workload.machine}, even if nothing else runs"
                for job, end in enumerate(self.ends)
                if end is None
            },
        )
