"""The result agrees with the snapshot and with itself, and does not depend on the order given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar

from attrs import evolve

from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo, TaskStatus
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot, common_of
from batchsched.scheduler import Scheduler
from batchsched.testing.invariants.cycle import PLACED, WAITING, Cycle
from batchsched.testing.invariants.invariant import invariant

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


ValueT = TypeVar("ValueT")


@invariant
def permutation(cycle: Cycle) -> Iterator[str]:
    """The result is the same if the input is given in another order.

    This schedules the snapshot again with nodes, queues, jobs, tasks, labels, scalars, taints,
    tolerations and ports in reverse order. If the result differs, it schedules the original
    snapshot again, to find out whether the order is the cause: a policy may decide differently each
    time, and the result may come from another scheduler.
    """
    scheduler = Scheduler(cycle.config, cycle.registry)
    other = scheduler.schedule(permuted(cycle.snapshot))
    if other == cycle.result:
        return
    again = scheduler.schedule(cycle.snapshot)
    if again == cycle.result:
        yield from _differences("given in reverse order", other, cycle.result)
    else:
        yield from _differences("scheduled again", again, cycle.result)


def _differences(how: str, other: CycleResult, result: CycleResult) -> Iterator[str]:
    expected, got = result.to_dict(), other.to_dict()
    for name, content in expected.items():
        if got[name] != content:
            yield f"{how}, {name} is {got[name]}; it was {content}"


def permuted(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with all its parts in reverse order."""
    return Snapshot(
        nodes=[_node(node) for node in reversed(snapshot.nodes)],
        jobs=[_job(job) for job in reversed(snapshot.jobs)],
        queues=tuple(reversed(snapshot.queues)),
        other_tasks=[_task(task) for task in reversed(snapshot.other_tasks)],
        topologies=tuple(reversed(snapshot.topologies)),
        now=snapshot.now,
        **common_of(snapshot),
    )


def _reversed(content: Mapping[str, ValueT]) -> dict[str, ValueT]:
    return dict(reversed(list(content.items())))


def _resource(resource: Resource) -> Resource:
    return evolve(resource, scalars=_reversed(resource.scalars))


def _node(node: NodeInfo) -> NodeInfo:
    return evolve(
        node,
        allocatable=_resource(node.allocatable),
        labels=_reversed(node.labels),
        taints=tuple(reversed(node.taints)),
        conditions=_reversed(node.conditions),
    )


def _job(job: JobInfo) -> JobInfo:
    return evolve(job, tasks=[_task(task) for task in reversed(job.tasks)])


def _task(task: TaskInfo) -> TaskInfo:
    return evolve(
        task,
        resreq=_resource(task.resreq),
        init_resreq=None if task.init_resreq is None else _resource(task.init_resreq),
        labels=_reversed(task.labels),
        node_selector=_reversed(task.node_selector),
        tolerations=tuple(reversed(task.tolerations)),
        host_ports=tuple(reversed(task.host_ports)),
    )
