"""How nodes are chosen where they are equal and jobs need processors alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from batchsched.simulation.workload import Machine

Places = Sequence[tuple[int, int]]
"""Pairs of a node and the number of processors taken there."""


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
