"""Updates the eligible times and plans of jobs between cycles."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from attrs import evolve

from batchsched.model.cluster import JobInfo, Plan
from batchsched.model.result import CycleResult
from batchsched.model.rules import unmet_dependencies
from batchsched.model.snapshot import Snapshot
from batchsched.transition.content import Content

__all__ = ["carried_over", "keep_plans", "set_eligible_times"]


def carried_over(
    jobs: Sequence[JobInfo], before: Snapshot, result: CycleResult | None, *, now: float
) -> Sequence[JobInfo]:
    """Return jobs, whose tasks are up to date, with their new eligible times and plans.

    Without a result, plans do not change. O(jobs).
    """
    times = _eligible_times(jobs, before, now)
    known = None if result is None else {job.uid for job in before.jobs}
    changed: list[JobInfo] | None = None
    for position, job in enumerate(jobs):
        plan = job.plan
        if result is not None and known is not None and job.uid in known:
            plan = result.planned.get(job.uid)
        eligible_time = times.get(job.uid, job.eligible_time)
        if plan != job.plan or eligible_time != job.eligible_time:
            if changed is None:
                changed = list(jobs)
            changed[position] = evolve(job, plan=plan, eligible_time=eligible_time)
    return jobs if changed is None else changed


def _eligible_times(jobs: Sequence[JobInfo], before: Snapshot, now: float) -> dict[str, float]:
    """Return the eligible times of jobs whose dependencies hold for the first time.

    It is `now` if they did not hold before, and otherwise the job's creation time, as for a job
    that has just arrived.
    """
    waiting = [job for job in jobs if job.depends_on and job.eligible_time is None]
    if not waiting:
        return {}
    unmet_now, unmet_before = unmet_dependencies(jobs), unmet_dependencies(before.jobs)
    return {
        job.uid: now if job.uid in unmet_before else job.creation_time
        for job in waiting
        if job.uid not in unmet_now
    }


def set_eligible_times(content: Content, unmet_before: Container[str]) -> None:
    """Set the eligible times of jobs whose dependencies hold now; see `_eligible_times`.

    O(dependencies of jobs that are not known to be eligible).
    """
    unmet_now = content.unmet()
    for uid in list(content.dependent):
        if uid not in unmet_now:
            job = content.jobs[uid]
            time = content.now if uid in unmet_before else job.creation_time
            content.put("jobs", uid, evolve(job, eligible_time=time))


def keep_plans(content: Content, planned: Mapping[str, Plan]) -> None:
    """Replace the plans of all jobs by those of the last cycle. O(plans)."""
    for uid in {**content.planned, **dict.fromkeys(planned)}:
        job = content.jobs.get(uid)
        if job is not None and job.plan != planned.get(uid):
            content.put("jobs", uid, evolve(job, plan=planned.get(uid)))
