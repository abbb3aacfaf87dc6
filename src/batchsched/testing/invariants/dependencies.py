"""Jobs that wait for others, computed from the snapshot alone."""

from __future__ import annotations

from batchsched.model.cluster import JobEvent, JobInfo, TaskStatus
from batchsched.model.reasons import ConditionReason
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle

__all__ = ["waits_for"]

_ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def waits_for(cycle: Cycle, job: JobInfo) -> ConditionReason | None:
    """Return why a job was not eligible when the cycle began, or None."""
    lacking = _lacking(cycle, job)
    if not lacking:
        return None
    hopeless = any(_is_hopeless(cycle, other) for other in lacking)
    return ConditionReason.NEVER_ELIGIBLE if hopeless else ConditionReason.WAITS_FOR


def _lacking(cycle: Cycle, job: JobInfo) -> list[JobInfo | None]:
    """Return the jobs whose events a job still waits for; None: one that is not there."""
    if job.eligible_time is not None:
        return []
    lacking: list[JobInfo | None] = []
    for dependency in job.depends_on:
        other = cycle.jobs.get(dependency.job)
        if other is None:
            is_met = dependency.satisfied_if_missing and dependency.on is not JobEvent.FAILED
        else:
            is_met = _has_happened(cycle, other, dependency.on)
        if not is_met:
            lacking.append(other)
    return lacking


def _has_happened(cycle: Cycle, job: JobInfo, event: JobEvent) -> bool:
    has_ended = _has_ended(job)
    has_succeeded = has_ended and _is_enough(cycle, job, TaskStatus.SUCCEEDED)
    match event:
        case JobEvent.STARTED:
            return has_ended or _has_started(cycle, job)
        case JobEvent.ENDED:
            return has_ended
        case JobEvent.SUCCEEDED:
            return has_succeeded
        case JobEvent.FAILED:
            return has_ended and not has_succeeded


def _has_ended(job: JobInfo) -> bool:
    return bool(job.tasks) and all(task.status in _ENDED for task in job.tasks)


def _has_started(cycle: Cycle, job: JobInfo) -> bool:
    ready = cycle.ready_groups(job, before=True)
    return ready.total > 0 and _is_enough(cycle, job, *OCCUPYING, TaskStatus.SUCCEEDED)


def _is_enough(cycle: Cycle, job: JobInfo, *statuses: TaskStatus) -> bool:
    counts = cycle.groups(job, *statuses, before=True)
    return counts.has(None) and counts.total >= job.min_available


def _is_hopeless(cycle: Cycle, other: JobInfo | None) -> bool:
    """Return whether a job, which is waited for, can never do what it has not done yet."""
    if other is None:
        return False
    if _has_ended(other):
        return True
    return not _has_started(cycle, other) and any(
        _is_hopeless(cycle, further) for further in _lacking(cycle, other)
    )
