"""What nodes hold: no more than they have, room for what starts, and reservations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchsched.model.cluster import TaskStatus
from batchsched.testing.invariants.amounts import (
    EPS,
    Number,
    add,
    fits,
    is_nothing,
    of,
    shown,
    total,
    wanting,
)
from batchsched.testing.invariants.cycle import HOLDING, Cycle
from batchsched.testing.invariants.invariant import invariant


@invariant
def capacity(cycle: Cycle) -> Iterator[str]:
    """No node is overcommitted, now or in the future.

    No node's `idle`, `future_idle`, `accessible` or `eventual` amounts are negative; if they were
    before the cycle, because the node was overcommitted, the cycle did not lower them.
    Reservations are not larger than their node. No task was placed on a node that had its maximum
    of tasks, unless it is promised the place of a task that is leaving.
    """
    new = set(cycle.new)
    for name, accounts in cycle.accounts.items():
        for account, amounts in accounts.derived.items():
            for dimension, amount in sorted(amounts.items()):
                if amount <= -EPS and amount <= _least(cycle, name, account, dimension) - EPS:
                    yield (
                        f"node {name!r} is overcommitted: its {account} is "
                        f"{shown({dimension: amount})}; on it are {_tasks_on(cycle, name)}"
                    )
        for dimension in wanting(accounts.reserved, of(cycle.nodes[name].allocatable)):
            yield (
                f"node {name!r}: more {dimension} is reserved than the node has; on it are "
                f"{_tasks_on(cycle, name)}"
            )
        limit = cycle.nodes[name].max_tasks
        passing = {TaskStatus.RESERVED}
        if cycle.policy.cures:
            passing.add(TaskStatus.RELEASING)
        there = [uid for uid in cycle.on_node[name] if cycle.after[uid].status not in passing]
        came = [uid for uid in there if uid in new]
        if (
            limit is not None
            and len(there) > limit
            and came
            and cycle.policy.has("predicates", "enablePredicate")
        ):
            yield (
                f"node {name!r}: expected at most {limit} tasks, got {len(there)}; "
                f"{', '.join(came)} came in this cycle"
            )


def _least(cycle: Cycle, name: str, account: str, dimension: str) -> Number:
    """Return an account before the cycle if it was negative, else 0.

    Minus what tasks with negligible requests hold, because those are placed in any case.
    """
    before = cycle.accounts_before[name].derived[account].get(dimension, 0)
    tiny = sum(
        amount
        for uid in cycle.on_node[name]
        if (amount := cycle.resreq[uid].get(dimension, 0)) < EPS
    )
    return min(before, 0) - tiny


def _tasks_on(cycle: Cycle, name: str) -> str:
    return "; ".join(
        f"{uid} {cycle.after[uid].status.value}"
        f"{' (backfill)' if cycle.after[uid].is_backfill else ''}: {shown(cycle.resreq[uid])}"
        for uid in cycle.on_node[name]
    )


_STARTS = (TaskStatus.ALLOCATED, TaskStatus.BINDING)


@invariant
def starts(cycle: Cycle) -> Iterator[str]:
    """Every task that was placed had room for what it needs to start.

    That may be more than it holds. The order in which the tasks of a node were placed is unknown,
    but there must be one in which each of them fits into what is idle in the end plus what later
    ones hold. During a cycle only resources placed in it can become idle, so this holds for every
    action.
    """
    for name, on_node in cycle.on_node.items():
        left = [uid for uid in on_node if cycle.is_new(uid) and cycle.after[uid].status in _STARTS]
        idle = cycle.accounts[name].idle
        # From the last to the first: remove any task that can have been the last one.
        while left:
            last = next(
                (
                    uid
                    for uid in left
                    if fits(cycle.start_request[uid], add(idle, cycle.resreq[uid]))
                ),
                None,
            )
            if last is None:
                needs = ", ".join(f"{uid!r}: {shown(cycle.start_request[uid])}" for uid in left)
                yield (
                    f"node {name!r} has {shown(idle)} idle besides what they hold, and these "
                    f"cannot have started there in any order, by what they need to start: {needs}"
                )
                break
            left.remove(last)
            idle = add(idle, cycle.resreq[last])


_PROMISED = (TaskStatus.PIPELINED, TaskStatus.CONDITIONAL)
_KEPT = (TaskStatus.RESERVED, TaskStatus.PIPELINED)
"""Statuses in which a task has had a node of its own since the last cycle."""


@invariant
def reservations(cycle: Cycle) -> Iterator[str]:
    """Closed nodes are respected.

    On a node whose reservation was in the snapshot and still exists, no task with a request was
    placed except those for which the node was reserved or promised before. On any reserved node,
    nothing is promised to other jobs.
    """
    if not cycle.policy.knows_actions:
        return
    for name, uids in reserved_on(cycle).items():
        if not _is_closed(cycle, uids):
            continue
        stood = [uid for uid in uids if _stood(cycle, uid, name)]
        for _, problem in _intruders(cycle, name, stood):
            yield problem
        holders = {cycle.job_of[uid].uid for uid in uids}
        for uid, what, _ in _came(cycle, name):
            if cycle.after[uid].status in _PROMISED and holders - {cycle.job_of[uid].uid}:
                yield f"{what}, which is reserved for {', '.join(uids)} of another job"


@invariant
def closed_nodes_stay_closed(cycle: Cycle) -> Iterator[str]:
    """Nothing is placed on a node that is reserved all the time for a task of another job.

    Checked only where plugin gang decides when jobs are ready.
    """
    for name, uids in reserved_on(cycle).items():
        stood = [uid for uid in uids if _stood(cycle, uid, name)]
        holders = {cycle.job_of[uid].uid for uid in stood}
        for uid, problem in _intruders(cycle, name, stood):
            if cycle.job_of[uid].uid not in holders:
                yield problem


def _intruders(cycle: Cycle, name: str, stood: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the tasks that came to a node though tasks stood reserved on it, and what is wrong."""
    for uid, what, was_its_own in _came(cycle, name) if _is_closed(cycle, stood) else ():
        if not (was_its_own or _may_have_reserved(cycle, uid)):
            yield uid, f"{what}, which is reserved for {', '.join(stood)}"


