"""The action reclaim with the plugin capacity, which decides what queues may claim."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched import EPSILON, JobInfo, NodeInfo, TaskInfo, TaskStatus
from tests.reference.capacity import Capacity, Claim, Unit, needed
from tests.reference.choose import (
    curable_nodes,
    feasible_nodes,
    place_later,
    place_now,
)
from tests.reference.claimant_turn import claimant_turn
from tests.reference.make_room import members
from tests.reference.session import Session

__all__ = ["reclaim_by_claims"]


def reclaim_by_claims(session: Session, capacity: Capacity) -> None:
    """Take turns of queues and jobs until no job is left."""
    jobs = [job for job in session.jobs if session.to_place(job)]
    tasks = {job.uid: session.to_place(job) for job in jobs}
    while jobs:
        queues = [queue for queue in session.queues.values() if _of(jobs, queue.name)]
        queue = session.next_queue(queues, jobs, tasks)
        job = session.next_job(_of(jobs, queue.name), tasks)
        if not _turn(session, capacity, job, tasks[job.uid]):
            jobs.remove(job)


def _of(jobs: Sequence[JobInfo], name: str) -> list[JobInfo]:
    return [job for job in jobs if job.queue == name]


def _turn(session: Session, capacity: Capacity, job: JobInfo, tasks: list[TaskInfo]) -> bool:
    """Give a job its turn; return whether it gets another turn."""
    need = needed(session.state, job, tasks)
    claim = capacity.claim(job, need) if need else None
    if claim is None:
        return False
    return claimant_turn(session, job, tasks, lambda task: _take_a_place(session, claim, task))


def _take_a_place(session: Session, claim: Claim, task: TaskInfo) -> bool:
    feasible = feasible_nodes(session, task)
    if place_now(session, task, feasible) or place_later(session, task, feasible):
        return True
    if not session.is_open_for(task):
        return False
    curable = curable_nodes(session, task) if session.cures else []
    refusing = {node.name for node in curable}
    for node in curable:
        if not _short(session, claim, task, node, [], is_refused=True):
            session.place(task, TaskStatus.PIPELINED, node)
            return True
    for stage in (1, 2, 3):
        found: list[tuple[NodeInfo, list[TaskInfo]]] = []
        for node in [*feasible, *curable]:
            is_refused = node.name in refusing
            victims = _victims_on(session, claim, task, node, stage, is_refused=is_refused)
            if victims:
                found.append((node, victims))
                if stage == 1:
                    break
        if found:
            chosen, gone = min(found, key=lambda choice: len(choice[1]))  # the first of equals
            for victim in gone:
                session.evict(victim, "reclaim", task)
            session.place(task, TaskStatus.PIPELINED, chosen)
            return True
    return False


def _victims_on(
    session: Session,
    claim: Claim,
    task: TaskInfo,
    node: NodeInfo,
    stage: int,
    *,
    is_refused: bool,
) -> list[TaskInfo]:
    """Return the tasks to evict on a node, without unnecessary ones; [] if not enough."""
    capacity = claim.plugin
    on_node = {other.uid for other in session.state.tasks_on(node)}
    units = [
        unit
        for name in capacity.leaves()
        if name != claim.leaf
        for unit in capacity.on_loan(name)
        if any(other.uid in on_node for other in unit.tasks)
        and session.tiers.lets_go(task, list(unit.victims), is_whole_job=not unit.is_surplus)
    ]
    taken: list[Unit] = []
    while short := _short(session, claim, task, node, taken, is_refused=is_refused):
        gone = {other.uid for unit in taken for other in unit.victims}
        left = [unit for unit in units if unit.tasks[0].uid not in gone]
        victim = claim.next_victim(left, stage, short, taken)
        if victim is None:
            return []
        taken.append(victim)
    for unit in list(reversed(taken)):
        without = [other for other in taken if other is not unit]
        if without and not _short(session, claim, task, node, without, is_refused=is_refused):
            taken = without
    return members([session.tiers.victims_in_order(unit.victims) for unit in taken])


def _short(
    session: Session,
    claim: Claim,
    task: TaskInfo,
    node: NodeInfo,
    taken: Sequence[Unit],
    *,
    is_refused: bool,
) -> list[str]:
    """Return the dimensions that a task lacks on a node without some units.

    All that it requests, as long as a node that refuses it would refuse it even then.
    """
    capacity = claim.plugin
    leaving = list({other.uid: other for unit in taken for other in unit.victims}.values())
    accounts = session.accounts(node)
    found: set[str] = set()
    for dimension in capacity.dimensions:
        wanted = task.start_request.get(dimension)
        freed = [o for o in leaving if session.state.node_name(o) == node.name]
        now = accounts.future_idle.get(dimension) + sum(o.resreq.get(dimension) for o in freed)
        in_the_end = accounts.eventual.get(dimension) + sum(
            o.resreq.get(dimension) for o in freed if not session.state.is_backfill(o)
        )
        if wanted >= EPSILON and wanted - min(now, in_the_end) >= EPSILON:
            found.add(dimension)
    found.update(capacity.limited(session.queues[claim.leaf], [task], leaving))
    if is_refused and not found and not session.accepts_without(task, node, leaving):
        found = {name for name in capacity.dimensions if task.start_request.get(name) >= EPSILON}
    return [dimension for dimension in capacity.dimensions if dimension in found]
