"""A result agrees with its snapshot and with itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from batchsched import JobInfo, TaskStatus
from batchsched.testing import Cycle, invariant
from batchsched.testing.invariants.cycle import PLACED, WAITING

_FROM_WAITING = (*WAITING, *PLACED)


@invariant
def decisions(cycle: Cycle) -> Iterator[str]:
    """The outcomes include every decision, and no task changed without a decision.

    Each job of the snapshot is either in the session or left out; only waiting tasks are placed,
    only Running ones are evicted, no other task changes, and a task is bound at most once. Only
    backfill's strategy `release` marks tasks as backfill. Only what waited is taken back.
    """
    result = cycle.result
    for uid in cycle.jobs:
        if (uid in result.jobs) == (uid in result.left_out):
            yield f"expected job {uid!r} to be either in the session or left out"
    for uid in sorted({*result.jobs, *result.left_out} - cycle.jobs.keys()):
        yield f"job {uid!r} has an outcome or was left out, but is not in the snapshot"
    expected = {t.uid for job in cycle.jobs.values() if cycle.is_in_session(job) for t in job.tasks}
    for uid in sorted(expected ^ result.tasks.keys()):
        yield f"task {uid!r} must have an outcome if, and only if, its job was in the session"
        return
    for job in cycle.jobs.values():
        yield from _moves(cycle, job)
    yield from _binds(cycle)
    yield from _evictions(cycle)
    yield from _taken_back(cycle)


def _moves(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    evicted = {eviction.task_uid for eviction in cycle.result.evictions}
    for task in job.tasks:
        before, after = cycle.before(task.uid), cycle.after[task.uid]
        moved = f"task {task.uid!r} was {before.status.value} and is {after.status.value}"
        if before.status in WAITING:
            if after.status is not TaskStatus.PENDING and cycle.holds_on(job, task):
                yield f"{moved}, although it is held"
            if after.status not in _FROM_WAITING:
                yield f"{moved}, which no decision can cause"
            elif after.status is TaskStatus.PENDING:
                if after.node_name is not None:
                    yield f"{moved}, but on node {after.node_name!r}"
            elif after.node_name not in cycle.nodes:
                yield f"{moved} on {after.node_name!r}, which is not a node"
            if after.is_backfill and not before.is_backfill and after.status not in PLACED:
                yield f"{moved}, but is marked as backfill now"
            elif after.is_backfill is not before.is_backfill:
                yield from _marked(cycle, task.uid, moved)
            continue
        if task.uid in evicted:
            continue
        if before != after:
            yield f"{moved} on {after.node_name!r}; it was not evicted, so it must not change"


def _marked(cycle: Cycle, uid: str, moved: str) -> Iterator[str]:
    after = cycle.after[uid]
    if not after.is_backfill:
        yield f"{moved}, but has lost its backfill mark"
        return
    may_be = "release" in cycle.policy.backfill_strategies() or not cycle.policy.knows_actions
    if not may_be or after.status not in (TaskStatus.ALLOCATED, TaskStatus.BINDING):
        yield f"{moved}, but is marked as backfill now, which no action can do"


def _binds(cycle: Cycle) -> Iterator[str]:
    bound = Counter(bind.task_uid for bind in cycle.result.binds)
    for uid, times in bound.items():
        if times > 1:
            yield f"task {uid!r} is bound {times} times"
    for bind in cycle.result.binds:
        outcome = cycle.after.get(bind.task_uid)
        if outcome is None:
            yield f"task {bind.task_uid!r} is bound, but not in the snapshot"
            continue
        said = (TaskStatus.BINDING, bind.node_name, bind.is_backfill)
        if (outcome.status, outcome.node_name, outcome.is_backfill) != said:
            yield (
                f"task {bind.task_uid!r} is bound to {bind.node_name!r}, but its outcome is "
                f"{outcome.status.value} on {outcome.node_name!r}"
            )
    for uid in cycle.new:
        if cycle.after[uid].status is TaskStatus.BINDING and uid not in bound:
            yield f"task {uid!r} is Binding, but there is no bind for it"


def _evictions(cycle: Cycle) -> Iterator[str]:
    seen: set[str] = set()
    for eviction in cycle.result.evictions:
        uid = eviction.task_uid
        if uid in seen:
            yield f"task {uid!r} is evicted twice"
        seen.add(uid)
        if uid not in cycle.tasks:
            yield f"task {uid!r} is evicted, but not in the snapshot"
            continue
        before, after = cycle.before(uid), cycle.after[uid]
        if before.status is not TaskStatus.RUNNING or before.node_name != eviction.node_name:
            yield (
                f"task {uid!r} is evicted from {eviction.node_name!r}, but it was "
                f"{before.status.value} on {before.node_name!r}"
            )
        elif after.status is not TaskStatus.RELEASING or after.node_name != eviction.node_name:
            yield (
                f"task {uid!r} is evicted from {eviction.node_name!r}, but its outcome is "
                f"{after.status.value} on {after.node_name!r}"
            )
        elif after.is_backfill is not before.is_backfill:
            yield f"task {uid!r} is evicted, but its backfill mark changed"


def _taken_back(cycle: Cycle) -> Iterator[str]:
    taken = {each.task_uid for each in cycle.result.taken_back}
    for uid in sorted(taken):
        if uid not in cycle.tasks or not cycle.was_waiting(uid):
            yield f"task {uid!r} loses its place, but did not wait for one in the snapshot"
