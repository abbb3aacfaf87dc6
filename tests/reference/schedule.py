"""One cycle: open, run the actions, close, report."""

from __future__ import annotations

from collections.abc import Mapping

from batchsched import (
    CycleResult,
    DroppedPromise,
    JobInfo,
    JobOutcome,
    JobPhase,
    Promise,
    Snapshot,
    TaskInfo,
    TaskOutcome,
    TaskStatus,
)
from tests.reference.allocate import allocate
from tests.reference.backfill import backfill
from tests.reference.carried_promises import (
    end_promises,
    keep_promises,
    places_to_keep,
    start_promised_jobs,
)
from tests.reference.conf import ActionConf, Conf, read_conf
from tests.reference.groups import READY, Groups, has_groups
from tests.reference.plan import plan
from tests.reference.preempt import preempt
from tests.reference.reclaim import reclaim
from tests.reference.reservations import drop_useless_reservations
from tests.reference.reserve import reserve
from tests.reference.session import NO_BOUND, Session

__all__ = ["KNOWN_ACTIONS", "reference_schedule"]

KNOWN_ACTIONS = ("allocate", "backfill", "plan", "preempt", "reclaim", "reserve")
"""All that place and evict; none that moves."""

OCCUPYING = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)


def reference_schedule(snapshot: Snapshot, conf: Mapping[str, object]) -> CycleResult:
    """Run one cycle with plain loops.

    `conf` is a parsed kube-batch configuration. The reasons of pending tasks are left empty, and
    messages are shorter than the library's.

    Amounts are added up as given. Unlike the library's, sums of amounts that are not integers are
    not exact, so results may differ if a sum differs from a capacity by exactly `EPSILON`.
    """
    read = read_conf(conf)
    session = Session(snapshot, read)
    keep_promises(session)
    start_promised_jobs(session)
    for action in read.actions:
        _run(session, action, read)
    drop_useless_reservations(session)
    end_promises(session)
    return _result(session)


def _run(session: Session, action: ActionConf, conf: Conf) -> None:
    session.most_evictions = NO_BOUND
    session.tiers.min_runtime = 0
    session.cures = conf.cures(action)
    match action.name:
        case "allocate":
            allocate(
                session,
                action.arguments,
                retries=conf.retries(action),
                cures=conf.cures_loans(action),
            )
        case "backfill":
            backfill(session, action.arguments)
        case "plan":
            plan(session, action.arguments)
        case "preempt":
            _read_limits(session, action)
            preempt(session, unblocks=conf.unblocks(action), retries=conf.retries(action))
        case "reclaim":
            _read_limits(session, action)
            reclaim(session, retries=conf.retries(action))
        case "reserve":
            reserve(session, action.arguments)
        case _:
            raise ValueError(f"expected the name of a built-in action, got {action.name!r}")


def _read_limits(session: Session, action: ActionConf) -> None:
    session.most_evictions = action.arguments.integer("maxEvictions", NO_BOUND)
    session.tiers.min_runtime = action.arguments.number("minRuntime", 0)


def _result(session: Session) -> CycleResult:
    outcomes = {
        uid: TaskOutcome(
            status=place.status,
            node_name=place.node_name,
            is_backfill=place.is_backfill,
            devices=place.picks or None,
        )
        for uid, place in sorted(session.state.places.items())
    }
    in_session = {task.uid for job in session.jobs for task in job.tasks}
    return CycleResult(
        binds=tuple(session.state.binds),
        evictions=tuple(session.state.evictions),
        pipelined=_promises(outcomes, TaskStatus.PIPELINED),
        conditional=_promises(outcomes, TaskStatus.CONDITIONAL),
        reserved=_promises(outcomes, TaskStatus.RESERVED),
        dropped_reservations=tuple(
            DroppedPromise(task_uid=uid, node_name=session.state.tasks[uid].node_name or "")
            for uid in sorted(session.state.dropped_reservations)
            if not _is_used_after_all(session.state.tasks[uid], outcomes[uid])
        ),
        kept_promises=tuple(
            Promise(
                task_uid=task.uid,
                node_name=outcomes[task.uid].node_name or "",
                devices=outcomes[task.uid].devices,
            )
            for task in sorted(places_to_keep(session), key=lambda task: task.uid)
        ),
        dropped_promises=tuple(
            DroppedPromise(task_uid=uid, node_name=task.node_name or "")
            for uid, task in sorted(session.state.tasks.items())
            if task.status is TaskStatus.PIPELINED and not _is_used_after_all(task, outcomes[uid])
        ),
        tasks={uid: outcome for uid, outcome in outcomes.items() if uid in in_session},
        jobs={job.uid: _job_outcome(session, job) for job in session.jobs},
        left_out=session.left_out,
        planned=session.plans,
        late=tuple(sorted(uid for uid in session.plans if _is_late(session, uid))),
    )


def _is_late(session: Session, uid: str) -> bool:
    [job] = [job for job in session.jobs if job.uid == uid]
    start = session.plans[uid].start
    waited_since = job.creation_time if job.eligible_time is None else job.eligible_time
    misses = job.deadline is not None and start > job.deadline - (job.estimate or 0)
    return misses or (job.max_wait is not None and start > waited_since + job.max_wait)


def _is_used_after_all(task: TaskInfo, outcome: TaskOutcome) -> bool:
    """Return whether a task with a kept place has that place again, or still."""
    is_used = outcome.status in (TaskStatus.BINDING, task.status)
    return is_used and outcome.node_name == task.node_name


def _promises(outcomes: Mapping[str, TaskOutcome], status: TaskStatus) -> tuple[Promise, ...]:
    return tuple(
        Promise(task_uid=uid, node_name=outcome.node_name or "", devices=outcome.devices)
        for uid, outcome in outcomes.items()
        if outcome.status is status
    )


def _job_outcome(session: Session, job: JobInfo) -> JobOutcome:
    condition = session.tiers.unschedulable(job)
    statuses = [session.state.status(task) for task in job.tasks]
    if condition is not None and TaskStatus.RUNNING in statuses:
        phase = JobPhase.UNKNOWN
    elif statuses and all(status is TaskStatus.SUCCEEDED for status in statuses):
        phase = JobPhase.COMPLETED
    elif has_groups(job):
        occupies = any(status in OCCUPYING for status in statuses)
        is_running = occupies and Groups(session.state, job).can_start(READY)
        phase = JobPhase.RUNNING if is_running else JobPhase.PENDING
    elif sum(status in OCCUPYING for status in statuses) >= job.min_available:
        phase = JobPhase.RUNNING
    else:
        phase = JobPhase.PENDING
    return JobOutcome(phase=phase, condition=condition)
