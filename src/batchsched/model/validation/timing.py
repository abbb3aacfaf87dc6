"""Validation of times, dependencies and plans of jobs and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchsched.errors import Fault
from batchsched.model.cluster import JobInfo, TaskInfo
from batchsched.model.timing import Dependency, JobEvent, Plan
from batchsched.model.validation.values import (
    LARGEST,
    Problems,
    each_problems,
    is_text,
    is_tuple,
    member_problems,
    shown,
    text_map_problems,
    text_problems,
    time_problems,
    truth_problems,
    under,
)

__all__ = [
    "dependency_cycle_faults",
    "has_sound_times",
    "job_timing_problems",
    "plan_problems",
    "task_time_problems",
]

_NUMBERS = (int, float)


def has_sound_times(task: TaskInfo) -> bool:
    """Return True only if the times of a task are valid and of the usual types. A fast test."""
    start_time, estimate, attained = task.start_time, task.estimate, task.attained_service
    return (
        (start_time is None or (type(start_time) in _NUMBERS and -LARGEST <= start_time <= LARGEST))
        and (estimate is None or (type(estimate) in _NUMBERS and 0 <= estimate <= LARGEST))
        and type(attained) in _NUMBERS
        and 0 <= attained <= LARGEST
    )


def task_time_problems(task: TaskInfo) -> Problems:
    """Yield the problems of the times of a task."""
    if task.start_time is not None:
        yield from time_problems("start_time", task.start_time)
    if task.estimate is not None:
        yield from _duration_problems("estimate", task.estimate)
    yield from _duration_problems("attained_service", task.attained_service)


def job_timing_problems(job: JobInfo) -> Problems:
    """Yield the problems of a job's labels, user, times, dependencies and plan."""
    yield from text_map_problems("labels", job.labels)
    yield from text_problems("user", job.user, may_be_empty=True)
    for path, duration in (("estimate", job.estimate), ("max_wait", job.max_wait)):
        if duration is not None:
            yield from _duration_problems(path, duration)
    for path, time in (("deadline", job.deadline), ("eligible_time", job.eligible_time)):
        if time is not None:
            yield from time_problems(path, time)
    yield from each_problems("depends_on", job.depends_on, "Dependency", _dependency_problems)
    if job.plan is not None:
        yield from under("plan", plan_problems(job.plan))


def dependency_cycle_faults(jobs: Sequence[JobInfo]) -> list[Fault]:
    """Return a fault for each cycle of dependencies.

    O(jobs + dependencies). Invalid dependencies are skipped; they are reported elsewhere.
    """
    waits_for: dict[str, list[str]] = {}
    for job in jobs:
        given: object = job.depends_on
        if is_tuple(given) and given:
            waits_for[job.uid] = sorted(
                {d.job for d in given if isinstance(d, Dependency) and is_text(d.job)}
            )
    if not waits_for:
        return []
    faults: list[Fault] = []
    done: set[str] = set()
    for uid in sorted(waits_for):
        for cycle in _cycles_from(uid, waits_for, done):
            first = cycle.index(min(cycle))
            chain = " -> ".join(repr(name) for name in [*cycle[first:], *cycle[:first], min(cycle)])
            message = f"expected dependencies without a cycle, got {chain}"
            faults.append(Fault(f"jobs[{min(cycle)!r}].depends_on", message))
    return faults


def _cycles_from(
    uid: str, waits_for: Mapping[str, Sequence[str]], done: set[str]
) -> list[list[str]]:
    """Return the cycles found by a depth-first search from a job; each job is visited once."""
    cycles: list[list[str]] = []
    if uid in done:
        return cycles
    path = [uid]
    position_of = {uid: 0}
    stack = [iter(waits_for.get(uid, ()))]
    done.add(uid)
    while stack:
        following = next(stack[-1], None)
        if following is None:
            stack.pop()
            del position_of[path.pop()]
        elif following in position_of:
            cycles.append(path[position_of[following] :])
        elif following not in done:
            done.add(following)
            position_of[following] = len(path)
            path.append(following)
            stack.append(iter(waits_for.get(following, ())))
    return cycles


def _duration_problems(path: str, duration: object) -> Problems:
    if (
        not isinstance(duration, (int, float))
        or isinstance(duration, bool)
        or not 0 <= duration <= LARGEST
    ):
        yield path, f"expected a finite number of seconds, 0 or more, got {shown(duration)}"


def _dependency_problems(dependency: object) -> Problems:
    if not isinstance(dependency, Dependency):
        yield "", f"expected a Dependency, got {shown(dependency)}"
        return
    yield from text_problems("job", dependency.job)
    yield from member_problems("on", dependency.on, JobEvent)
    yield from truth_problems("satisfied_if_missing", dependency.satisfied_if_missing)


def plan_problems(plan: object) -> Problems:
    """Yield the problems of a plan."""
    if not isinstance(plan, Plan):
        yield "", f"expected a Plan or None, got {shown(plan)}"
        return
    yield from time_problems("start", plan.start)
    yield from text_map_problems("nodes", plan.nodes)
