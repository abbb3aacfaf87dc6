"""A cycle, from its opening to its end.

A session is opened on the state of a policy, which may be kept from cycle to cycle on a live
cluster. It begins with the jobs that are admitted, and with the reservations and promises of the
last cycle that still hold: which of them are kept, started or ended stands below. When all actions
have run it is closed: useless reservations and promises end, and its final state becomes outcomes
and reasons.
"""

from __future__ import annotations

from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial
from operator import attrgetter
from typing import Protocol

from attrs import evolve

from batchsched.causes import ConditionReason
from batchsched.errors import InvariantError
from batchsched.model.cluster import JobInfo, JobPhase, TaskStatus, choice_fields, choices_of
from batchsched.model.immutable import LazyMap
from batchsched.model.reasons import (
    JobCondition,
    PendingReason,
    Unfit,
    queue_not_leaf,
    queue_unknown,
)
from batchsched.model.result import (
    DECISIONS,
    CycleResult,
    DroppedPromise,
    JobOutcome,
    Promise,
    TaskOutcome,
)
from batchsched.model.rules import Unmet, out_of_service, unmet_dependencies
from batchsched.placement import Fit
from batchsched.session.candidates import (
    may_go_anywhere,
    refusal_beside_its_job,
    try_in_order,
    try_in_turn,
)
from batchsched.session.failures import NOTHING_TRIED, TaskAttempts
from batchsched.session.outlook import refusal_ahead
from batchsched.session.policy_state import PolicyState
from batchsched.session.reasons import PendingReasons, refused_until
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import limit_on
from batchsched.state.ledger import Ledger, counted_job
from batchsched.state.needs import need_of_task
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import fits

_uid = attrgetter("uid")


# Opening


def open_session(state: PolicyState) -> Session:
    """Open a session for one cycle, on a state that may be kept; see `PolicyState.resume`.

    It has the valid jobs, and what still holds of the reservations and promises of the last
    cycle. Jobs whose promised resources are free are bound.
    """
    session = Session(state)
    state.view.evicted_now = session.evicted_now
    _admit_jobs(session)
    session.plugins.jobs_admitted()
    session.reports.overused_at_open = _overused_queues(session)
    drop_stale_reservations(session)
    if session.ledger.initial_promises:
        keep_promises(session)
        start_promised_jobs(session)
    return session


_WAITS = (ConditionReason.WAITS_FOR, ConditionReason.NEVER_ELIGIBLE)


def _admit_jobs(session: Session) -> None:
    """Decide which jobs are in the session, and why others are not."""
    ledger, admitted, left_out = session.ledger, session.jobs, session.left_out
    jobs = list(session.state.to_admit)
    unmet = _unmet(jobs, ledger, left_out)
    if unmet:
        for uid in unmet.keys() - {job.uid for job in jobs}:
            # The jobs that it depends on may have changed, although the job itself has not.
            left_out[uid] = _not_eligible(unmet[uid])
    for job in jobs:
        refusal = None
        if job.queue is None:
            refusal = _without_queue(job, ledger.queues)
        elif job.uid in unmet:
            refusal = _not_eligible(unmet[job.uid])
        else:
            refusal = session.plugins.job_valid(job)
        ledger.admit(job, is_admitted=refusal is None)
        if refusal is None:
            if admitted.get(job.uid) is not job:  # to write into a sorted map costs more
                admitted[job.uid] = job
            left_out.pop(job.uid, None)
        else:
            left_out[job.uid] = refusal
            admitted.pop(job.uid, None)


def _unmet(
    jobs: Iterable[JobState], ledger: Ledger, left_out: Mapping[str, JobCondition]
) -> Mapping[str, Unmet]:
    """Return the ineligible jobs among some jobs and those left out, by UID."""
    known = ledger.jobs
    waiting = {
        job.uid: job for job in jobs if job.info.depends_on and job.info.eligible_time is None
    }
    for uid, condition in left_out.items():
        if condition.reason in _WAITS and uid in known:
            waiting[uid] = known[uid]
    if not waiting:
        return {}
    concerned = dict(waiting)
    for job in waiting.values():
        for dependency in job.info.depends_on:
            if dependency.job in known:
                concerned[dependency.job] = known[dependency.job]
    unmet = unmet_dependencies(
        evolve(job.info, tasks=[task.info for task in job.tasks])
        for _, job in sorted(concerned.items())
    )
    # A job that others wait for may depend on jobs that are not looked at here.
    return {uid: why for uid, why in unmet.items() if uid in waiting}


