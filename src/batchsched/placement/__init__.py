"""The placement engine: which node is best for a task. This is its interface.

`Placement` is what actions ask. An engine may work in any way, but its answers must equal those of
the plain loop over all nodes (`batchsched.placement.plain_loop`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.state.records import Fit, NodeState, TaskState

__all__ = ["Fit", "FollowsNodes", "Placement", "first_of_best"]


def first_of_best(totals: Sequence[float]) -> int:
    """Return the position of the highest total; among equals, the first. O(totals)."""
    return max(range(len(totals)), key=lambda position: (totals[position], -position))


class FollowsNodes(Protocol):
    """An engine that stays valid when nodes are added, removed or changed between cycles.

    It keeps nodes by `NodeState.slot`. Other engines are created again after such changes, and
    slots are then positions in the list of nodes.
    """

    def nodes_changed(self, slots: Collection[int], /) -> bool:
        """Process what is at these slots now; return False if a new engine is needed.

        The change log has the slots too.
        """
        ...


class Placement(Protocol):
    """Finds nodes for tasks; every answer equals that of a plain loop over all nodes.

    A node is *feasible* for a task if all predicates accept it and it is not
    closed by a reservation. The *best* node has the smallest `node_key`, if a plugin has any, then
    the highest score, and is the first in node order among equals; normalised scores are
    normalised over the nodes among which the choice is made.
    """

    def kind(self, task: TaskState, /) -> int | None:
        """Return a number shared by tasks that get the same answers; None: unknown.

        For tasks with a number, answers about a node change only when the node does.
        """
        ...

    def best(
        self, task: TaskState, fit: Fit, /, among: Collection[int] | None = None
    ) -> NodeState | None:
        """Return the best of the feasible nodes where the task fits in this way.

        `among`: the slots of the nodes among which it chooses; None: all.
        """
        ...

    def feasible_for(self, task: TaskState, /) -> Callable[[NodeState], bool]:
        """Return for a task what says whether a node is feasible for it."""
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
        """Return all feasible nodes, those of the highest score first; `among` these, if given."""
        ...

    def refusal(self, task: TaskState, node: NodeState, /) -> Unfit | None:
        """Return why the predicates reject the node, or None. Reservations are ignored."""
        ...

    def raw_scores(self, task: TaskState, node: NodeState, /) -> tuple[float, ...]:
        """Return each score of the node before normalisation."""
        ...

    def totals(self, task: TaskState, raw: Sequence[tuple[float, ...]], /) -> list[float]:
        """Return the total score of each of several nodes compared, from their raw scores."""
        ...

    def tally(self, task: TaskState, /) -> NodeTally:
        """Return how many nodes could accept the task now, and why the others could not."""
        ...
