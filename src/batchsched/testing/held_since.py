"""The usage of queues after a cycle, computed queue by queue and task by task."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from batchsched.model.cluster import Queue
from batchsched.model.resources import Resource, decayed, exact
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot

__all__ = ["used_since"]

_NOTHING = Resource()


def used_since(snapshot: Snapshot, result: CycleResult, now: float) -> Iterator[Queue]:
    """Yield the queues at a later time, if nothing but the decisions happened.

    O(queues x tasks).
    """
    for queue in snapshot.queues:
        half_life = queue.usage_half_life
        if half_life is None or now == snapshot.now:
            yield queue
            continue
        users = {job.user for job in snapshot.jobs if job.queue == queue.name}

        def after(
            usage: Resource, user: str | None, within: str = queue.name, half: float = half_life
        ) -> Resource:
            held = _held(snapshot, result, within, user)
            return decayed(usage, held, now - snapshot.now, half_life=half)

        by_user = {
            user: after(queue.usage_by_user.get(user, _NOTHING), user)
            for user in users | set(queue.usage_by_user)
        }
        yield evolve(
            queue,
            usage=after(queue.usage, None),
            usage_by_user={user: used for user, used in by_user.items() if used != _NOTHING},
        )


def _held(snapshot: Snapshot, result: CycleResult, within: str, user: str | None) -> Resource:
    """Return what jobs in and below a queue hold once decisions have taken effect."""
    binds = {bind.task_uid: bind for bind in result.binds}
    evicted = {eviction.task_uid for eviction in result.evictions}
    parents = {queue.name: queue.parent for queue in snapshot.queues}
    totals: dict[str, int] = {}
    for job in snapshot.jobs:
        path: list[str | None] = [job.queue]
        while path[-1] is not None:
            path.append(parents.get(path[-1]))
        if within not in path or (user is not None and (job.queue, job.user) != (within, user)):
            continue
        for task in job.tasks:
            if task.uid in binds:
                counts = not binds[task.uid].is_backfill
            else:
                is_there = task.status.occupies and task.uid not in evicted
                counts = is_there and not task.is_backfill
            if counts:
                for dimension, amount in task.resreq.dimensions():
                    totals[dimension] = totals.get(dimension, 0) + exact(amount)
    return Resource(milli_cpu=totals.pop("cpu", 0), memory=totals.pop("memory", 0), scalars=totals)
