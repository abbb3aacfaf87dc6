"""Why tasks are pending, and jobs not scheduled, in the state at the end of a cycle.

`PendingReasons` decides what is said of a task; what groups, other jobs and the size of the
cluster have to do with it stands below. No decision depends on any of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from operator import attrgetter

from attrs import evolve

from batchsched.causes import ConditionReason, HoldKind, UnfitReason, WhyPending
from batchsched.model.cluster import Hold, TaskStatus
from batchsched.model.immutable import LazyMap
from batchsched.model.reasons import (
    MINIMUM_RUNTIME,
    NOT_CONSIDERED,
    WAITS_FOR_BACKFILL,
    WAITS_FOR_PROMISES,
    EvictionReport,
    JobCondition,
    MemberCount,
    NodeTally,
    PendingReason,
    PlacementFailure,
    Refusal,
    Unfit,
    holds_text,
    not_reached,
    out_of_reach,
    waits_for_leader,
)
from batchsched.model.resources import EPSILON
from batchsched.plugin.extension_points import Verdict
from batchsched.session.candidates import whole_cluster, why_no_set
from batchsched.session.failures import NOTHING_TRIED, TaskAttempts
from batchsched.session.holders import HeldByUnready
from batchsched.session.outlook import accepts_without, curable_nodes
from batchsched.session.policy_state import TasksOfWaiting
from batchsched.session.session import Session
from batchsched.session.victims import EvictionScope, EvictionSearch, Judges, RecentStarts
from batchsched.state.groups import Counting, JobGroups
from batchsched.state.needs import Stage, need_of_task
from batchsched.state.pod_affinity import first_it_must_be_near
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, fits, plus

_Part = Mapping[str, PendingReason] | tuple[Sequence[str], PendingReason]
"""Reasons by task UID, or the UIDs of tasks that share one."""


class PendingReasons:
    """Determines why tasks are pending at the end of the cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of_kind: dict[tuple[int | str, str], PendingReason] = {}
        self._tallies: dict[int | str, NodeTally] = {}
        """The tallies by kind."""
        self._tally_of: dict[TaskState, tuple[int | str, NodeTally]] = {}
        """The kinds of tasks that were asked about, and their tallies."""
        self._overused_reasons: dict[QueueState, PendingReason] = {}
        """By queue, of which no job holds resources without being ready."""
        self._slots: dict[tuple[int | str, Vector], int | None] = {}
        """By kind, and by what each holds: how many tasks fit now; None: that cannot be counted."""
        self._are_alike: dict[JobState, bool] = {}
        """Whether the pending tasks of a job need the same to start, and hold the same."""
        self._failures: dict[int | str, PlacementFailure] = {}
        """By kind: that no node accepts it."""
        self._no_sets: dict[str, Unfit | None] = {}
        """By UID of job, why no set of nodes was found for what it needs."""
        self._explained: dict[tuple[str, str, int, int], JobCondition] = {}
        """Jobs that are alike share a condition, which keeps alive what its key identifies."""
        self._changed = set(session.ledger.log.jobs)
        self._waiting_now: dict[JobState, TasksOfWaiting] = {}
        tasks, tried = session.ledger.tasks, session.reports.tasks.items()
        self._unplaced_of = _pending_by_job(task for task, each in tried if each.found_no_place)
        self._undone_of = _pending_by_job(task for task, each in tried if each.was_undone)
        self._taken_for = {
            **{each.task_uid: tasks[each.for_task_uid].job for each in session.taken_back},
            **{task.uid: each.gave_way_to.job for task, each in tried if each.gave_way_to},
        }
        """For which jobs places of tasks were taken back, by UID of the task."""
        self._not_plain: set[JobState] = {
            *self._undone_of,
            *_pending_by_job(task for task, each in tried if each.claim_refusal is not None),
            *_pending_by_job(tasks[uid] for uid in self._taken_for),
            *(job for job, unplaced in self._unplaced_of.items() if len(unplaced) > 1),
        }
        """Jobs of which more is to be said than that one task was tried in vain, or none."""

    @cached_property
    def _held(self) -> HeldByUnready:
        return HeldByUnready(self._session)

    # Jobs

    def explain(self, job: JobState, condition: JobCondition) -> JobCondition:
        """Add to a gang's condition why no node accepted a task."""
        if condition.reason is not ConditionReason.NOT_ENOUGH_RESOURCES:
            return condition
        undone = len(self._undone_of.get(job, ()))
        failure = self._failure_of(job)
        if not undone and failure is None:
            return condition
        key = (condition.message, condition.plugin, undone, id(failure))
        known = self._explained.get(key)
        if known is None:
            parts = [condition.message]
            if undone:
                parts.append(f"{undone} placed, but rolled back since not enough others were")
            if failure is not None:
                parts.append(failure.text("beside them" if undone else "then"))
            message = "; ".join(parts)
            known = evolve(condition, message=message, undone=undone, failure=failure)
            self._explained[key] = known
        return known

    def _failure_of(self, job: JobState) -> PlacementFailure | None:
        """Return why no node was found for the first task that was tried, as far as still known."""
        if job.held and _is_kept_below(job):
            return PlacementFailure(holds=_holds_of(job))
        unplaced = self._unplaced_of.get(job)
        if unplaced is None:
            return None
        if job.groups is not None:
            unplaced = [task for task in unplaced if job.groups.may_take(task)]
            if not unplaced:
                return None
        task = unplaced[0] if len(unplaced) == 1 else min(unplaced, key=attrgetter("uid"))
        no_set = self._no_set(job)
        if no_set is not None:
            return PlacementFailure(refusal=no_set)
        refusal = self._session.reports.about(task).refusal
        if refusal is not None and refusal.reason is not UnfitReason.INSUFFICIENT_RESOURCE:
            return PlacementFailure(refusal=refusal)
        kind, tally = self._tally(task)
        if refusal is not None and (tally.available or self._lacks_company(job, task)):
            return PlacementFailure(refusal=refusal)
        if tally.available:
            # There is room now, after the rollback of others; there was none then.
            return PlacementFailure(task=task.info.display_name)
        known = self._failures.get(kind)
        if known is None:
            known = self._failures[kind] = PlacementFailure(tally=tally)
        return known

    def _no_set(self, job: JobState) -> Unfit | None:
        """Return why no set of nodes was found for a job, if plugins determine them."""
        need = self._session.reports.about_job(job).need_in_sets
        if need is None:
            return None
        if job.uid not in self._no_sets:
            self._no_sets[job.uid] = why_no_set(self._session, need)
        return self._no_sets[job.uid]

    def _waiting(self, job: JobState) -> TasksOfWaiting:
        """Return what is known about a job while it does not change."""
        # The changes of a job in this cycle are undone before the next one: do not keep them.
        known = self._waiting_now if job in self._changed else self._session.state.waiting_jobs
        waiting = known.get(job)
        if waiting is None:
            pending = self._session.in_task_order(job.having(TaskStatus.PENDING))
            waiting = known[job] = TasksOfWaiting(pending)
        return waiting

    def _tally(self, task: TaskState) -> tuple[int | str, NodeTally]:
        """Return a key that tasks share only if they get the same tally, and the tally."""
        known = self._tally_of.get(task)
        if known is not None:
            return known
        kind: int | str | None = self._session.placement.kind(task)
        if kind is None or self._session.guard is not None:
            # With plans, the tally also depends on how long the task runs.
            kind = task.uid
        tally = self._tallies.get(kind)
        if tally is None:
            tally = self._tallies[kind] = self._counted(task)
        self._tally_of[task] = kind, tally
        return kind, tally

    def _counted(self, task: TaskState) -> NodeTally:
        """Return how many nodes accept a task now, and why the others do not."""
        tally = self._session.placement.tally(task)
        guard = self._session.guard
        if guard is None or not tally.available:
            return tally
        closed = sum(
            node.fits(task) and not guard.allows(task, node)
            for node in self._session.placement.feasible(task)
        )
        if not closed:
            return tally
        unfit = {**tally.unfit, Unfit(UnfitReason.PLANNED): closed}
        return NodeTally(tally.total, tally.available - closed, unfit)

    # Tasks

    def of_all(self) -> Mapping[str, PendingReason]:
        """Return the reason of every pending task by UID, in the order of jobs and tasks.

        The mapping is in parts, which are joined when it is read: most jobs wait for the same
        reasons as in the last cycle.
        """
        parts: list[_Part] = []
        of_tried: dict[str, PendingReason] = {}
        """The reasons of tasks that only have placeholders in the parts."""
        ledger = self._session.ledger
        waiting = {**ledger.jobs_having[TaskStatus.PENDING.index], **ledger.jobs_held}
        for _, job in sorted(waiting.items()):
            if job.held:
                parts.append(self._of_held_job(job))
            elif not job.in_session:
                reason = self._left_out(job)
                parts.append(([task.uid for task in job.having(TaskStatus.PENDING)], reason))
            elif not self._of_plain_job(job, parts, of_tried):
                parts.append(self._of_job(job))

        def joined() -> dict[str, PendingReason]:
            reasons: dict[str, PendingReason] = {}
            for part in parts:
                reasons.update(dict.fromkeys(*part) if isinstance(part, tuple) else part)
            return reasons

        if says_of_evictions(self._session):
            reasons = {**joined(), **of_tried}
            add_eviction_reports(self._session, reasons)
            return reasons
        return LazyMap(of_tried, None, joined)

    def _left_out(self, job: JobState) -> PendingReason:
        condition = self._session.left_out[job.uid]
        return PendingReason(condition.reason.why, detail=condition.message)

    def _of_held_job(self, job: JobState) -> dict[str, PendingReason]:
        """Return the reasons of a job of which some tasks are held, in task order. O(tasks)."""
        pending = job.having(TaskStatus.PENDING)
        if not pending:
            reasons: dict[str, PendingReason] = {}
        elif _is_kept_below(job):
            holds = _holds_of(job)
            detail = f"its job lacks tasks that are held: {holds_text(holds)}"
            reason = PendingReason(WhyPending.HELD, detail=detail, holds=holds)
            reasons = dict.fromkeys([task.uid for task in pending], reason)
        elif not job.in_session:
            reasons = dict.fromkeys([task.uid for task in pending], self._left_out(job))
        else:
            reasons = self._of_job(job)
        known: dict[tuple[Hold, ...], PendingReason] = {}
        for task in job.held:
            holds = _holds_on(task, job)
            if holds not in known:
                detail = holds_text(holds)
                known[holds] = PendingReason(WhyPending.HELD, detail=detail, holds=holds)
            reasons[task.uid] = known[holds]
        in_order = self._session.in_task_order([*pending, *job.held])
        return {task.uid: reasons[task.uid] for task in in_order}

    def _of_plain_job(
        self,
        job: JobState,
        parts: list[_Part],
        of_tried: dict[str, PendingReason],
    ) -> bool:
        """Do the same as `_of_job` for plain jobs without best-effort tasks, else return False.

        Of a plain job at most one task was tried, and nothing else is to be said. If it has not
        changed since the last cycle, its tasks are not examined.
        """
        if (
            job.groups is not None
            or job in self._not_plain
            or self._session.reports.about_job(job).why_planned is not None
        ):
            return False
        waiting = self._waiting(job)
        if not waiting.asks_for_all:
            return False
        unplaced = self._unplaced_of.get(job)
        if unplaced:
            (task,) = unplaced
            parts.append(waiting.around(task))
            of_tried[task.uid] = self._unplaced(job, task, self._session.reports.about(task))
        else:
            queue = job.queue
            assert queue is not None
            is_overused = queue.name in self._session.reports.queues_overused
            reason = self._overused(job, queue, None) if is_overused else NOT_CONSIDERED
            parts.append((waiting.uids, reason))
        return True

    def _of_job(self, job: JobState) -> dict[str, PendingReason]:
        reasons: dict[str, PendingReason] = {}
        session = self._session
        queue = job.queue
        assert queue is not None
        pending = session.in_task_order(job.having(TaskStatus.PENDING))
        about = session.reports.tasks.get
        blocked = [
            task
            for task in pending
            if about(task, NOTHING_TRIED).found_no_place
            and not task.is_best_effort
            and (job.groups is None or job.groups.may_take(task))
        ]
        blocked_by = blocked[0] if blocked else None
        behind: PendingReason | None = None
        if blocked_by is not None:
            behind = not_reached(blocked_by.info)
        elif queue.name in session.reports.queues_overused:
            behind = self._overused(job, queue, None)
        # A job with groups does not try its tasks in task order.
        is_reached = blocked_by is not None and job.groups is None
        incomplete: PendingReason | None = None
        tried_as_job = session.reports.about_job(job)
        planned = tried_as_job.why_planned
        for task in pending:
            tried = about(task, NOTHING_TRIED)
            if task is blocked_by:
                is_reached = False
            if planned is not None and not task.is_best_effort:
                reasons[task.uid] = planned
            elif job.groups is not None and not job.groups.may_take(task):
                reasons[task.uid] = _at_maximum(job.groups, task)
            elif (taken_for := self._taken_for.get(task.uid)) is not None:
                detail, why = f"its place was taken back for {taken_for.uid}", WhyPending.TAKEN_BACK
                reasons[task.uid] = PendingReason(why, detail=detail, taken_for=taken_for.uid)
            elif tried.found_no_place:
                reasons[task.uid] = self._unplaced(job, task, tried)
            elif tried.was_undone and session.plugins.job_ready(job):
                # Rolled back with an incomplete gang that a later action completed.
                reasons[task.uid] = self._unplaced(job, task, tried)
            elif tried.was_undone:
                incomplete = incomplete or self._incomplete(job, task, None)
                reasons[task.uid] = incomplete
            elif (claim := tried.claim_refusal) is not None:
                why = WhyPending.ABOVE_FAIR_SHARE
                reasons[task.uid] = PendingReason(why, detail=claim.text, refusal=claim)
            elif job.groups is not None and tried_as_job.asked_in_part:
                reasons[task.uid] = _not_asked_for(job.groups, task, pending, blocked)
            elif behind is None or is_reached or task.is_best_effort:
                reasons[task.uid] = NOT_CONSIDERED
            else:
                reasons[task.uid] = behind
        return reasons

    def _unplaced(self, job: JobState, task: TaskState, tried: TaskAttempts) -> PendingReason:
        refusal = tried.refusal
        if refusal is not None and refusal.reason is not UnfitReason.INSUFFICIENT_RESOURCE:
            is_behind = refusal.reason is UnfitReason.NOT_ITS_TURN
            return PendingReason(
                refusal.reason.why,
                detail=refusal.text,
                behind_job=refusal.detail if is_behind else "",
                refusal=refusal,
            )
        no_set = self._no_set(job) if self._session.reports.jobs else None
        if no_set is not None:
            return PendingReason(WhyPending.NO_NODE, detail=no_set.text, refusal=no_set)
        kind, tally = self._tally(task)
        if tried.lacked_company and not tally.available and self._lacks_company(job, task):
            return self._incomplete(job, task, None)
        if tally.available:
            return self._unplaced_beside_room(job, task, tally)
        if task.must_be_near and any(
            unfit.reason is UnfitReason.POD_AFFINITY for unfit in tally.unfit
        ):
            leader = first_it_must_be_near(task, job.tasks)
            if leader is not None and leader.status is TaskStatus.PENDING:
                return waits_for_leader(leader.info, tally)
        # Tasks of one kind get the same tally, and so the same reason.
        key = (kind, job.uid if job.is_broken or job.uid in self._held.of(job.queue) else "")
        known = self._of_kind.get(key)
        if known is None:
            if not self._session.state.node_room.large_enough(task.init_resreq):
                detail = "no node is large enough"
                known = PendingReason(WhyPending.NO_NODE, tally, detail, too_large=True)
            elif held_by := self._held.holders(task):
                known = PendingReason(WhyPending.HELD_BY_GANG, tally, held_by=held_by)
            elif (blocking := self._held.broken_holder(task)) is not None:
                other, node = blocking
                detail = f"it needs room on {node}, where that job runs; "
                detail += "its own job is incomplete too"
                known = PendingReason(
                    WhyPending.HELD_BY_GANG, tally, detail, held_by=(other,), held_on=node
                )
            else:
                known = PendingReason(WhyPending.NO_NODE, tally)
            self._of_kind[key] = known
        claim = tried.claim_refusal
        if claim is not None and known.why is WhyPending.NO_NODE and not known.detail:
            return evolve(known, detail=claim.text, refusal=claim)
        return known

    def _lacks_company(self, job: JobState, task: TaskState) -> bool:
        """Return whether there was not enough for its job at once, although the task itself fits.

        Other tasks may use the resources now; they would not if its whole job had been placed.
        """
        session = self._session
        return (
            session.reports.about(task).lacked_company
            and not session.plugins.job_ready(job)
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
        if queue.name in self._session.reports.queues_overused and self._session.plugins.overused(
            queue
        ):
            return self._overused(job, queue, tally)
        lacks_only_this = job.lacks() == 1
        if not lacks_only_this and not self._session.plugins.job_ready(job):
            return self._incomplete(job, task, tally)
        replica = None if job.groups is None else job.groups.incomplete_with(task)
        if replica is not None:
            if replica.parent is None:  # without gang, which says that the job is not ready
                return self._incomplete(job, task, tally)
            detail = f"the minimum of group {replica.name!r} does not fit at once"
            return PendingReason(WhyPending.GANG_INCOMPLETE, tally, detail)
        refusal = self._session.reports.about(task).refusal
        if refusal is not None:  # it was held back with its queue, whatever room nodes had
            detail = "a node has room for it; when it was tried, there was not enough "
            detail += f"{refusal.detail} in all for everything that it needs at once"
            lacking = refusal.detail
            return PendingReason(
                WhyPending.NOT_CONSIDERED, tally, detail, lacking=lacking, refusal=refusal
            )
        detail = "there is room now; there was none when it was tried"
        return PendingReason(WhyPending.NOT_CONSIDERED, tally, detail)

    def _incomplete(self, job: JobState, task: TaskState, tally: NodeTally | None) -> PendingReason:
        least = job.min_available
        if job.groups is not None and job.groups.groups:
            detail = f"the groups that must start together, with at least {least} tasks, "
            detail += "do not fit at once"
        else:
            tasks, fitting = "tasks that must start together", self._fitting(job, task)
            if job.ready_count:
                least, tasks = job.lacks(), f"more {tasks}"
            if fitting is None:
                detail = f"not all of the {least} {tasks} fit now"
            elif fitting >= least:
                detail = f"the {least} {tasks} did not all fit when they were tried"
            elif fitting:
                fit = "fits" if fitting == 1 else "fit"
                detail = f"only {fitting} of the {least} {tasks} {fit} now"
            else:
                detail = f"none of the {least} {tasks} fits now"
        return PendingReason(WhyPending.GANG_INCOMPLETE, tally, detail)

    def _fitting(self, job: JobState, task: TaskState) -> int | None:
        """Return how many tasks of a job fit now, up to what it lacks; None: they are not alike.

        O(nodes) for a kind of task of which fewer nodes accept one now, and O(tasks) for a job, but
        O(1) after the first time.
        """
        kind, tally = self._tally(task)
        lacking = job.lacks()
        if not tally.available:
            return 0
        if job not in self._are_alike:
            waiting = job.having(TaskStatus.PENDING)
            amounts = {(each.init_resreq, each.resreq) for each in waiting}
            self._are_alike[job] = len(amounts) == 1
        if not self._are_alike[job]:
            return None
        key = kind, task.resreq
        if tally.available < lacking and key not in self._slots:
            counts = self._session.state.view.counts(need_of_task(task), Stage.NOW)
            everywhere = whole_cluster(self._session)
            self._slots[key] = None if counts is None else counts.of(everywhere)
        slots = self._slots.get(key, tally.available)
        return None if slots is None else min(slots, lacking)

    def _overused(self, job: JobState, queue: QueueState, tally: NodeTally | None) -> PendingReason:
        is_shared = tally is None and not self._held.of(queue)
        known = self._overused_reasons.get(queue) if is_shared else None
        if known is not None:
            return known
        share = self._session.reports.queues_overused.get(queue.name)
        holders = self._held.share_holders(job, queue, share)
        if holders:
            return PendingReason(WhyPending.HELD_BY_GANG, tally, held_by=holders)
        detail = f"queue {queue.name!r} has its deserved share"
        reason = PendingReason(WhyPending.QUEUE_OVERUSED, tally, detail, share=share)
        if is_shared:
            self._overused_reasons[queue] = reason
        return reason


def _pending_by_job(tasks: Iterable[TaskState]) -> dict[JobState, list[TaskState]]:
    found: dict[JobState, list[TaskState]] = {}
    for task in tasks:
        if task.job is not None and task.status is TaskStatus.PENDING:
            found.setdefault(task.job, []).append(task)
    return found


# Holds


def _holds_on(task: TaskState, job: JobState) -> tuple[Hold, ...]:
    """Return what holds a task: its own holds, those of its job, and that of its queue."""
    closed = None if job.queue is None else job.queue.closed_by
    holds = (*task.info.holds, *job.info.holds)
    if closed is None:
        return holds
    detail = f"queue {closed.name!r} is {closed.info.state.value}"
    return (*holds, Hold(HoldKind.QUEUE_CLOSED, closed.name, detail))


def _holds_of(job: JobState) -> tuple[Hold, ...]:
    """Return what holds tasks of a job, each hold once, in the order of its tasks."""
    return tuple(dict.fromkeys(hold for task in job.held for hold in _holds_on(task, job)))


def _is_kept_below(job: JobState) -> bool:
    """Return whether a job has tasks for its minimum only with those that are held. O(tasks)."""
    with_all, without = JobState(job.info, None), JobState(job.info, None)
    with_all.count_new(job.tasks)
    without.count_new([task for task in job.tasks if not task.is_held])
    return with_all.has_minimum(Counting.VALID) and not without.has_minimum(Counting.VALID)


# Groups and maxima


def _at_maximum(groups: JobGroups, task: TaskState) -> PendingReason:
    """Return the reason that a job, or a group of it, has its maximum number of tasks."""
    owner, maximum, things = "its job", groups.maximum, "tasks"
    if maximum is None or groups.root.placed < maximum:
        full = groups.leaf_of(task).full()
        assert full is not None
        owner, maximum = f"group {full.name!r}", full.maximum
        things = "groups" if full.children else "tasks"
    detail = f"{owner} has its maximum of {maximum} {things}"
    return PendingReason(WhyPending.AT_MAXIMUM, detail=detail)


def _not_asked_for(
    groups: JobGroups, task: TaskState, pending: Sequence[TaskState], blocked: Sequence[TaskState]
) -> PendingReason:
    """Return why a job with groups did not try a task when it had its turn.

    Args:
        groups: the groups of the job.
        task: the task.
        pending: all tasks of the job that are pending.
        blocked: the tasks that were tried without success and are still allowed by maxima.

    """
    is_ready = groups.is_satisfied(Counting.READY)  # the plugin gang may not be configured
    missing = groups.out_of_reach(task)
    if missing is None and not is_ready:
        missing = groups.first_out_of_reach()
    if missing is not None:
        return out_of_reach(missing.member_count(Counting.VALID))
    there = groups.total[Counting.VALID]
    if there < groups.minimum:
        return out_of_reach(MemberCount(has=there, needs=groups.minimum))
    entered = groups.incomplete_with(task)
    if blocked:
        near = (other for other in blocked if groups.incomplete_with(other) is entered)
        return not_reached(next(near, blocked[0]).info)
    if not is_ready and groups.is_satisfied(Counting.RESERVED):
        return WAITS_FOR_PROMISES
    if not is_ready and any(other.is_best_effort for other in pending):
        return WAITS_FOR_BACKFILL
    if not groups.has_maximum or (is_ready and entered is None):
        return NOT_CONSIDERED
    what = "must start together"
    if is_ready and entered is not None:
        what = f"group {entered.name!r} needs"
    detail = f"the maxima of its job and its groups leave less than {what}"
    return PendingReason(WhyPending.AT_MAXIMUM, detail=detail)


# Why nobody was evicted


MOST_ASKED = 1_000
"""About how many nodes and candidates the reports of a cycle evaluate; see `EvictionReports`."""

_REASONS = {
    Verdict.PROTECTED: "protected by {plugin}",
    Verdict.NOT_NOW: "protected for now by {plugin}",
    Verdict.PASS: "not a victim of {plugin}",
    Verdict.WITH_JOB: "only with its job, which may not be evicted as a whole",
    Verdict.VICTIM: "victims of an earlier tier come first",
    Verdict.ALONE: "not a victim of any plugin",
    Verdict.NO_SAY: "not a victim of any plugin",
}
"""Why a candidate is not a victim, where the plugin does not say it."""
_NOT_ENOUGH = "taken and not enough"


def says_of_evictions(session: Session) -> bool:
    """Return whether anybody searched for tasks to evict, or might not claim, in vain."""
    reports = session.reports
    return any(tried.eviction_searches for tried in reports.tasks.values()) or any(
        tried.claims_refused for tried in reports.jobs.values()
    )


def add_eviction_reports(session: Session, reasons: dict[str, PendingReason]) -> None:
    """Add to reasons, by task UID, why no tasks were evicted for tasks that are still pending."""
    by_job: dict[JobState, list[EvictionSearch]] = {}
    for task, tried in session.reports.tasks.items():
        job = task.job
        if tried.eviction_searches and task.uid in reasons and job is not None:
            by_job.setdefault(job, []).extend(tried.eviction_searches.values())
    _add_refused_claims(session, reasons)
    reports = EvictionReports(session)
    # The most important first.
    for job in sorted(by_job, key=session.plugins.job_order_key):
        for search in sorted(by_job[job], key=lambda s: session.plugins.task_order_key(s.task)):
            report, reason = reports.of(search), reasons[search.task.uid]
            if report is not None:
                evictions = (*reason.evictions, report)
                reasons[search.task.uid] = evolve(reason, evictions=evictions)


def _add_refused_claims(session: Session, reasons: dict[str, PendingReason]) -> None:
    for job, tried in session.reports.jobs.items():
        for action, refused in tried.claims_refused.items():
            refusal = Refusal(refused.rule, 0, refused.until)
            report = EvictionReport(action=action, nodes=0, candidates=0, refusals=(refusal,))
            for task in job.tasks:
                if task.uid in reasons:
                    reason = reasons[task.uid]
                    reasons[task.uid] = evolve(reason, evictions=(*reason.evictions, report))


def refused_until(session: Session) -> float | None:
    """Return when the first ends of what refused evictions for now only; None: nothing did.

    What protects tasks is asked of all that run, not of what a search met, since what is remembered
    skips most of it: only where a search for a task that is still pending found nobody, and where
    something protects for a time. O(running tasks) for each kind of claimant.
    """
    ends = [
        refused.until
        for job, tried in session.reports.jobs.items()
        for refused in tried.claims_refused.values()
        if refused.until is not None and job.count(TaskStatus.PENDING)
    ]
    asked: set[Hashable] = set()
    searches = (
        search
        for tried in session.reports.tasks.values()
        for search in tried.eviction_searches.values()
    )
    for search in searches:
        task, judges = search.task, session.plugins.judges[search.scope.point]
        job = task.job
        if job is None or task.status is not TaskStatus.PENDING:
            continue
        if search.recent is None and not judges.tells_ends:
            continue
        key = judges.claimant_key(task)
        # Its own running tasks are candidates, too, but differently for itself and for others.
        has_any = bool(job.count(TaskStatus.RUNNING) or job.count(TaskStatus.BINDING))
        own = job.uid if has_any or search.scope is EvictionScope.SAME_JOB else ""
        queue = None if job.queue is None else job.queue.name
        claims = (task.uid if key is None else key), queue, own
        about = search.scope, search.recent, claims, job.info.priority
        if about in asked:
            continue
        asked.add(about)
        for node in session.nodes:
            tasks = search.scope.candidates(task, session.running_on(node), judges)
            ends += _ends_for_now(search, judges, tasks) if tasks else ()
    return min(ends, default=None)


def _ends_for_now(
    search: EvictionSearch, judges: Judges, tasks: Sequence[TaskState]
) -> Iterator[float]:
    """Yield when the first of some tasks ceases to be protected, by plugins and by the action."""
    claimant, recent = search.task, search.recent

    def ends(of: Sequence[TaskState]) -> list[float]:
        both = (
            judges.refused_until(claimant, of),
            None if recent is None else recent.refused_until(of),
        )
        return [end for end in both if end is not None]

    if ends(tasks):  # most often there is none, and nothing more is asked
        protected = judges.protects_any
        yield from ends([t for t in tasks if not protected([t], claimant, but=(), for_ever=True)])


def staying_and_free(
    session: Session,
    claimant: TaskState,
    scope: EvictionScope,
    groups: Sequence[Sequence[TaskState]],
    recent: RecentStarts | None,
) -> tuple[Counter[str], list[list[TaskState]]]:
    """Return how many candidates stay, by reason, and the others as they are grouped by node."""
    out: Counter[str] = Counter()
    plugins = session.plugins
    staying, free = plugins.judges[scope.point].staying_and_free(
        claimant, groups, session.in_victim_order, recent
    )
    for (name, verdict), of_plugin in staying.items():
        general = _REASONS[verdict].format(plugin=name)
        for text in plugins.verdict_reasons(name, claimant, of_plugin, verdict):
            out[text or general] += 1
    return out, free


class EvictionReports:
    """Evaluates the candidates on all nodes again, for tasks that stay pending.

    Reports must not make cycles with many failed searches much slower. So after about a thousand
    nodes and candidates (`MOST_ASKED`) further tasks get no report; the most important jobs come
    first. Tasks of a job with the same request count once; all others count even if their report
    is known from another task, so that the selection does not depend on the placement engine.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked = 0
        self._counted: set[Hashable] = set()
        self._known: dict[Hashable, EvictionReport] = {}
        self._same_of: dict[Hashable, Hashable] = {}
        """The answers of `_same`, by search and by the task for which it was."""

    def of(self, search: EvictionSearch) -> EvictionReport | None:
        """Return the report of a search; None: there have been enough."""
        task = search.task
        assert task.job is not None
        search_key: Hashable = (
            *(search.action, search.scope, search.may_use_idle, search.recent),
            search.curable,
        )
        counted = (search_key, task.job.uid, task.resreq, task.init_resreq)
        if counted not in self._counted and self._asked >= MOST_ASKED:
            return None
        asked_for = search_key, search.asked_for or task
        same = self._same_of.get(asked_for)
        if same is None:
            same = self._same_of[asked_for] = self._same(search)
        report = self._known.get((search_key, same))
        if report is None:
            report = self._known[search_key, same] = self._find(search)
        if search.beside_promises:
            report = evolve(report, beside_promises=search.beside_promises)
        if counted not in self._counted:
            self._counted.add(counted)
            self._asked += report.nodes + report.candidates
        return report

    def _same(self, search: EvictionSearch) -> Hashable:
        """Return a key shared by searches with the same report."""
        task, session = search.task, self._session
        job = task.job
        assert job is not None
        assert job.queue is not None
        kind = session.placement.kind(task)
        if kind is None:
            return task.uid
        if search.why_not is not None:
            return kind, job.uid
        key = session.plugins.judges[search.scope.point].claimant_key(task)
        if key is None:
            return task.uid  # verdicts may depend on anything about it
        # Its own running tasks are candidates too, but differently for itself and for others.
        has_any = job.count(TaskStatus.RUNNING) or job.count(TaskStatus.BINDING)
        own = job.uid if has_any else ""
        return kind, job.queue.name, own, key

    def _find(self, search: EvictionSearch) -> EvictionReport:
        session, task = self._session, search.task
        searched = list(session.placement.feasible(task))
        refusing = curable_nodes(session, task) if search.curable else []
        searched += refusing
        still_refusing: list[NodeState] = []
        judges = session.plugins.judges[search.scope.point]
        groups = [
            search.scope.candidates(task, session.running_on(node), judges) for node in searched
        ]
        candidates = sum(map(len, groups))
        recent = search.recent
        started: list[TaskState] = []
        if recent is not None:
            started = [one for group in groups for one in group if one in recent]
            groups = [[one for one in group if one not in recent] for group in groups]
        out, is_evictable = self._staying_and_free(search, searched, groups)
        left = [task for group in groups for task in group]
        refusals = self._refusals(search, left, started)
        if recent is not None and started:
            out[recent.text] += len(started)
        asked = {d: amount for d, amount in enumerate(task.init_resreq) if amount >= EPSILON}
        size, best_node, missing = inf, "", dict[int, int]()
        for node, free in zip(searched, is_evictable, strict=True):
            if node in refusing and not accepts_without(session, task, node, free):
                still_refusing.append(node)
                continue
            rooms = self._rooms(search, node, free)
            most = {d: max(amount - room[d] for room in rooms) for d, amount in asked.items()}
            lacking = {d: amount for d, amount in most.items() if amount >= EPSILON}
            part = max((amount / asked[d] for d, amount in lacking.items()), default=0.0)
            # Nodes come in node order: of equals, the first.
            if part < size:
                size, best_node, missing = part, node.name if lacking else "", lacking
        everybody = [one for free in is_evictable for one in free]
        dimensions = session.ledger.dimensions
        amounts = [missing.get(d, zero) for d, zero in enumerate(dimensions.zero)]
        return EvictionReport(
            action=search.action,
            nodes=len(searched),
            candidates=candidates,
            out=out,
            best_node=best_node,
            shortfall=dimensions.resource(amounts),
            refusing=len(still_refusing),
            refusing_elsewhere=sum(
                accepts_without(session, task, node, everybody) for node in still_refusing
            ),
            refusals=refusals,
            most_moves=search.most_moves,
            tries=search.tries,
        )

    def _refusals(
        self,
        search: EvictionSearch,
        candidates: Sequence[TaskState],
        started: Sequence[TaskState],
    ) -> tuple[Refusal, ...]:
        """Return how many candidates each rule refuses, and until when, by rule.

        Args:
            search: the search.
            candidates: those that it asked plugins about.
            started: the others, which it may not evict because they started recently.

        """
        claimant, found = search.task, dict[str, Refusal]()
        if search.recent is not None and started:
            until = search.recent.refused_until(started)
            found[MINIMUM_RUNTIME] = Refusal(MINIMUM_RUNTIME, len(started), until)
        point, plugins = search.scope.point, self._session.plugins
        for _, refused in plugins.each_refused(claimant, candidates, point):
            before = found.get(refused.rule)
            count = 1 if before is None else before.count + 1
            ends = [each.until for each in (refused, before) if each and each.until is not None]
            found[refused.rule] = Refusal(refused.rule, count, min(ends, default=None))
        return tuple(found[rule] for rule in sorted(found))

    def _staying_and_free(
        self,
        search: EvictionSearch,
        searched: Sequence[NodeState],
        groups: Sequence[Sequence[TaskState]],
    ) -> tuple[Counter[str], list[list[TaskState]]]:
        """Return the number of protected candidates by reason, and the others by node."""
        session = self._session
        if search.why_not is None:
            return staying_and_free(session, search.task, search.scope, groups, search.recent)
        out: Counter[str] = Counter()
        free: list[list[TaskState]] = []
        why_not = search.why_not()
        for node, candidates in zip(searched, groups, strict=True):
            group = session.in_victim_order(candidates)
            reasons = why_not(node, group)
            free_words = "" if search.most_moves is not None else _NOT_ENOUGH
            out.update(words for reason in reasons if (words := reason or free_words))
            free.append([one for one, reason in zip(group, reasons, strict=True) if reason is None])
        return out, free

    def _rooms(
        self, search: EvictionSearch, node: NodeState, gone: Sequence[TaskState]
    ) -> list[Vector]:
        """Return the amounts on a node without these tasks, in each of which a task must fit."""
        zero = self._session.ledger.dimensions.zero
        freed = for_good = zero
        for task in gone:
            freed = plus(freed, task.resreq)
            if not task.is_backfill:
                for_good = plus(for_good, task.resreq)
        if node.divergence_count:
            rooms = [plus(node.future_idle, freed), plus(node.eventual, for_good)]
        else:
            rooms = [plus(node.idle, freed) if gone else node.idle]
        if not search.may_use_idle:
            rooms.append(freed)
        return rooms
