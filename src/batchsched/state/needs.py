"""What a job needs next: the tasks that it has left to place, and those that go together.

A job that cannot start yet needs what it lacks. With groups it pursues, among the groups that it
needs, those that lack the fewest tasks. A ready job needs one more task, or all tasks that
complete another group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from operator import itemgetter

from attrs import frozen

from batchsched.model.cluster import TaskStatus
from batchsched.state.groups import Counting, EmptiestFirst, GroupState, JobGroups, emptiness
from batchsched.state.records import Fit, JobState, TaskState
from batchsched.state.vectors import Vector, total_of


class TasksInOrder(deque["TaskState"]):
    """The tasks that a job without groups has left to place, in task order."""

    def take_out(self, tasks: Iterable[TaskState]) -> None:
        """Remove tasks. O(1) for each if they are the first ones."""
        for task in tasks:
            self.remove(task)


class TasksByGroup(Collection["TaskState"]):
    """The tasks that a job with groups has left to place, in task order and by group."""

    __slots__ = ("_gone", "_in_order", "_of", "_position", "emptiest_first", "groups")

    def __init__(self, groups: JobGroups, tasks: Iterable[TaskState]) -> None:
        """Create it from tasks in task order, all Pending. O(tasks)."""
        self.groups = groups
        self._in_order = list(tasks)
        self._gone: set[str] = set()
        """The UIDs of tasks that were removed, but are still in the lists."""
        self._of: dict[GroupState, deque[TaskState]] = {}
        for task in self._in_order:
            self._of.setdefault(groups.leaf_of(task), deque()).append(task)
        self._position = {task.uid: place for place, task in enumerate(self._in_order)}
        self.emptiest_first = EmptiestFirst(groups, self.leaves)
        """The groups with tasks left, the emptiest first."""

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
        """Yield the groups with tasks left. O(groups)."""
        return (leaf for leaf in list(self._of) if self.first_of(leaf) is not None)

    def first_of(self, leaf: GroupState) -> TaskState | None:
        """Return the first task left of a group, or None. O(1), amortised."""
        queue = self._of.get(leaf)
        while queue:
            if queue[0].uid not in self._gone:
                return queue[0]
            queue.popleft()
        self._of.pop(leaf, None)
        return None

    def of(self, leaf: GroupState) -> Iterator[TaskState]:
        """Yield the tasks of a group in task order."""
        self.first_of(leaf)  # drops removed tasks at the front
        return (task for task in self._of.get(leaf, ()) if task.uid not in self._gone)

    def has(self, leaf: GroupState, count: int) -> bool:
        """Return whether a group has at least `count` tasks left. O(count)."""
        return not count or next(islice(self.of(leaf), count - 1, None), None) is not None

    def take_out(self, tasks: Iterable[TaskState]) -> None:
        """Remove tasks. O(tasks), amortised."""
        self._gone.update(task.uid for task in tasks)
        if 2 * len(self._gone) > len(self._in_order):
            self._in_order = list(self)
            for leaf, queue in list(self._of.items()):
                self._of[leaf] = deque(task for task in queue if task.uid not in self._gone)
            self._gone.clear()


TasksLeft = TasksInOrder | TasksByGroup
"""The tasks that a job has left to place; those that were placed are taken out."""


def needed_tasks(
    groups: JobGroups,
    tasks: TasksByGroup | Iterable[TaskState],
    counting: Counting = Counting.HOPED,
    /,
) -> tuple[TaskState, ...]:
    """Return the tasks that a job needs next, among those that it has left to place.

    A job that is not satisfied pursues, among the groups that it needs, those that lack the
    fewest tasks. A ready job needs one task of the group that is emptiest for its minimum, or
    all tasks that an incomplete group lacks. Empty: no task could be used, or too few are left.

    O(log groups) for one task of a ready job, plus O(k log k) for k tasks that it needs together;
    otherwise O(tasks + groups log groups). The former holds only if `tasks` has been used before,
    and no group of groups has a maximum.

    Args:
        groups: the groups of the job.
        tasks: tasks in task order, all Pending.
        counting: which tasks count as placed.

    """
    left = tasks if isinstance(tasks, TasksByGroup) else TasksByGroup(groups, tasks)
    following = _NextTasks(groups, left, counting)
    if groups.is_satisfied(Counting.READY):
        return following.one_more()
    return () if groups.is_satisfied(counting) else following.to_start()


def tasks_lacking(
    group: GroupState, groups: JobGroups, tasks: Iterable[TaskState], /
) -> tuple[TaskState, ...]:
    """Return the fewest of some tasks that a group of a job lacks; empty: too few are left.

    Tasks that wait for promised resources count as there. O(tasks + groups log groups).

    Args:
        group: the group.
        groups: all groups of the job.
        tasks: tasks in the order in which they are to be taken, all Pending.

    """
    left = TasksByGroup(groups, tasks)
    return _NextTasks(groups, left, Counting.HOPED).lacking_in(group)


class _NextTasks:
    """The choice of the next tasks of a job, by group."""

    def __init__(self, groups: JobGroups, tasks: TasksByGroup, counting: Counting) -> None:
        self._groups = groups
        self._tasks = tasks
        self._counting = counting

    def to_start(self) -> tuple[TaskState, ...]:
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

    def lacking_in(self, group: GroupState) -> tuple[TaskState, ...]:
        return self._tasks.in_order(self._first_of(self._pursued(group) or {}))

    def one_more(self) -> tuple[TaskState, ...]:
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
                    more = self._to_segments(leaf, 1)
                    return (first,) if more == 1 else tuple(islice(self._tasks.of(leaf), more))
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
        """Return the fewest tasks per leaf that satisfy a group; None: it cannot be satisfied."""
        lacking = group.minimum - group.counts[self._counting]
        if lacking <= 0:
            return {}
        if not group.children:
            lacking = self._to_segments(group, lacking)
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

    def _to_segments(self, leaf: GroupState, count: int) -> int:
        """Return how many tasks of a group complete the segment in which `count` more end."""
        size = leaf.segment
        if size == 1:
            return count
        has = leaf.counts[self._counting]
        wanted = -(-(has + count) // size) * size - has
        return max(count, min(wanted, sum(1 for _ in islice(self._tasks.of(leaf), wanted))))

    def _first_of(self, pursued: dict[GroupState, int]) -> list[TaskState]:
        chosen: list[TaskState] = []
        for leaf, count in pursued.items():
            chosen += islice(self._tasks.of(leaf), count)
        return chosen

    def _others(
        self, chosen: Sequence[TaskState], pursued: set[GroupState], more: int
    ) -> list[TaskState]:
        """Return further tasks to reach the job's minimum, from groups already begun first."""
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


