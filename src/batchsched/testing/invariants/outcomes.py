"""The outcomes of jobs are those that their tasks imply."""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchsched.model.cluster import JobInfo, JobPhase, TaskStatus
from batchsched.model.reasons import ConditionReason, JobCondition, PendingReason, WhyPending
from batchsched.testing.invariants.base import invariant
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.dependencies import waits_for
from batchsched.testing.invariants.group_counts import is_elastic, least_tasks
from batchsched.testing.invariants.judging import recount

__all__ = ["check_outcomes"]

_UNDONE = re.compile(r"([0-9]+) placed, but rolled back since not enough others were(; |$)")
_NO_ROOM = "no node had room for task "
_NEVER = "its gang can never start: "
"""The text after this is checked by `check_reasons`."""
_NOT_ENOUGH = re.compile("there is not enough [^ ]+ for everything that it needs at once")
_BY_QUEUE = (WhyPending.QUEUE_LIMIT, WhyPending.QUEUE_CLOSED)
_OF_PLANS = (WhyPending.PLANNED, WhyPending.NEVER_FITS)
_OF_GROUP = "group "
_VALID = tuple(
    status
    for status in TaskStatus
    if status not in (TaskStatus.RELEASING, TaskStatus.FAILED, TaskStatus.UNKNOWN)
)


@invariant
def check_outcomes(cycle: Cycle) -> Iterator[str]:
    """Jobs are left out, unschedulable, Pending, Running or Unknown as their tasks imply.

    The condition of a job has the right counts: of its tasks and, if no node was found for one of
    them, of the nodes, as of the end of the cycle.
    """
    queues = {queue.name for queue in cycle.snapshot.queues}
    inner = {queue.parent for queue in cycle.snapshot.queues}
    for uid, job in cycle.jobs.items():
        if job.queue not in queues or job.queue in inner:
            condition = cycle.result.left_out.get(uid)
            expected, what = ConditionReason.QUEUE_UNKNOWN, "does not exist"
            if job.queue in queues:
                expected, what = ConditionReason.QUEUE_NOT_LEAF, "is an inner queue"
            if condition is None or condition.reason is not expected:
                yield f"job {uid!r} names queue {job.queue!r}, which {what}"
            elif repr(job.queue) not in condition.message:
                yield f"job {uid!r} was left out for queue {job.queue!r}, but: {condition.message}"
            continue
        waits = waits_for(cycle, job)
        if waits is not None:
            condition = cycle.result.left_out.get(uid)
            if condition is None or condition.reason is not waits:
                yield f"job {uid!r} depends on others ({waits.value}), and is in the session"
            continue
        yield from _validity(cycle, job)
        if cycle.is_in_session(job) and cycle.policy.knows_plugins:
            yield from _phase(cycle, job)


