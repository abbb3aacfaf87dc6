"""Reasons why tasks of a job with groups or a maximum are pending."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.model.reasons import MemberCount, PendingReason, WhyPending
from batchsched.session.waiting_jobs import NOT_CONSIDERED, not_reached
from batchsched.state.groups import Counting, JobGroups
from batchsched.state.records import TaskState

__all__ = ["at_maximum", "not_asked_for"]

_WAITS_FOR_PROMISES = PendingReason(
    WhyPending.NOT_CONSIDERED,
    detail="its job tries more tasks once it has received what it was promised",
)
_WAITS_FOR_BACKFILL = PendingReason(
    WhyPending.GANG_INCOMPLETE,
    detail="its job also needs tasks without requests, which only backfill places",
)


def at_maximum(groups: JobGroups, task: TaskState) -> PendingReason:
    """Return the reason that a job, or a group of it, has its maximum number of tasks."""
    if groups.maximum is not None and groups.root.placed >= groups.maximum:
        detail = f"its job has its maximum of {groups.maximum} tasks"
    else:
        full = groups.leaf_of(task).full()
        assert full is not None
        kind = "groups" if full.children else "tasks"
        detail = f"group {full.name!r} has its maximum of {full.maximum} {kind}"
    return PendingReason(WhyPending.AT_MAXIMUM, detail=detail)


def _out_of_reach(lacking: MemberCount) -> PendingReason:
    detail = lacking.can_start_text("its job")
    return PendingReason(WhyPending.GANG_INCOMPLETE, detail=detail, out_of_reach=lacking)


def not_asked_for(
    groups: JobGroups, task: TaskState, pending: Sequence[TaskState], blocked: Sequence[TaskState]
) -> PendingReason:
    """Return why a job with groups did not try a task when it had its turn.

    Args:
        groups: the groups of the job.
        task: the task.
        pending: all tasks of the job that are pending.
        blocked: the tasks that were tried without success and are still allowed by maxima.

    """
    is_ready = groups.is_satisfied(Counting.READY)  # the plugin gang may not be configured
    missing = groups.out_of_reach(task)
    if missing is None and not is_ready:
        missing = groups.first_out_of_reach()
    if missing is not None:
        return _out_of_reach(missing.member_count(Counting.VALID))
    there = groups.total[Counting.VALID]
    if there < groups.minimum:
        return _out_of_reach(MemberCount(has=there, needs=groups.minimum))
    entered = groups.incomplete_with(task)
    if blocked:
        near = (other for other in blocked if groups.incomplete_with(other) is entered)
        return not_reached(next(near, blocked[0]))
    if not is_ready and groups.is_satisfied(Counting.RESERVED):
        return _WAITS_FOR_PROMISES
    if not is_ready and any(other.is_best_effort for other in pending):
        return _WAITS_FOR_BACKFILL
    if not groups.has_maximum or (is_ready and entered is None):
        return NOT_CONSIDERED
    what = "must start together"
    if is_ready and entered is not None:
        what = f"group {entered.name!r} needs"
    detail = f"the maxima of its job and its groups leave less than {what}"
    return PendingReason(WhyPending.AT_MAXIMUM, detail=detail)
