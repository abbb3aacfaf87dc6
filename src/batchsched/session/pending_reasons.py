"""Determines why tasks are pending at the end of the cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from attrs import evolve

from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import LazyMap
from batchsched.model.reasons import (
    ConditionReason,
    JobCondition,
    NodeTally,
    PendingReason,
    PlacementFailure,
    UnfitReason,
    WhyPending,
    explained,
)
from batchsched.session.blocked_resources import BlockedResources
from batchsched.session.eviction_reports import add_eviction_reports
from batchsched.session.gang_needs import GangNeeds
from batchsched.session.group_reasons import at_maximum, not_asked_for
from batchsched.session.session import Session
from batchsched.session.waiting_jobs import NOT_CONSIDERED, WaitingJob, not_reached
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import fits

__all__ = ["PendingReasons"]

_WHY_LEFT_OUT = {
    ConditionReason.QUEUE_UNKNOWN: WhyPending.QUEUE_UNKNOWN,
    ConditionReason.QUEUE_NOT_LEAF: WhyPending.QUEUE_NOT_LEAF,
    ConditionReason.WAITS_FOR: WhyPending.WAITS_FOR,
    ConditionReason.NEVER_ELIGIBLE: WhyPending.NEVER_ELIGIBLE,
}


_WHY_REFUSED = {
    UnfitReason.QUEUE_LIMIT: WhyPending.QUEUE_LIMIT,
    UnfitReason.QUEUE_CLOSED: WhyPending.QUEUE_CLOSED,
    UnfitReason.NOT_ITS_TURN: WhyPending.NOT_REACHED,
}


_Part = Mapping[str, PendingReason] | tuple[Sequence[str], PendingReason]
"""Reasons by task UID, or the UIDs of tasks that share one."""


class PendingReasons:
    """Determines why tasks are pending at the end of the cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._gangs = GangNeeds(session)
        self._of_kind: dict[tuple[int | str, str], PendingReason] = {}
        self._tallies: dict[int | str, NodeTally] = {}
        """The tallies by kind."""
        self._conditions: dict[tuple[str, str, int], JobCondition] = {}
        """Explained conditions, by message, plugin, and the kind that is blocked."""
        self._explained: dict[tuple[str, str], JobCondition] = {}
        """Conditions by message and plugin: jobs that are alike share one."""
        self._changed = set(session.ledger.log.jobs)
        reports = session.reports
        self._unplaced_of = _pending_by_job(reports.unplaced.values())
        self._undone_of = _pending_by_job(reports.rolled_back.values())
        tasks = session.ledger.tasks
        self._refused = set(_pending_by_job(tasks[uid] for uid in reports.claim_refusals))

    @cached_property
    def _blocked_resources(self) -> BlockedResources:
        return BlockedResources(self._session)

    def explain(self, job: JobState, condition: JobCondition) -> JobCondition:
        """Add to a gang's condition why no node accepted a task, and why it can never start."""
        if condition.reason is not ConditionReason.NOT_ENOUGH_RESOURCES:
            return condition
        blocked = self._blocked.get(job)
        if blocked is None:
            return self._explain(job, condition)
        key = condition.message, condition.plugin, blocked
        known = self._conditions.get(key)
        if known is None:
            known = self._conditions[key] = self._explain(job, condition)
        return known

    def _explain(self, job: JobState, condition: JobCondition) -> JobCondition:
        failure: PlacementFailure | None = None
        unplaced: Sequence[TaskState] = self._unplaced_of.get(job, ())
        if unplaced and job.groups is not None:
            unplaced = [task for task in unplaced if _may_have_a_place(job, task)]
        if unplaced:
            first = unplaced[0] if len(unplaced) == 1 else min(unplaced, key=_uid)
            failure = self._failure_of(first)
        undone = len(self._undone_of.get(job, ()))
        need = self._gangs.of(job)
        if not undone and failure is None and need is None:
            return condition
        found = explained(condition, undone, failure, need)
        # Jobs that are alike share one.
        known = self._explained.setdefault((found.message, found.plugin), found)
        return known if known == found else found

    def _failure_of(self, task: TaskState) -> PlacementFailure:
        """Return why no node was found for a task when it was tried, as far as still known."""
        refusal = self._session.reports.refusals.get(task.uid)
        if refusal is not None and refusal.reason is not UnfitReason.INSUFFICIENT_RESOURCE:
            return PlacementFailure(refusal=refusal)
        tally = self._tally(self._kind_of(task), task)
        assert task.job is not None
        if refusal is not None and (tally.available or self._lacks_company(task.job, task)):
            return PlacementFailure(refusal=refusal)
        if tally.available:
            # There is room now, after the rollback of others; there was none then.
            return PlacementFailure(task=task.info.display_name)
        return PlacementFailure(tally=tally)

    def _kind_of(self, task: TaskState) -> int | str:
        """Return a key that tasks share only if they get the same tally."""
        kind = self._session.placement.kind(task)
        # With plans, the tally also depends on how long the task runs.
        is_alike = kind is not None and self._session.plans.guard is None
        return kind if is_alike and kind is not None else task.uid

    def _tally(self, kind: int | str, task: TaskState) -> NodeTally:
        """Return the tally of a kind, to which the task belongs."""
        known = self._tallies.get(kind)
        if known is None:
            known = self._tallies[kind] = self._session.tally(task)
        return known

    @cached_property
    def _blocked(self) -> Mapping[JobState, int]:
        """The kinds of the only tasks of jobs that were tried, where no node accepts the kind.

        Without jobs of which more is to be said than the kind alone determines.
        """
        session = self._session
        if session.plans.guard is not None:
            return {}
        found: dict[JobState, int] = {}
        is_blocked: dict[int, bool] = {}
        for job, unplaced in self._unplaced_of.items():
            task = unplaced[0]
            if (
                task.uid in session.reports.refusals
                or not self._is_plain(job)
                or self._blocked_resources.is_held_by(job)
            ):
                continue
            kind = session.placement.kind(task)
            if kind is None:
                continue
            if kind not in is_blocked:
                is_blocked[kind] = not self._tally(kind, task).available
            if is_blocked[kind]:
                found[job] = kind
        return found

    def of_all(self) -> Mapping[str, PendingReason]:
        """Return the reason of every pending task by UID, in the order of jobs and tasks.

        The mapping is in parts, which are joined when it is read: most jobs wait for the same
        reasons as in the last cycle.
        """
        parts: list[_Part] = []
        of_tried: dict[str, PendingReason] = {}
        """The reasons of tasks that only have placeholders in the parts."""
        pending = self._session.ledger.jobs_having[TaskStatus.PENDING.index]
        for _, job in sorted(pending.items()):
            if not job.in_session:
                reason = self._left_out(job)
                parts.append(([task.uid for task in job.having(TaskStatus.PENDING)], reason))
            elif not self._of_plain_job(job, parts, of_tried):
                parts.append(self._of_job(job))

        def joined() -> dict[str, PendingReason]:
            reasons: dict[str, PendingReason] = {}
            for part in parts:
                reasons.update(dict.fromkeys(*part) if isinstance(part, tuple) else part)
            return reasons

        if self._session.reports.eviction_searches:
            reasons = {**joined(), **of_tried}
            add_eviction_reports(self._session, reasons)
            return reasons
        return LazyMap(of_tried, None, joined)

    def _left_out(self, job: JobState) -> PendingReason:
        condition = self._session.left_out[job.uid]
        why = _WHY_LEFT_OUT.get(condition.reason, WhyPending.JOB_INVALID)
        return PendingReason(why, detail=condition.message)

    def _is_plain(self, job: JobState) -> bool:
        """Return whether at most one task of a job was tried, and nothing else is to be said."""
        return not (
            job.groups is not None
            or len(self._unplaced_of.get(job, ())) > 1
            or job in self._undone_of
            or job in self._refused
            or job.uid in self._session.plans.reasons
            or self._gangs.of(job) is not None
        )

    def _of_plain_job(
        self,
        job: JobState,
        parts: list[_Part],
        of_tried: dict[str, PendingReason],
    ) -> bool:
        """Do the same as `_of_job` for plain jobs without best-effort tasks, else return False.

        For a job that has not changed since the last cycle, tasks are not examined.
        """
        blocked = self._blocked.get(job)
        if blocked is None and not self._is_plain(job):
            return False
        waiting = self._waiting(job)
        if not waiting.asks_for_all:
            return False
        unplaced = self._unplaced_of.get(job)
        if unplaced:
            (task,) = unplaced
            parts.append(waiting.around(task))
            known = None if blocked is None else self._of_kind.get((blocked, ""))
            of_tried[task.uid] = self._unplaced(job, task) if known is None else known
        else:
            queue = job.queue
            assert queue is not None
            is_overused = queue.name in self._session.reports.queues_overused
            reason = self._overused(job, queue, None) if is_overused else NOT_CONSIDERED
            parts.append((waiting.uids, reason))
        return True

    def _waiting(self, job: JobState) -> WaitingJob:
        lasting = self._session.state.waiting_jobs
        known = None if job in self._changed else lasting.get(job)
        if known is None:
            pending = job.having(TaskStatus.PENDING)
            known = WaitingJob(self._session.in_task_order(pending))
            if job not in self._changed:
                lasting[job] = known
        return known

    def _of_job(self, job: JobState) -> dict[str, PendingReason]:
        reasons: dict[str, PendingReason] = {}
        session = self._session
        queue = job.queue
        assert queue is not None
        pending = session.in_task_order(job.having(TaskStatus.PENDING))
        blocked = [
            task
            for task in pending
            if task.uid in session.reports.unplaced
            and not task.is_best_effort
            and _may_have_a_place(job, task)
        ]
        blocked_by = blocked[0] if blocked else None
        behind: PendingReason | None = None
        if blocked_by is not None:
            behind = not_reached(blocked_by)
        elif queue.name in session.reports.queues_overused:
            behind = self._overused(job, queue, None)
        # A job with groups does not try its tasks in task order.
        is_reached = blocked_by is not None and job.groups is None
        planned = session.plans.reasons.get(job.uid)
        for task in pending:
            if task is blocked_by:
                is_reached = False
            if planned is not None and not task.is_best_effort:
                reasons[task.uid] = planned
            elif job.groups is not None and not job.groups.may_take(task):
                reasons[task.uid] = at_maximum(job.groups, task)
            elif task.uid in session.reports.unplaced:
                reasons[task.uid] = self._unplaced(job, task)
            elif task.uid in session.reports.rolled_back and session.job_ready(job):
                # Rolled back with an incomplete gang that a later action completed.
                reasons[task.uid] = self._unplaced(job, task)
            elif task.uid in session.reports.rolled_back:
                reasons[task.uid] = self._incomplete(job, None)
            elif task.uid in session.reports.claim_refusals:
                detail = session.reports.claim_refusals[task.uid].text
                reasons[task.uid] = PendingReason(WhyPending.ABOVE_FAIR_SHARE, detail=detail)
            elif job.groups is not None and session.reports.asked_in_part(job):
                reasons[task.uid] = not_asked_for(job.groups, task, pending, blocked)
            elif behind is None or is_reached or task.is_best_effort:
                reasons[task.uid] = NOT_CONSIDERED
            else:
                reasons[task.uid] = behind
        need = self._gangs.of(job)
        if need is not None:
            for task in pending:
                reasons[task.uid] = evolve(reasons[task.uid], gang_need=need)
        return reasons

    def _unplaced(self, job: JobState, task: TaskState) -> PendingReason:
        refusal = self._session.reports.refusals.get(task.uid)
        if refusal is not None and refusal.reason is not UnfitReason.INSUFFICIENT_RESOURCE:
            why = _WHY_REFUSED.get(refusal.reason, WhyPending.QUEUE_LIMIT)
            behind = refusal.detail if refusal.reason is UnfitReason.NOT_ITS_TURN else ""
            return PendingReason(why, detail=refusal.text, behind_job=behind)
        tally = self._session.tally(task)
        if not tally.available and self._lacks_company(job, task):
            return self._incomplete(job, None)
        if tally.available:
            return self._unplaced_beside_room(job, task, tally)
        # Tasks of one kind get the same tally, and so the same reason.
        key = (self._kind_of(task), job.uid if self._blocked_resources.is_held_by(job) else "")
        known = self._of_kind.get(key)
        if known is None:
            if not self._session.node_room.large_enough(task.init_resreq):
                detail = "no node is large enough"
                known = PendingReason(WhyPending.NO_NODE, tally, detail, too_large=True)
            elif held_by := self._blocked_resources.holders(task):
                known = PendingReason(WhyPending.HELD_BY_GANG, tally, held_by=held_by)
            else:
                known = PendingReason(WhyPending.NO_NODE, tally)
            self._of_kind[key] = known
        claim = self._session.reports.claim_refusals.get(task.uid)
        if claim is not None and known.why is WhyPending.NO_NODE and not known.detail:
            return evolve(known, detail=claim.text)
        return known

    def _lacks_company(self, job: JobState, task: TaskState) -> bool:
        """Return whether there was not enough for its job at once, although the task itself fits.

        Other tasks may use the resources now; they would not if its whole job had been placed.
        """
        session = self._session
        return (
            task.uid in session.reports.lacking_company
            and not session.job_ready(job)
            and any(
                fits(task.init_resreq, node.allocatable)
                for node in session.placement.feasible(task)
            )
        )

    def _unplaced_beside_room(
        self, job: JobState, task: TaskState, tally: NodeTally
    ) -> PendingReason:
        queue = job.queue
        assert queue is not None
        if queue.name in self._session.reports.queues_overused and self._session.overused(queue):
            return self._overused(job, queue, tally)
        lacks_only_this = job.lacks() == 1
        if not lacks_only_this and not self._session.job_ready(job):
            return self._incomplete(job, tally)
        replica = None if job.groups is None else job.groups.incomplete_with(task)
        if replica is not None:
            if replica.parent is None:  # without gang, which says that the job is not ready
                return self._incomplete(job, tally)
            detail = f"the minimum of group {replica.name!r} does not fit at once"
            return PendingReason(WhyPending.GANG_INCOMPLETE, tally, detail)
        refusal = self._session.reports.refusals.get(task.uid)
        if refusal is not None:  # it was held back with its queue, whatever room nodes had
            detail = (
                f"a node has room for it; when it was tried, there was not enough {refusal.detail} "
                "in all for everything that it needs at once"
            )
            return PendingReason(WhyPending.NOT_CONSIDERED, tally, detail, lacking=refusal.detail)
        return PendingReason(
            WhyPending.NOT_CONSIDERED, tally, "there is room now; there was none when it was tried"
        )

    def _incomplete(self, job: JobState, tally: NodeTally | None) -> PendingReason:
        detail = f"fewer than the {job.min_available} tasks that must start together fit at once"
        if job.groups is not None and job.groups.groups:
            detail = "the groups that must start together, with at least "
            detail += f"{job.min_available} tasks, do not fit at once"
        return PendingReason(WhyPending.GANG_INCOMPLETE, tally, detail)

    def _overused(self, job: JobState, queue: QueueState, tally: NodeTally | None) -> PendingReason:
        share = self._session.reports.queues_overused.share(queue.name)
        holders = self._blocked_resources.share_holders(job, queue, share)
        if holders:
            return PendingReason(WhyPending.HELD_BY_GANG, tally, held_by=holders)
        detail = f"queue {queue.name!r} has its deserved share"
        return PendingReason(WhyPending.QUEUE_OVERUSED, tally, detail, share=share)


def _pending_by_job(tasks: Iterable[TaskState]) -> dict[JobState, list[TaskState]]:
    found: dict[JobState, list[TaskState]] = {}
    for task in tasks:
        if task.job is not None and task.status is TaskStatus.PENDING:
            found.setdefault(task.job, []).append(task)
    return found


def _uid(task: TaskState) -> str:
    return task.uid


def _may_have_a_place(job: JobState, task: TaskState) -> bool:
    """Return whether the maxima of a job allow a task to be placed."""
    return job.groups is None or job.groups.may_take(task)
