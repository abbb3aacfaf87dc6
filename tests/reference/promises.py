"""Evict backfill tasks for conditional placements: allocate's `evictBackfill`."""

from __future__ import annotations

from batchsched import JobInfo, NodeInfo, TaskInfo, TaskStatus
from tests.reference.choose import curable_nodes, place_conditionally, searched_nodes
from tests.reference.make_room import enough_victims, members, running_on, whole_jobs
from tests.reference.session import Session
from tests.reference.state import View, total_of

__all__ = ["make_promises_real", "place_on_loans"]


def make_promises_real(session: Session, job: JobInfo) -> None:
    """Evict the backfill tasks that hold what a conditionally ready job was promised."""
    tasks = session.tasks_with(job, TaskStatus.CONDITIONAL)
    if not tasks or session.tiers.job_ready(job) or not session.tiers.job_condition_ready(job):
        return
    nodes = {node.name: node for node in session.nodes}
    promised = [(task, nodes[session.state.node_name(task) or ""]) for task in tasks]

    def attempt() -> bool:
        for task in tasks:
            session.state.take_off(task)
        return all(
            _evict_backfill(session, task, node) for task, node in promised
        ) and session.tiers.job_pipelined(job)

    session.statement(job, attempt)


def place_on_loans(session: Session, task: TaskInfo, *, cures: bool) -> bool:
    """Ladder step 3 where loans are called in: on nodes as they will be.

    If none is found, on those that refuse the task only as long as what is lent there is.
    """
    if place_conditionally(session, task, searched_nodes(session, task)):
        return True
    return cures and place_conditionally(
        session,
        task,
        [
            node
            for node in curable_nodes(session, task)
            if (lent := lent_on(session, node)) and session.accepts_without(task, node, lent)
        ],
    )


def lent_on(session: Session, node: NodeInfo) -> list[TaskInfo]:
    """Return the backfill tasks on a node that may be evicted."""
    bound = {session.state.job_of[bind.task_uid].uid for bind in session.state.binds}
    return running_on(
        session,
        node,
        lambda other: (
            session.state.status(other) is TaskStatus.RUNNING
            and session.state.is_backfill(other)
            and session.job_of(other).uid not in bound
        ),
    )


def _evict_backfill(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    def keeps(taken: list[list[TaskInfo]]) -> bool:
        """Return whether the node accepts the task once they have left."""
        return session.accepts_without(task, node, members(taken))

    accepts = all(
        session.tiers.accepted(task, [node], view) for view in (View.PROMISED, View.LATER)
    )
    candidates = [other for other in lent_on(session, node) if not accepts or keeps([[other]])]
    accounts = session.accounts(node)
    request = task.start_request
    victims = session.tiers.revocable(task, candidates)
    alone = [[victim] for victim in victims.alone]
    units = [*alone, *victims.replicas, *whole_jobs(session, victims)]

    def is_enough(taken: list[list[TaskInfo]]) -> bool:
        leaving = [
            victim for victim in members(taken) if session.state.node_name(victim) == node.name
        ]
        lent = [victim for victim in leaving if session.state.is_backfill(victim)]
        own = [victim for victim in leaving if victim not in lent]
        return request.fits(
            accounts.future_idle + total_of(victim.resreq for victim in leaving)
        ) and request.fits(accounts.eventual + total_of(victim.resreq for victim in own))

    if accepts:
        units = [unit for unit in units if keeps([unit])]
    taken = enough_victims(
        units,
        lambda taken: is_enough(taken) and keeps(taken),
        keeps if accepts else lambda _: True,
    )
    if taken is None:
        return False
    for victim in members(taken):
        session.evict(victim, "allocate", task)
    session.place(task, TaskStatus.PIPELINED, node)
    return True