def _validity(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    if not cycle.policy.knows_plugins:
        return
    of_groups = cycle.groups(job, *_VALID, before=True)
    valid = of_groups.total
    is_valid = of_groups.can_start() or not cycle.policy.has("gang")
    left_out = cycle.result.left_out.get(job.uid)
    counts = f"job {job.uid!r} needs {least_tasks(job)} tasks, and {valid} can ever start"
    if is_valid and left_out is not None:
        yield f"{counts}, but it was left out: {left_out}"
    if not is_valid and (
        left_out is None or left_out.reason is not ConditionReason.NOT_ENOUGH_TASKS
    ):
        yield f"{counts}, so it is invalid, but it was not left out for that"
    elif left_out is not None and not of_groups.has(None):
        names = list(of_groups.lacking())
        if not any(f"group {name!r} needs" in left_out.message for name in names):
            yield f"{counts}, not those of {names}, but its condition says: {left_out.message}"
    elif left_out is not None and _numbers(left_out.message) != [valid, least_tasks(job)]:
        yield f"{counts}, but its condition says: {left_out.message}"


def _phase(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    outcome = cycle.result.jobs[job.uid]
    unschedulable = cycle.policy.has("gang") and not cycle.is_gang_ready(job)
    counts = f"job {job.uid!r} needs {least_tasks(job)} tasks, and {cycle.ready(job)} are ready"
    if unschedulable != (outcome.condition is not None):
        yield f"{counts}, but its condition is {outcome.condition}"
    elif outcome.condition is not None:
        for problem in _condition(cycle, job, outcome.condition):
            yield f"{counts}, but {problem}"
    if unschedulable and cycle.count(job, TaskStatus.RUNNING):
        phase = JobPhase.UNKNOWN
    elif job.tasks and cycle.count(job, TaskStatus.SUCCEEDED) == len(job.tasks):
        phase = JobPhase.COMPLETED
    elif _runs(cycle, job):
        phase = JobPhase.RUNNING
    else:
        phase = JobPhase.PENDING
    if outcome.phase is not phase:
        yield f"job {job.uid!r} is {outcome.phase.value}, and must be {phase.value}; {counts}"


def _runs(cycle: Cycle, job: JobInfo) -> bool:
    occupying = cycle.count(job, *OCCUPYING)
    if not is_elastic(job):
        return occupying >= job.min_available
    # Groups whose tasks have succeeded are not missing.
    return occupying > 0 and cycle.is_gang_ready(job)


def _condition(cycle: Cycle, job: JobInfo, condition: JobCondition) -> Iterator[str]:
    if condition.reason is not ConditionReason.NOT_ENOUGH_RESOURCES:
        yield f"its condition is {condition.reason.value}"
        return
    of_tasks, _, of_nodes = condition.message.partition("; ")
    if of_nodes.startswith(_OF_GROUP):
        of_group, _, of_nodes = of_nodes.partition("; ")
        if not any(of_group.startswith(f"group {name!r} has ") for name in _lacking(cycle, job)):
            yield f"its condition says of a group that lacks nothing: {of_group}"
    if of_nodes.startswith(_NEVER):
        of_nodes = ""
    of_nodes = of_nodes.partition(f"; {_NEVER}")[0]
    undone = _UNDONE.match(of_nodes)
    if undone is not None:
        of_nodes = of_nodes[undone.end() :]
        pending = sum(task.uid in cycle.result.pending for task in job.tasks)
        if not 0 < int(undone[1]) <= pending:
            yield f"its condition says that {undone[1]} of {pending} tasks had a place"
    if _numbers(of_tasks) != [cycle.ready(job), least_tasks(job)]:
        yield f"its condition says: {of_tasks}"
    reasons = {task.uid: cycle.result.pending.get(task.uid) for task in job.tasks}
    tried = [
        task
        for task in job.tasks
        if (reason := reasons[task.uid]) is not None
        and (reason.tally is not None or reason.why in _OF_PLANS)
    ]
    if not of_nodes:
        # If gang does not decide readiness, nodes may be counted for other tasks as well.
        with_tally = [task for task in tried if _has_tally(reasons[task.uid])]
        if with_tally and cycle.policy.has("gang", "enableJobReady"):
            yield f"its condition does not say why no node took {tried[0].uid!r}"
    elif cycle.result.planned:
        return  # nodes that plans close are not counted again here
    elif of_nodes.startswith(_NO_ROOM):
        if not any(
            of_nodes.startswith(f"{_NO_ROOM}{task.display_name!r} ")
            and recount(cycle, task).available
            for task in tried
        ):
            yield f"its condition is true for none of its tasks: {of_nodes}"
    elif _NOT_ENOUGH.fullmatch(of_nodes):
        if not any(
            reason is not None and reason.why is WhyPending.GANG_INCOMPLETE
            for reason in reasons.values()
        ):
            yield f"its condition is true for none of its tasks: {of_nodes}"
    elif any(
        reason is not None and reason.why in _BY_QUEUE and reason.detail == of_nodes
        for reason in reasons.values()
    ):
        return
    elif not any(of_nodes == recount(cycle, task).text for task in tried):
        yield f"its condition is true for none of its tasks: {of_nodes}"


def _lacking(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    return cycle.ready_groups(job).lacking()


def _numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"[0-9]+", text)]


def _has_tally(reason: PendingReason | None) -> bool:
    return reason is not None and reason.tally is not None
