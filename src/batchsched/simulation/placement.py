"""Which nodes a job gets, where that matters: GPUs of one job should be near each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from batchsched.simulation.workload import Machine

__all__ = ["Consolidated", "FirstFit", "Nodes", "Placement"]

Places = Sequence[tuple[int, int]]
"""Nodes, and how many processors are taken on each."""


class Nodes(Protocol):
    """The nodes of one simulation."""

    def take(self, processors: int) -> Places | None:
        """Take processors for a job, and return where; None if it cannot be placed now."""

    def give_back(self, places: Places) -> None:
        """Take back what a job had."""


class Placement(Protocol):
    """A way to choose nodes."""

    def begin(self, machine: Machine) -> Nodes:
        """Return the nodes of a machine, all free."""
        ...


@frozen
class Consolidated:
    """As few nodes as possible, and those that are fullest.

    A job of at most one node's processors goes on the node with the fewest free ones that are
    enough. A larger job takes whole nodes, which must be all free, in their order; the rest of it
    goes on the node that then has the most free. Of equals the first.

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
    """A job of at most one node's processors goes on the first node that has them free.

    A larger one takes whole nodes, the first that are all free, and needs them whole.
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
