"""What a job with groups, or with a maximum, asks for next: its need.

A job that cannot start yet pursues, of the groups that it needs, those that miss the fewest
tasks. One that can asks for one task more, or for all that makes a further group of use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from batchsched.state.emptiest_first import EmptiestFirst, emptiness
from batchsched.state.groups import Counting, GroupState, JobGroups
from batchsched.state.records import TaskState

__all__ = ["TasksLeft", "needed_tasks"]


class TasksLeft(Collection["TaskState"]):
    """The tasks that a job with groups has left to place, in task order, and by group."""

    __slots__ = ("_gone", "_in_order", "_of", "_position", "emptiest_first", "groups")

    def __init__(self, groups: JobGroups, tasks: Iterable[TaskState]) -> None:
        """Begin with tasks in task order, all Pending. O(tasks)."""
        self.groups = groups
        self._in_order = list(tasks)
        self._gone: set[str] = set()
        """The UIDs of tasks that were taken out, and that still stand in the lists."""
        self._of: dict[GroupState, deque[TaskState]] = {}
        for task in self._in_order:
            self._of.setdefault(groups.leaf_of(task), deque()).append(task)
        self._position = {task.uid: place for place, task in enumerate(self._in_order)}
        self.emptiest_first = EmptiestFirst(groups, self.leaves)
        """The groups that have any left, by what they have for their minimum, as the job fills."""

    def __iter__(self) -> Iterator[TaskState]:
        return (task for task in self._in_order if task.uid not in self._gone)

    def __len__(self) -> int:
        return len(self._in_order) - len(self._gone)

    def __contains__(self, task: object) -> bool:
        return any(task is other for other in self)

    def in_order(self, tasks: Iterable[TaskState]) -> tuple[TaskState, ...]:
        """Return some of the tasks in task order. O(n log n) for n tasks."""
        return tuple(sorted(tasks, key=lambda task: self._position[task.uid]))

    def leaves(self) -> Iterable[GroupState]:
        """Yield the groups of tasks that have any left. O(groups)."""
        return (leaf for leaf in list(self._of) if self.first_of(leaf) is not None)

    def first_of(self, leaf: GroupState) -> TaskState | None:
        """Return the first task of a group; None: it has none left. O(1), amortised."""
        queue = self._of.get(leaf)
        while queue:
            if queue[0].uid not in self._gone:
                return queue[0]
            queue.popleft()
        self._of.pop(leaf, None)
        return None

    def of(self, leaf: GroupState) -> Iterator[TaskState]:
        """Yield the tasks of a group in task order."""
        self.first_of(leaf)  # what has gone at the front is looked at no more
        return (task for task in self._of.get(leaf, ()) if task.uid not in self._gone)

    def has(self, leaf: GroupState, count: int) -> bool:
        """Return whether a group has so many tasks left. O(count)."""
        return not count or next(islice(self.of(leaf), count - 1, None), None) is not None

    def take_out(self, tasks: Iterable[TaskState]) -> None:
        """Take some tasks out. O(tasks), amortised."""
        self._gone.update(task.uid for task in tasks)
        if 2 * len(self._gone) > len(self._in_order):
            self._in_order = list(self)
            for leaf, queue in list(self._of.items()):
                self._of[leaf] = deque(task for task in queue if task.uid not in self._gone)
            self._gone.clear()


def needed_tasks(
    groups: JobGroups,
    tasks: TasksLeft | Iterable[TaskState],
    counting: Counting = Counting.HOPED,
    /,
) -> tuple[TaskState, ...]:
    """Return the tasks that a job asks for next, of those that it has left to place.

    A job that is not satisfied pursues, of the groups that it needs, those that miss the
    fewest tasks. A ready one asks for a task of the group that has the least for its minimum,
    or for all that a group misses that is of no use in part. Empty: there is nothing that it
    could use, or not enough.

    O(log groups) for one task of a ready job, and for k tasks that it needs together O(k log k)
    besides; else O(tasks + groups log groups). It is so for a ready job only if `tasks` has been
    asked before, and no group of groups has a maximum.

    Args:
        groups: those of the job.
        tasks: in task order, all Pending.
        counting: which tasks are there already.

    """
    left = tasks if isinstance(tasks, TasksLeft) else TasksLeft(groups, tasks)
    room = _Room(groups, left, counting)
    if groups.is_satisfied(Counting.READY):
        return room.next_of_ready_job()
    if groups.is_satisfied(counting):
        return ()
    return room.needed_to_start()


class _Room:
    """What may still be placed of a job, by group."""

    def __init__(self, groups: JobGroups, tasks: TasksLeft, counting: Counting) -> None:
        self._groups = groups
        self._tasks = tasks
        self._counting = counting

    def needed_to_start(self) -> tuple[TaskState, ...]:
        groups, counting = self._groups, self._counting
        pursued = self._pursued(groups.root)
        if pursued is None:
            return ()
        chosen = self._first_of(pursued)
        more = groups.minimum - groups.total[counting] - len(chosen)
        if more > 0:
            chosen += self._others(chosen, set(pursued), more)
            if len(chosen) < groups.minimum - groups.total[counting]:
                return ()
        if groups.maximum is not None and groups.root.placed + len(chosen) > groups.maximum:
            return ()
        return self._tasks.in_order(chosen)

    def next_of_ready_job(self) -> tuple[TaskState, ...]:
        groups = self._groups
        most = None if groups.maximum is None else groups.maximum - groups.root.placed
        if most is not None and most <= 0:
            return ()
        refused: set[GroupState | None] = set()
        for leaf in self._in_turn():
            entered = leaf.entered(self._counting)
            if entered in refused:
                continue
            if entered is None:
                first = self._tasks.first_of(leaf)
                if first is not None and leaf.has_room():
                    return (first,)
                continue
            refused.add(entered)
            pursued = self._pursued(entered)
            if pursued is None or not all(part.has_room() for part in pursued):
                continue
            chosen = self._first_of(pursued)
            if chosen and (most is None or len(chosen) <= most):
                return self._tasks.in_order(chosen)
        return ()

    def _in_turn(self) -> Iterable[GroupState]:
        if self._counting is Counting.HOPED:
            return self._tasks.emptiest_first
        return sorted(self._tasks.leaves(), key=lambda leaf: emptiness(leaf, self._counting))

    def _pursued(self, group: GroupState) -> dict[GroupState, int] | None:
        """Return how many tasks to place of which leaves for a group, the fewest; None: too few."""
        lacking = group.minimum - group.counts[self._counting]
        if lacking <= 0:
            return {}
        if not group.children:
            is_too_much = group.maximum is not None and group.placed + lacking > group.maximum
            is_there = not is_too_much and self._tasks.has(group, lacking)
            return {group: lacking} if is_there else None
        free = len(group.children)
        if group.maximum is not None:
            free = group.maximum - sum(child.placed > 0 for child in group.children)
        options: list[tuple[int, int, GroupState, dict[GroupState, int]]] = []
        for place, child in enumerate(group.children):
            if not child.is_satisfied(self._counting):
                pursued = self._pursued(child)
                if pursued is not None:
                    options.append((sum(pursued.values()), place, child, pursued))
        chosen: dict[GroupState, int] = {}
        for _, _, child, pursued in sorted(options, key=_fewest):
            if not child.placed:
                if not free:
                    continue
                free -= 1
            chosen |= pursued
            lacking -= 1
            if not lacking:
                return chosen
        return None

    def _first_of(self, pursued: dict[GroupState, int]) -> list[TaskState]:
        chosen: list[TaskState] = []
        for leaf, count in pursued.items():
            chosen += islice(self._tasks.of(leaf), count)
        return chosen

    def _others(
        self, chosen: Sequence[TaskState], pursued: set[GroupState], more: int
    ) -> list[TaskState]:
        """Return further tasks to make up the number: first of what is begun, then of the rest."""
        groups = self._groups
        begun = {above for leaf in pursued for above in leaf.path()}
        placed = {leaf: leaf.placed for leaf in self._tasks.leaves()}
        for task in chosen:
            placed[groups.leaf_of(task)] += 1
        taken = {task.uid for task in chosen}
        found: list[TaskState] = []
        for in_begun in (True, False):
            for task in self._tasks:
                if len(found) == more:
                    return found
                leaf = groups.leaf_of(task)
                is_begun = all(
                    group in begun or group.is_satisfied(self._counting) for group in leaf.path()
                )
                if (
                    is_begun is not in_begun
                    or task.uid in taken
                    or (leaf.maximum is not None and placed[leaf] >= leaf.maximum)
                    or not (placed[leaf] or leaf.has_room())
                ):
                    continue
                placed[leaf] += 1
                found.append(task)
        return found


def _fewest(option: tuple[int, int, GroupState, dict[GroupState, int]]) -> tuple[int, int]:
    return option[:2]
