"""The action backfill: best-effort tasks, then the configured strategy."""

from __future__ import annotations

from math import inf

from batchsched import TaskStatus
from tests.reference.choose import best, feasible_nodes
from tests.reference.conf import Arguments
from tests.reference.displace import displace
from tests.reference.release import release
from tests.reference.session import Session

__all__ = ["backfill"]


def backfill(session: Session, arguments: Arguments) -> None:
    """Place the best-effort tasks, then follow the strategy."""
    strategy = arguments.word("strategy", ("best-effort", "release", "displace"))
    takes_best = arguments.word("nodeChoice", ("first", "best")) == "best"
    threshold = arguments.number("starvationThreshold", inf)
    for job in session.tiers.jobs_in_order(session.jobs):
        for task in session.tasks_with(job, TaskStatus.PENDING):
            if not task.is_best_effort:
                continue
            # Best-effort tasks need no room; but many tiny requests add up, and no account may
            # become negative.
            feasible = [
                node
                for node in feasible_nodes(session, task)
                if session.accounts(node).fits_now(task.start_request)
            ]
            if feasible and session.may_take_task(task):
                node = best(session, task, feasible) if takes_best else feasible[0]
                session.place(task, TaskStatus.ALLOCATED, node)
                session.bind_if_ready(job)
    if strategy == "release":
        release(session, threshold)
    elif strategy == "displace":
        displace(session)
