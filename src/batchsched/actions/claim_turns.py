"""reclaim's turns where a plugin computes what queues may claim (`claims`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from batchsched.actions.eviction.claiming import make_room_by_claim
from batchsched.actions.eviction.rules import DEFAULT_RULES, EvictionRules
from batchsched.actions.eviction.scope import EvictionScope, candidates_on
from batchsched.actions.group_turns import take_group_turn
from batchsched.actions.placing import place_now_or_later
from batchsched.model.reasons import Unfit
from batchsched.plugin.claims import Claim
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.turns import Turn, Turns
from batchsched.state.needs import TasksByGroup, TasksInOrder
from batchsched.state.records import JobState, TaskState

__all__ = ["reclaim_by_claims"]


def reclaim_by_claims(
    session: Session, jobs: Iterable[JobState], rules: EvictionRules = DEFAULT_RULES
) -> None:
    """Reclaim job by job, each turn the next job of the next queue: all that it needs, or nothing.

    Args:
        session: the session.
        jobs: the jobs that have something to place.
        rules: limits on evictions.

    """
    turns = Turns(session, jobs)
    for turn in turns:
        if _take_turn(session, turn, rules):
            turns.put_back(turn)


def _take_turn(session: Session, turn: Turn, rules: EvictionRules) -> bool:
    """Give a job its turn; return whether it gets another turn."""
    job, tasks, need = turn.job, turn.left, turn.need
    if need is None:
        return False
    claim = session.plugin_set.claim(need, rules.recent(session))
    if isinstance(claim, Unfit):
        session.reports.record_claim_refusal(need.tasks, claim)
        return False
    if isinstance(tasks, TasksByGroup):
        return take_group_turn(
            session,
            job,
            tasks,
            lambda statement, task: _place_task(session, statement, task, claim, rules),
            lambda: session.job_pipelined(job),
            substitutes=False,
            rules=rules,
        )
    with session.statement() as statement:
        placed = _place(session, statement, job, tasks, claim, rules)
        if not session.job_pipelined(job) or not rules.allow(session, statement):
            return False
        statement.commit()
        return placed


def _place(
    session: Session,
    statement: Statement,
    job: JobState,
    tasks: TasksInOrder,
    claim: Claim,
    rules: EvictionRules,
) -> bool:
    placed = False
    while tasks:
        task = tasks.popleft()
        if not _place_task(session, statement, task, claim, rules):
            session.record_failure(task)
            break
        placed = True
        if session.job_pipelined(job):
            break
    return placed


def _place_task(
    session: Session, statement: Statement, task: TaskState, claim: Claim, rules: EvictionRules
) -> bool:
    if place_now_or_later(session, statement, task) or make_room_by_claim(
        session, statement, task, claim, curable=rules.curable
    ):
        return True
    _record_search(session, task, claim, rules)
    return False


def _record_search(session: Session, task: TaskState, claim: Claim, rules: EvictionRules) -> None:
    session.record_eviction_search(
        task,
        point=EvictionScope.OTHER_QUEUES.point,
        among=EvictionScope.OTHER_QUEUES.value,
        may_use_idle=True,
        candidates_on=partial(candidates_on, session, task, EvictionScope.OTHER_QUEUES),
        recent=rules.recent(session),
        curable=rules.curable,
        claim=claim,
    )
