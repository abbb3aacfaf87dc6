"""Why tasks of a job with groups, or with a maximum, were left pending."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.model.reasons import PendingReason, WhyPending
from batchsched.session.waiting_jobs import NOT_CONSIDERED, not_reached
from batchsched.state.groups import Counting, JobGroups
from batchsched.state.records import TaskState

__all__ = ["at_maximum", "not_asked_for"]

_WAITS_FOR_PROMISES = PendingReason(
    WhyPending.NOT_CONSIDERED, detail="its job asks for more once it has what it was promised"
)
_WAITS_FOR_BACKFILL = PendingReason(
    WhyPending.GANG_INCOMPLETE,
    detail="its job needs tasks that ask for nothing, too, which only backfill places",
)


def at_maximum(groups: JobGroups, task: TaskState) -> PendingReason:
    """Return that a job, or a group of it, has as many tasks as it may have."""
    if groups.maximum is not None and groups.root.placed >= groups.maximum:
        detail = f"its job has the {groups.maximum} tasks that it may have at most"
    else:
        full = groups.leaf_of(task).full()
        assert full is not None
        kind = "groups" if full.children else "tasks"
        detail = f"group {full.name!r} has the {full.maximum} {kind} that it may have at most"
    return PendingReason(WhyPending.AT_MAXIMUM, detail=detail)


def not_asked_for(
    groups: JobGroups, task: TaskState, pending: Sequence[TaskState], blocked: Sequence[TaskState]
) -> PendingReason:
    """Return why a job with groups did not ask for a task when it had its turn.

    Args:
        groups: those of the job.
        task: the task.
        pending: all tasks of the job that are pending.
        blocked: those of them that were tried in vain, and may still have a place.

    """
    is_ready = groups.is_satisfied(Counting.READY)  # which gang may not be there to say
    missing = groups.out_of_reach(task)
    if missing is None and not is_ready:
        missing = groups.first_out_of_reach()
    if missing is not None:
        return PendingReason(WhyPending.GANG_INCOMPLETE, detail=missing.text_of_reach())
    there = groups.total[Counting.VALID]
    if there < groups.minimum:
        detail = f"{there} of the {groups.minimum} tasks that its job needs can start"
        return PendingReason(WhyPending.GANG_INCOMPLETE, detail=detail)
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
