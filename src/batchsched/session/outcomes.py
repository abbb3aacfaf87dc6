"""Closes a session, and converts its final state to outcomes and reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from batchsched.errors import InvariantError
from batchsched.model.cluster import JobInfo, JobPhase, TaskStatus
from batchsched.model.reasons import JobCondition, PendingReason
from batchsched.model.result import CycleResult, JobOutcome, Promise, TaskOutcome
from batchsched.session.carried_over import end_promises, places_of_claimants
from batchsched.session.reasons import PendingReasons
from batchsched.session.session import Session
from batchsched.state.ledger import counted_job
from batchsched.state.records import JobState, NodeState, TaskState


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
        if not (session.job_ready(job) or session.job_condition_ready(job)):
            if any(task.uid in session.reports.unplaced for task in job.tasks):
                # It was tried, but its gang is incomplete.
                reserved_tasks = job.having(TaskStatus.RESERVED)
                session.reports.rolled_back.update((task.uid, task) for task in reserved_tasks)
            session.reservations.drop_of(job)
    end_promises(session)
    conditions = session.plugin_set.close()
    why = PendingReasons(session)
    outcomes = _Outcomes()
    changed = session.jobs if unchanged is None else session.jobs_changed()
    for job in changed.values():
        outcomes.add_tasks(job)
    concerned = {**changed, **{uid: session.jobs[uid] for uid in conditions if uid in session.jobs}}
    for uid, job in concerned.items():
        condition = conditions.get(uid)
        if condition is not None and reasons:
            condition = why.explain(job, condition)
        outcomes.add_job(job, condition)
    tasks: Mapping[str, TaskOutcome] = outcomes.tasks
    jobs: Mapping[str, JobOutcome] = outcomes.jobs
    left_out = dict(session.left_out)
    pending: Mapping[str, PendingReason] = why.of_all() if reasons else {}
    if unchanged is None:
        pending = dict(pending)
    else:
        tasks, jobs = unchanged.tasks(tasks, left_out), unchanged.jobs(jobs, left_out)
    pipelined = _promised(session, TaskStatus.PIPELINED)
    conditional = _promised(session, TaskStatus.CONDITIONAL)
    reserved = _promised(session, TaskStatus.RESERVED)
    dropped = _in_order(_dropped(session.reservations.initial, TaskStatus.RESERVED))
    broken = _in_order(
        _dropped((task for task, _ in session.ledger.initial_promises), TaskStatus.PIPELINED)
    )
    mentioned = [bind.task_uid for bind in session.binds]
    for eviction in session.evictions:
        mentioned += (eviction.task_uid, eviction.for_task_uid)
    for each in (*pipelined, *conditional, *reserved, *dropped, *broken):
        mentioned.append(each.task_uid)
    return CycleResult(
        binds=tuple(session.binds),
        evictions=tuple(session.evictions),
        pipelined=pipelined,
        conditional=conditional,
        reserved=reserved,
        dropped_reservations=dropped,
        kept_promises=_in_order(map(_place_of, places_of_claimants(session))),
        dropped_promises=broken,
        tasks=tasks,
        jobs=jobs,
        left_out=left_out,
        pending=pending,
        queues=session.plugin_set.queue_outcomes(),
        names=_names(session, mentioned),
        planned=dict(sorted(session.plans.made.items())),
        late=tuple(sorted(session.plans.late)),
    )


_OF_PHASE = {phase: JobOutcome(phase=phase, condition=None) for phase in JobPhase}


class _Outcomes:
    """The outcomes of jobs and their tasks. Equal outcomes, the usual case, are one object."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobOutcome] = {}
        self.tasks: dict[str, TaskOutcome] = {}
        self._of_condition: dict[int, JobOutcome] = {}
        """By the identity of the condition, which the outcome keeps alive."""
        self._tasks: dict[tuple[int, NodeState | None, bool], TaskOutcome] = {}

    def add_job(self, job: JobState, condition: JobCondition | None) -> None:
        phase = _phase(job, condition)
        if condition is None:
            self.jobs[job.uid] = _OF_PHASE[phase]
            return
        known = self._of_condition.get(id(condition))
        if known is None or known.phase is not phase:
            known = JobOutcome(phase=phase, condition=condition)
            self._of_condition[id(condition)] = known
        self.jobs[job.uid] = known

    def add_tasks(self, job: JobState) -> None:
        tasks, known = self.tasks, self._tasks
        for task in job.tasks:
            status, node = task.status, task.node
            key = (status.index, node, task.is_backfill)
            outcome = known.get(key)
            if outcome is None:
                outcome = known[key] = TaskOutcome(
                    status=status,
                    node_name=None if node is None else node.name,
                    is_backfill=task.is_backfill,
                )
            tasks[task.uid] = outcome


def unchanged_outcome(info: JobInfo) -> JobOutcome:
    """Return the outcome of a job that has not changed and has no condition."""
    return JobOutcome(phase=_phase(counted_job(info), None), condition=None)


def _promised(session: Session, status: TaskStatus) -> tuple[Promise, ...]:
    return _in_order(
        Promise(task_uid=task.uid, node_name=task.node.name)
        for job in session.jobs_having(status)
        for task in job.having(status)
        if task.node is not None
    )


def _names(session: Session, uids: Iterable[str]) -> dict[str, str]:
    """Return the display names of these tasks, where they differ from the UID."""
    names: dict[str, str] = {}
    for uid in uids:
        task = session.ledger.tasks.get(uid)
        if task is not None and task.info.display_name != uid:
            names[uid] = task.info.display_name
    return names


def _in_order(promises: Iterable[Promise]) -> tuple[Promise, ...]:
    return tuple(sorted(promises, key=lambda promise: promise.task_uid))


def _place_of(task: TaskState) -> Promise:
    assert task.node is not None
    return Promise(task_uid=task.uid, node_name=task.node.name)


def _dropped(tasks: Iterable[TaskState], status: TaskStatus) -> Iterator[Promise]:
    """Yield the promises or reservations of the snapshot that were neither used nor kept.

    Only the final state counts: in between, a reservation may have been dropped and made again.
    """
    for task in tasks:
        before = task.info.node_name
        assert before is not None
        is_there = task.node is not None and task.node.name == before
        if not (is_there and task.status in (TaskStatus.BINDING, status)):
            yield Promise(task_uid=task.uid, node_name=before)


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
