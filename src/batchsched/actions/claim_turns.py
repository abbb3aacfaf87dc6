"""reclaim's turns where a plugin computes what queues may claim (`claims`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from functools import partial

from batchsched.actions.eviction.claiming import make_room_by_claim
from batchsched.actions.eviction.rules import DEFAULT_RULES, EvictionRules
from batchsched.actions.eviction.scope import EvictionScope, candidates_on
from batchsched.actions.group_turns import take_group_turn, tasks_left
from batchsched.actions.placing import place_now_or_later
from batchsched.model.reasons import Unfit
from batchsched.plugin.claims import Claim
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.group_needs import TasksLeft
from batchsched.state.needs import need_of_job
from batchsched.state.records import JobState, QueueState, TaskState

__all__ = ["reclaim_by_claims"]


def reclaim_by_claims(
    session: Session,
    by_queue: Mapping[QueueState, Iterable[JobState]],
    rules: EvictionRules = DEFAULT_RULES,
) -> None:
    """Reclaim job by job, each turn the next job of the next queue: all that it needs, or nothing.

    Args:
        session: the session.
        by_queue: the jobs of each queue that have something to place.
        rules: limits on evictions.

    """
    left: dict[str, deque[TaskState] | TasksLeft] = {}

    def tasks_of(job: JobState) -> deque[TaskState] | TasksLeft:
        if job.uid not in left:
            left[job.uid] = tasks_left(session, job)
        return left[job.uid]

    failed_turns = _FailedTurns(session)
    jobs = {queue: session.job_turns(waiting, tasks_of) for queue, waiting in by_queue.items()}
    queues = session.queue_turns(jobs, tasks_of)
    while queues:
        queue = queues.pop()
        if not jobs[queue]:
            continue
        job = jobs[queue].pop()
        if _take_turn(session, job, tasks_of(job), failed_turns, rules):
            jobs[queue].push(job)
        queues.push(queue)


class _FailedTurns:
    """Turns that failed; until something is committed, equal turns will fail too."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turns: dict[Hashable, int] = {}
        """Key of a turn to the number of tasks that found a place before one found none, if any."""

    def key(self, job: JobState, tasks: Collection[TaskState]) -> Hashable | None:
        """Return a key that is equal for turns with equal outcomes; None if there is none."""
        need = need_of_job(job, tasks)
        if need is None or job.groups is not None:
            return None
        kinds = [self._session.placement.kind(task) for task in need.tasks]
        missing = job.min_available - job.ready_count - job.waiting_count  # may exceed its tasks
        pipelined = self._session.job_pipelined(job)
        return None if None in kinds else (job.queue, pipelined, max(0, missing), *kinds)

    def find(self, key: Hashable | None) -> int | None:
        """Return how many tasks would find a place before one found none; None if unknown."""
        return None if key is None else self._turns.get(key)

    def add(self, key: Hashable | None, placed: int) -> None:
        """Record a turn that failed although `placed` tasks, perhaps all, had found a place."""
        if key is not None:
            self._turns[key] = placed

    def clear(self) -> None:
        """Forget all turns, because something was committed."""
        self._turns.clear()


def _take_turn(
    session: Session,
    job: JobState,
    tasks: deque[TaskState] | TasksLeft,
    failed_turns: _FailedTurns,
    rules: EvictionRules,
) -> bool:
    """Give a job its turn; return whether it gets another turn."""
    need = need_of_job(job, tasks)
    if need is None:
        return False
    claim = session.plugin_set.claim(need, rules.recent(session))
    if isinstance(claim, Unfit):
        session.reports.record_claim_refusal(need.tasks, claim)
        return False
    key = failed_turns.key(job, tasks)
    found = failed_turns.find(key)
    if found is not None:
        # Record the same as a real attempt, so that reasons do not depend on what is remembered.
        session.reports.record_rollback(need.tasks[:found])
        for task in need.tasks[found : found + 1]:
            session.may_take_task(task)
            _record_search(session, task, claim, rules)
            session.record_failure(task)
        return False
    if isinstance(tasks, TasksLeft):
        placed = take_group_turn(
            session,
            job,
            tasks,
            lambda statement, task: _place_task(session, statement, task, claim, rules),
            lambda: session.job_pipelined(job),
            substitutes=False,
            rules=rules,
        )
        if placed:
            failed_turns.clear()
        return placed
    to_place = len(tasks)
    with session.statement() as statement:
        placed = _place(session, statement, job, tasks, claim, rules)
        found_place = len(statement.placed())
        if session.job_pipelined(job) and rules.allow(session, statement):
            statement.commit()
            if placed:
                failed_turns.clear()
                return True
    tried = to_place - len(tasks)
    if found_place < tried <= len(need.tasks) or found_place == len(need.tasks):
        failed_turns.add(key, found_place)
    return False


def _place(
    session: Session,
    statement: Statement,
    job: JobState,
    tasks: deque[TaskState],
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
