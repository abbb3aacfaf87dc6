"""Free resources over time, each time computed from all running and planned tasks."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, nextafter

from batchsched import NodeInfo, Resource, TaskInfo, TaskStatus
from tests.reference.session import Session
from tests.reference.state import Take, less, total_of

__all__ = ["NOW", "allows", "end_of", "expected_end", "fits_between", "moments"]

NOW = -inf
"""The present; "at once" is the time of the cycle, and all other moments are later."""


def expected_end(session: Session, task: TaskInfo) -> float:
    """Return when a task that holds resources is expected to end."""
    if session.state.status(task) is TaskStatus.RELEASING:
        return session.now
    start = task.start_time
    if task.status in (TaskStatus.PENDING, TaskStatus.RESERVED):
        start = session.now
    estimate = _estimate(session, task)
    if start is None or estimate is None:
        return inf
    return max(start + estimate, session.now)


def _estimate(session: Session, task: TaskInfo) -> float | None:
    job = session.state.job_of.get(task.uid)
    if task.estimate is None and job is not None:
        return job.estimate
    return task.estimate


def end_of(session: Session, task: TaskInfo, start: float) -> float:
    """Return the expected end of a task that starts at a moment."""
    estimate = _estimate(session, task)
    if estimate is None:
        return inf
    end = max(start, session.now) + estimate
    # Every run takes some time.
    return end if end > start else nextafter(start, inf)


def _free_at(session: Session, node: NodeInfo, takes: Iterable[Take], moment: float) -> Resource:
    accounts = session.accounts(node)
    free = less(less(accounts.idle, accounts.pipelined), accounts.conditional)
    for task in session.state.tasks_on(node):
        if session.state.status(task).holds and expected_end(session, task) <= moment:
            free += task.resreq
    taken = [
        take.task.resreq for take in takes if take.node is node and take.start <= moment < take.end
    ]
    return less(free, total_of(taken))


def _steps(session: Session, node: NodeInfo, takes: Iterable[Take]) -> list[float]:
    """Return the moments at which the free resources of a node may change."""
    found = {NOW}
    for task in session.state.tasks_on(node):
        if session.state.status(task).holds:
            found.add(expected_end(session, task))
    for take in takes:
        if take.node is node:
            found |= {take.start, take.end}
    return sorted(found - {inf})


def moments(session: Session, takes: list[Take]) -> list[float]:
    """Return the moments after now at which something changes on any node."""
    changes: set[float] = set()
    for node in session.nodes:
        before = _free_at(session, node, takes, NOW)
        for moment in _steps(session, node, takes):
            free = _free_at(session, node, takes, moment)
            if free != before:
                changes.add(moment)
            before = free
    return sorted(changes - {NOW})


def fits_between(
    session: Session, task: TaskInfo, node: NodeInfo, takes: list[Take], start: float, end: float
) -> bool:
    """Return whether a task fits on a node at every moment from `start` until `end`."""
    inside = [step for step in _steps(session, node, takes) if start < step < end]
    return all(
        task.start_request.fits(_free_at(session, node, takes, moment))
        for moment in (start, *inside)
    )


def allows(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether all plans still fit if a task is placed on a node now, until its end."""
    job = session.job_of(task)
    takes = [
        take
        for take in session.planned
        if session.job_of(take.task) is not job and session.state.node_name(take.task) is None
    ]
    if not any(take.node is node for take in takes):
        return True
    return fits_between(session, task, node, takes, NOW, end_of(session, task, NOW))
