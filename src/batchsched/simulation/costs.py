"""The cost of restarting or stopping a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import field, frozen

__all__ = ["ByDistance", "ByModel", "Cost", "NoCost"]


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
