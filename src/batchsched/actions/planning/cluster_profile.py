"""What is free on all nodes, from now on, and what jobs take of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from attrs import frozen

from batchsched.actions.planning.profile import (
    NOW,
    NodeProfile,
    end_of_run,
    estimate_of,
    profile_of,
)
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, fits

__all__ = ["ClusterProfile", "Places"]


@frozen
class Places:
    """When the tasks of a need start together, and where."""

    start: float
    """A moment of the profile: `NOW`, the time of the cycle for at once, or a later time."""
    of: tuple[tuple[TaskState, NodeState], ...]


class ClusterProfile:
    """The profiles of all nodes, and the places that are taken from them."""

    def __init__(self, nodes: Sequence[NodeState], now: float) -> None:
        self.now = now
        self.of_node: list[NodeProfile] = [profile_of(node, now) for node in nodes]
        """By the index of the node."""
        self.limited: set[int] = set()
        """The indices of the nodes where plans take something."""
        self._fitting_now: dict[Vector, list[int]] = {}
        self._free_now: list[int] | None = None
        """What is free now on all nodes together, by dimension; None: to be added up."""

    def end_of(self, task: TaskState, start: float) -> float:
        """Return when a task is expected to end that starts at a moment of the profile."""
        return end_of_run(start, estimate_of(task), self.now)

    def has_room_now(self, request: Vector, count: int) -> bool:
        """Return False if so many tasks that request this together cannot all fit now.

        O(dimensions), and O(nodes) after somebody has taken something.
        """
        free = self._free_now
        if free is None:
            free = self._free_now = [0] * len(request)
            for profile in self.of_node:
                for dimension, amount in enumerate(profile.free[0]):
                    if amount > 0:
                        free[dimension] += amount
        # Amounts of less than EPSILON do not matter, neither to a task nor to a node.
        spare = count + len(self.of_node)
        return all(wanted - there <= spare for wanted, there in zip(request, free, strict=True))

    def fitting_now(self, request: Vector) -> list[int]:
        """Return the indices of the nodes where a request fits now, in node order.

        O(nodes) for a request that is new.
        """
        known = self._fitting_now.get(request)
        if known is None:
            known = self._fitting_now[request] = [
                index
                for index, profile in enumerate(self.of_node)
                if fits(request, profile.free[0])
            ]
        return known

    def fits(self, task: TaskState, node: NodeState, start: float) -> bool:
        """Return whether a task fits on a node from `start` until its expected end."""
        end = self.end_of(task, start)
        return self.of_node[node.index].fits(task.init_resreq, start, end)

    def take(self, task: TaskState, node: NodeState, start: float) -> None:
        """Let a task hold what it needs on a node from `start` until its expected end."""
        profile = self.of_node[node.index]
        profile.take(task.resreq, start, self.end_of(task, start))
        self._changed(profile, node, start)

    def put_back(self, task: TaskState, node: NodeState, start: float) -> None:
        """Undo `take`."""
        profile = self.of_node[node.index]
        profile.put_back(task.resreq, start, self.end_of(task, start))
        self._changed(profile, node, start)

    def take_all(self, places: Places) -> bool:
        """Take all places, or none of them if one does not fit; return whether they all do."""
        taken: list[tuple[TaskState, NodeState]] = []
        for task, node in places.of:
            if not self.fits(task, node, places.start):
                self.put_all_back(Places(places.start, tuple(taken)))
                return False
            self.take(task, node, places.start)
            taken.append((task, node))
        return True

    def put_all_back(self, places: Places) -> None:
        """Undo `take_all`."""
        for task, node in places.of:
            self.put_back(task, node, places.start)

    def moments(self, latest: float) -> list[float]:
        """Return the moments after now, up to a latest, at which something changes, ascending."""
        found = {time for profile in self.of_node for time in profile.changes()}
        return sorted(time for time in found if time <= latest)

    def _changed(self, profile: NodeProfile, node: NodeState, start: float) -> None:
        if start == NOW:
            self._free_now = None
            free = profile.free[0]
            for request, known in self._fitting_now.items():
                place = bisect_left(known, node.index)
                was_there = place < len(known) and known[place] == node.index
                if was_there != fits(request, free):
                    if was_there:
                        del known[place]
                    else:
                        known.insert(place, node.index)
        if profile.takes:
            self.limited.add(node.index)
        else:
            self.limited.discard(node.index)
