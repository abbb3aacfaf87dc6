"""Jobs stand as the specification says."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.model import JobInfo
from batchsched.reasons import ConditionReason
from batchsched.status import JobPhase, TaskStatus
from batchsched.testing.invariants.base import invariant
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle

__all__ = ["check_outcomes"]

_NOT_VALID = (TaskStatus.RELEASING, TaskStatus.FAILED, TaskStatus.UNKNOWN)


@invariant
def check_outcomes(cycle: Cycle) -> Iterator[str]:
    """Jobs are left out, unschedulable, Pending, Running or Unknown as sections 4 and 9 say."""
    queues = {queue.name for queue in cycle.snapshot.queues}
    for uid, job in cycle.jobs.items():
        if job.queue not in queues:
            condition = cycle.result.left_out.get(uid)
            if condition is None or condition.reason is not ConditionReason.QUEUE_UNKNOWN:
                yield f"job {uid!r} names queue {job.queue!r}, which is not there"
            continue
        yield from _validity(cycle, job)
        if cycle.is_in_session(job) and cycle.policy.knows_plugins:
            yield from _phase(cycle, job)


def _validity(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    if not cycle.policy.knows_plugins:
        return
    valid = sum(task.status not in _NOT_VALID for task in job.tasks)
    is_valid = valid >= job.min_available or not cycle.policy.has("gang")
    left_out = cycle.result.left_out.get(job.uid)
    counts = f"job {job.uid!r} needs {job.min_available} tasks, and {valid} can ever start"
    if is_valid and left_out is not None:
        yield f"{counts}, but it was left out: {left_out}"
    if not is_valid and (
        left_out is None or left_out.reason is not ConditionReason.NOT_ENOUGH_TASKS
    ):
        yield f"{counts}, so it is invalid, but it was not left out for that"


def _phase(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    outcome = cycle.result.jobs[job.uid]
    unschedulable = cycle.policy.has("gang") and not cycle.is_gang_ready(job)
    counts = f"job {job.uid!r} needs {job.min_available} tasks, and {cycle.ready(job)} are ready"
    if unschedulable != (outcome.condition is not None):
        yield f"{counts}, but its condition is {outcome.condition}"
    elif (
        outcome.condition is not None
        and outcome.condition.reason is not ConditionReason.NOT_ENOUGH_RESOURCES
    ):
        yield f"{counts}, but its condition is {outcome.condition.reason.value}"
    if unschedulable and cycle.count(job, TaskStatus.RUNNING):
        phase = JobPhase.UNKNOWN
    elif cycle.count(job, *OCCUPYING) >= job.min_available:
        phase = JobPhase.RUNNING
    else:
        phase = JobPhase.PENDING
    if outcome.phase is not phase:
        yield f"job {job.uid!r} is {outcome.phase.value}, and must be {phase.value}; {counts}"
