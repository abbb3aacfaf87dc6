"""What queues deserve under proportion and capacity, counted again, and that they keep it."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched import Eviction, JobInfo, Queue, TaskStatus
from batchsched.testing import Cycle, invariant
from batchsched.testing.invariants.amounts import (
    Amounts,
    Number,
    add,
    exact,
    fits,
    of,
    shown,
    sub,
    total,
)
from batchsched.testing.invariants.cycle import OCCUPYING, WAITING, least_tasks
from batchsched.testing.invariants.evictions import (
    by_claimant,
    may_be_charged,
    may_be_charged_for,
)

_EPS = 0.1


def deserved(cycle: Cycle) -> dict[str, dict[str, float]]:
    """Return the deserved share of each queue that has jobs, by dimension.

    Of none where any queue has a guarantee, which this definition does not know.
    """
    if not all(queue.guarantee.is_empty() for queue in cycle.snapshot.queues):
        return {}
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
    for queue in cycle.snapshot.queues:
        if queue.limit is not None and queue.name in request:  # more than that it never gets
            most = dict(queue.limit.dimensions())
            asked = request[queue.name]
            request[queue.name] = {d: min(a, most.get(d, a)) for d, a in asked.items()}
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


def covered_first(cycle: Cycle, job: JobInfo) -> Amounts:
    """Return the most that the jobs covered before a job, and the job itself, can ever hold.

    These are the jobs of its queue with higher priority, and older ones of equal priority.
    """
    return total(
        cycle.resreq[task.uid]
        for other in cycle.snapshot.jobs
        if other.queue == job.queue and _coverage_order(other) <= _coverage_order(job)
        for task in other.tasks
        if (task.status in OCCUPYING and not task.is_backfill) or may_be_charged_for(cycle, task)
    )


def _coverage_order(job: JobInfo) -> tuple[int, float, str]:
    return -job.priority, job.creation_time, job.uid


@invariant
def shares(cycle: Cycle) -> Iterator[str]:
    """No queue loses to reclaim what it deserves and what can be met.

    Under proportion only what a queue holds above its share is evicted, and not what the share
    covers, the most important jobs first. What a queue deserves under capacity, or what its fair
    share allows if that is less, is never claimed.
    """
    if cycle.policy.protects("proportion", "reclaim"):
        yield from _below_share(cycle)
    if cycle.policy.protects("capacity", "reclaim") and cycle.policy.knows_plugins:
        yield from _below_what_it_deserves(cycle)


def _below_share(cycle: Cycle) -> Iterator[str]:
    shares = deserved(cycle)
    upper: dict[str, Amounts] = {}
    for eviction in cycle.result.evictions:
        job = cycle.job_of.get(eviction.task_uid)
        if job is None or cycle.after[eviction.task_uid].is_backfill:
            continue
        name = job.queue
        if name not in shares:
            continue  # a missing queue is reported elsewhere
        if name not in upper:
            upper[name] = add(cycle.charged_before(name), may_be_charged(cycle, name))
        held = cycle.resreq[eviction.task_uid]
        if eviction.action == "reclaim":
            what = f"task {eviction.task_uid!r} is evicted by reclaim, and"
            if not may_exceed(shares[name], upper[name], held):
                yield (
                    f"{what} in what it holds, queue {name!r} has at most {shown(upper[name])}, "
                    f"but deserves {shown(_whole(shares[name]))}"
                )
            first = covered_first(cycle, job)
            of_job = total(cycle.resreq[task.uid] for task in job.tasks)
            if not may_exceed(shares[name], first, of_job):
                yield (
                    f"{what} it is covered by the share of queue {name!r}: its job and those "
                    f"before it have at most {shown(first)}, and the queue deserves "
                    f"{shown(_whole(shares[name]))}"
                )
        if not cycle.policy.evicts_whole_jobs or least_tasks(job) <= 1:
            upper[name] = sub(upper[name], held)


def _below_what_it_deserves(cycle: Cycle) -> Iterator[str]:
    """Yield claims on queues that certainly hold no more than they deserve and can be met.

    What a queue deserves and what its fair share allows, whichever is less, is never claimed.
    """
    queues = {queue.name: queue for queue in cycle.snapshot.queues}
    for eviction in cycle.result.evictions:
        job = cycle.job_of.get(eviction.task_uid)
        if job is None or job.queue not in cycle.result.queues or eviction.action != "reclaim":
            continue
        fair = of(cycle.result.queues[job.queue].fair_share)
        queue = queues[job.queue]
        most = add(cycle.charged_before(job.queue), may_be_charged(cycle, job.queue))
        has_backfill = any(task.is_backfill for task in job.tasks)  # which nothing covers
        if not has_backfill and all(
            most.get(name, 0) <= min(fair.get(name, 0), _nominal(queue, name, fair))
            for name, amount in total(cycle.resreq[task.uid] for task in job.tasks).items()
            if amount
        ):
            yield (
                f"task {eviction.task_uid!r} is evicted by reclaim, but queue {job.queue!r} has at "
                f"most {shown(most)}, which it deserves and its fair share of {shown(fair)} covers"
            )


def _nominal(queue: Queue, dimension: str, fair: Amounts) -> Number:
    """Return what a queue deserves or is guaranteed; without a limit, at least its fair share."""
    deserved = None if queue.deserved is None else queue.deserved.get(dimension)
    amount = fair.get(dimension, 0) if deserved is None else exact(deserved)
    return max(amount, exact(queue.guarantee.get(dimension)))


def _whole(share: dict[str, float]) -> Amounts:
    return {dimension: round(amount) for dimension, amount in share.items()}


@invariant
def swaps(cycle: Cycle) -> Iterator[str]:
    """A queue that has its deserved share can only swap tasks.

    For queues that had their share when the cycle began, and certainly still have it despite what
    they lost: preempt places a task only in the resources of its victims, and nothing else is
    placed except best-effort tasks, backfill and tasks with earlier reservations.
    """
    if not cycle.policy.has("proportion") or not cycle.policy.knows_actions:
        return
    for name, share in deserved(cycle).items():
        least = cycle.charged_before(name)
        if not certainly_has_all(share, least):
            continue
        remains_so = True
        for claimant, positions in by_claimant(cycle).items():
            victims = [cycle.result.evictions[position] for position in positions]
            is_mine = claimant in cycle.job_of and cycle.job_of[claimant].queue == name
            held = total(cycle.resreq[victim.task_uid] for victim in victims)
            enough = not is_mine or fits(cycle.start_request[claimant], held)
            if victims[0].action == "preempt" and remains_so and not enough:
                names = ", ".join(victim.task_uid for victim in victims)
                yield (
                    f"queue {name!r} has its deserved share, but {claimant!r} requests more "
                    f"than {names} held, which were evicted for it"
                )
            least = sub(least, _lost(cycle, name, victims))
            if is_mine and not cycle.after[claimant].is_backfill:
                least = add(least, cycle.resreq[claimant])
            remains_so = remains_so and certainly_has_all(share, least)
        if remains_so:
            yield from _grown(cycle, name)


def _lost(cycle: Cycle, queue: str, victims: list[Eviction]) -> Amounts:
    return total(
        cycle.resreq[victim.task_uid]
        for victim in victims
        if cycle.job_of[victim.task_uid].queue == queue
        and not cycle.after[victim.task_uid].is_backfill
    )


def _grown(cycle: Cycle, queue: str) -> Iterator[str]:
    claimants = {eviction.for_task_uid for eviction in cycle.result.evictions}
    strategies = cycle.policy.backfill_strategies()
    for job in cycle.snapshot.jobs:
        if job.queue != queue or not cycle.is_in_session(job):
            continue
        had_reserved = any(task.status is TaskStatus.RESERVED for task in job.tasks)
        for task in job.tasks:
            before, after = cycle.before(task.uid), cycle.after[task.uid]
            reserved_now = (
                after.status is TaskStatus.RESERVED and before.status is not TaskStatus.RESERVED
            )
            if not (cycle.is_new(task.uid) or reserved_now) or cycle.is_best_effort(task.uid):
                continue
            allowed = (
                task.uid in claimants
                or before.status is TaskStatus.PIPELINED
                or (had_reserved and after.status is not TaskStatus.PIPELINED)
                or (after.is_backfill and "release" in strategies)
                or "displace" in strategies
            )
            if not allowed:
                yield (
                    f"queue {queue!r} has its deserved share, but task {task.uid!r} is "
                    f"{after.status.value} on {after.node_name!r}"
                )