class Stage(Enum):
    """By when a need is to be placed: a plugin offers sets of nodes for each stage in turn."""

    # That of Enum hashes the name each time.
    __hash__ = object.__hash__

    NOW = "now", (Fit.NOW,)
    """All of it can start now."""
    LATER = "later", (Fit.NOW, Fit.LATER)
    """Once tasks that leave are gone."""
    CONDITIONALLY = "conditionally", (Fit.NOW, Fit.LATER, Fit.CONDITIONALLY)
    """Once backfill tasks are gone, too."""
    EVICTING = "evicting", (Fit.NOW, Fit.LATER)
    """Once those are gone that the action may evict."""
    EMPTY = "empty", (Fit.NOW, Fit.LATER, Fit.CONDITIONALLY)
    """Once the tasks of all jobs are gone."""

    ladder: tuple[Fit, ...]
    """How its tasks may fit, in order of preference."""

    def __new__(cls, name: str, ladder: tuple[Fit, ...]) -> Stage:
        """Make a stage."""
        member = object.__new__(cls)
        member._value_, member.ladder = name, ladder
        return member


_IS_HOME = frozenset(
    status
    for status in TaskStatus
    if status.occupies
    or status in (TaskStatus.PIPELINED, TaskStatus.CONDITIONAL, TaskStatus.RESERVED)
)
_counts_of_home = itemgetter(*sorted(status.index for status in _IS_HOME))


