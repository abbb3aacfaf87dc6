"""No task is evicted that a plugin protects, or that no plugin can have named a victim."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.model.cluster import TaskInfo
from batchsched.model.result import Eviction
from batchsched.testing.invariants.amounts import Amounts, add, shown, sub, total
from batchsched.testing.invariants.base import invariant
from batchsched.testing.invariants.cycle import Cycle
from batchsched.testing.invariants.group_counts import least_tasks
from batchsched.testing.invariants.shares import (
    covered_first,
    deserved,
    may_be_charged,
    may_exceed,
)

__all__ = ["check_protection", "is_critical"]

_CRITICAL = ("system-cluster-critical", "system-node-critical")


@invariant
def check_protection(cycle: Cycle) -> Iterator[str]:
    """No task is evicted that a plugin protects, whatever its tier.

    For conformance and priority this follows from the tasks. For proportion it follows from the
    shares: only what a queue holds above its share is evicted, and not what the share covers, the
    most important jobs first. For gang see `check_gangs`. And some tier must be able to have named
    the task a victim.
    """
    for eviction in cycle.result.evictions:
        victim = cycle.tasks.get(eviction.task_uid)
        claimant = cycle.tasks.get(eviction.for_task_uid)
        if victim is None or claimant is None:
            continue
        if {victim.uid, claimant.uid} - cycle.job_of.keys():
            continue
        yield from _protected(cycle, eviction, victim, claimant)
    if cycle.policy.protects("proportion", "reclaim"):
        yield from _below_share(cycle)


def is_critical(task: TaskInfo) -> bool:
    """Return whether a task is a critical one of the system, which conformance protects."""
    return task.namespace == "kube-system" or task.priority_class_name in _CRITICAL


def _rank(cycle: Cycle, victim: TaskInfo, claimant: TaskInfo) -> tuple[int, int, str]:
    """Return the priorities to compare, and whether they are of tasks or jobs."""
    theirs, mine = cycle.job_of[victim.uid], cycle.job_of[claimant.uid]
    if theirs.uid == mine.uid:
        return victim.priority, claimant.priority, "task"
    return theirs.priority, mine.priority, "job"


def _protected(
    cycle: Cycle, eviction: Eviction, victim: TaskInfo, claimant: TaskInfo
) -> Iterator[str]:
    action = eviction.action
    what = f"task {victim.uid!r} is evicted by {action} for {claimant.uid!r}"
    critical = is_critical(victim)
    if critical and cycle.policy.protects("conformance", action):
        yield f"{what}, but it is a critical task of the system, which conformance protects"
    rank, against, kind = _rank(cycle, victim, claimant)
    if rank > against and cycle.policy.protects("priority", action):
        yield f"{what}, but its {kind} has priority {rank}, and the claimant's {against}"
    policy = cycle.policy
    if action not in ("preempt", "reclaim") or action not in policy.known_actions:
        return
    for tier in policy.tiers_asked(action):
        # gang, drf, proportion and custom plugins may name any task a victim.
        refuse = {
            *(["conformance"] if critical else []),
            *(["priority"] if rank >= against else []),
        }
        if tier and not refuse & policy.known_plugins & set(tier):
            return
    yield f"{what}, but no tier's plugins can have called it a victim"


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


def _whole(share: dict[str, float]) -> Amounts:
    return {dimension: round(amount) for dimension, amount in share.items()}
