"""Deserved shares of queues, computed independently."""

from __future__ import annotations

from batchsched.model.cluster import JobInfo, TaskInfo
from batchsched.testing.invariants.amounts import Amounts, Number, add, total
from batchsched.testing.invariants.cycle import OCCUPYING, PLACED, WAITING, Cycle

__all__ = [
    "certainly_has_all",
    "certainly_has_less",
    "covered_first",
    "deserved",
    "may_be_charged",
    "may_exceed",
]

_EPS = 0.1


def deserved(cycle: Cycle) -> dict[str, dict[str, float]]:
    """Return the deserved share of each queue that has jobs, by dimension."""
    weight = {queue.name: queue.weight for queue in cycle.snapshot.queues}
    request: dict[str, Amounts] = {}
    for job in cycle.snapshot.jobs:
        if job.queue in weight:
            wanted = total(
                cycle.resreq[task.uid]
                for task in job.tasks
                if not task.is_backfill and (task.status in OCCUPYING or task.status in WAITING)
            )
            request[job.queue] = add(request.get(job.queue, {}), wanted)
    dimensions = sorted(
        {name for amounts in request.values() for name in amounts} | cycle.cluster.keys()
    )
    remaining: dict[str, Number | float] = {d: cycle.cluster.get(d, 0) for d in dimensions}
    share: dict[str, dict[str, float]] = {
        name: dict.fromkeys(dimensions, 0.0) for name in sorted(request)
    }
    unmet = sorted(request)
    while unmet and any(amount >= _EPS for amount in remaining.values()):
        weights = sum(weight[name] for name in unmet)
        if not weights:
            break
        taken: dict[str, float] = dict.fromkeys(dimensions, 0.0)
        given: dict[str, float] = dict.fromkeys(dimensions, 0.0)
        before = len(unmet)
        for name in list(unmet):
            ratio = weight[name] / weights
            wish = {d: float(request[name].get(d, 0)) for d in dimensions}
            now = {d: share[name][d] + float(remaining[d]) * ratio for d in dimensions}
            if all(wish[d] - now[d] < _EPS for d in dimensions):
                now = {d: min(now[d], wish[d]) for d in dimensions}
                unmet.remove(name)
            for d in dimensions:
                change = now[d] - share[name][d]
                if change > 0:
                    taken[d] += change
                else:
                    given[d] -= change
            share[name] = now
        if len(unmet) == before:
            break  # no queue was satisfied: everything is dealt out, except for rounding errors
        remaining = {d: float(remaining[d]) - taken[d] + given[d] for d in dimensions}
    return share


def _tolerance(amount: float) -> float:
    """Return the possible rounding error of a deserved amount."""
    return 1e-3 + 1e-11 * abs(amount)


def certainly_has_all(share: dict[str, float], allocated: Amounts) -> bool:
    """Return whether a queue with at least this much allocated certainly has its share."""
    return all(
        amount - float(allocated.get(name, 0)) < _EPS - _tolerance(amount)
        for name, amount in share.items()
    )


def certainly_has_less(share: dict[str, float], allocated: Amounts) -> bool:
    """Return whether a queue with at most this much allocated is certainly below its share."""
    return any(
        amount - float(allocated.get(name, 0)) >= _EPS + _tolerance(amount)
        for name, amount in share.items()
    )


def may_exceed(share: dict[str, float], allocated: Amounts, held: Amounts) -> bool:
    """Return whether a queue with at most this much allocated may exceed its share.

    Only in dimensions that a task holds.
    """
    return any(
        held.get(name, 0) > 0 and float(allocated.get(name, 0)) - amount > _EPS - _tolerance(amount)
        for name, amount in share.items()
    )


def may_be_charged(cycle: Cycle, queue: str) -> Amounts:
    """Return the most that a cycle can have added to the allocation of a queue at any time."""
    return total(
        cycle.resreq[task.uid]
        for job in cycle.snapshot.jobs
        if job.queue == queue
        for task in job.tasks
        if _may_be_charged(cycle, task)
    )


def _may_be_charged(cycle: Cycle, task: TaskInfo) -> bool:
    if task.is_backfill or not cycle.was_waiting(task.uid):
        return False
    return cycle.after[task.uid].status in PLACED or cycle.policy.takes_back


def covered_first(cycle: Cycle, job: JobInfo) -> Amounts:
    """Return the most that the jobs covered before a job, and the job itself, can ever hold.

    These are the jobs of its queue with higher priority, and older ones of equal priority.
    """
    return total(
        cycle.resreq[task.uid]
        for other in cycle.snapshot.jobs
        if other.queue == job.queue and _coverage_order(other) <= _coverage_order(job)
        for task in other.tasks
        if (task.status in OCCUPYING and not task.is_backfill) or _may_be_charged(cycle, task)
    )


def _coverage_order(job: JobInfo) -> tuple[int, float, str]:
    return -job.priority, job.creation_time, job.uid