def _without_queue(job: JobState, queues: Mapping[str, QueueState]) -> JobCondition:
    name = job.info.queue
    queue = queues.get(name)
    if queue is None:
        return queue_unknown(name)
    return queue_not_leaf(name, queue.children[0].name)


def _not_eligible(unmet: Unmet) -> JobCondition:
    reason = ConditionReason.NEVER_ELIGIBLE if unmet.never else ConditionReason.WAITS_FOR
    return JobCondition(reason, unmet.text)


def _overused_queues(session: Session) -> set[str]:
    """Return the names of the queues with waiting jobs that are overused."""
    having = session.ledger.jobs_having
    waiting = {
        job.queue
        for status in (TaskStatus.PENDING, TaskStatus.RESERVED)
        for job in having[status.index].values()
        if job.queue is not None
    }
    return {queue.name for queue in waiting if session.plugins.overused(queue)}


# Closing


class Unchanged(Protocol):
    """Provides the outcomes of everything that a cycle did not change."""

    def tasks(
        self, changed: Mapping[str, TaskOutcome], left_out: Mapping[str, JobCondition], /
    ) -> Mapping[str, TaskOutcome]:
        """Return the outcomes of all tasks of jobs in the session, given those that changed."""
        ...

    def jobs(
        self, changed: Mapping[str, JobOutcome], left_out: Mapping[str, JobCondition], /
    ) -> Mapping[str, JobOutcome]:
        """Return the outcomes of all jobs in the session, given those that changed."""
        ...


def close(
    session: Session, *, reasons: bool = True, unchanged: Unchanged | None = None
) -> CycleResult:
    """Close the plugins, end useless reservations and promises, and return the result.

    Args:
        session: the session to close.
        reasons: whether to determine why tasks are pending.
        unchanged: provides the outcomes of what the cycle did not change; None: the outcomes of
            all jobs and tasks are computed here.

    """
    if session.ledger.broken:
        # An action caught the error, but an inconsistent state must not lead to decisions.
        raise InvariantError(session.ledger.broken)
    for job in session.jobs_having(TaskStatus.RESERVED):
        if not (session.plugins.job_ready(job) or session.plugins.job_condition_ready(job)):
            if any(session.reports.about(task).found_no_place for task in job.tasks):
                # It was tried, but its gang is incomplete.
                session.reports.record_undone(job.having(TaskStatus.RESERVED))
            drop_reservations(session, job)
    if session.ledger.initial_promises:
        end_promises(session)
    conditions = session.plugins.close()
    why = PendingReasons(session) if reasons else None
    changed = session.jobs if unchanged is None else _jobs_changed(session)
    concerned = {**changed, **{uid: session.jobs[uid] for uid in conditions if uid in session.jobs}}
    if why is not None:
        for uid, condition in conditions.items():
            if uid in concerned:
                conditions[uid] = why.explain(concerned[uid], condition)
    tasks: Mapping[str, TaskOutcome] = _outcomes_of_tasks(changed.values())
    jobs: Mapping[str, JobOutcome] = _outcomes_of_jobs(concerned.values(), conditions)
    left_out = dict(session.left_out)
    pending: Mapping[str, PendingReason] = {} if why is None else why.of_all()
    if unchanged is None:
        pending = pending.whole() if isinstance(pending, LazyMap) else pending
    else:
        tasks, jobs = unchanged.tasks(tasks, left_out), unchanged.jobs(jobs, left_out)
    pipelined = _places_of(_having(session, TaskStatus.PIPELINED))
    conditional = _places_of(_having(session, TaskStatus.CONDITIONAL))
    reserved = _places_of(_having(session, TaskStatus.RESERVED))
    dropped = _dropped(session.reports.initial_reservations, TaskStatus.RESERVED, {})
    broken = _dropped(
        [task for task, _ in session.ledger.initial_promises],
        TaskStatus.PIPELINED,
        session.reports.tasks,
    )
    as_jobs = sorted(session.reports.jobs.items(), key=lambda each: each[0].uid)
    result = CycleResult(
        binds=tuple(session.binds),
        evictions=tuple(session.evictions),
        moves=tuple(session.moves),
        taken_back=tuple(session.taken_back),
        pipelined=pipelined,
        conditional=conditional,
        reserved=reserved,
        dropped_reservations=dropped,
        kept_promises=_places_of(list(kept_for_claimants(session))),
        dropped_promises=broken,
        tasks=tasks,
        jobs=jobs,
        left_out=left_out,
        pending=pending,
        queues=session.plugins.queue_outcomes(),
        planned={job.uid: each.plan for job, each in as_jobs if each.plan is not None},
        late=tuple(job.uid for job, each in as_jobs if each.is_late),
        refused_until=refused_until(session),
        notices=session.state.ignored.notices(),
    )
    names = _names(session, result)
    return evolve(result, names=names) if names else result


