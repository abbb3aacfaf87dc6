"""The action reserve: reserve nodes for starving jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil

from batchsched import JobInfo, NodeInfo, TaskInfo, TaskStatus
from tests.reference.allocate import can_still_start
from tests.reference.choose import accepted_nodes, feasible_nodes, place_now
from tests.reference.conf import Arguments
from tests.reference.group_turns import needed_tasks
from tests.reference.groups import HOPED, has_groups
from tests.reference.reservations import (
    can_be_kept_for_one_job,
    can_be_reserved,
    is_promised_to_others,
)
from tests.reference.session import Session

__all__ = ["reserve"]

DEFAULT_THRESHOLD = 172800.0
DEFAULT_PERCENT = 50.0


def reserve(session: Session, arguments: Arguments) -> None:
    """Reserve for starving jobs, up to the first other job that could be scheduled now."""
    threshold = arguments.number("starvingJobTimeThreshold", DEFAULT_THRESHOLD)
    percent = arguments.number("reservedNodePercent", DEFAULT_PERCENT)
    limit = ceil(percent * len(session.nodes) / 100)
    in_order = arguments.boolean("inOrder")
    waiting = [
        job
        for job in session.jobs
        if session.to_place(job) or session.tasks_with(job, TaskStatus.RESERVED)
    ]
    while waiting:
        job = session.tiers.next_job(waiting)
        waiting.remove(job)
        before = session.state.save()
        if session.tasks_with(job, TaskStatus.RESERVED):
            _choose_anew(session, job, in_order=in_order)
            if not session.to_place(job):
                continue
        is_starving = session.is_starving(job, threshold)
        if is_starving and job.queue not in session.overused_at_open:
            attempt = partial(_try_to_reserve, session, job, limit, in_order=in_order)
            if session.statement(job, attempt):
                continue
            session.state.restore(before)  # what it moved goes back
            if in_order and _waits_for_other_reservations(session, job, attempt):
                return
        elif not session.tiers.overused(session.queue_of(job)) and _could_be_scheduled(
            session, job
        ):
            return


def _choose_anew(session: Session, job: JobInfo, *, in_order: bool) -> None:
    """Move reservations of tasks that do not fit now to nodes where they do."""
    nodes = {node.name: node for node in session.nodes}
    saved = session.state.save()
    short: list[TaskInfo] = []
    for task in session.tasks_with(job, TaskStatus.RESERVED):
        node = nodes[session.state.node_name(task) or ""]
        accepts = node in accepted_nodes(session, task)
        if accepts and session.accounts(node).fits_now(task.start_request):
            session.place(task, TaskStatus.ALLOCATED, node)
        else:
            short.append(task)
    session.state.restore(saved)
    better: dict[str, NodeInfo] = {}
    for task in short:
        ranked = _ranked(session, task, in_order=in_order)
        found = [node for node in ranked if _is_open_for(session, task, node)]
        if found:
            better[task.uid] = found[0]
            session.place(task, TaskStatus.ALLOCATED, found[0])
    session.state.restore(saved)
    most = len(_reserved_nodes(session))
    moved = [task for task in short if task.uid in better]
    for name in dict.fromkeys(session.state.node_name(task) for task in moved):
        saved = session.state.save()
        for task in moved:
            if session.state.node_name(task) == name and task.uid in better:
                session.place(task, TaskStatus.RESERVED, better.pop(task.uid))
        if len(_reserved_nodes(session)) > most:
            session.state.restore(saved)


def _could_be_scheduled(session: Session, job: JobInfo) -> bool:
    """Return whether a job would become ready now, or one more task of a ready job fits.

    False if an action has already failed to place one of its tasks.
    """
    if any(task.uid in session.failed_tasks for task in session.to_place(job)):
        return False
    was_ready = session.tiers.job_ready(job)
    saved = session.state.save()
    could = False
    left = needed_tasks(session, job)
    while left and not could:
        task = left.pop(0)
        if place_now(session, task, feasible_nodes(session, task)):
            could = was_ready or session.tiers.job_ready(job)
            could = could and not (has_groups(job) and left)
        elif has_groups(job) or not can_still_start(session, job, left):
            break
    session.state.restore(saved)
    return could


def _waits_for_other_reservations(
    session: Session, job: JobInfo, attempt: Callable[[], bool]
) -> bool:
    """Return whether a failed attempt would succeed if no other job had reservations."""
    saved = session.state.save()
    others = [
        task
        for other in session.jobs
        if other is not job
        for task in session.tasks_with(other, TaskStatus.RESERVED)
    ]
    for task in others:
        session.state.take_off(task)
    would_succeed = bool(others) and attempt()
    session.state.restore(saved)
    return would_succeed


def _try_to_reserve(session: Session, job: JobInfo, limit: int, *, in_order: bool) -> bool:
    nodes = {node.name: node for node in session.nodes}
    for task in session.tasks_with(job, TaskStatus.ALLOCATED) if in_order else []:
        if session.reserved_on(nodes[session.state.node_name(task) or ""]):
            # The node has been reserved for another job.
            session.state.take_off(task)
    if not _is_satisfied(session, job) and _is_limited(session, job):
        return False
    statuses = (*HOPED, TaskStatus.RESERVED)
    for task in needed_tasks(session, job, statuses):
        if _is_satisfied(session, job):
            break
        if not _find_node(session, task, limit, in_order=in_order):
            session.failed_tasks.add(task.uid)
    return _is_satisfied(session, job)


def _is_limited(session: Session, job: JobInfo) -> bool:
    """Return whether the limits of a job's queue forbid its need, whichever tasks leave."""
    need = session.need(job, session.to_place(job))
    queue, capacity = session.queues[job.queue], session.tiers.limits
    if capacity is None or not need or capacity.allows(queue, need):
        return False
    if capacity.lacks_room_alone(queue, need):
        return False
    session.failed_tasks.update(task.uid for task in need)
    return True


def _is_satisfied(session: Session, job: JobInfo) -> bool:
    return session.tiers.job_ready(job) or session.tiers.job_condition_ready(job)


def _find_node(session: Session, task: TaskInfo, limit: int, *, in_order: bool) -> bool:
    """Allocate the task on an open node, or reserve a node; return whether that succeeded."""
    ranked = _ranked(session, task, in_order=in_order)
    reserved = _reserved_nodes(session)
    for node in ranked:
        if _is_open_for(session, task, node):
            session.place(task, TaskStatus.ALLOCATED, node)
            return True
    fresh = [node for node in ranked if node not in reserved][: max(0, limit - len(reserved))]
    for node in ranked:
        if node in reserved or node in fresh:
            session.place(task, TaskStatus.RESERVED, node)
            return True
    return False


def _ranked(session: Session, task: TaskInfo, *, in_order: bool) -> list[NodeInfo]:
    """Return the nodes that may be reserved for a task, the one with the most room first."""
    is_large_enough = can_be_kept_for_one_job if in_order else can_be_reserved
    possible = [
        node
        for node in accepted_nodes(session, task)
        if not is_promised_to_others(session, task, node) and is_large_enough(session, task, node)
    ]
    scores = session.tiers.resource_scores(task, possible)
    return sorted(possible, key=lambda node: (-scores[node.name], node.name))


def _reserved_nodes(session: Session) -> list[NodeInfo]:
    return [node for node in session.nodes if session.reserved_on(node)]


def _is_open_for(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    is_open = not session.reserved_on(node)
    return is_open and session.accounts(node).fits_now(task.start_request)
