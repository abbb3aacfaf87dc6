"""Build jobs with their tasks from drawn bytes."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.model.cluster import Dependency, JobEvent, JobInfo
from batchsched.testing.drafts.features import AGES, HIGHEST, USERS, Features, now_of
from batchsched.testing.drafts.groups import grouped
from batchsched.testing.drafts.rooms import Rooms
from batchsched.testing.drafts.shapes import SIMPLE, Shape
from batchsched.testing.drafts.tasks import ESTIMATES, RUNS, WAITS, TaskDraft, build_task

__all__ = ["JobDraft", "build_job"]

JobDraft = tuple[bytes, list[TaskDraft]]
"""Trait and state, shape and queue, priority and gang, wait and estimate, groups; its tasks."""

_RUNNING_JOBS = range(6, 12)
_BACKFILL_JOBS = range(10, 12)
"""States of jobs whose tasks are all running, and all marked as backfill."""
_LARGE_JOBS = range(3, 6)
_SMALL_JOBS = range(6, 9)
"""States of jobs that wait with the largest tasks, and of jobs that run with the smallest.

With tasks of equal size, two victims for one claimant would never be necessary.
"""
_SMALL_GANG = 6
_NO_GANG = (HIGHEST - 2, HIGHEST - 1)
_WAITS_FOR = (None, 30.0, 120.0)
_DEADLINES_IN = (None, 15.0, 60.0, -5.0)
_EVENTS = tuple(JobEvent)


def build_job(
    draft: JobDraft,
    name: str,
    features: Features,
    *,
    queues: Sequence[str],
    shapes: Sequence[Shape] = (SIMPLE,),
    rooms: Rooms | None = None,
    earlier: Sequence[JobInfo] = (),
) -> JobInfo:
    """Return the job that a draft describes; it may depend on an earlier one."""
    own, tasks = draft
    trait, state = divmod(own[0], 16)
    shape, queue = divmod(own[1], 16)
    priority, gang = divmod(own[2], 16)
    wait, estimate = divmod(own[3], 16)
    namespace = "default"
    if features.critical and trait % 8 == 7:
        namespace = "kube-system"
    elif features.affinity and trait % 4 == 2:
        namespace = "team"
    if state in _LARGE_JOBS:
        shapes = [max(shapes, key=_cpu)]
    elif state in _SMALL_JOBS:
        shapes = [min(shapes, key=_cpu)]
    queue_name = queues[queue % len(queues)]
    if features.unknown_queues and queue == HIGHEST:
        queue_name = "unknown"
    job = JobInfo(
        name=name,
        namespace=namespace,
        queue=queue_name,
        min_available=_min_available(gang, len(tasks), features),
        priority=priority % 3 if features.priorities else 0,
        creation_time=AGES[trait % len(AGES)] if features.ages else 0.0,
        tasks=[
            build_task(
                _in_state(task, state),
                f"{name}-{number}",
                features,
                shapes=shapes,
                job_shape=shape,
                namespace=namespace,
                rooms=rooms,
                is_backfill=state in _BACKFILL_JOBS,
            )
            for number, task in enumerate(tasks, start=1)
        ],
        user=USERS[wait % len(USERS)] if features.durations else "",
        estimate=ESTIMATES[estimate % len(ESTIMATES)] if features.durations else None,
        max_wait=_WAITS_FOR[wait % len(_WAITS_FOR)] if features.durations else None,
        deadline=_deadline(wait, features),
        depends_on=_depends_on(wait, estimate, earlier) if features.dependencies else (),
    )
    return grouped(job, own[4], may_be_invalid=features.invalid_jobs) if features.groups else job


def _deadline(wait: int, features: Features) -> float | None:
    left = _DEADLINES_IN[wait % len(_DEADLINES_IN)] if features.durations else None
    return None if left is None else now_of(features) + left


def _depends_on(wait: int, estimate: int, earlier: Sequence[JobInfo]) -> tuple[Dependency, ...]:
    if wait % 5 != 1:
        return ()
    on = _EVENTS[estimate % len(_EVENTS)]
    if not earlier or wait == HIGHEST:
        return (Dependency(job="default/gone", on=on, satisfied_if_missing=wait % 2 == 0),)
    return (Dependency(job=earlier[estimate % len(earlier)].uid, on=on),)


def _cpu(shape: Shape) -> float:
    return shape.resreq.milli_cpu


def _min_available(gang: int, tasks: int, features: Features) -> int:
    if not features.gangs:
        return 1
    if gang == HIGHEST:
        return tasks + 1 if features.invalid_jobs else tasks
    if gang in _NO_GANG:
        return 0
    return 1 if gang < _SMALL_GANG else 1 + gang % max(tasks, 1)


def _in_state(task: TaskDraft, state: int) -> TaskDraft:
    """Make the tasks of most jobs equal: all waiting, or all running."""
    which, own_state = divmod(task[0], 16)
    if state in range(1, 6):
        own_state = WAITS
    elif state in _RUNNING_JOBS:
        own_state = RUNS
    return bytes((16 * which + own_state, task[1]))
