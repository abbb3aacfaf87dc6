"""Evict tasks for another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from batchsched import JobInfo, NodeInfo, TaskInfo, TaskStatus
from tests.reference.choose import can_start, curable_nodes
from tests.reference.devices import LATER
from tests.reference.plugins import is_broken
from tests.reference.session import Session
from tests.reference.state import total_of
from tests.reference.tiers import Victims

__all__ = [
    "Unit",
    "enough_victims",
    "evict_for",
    "importance_among",
    "make_room",
    "members",
    "running_on",
    "whole_jobs",
]

UnitT = TypeVar("UnitT")


def running_on(
    session: Session, node: NodeInfo, is_candidate: Callable[[TaskInfo], bool]
) -> list[TaskInfo]:
    """Return the tasks of session jobs on a node that pass a filter, in victim order."""
    in_session = {job.uid for job in session.jobs}
    return session.tiers.victims_in_order(
        task
        for task in session.state.tasks_on(node)
        if task.uid in session.state.job_of
        and session.job_of(task).uid in in_session
        and is_candidate(task)
    )


def enough_victims(
    victims: Sequence[UnitT],
    is_enough: Callable[[list[UnitT]], bool],
    may_take: Callable[[list[UnitT]], bool] = lambda _taken: True,
) -> list[UnitT] | None:
    """Take victims in order until enough, then drop those that are not needed; None: too few.

    Of those left, the first is next that may be taken beside those that are taken.
    """
    taken: list[UnitT] = []
    while not is_enough(taken):
        left = [victim for victim in victims if victim not in taken]
        possible = [victim for victim in left if may_take([*taken, victim])]
        if not possible:
            return None
        taken.append(possible[0])
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


def make_room(  # noqa: PLR0915 - they are its steps
    session: Session,
    action: str,
    task: TaskInfo,
    feasible: Sequence[NodeInfo],
    *,
    may_use_idle: bool,
    is_candidate: Callable[[TaskInfo], bool],
    victims_of: Callable[[TaskInfo, list[TaskInfo], Callable[[TaskInfo], bool]], Victims],
    in_order: Callable[[Sequence[NodeInfo]], Sequence[NodeInfo]] | None = None,
    others_give_way: bool = False,
    spares_important: bool = False,
    note: Callable[[Sequence[Unit]], None] = lambda _: None,
) -> bool:
    """Evict what is needed for a task, and pipeline it to the node.

    Single tasks are evicted where that is enough on a node; else whole jobs too, broken ones last.
    Of the nodes where it is enough, that one is taken whose most important victim is least
    important (`spares_important`), then the first of single tasks, then that with the fewest. What
    is taken is noted. Nodes that accept
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

    def may_leave(other: TaskInfo) -> bool:
        return session.may_leave(other, action, session.job_of(task))

    def keeps(node: NodeInfo, units: Sequence[Unit]) -> bool:
        """Return whether units may leave a node that accepts the task, and have it accept it."""
        return node in curable or session.accepts_without(task, node, members(units))

    def chosen_on(node: NodeInfo, units: Sequence[Unit]) -> list[Unit] | None:
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
                and session.has_devices(task, node, LATER, gone)
                and session.accepts_without(task, node, gone)
                and (capacity is None or capacity.allows(queue, [task], gone))
            )

        return enough_victims(units, is_enough, partial(keeps, node))

    def importance(units: Sequence[Unit]) -> tuple[float, ...]:
        return importance_among(session, members(units)) if spares_important else ()

    def fits_as_it_is(node: NodeInfo) -> bool:
        return (
            session.accounts(node).fits_later(request)
            and session.has_devices(task, node, LATER)
            and session.accepts_without(task, node, [])
        )

    def nodes_for(node: NodeInfo) -> list[NodeInfo]:
        """Return all nodes if only a limit keeps the task out, wherever it is used up."""
        everywhere = capacity is not None and may_use_idle and fits_as_it_is(node)
        return list(session.nodes) if everywhere else [node]

    def way_on(node: NodeInfo) -> list[Unit]:
        """Return what gives way before all victims, of the least important job first."""
        units = _giving_way(session, session.job_of(task)) if others_give_way else []
        there = [
            unit
            for unit in units
            if any(_is_on(session, other, one) for other in unit for one in nodes_for(node))
        ]
        return [unit for unit in there if keeps(node, [unit])]

    def units_on(node: NodeInfo) -> tuple[list[Unit], list[Unit]]:
        nodes = nodes_for(node)
        candidates = [
            other
            for one in nodes
            for other in running_on(session, one, is_candidate)
            if may_leave(other) and keeps(node, [[other]])
        ]
        victims = victims_of(task, session.tiers.victims_in_order(candidates), may_leave)
        whole = whole_jobs(session, victims)
        return (
            [[victim] for victim in victims.alone if keeps(node, [[victim]])],
            [unit for unit in (*victims.replicas, *whole) if keeps(node, [unit])],
        )

    def search() -> tuple[NodeInfo, list[Unit]] | None:
        for node in curable:
            if chosen_on(node, []) is not None:
                return node, []
        for node in (*feasible, *curable):
            way = way_on(node)
            chosen = chosen_on(node, way) if way else None
            if chosen is not None:
                return node, chosen
        found: list[tuple[tuple[tuple[float, ...], bool, int], NodeInfo, list[Unit]]] = []
        for node in (*feasible, *curable):
            way, (alone, whole) = way_on(node), units_on(node)
            is_whole, chosen = False, chosen_on(node, [*way, *alone]) if alone else None
            if chosen is None and whole:
                is_whole, chosen = True, chosen_on(node, [*way, *alone, *whole])
            if chosen is not None:
                cost = session.evictions_of(members(chosen)) if is_whole else 0
                found.append(((importance(chosen), is_whole, cost), node, chosen))
        _, *best = min(found, key=lambda each: each[0], default=(None,))  # the first of equals
        return (best[0], best[1]) if best else None

    found = search()
    if found is None:
        return False
    node, units = found
    if not session.may_take_task(task, members(units)):
        return False
    note(units)
    evict_for(session, action, task, members(units), node)
    return True


def _giving_way(session: Session, claimant: JobInfo) -> list[Unit]:
    """Return what each job gives up for a claimant, the least important job first."""
    jobs = sorted(session.jobs, key=lambda job: (job.creation_time, job.uid), reverse=True)
    jobs.sort(key=lambda job: job.priority)
    return [session.gives_way(job, claimant) for job in jobs]


def evict_for(
    session: Session, action: str, task: TaskInfo, evicted: Sequence[TaskInfo], node: NodeInfo
) -> None:
    """Evict tasks, and give a task its node: at once if it may start as soon as they are off."""
    starts = bool(evicted) and not session.evictions_of(evicted)
    for victim in evicted:
        session.evict(victim, action, task)
    starts = starts and can_start(session, task, node)
    session.place(task, TaskStatus.ALLOCATED if starts else TaskStatus.PIPELINED, node)


def importance_among(session: Session, tasks: Iterable[TaskInfo]) -> tuple[float, ...]:
    """Return how important the most important of those evicted is; nobody: below all."""
    evicted = [task for task in tasks if session.state.status(task) is TaskStatus.RUNNING]
    return max([(session.job_of(task).priority, task.priority) for task in evicted], default=())


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
