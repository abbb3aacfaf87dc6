"""What the library itself writes into jobs between cycles: eligible times, plans and losses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import evolve

from batchsched.model.cluster import (
    JobInfo,
    Plan,
)
from batchsched.model.result import CycleResult
from batchsched.model.rules import unmet_dependencies
from batchsched.model.snapshot import Snapshot
from batchsched.transition.content import Content


def carried_over(
    jobs: Iterable[JobInfo],
    removed: Sequence[JobInfo],
    before: Snapshot,
    result: CycleResult | None,
    *,
    now: float,
    broken: Collection[str] = (),
) -> list[JobInfo]:
    """Return jobs, whose tasks are up to date, with their new eligible times and plans.

    Dependencies hold if they hold before or after jobs are removed. Without a result, plans do not
    change. O(jobs).

    Args:
        jobs: the jobs of the next snapshot.
        removed: the removed jobs, with their tasks before they were removed.
        before: the last snapshot.
        result: the result of the last cycle.
        now: the time of the next cycle.
        broken: the UIDs of the jobs that lost tasks that they need in the last cycle.

    """
    jobs = list(jobs)
    known = {job.uid for job in before.jobs}.difference(job.uid for job in removed)
    times: dict[str, float] = {}
    if any(map(_waits_for_others, jobs)):
        held = _eligible(before.jobs)
        holds = held | _eligible(jobs) | _eligible([*removed, *jobs])
        times = {
            job.uid: now if job.uid in known - held else job.creation_time
            for job in jobs
            if job.uid in holds and _waits_for_others(job)
        }

    def carried(job: JobInfo) -> JobInfo:
        time = times.get(job.uid, job.eligible_time)
        plan = job.plan
        if result is not None and job.uid in known:
            plan = result.planned.get(job.uid)
        last = before.now if job.uid in broken else job.last_evicted
        if plan == job.plan and time == job.eligible_time and last == job.last_evicted:
            return job
        return evolve(job, plan=plan, eligible_time=time, last_evicted=last)

    return [carried(job) for job in jobs]


def _waits_for_others(job: JobInfo) -> bool:
    return bool(job.depends_on) and job.eligible_time is None


def _eligible(jobs: Sequence[JobInfo]) -> set[str]:
    """Return the UIDs of the jobs whose dependencies hold among these jobs. O(jobs)."""
    return {job.uid for job in jobs if _waits_for_others(job)}.difference(unmet_dependencies(jobs))


def set_eligible_times(
    content: Content, uids: Iterable[str] | None = None, *, time: float | None = None
) -> None:
    """Set the eligible times of jobs whose dependencies hold.

    O(dependencies of the jobs).

    Args:
        content: the tables.
        uids: the jobs that are not known to be eligible; None: all of them.
        time: the eligible time; None: the creation time of each job, as of those that came so.

    """
    waiting = list(content.dependent) if uids is None else list(uids)
    unmet = content.unmet(waiting)
    for uid in waiting:
        if uid not in unmet:
            job = content.jobs[uid]
            at = job.creation_time if time is None else time
            content.put("jobs", uid, evolve(job, eligible_time=at))


def keep_plans(content: Content, planned: Mapping[str, Plan]) -> None:
    """Replace the plans of all jobs by those of the last cycle. O(plans)."""
    for uid in {**content.planned, **dict.fromkeys(planned)}:
        job = content.jobs.get(uid)
        if job is not None and job.plan != planned.get(uid):
            content.put("jobs", uid, evolve(job, plan=planned.get(uid)))
