"""What actions ask of a placement engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector

__all__ = ["FITS", "Fit", "FollowsNodes", "Placement", "first_of_best"]


class Fit(Enum):
    """How a task's request fits on a node."""

    NOW = "now"
    """It can start without taking what anybody was promised."""
    LATER = "later"
    """It can start once what is being released is gone."""
    CONDITIONALLY = "conditionally"
    """It can start once backfill tasks are gone."""


FITS: Mapping[Fit, Callable[[NodeState, Vector], bool]] = {
    Fit.NOW: NodeState.fits_now,
    Fit.LATER: NodeState.fits_later,
    Fit.CONDITIONALLY: NodeState.fits_conditionally,
}
"""What says of a node whether a request fits there in a way."""


def first_of_best(totals: Sequence[float]) -> int:
    """Return the position of the highest total; among equals, the first. O(totals)."""
    return max(range(len(totals)), key=lambda position: (totals[position], -position))


@runtime_checkable
class FollowsNodes(Protocol):
    """An engine that can go on when nodes come, go or are described anew between cycles.

    It keeps nodes by `NodeState.slot`. Engines without this are made anew then, and see slots
    that are positions.
    """

    def nodes_changed(self, slots: Collection[int], /) -> bool:
        """Catch up with what is at slots now; return False to be made anew.

        The record of changes has the slots too.
        """
        ...


class Placement(Protocol):
    """Finds nodes for tasks; every answer is that of a plain loop over all nodes.

    A node is *feasible* for a task if all predicates accept it and it is not
    closed by a reservation. *Best* is the highest node order score, the first
    in node order among equals; scores that are normalised are normalised over
    the nodes that take part in the choice.
    """

    def kind(self, task: TaskState, /) -> int | None:
        """Return a number that tasks share which get the same answers; None: cannot be told.

        For tasks with a number, answers about a node change only when the node does.
        """
        ...

    def best(self, task: TaskState, fit: Fit, /) -> NodeState | None:
        """Return the best of the feasible nodes where the task fits in this way."""
        ...

    def first_feasible(self, task: TaskState, /) -> NodeState | None:
        """Return the first feasible node in node order where the task fits now."""
        ...

    def feasible(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        """Return all feasible nodes in node order; `among` these, if given."""
        ...

    def ranked(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        """Return all feasible nodes, the best first; `among` these, if given."""
        ...

    def refusal(self, task: TaskState, node: NodeState, /) -> Unfit | None:
        """Return why the predicates refuse the node, or None. Reservations play no part."""
        ...

    def raw_scores(self, task: TaskState, node: NodeState, /) -> tuple[float, ...]:
        """Return what each score says of the node, before it is normalised."""
        ...

    def totals(self, task: TaskState, raw: Sequence[tuple[float, ...]], /) -> list[float]:
        """Return the total score of each of several nodes compared, from their raw scores."""
        ...

    def tally(self, task: TaskState, /) -> NodeTally:
        """Return how many nodes could take the task now, and what stands in the way on others."""
        ...