def _jobs_changed(session: Session) -> dict[str, JobState]:
    """Return the jobs that the session has changed, by UID and in order of UID.

    O(n log n) for n such jobs. For sessions on a live cluster.
    """
    jobs = {job.uid: job for job in session.ledger.log.jobs if job.in_session}
    for task in session.state.diverging():
        if task.job is not None and task.job.in_session:
            jobs[task.job.uid] = task.job
    return dict(sorted(jobs.items()))


_OF_PHASE = {phase: JobOutcome(phase=phase, condition=None) for phase in JobPhase}


def _outcomes_of_tasks(jobs: Iterable[JobState]) -> dict[str, TaskOutcome]:
    """Return the outcomes of the tasks of jobs, by UID. Equal outcomes are one object."""
    outcomes: dict[str, TaskOutcome] = {}
    known: dict[tuple[int, NodeState | None, bool], TaskOutcome] = {}
    for job in jobs:
        for task in job.tasks:
            status, node = task.status, task.node
            key = (status.index, node, task.is_backfill)
            outcome = known.get(key)
            if outcome is None:
                name = None if node is None else node.name
                outcome = known[key] = TaskOutcome(
                    status=status, node_name=name, is_backfill=task.is_backfill
                )
            if task.choices:
                outcome = evolve(outcome, **choice_fields(task.choices))
            outcomes[task.uid] = outcome
    return outcomes


def _outcomes_of_jobs(
    jobs: Iterable[JobState], conditions: Mapping[str, JobCondition]
) -> dict[str, JobOutcome]:
    """Return the outcomes of jobs, by UID. Equal outcomes, the usual case, are one object."""
    outcomes: dict[str, JobOutcome] = {}
    known: dict[int, JobOutcome] = {}
    """By the identity of the condition, which the outcome keeps alive."""
    for job in jobs:
        condition = conditions.get(job.uid)
        phase = _phase(job, condition)
        if condition is None:
            outcomes[job.uid] = _OF_PHASE[phase]
            continue
        outcome = known.get(id(condition))
        if outcome is None or outcome.phase is not phase:
            outcome = known[id(condition)] = JobOutcome(phase=phase, condition=condition)
        outcomes[job.uid] = outcome
    return outcomes


def unchanged_outcome(info: JobInfo) -> JobOutcome:
    """Return the outcome of a job that has not changed and has no condition."""
    return JobOutcome(phase=_phase(counted_job(info), None), condition=None)


def _having(session: Session, status: TaskStatus) -> list[TaskState]:
    """Return the tasks of the session with this status."""
    jobs = session.ledger.jobs_having[status.index]
    return [task for job in jobs.values() if job.in_session for task in job.having(status)]


def _places_of(tasks: Collection[TaskState]) -> tuple[Promise, ...]:
    """Return the nodes that tasks are on, in order of task UID."""
    if not tasks:
        return ()  # in most cycles
    return tuple(
        Promise(task_uid=task.uid, node_name=task.node.name, **choice_fields(task.choices))
        for task in sorted(tasks, key=_uid)
        if task.node is not None
    )


def _names(session: Session, result: CycleResult) -> dict[str, str]:
    """Return the display names of the tasks that decisions name, where they differ from the UID."""
    names: dict[str, str] = {}
    for row in DECISIONS:
        for decision in row.of(result) if row.word else ():
            for uid in (decision.task_uid, getattr(decision, "for_task_uid", None)):
                task = session.ledger.tasks.get(uid or "")
                if task is not None and task.info.display_name != task.uid:
                    names[task.uid] = task.info.display_name
    return names


def _dropped(
    tasks: Iterable[TaskState],
    status: TaskStatus,
    tried: Mapping[TaskState, TaskAttempts],
) -> tuple[DroppedPromise, ...]:
    """Return the promises or reservations of the snapshot that were neither used nor kept.

    Only the final state counts: in between, a reservation may have been dropped and made again.
    """
    dropped: list[DroppedPromise] = []
    for task in sorted(tasks, key=_uid):
        before = task.info.node_name
        assert before is not None
        is_there = task.node is not None and task.node.name == before
        if not (is_there and task.status in (TaskStatus.BINDING, status)):
            about = tried.get(task, NOTHING_TRIED)
            dropped.append(
                DroppedPromise(
                    task_uid=task.uid,
                    node_name=before,
                    reason=about.broken_promise,
                    for_task_uid=None if about.gave_way_to is None else about.gave_way_to.uid,
                )
            )
    return tuple(dropped)