@frozen(eq=False)
class Need:
    """What a job needs next: the tasks that it lacks for its minimum, or its next task."""

    job: JobState
    tasks: tuple[TaskState, ...]
    """The tasks, in task order."""
    request: Vector
    """What they would hold together, by dimension."""
    dimensions: tuple[int, ...]
    """The dimensions in which `request` is not 0."""
    leaving: tuple[TaskState, ...] = ()
    """Tasks that would be evicted for them."""
    group: GroupState | None = None
    """The group of the job that needs them; None: the job itself."""
    stage: Stage | None = None
    """By when it is to be placed; None: it is only asked why it cannot be."""
    near: tuple[str, ...] = ()
    """The label keys of the domains of which its tasks must share one, as they must be near each
    other; it is then part of what its job or group needs, and has no home."""

    def at(self, stage: Stage | None, /) -> Need:
        """Return the need, to be placed by a stage."""
        if stage is self.stage:
            return self
        given = self.job, self.tasks, self.request, self.dimensions, self.leaving, self.group
        return Need(*given, stage, self.near)

    def _members(self) -> Iterator[TaskState]:
        """Yield the tasks of the group, or of the job."""
        if self.group is None:
            return iter(self.job.tasks)
        leaves = {leaf.name for leaf in self.group.leaves()}
        return (task for task in self.job.tasks if task.info.group in leaves)

    @property
    def home(self) -> Sequence[TaskState]:
        """The tasks of the job or group that are on nodes, promised to one, or have one reserved.

        O(tasks).
        """
        if self.near or not any(_counts_of_home(self.job.counts)):
            return ()
        return [t for t in self._members() if t.node is not None and t.status in _IS_HOME]

    @property
    def more(self) -> Sequence[TaskState]:
        """The other Pending tasks of the job or group that could follow. O(tasks).

        At most what its maximum leaves; none that something holds or that requests nothing.
        """
        if self.near or self.job.counts[TaskStatus.PENDING.index] <= len(self.tasks):
            return ()
        needed = {task.uid for task in self.tasks}
        found = [
            task
            for task in self._members()
            if task.status is TaskStatus.PENDING
            and not (task.is_held or task.is_best_effort or task.uid in needed)
        ]
        groups = self.job.groups
        if groups is not None and found:
            room = [] if groups.maximum is None else [groups.maximum - groups.root.placed]
            if self.group is not None and not self.group.children:
                most = self.group.maximum
                room += [] if most is None else [most - self.group.placed]
            if room:
                found = found[: max(0, min(room) - len(self.tasks))]
        return found


def need_of_job(
    job: JobState, tasks: Collection[TaskState], counting: Counting = Counting.HOPED, /
) -> Need | None:
    """Return what a job needs next, given its tasks to place in task order.

    None if there is nothing to place. A job at its minimum needs one more task; another job needs
    as many as it lacks, or all that are left. For jobs with groups, and for `counting`, see
    `needed_tasks`.
    """
    if not tasks:
        return None
    if job.groups is not None:
        needed = needed_tasks(job.groups, tasks, counting)
        return need_of_tasks(job, needed) if needed else None
    is_reserving = counting is Counting.RESERVED
    lacks = max(1, job.min_available - job.counted[_RESERVED if is_reserving else _PROMISED])
    request = job.info.topology
    if request is not None and request.segments:
        return need_of_tasks(job, _whole_segments(job, tasks, request.segments[0].size, lacks))
    return need_of_tasks(job, tuple(islice(tasks, lacks)))


def _whole_segments(
    job: JobState, tasks: Collection[TaskState], size: int, lacks: int
) -> tuple[TaskState, ...]:
    """Return the tasks left of the fewest first segments that are as many as a job lacks.

    A segment is of no use without the rest of it. O(tasks).
    """
    before = len(job.tasks) - len(job.held) - len(tasks)
    number = {
        task.uid: before + place if task.info.index is None else task.info.index
        for place, task in enumerate(tasks)
    }
    by_segment: dict[int, int] = {}
    for task in tasks:
        segment = number[task.uid] // size
        by_segment[segment] = by_segment.get(segment, 0) + 1
    chosen: set[int] = set()
    for segment in sorted(by_segment):
        if lacks <= 0:
            break
        chosen.add(segment)
        lacks -= by_segment[segment]
    return tuple([task for task in tasks if number[task.uid] // size in chosen])


def need_of_task(task: TaskState, /, *, leaving: Iterable[TaskState] = ()) -> Need:
    """Return the need of a single task, given the tasks that would be evicted for it."""
    assert task.job is not None
    return need_of_tasks(task.job, (task,), leaving=tuple(leaving))


# Members of enums are slow to find.
_PROMISED, _RESERVED = Counting.PROMISED, Counting.RESERVED


def need_of_tasks(
    job: JobState, tasks: tuple[TaskState, ...], /, *, leaving: tuple[TaskState, ...] = ()
) -> Need:
    """Return the need of some tasks of a job, at least one; see `need_of_task`."""
    first, count = tasks[0], len(tasks)
    if all([t.resreq == first.resreq and not t.is_backfill for t in tasks]):  # noqa: C419 - fast
        request = first.resreq if count == 1 else tuple([a * count for a in first.resreq])
    else:
        charged = [task.resreq for task in tasks if not task.is_backfill]
        request = total_of(charged, (0,) * len(first.resreq))
    dimensions = tuple([d for d, amount in enumerate(request) if amount > 0])
    return Need(job, tasks, request, dimensions, leaving)
