"""Groups of a job's tasks during a session: how many tasks count, and which the job needs next.

Each group has a counter for each way of counting, and what holds of a group is told to the one
above it; so a change of one task costs O(depth).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Protocol, TypeVar

from batchsched.model.cluster import JobInfo, TaskInfo
from batchsched.model.groups import children_of, least_tasks
from batchsched.model.status import TaskStatus

__all__ = ["Counting", "GroupMember", "GroupState", "JobGroups"]


class GroupMember(Protocol):
    """What is asked of a task about the group that it is in."""

    @property
    def info(self) -> TaskInfo:
        """Its description."""
        ...

    @property
    def status(self) -> TaskStatus:
        """Its status."""
        ...


MemberT = TypeVar("MemberT", bound=GroupMember)


class Counting(IntEnum):
    """Which tasks count; each counts all that the one before it does, and more."""

    READY = 0
    """Those that hold resources or have succeeded."""
    PROMISED = 1
    """And those that were promised what is being released."""
    HOPED = 2
    """And those that were promised what backfill tasks hold."""
    RESERVED = 3
    """And those that have a node reserved."""
    VALID = 4
    """And those that are Pending."""


_NEVER = len(Counting)


def _first_counting(status: TaskStatus) -> int:
    """Return the first way of counting by which tasks with a status count."""
    if status.ready:
        return Counting.READY
    match status:
        case TaskStatus.PIPELINED:
            return Counting.PROMISED
        case TaskStatus.CONDITIONAL:
            return Counting.HOPED
        case TaskStatus.RESERVED:
            return Counting.RESERVED
        case TaskStatus.PENDING:
            return Counting.VALID
        case _:
            return _NEVER


_FIRST = tuple(_first_counting(status) for status in TaskStatus)
_IS_PLACED = tuple(
    bool(status.conditionally_ready) and status is not TaskStatus.SUCCEEDED for status in TaskStatus
)


class GroupState:
    """A group of a job's tasks, or of other groups; the whole job is one too."""

    __slots__ = (
        *("children", "costly", "counts", "maximum", "minimum", "name", "occupying", "parent"),
        *("place", "placed", "seen_as", "spare", "succeeded"),
    )

    def __init__(
        self, name: str, parent: GroupState | None, minimum: int, maximum: int | None, place: int
    ) -> None:
        self.name = name
        self.parent = parent
        self.children: list[GroupState] = []
        """The groups in it, in the order listed; none in a group of tasks."""
        self.minimum = minimum
        self.maximum = maximum
        self.place = place
        """Its position in the list of groups."""
        self.counts = [0] * len(Counting)
        """By `Counting`: how many of its tasks count, or how many groups in it are satisfied."""
        self.placed = 0
        """How many of its tasks have a place, a promise or a reservation."""
        self.succeeded = 0
        """How many of its tasks have succeeded."""
        self.occupying = 0
        """How many of its tasks hold resources."""
        self.spare = 0
        """How many groups in it have tasks on nodes that they could do without."""
        self.costly = 0
        """How many groups in it are ready, and need all that they have on nodes."""
        self.seen_as = (False, False)
        """Whether the group that it is in counts it as spare, and as costly."""

    def is_satisfied(self, counting: Counting, /) -> bool:
        """Return whether it has what must start together. O(1)."""
        return self.counts[counting] >= self.minimum

    def path(self) -> Iterator[GroupState]:
        """Yield the group and all that it is in, up to the job."""
        group: GroupState | None = self
        while group is not None:
            yield group
            group = group.parent

    def entered(self, counting: Counting, /) -> GroupState | None:
        """Return the highest group, from here upward, that is not satisfied; None: all are."""
        found: GroupState | None = None
        for group in self.path():
            if not group.is_satisfied(counting):
                found = group
        return found

    def leaves(self) -> Iterator[GroupState]:
        """Yield the groups of tasks in it, or itself if it is one."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def has_room(self) -> bool:
        """Return whether one more task in it would exceed no maximum, here or above. O(groups)."""
        return self.full() is None

    def full(self) -> GroupState | None:
        """Return the first group, from here upward, that may not have one more task in here."""
        below: GroupState | None = None
        for group in self.path():
            if group.maximum is not None:
                if below is None:
                    if group.placed >= group.maximum:
                        return group
                elif not below.placed:
                    used = sum(child.placed > 0 for child in group.children)
                    if used >= group.maximum:
                        return group
            below = group
        return None

    def has_more_than_needed(self) -> bool:
        """Return whether a group that is ready has tasks on nodes that it could do without. O(1).

        Which of its tasks these are is said by `units_of`.
        """
        if not self.children:
            return self.counts[Counting.READY] > max(self.minimum, self.succeeded)
        # What has nothing on nodes costs nothing to keep, and so it is kept first.
        free = self.counts[Counting.READY] - self.costly
        return self.spare > 0 or self.costly > max(0, self.minimum - free)

    def tell_above(self) -> None:
        """Let the groups that it is in know what it can do without. O(depth)."""
        group, above = self, self.parent
        while above is not None:
            is_ready = group.is_satisfied(Counting.READY)
            has_spare = group.has_more_than_needed() if is_ready else group.occupying > 0
            now = (has_spare, is_ready and not has_spare and group.occupying > 0)
            was_spare, was_costly = group.seen_as
            above.spare += now[0] - was_spare
            above.costly += now[1] - was_costly
            group.seen_as = now
            group, above = above, above.parent

    def text_of_reach(self) -> str:
        """Return what it has, at best, of what it needs, for people to read."""
        kind = "groups" if self.children else "tasks"
        count = self.counts[Counting.VALID]
        return f"{count} of the {self.minimum} {kind} that group {self.name!r} needs can start"

    def __repr__(self) -> str:
        return f"<group {self.name}>"


class JobGroups:
    """The groups of a job, with what counts in each. A job without groups is one group itself."""

    __slots__ = (
        "_leaf_named",
        "asks_for_more",
        "changes",
        "epoch",
        "groups",
        "has_inner_maximum",
        "maximum",
        "minimum",
        "root",
        "total",
        "version",
    )

    def __init__(self, info: JobInfo) -> None:
        self.groups: list[GroupState] = []
        """In the order listed."""
        self._leaf_named: dict[str | None, GroupState] = {}
        self.minimum = info.min_available
        """How many tasks must be able to start together at least."""
        self.maximum = info.max_available
        """How many are placed at most."""
        self.total = [0] * len(Counting)
        """By `Counting`: how many tasks count."""
        self.asks_for_more = False
        """Whether the job asks for more tasks together than its groups do."""
        self.version = 0
        """Changes when a task does."""
        self.changes: list[GroupState] = []
        """The groups of tasks that have changed, and those of groups that became satisfied or no
        longer are, in this epoch."""
        self.epoch = 0
        """Changes when the list of changes is begun anew, lest it become too long."""
        self.has_inner_maximum = False
        """Whether a group of groups has a maximum."""
        if not info.groups:
            self.root = self._leaf_named[None] = GroupState("", None, info.min_available, None, 0)
            return
        children = children_of(info.groups)
        named = {group.name: (place, group) for place, group in enumerate(info.groups)}
        tops = children.get(None, [])
        least = len(tops) if info.min_groups is None else info.min_groups
        self.root = GroupState("", None, least, None, -1)
        to_enter = [(self.root, name) for name in tops]
        for parent, name in to_enter:
            place, group = named[name]
            below = children.get(name, [])
            minimum = len(below) if group.min is None else group.min
            entered = GroupState(name, parent, minimum, group.max, place)
            parent.children.append(entered)
            self.groups.append(entered)
            to_enter += [(entered, child) for child in below]
            if not below:
                self._leaf_named[name] = entered
        self.groups.sort(key=_place)
        self.has_inner_maximum = any(g.children and g.maximum is not None for g in self.groups)
        least_by_groups = least_tasks(info.groups, info.min_groups)
        self.asks_for_more = self.minimum > least_by_groups
        self.minimum = max(self.minimum, least_by_groups)
        # What needs nothing is satisfied from the beginning.
        for entered in reversed(self._downward()):
            if entered.parent is not None and entered.is_satisfied(Counting.READY):
                for counting in Counting:
                    entered.parent.counts[counting] += 1

    @property
    def has_maximum(self) -> bool:
        """Whether the job or a group of it has a maximum. O(groups)."""
        return self.maximum is not None or any(g.maximum is not None for g in self.groups)

    def _downward(self) -> list[GroupState]:
        order = [self.root]
        for group in order:
            order += group.children
        return order

    def leaf_of(self, task: GroupMember, /) -> GroupState:
        """Return the group of a task. O(1)."""
        return self._leaf_named[task.info.group]

    # Counting

    def enter(self, task: GroupMember, /) -> None:
        """Count a task that has come. O(depth)."""
        self._count(self.leaf_of(task), _NEVER, _FIRST[task.status.index])
        self._count_places(self.leaf_of(task), None, task.status)

    def move(self, task: GroupMember, old: TaskStatus, new: TaskStatus, /) -> None:
        """Count a task under another status. O(depth)."""
        leaf = self.leaf_of(task)
        self._count(leaf, _FIRST[old.index], _FIRST[new.index])
        self._count_places(leaf, old, new)

    def _count(self, leaf: GroupState, old: int, new: int) -> None:
        self.version += 1
        if len(self.changes) > 4 * len(self.groups) + 64:
            self.changes.clear()
            self.epoch += 1
        self.changes.append(leaf)
        change = 1 if new < old else -1
        for counting in range(min(old, new), max(old, new)):
            self.total[counting] += change
            group: GroupState | None = leaf
            while group is not None:
                before = group.counts[counting]
                group.counts[counting] = before + change
                # Whether it is satisfied changes as it passes its minimum.
                if max(before, before + change) != group.minimum:
                    break
                if group.children:
                    self.changes.append(group)
                group = group.parent

    def _count_places(self, leaf: GroupState, old: TaskStatus | None, new: TaskStatus) -> None:
        if old is not None and old is TaskStatus.SUCCEEDED:
            leaf.succeeded -= 1
        if new is TaskStatus.SUCCEEDED:
            leaf.succeeded += 1
        more = _IS_PLACED[new.index] - (old is not None and _IS_PLACED[old.index])
        holds_more = new.occupies - (old is not None and old.occupies)
        if more or holds_more:
            for group in leaf.path():
                group.placed += more
                group.occupying += holds_more
        leaf.tell_above()

    def is_satisfied(self, counting: Counting, /) -> bool:
        """Return whether the tasks that count are enough for the job to start. O(1)."""
        return self.root.is_satisfied(counting) and self.total[counting] >= self.minimum

    def first_out_of_reach(self) -> GroupState | None:
        """Return the first group, by name, that can never be satisfied and keeps the job from it.

        None: what is missing is no group.
        """
        missing = [
            group
            for group in self.groups
            if not any(above.is_satisfied(Counting.VALID) for above in group.path())
        ]
        return min(missing, key=_name, default=None)

    def first_not_ready(self) -> GroupState | None:
        """Return the first group, by name, of tasks that is not ready and keeps the job from it."""
        missing = [
            group
            for group in self.groups
            if not group.children
            and not any(above.is_satisfied(Counting.READY) for above in group.path())
        ]
        return min(missing, key=_name, default=None)

    def may_take(self, task: GroupMember, /) -> bool:
        """Return whether a place for a task would exceed no maximum. O(groups)."""
        if _IS_PLACED[task.status.index]:
            return True
        if self.maximum is not None and self.root.placed >= self.maximum:
            return False
        return self.leaf_of(task).has_room()

    def incomplete_with(self, task: GroupMember, /) -> GroupState | None:
        """Return the highest group of a task that is not ready, and is of no use in part."""
        return self.leaf_of(task).entered(Counting.READY)

    def out_of_reach(self, task: GroupMember, /) -> GroupState | None:
        """Return the lowest group of a task that can never be satisfied, if there is one."""
        for group in self.leaf_of(task).path():
            if group.parent is not None and not group.is_satisfied(Counting.VALID):
                return group
        return None

    def may_start(self, task: GroupMember, /) -> bool:
        """Return whether a task of a ready job may start: all that it is in can, as a whole."""
        if self.incomplete_with(task) is None:
            return True
        useful = sum(
            leaf.counts[Counting.READY]
            for leaf in self.root.leaves()
            if leaf.entered(Counting.READY) is None
        )
        return useful < self.minimum  # then it is needed to make up the number

    def within_maxima(self, tasks: Iterable[MemberT], /) -> list[MemberT]:
        """Return those of some tasks without places that may have one together, the first first."""
        free: dict[GroupState, int | None] = {}
        left = None if self.maximum is None else max(0, self.maximum - self.root.placed)
        allowed: list[MemberT] = []
        for task in tasks:
            leaf = self.leaf_of(task)
            if leaf not in free:
                free[leaf] = None if leaf.maximum is None else max(0, leaf.maximum - leaf.placed)
            here = free[leaf]
            if here == 0 or left == 0:
                continue
            allowed.append(task)
            if here is not None:
                free[leaf] = here - 1
            if left is not None:
                left -= 1
        return allowed


def _place(group: GroupState) -> int:
    return group.place


def _name(group: GroupState) -> str:
    return group.name
