"""Gangs start whole and stay whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from batchsched.model.cluster import JobInfo
from batchsched.model.result import Eviction
from batchsched.model.status import TaskStatus
from batchsched.testing.invariants.base import invariant
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle

__all__ = ["check_gangs"]


@invariant
def check_gangs(cycle: Cycle) -> Iterator[str]:
    """Tasks are bound only for jobs that are ready, and no gang is broken by evictions.

    If gang decides: a job with a bind has at least `min_available` tasks that are ready, a
    ready job has no task left that is placed and not bound, a gang that lost tasks to preempt
    or reclaim still has enough, or has lost all that ran if gang lets whole jobs go, and tasks
    are evicted only for gangs that will be complete.
    """
    evicted: defaultdict[str, list[Eviction]] = defaultdict(list)
    for eviction in cycle.result.evictions:
        if eviction.task_uid in cycle.job_of:
            evicted[cycle.job_of[eviction.task_uid].uid].append(eviction)
    bound = {
        cycle.job_of[bind.task_uid].uid
        for bind in cycle.result.binds
        if bind.task_uid in cycle.job_of
    }
    for uid, job in cycle.jobs.items():
        if not cycle.is_in_session(job):
            continue
        yield from _whole(cycle, job, evicted[uid])
        if cycle.policy.gang_decides_ready:
            yield from _ready(cycle, job, evicted[uid], has_bind=uid in bound)
    yield from _complete(cycle, evicted)


def _counts(cycle: Cycle, job: JobInfo) -> str:
    return f"job {job.uid!r} needs {job.min_available} tasks and has {cycle.ready(job)} ready"


def _whole(cycle: Cycle, job: JobInfo, lost: list[Eviction]) -> Iterator[str]:
    # After the last eviction that gang had to allow the job can have become smaller only by
    # what was taken back of it.
    least = job.min_available - _taken_back_though_ready(cycle, job)
    if lost and cycle.policy.protects("gang", lost[-1].action) and cycle.ready(job) < least:
        if cycle.policy.evicts_whole_jobs and not _still_runs(cycle, job):
            return
        names = ", ".join(eviction.task_uid for eviction in lost)
        yield f"{_counts(cycle, job)} after {names} were evicted, which gang protects"


def _still_runs(cycle: Cycle, job: JobInfo) -> bool:
    """Return whether any task of a job that ran has been left running."""
    return any(
        cycle.before(task.uid).status in OCCUPYING and cycle.after[task.uid].status in OCCUPYING
        for task in job.tasks
    )


def _taken_back_though_ready(cycle: Cycle, job: JobInfo) -> int:
    """Return how many tasks of a job can have been taken back though gang calls it ready.

    Of a job that is ready nothing is. But a plugin of one's own may call it not ready, and an
    action of one's own may take back what it likes.
    """
    if cycle.policy.knows_plugins and cycle.policy.knows_actions:
        return 0
    return _taken_back(cycle, job)


def _taken_back(cycle: Cycle, job: JobInfo) -> int:
    """Return how many tasks of a job can have had a place, and have lost it without a trace."""
    if not cycle.policy.takes_back:
        return 0
    return sum(cycle.was_waiting(task.uid) and not cycle.is_new(task.uid) for task in job.tasks)


def _ready(cycle: Cycle, job: JobInfo, lost: list[Eviction], *, has_bind: bool) -> Iterator[str]:
    gone = sum(not cycle.policy.protects("gang", eviction.action) for eviction in lost)
    gone += _taken_back_though_ready(cycle, job)
    if has_bind and cycle.ready(job) + gone < job.min_available:
        yield f"{_counts(cycle, job)}, and a task of it is bound"
    held = cycle.count(job, TaskStatus.ALLOCATED)
    if held and cycle.is_gang_ready(job) and cycle.policy.knows_plugins:
        yield f"{_counts(cycle, job)}, but {held} tasks that have a place are not bound"


def _complete(cycle: Cycle, evicted: dict[str, list[Eviction]]) -> Iterator[str]:
    policy = cycle.policy
    if not policy.has("gang", "enableJobPipelined") or not policy.knows_plugins:
        return
    for eviction in cycle.result.evictions:
        claimant = cycle.job_of.get(eviction.for_task_uid)
        victim = cycle.job_of.get(eviction.task_uid)
        if claimant is None or claimant is victim or not policy.knows_actions:
            continue
        lost = len(evicted.get(claimant.uid, []))
        coming = cycle.ready(claimant) + cycle.count(claimant, TaskStatus.PIPELINED)
        if lost:  # it was not ready then, and what it held may have been taken back as well
            lost += _taken_back(cycle, claimant)
        if coming + lost < claimant.min_available:
            yield (
                f"task {eviction.task_uid!r} is evicted for job {claimant.uid!r}, which needs "
                f"{claimant.min_available} tasks and will have {coming}"
            )
