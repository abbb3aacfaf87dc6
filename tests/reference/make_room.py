"""Evict tasks for another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from batchsched import NodeInfo, TaskInfo, TaskStatus
from tests.reference.choose import curable_nodes
from tests.reference.plugins import is_broken
from tests.reference.session import Session
from tests.reference.state import total_of
from tests.reference.tiers import Victims

__all__ = ["enough_victims", "make_room", "members", "running_on", "whole_jobs"]

UnitT = TypeVar("UnitT")


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
    victims: Sequence[UnitT], is_enough: Callable[[list[UnitT]], bool]
) -> list[UnitT] | None:
    """Take victims in order until enough, then drop those that are not needed; None: too few."""
    taken: list[UnitT] = []
    for victim in victims:
        if is_enough(taken):
            break
        taken.append(victim)
    if not is_enough(taken):
        return None
    spared = True
    while spared:
        spared = False
        for victim in list(reversed(taken)):
            without = [other for other in taken if other is not victim]
            if is_enough(without):
                taken, spared = without, True
    return taken


Unit = list[TaskInfo]
"""Tasks that are evicted together or not at all."""


def make_room(
    session: Session,
    action: str,
    task: TaskInfo,
    feasible: Sequence[NodeInfo],
    *,
    may_use_idle: bool,
    is_candidate: Callable[[TaskInfo], bool],
    victims_of: Callable[[TaskInfo, list[TaskInfo]], Victims],
    in_order: Callable[[Sequence[NodeInfo]], Sequence[NodeInfo]] | None = None,
) -> bool:
    """Evict what is needed for a task, and pipeline it to the node.

    Single tasks are evicted on the first node where that is enough; only if there is none, whole
    jobs too, broken ones last, on the node where the fewest tasks are evicted. Nodes that accept
    the task only after evictions come after feasible ones, but first of all if no eviction is
    needed there. With capacity, limits must allow the task, too; where they alone keep it out, the
    tasks on all nodes are candidates.
    """
    request = task.start_request
    capacity = session.tiers.limits
    queue = session.queue_of(session.job_of(task))
    curable: Sequence[NodeInfo] = curable_nodes(session, task) if session.cures else []
    if in_order is not None:
        feasible, curable = in_order(feasible), in_order(curable)

    def chosen_on(node: NodeInfo, units: Sequence[Unit]) -> list[TaskInfo] | None:
        accounts = session.accounts(node)

        def is_enough(taken: Sequence[Unit]) -> bool:
            gone = members(taken)
            leaving = [other for other in gone if _is_on(session, other, node)]
            freed = total_of(victim.resreq for victim in leaving)
            new = total_of(
                victim.resreq for victim in leaving if not session.state.is_backfill(victim)
            )
            return (
                request.fits(accounts.future_idle + freed)
                and request.fits(accounts.eventual + new)
                and (may_use_idle or request.fits(freed))
                and (node not in curable or session.accepts_without(task, node, gone))
                and (capacity is None or capacity.allows(queue, [task], gone))
            )

        taken = enough_victims(units, is_enough)
        return None if taken is None else members(taken)

    def fits_as_it_is(node: NodeInfo) -> bool:
        return session.accounts(node).fits_later(request) and (
            node not in curable or session.accepts_without(task, node, [])
        )

    def units_on(node: NodeInfo) -> tuple[list[Unit], list[Unit]]:
        nodes = [node]
        if capacity is not None and may_use_idle and fits_as_it_is(node):
            nodes = list(session.nodes)  # only a limit keeps the task out, wherever it is used up
        candidates = [other for one in nodes for other in running_on(session, one, is_candidate)]
        victims = victims_of(task, session.tiers.victims_in_order(candidates))
        whole = whole_jobs(session, victims)
        return [[victim] for victim in victims.alone], [*victims.replicas, *whole]

    def search() -> tuple[NodeInfo, list[TaskInfo]] | None:
        for node in curable:
            if chosen_on(node, []) is not None:
                return node, []
        units = [(node, *units_on(node)) for node in (*feasible, *curable)]
        for node, alone, _ in units:
            chosen = chosen_on(node, alone) if alone else None
            if chosen is not None:
                return node, chosen
        found: list[tuple[NodeInfo, list[TaskInfo]]] = []
        for node, alone, whole in units:
            chosen = chosen_on(node, [*alone, *whole]) if whole else None
            if chosen is not None:
                found.append((node, chosen))
        return min(found, key=lambda choice: len(choice[1]), default=None)  # the first of equals

    found = search()
    if found is None:
        return False
    node, evicted = found
    if not session.may_take_task(task, evicted):
        return False
    for victim in evicted:
        session.evict(victim, action, task)
    session.place(task, TaskStatus.PIPELINED, node)
    return True


def whole_jobs(session: Session, victims: Victims) -> list[Unit]:
    """Return the jobs that may go whole, broken ones last, each with all its tasks on nodes."""
    jobs = {session.job_of(other).uid: session.job_of(other) for other in victims.with_job}
    in_order = sorted(jobs.values(), key=lambda job: is_broken(session.state, job))
    return [
        session.tiers.victims_in_order(
            other for other in job.tasks if session.state.status(other).occupies
        )
        for job in in_order
    ]


def members(units: Iterable[Unit]) -> list[TaskInfo]:
    """Return all tasks of some units, each once, in order."""
    return list({task.uid: task for unit in units for task in unit}.values())


def _is_on(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    return session.state.node_name(task) == node.name
