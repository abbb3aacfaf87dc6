"""Which jobs may be scheduled by what they depend on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from attrs import frozen

from batchsched.model.cluster import JobInfo
from batchsched.model.groups import can_start_with
from batchsched.model.status import TaskStatus
from batchsched.model.timing import Dependency, JobEvent

__all__ = ["Unmet", "unmet_dependencies"]

_ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


@frozen
class Unmet:
    """The dependencies of a job that do not hold."""

    dependencies: tuple[Dependency, ...]
    """Those that do not hold now."""
    never: tuple[Dependency, ...]
    """Those among them that cannot hold any more, as things stand."""

    @property
    def text(self) -> str:
        """What the job waits for, in words."""
        shown = ", ".join(f"{d.job} ({d.on.value})" for d in self.never or self.dependencies)
        return f"cannot hold any more: {shown}" if self.never else f"waits for {shown}"


def unmet_dependencies(jobs: Iterable[JobInfo], /) -> Mapping[str, Unmet]:
    """Return the jobs that are not eligible, by UID, and what they wait for.

    A job is eligible once all that it depends on holds. An `eligible_time` says that this was
    so once, which is enough: jobs that others depended on may be removed when they have ended.
    What a job depends on cannot hold any more if the other job ended otherwise, or cannot
    become eligible itself. O(dependencies + tasks of the jobs that others depend on), and
    O(jobs).

    >>> from batchsched import JobEvent
    >>> after = Dependency(job="default/a", on=JobEvent.SUCCEEDED)
    >>> jobs = [JobInfo(name="a", queue="q"), JobInfo(name="b", queue="q", depends_on=[after])]
    >>> unmet_dependencies(jobs)["default/b"].text
    'waits for default/a (succeeded)'
    """
    jobs = list(jobs)
    waiting = [job for job in jobs if job.depends_on and job.eligible_time is None]
    if not waiting:
        return {}
    known = {job.uid: job for job in jobs}
    standings: dict[str, _Standing] = {}
    open_dependencies: dict[str, list[Dependency]] = {}
    never: dict[str, list[Dependency]] = {}
    for job in waiting:
        for dependency in job.depends_on:
            other = known.get(dependency.job)
            standing: _Standing | None = None
            if other is not None:
                standing = standings.get(other.uid)
                if standing is None:
                    standing = standings[other.uid] = _standing_of(other)
            if _holds(dependency, standing):
                continue
            open_dependencies.setdefault(job.uid, []).append(dependency)
            if standing is not None and standing.has_ended:
                never.setdefault(job.uid, []).append(dependency)
    _spread(open_dependencies, never, standings)
    return {
        uid: Unmet(tuple(found), tuple(never.get(uid, ())))
        for uid, found in open_dependencies.items()
    }


@frozen
class _Standing:
    """How far a job has come that others depend on."""

    has_started: bool
    has_ended: bool
    has_succeeded: bool


def _standing_of(job: JobInfo) -> _Standing:
    ready = sum(task.status.ready for task in job.tasks)
    succeeded = sum(task.status is TaskStatus.SUCCEEDED for task in job.tasks)
    has_ended = bool(job.tasks) and all(task.status in _ENDED for task in job.tasks)
    return _Standing(
        has_started=has_ended
        or (ready > 0 and _is_enough(job, ready, lambda status: bool(status.ready))),
        has_ended=has_ended,
        has_succeeded=has_ended
        and _is_enough(job, succeeded, lambda status: status is TaskStatus.SUCCEEDED),
    )


def _is_enough(job: JobInfo, count: int, counts: Callable[[TaskStatus], bool]) -> bool:
    """Return whether the tasks whose statuses count, `count` of them, are what a job needs."""
    if count < job.min_available or not job.groups:
        return count >= job.min_available
    there = Counter(task.group for task in job.tasks if counts(task.status))
    return can_start_with(job.groups, job.min_groups, there)


def _holds(dependency: Dependency, standing: _Standing | None) -> bool:
    if standing is None:
        return dependency.satisfied_if_missing and dependency.on is not JobEvent.FAILED
    match dependency.on:
        case JobEvent.STARTED:
            return standing.has_started
        case JobEvent.SUCCEEDED:
            return standing.has_succeeded
        case JobEvent.ENDED:
            return standing.has_ended
        case JobEvent.FAILED:
            return standing.has_ended and not standing.has_succeeded


def _spread(
    open_dependencies: Mapping[str, list[Dependency]],
    never: dict[str, list[Dependency]],
    standings: Mapping[str, _Standing],
) -> None:
    """Let what can never be eligible, and has not started either, hold up what waits for it."""
    dependents: dict[str, list[tuple[str, Dependency]]] = {}
    for uid, found in open_dependencies.items():
        for dependency in found:
            dependents.setdefault(dependency.job, []).append((uid, dependency))
    to_tell = sorted(never)
    while to_tell:
        uid = to_tell.pop()
        standing = standings.get(uid)
        if standing is not None and standing.has_started:
            continue
        for dependent, dependency in dependents.get(uid, ()):
            if dependent not in never:
                to_tell.append(dependent)
            if dependency not in never.setdefault(dependent, []):
                never[dependent].append(dependency)
