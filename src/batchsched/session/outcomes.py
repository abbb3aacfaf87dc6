"""Closing a session: from the state it ended in to outcomes and reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from attrs import evolve

from batchsched.errors import InvariantError
from batchsched.model.cluster import JobInfo
from batchsched.model.reasons import (
    ConditionReason,
    JobCondition,
    NodeTally,
    PendingReason,
    UnfitReason,
    WhyPending,
)
from batchsched.model.result import CycleResult, JobOutcome, Promise, TaskOutcome
from batchsched.model.status import JobPhase, TaskStatus
from batchsched.session.promises import end_promises, places_of_claimants
from batchsched.session.session import Session
from batchsched.state.ledger import counted_job
from batchsched.state.records import JobState, NodeState, TaskState

__all__ = ["Unchanged", "close", "unchanged_outcome"]


class Unchanged(Protocol):
    """Knows the outcomes of all that a cycle has left as it was."""

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
    """Close the plugins, end reservations and promises that came to nothing, tell the outcome.

    Args:
        session: what is to be closed.
        reasons: whether it is to be found out why tasks are pending.
        unchanged: what knows the outcomes of what the cycle did not change; None: nothing does,
            and all jobs and tasks are looked at.

    """
    if session.ledger.broken:
        # Somebody caught the error; nothing that the books say may become a decision.
        raise InvariantError(session.ledger.broken)
    for job in session.jobs_having(TaskStatus.RESERVED):
        if not (session.job_ready(job) or session.job_condition_ready(job)):
            if any(task.uid in session.unplaced for task in job.tasks):
                # It was tried: what it lacks is company, not an action.
                session.record_rollback(job.having(TaskStatus.RESERVED))
            session.drop_reservations(job)
    end_promises(session)
    conditions = session.plugin_set.close()
    why = _Reasons(session)
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
    if unchanged is not None:
        tasks, jobs = unchanged.tasks(tasks, left_out), unchanged.jobs(jobs, left_out)
    pipelined = _promised(session, TaskStatus.PIPELINED)
    conditional = _promised(session, TaskStatus.CONDITIONAL)
    reserved = _promised(session, TaskStatus.RESERVED)
    dropped = _in_order(_dropped(session.initial_reservations, TaskStatus.RESERVED))
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
        pending=why.of_all() if reasons else {},
        names=_names(session, mentioned),
    )


class _Outcomes:
    """The outcomes of jobs and their tasks. Equal ones are one object: most are."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobOutcome] = {}
        self.tasks: dict[str, TaskOutcome] = {}
        self._jobs = {phase: JobOutcome(phase=phase, condition=None) for phase in JobPhase}
        self._tasks: dict[tuple[int, NodeState | None, bool], TaskOutcome] = {}

    def add_job(self, job: JobState, condition: JobCondition | None) -> None:
        phase = _phase(job, condition)
        if condition is None:
            self.jobs[job.uid] = self._jobs[phase]
        else:
            self.jobs[job.uid] = JobOutcome(phase=phase, condition=condition)

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
    """Return the outcome of a job that is as it was described, and lacks nothing."""
    return JobOutcome(phase=_phase(counted_job(info), None), condition=None)


def _promised(session: Session, status: TaskStatus) -> tuple[Promise, ...]:
    return _in_order(
        Promise(task_uid=task.uid, node_name=task.node.name)
        for job in session.jobs_having(status)
        for task in job.having(status)
        if task.node is not None
    )


def _names(session: Session, uids: Iterable[str]) -> dict[str, str]:
    """Return what people call these tasks, where that is not their UID."""
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
    """Yield the places that the snapshot has for tasks, and that were neither used nor kept.

    Where tasks ended is what counts. In between a reservation may have been given up and made
    again, or the task may have been given the very place that it had lost.
    """
    for task in tasks:
        before = task.info.node_name
        assert before is not None
        is_there = task.node is not None and task.node.name == before
        if not (is_there and task.status in (TaskStatus.BINDING, status)):
            yield Promise(task_uid=task.uid, node_name=before)


def _phase(job: JobState, condition: JobCondition | None) -> JobPhase:
    if condition is not None and job.count(TaskStatus.RUNNING):
        return JobPhase.UNKNOWN
    if job.tasks and job.count(TaskStatus.SUCCEEDED) == len(job.tasks):
        return JobPhase.COMPLETED
    occupying = job.ready_count - job.count(TaskStatus.SUCCEEDED)
    return JobPhase.RUNNING if occupying >= job.min_available else JobPhase.PENDING


_NOT_CONSIDERED = PendingReason(
    WhyPending.NOT_CONSIDERED, detail="no action of the cycle came to it"
)


_WHY_LEFT_OUT = {
    ConditionReason.QUEUE_UNKNOWN: WhyPending.QUEUE_UNKNOWN,
    ConditionReason.QUEUE_NOT_LEAF: WhyPending.QUEUE_NOT_LEAF,
}


