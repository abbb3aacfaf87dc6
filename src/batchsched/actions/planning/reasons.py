"""Reasons why jobs wait that have a plan, or for which no plan was found."""

from __future__ import annotations

from math import inf

from batchsched.actions.planning.cluster_profile import Places
from batchsched.actions.planning.profile import expected_end
from batchsched.model.reasons import PendingReason, WhyPending
from batchsched.session.session import Session
from batchsched.state.needs import Need

__all__ = ["reason_for_no_plan", "reason_for_plan"]

_MOST_NAMED = 3


def reason_for_plan(session: Session, need: Need, places: Places) -> PendingReason:
    """Return why a planned job waits: for how much, until when, and for which jobs to end."""
    freed_by = sorted(
        {
            task.info.name if task.job is None else task.job.info.name
            for _, node in places.of
            for task in node.tasks.values()
            if task.status.holds and expected_end(task, session.now) == places.start
        }
    )
    when = f"planned for t = {places.start:.12g}"
    if places.start == session.now:
        when = "planned to start at once"
    if freed_by:
        names = ", ".join(freed_by[:_MOST_NAMED])
        more = len(freed_by) - _MOST_NAMED
        are = "is" if len(freed_by) == 1 else "are"
        names += f" and {more} more" if more > 0 else ""
        is_overdue = places.start == session.now
        when += (
            f", as soon as {names} {are} gone"
            if is_overdue
            else f", when {names} {are} expected to end"
        )
    detail = f"waits for {_amount(session, need)}; {when}"
    return PendingReason(WhyPending.PLANNED, detail=detail)


def reason_for_no_plan(session: Session, need: Need, window: float) -> PendingReason:
    """Return why a job waits for which no start could be planned."""
    amount = _amount(session, need)
    if window < inf:
        detail = f"waits for {amount}, which are not free together within {window:g} s from now"
    else:
        detail = f"waits for {amount}, which are never free together, by what is expected to end"
    return PendingReason(WhyPending.NEVER_FITS, detail=detail)


def _amount(session: Session, need: Need) -> str:
    """Return what the tasks of a need request in the dimension where their share is largest."""
    total = [sum(task.init_resreq[d] for task in need.tasks) for d in range(len(need.request))]
    shares = [
        amount / there if there else (inf if amount else 0.0)
        for amount, there in zip(total, session.cluster, strict=True)
    ]
    most = max(range(len(total)), key=lambda d: (shares[d], -d))
    name = session.dimensions.names[most]
    if name == "memory":
        return f"{total[most] / (1 << 30):.6g} GiB of memory"
    return f"{total[most] / 1000:.6g} {name}"
