"""Which of the tasks that were seen of a job can be in it, as they were seen.

Objects are seen in any order, so the tasks of a job need not agree with it, nor with one another: a
task names a group that the job does not have yet, a replacement has the number of a task that is
still leaving, and of the last segment only half was seen. What contradicts the job waits: it has no
place in a snapshot, where a job and its tasks agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from batchsched.model.cluster import JobInfo, TaskInfo, TaskStatus, children_of
from batchsched.model.topology import Segment


def has_numbers(job: JobInfo) -> bool:
    """Return whether the tasks of a job have places beside one another in segments. O(groups)."""
    asked = (job.topology, *(group.topology for group in job.groups))
    return any(each is not None and each.segments for each in asked)


def members_of(job: JobInfo, tasks: Iterable[TaskInfo]) -> Mapping[str, TaskInfo]:
    """Return the tasks that can be in a job, by UID, as they are there. O(n log n).

    A task that has ended or is leaving gives its number to one that stays. Of two that stay, the
    first on a node has it, or the older. Where segments are nested, only whole ones of the widest
    kind are there, and tasks on nodes before others.
    """
    children = children_of(job.groups)
    leaves: set[str | None] = {each.name for each in job.groups if each.name not in children}
    leaves = leaves or {None}
    by_group: dict[str | None, list[TaskInfo]] = {}
    for task in tasks:
        if task.group in leaves:
            by_group.setdefault(task.group, []).append(task)
    found: dict[str, TaskInfo] = {}
    for name, of_group in by_group.items():
        asked = _segments_of(job, name)
        fitting = _numbered_once(of_group) if any(asked) else of_group
        sizes = [segments[0].size for segments in asked if len(segments) > 1]
        count = len(fitting)
        while any(count % size for size in sizes):
            count -= 1
        if count < len(fitting):
            fitting = sorted(fitting, key=_is_kept_first)[:count]
        found.update((task.uid, task) for task in fitting)
    return found


def _segments_of(job: JobInfo, group: str | None) -> list[tuple[Segment, ...]]:
    """Return the segments that a job and one of its groups ask for."""
    asked = (job.topology, *(each.topology for each in job.groups if each.name == group))
    return [each.segments for each in asked if each is not None]


def _numbered_once(tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    fitting: list[TaskInfo] = []
    taken: set[int] = set()
    for task in sorted(tasks, key=_stays_first):
        if task.index not in taken:
            fitting.append(task)
            if task.index is not None:
                taken.add(task.index)
        elif not _stays(task):
            fitting.append(evolve(task, index=None))
    return fitting


def _stays(task: TaskInfo) -> bool:
    return not task.status.ended and task.status is not TaskStatus.RELEASING


def _stays_first(task: TaskInfo) -> tuple[bool, bool, float, str]:
    return not _stays(task), not task.status.holds, task.creation_time, task.uid


def _is_kept_first(task: TaskInfo) -> tuple[bool, bool, int, str]:
    index = -1 if task.index is None else task.index
    return not _stays(task), not task.status.holds, index, task.uid
