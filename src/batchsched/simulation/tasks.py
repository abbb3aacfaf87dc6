"""The tasks of a job, in the order in which they are counted: those that it needs come first."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from batchsched.model.cluster import JobInfo, TaskInfo, TaskStatus, can_start_with
from batchsched.state.groups import JobGroups
from batchsched.state.needs import TasksByGroup, needed_tasks
from batchsched.state.records import TaskState

CPU = 1000
"""A processor, in thousandths of a cpu."""


@frozen
class OrderedTasks:
    """The tasks of a job in the order in which they are counted."""

    infos: tuple[TaskInfo, ...]
    need: int
    """How many it needs to run: the first ones."""
    most: int
    """The most that may run."""
    number: int = 0
    """A number that all equal jobs of a workload share."""

    @property
    def processors(self) -> int:
        """The whole cpus of what it needs, rounded up; at least 1."""
        milli_cpu = sum(task.resreq.milli_cpu for task in self.infos[: self.need])
        return max(1, int(-(-milli_cpu // CPU)))


def ordered_tasks(info: JobInfo, number: int = 0) -> OrderedTasks:
    """Return the tasks of a valid job, in the order in which they are counted. O(n log n).

    The more important first, then by UID; with groups in the order in which they would start: the
    groups that it pursues, and then one task, or the rest of a group, after the other.
    """
    listed = sorted(info.tasks, key=lambda task: (-task.priority, task.creation_time, task.uid))
    most = len(listed) if info.max_available is None else min(info.max_available, len(listed))
    if not info.groups:
        return OrderedTasks(tuple(listed), max(1, info.min_available), most, number)
    groups = JobGroups(info)
    states = [TaskState(task, None, (0, 0), (0, 0)) for task in listed]
    for state in states:
        groups.recount(state, None, state.status)
    chosen: list[TaskInfo] = []
    need = 0
    while True:
        left = [state for state in states if state.status is TaskStatus.PENDING]
        following = needed_tasks(groups, TasksByGroup(groups, left))
        if not following:
            break
        for state in following:
            state.status = TaskStatus.ALLOCATED
            groups.recount(state, TaskStatus.PENDING, TaskStatus.ALLOCATED)
            chosen.append(state.info)
        need = need or len(chosen)
    return OrderedTasks(tuple(chosen), max(1, need), len(chosen), number)


def is_enough(info: JobInfo, uids: Iterable[str]) -> bool:
    """Return whether some of a job's tasks are all that it needs. O(tasks + groups)."""
    counts: dict[str | None, int] = {}
    there = set(uids)
    for task in info.tasks:
        if task.uid in there:
            counts[task.group] = counts.get(task.group, 0) + 1
    if len(there) < max(1, info.min_available):
        return False
    return not info.groups or can_start_with(info.groups, info.min_groups, counts)
