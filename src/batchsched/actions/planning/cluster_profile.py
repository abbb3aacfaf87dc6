"""The free resources of all nodes over time, and what planned jobs take of them."""

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
    """The time at which the tasks of a need start together, and their nodes."""

    start: float
    """A time of the profile: `NOW`, the time of the cycle (meaning "at once"), or a later time."""
    of: tuple[tuple[TaskState, NodeState], ...]


class ClusterProfile:
    """The profiles of all nodes, reduced by the places that jobs take."""

    def __init__(self, nodes: Sequence[NodeState], now: float) -> None:
        self.now = now
        self.of_node: list[NodeProfile] = [profile_of(node, now) for node in nodes]
        """The profile of each node, by the index of the node."""
        self.limited: set[int] = set()
        """The indices of the nodes where plans take resources."""
        self._fitting_now: dict[Vector, list[int]] = {}
        self._free_now: list[int] | None = None
        """What is free now on all nodes together, by dimension; None: not computed yet."""

    def end_of(self, task: TaskState, start: float) -> float:
        """Return the expected end of a task that starts at a time of the profile."""
        return end_of_run(start, estimate_of(task), self.now)

    def has_room_now(self, request: Vector, count: int) -> bool:
        """Return False if `count` tasks that together request this cannot all fit now.

        O(dimensions); O(nodes) if anything was taken since the last call.
        """
        free = self._free_now
        if free is None:
            free = self._free_now = [0] * len(request)
            for profile in self.of_node:
                for dimension, amount in enumerate(profile.free[0]):
                    if amount > 0:
                        free[dimension] += amount
        # Amounts below EPSILON are ignored, both for tasks and for nodes.
        spare = count + len(self.of_node)
        return all(wanted - there <= spare for wanted, there in zip(request, free, strict=True))

    def fitting_now(self, request: Vector) -> list[int]:
        """Return the indices of the nodes where a request fits now, in node order.

        O(nodes) for a request that was not seen before.
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
        """Take what a task holds from a node's profile, from `start` until its expected end."""
        profile = self.of_node[node.index]
        profile.take(task.resreq, start, self.end_of(task, start))
        self._changed(profile, node, start)

    def put_back(self, task: TaskState, node: NodeState, start: float) -> None:
        """Undo `take`."""
        profile = self.of_node[node.index]
        profile.put_back(task.resreq, start, self.end_of(task, start))
        self._changed(profile, node, start)

    def take_all(self, places: Places) -> bool:
        """Take all places, or none if one of them does not fit; return whether all were taken."""
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
        """Return the times after now, up to `latest`, at which something changes, ascending."""
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
