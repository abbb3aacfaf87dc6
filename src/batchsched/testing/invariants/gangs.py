"""Gangs start completely, and evictions do not break them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from batchsched.model.cluster import JobInfo, TaskInfo, TaskStatus
from batchsched.model.result import Eviction, TakenBack
from batchsched.testing.invariants.cycle import HAVING_PLACES, OCCUPYING, Cycle, least_tasks
from batchsched.testing.invariants.invariant import invariant


@invariant
def gangs(cycle: Cycle) -> Iterator[str]:
    """Tasks are bound only for ready jobs, and evictions break no gang.

    If plugin gang decides: a job with a bind has at least `min_available` ready tasks, and the
    groups that it needs; a ready job has no task that is placed but not bound, except in incomplete
    groups; a gang that lost tasks to preempt or reclaim still has enough, or has lost all running
    tasks if gang allows to evict whole jobs, or the job goes whole or not at all; a group that was
    complete still is, or has lost all running tasks; and tasks are evicted only for gangs that will
    be complete. A bind that is taken back counts like an eviction. In any case, nothing is placed
    beyond the maximum of a job or a group.
    """
    evicted: defaultdict[str, list[Eviction | TakenBack]] = defaultdict(list)
    for eviction in cycle.made_to_leave:
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
        yield from _maxima(cycle, job)
        yield from _whole(cycle, job, evicted[uid])
        if cycle.policy.gang_decides_ready:
            yield from _ready(cycle, job, evicted[uid], has_bind=uid in bound)
    yield from _complete(cycle, evicted)


def _counts(cycle: Cycle, job: JobInfo) -> str:
    return f"job {job.uid!r} needs {least_tasks(job)} tasks and has {cycle.ready(job)} ready"


def _maxima(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    if not cycle.policy.knows_actions:
        return  # a custom action may promise anything
    before = cycle.groups(job, *HAVING_PLACES, before=True).used()
    after = cycle.groups(job, *HAVING_PLACES).used()
    for (name, most, had), (_, _, has) in zip(before, after, strict=True):
        if most is not None and has > max(most, had):
            what = f"job {job.uid!r}" if name is None else f"group {name!r} of job {job.uid!r}"
            yield f"{what}: expected at most {most}, got {has} ({had} before)"


def _whole(cycle: Cycle, job: JobInfo, lost: list[Eviction | TakenBack]) -> Iterator[str]:
    # After the last eviction that gang had to approve, the job can only have lost tasks that
    # were unallocated.
    taken_back = _taken_back_though_ready(cycle, job)
    # It is not known whether a bind was taken back before or after an eviction.
    last = lost if any(isinstance(each, TakenBack) for each in lost) else lost[-1:]
    if not lost or not all(cycle.policy.protects("gang", each.action) for each in last):
        return
    names = ", ".join(eviction.task_uid for eviction in lost)
    if cycle.ready(job) < least_tasks(job) - taken_back or not (
        taken_back or cycle.is_gang_ready(job)
    ):
        goes_whole = (
            cycle.policy.evicts_whole_jobs
            or cycle.policy.unblocks
            or (job.evict_whole and cycle.policy.protects("protection", last[-1].action))
            # A claim asks about each task alone, and each may be the one beyond the minimum.
            or (last[0].action == "reclaim" and "capacity" in cycle.policy.plugins)
        )
        if not goes_whole or _still_runs(cycle, job.tasks):
            yield f"{_counts(cycle, job)} after {names} were evicted, which gang protects"
    elif not taken_back and all(cycle.policy.protects("gang", e.action) for e in lost):
        yield from _whole_groups(cycle, job, names)


def _whole_groups(cycle: Cycle, job: JobInfo, lost: str) -> Iterator[str]:
    """Yield faults for complete groups of a ready job of which only a part is left."""
    before, after = cycle.ready_groups(job, before=True), cycle.ready_groups(job)
    if not before.can_start():
        return
    for group in job.groups:
        own = [task for task in job.tasks if group.name in after.path(task.group or group.name)]
        if before.has(group.name) and not after.has(group.name) and _still_runs(cycle, own):
            yield (
                f"group {group.name!r} of job {job.uid!r} was complete and has "
                f"{after.within(group.name)} tasks left after {lost} were evicted"
            )


def _still_runs(cycle: Cycle, tasks: Sequence[TaskInfo]) -> bool:
    """Return whether any of the tasks ran before the cycle and still does."""
    return any(
        cycle.before(task.uid).status in OCCUPYING and cycle.after[task.uid].status in OCCUPYING
        for task in tasks
    )


def _taken_back_though_ready(cycle: Cycle, job: JobInfo) -> int:
    """Return how many tasks of a job can have been unallocated although gang considers it ready.

    Built-in actions never do that. But a custom plugin may consider it not ready, and a custom
    action may unallocate anything.
    """
    if cycle.policy.knows_plugins and cycle.policy.knows_actions:
        return 0
    return _taken_back(cycle, job)


def _taken_back(cycle: Cycle, job: JobInfo) -> int:
    """Return how many tasks of a job can have had a place and lost it without a record."""
    if not cycle.policy.takes_back:
        return 0
    return sum(cycle.was_waiting(task.uid) and not cycle.is_new(task.uid) for task in job.tasks)


def _ready(
    cycle: Cycle, job: JobInfo, lost: list[Eviction | TakenBack], *, has_bind: bool
) -> Iterator[str]:
    gone = sum(not cycle.policy.protects("gang", eviction.action) for eviction in lost)
    gone += _taken_back_though_ready(cycle, job)
    ready = cycle.ready_groups(job)
    if has_bind and cycle.ready(job) + gone < least_tasks(job):
        yield f"{_counts(cycle, job)}, but a task of it is bound"
    elif has_bind and not gone and not ready.has(None):
        names = ", ".join(repr(name) for name in ready.lacking())
        yield f"job {job.uid!r} lacks tasks of {names}, but a task of it is bound"
    held = sum(
        cycle.after[task.uid].status is TaskStatus.ALLOCATED
        and (task.group is None or all(ready.has(name) for name in ready.path(task.group)))
        for task in job.tasks
    )
    if held and cycle.is_gang_ready(job) and cycle.policy.knows_plugins:
        yield f"{_counts(cycle, job)}, but {held} tasks that have a place are not bound"


def _complete(cycle: Cycle, evicted: dict[str, list[Eviction | TakenBack]]) -> Iterator[str]:
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
        is_complete = cycle.groups(
            claimant, *OCCUPYING, TaskStatus.SUCCEEDED, TaskStatus.PIPELINED
        ).has(None)
        if lost:  # it was not ready then, and its other tasks may have been unallocated as well
            lost += _taken_back(cycle, claimant)
        if coming + lost < least_tasks(claimant) or not (lost or is_complete):
            in_groups = ", in complete groups," if claimant.groups else ""
            yield (
                f"task {eviction.task_uid!r} is evicted for job {claimant.uid!r}, which needs "
                f"{least_tasks(claimant)} tasks{in_groups} and will have {coming}"
            )
