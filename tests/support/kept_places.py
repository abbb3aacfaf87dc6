"""What a result lists of promises and reservations, and for whom nodes are reserved."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from batchsched import JobInfo, Promise, TaskStatus
from batchsched.testing import Cycle, invariant
from batchsched.testing.invariants.amounts import add, fits, total
from batchsched.testing.invariants.cycle import OCCUPYING
from batchsched.testing.invariants.nodes import reserved_on
from batchsched.testing.invariants.placements import refusals_ahead


@invariant
def promises(cycle: Cycle) -> Iterator[str]:
    """A result lists its promises and reservations, those that ended, and why tasks are pending."""
    result = cycle.result
    for name, status, listed in (
        ("pipelined", TaskStatus.PIPELINED, result.pipelined),
        ("conditional", TaskStatus.CONDITIONAL, result.conditional),
        ("reserved", TaskStatus.RESERVED, result.reserved),
    ):
        expected = tuple(
            Promise(task_uid=uid, node_name=outcome.node_name or "")
            for uid, outcome in sorted(result.tasks.items())
            if outcome.status is status
        )
        if listed != expected:
            yield f"{name} must list the tasks that are {status.value}: {list(expected)}"
    dropped = {
        Promise(task_uid=each.task_uid, node_name=each.node_name)
        for each in result.dropped_reservations
    }
    for uid, task in sorted(cycle.tasks.items()):
        if task.status is TaskStatus.RESERVED:
            promise = Promise(task_uid=uid, node_name=task.node_name or "")
            # After its reservation was dropped, a task may still have been placed there, or
            # reserved again.
            ended = cycle.after[uid].node_name != task.node_name
            # Reservations that custom actions drop are not listed.
            if ended and promise not in dropped and cycle.policy.knows_actions:
                yield f"task {uid!r}: dropped_reservations must list its reservation, which ended"
            dropped.discard(promise)
    for promise in dropped:
        yield f"dropped_reservations lists {promise}, which the snapshot does not have"
    yield from _kept_promises(cycle)
    yield from _dropped_promises(cycle)
    pending = {uid for uid in cycle.job_of if cycle.after[uid].status is TaskStatus.PENDING}
    for uid in sorted(pending ^ result.pending.keys()):
        yield f"task {uid!r} must have a reason if, and only if, it was left pending"


def _kept_promises(cycle: Cycle) -> Iterator[str]:
    """Yield faults if places of claimants' jobs are not kept, or places of other jobs are."""
    result, policy = cycle.result, cycle.policy
    claimants = {eviction.for_task_uid for eviction in result.evictions}
    may_be: set[Promise] = set()
    must_be: set[Promise] = set()
    for job in cycle.snapshot.jobs:
        places = {
            Promise(task_uid=task.uid, node_name=cycle.after[task.uid].node_name or "")
            for task in job.tasks
            if cycle.after[task.uid].status in (TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
        }
        if any(t.uid in claimants for t in job.tasks):
            coming = cycle.groups(job, *OCCUPYING, TaskStatus.SUCCEEDED, TaskStatus.PIPELINED)
            may_be |= places
            if coming.can_start() and policy.has("gang", "enableJobPipelined"):
                must_be |= places
        elif any(cycle.before(t.uid).status is TaskStatus.PIPELINED for t in job.tasks):
            may_be |= places
    yield from _kept_in_vain(cycle)
    kept = result.kept_promises
    if list(kept) != sorted(set(kept), key=lambda promise: promise.task_uid):
        yield "kept_promises must list each place once, in order of task UID"
    for promise in kept:
        if promise not in may_be:
            yield f"kept_promises lists {promise}, which is not a place of a claimant's job"
    if policy.knows_plugins:
        for promise in sorted(must_be - set(kept), key=lambda promise: promise.task_uid):
            yield f"kept_promises must list {promise}: tasks were evicted for its job"


def _kept_in_vain(cycle: Cycle) -> Iterator[str]:
    """Yield promises that are older than what they wait for.

    Nothing leaves their nodes, and they could not start beside the other promises of their jobs; or
    nothing leaves any node, and theirs will refuse them.
    """
    leaving = {
        place.node_name
        for uid in cycle.tasks
        for place in (cycle.before(uid), cycle.after[uid])
        if place.status is TaskStatus.RELEASING
    }
    for job in cycle.snapshot.jobs:
        for task in job.tasks:
            where, uid = task.node_name, task.uid
            if task.status is not TaskStatus.PIPELINED or where in leaving:
                continue
            if cycle.after[uid] != cycle.before(uid) or where not in cycle.nodes:
                continue
            beside = total(
                cycle.start_request[other.uid]
                for other in job.tasks
                if other is not task and cycle.before(other.uid) == cycle.before(uid)
            )
            if not fits(add(cycle.start_request[uid], beside), cycle.accounts_before[where].idle):
                yield f"task {uid!r} keeps its promise on {where!r}, where nothing leaves any more"
            if not (leaving or cycle.made_to_leave):
                for problem in refusals_ahead(cycle, uid):
                    yield f"{problem}, but it keeps its promise"


def _dropped_promises(cycle: Cycle) -> Iterator[str]:
    expected: list[tuple[str, str | None]] = []
    for uid, task in sorted(cycle.tasks.items()):
        if task.status is TaskStatus.PIPELINED:
            after = cycle.after[uid]
            is_there = after.node_name == task.node_name
            if not (is_there and after.status in (TaskStatus.BINDING, TaskStatus.PIPELINED)):
                expected.append((uid, task.node_name))
    if [(each.task_uid, each.node_name) for each in cycle.result.dropped_promises] != expected:
        yield f"dropped_promises must list the promises that ended unused: {expected}"


@invariant
def starving(cycle: Cycle) -> Iterator[str]:
    """Nodes are reserved only for jobs that have waited long enough, and not too many."""
    if not cycle.policy.knows_actions:
        return
    policy, reserved = cycle.policy, reserved_on(cycle)
    by_action = [
        [t for action in policy.actions(name) for t in policy.thresholds_of(action)]
        for name in ("allocate", "reserve")
    ]
    thresholds = [*by_action[0], *by_action[1]]
    new_nodes: list[str] = []

    def had_any(job: JobInfo) -> bool:
        """Return whether the job had a node kept before: then it is moved, however young."""
        return any(task.status is TaskStatus.RESERVED for task in job.tasks)

    for name, uids in reserved.items():
        for uid in uids:
            if cycle.before(uid) == cycle.after[uid]:
                continue
            job = cycle.job_of[uid]
            age = cycle.snapshot.now - job.creation_time
            if not thresholds:
                yield f"task {uid!r} is Reserved on {name!r}, but no action reserves"
            elif age <= min(thresholds) and not had_any(job):
                yield (
                    f"task {uid!r} is Reserved on {name!r}, but its job has waited {age} "
                    f"seconds, and starves after {min(thresholds)}"
                )
        was_reserved = any(
            task.status is TaskStatus.RESERVED and task.node_name == name
            for task in cycle.tasks.values()
        )
        if uids and not was_reserved:
            new_nodes.append(name)
    percentages = list(map(float, policy.given("reserve", "reservedNodePercent", 50)))
    if new_nodes and percentages and not by_action[0]:
        limit = ceil(max(percentages) * len(cycle.nodes) / 100)
        count = sum(bool(uids) for uids in reserved.values())
        # Places where a gang could start now are kept in addition, and may move to other nodes.
        had = {t.node_name for t in cycle.tasks.values() if t.status is TaskStatus.RESERVED}
        if count > max(limit, len(had)):
            yield (
                f"expected at most {limit} of {len(cycle.nodes)} nodes to be reserved, got "
                f"{count}; new in this cycle: {', '.join(new_nodes)}"
            )
