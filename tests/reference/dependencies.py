"""Jobs that wait for others, found by checking each of them every time."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched import (
    ConditionReason,
    Dependency,
    JobEvent,
    JobInfo,
    Snapshot,
    TaskInfo,
    TaskStatus,
)

__all__ = ["waits_for"]


def waits_for(job: JobInfo, snapshot: Snapshot) -> ConditionReason | None:
    """Return why a job is not eligible, or None."""
    if job.eligible_time is not None or all(_holds(d, snapshot) for d in job.depends_on):
        return None
    if _is_never_eligible(job, snapshot):
        return ConditionReason.NEVER_ELIGIBLE
    return ConditionReason.WAITS_FOR


def _other(dependency: Dependency, snapshot: Snapshot) -> JobInfo | None:
    return next((job for job in snapshot.jobs if job.uid == dependency.job), None)


def _count(job: JobInfo, *statuses: TaskStatus) -> int:
    return sum(task.status in statuses for task in job.tasks)


def _has_ended(job: JobInfo) -> bool:
    ended = _count(job, TaskStatus.SUCCEEDED, TaskStatus.FAILED)
    return 0 < len(job.tasks) == ended


def _has_started(job: JobInfo) -> bool:
    ready = [t for t in job.tasks if t.status.occupies or t.status is TaskStatus.SUCCEEDED]
    return _has_ended(job) or (bool(ready) and _is_enough(job, ready))


def _has_succeeded(job: JobInfo) -> bool:
    succeeded = [task for task in job.tasks if task.status is TaskStatus.SUCCEEDED]
    return _has_ended(job) and _is_enough(job, succeeded)


def _is_enough(job: JobInfo, tasks: Sequence[TaskInfo]) -> bool:
    """Return whether some tasks are enough for their job to start, in number and by group."""

    def has(name: str | None) -> bool:
        within = [group.name for group in job.groups if group.parent == name]
        least = next((g.min for g in job.groups if g.name == name), job.min_groups)
        if name is not None and not within:
            return sum(task.group == name for task in tasks) >= (least or 0)
        return sum(map(has, within)) >= (len(within) if least is None else least)

    return has(None) and len(tasks) >= job.min_available


def _holds(dependency: Dependency, snapshot: Snapshot) -> bool:
    other = _other(dependency, snapshot)
    if other is None:
        return dependency.satisfied_if_missing and dependency.on is not JobEvent.FAILED
    return {
        JobEvent.STARTED: _has_started(other),
        JobEvent.SUCCEEDED: _has_succeeded(other),
        JobEvent.ENDED: _has_ended(other),
        JobEvent.FAILED: _has_ended(other) and not _has_succeeded(other),
    }[dependency.on]


def _is_never_eligible(job: JobInfo, snapshot: Snapshot) -> bool:
    """Return whether a job depends on an event that can no longer occur."""
    if job.eligible_time is not None:
        return False
    for dependency in job.depends_on:
        other = _other(dependency, snapshot)
        if other is None or _holds(dependency, snapshot):
            continue
        if _has_ended(other):
            return True
        if not _has_started(other) and _is_never_eligible(other, snapshot):
            return True
    return False