def _phase(job: JobState, condition: JobCondition | None) -> JobPhase:
    if not job.ready_count and job.min_available > 0:  # as most jobs that wait
        return JobPhase.PENDING
    if condition is not None and job.count(TaskStatus.RUNNING):
        return JobPhase.UNKNOWN
    if job.tasks and job.count(TaskStatus.SUCCEEDED) == len(job.tasks):
        return JobPhase.COMPLETED
    if job.groups is not None:
        is_running = job.has_minimum() and job.ready_count > job.count(TaskStatus.SUCCEEDED)
        return JobPhase.RUNNING if is_running else JobPhase.PENDING
    occupying = job.ready_count - job.count(TaskStatus.SUCCEEDED)
    return JobPhase.RUNNING if occupying >= job.min_available else JobPhase.PENDING


# Reservations of the last cycle


def drop_stale_reservations(session: Session) -> None:
    """Drop reservations on nodes that cannot hold them, and of jobs that need none.

    All of a job are dropped if plugins do not let one of them be beside the others.
    """
    ledger = session.ledger
    for _, node in sorted(ledger.reserved_nodes.items()):
        tasks = sorted(node.reserved_tasks.values(), key=_uid)
        # It is not known for how long a node is out of service; others can be reserved until then.
        fit = fits(node.reserved, session.state.node_room.for_jobs(node))
        for task in tasks:
            if not fit or _is_out_of_service(session, task, node):
                _end(session, task)
    reserving = ledger.jobs_having[TaskStatus.RESERVED.index]
    for _, job in sorted(reserving.items()):
        if (
            not job.in_session
            or session.plugins.job_ready(job)
            or any(map(partial(refusal_beside_its_job, session), job.having(TaskStatus.RESERVED)))
        ):
            drop_reservations(session, job)


def drop_reservations(session: Session, job: JobState) -> None:
    """Make all Reserved tasks of a job Pending again."""
    for task in job.having(TaskStatus.RESERVED):
        _end(session, task)


