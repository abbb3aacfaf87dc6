"""Evicting for a task (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from batchsched.model.cluster import NodeInfo, TaskInfo
from batchsched.model.status import TaskStatus
from batchsched.testing.reference.session import Session
from batchsched.testing.reference.state import total_of

__all__ = ["enough_victims", "make_room", "running_on"]


def running_on(
    session: Session, node: NodeInfo, is_candidate: Callable[[TaskInfo], bool]
) -> list[TaskInfo]:
    """Return the Running tasks of session jobs on a node that pass a filter, in victim order."""
    in_session = {job.uid for job in session.jobs}
    return session.tiers.victims_in_order(
        task
        for task in session.state.tasks_on(node)
        if session.state.status(task) is TaskStatus.RUNNING
        and task.uid in session.state.job_of
        and session.job_of(task).uid in in_session
        and is_candidate(task)
    )


def enough_victims(
    victims: Sequence[TaskInfo], is_enough: Callable[[list[TaskInfo]], bool]
) -> list[TaskInfo] | None:
    """Take victims in order until enough, then spare those that are not needed; None: too few."""
    taken: list[TaskInfo] = []
    for victim in victims:
        if is_enough(taken):
            break
        taken.append(victim)
    if not is_enough(taken):
        return None
    for victim in list(reversed(taken)):
        without = [other for other in taken if other is not victim]
        if is_enough(without):
            taken = without
    return taken


def make_room(
    session: Session,
    action: str,
    task: TaskInfo,
    nodes: Iterable[NodeInfo],
    *,
    may_use_idle: bool,
    is_candidate: Callable[[TaskInfo], bool],
    victims_of: Callable[[TaskInfo, list[TaskInfo]], list[TaskInfo]],
) -> bool:
    """Evict what is needed on the first node where that is possible; Pipeline the task there."""
    request = task.start_request
    for node in nodes:
        candidates = running_on(session, node, is_candidate)
        if not candidates:
            continue
        victims = victims_of(task, candidates)
        if not victims:
            continue
        accounts = session.accounts(node)

        def is_enough(taken: list[TaskInfo]) -> bool:
            freed = total_of(victim.resreq for victim in taken)
            new = total_of(
                victim.resreq for victim in taken if not session.state.is_backfill(victim)
            )
            return (
                request.fits(accounts.future_idle + freed)  # noqa: B023 - used in this turn only
                and request.fits(accounts.eventual + new)  # noqa: B023
                and (may_use_idle or request.fits(freed))
            )

        taken = enough_victims(victims, is_enough)
        if taken is None:
            continue
        for victim in taken:
            session.evict(victim, action, task)
        session.place(task, TaskStatus.PIPELINED, node)
        return True
    return False
