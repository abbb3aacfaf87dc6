"""Snapshots without times, to compare states of a cluster."""

from __future__ import annotations

from attrs import evolve

from batchsched.model.cluster import JobInfo, Queue, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.snapshot import Snapshot

__all__ = ["without_times"]


def without_times(snapshot: Snapshot, /) -> Snapshot:
    """Return a snapshot at the time 0 in which nothing was started, attained or used.

    Two states of a cluster that differ only in these are the same for a check for loops,
    because each run of a task starts at another time, and adds to what was attained.
    O(jobs), and a copy of what is changed.

    >>> from batchsched import JobInfo, Queue
    >>> job = JobInfo(name="j", queue="q", eligible_time=5)
    >>> early, late = (Snapshot(queues=[Queue(name="q")], jobs=[job], now=now) for now in (7, 8))
    >>> early == late, without_times(early) == without_times(late)
    (False, True)
    """
    return evolve(
        snapshot,
        now=0.0,
        jobs=[_job(job) for job in snapshot.jobs],
        queues=[_queue(queue) for queue in snapshot.queues],
        other_tasks=[_task(task) for task in snapshot.other_tasks],
    )


def _queue(queue: Queue) -> Queue:
    if not queue.usage_half_life:
        return queue
    return evolve(queue, usage=Resource(), usage_by_user={})


def _job(job: JobInfo) -> JobInfo:
    return evolve(job, tasks=[_task(task) for task in job.tasks], plan=None)


def _task(task: TaskInfo) -> TaskInfo:
    if task.start_time is None and not task.attained_service:
        return task
    return evolve(task, start_time=None, attained_service=0.0)
