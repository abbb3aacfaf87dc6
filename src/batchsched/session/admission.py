"""Determines which jobs a session schedules, and why it leaves others out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping

from attrs import evolve

from batchsched.model.reasons import ConditionReason, JobCondition
from batchsched.model.rules import Unmet, unmet_dependencies
from batchsched.session.plugins import PluginSet
from batchsched.state.ledger import Ledger
from batchsched.state.records import JobState, QueueState

__all__ = ["admit_jobs"]

_WAITS = (ConditionReason.WAITS_FOR, ConditionReason.NEVER_ELIGIBLE)


def admit_jobs(
    jobs: Iterable[JobState],
    ledger: Ledger,
    plugins: PluginSet,
    admitted: MutableMapping[str, JobState],
    left_out: MutableMapping[str, JobCondition],
) -> None:
    """Decide which of some jobs are in the session.

    Args:
        jobs: the jobs.
        ledger: the state of the session.
        plugins: the plugins that decide whether a job is valid.
        admitted: the jobs of the session by UID; updated.
        left_out: why other jobs are not in it, by UID; updated.

    """
    jobs = list(jobs)
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
            refusal = plugins.job_valid(job)
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
    waiting = {job.uid: job for job in jobs if _may_wait(job)}
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
    return unmet_dependencies(
        evolve(job.info, tasks=[task.info for task in job.tasks])
        for _, job in sorted(concerned.items())
    )


def _without_queue(job: JobState, queues: Mapping[str, QueueState]) -> JobCondition:
    name = job.info.queue
    queue = queues.get(name)
    if queue is None:
        message = f"queue {name!r} is not in the snapshot"
        return JobCondition(ConditionReason.QUEUE_UNKNOWN, message)
    message = f"queue {name!r} has other queues below it, such as {queue.children[0].name!r}"
    return JobCondition(ConditionReason.QUEUE_NOT_LEAF, f"{message}; a job must name a leaf")


def _may_wait(job: JobState) -> bool:
    return bool(job.info.depends_on) and job.info.eligible_time is None


def _not_eligible(unmet: Unmet) -> JobCondition:
    reason = ConditionReason.NEVER_ELIGIBLE if unmet.never else ConditionReason.WAITS_FOR
    return JobCondition(reason, unmet.text)
