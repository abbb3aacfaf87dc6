"""What passing time makes of queues: how much they and their users have used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from attrs import evolve

from batchsched.model.cluster import (
    JobInfo,
    Queue,
    TaskInfo,
)
from batchsched.model.resources import Amount, Resource, decayed, exact
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.snapshot import (
    queue_cycles,
    queue_problems,
)
from batchsched.transition.content import Content

_NOTHING = Resource()

_Held = dict[tuple[str, str], dict[str, int]]
"""By queue and user, the amounts of each dimension, exact."""


def queues_after(
    before: Snapshot,
    result: CycleResult | None,
    given: Sequence[Queue] | None,
    *,
    now: float,
) -> Sequence[Queue]:
    """Return the queues at the time `now`: those given, or else those of the snapshot.

    In between, tasks hold their resources as the decisions of the cycle say. Given queues are
    updated if their use has not been changed by the caller; a changed use is taken as of `now`.
    O(tasks), if any queue has a half-life.
    """
    if given is not None and (
        any(next(queue_problems(queue), None) for queue in given) or any(queue_cycles(given))
    ):
        return given  # the snapshot reports the fault
    queues = before.queues if given is None else given
    tasks = ((job, task) for job in before.jobs for task in job.tasks)
    after = _passed(queues, tasks, result, now - before.now)
    if given is None:
        return after
    were = {queue.name: queue for queue in before.queues}
    return [
        new if _is_same(queue, were.get(queue.name)) else queue
        for queue, new in zip(queues, after, strict=True)
    ]


def let_use_pass(content: Content, now: float, result: CycleResult | None = None) -> None:
    """Update the use of the queues in `content` to a later time. O(tasks on nodes).

    Args:
        content: the tables, whose time is still the earlier one.
        now: the later time.
        result: the result of a cycle that has taken effect and is not in the tables yet.

    """
    queues = list(content.queues.values())
    after = _passed(queues, _on_nodes(content, result), result, now - content.now)
    for before, queue in zip(queues, after, strict=True):
        if queue is not before:
            content.put("queues", queue.name, queue)


def _on_nodes(content: Content, result: CycleResult | None) -> Iterator[tuple[JobInfo, TaskInfo]]:
    """Yield the tasks of jobs that are on nodes, or that a result binds, with their jobs."""
    uids = {uid for there in content.on_node.values() for uid in there}
    if result is not None:
        uids.update(bind.task_uid for bind in result.binds)
    for uid in sorted(uids):
        if uid in content.owner:
            yield content.jobs[content.owner[uid]], content.tasks[uid]


_use_of = attrgetter("usage", "usage_by_user", "usage_half_life")


def _is_same(queue: Queue, before: Queue | None) -> bool:
    return before is not None and _use_of(queue) == _use_of(before)


def _held(tasks: Iterable[tuple[JobInfo, TaskInfo]], result: CycleResult | None) -> _Held:
    """Return what is charged to queues: without backfill tasks and leaving tasks."""
    bound: dict[str, bool] = {}
    evicted: set[str] = set()
    if result is not None:
        bound = {bind.task_uid: bind.is_backfill for bind in result.binds}
        evicted = {eviction.task_uid for eviction in result.evictions}
    held: _Held = {}
    for job, task in tasks:
        is_backfill = bound.get(task.uid)
        if is_backfill is None:
            if not task.status.occupies or task.uid in evicted:
                continue
            is_backfill = task.is_backfill
        if is_backfill:
            continue
        amounts = held.setdefault((job.queue, job.user), {})
        for dimension, amount in task.resreq.dimensions():
            if amount:
                amounts[dimension] = amounts.get(dimension, 0) + exact(amount)
    return held


def _passed(
    queues: Sequence[Queue],
    tasks: Iterable[tuple[JobInfo, TaskInfo]],
    result: CycleResult | None,
    seconds: float,
) -> Sequence[Queue]:
    """Return the queues after these tasks have been there for some seconds."""
    if seconds <= 0 or not any(queue.usage_half_life for queue in queues):
        return queues
    parents = {queue.name: queue.parent for queue in queues}
    by_queue: dict[str, dict[str, dict[str, int]]] = {}
    together: dict[str, dict[str, int]] = {}
    for (name, user), amounts in _held(tasks, result).items():
        by_queue.setdefault(name, {})[user] = amounts
        above: str | None = name
        while above is not None and above in parents:
            total = together.setdefault(above, {})
            for dimension, amount in amounts.items():
                total[dimension] = total.get(dimension, 0) + amount
            above = parents[above]
    return [
        _passed_alone(queue, together.get(queue.name, {}), by_queue.get(queue.name, {}), seconds)
        for queue in queues
    ]


def _passed_alone(
    queue: Queue,
    held: Mapping[str, int],
    by_user: Mapping[str, Mapping[str, int]],
    seconds: float,
) -> Queue:
    half_life = queue.usage_half_life
    if not half_life or not (held or by_user or queue.usage_by_user or queue.usage != _NOTHING):
        return queue
    users = {
        user: decayed(
            queue.usage_by_user.get(user, _NOTHING),
            _resource(by_user.get(user, {})),
            seconds,
            half_life=half_life,
        )
        for user in sorted({*queue.usage_by_user, *by_user})
    }
    return evolve(
        queue,
        usage=decayed(queue.usage, _resource(held), seconds, half_life=half_life),
        usage_by_user={user: used for user, used in users.items() if used != _NOTHING},
    )


def _resource(amounts: Mapping[str, int]) -> Resource:
    scalars: dict[str, Amount] = {
        name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")
    }
    return Resource(
        milli_cpu=amounts.get("cpu", 0), memory=amounts.get("memory", 0), scalars=scalars
    )
