"""What it costs to start a job again, or to stop it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import field, frozen

__all__ = ["ByDistance", "ByModel", "Cost", "NoCost"]


class Cost(Protocol):
    """Seconds of work that a job loses."""

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:
        """Return what a job loses, given its size, that of a node, and its labels."""
        ...


@frozen
class NoCost:
    """Nothing is lost."""

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:  # noqa: ARG002
        """Return 0."""
        return 0


@frozen
class ByDistance:
    """As much as there is to save and load again: for one processor, one node, several nodes.

    The default is that of the simulator of Helios (SC 2021).
    """

    processor: float = 7
    node: float = 30
    nodes: float = 60

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:  # noqa: ARG002
        """Return what a job of this size loses."""
        if processors == 1:
            return self.processor
        return self.node if processors <= per_node else self.nodes


@frozen
class ByModel:
    """As was measured for the model that the job trains (label `model`), by number of processors.

    >>> ByModel({"bert": {1: 10, 2: 12}}).seconds(2, 8, {"model": "bert"})
    12
    """

    table: Mapping[str, Mapping[int, float]] = field(repr=False)
    otherwise: float = 10
    """For models and sizes that are not in the table."""

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:  # noqa: ARG002
        """Return what this job loses."""
        return self.table.get(labels.get("model", ""), {}).get(processors, self.otherwise)
