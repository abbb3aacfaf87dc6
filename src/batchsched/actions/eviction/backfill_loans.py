"""Evict backfill tasks for the job that was promised, conditionally, what they hold."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.actions.eviction.victims import Shortfall, Unit, choose_units, running_tasks
from batchsched.model.cluster import TaskStatus
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.victims import Victims
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import fits

__all__ = ["make_promises_real"]


def make_promises_real(session: Session, job: JobState) -> bool:
    """Evict backfill tasks so that all Conditional tasks of a job can be Pipelined, or evict none.

    Returns:
        Whether the tasks are Pipelined now. If not, nothing was changed.

    """
    promised = [
        (task, task.node) for task in session.in_task_order(job.having(TaskStatus.CONDITIONAL))
    ]
    with session.statement() as statement:
        for task, _ in promised:
            statement.unallocate(task)
        for task, node in promised:
            assert node is not None
            if not _evict_backfill(session, statement, task, node):
                return False
            statement.pipeline(task, node)
        if not session.job_pipelined(job):
            return False
        statement.commit()
    return True


def _evict_backfill(
    session: Session, statement: Statement, task: TaskState, node: NodeState
) -> bool:
    def is_candidate(other: TaskState) -> bool:
        owner = other.job
        return other.is_backfill and owner is not None and owner.in_session and not owner.has_bind

    # `eventual` already includes what backfill tasks hold, so evicting them does not change it.
    if not fits(task.init_resreq, node.eventual):
        return False
    room = Shortfall(task.init_resreq, node, may_use_idle=True)
    candidates = session.in_victim_order(running_tasks(node, is_candidate))
    victims = session.plugin_set.eviction.revocable(task, candidates)
    chosen = choose_units(_units(session, candidates, victims), node, room.is_enough_for_now_with)
    if chosen is None:
        return False
    for victim in chosen:
        statement.evict(victim, claimant=task)
    return True


def _units(session: Session, candidates: Sequence[TaskState], victims: Victims) -> list[Unit]:
    """Return the units that may be evicted, in victim order: single tasks, replicas, whole jobs."""
    alone = {victim.uid for victim in victims.alone}
    replica_of = {task.uid: unit for unit in victims.replicas for task in unit.victims}
    units: list[Unit] = []
    for candidate in candidates:
        job = candidate.job
        if job is not None and job in victims.whole_jobs:
            units.append(session.whole_job(job))
        elif candidate.uid in alone:
            units.append([candidate])
        elif candidate.uid in replica_of:
            units.append(session.in_victim_order(replica_of[candidate.uid].victims))
    return units