def _is_out_of_service(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether a node accepts no tasks at all for now, including this one."""
    if out_of_service(node.info) is None:
        return False
    return session.placement.refusal(task, node) is not None


# Promises of the last cycle


def keep_promises(session: Session) -> None:
    """Restore the promises of the last cycle, job by job in live job order.

    A promise is restored if its node exists and is in service, the task still fits the future
    idle amount, and plugins let it be beside the others of its job. If these are not enough for a
    job, all of its promises end.
    """
    promised: dict[JobState, dict[TaskState, NodeState]] = {}
    for task, node_name in session.ledger.initial_promises:
        job, node = task.job, session.ledger.node_named.get(node_name)
        if job is not None and job.in_session and node is not None and not task.is_held:
            promised.setdefault(job, {})[task] = node
    waiting = session.live_jobs(promised)
    while waiting:
        job = waiting.pop()
        session.attempt(partial(_restore, session, job, promised[job]), is_trial=True)
    for task in list(session.ledger.leaving.values()):
        moving = session.ledger.tasks[task.uid]
        if moving.status is TaskStatus.PENDING and not moving.is_held:
            session.ledger.end_promise(moving)  # what is promised no place only leaves


def _restore(
    session: Session, job: JobState, promised: Mapping[TaskState, NodeState], statement: Statement
) -> bool:
    for task in session.in_task_order(promised):
        node = promised[task]
        if job.groups is not None and not job.groups.may_take(task):
            continue
        kept = choices_of(task.info)
        if _is_out_of_service(session, task, node) or not session.fits(
            task, node, Fit.LATER, kept=kept
        ):
            continue
        before = len(statement)
        statement.pipeline(task, node, kept=kept)
        refusal = refusal_beside_its_job(session, task)
        if refusal is not None:
            session.reports.of_task(task).broken_promise = refusal
            statement.rollback(before)
    return session.plugins.job_pipelined(job)


def start_promised_jobs(session: Session) -> None:
    """Start the jobs whose promised resources are free, in live job order; others keep waiting.

    A job that cannot start so is tried once more with other places for the tasks that lack theirs.
    """
    waiting = session.live_jobs({task.job: None for task in _kept(session) if task.job is not None})
    while waiting:
        job = waiting.pop()
        session.attempt(partial(_starts, session, job), is_trial=True, fulfils=True)
        for task in job.having(TaskStatus.PIPELINED):
            refusal = _cannot_be_kept(session, task)
            if refusal is not None:
                session.reports.of_task(task).broken_promise = refusal


def _starts(session: Session, job: JobState, statement: Statement) -> bool:
    promised = session.in_task_order(job.having(TaskStatus.PIPELINED))
    for starts in (_starts_as_promised, _starts_anywhere):
        try_in_order(promised, partial(starts, session, statement))
        if session.plugins.job_ready(job):
            return True
        statement.rollback(0)
    return False


def _cannot_be_kept(session: Session, task: TaskState) -> Unfit | None:
    """Return why a node where nothing is leaving any more refuses a task that is promised it."""
    node = task.node
    assert node is not None
    if any(other.status is TaskStatus.RELEASING for other in node.tasks.values()):
        return None
    refusal = refusal_ahead(session, task)
    if refusal is not None or task.moves:
        return refusal
    kept = task.choices
    with session.statement(is_trial=True) as statement:
        statement.unallocate(task)
        lacking = session.state.evaluator.lacking(task.init_resreq, node)
        return lacking[0] if lacking else session.no_choice(task, node, Fit.NOW, kept=kept)


def _starts_as_promised(session: Session, statement: Statement, task: TaskState) -> bool:
    """Start a task on its promised node, if it fits there now; return whether it does."""
    node, before, kept = task.node, len(statement), task.choices
    assert node is not None
    if task.moves:
        return False  # it cannot run twice
    statement.unallocate(task)
    if session.can_start(task, node, kept=kept):
        statement.allocate(task, node, kept=kept)
        return True
    statement.rollback(before)
    return False


def _starts_anywhere(session: Session, statement: Statement, task: TaskState) -> bool:
    """Start a task on its promised node, or else where it fits now; return whether it does."""
    job = task.job
    assert job is not None
    if _starts_as_promised(session, statement, task):
        return True
    if task.moves:
        return False
    before = len(statement)
    statement.unallocate(task)
    if not may_go_anywhere(session, job):
        return _starts_in_sets(session, statement, task, before)
    node = session.best_node(task, Fit.NOW) if limit_on(session, task) is None else None
    if node is None:
        statement.rollback(before)
        return False
    statement.allocate(task, node)
    return True


def _starts_in_sets(session: Session, statement: Statement, task: TaskState, before: int) -> bool:
    def place(on: Statement, one: TaskState) -> bool:
        within = None if on.within is None else on.within.slots
        node = session.placement.best(one, Fit.NOW, within)
        if node is not None:
            on.allocate(one, node)
        return node is not None

    if limit_on(session, task) is None and try_in_turn(
        session, statement, need_of_task(task), place
    ):
        return True
    statement.rollback(before)
    return False


def end_promises(session: Session) -> None:
    """End the promises of the last cycle that cannot be kept; see `_cannot_be_kept`.

    If the other promises are not enough for a job, all of its promises end.
    """
    kept = _kept(session)
    over = [task for task in kept if session.reports.about(task).broken_promise is not None]
    for task in over:
        _end(session, task)
    for job in {task.job: None for task in over}:
        if job is not None and not session.plugins.job_pipelined(job):
            for task in kept:
                if task.job is job and task.status is TaskStatus.PIPELINED:
                    _end(session, task)


def kept_for_claimants(session: Session) -> Iterator[TaskState]:
    """Yield the tasks that will be Pipelined on their present nodes in the next cycle.

    These are the Pipelined and Allocated tasks of jobs for which tasks were evicted or moved, or
    of which tasks were moved, in this cycle or an earlier one, if the job's promises are enough for
    it.
    """
    claimants = {eviction.for_task_uid for eviction in session.evictions}
    for move in session.moves:
        claimants.update({move.task_uid, move.for_task_uid or move.task_uid})
    tasks = [*(session.ledger.tasks[uid] for uid in sorted(claimants)), *_kept(session)]
    for job in {task.job: None for task in tasks}:
        if job is not None and job.in_session and session.plugins.job_pipelined(job):
            yield from job.having(TaskStatus.PIPELINED)
            yield from job.having(TaskStatus.ALLOCATED)


def _kept(session: Session) -> list[TaskState]:
    """Return the tasks whose promises of the last cycle still hold."""
    return [
        task
        for task, node_name in session.ledger.initial_promises
        if task.status is TaskStatus.PIPELINED
        and task.node is not None
        and task.node.name == node_name
    ]


def _end(session: Session, task: TaskState) -> None:
    session.ledger.end_promise(task)
