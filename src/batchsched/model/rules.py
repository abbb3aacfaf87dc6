"""Rules on descriptions alone: which nodes accept a task, and which jobs are eligible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from batchsched.causes import UnfitReason
from batchsched.model.cluster import (
    Dependency,
    JobEvent,
    JobInfo,
    NodeInfo,
    Queue,
    TaskInfo,
    TaskStatus,
    can_start_with,
)
from batchsched.model.constraints import untolerated
from batchsched.model.resources import Resource, exact

_NOTHING = Resource()


def out_of_service(node: NodeInfo) -> UnfitReason | None:
    """Return why a node accepts no tasks at all at present; None: it is in service."""
    if node.conditions.get("Ready", "True") != "True":
        return UnfitReason.NODE_NOT_READY
    if node.conditions.get("NetworkUnavailable", "False") != "False":
        return UnfitReason.NETWORK_UNAVAILABLE
    return UnfitReason.NODE_UNSCHEDULABLE if node.unschedulable else None


def has_what_is_selected(node: NodeInfo, task: TaskInfo) -> bool:
    """Return whether a node has what a task's selector and node affinity require."""
    labels = node.labels
    for key, value in task.node_selector.items():
        if labels.get(key) != value:
            return False
    affinity = task.node_affinity
    return affinity is None or affinity.accepts(labels, node.name)


def tolerates(task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether a task tolerates the NoSchedule and NoExecute taints of a node."""
    return not node.taints or untolerated(node.taints, task.tolerations) is None


def accepts_by_description(node: NodeInfo, task: TaskInfo) -> bool:
    """Return whether the labels and taints of a node accept a task."""
    return has_what_is_selected(node, task) and tolerates(task, node)


def quota_for_good(queue: Queue, dimension: str) -> int | None:
    """Return how much a queue may hold of a resource for jobs that are not preemptible.

    That is what it deserves; None: it does not say, or it is all that its parent has.
    """
    deserved = queue.deserved
    if deserved is None or deserved == _NOTHING:
        return None
    most = deserved.get(dimension)
    return None if most is None else exact(most)


def quota_not_reclaimed(queue: Queue, dimension: str) -> int | None:
    """Return how much a queue may hold of a resource if nothing is reclaimed from it.

    That is what it deserves or is guaranteed, whichever is more; None: it says neither, or it
    deserves all that its parent has.

    >>> queue = Queue(name="a", guarantee=Resource(milli_cpu=2000))
    >>> quota_not_reclaimed(queue, "cpu"), quota_not_reclaimed(queue, "memory")
    (2000, None)
    """
    guaranteed = exact(queue.guarantee.get(dimension))
    if queue.deserved == _NOTHING:
        return guaranteed or None
    deserved = quota_for_good(queue, dimension)
    return None if deserved is None else max(deserved, guaranteed)


class Unmet(NamedTuple):
    """The unmet dependencies of a job."""

    dependencies: tuple[Dependency, ...]
    """All that do not hold now."""
    never: tuple[Dependency, ...]
    """Those that can no longer hold in the present state."""

    @property
    def text(self) -> str:
        """A description of what the job waits for."""
        shown = ", ".join(f"{d.job} ({d.on.value})" for d in self.never or self.dependencies)
        return f"can no longer hold: {shown}" if self.never else f"waits for {shown}"


def unmet_dependencies(jobs: Iterable[JobInfo], /) -> Mapping[str, Unmet]:
    """Return the jobs that are not eligible, by UID, with their unmet dependencies.

    A job is eligible once all its dependencies hold. A job with an `eligible_time` has been
    eligible before and stays so: the jobs that it depended on may be removed when they have
    ended. A dependency can no longer hold if the other job ended differently, or can never
    become eligible. O(jobs + dependencies + tasks of the jobs that others depend on).

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
    events_of: dict[str, frozenset[JobEvent]] = {}
    open_dependencies: dict[str, list[Dependency]] = {}
    never: dict[str, list[Dependency]] = {}
    for job in waiting:
        for dependency in job.depends_on:
            other = known.get(dependency.job)
            events: frozenset[JobEvent] | None = None
            if other is not None:
                events = events_of.get(other.uid)
                if events is None:
                    events = events_of[other.uid] = _events_of(other)
            if _holds(dependency, events):
                continue
            open_dependencies.setdefault(job.uid, []).append(dependency)
            if events is not None and JobEvent.ENDED in events:
                never.setdefault(job.uid, []).append(dependency)
    _propagate_never(open_dependencies, never, events_of)
    return {
        uid: Unmet(tuple(found), tuple(never.get(uid, ())))
        for uid, found in open_dependencies.items()
    }


def _events_of(job: JobInfo) -> frozenset[JobEvent]:
    """Return what has occurred to a job that others depend on."""
    has_ended = bool(job.tasks) and all(task.status.ended for task in job.tasks)
    if not has_ended:
        ready = sum(task.status.ready for task in job.tasks)
        has_started = ready and _is_enough(job, ready, lambda status: bool(status.ready))
        return frozenset([JobEvent.STARTED] if has_started else ())
    succeeded = sum(task.status is TaskStatus.SUCCEEDED for task in job.tasks)
    is_success = _is_enough(job, succeeded, lambda status: status is TaskStatus.SUCCEEDED)
    end = JobEvent.SUCCEEDED if is_success else JobEvent.FAILED
    return frozenset([JobEvent.STARTED, JobEvent.ENDED, end])


def would_keep_minimum(job: JobInfo, gone: Collection[str]) -> bool:
    """Return whether tasks of a job that count towards its minima meet them without some others.

    Args:
        job: the job, whose groups are valid.
        gone: the UIDs of the tasks that leave.

    """
    there = [task for task in job.tasks if task.status.ready and task.uid not in gone]
    if len(there) < job.min_available or not job.groups:
        return len(there) >= job.min_available
    return can_start_with(job.groups, job.min_groups, Counter(task.group for task in there))


def _is_enough(job: JobInfo, count: int, counts: Callable[[TaskStatus], bool]) -> bool:
    """Return whether `count` tasks, those whose status counts, meet the minima of a job."""
    if count < job.min_available or not job.groups:
        return count >= job.min_available
    there = Counter(task.group for task in job.tasks if counts(task.status))
    return can_start_with(job.groups, job.min_groups, there)


def _holds(dependency: Dependency, events: Collection[JobEvent] | None) -> bool:
    """Return whether a dependency holds, given what occurred to the other job; None: it is gone."""
    if events is None:
        return dependency.satisfied_if_missing and dependency.on is not JobEvent.FAILED
    return dependency.on in events


def _propagate_never(
    open_dependencies: Mapping[str, list[Dependency]],
    never: dict[str, list[Dependency]],
    events_of: Mapping[str, Collection[JobEvent]],
) -> None:
    """Add to `never` the dependencies on jobs that can never be eligible and have not started."""
    dependents: dict[str, list[tuple[str, Dependency]]] = {}
    for uid, found in open_dependencies.items():
        for dependency in found:
            dependents.setdefault(dependency.job, []).append((uid, dependency))
    to_visit = sorted(never)
    while to_visit:
        uid = to_visit.pop()
        if JobEvent.STARTED in events_of.get(uid, ()):
            continue
        for dependent, dependency in dependents.get(uid, ()):
            if dependent not in never:
                to_visit.append(dependent)
            if dependency not in never.setdefault(dependent, []):
                never[dependent].append(dependency)
