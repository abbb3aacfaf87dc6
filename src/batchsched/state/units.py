"""Eviction units: tasks of a job that are evicted together or not at all.

A job that needs several tasks at once is useless without any of them. So its minimum number of
tasks is one unit, its core; each further task is a separate unit.

A job that has lost tasks of its minimum is broken: what is left of it is one unit, which is more
valuable than other cores, so that it is completed rather than evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from batchsched.model.cluster import TaskStatus
from batchsched.state.groups import Counting, GroupState, JobGroups
from batchsched.state.records import JobState, SortKey, TaskState
from batchsched.state.vectors import Vector, total_of

_BROKEN, _CORE, _REPLICA, _SURPLUS = range(4)
_KINDS = ("broken core", "core", "replica", "surplus")


class EvictionUnit:
    """Tasks of a job, on any nodes, that are evicted together or not at all."""

    __slots__ = (
        *("group", "is_backfill", "is_broken", "is_core", "is_fixed", "is_surplus", "is_whole"),
        *("_size_of_victims", "job", "order", "size", "tasks", "value", "victims"),
    )

    def __init__(
        self,
        job: JobState,
        tasks: Sequence[TaskState],
        victims: Sequence[TaskState],
        value: tuple[int, SortKey],
    ) -> None:
        self.job = job
        self.tasks = tasks
        """Its own tasks, all of which occupy nodes."""
        self.victims = victims
        """The tasks that are evicted with it: for a core, all tasks of the job; for a replica, all
        tasks of the replica."""
        self.value = value
        """The smallest is the most valuable: cores of broken jobs, then other cores, then replicas,
        then surplus; then by task."""
        self.order: tuple[int, int, SortKey] = (1, *value)
        """The same, but units that nobody may evict come before all others: value order."""
        self.group: GroupState | None = None
        """For a replica, its group."""
        self.is_fixed = False
        """Whether nobody may evict it."""
        self.is_broken = value[0] == _BROKEN
        """Whether it is all that a broken job has on nodes; see `JobState.is_broken`."""
        self.is_core = value[0] <= _CORE
        """Whether the job needs it, so that all tasks of the job are evicted with it."""
        self.is_surplus = value[0] == _SURPLUS
        """Whether it is a single task on which nothing else depends."""
        self.is_whole = all(
            task.status is TaskStatus.RUNNING or task.may_be_reclaimed for task in victims
        )
        """Whether all of its victims may leave, for other queues, too."""
        self.is_backfill = any(task.is_backfill for task in tasks)
        """Whether it has backfill tasks."""
        self.size = _charged(tasks)
        """What is charged to the queue for its tasks."""
        self._size_of_victims: Vector | None = self.size if victims is tasks else None

    @property
    def size_of_victims(self) -> Vector:
        """What is charged to the queue for all that is evicted with it. Computed once."""
        if self._size_of_victims is None:
            self._size_of_victims = _charged(self.victims)
        return self._size_of_victims

    def takes_along(self, other: EvictionUnit) -> bool:
        """Return whether evicting it evicts another unit too, if that is still there."""
        if self.job is not other.job:
            return False
        if self.is_core:
            return True
        groups = self.job.groups
        if self.group is None or groups is None:
            return False
        return all(self.group in groups.leaf_of(task).path() for task in other.victims)

    def fix(self) -> None:
        """Record that nobody may evict it."""
        self.is_fixed = True
        self.order = (0, *self.value)

    def __repr__(self) -> str:
        tasks = ", ".join(task.uid for task in self.tasks)
        return f"<{_KINDS[self.value[0]]} of {self.job.uid}: {tasks}>"


def _charged(tasks: Sequence[TaskState]) -> Vector:
    charged = [task.resreq for task in tasks if not task.is_backfill]
    return charged[0] if len(charged) == 1 else total_of(charged, (0,) * len(tasks[0].resreq))


def units_of(
    job: JobState,
    task_order_key: Callable[[TaskState], SortKey],
    /,
    *,
    but: TaskStatus | None = None,
) -> list[EvictionUnit]:
    """Return the units of a job, the most valuable first. O(tasks log tasks).

    The core is the first tasks in task order that occupy nodes, as many as the minimum less the
    succeeded tasks; for a job that is not ready, or is evicted as a whole, all of them. In a job
    with groups, the core is the minima of the groups that it needs. Each further complete group is
    a unit too, a replica, and each task that no group needs is a separate unit. `but`: tasks of
    this status do not count.
    """
    there = [task for task in job.tasks if task.status.occupies and task.status is not but]
    if not there:
        return []
    if len(there) > 1:
        there.sort(key=task_order_key)
    if job.groups is not None:
        return _units_by_group(job, job.groups, there, task_order_key)
    needed = job.min_available - job.count(TaskStatus.SUCCEEDED)
    if job.info.evict_whole:
        needed = len(there)
    units: list[EvictionUnit] = []
    core, surplus = there[: max(0, needed)], there[max(0, needed) :]
    if core:
        kind = _BROKEN if job.is_broken else _CORE
        units.append(EvictionUnit(job, core, there, (kind, task_order_key(core[0]))))
    units += [EvictionUnit(job, (t,), (t,), (_SURPLUS, task_order_key(t))) for t in surplus]
    return units


def unit_once_placed(
    job: JobState,
    tasks: Sequence[TaskState],
    task_order_key: Callable[[TaskState], SortKey],
    /,
) -> EvictionUnit:
    """Return the unit that waiting tasks of a job would be, or be in, once they are placed.

    For a job that is not ready that is its core, with all that it has and is promised; for a ready
    one it is a replica, with what is there of it, or else a surplus task.

    Args:
        job: the job.
        tasks: what it needs next, Pending.
        task_order_key: ranks tasks; the task with the smallest key is the most valuable.

    """
    group = None
    if job.groups is not None:
        group = job.groups.leaf_of(tasks[0]).entered(Counting.HOPED)
    there = [t for t in job.tasks if t.status.occupies or t.status is TaskStatus.PIPELINED]
    if not job.has_minimum():
        kind = _BROKEN if job.is_broken else _CORE
    elif job.groups is not None and group is not None:
        leaves = set(group.leaves())
        there = [task for task in there if job.groups.leaf_of(task) in leaves]
        kind = _REPLICA
    else:
        there, kind = [], _SURPLUS
    members = sorted([*there, *tasks], key=task_order_key)
    return EvictionUnit(job, members, members, (kind, task_order_key(members[0])))


def _units_by_group(
    job: JobState,
    groups: JobGroups,
    there: Sequence[TaskState],
    task_order_key: Callable[[TaskState], SortKey],
) -> list[EvictionUnit]:
    """Return the units of a job with groups, given its tasks on nodes in task order."""

    def unit(kind: int, tasks: Sequence[TaskState], victims: Sequence[TaskState]) -> EvictionUnit:
        return EvictionUnit(job, tasks, victims, (kind, task_order_key(tasks[0])))

    if job.info.evict_whole or not groups.is_satisfied(Counting.READY):
        return [unit(_BROKEN if job.is_broken else _CORE, there, there)]
    place = {task.uid: position for position, task in enumerate(there)}
    cores = _Cores(groups, there, place)
    core = cores.of_job(job.count(TaskStatus.SUCCEEDED))
    units: list[EvictionUnit] = []
    if core:
        units.append(unit(_CORE, _ordered(core, place), there))
    taken = {task.uid for task in core}
    replicas: list[EvictionUnit] = []
    for group in cores.optional():
        tasks = cores.of_group(group)
        if tasks and not any(task.uid in taken for task in tasks):
            taken.update(task.uid for task in tasks)
            members = _ordered(cores.on_nodes(group), place)
            replica = unit(_REPLICA, _ordered(tasks, place), members)
            replica.group = group
            replicas.append(replica)
    units += sorted(replicas, key=attrgetter("value"))
    units += [unit(_SURPLUS, (task,), (task,)) for task in there if task.uid not in taken]
    return units


class _Cores:
    """Determines the most valuable tasks on nodes that meet the minima of groups."""

    def __init__(
        self, groups: JobGroups, there: Sequence[TaskState], place: Mapping[str, int]
    ) -> None:
        self._groups = groups
        self._there = there
        self._place = place
        self._of: dict[GroupState, list[TaskState]] = {}
        self._needs: dict[GroupState, list[GroupState]] = {}
        for task in there:
            self._of.setdefault(groups.leaf_of(task), []).append(task)
        self._known: dict[GroupState, list[TaskState]] = {}

    def on_nodes(self, group: GroupState) -> list[TaskState]:
        """Return all tasks of a group on nodes."""
        return [task for leaf in group.leaves() for task in self._of.get(leaf, ())]

    def of_group(self, group: GroupState) -> list[TaskState]:
        """Return the core of a ready group; empty, if it needs no tasks on nodes."""
        known = self._known.get(group)
        if known is None:
            if group.children:
                known = [task for child in self._needed(group) for task in self.of_group(child)]
            else:
                there = self._of.get(group, [])
                known = there[: max(0, group.minimum - group.succeeded)]
            self._known[group] = known
        return known

    def _needed(self, group: GroupState) -> list[GroupState]:
        """Return the best of the ready subgroups, as many as a group needs."""
        known = self._needs.get(group)
        if known is None:
            ready = [child for child in group.children if child.is_satisfied(Counting.READY)]
            known = self._needs[group] = sorted(ready, key=self._worth)[: group.minimum]
        return known

    def _worth(self, group: GroupState) -> tuple[int, int]:
        """Return the position of a core's most valuable task; -1 for an empty core."""
        places = [self._place[task.uid] for task in self.of_group(group)]
        return min(places, default=-1), group.place

    def of_job(self, succeeded: int) -> list[TaskState]:
        """Return the core of the job, which must be ready."""
        core = list(self.of_group(self._groups.root))
        more = self._groups.minimum - succeeded
        if len(core) >= more:
            return core
        replica_of = {
            task.uid: self.of_group(group)
            for group in self.optional()
            for task in self.of_group(group)
        }
        taken = {task.uid for task in core}
        for task in self._there:
            if len(taken) >= more:
                break
            # An additional task brings its whole replica, which would be useless without it.
            for each in [task, *replica_of.get(task.uid, ())]:
                if each.uid not in taken:
                    taken.add(each.uid)
                    core.append(each)
        return core

    def optional(self) -> list[GroupState]:
        """Return the ready groups that their parents do not need, top down."""
        found: list[GroupState] = []
        order = [self._groups.root]
        for group in order:
            needed = set(self._needed(group) if group.is_satisfied(Counting.READY) else ())
            ready = [child for child in group.children if child.is_satisfied(Counting.READY)]
            found += [child for child in ready if child not in needed]
            order += group.children
        return found


def _ordered(tasks: Sequence[TaskState], place: Mapping[str, int]) -> list[TaskState]:
    return sorted(tasks, key=lambda task: place[task.uid])