_WHY_REFUSED = {
    UnfitReason.QUEUE_LIMIT: WhyPending.QUEUE_LIMIT,
    UnfitReason.QUEUE_CLOSED: WhyPending.QUEUE_CLOSED,
}


class _Reasons:
    """Why tasks were left pending, as things stand at the end of the cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By identity: the tally is kept with its reason, so that its identity stays taken.
        self._of_tally: dict[int, tuple[NodeTally, PendingReason]] = {}
        self._texts: dict[int, tuple[NodeTally, str]] = {}

    def explain(self, job: JobState, condition: JobCondition) -> JobCondition:
        """Add to a gang's condition what the nodes had to say of its first unplaced task."""
        if condition.reason is not ConditionReason.NOT_ENOUGH_RESOURCES:
            return condition
        for task in job.tasks:
            if task.status is TaskStatus.PENDING and task.uid in self._session.unplaced:
                tally = self._session.placement.tally(task)
                known = self._texts.get(id(tally))
                if known is None:
                    known = self._texts[id(tally)] = tally, tally.text
                return evolve(condition, message=f"{condition.message}; {known[1]}")
        return condition

    def of_all(self) -> dict[str, PendingReason]:
        """Return the reason of every pending task by UID."""
        reasons: dict[str, PendingReason] = {}
        pending = self._session.ledger.jobs_having[TaskStatus.PENDING.index]
        for _, job in sorted(pending.items()):
            if not job.in_session:
                reason = self._left_out(job)
                for task in job.having(TaskStatus.PENDING):
                    reasons[task.uid] = reason
            else:
                self._of_job(job, reasons)
        return reasons

    def _left_out(self, job: JobState) -> PendingReason:
        condition = self._session.left_out[job.uid]
        why = _WHY_LEFT_OUT.get(condition.reason, WhyPending.JOB_INVALID)
        return PendingReason(why, detail=condition.message)

    def _of_job(self, job: JobState, reasons: dict[str, PendingReason]) -> None:
        session = self._session
        queue = job.queue
        assert queue is not None
        pending = session.in_task_order(job.having(TaskStatus.PENDING))
        blocked_by = next(
            (t for t in pending if t.uid in session.unplaced and not t.is_best_effort), None
        )
        not_reached: PendingReason | None = None
        if blocked_by is not None:
            detail = f"task {blocked_by.uid!r} of its job could not be placed before it"
            not_reached = PendingReason(WhyPending.NOT_REACHED, detail=detail)
        elif queue.name in session.queues_overused:
            detail = f"queue {queue.name!r} has all that it deserves"
            not_reached = PendingReason(WhyPending.QUEUE_OVERUSED, detail=detail)
        is_reached = blocked_by is not None
        for task in pending:
            if task is blocked_by:
                is_reached = False
            if task.uid in session.unplaced:
                reasons[task.uid] = self._unplaced(job, task)
            elif task.uid in session.rolled_back and session.job_ready(job):
                # Undone for lack of company that came with a later action.
                reasons[task.uid] = self._unplaced(job, task)
            elif task.uid in session.rolled_back:
                reasons[task.uid] = self._incomplete(job, None)
            elif not_reached is None or is_reached or task.is_best_effort:
                reasons[task.uid] = _NOT_CONSIDERED
            else:
                reasons[task.uid] = not_reached

    def _unplaced(self, job: JobState, task: TaskState) -> PendingReason:
        refusal = self._session.refusals.get(task.uid)
        if refusal is not None:
            why = _WHY_REFUSED.get(refusal.reason, WhyPending.QUEUE_LIMIT)
            return PendingReason(why, detail=refusal.text)
        tally = self._session.placement.tally(task)
        if tally.available:
            return self._unplaced_beside_room(job, tally)
        # Tasks of one kind get the same tally, and so the same reason.
        known = self._of_tally.get(id(tally))
        if known is None:
            request = task.init_resreq
            detail = "" if self._session.large_enough(request) else "no node is large enough"
            known = tally, PendingReason(WhyPending.NO_NODE, tally, detail)
            self._of_tally[id(tally)] = known
        return known[1]

    def _unplaced_beside_room(self, job: JobState, tally: NodeTally) -> PendingReason:
        queue = job.queue
        assert queue is not None
        if queue.name in self._session.queues_overused:
            detail = f"queue {queue.name!r} has all that it deserves"
            return PendingReason(WhyPending.QUEUE_OVERUSED, tally, detail)
        lacks_only_this = job.min_available - job.ready_count == 1
        if not lacks_only_this and not self._session.job_ready(job):
            return self._incomplete(job, tally)
        return PendingReason(
            WhyPending.NOT_CONSIDERED, tally, "there is room now; there was none when it was tried"
        )

    def _incomplete(self, job: JobState, tally: NodeTally | None) -> PendingReason:
        detail = f"fewer than the {job.min_available} tasks that must start together fit at once"
        return PendingReason(WhyPending.GANG_INCOMPLETE, tally, detail)
