"""Queues that have their deserved shares do not grow."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.model.cluster import TaskStatus
from batchsched.model.result import Eviction
from batchsched.testing.invariants.amounts import Amounts, add, fits, sub, total
from batchsched.testing.invariants.base import invariant
from batchsched.testing.invariants.cycle import Cycle
from batchsched.testing.invariants.shares import certainly_has_all, deserved

__all__ = ["check_swaps"]


@invariant
def check_swaps(cycle: Cycle) -> Iterator[str]:
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
        for claimant, victims in _groups(cycle):
            action = victims[0].action
            is_mine = claimant in cycle.job_of and cycle.job_of[claimant].queue == name
            held = total(cycle.resreq[victim.task_uid] for victim in victims)
            if (
                action == "preempt"
                and is_mine
                and remains_so
                and not fits(cycle.start_request[claimant], held)
            ):
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


def _groups(cycle: Cycle) -> Iterator[tuple[str, list[Eviction]]]:
    """Yield each claimant with its victims, in the order in which they were evicted."""
    groups: dict[str, list[Eviction]] = {}
    for eviction in cycle.result.evictions:
        if eviction.task_uid in cycle.job_of and eviction.for_task_uid in cycle.job_of:
            groups.setdefault(eviction.for_task_uid, []).append(eviction)
    yield from groups.items()


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
