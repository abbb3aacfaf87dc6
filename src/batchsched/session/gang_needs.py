"""Finds gangs that could not start in any state of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import floor

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import GangNeed, KindNeed
from batchsched.model.resources import EPSILON, Resource
from batchsched.session.session import Session
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import Vector

__all__ = ["GangNeeds"]

_CANNOT_COUNT = (
    TaskStatus.SUCCEEDED,
    TaskStatus.FAILED,
    TaskStatus.RELEASING,
    TaskStatus.UNKNOWN,
)
_Kind = tuple[Vector, Vector]
"""The request of a task, and its request to start."""
MOST_ROOMS = 10_000
"""The most entries of the cache of how many tasks of a kind fit on empty nodes."""


class GangNeeds:
    """Finds gangs that are too large even for an empty cluster.

    Every gang found is too large, but not every such gang is found: each kind of task is checked
    by itself, and each dimension of all tasks together. Labels and taints are ignored.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._room = session.state.gang_room
        self._known: dict[JobState, GangNeed | None] = {}
        self._lasting = session.state.gang_needs
        self._changed = set(session.ledger.log.jobs)
        self._largest: Vector | None = None

    def of(self, job: JobState) -> GangNeed | None:
        """Return the need of a job if it can never start as a gang, else None.

        O(tasks x dimensions), plus O(nodes) for each kind of task that does not fit. On a live
        cluster, O(1) for a job that has not changed since the last time.
        """
        # The changes of a job in this cycle are undone before the next one: do not keep them.
        known = self._known if job in self._changed else self._lasting
        if job not in known:
            known[job] = self._find(job)
        need = known[job]
        return None if need is None or self._session.job_ready(job) else need

    def _find(self, job: JobState) -> GangNeed | None:
        needed = job.min_available - job.count(TaskStatus.SUCCEEDED)
        if needed <= 1 or job.lacks() <= 0:
            return None
        tasks = [task for task in job.tasks if task.status not in _CANNOT_COUNT]
        if len(tasks) < needed:
            return None  # it lacks tasks, not resources
        kinds = Counter((task.resreq, task.init_resreq) for task in tasks)
        spare = len(tasks) - needed
        least = {kind: count - spare for kind, count in kinds.items() if count > spare}
        fit = {kind: self._room_for(kind, count) for kind, count in least.items()}
        if len(kinds) == 1:
            together: Vector = tuple([amount * needed for amount in tasks[0].resreq])
        else:
            together = _least_together(tasks, needed)
        there = self._session.ledger.cluster
        if all(fit[kind] >= count for kind, count in least.items()) and not any(
            wanted - has >= EPSILON for wanted, has in zip(together, there, strict=True)
        ):
            return None
        names = [
            name
            for name, amount in zip(self._session.ledger.dimensions.names, together, strict=True)
            if amount
        ]
        resource = self._session.ledger.dimensions.resource
        return GangNeed(
            tasks=needed,
            request=_only(resource(together), names),
            kinds=tuple(
                KindNeed(count=count, request=resource(kind[1]), room=fit[kind])
                for kind, count in sorted(least.items())
            ),
            cluster=_only(resource(there), names),
            largest=_only(resource(self._most()), names),
        )

    def _room_for(self, kind: _Kind, wanted: int) -> int:
        """Return how many tasks of a kind empty nodes hold at once, at most `wanted`."""
        known = self._room.get((kind, wanted))
        if known is None:
            known = 0
            for node in self._session.nodes:
                known += _room_on(node, kind)
                if known >= wanted:
                    known = wanted
                    break
            if len(self._room) >= MOST_ROOMS:
                self._room.clear()
            self._room[kind, wanted] = known
        return known

    def _most(self) -> Vector:
        if self._largest is None:
            zero = self._session.ledger.dimensions.zero
            columns = zip(zero, *(node.allocatable for node in self._session.nodes), strict=True)
            self._largest = tuple(max(column) for column in columns)
        return self._largest


def _room_on(node: NodeState, kind: _Kind) -> int:
    """Return how many tasks of a kind fit on an empty node.

    They start one by one, and the last one must meet its request to start.
    """
    held, to_start = kind
    room: int | None = node.info.max_tasks
    for has, holds, needs in zip(node.allocatable, held, to_start, strict=True):
        if needs - has >= EPSILON:
            return 0
        if holds >= EPSILON:
            count = floor((has - needs + EPSILON) / holds) + 1
            room = count if room is None else min(room, count)
    # Any number of tasks without a request fit; no gang is larger than this.
    return 1 << 62 if room is None else room


def _least_together(tasks: Iterable[TaskState], count: int) -> Vector:
    """Return the least that `count` tasks hold together, for each dimension independently."""
    columns = zip(*(task.resreq for task in tasks), strict=True)
    return tuple(sum(sorted(column)[:count]) for column in columns)


def _only(resource: Resource, names: Iterable[str]) -> Resource:
    """Return the resource restricted to these dimensions."""
    kept = set(names)
    return Resource(
        milli_cpu=resource.milli_cpu if "cpu" in kept else 0,
        memory=resource.memory if "memory" in kept else 0,
        scalars={name: amount for name, amount in resource.scalars.items() if name in kept},
    )