def _is_closed(cycle: Cycle, reserved: Sequence[str]) -> bool:
    """Return whether the reservations of these tasks close a node to others."""
    return not all(is_nothing(cycle.start_request[uid]) for uid in reserved)


def _came(cycle: Cycle, name: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the tasks with a request that were placed on a node, with what to say of them.

    And whether they had that node before: a kept promise is older than the reservation.
    """
    for uid in cycle.on_node[name]:
        after, before = cycle.after[uid], cycle.before(uid)
        if cycle.is_new(uid) and not cycle.is_best_effort(uid):
            was_its_own = before.status in _KEPT and before.node_name == name
            yield uid, f"task {uid!r} is {after.status.value} on node {name!r}", was_its_own


def reserved_on(cycle: Cycle) -> dict[str, list[str]]:
    """Return node name to the tasks of jobs that are Reserved there after the cycle."""
    return {
        name: [
            uid
            for uid in uids
            if cycle.after[uid].status is TaskStatus.RESERVED and uid in cycle.job_of
        ]
        for name, uids in cycle.on_node.items()
    }


def _may_have_reserved(cycle: Cycle, uid: str) -> bool:
    """Return whether a task may have got a reservation and started on it."""
    age = cycle.snapshot.now - cycle.job_of[uid].creation_time
    thresholds = cycle.policy.thresholds_before_allocate
    return bool(thresholds) and age > min(thresholds)


def _stood(cycle: Cycle, uid: str, name: str) -> bool:
    """Return whether a reservation existed from the beginning to the end of the cycle.

    False if it can have been dropped at the opening of the session, or used by a job that started,
    and was made again.
    """
    if cycle.before(uid) != cycle.after[uid] or not cycle.policy.gang_decides_ready:
        return False
    asked = total(
        cycle.start_request[task.uid]
        for task in cycle.tasks.values()
        if task.status is TaskStatus.RESERVED and task.node_name == name
    )
    # Tasks without a job may leave less room for reservations.
    others = total(
        cycle.resreq[task.uid]
        for task in cycle.snapshot.other_tasks
        if task.node_name == name and task.status in HOLDING
    )
    if not fits(add(asked, others), of(cycle.nodes[name].allocatable)):
        return False
    job = cycle.job_of[uid]
    is_ready = cycle.ready_groups(job, before=True).can_start()
    has_bind = any(cycle.job_of.get(bind.task_uid) is job for bind in cycle.result.binds)
    return not is_ready and not has_bind
