"""Jobs with groups or a maximum: what is satisfied, what is needed next, and eviction units.

Everything is computed from scratch at each use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

from batchsched import JobInfo, TaskGroup, TaskInfo, TaskStatus
from tests.reference.state import State

__all__ = ["Groups", "has_groups"]

OCCUPYING = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
READY = (*OCCUPYING, TaskStatus.SUCCEEDED)
HOPED = (*READY, TaskStatus.PIPELINED, TaskStatus.CONDITIONAL)
RESERVED = (*HOPED, TaskStatus.RESERVED)
PLACED = (*OCCUPYING, TaskStatus.PIPELINED, TaskStatus.CONDITIONAL, TaskStatus.RESERVED)

Statuses = Sequence[TaskStatus]


def has_groups(job: JobInfo) -> bool:
    """Return whether a job has groups or a maximum."""
    return bool(job.groups) or job.max_available is not None


@frozen
class Groups:
    """The current state of a job's groups. The group None is the job itself."""

    state: State
    job: JobInfo

    # The tree.

    def children(self, name: str | None) -> list[TaskGroup]:
        """Return the groups in a group, in the order listed."""
        return [group for group in self.job.groups if group.parent == name]

    def is_leaf(self, name: str | None) -> bool:
        """Return whether a group contains tasks rather than groups."""
        return not self.children(name)

    def group(self, name: str) -> TaskGroup:
        """Return a group by name."""
        [found] = [group for group in self.job.groups if group.name == name]
        return found

    def minimum(self, name: str | None) -> int:
        """Return the number of tasks, or of groups in it, that a group needs."""
        if name is None:
            least = self.job.min_groups
            if not self.job.groups:
                return self.job.min_available
        else:
            least = self.group(name).min
        return len(self.children(name)) if least is None else least

    def maximum(self, name: str | None) -> int | None:
        """Return the most tasks, or groups in it, that a group may have."""
        return None if name is None else self.group(name).max

    def path(self, name: str | None) -> list[str | None]:
        """Return a group and all groups above it, up to the job."""
        return [None] if name is None else [name, *self.path(self.group(name).parent)]

    def leaves(self) -> list[str | None]:
        """Return the groups of tasks, in the order listed."""
        return [g.name for g in self.job.groups if self.is_leaf(g.name)] or [None]

    # Counting.

    def count(self, name: str | None, statuses: Statuses) -> int:
        """Return how many of the tasks in a group, or in groups in it, have certain statuses."""
        return sum(
            name in self.path(task.group) and self.state.status(task) in statuses
            for task in self.job.tasks
        )

    def is_satisfied(self, name: str | None, statuses: Statuses) -> bool:
        """Return whether a group has what it needs to start."""
        if self.is_leaf(name):
            return self.count(name, statuses) >= self.minimum(name)
        there = sum(self.is_satisfied(child.name, statuses) for child in self.children(name))
        return there >= self.minimum(name)

    def least(self, name: str | None) -> int:
        """Return the least number of tasks with which a group is satisfied."""
        if self.is_leaf(name):
            return self.minimum(name)
        return sum(sorted(self.least(c.name) for c in self.children(name))[: self.minimum(name)])

    @property
    def least_tasks(self) -> int:
        """The least number of tasks with which the job can start."""
        return max(self.job.min_available, self.least(None))

    def can_start(self, statuses: Statuses) -> bool:
        """Return whether the job can start with the tasks that have certain statuses."""
        return self.is_satisfied(None, statuses) and self.count(None, statuses) >= self.least_tasks

    def may_take(self, task: TaskInfo, more: Iterable[TaskInfo] = ()) -> bool:
        """Return whether a task may have a place in addition to placed tasks and some more."""
        if self.state.status(task) in PLACED:
            return True
        placed = [*(t for t in self.job.tasks if self.state.status(t) in PLACED), *more]
        if self.job.max_available is not None and len(placed) >= self.job.max_available:
            return False
        below: str | None = None
        for name in self.path(task.group):
            most = self.maximum(name)
            if most is not None and self.is_leaf(name):
                if sum(other.group == name for other in placed) >= most:
                    return False
            elif most is not None:
                used = {
                    child.name
                    for child in self.children(name)
                    if any(child.name in self.path(other.group) for other in placed)
                }
                if below not in used and len(used) >= most:
                    return False
            below = name
        return True

    def may_start(self, task: TaskInfo) -> bool:
        """Return whether a task of a ready job may start: all groups above it are ready."""

        def is_useful(other: TaskInfo) -> bool:
            return all(self.is_satisfied(name, READY) for name in self.path(other.group))

        useful = [t for t in self.job.tasks if self.state.status(t) in READY and is_useful(t)]
        return is_useful(task) or len(useful) < self.least_tasks

    # What is needed next.

    def needed(self, tasks: Sequence[TaskInfo], statuses: Statuses = HOPED) -> list[TaskInfo]:
        """Return the tasks that the job needs next, of those that it has yet to place."""
        if self.can_start(READY):
            return self._next_of_ready_job(tasks, statuses)
        if self.can_start(statuses):
            return []
        pursued = self._pursued(None, tasks, statuses)
        if pursued is None:
            return []
        chosen = [task for task in tasks if task in pursued]
        leaves = {task.group for task in chosen}
        begun = {name for leaf in leaves for name in self.path(leaf)}

        def is_begun(task: TaskInfo) -> bool:
            return all(
                name in begun or self.is_satisfied(name, statuses) for name in self.path(task.group)
            )

        wanted = self.least_tasks - self.count(None, statuses)
        for task in [
            *(task for task in tasks if is_begun(task)),
            *(task for task in tasks if not is_begun(task)),
        ]:
            if len(chosen) < wanted and task not in chosen and self._fits_maxima(task, chosen):
                chosen.append(task)
        if len(chosen) < wanted or self._is_too_much(len(chosen)):
            return []
        return [task for task in tasks if task in chosen]

    def _fits_maxima(self, task: TaskInfo, more: Sequence[TaskInfo]) -> bool:
        """Return whether the maximums of groups allow a task in addition to others."""
        most = self.maximum(task.group)
        placed = self.count(task.group, PLACED) + sum(one.group == task.group for one in more)
        if most is not None and placed >= most:
            return False
        return placed > 0 or self._has_room(task.group)

    def _has_room(self, leaf: str | None) -> bool:
        """Return whether no group of a leaf's path is full now."""
        below: str | None = None
        for name in self.path(leaf):
            most = self.maximum(name)
            if most is not None and self.is_leaf(name):
                if self.count(name, PLACED) >= most:
                    return False
            elif most is not None and not self.count(below, PLACED):
                used = [c for c in self.children(name) if self.count(c.name, PLACED)]
                if len(used) >= most:
                    return False
            below = name
        return True

    def _is_too_much(self, more: int) -> bool:
        most = self.job.max_available
        return most is not None and self.count(None, PLACED) + more > most

    def _pursued(
        self, name: str | None, tasks: Sequence[TaskInfo], statuses: Statuses
    ) -> list[TaskInfo] | None:
        """Return the fewest tasks that a group lacks; None if it cannot get them."""
        if self.is_leaf(name):
            missing = max(0, self.minimum(name) - self.count(name, statuses))
            there = [task for task in tasks if task.group == name]
            most = self.maximum(name)
            is_full = most is not None and self.count(name, PLACED) + missing > most
            return None if missing > len(there) or (missing and is_full) else there[:missing]
        lacking = self.minimum(name)
        options: list[tuple[int, int, list[TaskInfo]]] = []
        for place, child in enumerate(self.children(name)):
            if self.is_satisfied(child.name, statuses):
                lacking -= 1
                continue
            pursued = self._pursued(child.name, tasks, statuses)
            if pursued is not None:
                options.append((len(pursued), place, pursued))
        if lacking <= 0:
            return []
        most = self.maximum(name)
        used = sum(self.count(child.name, PLACED) > 0 for child in self.children(name))
        found: list[TaskInfo] = []
        for _, place, pursued in sorted(options, key=lambda option: option[:2]):
            if not self.count(self.children(name)[place].name, PLACED):
                if most is not None and used >= most:
                    continue
                used += 1
            found += pursued
            lacking -= 1
            if not lacking:
                return found
        return None

    def _next_of_ready_job(self, tasks: Sequence[TaskInfo], statuses: Statuses) -> list[TaskInfo]:
        if self._is_too_much(1):
            return []
        leaves = sorted(
            self.leaves(),
            key=lambda leaf: (self.count(leaf, statuses) + 1) / max(1, self.minimum(leaf)),
        )
        for leaf in leaves:
            there = [task for task in tasks if task.group == leaf]
            incomplete = [n for n in self.path(leaf) if not self.is_satisfied(n, statuses)]
            if not there:
                continue
            if not incomplete:
                if self._has_room(leaf):
                    return there[:1]
                continue
            pursued = self._pursued(incomplete[-1], tasks, statuses)
            if (
                pursued
                and all(self._has_room(task.group) for task in pursued)
                and not self._is_too_much(len(pursued))
            ):
                return [task for task in tasks if task in pursued]
        return []

    def replica_entered(self, task: TaskInfo, pending: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return the optional group that a task of a ready job begins or completes; [] if none.

        What it has, and what it lacks.
        """
        incomplete = [n for n in self.path(task.group) if not self.is_satisfied(n, HOPED)]
        if not incomplete:
            return []
        name = incomplete[-1]
        there = (*OCCUPYING, TaskStatus.PIPELINED)
        has = [
            other
            for other in self.job.tasks
            if name in self.path(other.group) and self.state.status(other) in there
        ]
        return [*has, task, *(self._pursued(name, pending, HOPED) or [])]

    def within_maxima(self, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return the tasks, in order, that the maximums of leaves and of the job allow."""
        found: list[TaskInfo] = []
        for task in tasks:
            most = self.maximum(task.group)
            there = self.count(task.group, PLACED) + sum(o.group == task.group for o in found)
            if (most is None or there < most) and not self._is_too_much(len(found) + 1):
                found.append(task)
        return found

    # What goes together.

    def units(
        self, in_order: Callable[[Iterable[TaskInfo]], list[TaskInfo]]
    ) -> list[tuple[int, list[TaskInfo], list[TaskInfo]]]:
        """Return the units of eviction: kind (0 core, 1 replica, 2 surplus), tasks, all victims."""
        there = in_order(t for t in self.job.tasks if self.state.status(t) in OCCUPYING)
        if not there:
            return []
        if not self.can_start(READY):
            return [(0, there, there)]
        optional = self._optional(None, there)
        core = list(self._core(None, there))
        needed = self.least_tasks - self.count(None, (TaskStatus.SUCCEEDED,))
        for task in there:
            if len(core) < needed and task not in core:
                replicas = [tasks for _, tasks in optional if task in tasks]
                for one in [task, *(one for replica in replicas for one in replica)]:
                    if one not in core:
                        core.append(one)
        core = list({task.uid: task for task in core}.values())
        units = [(0, [task for task in there if task in core], there)] if core else []
        taken = list(core)
        replicas_found: list[tuple[int, list[TaskInfo], list[TaskInfo]]] = []
        for name, tasks in optional:
            if tasks and not any(task in taken for task in tasks):
                taken += tasks
                own = [task for task in there if task in tasks]
                members = [task for task in there if name in self.path(task.group)]
                replicas_found.append((1, own, members))
        replicas_found.sort(key=lambda unit: there.index(unit[1][0]))
        surplus = [(2, [task], [task]) for task in there if task not in taken]
        return [*units, *replicas_found, *surplus]

    def _core(self, name: str | None, there: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return the tasks on nodes that a satisfied group needs."""
        if self.is_leaf(name):
            ended = self.count(name, (TaskStatus.SUCCEEDED,))
            own = [task for task in there if task.group == name]
            return own[: max(0, self.minimum(name) - ended)]
        return [task for child in self._kept(name, there) for task in self._core(child, there)]

    def _kept(self, name: str | None, there: Sequence[TaskInfo]) -> list[str]:
        """Return the groups that a satisfied group needs: the most valuable ones."""

        def worth(child: TaskGroup) -> int:
            places = [there.index(task) for task in self._core(child.name, there)]
            return min(places, default=-1)

        satisfied = [c for c in self.children(name) if self.is_satisfied(c.name, READY)]
        return [child.name for child in sorted(satisfied, key=worth)][: self.minimum(name)]

    def _optional(
        self, name: str | None, there: Sequence[TaskInfo]
    ) -> list[tuple[str, list[TaskInfo]]]:
        """Return the satisfied groups that what they are in does not need, with their cores.

        Level by level, from the top down.
        """
        found: list[tuple[str, list[TaskInfo]]] = []
        level: list[str | None] = [name]
        while level:
            below: list[str | None] = []
            for above in level:
                kept = self._kept(above, there) if self.is_satisfied(above, READY) else []
                for child in self.children(above):
                    below.append(child.name)
                    if child.name not in kept and self.is_satisfied(child.name, READY):
                        found.append((child.name, self._core(child.name, there)))
            level = below
        return found
