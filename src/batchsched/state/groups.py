"""Groups of a job's tasks during a session, with counters.

Each group has a counter for each way of counting, and passes changes of its state on to its
parent, so that a change of one task costs O(depth).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Protocol, TypeVar

from batchsched.model.cluster import JobInfo, TaskInfo, TaskStatus, children_of, least_tasks
from batchsched.model.reasons import MemberCount


class GroupMember(Protocol):
    """The properties of a task that its group reads."""

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
    """Which tasks count; each value includes the tasks of the one before."""

    READY = 0
    """Those that hold resources or have succeeded."""
    PROMISED = 1
    """Also those that were promised resources being released."""
    HOPED = 2
    """Also those that were promised resources of backfill tasks."""
    RESERVED = 3
    """Also those with a reserved node."""
    VALID = 4
    """Also those that are Pending."""


NEVER = len(Counting)
"""The position after all of `Counting`: such tasks never count."""


def _first_counting(status: TaskStatus) -> int:
    """Return the first `Counting` that includes tasks with a status."""
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
            return NEVER


FIRST_COUNTING = tuple(int(_first_counting(status)) for status in TaskStatus)
"""By `TaskStatus.index`: the first `Counting` that includes tasks with the status."""
_IS_PLACED = tuple(
    bool(status.conditionally_ready) and status is not TaskStatus.SUCCEEDED for status in TaskStatus
)


class GroupState:
    """A group of tasks or of other groups; the whole job is the root group."""

    __slots__ = (
        *("children", "costly", "counts", "maximum", "minimum", "name", "occupying", "parent"),
        *("place", "placed", "seen_as", "segment", "spare", "succeeded"),
    )

    def __init__(
        self, name: str, parent: GroupState | None, minimum: int, maximum: int | None, place: int
    ) -> None:
        self.name = name
        self.parent = parent
        self.children: list[GroupState] = []
        """Its subgroups, in the order listed; empty for a group of tasks."""
        self.minimum = minimum
        self.maximum = maximum
        self.place = place
        """Its position in the list of groups."""
        self.counts = [0] * NEVER
        """By `Counting`: the number of its tasks that count, or of its satisfied subgroups."""
        self.placed = 0
        """The number of its tasks that are placed, promised or reserved."""
        self.succeeded = 0
        """The number of its tasks that have succeeded."""
        self.occupying = 0
        """The number of its tasks that hold resources."""
        self.spare = 0
        """The number of subgroups with tasks on nodes that they do not need."""
        self.costly = 0
        """The number of ready subgroups that need all of their tasks on nodes."""
        self.segment = 1
        """How many of its tasks are placed together, at the least: whole segments."""
        self.seen_as = (False, False)
        """Whether its parent counts it in `spare`, and in `costly`."""

    def is_satisfied(self, counting: Counting, /) -> bool:
        """Return whether its minimum is met. O(1)."""
        return self.counts[counting] >= self.minimum

    def path(self) -> Iterator[GroupState]:
        """Yield the group and its ancestors, up to the job."""
        group: GroupState | None = self
        while group is not None:
            yield group
            group = group.parent

    def entered(self, counting: Counting, /) -> GroupState | None:
        """Return the topmost group on the path that is not satisfied; None: all are."""
        found: GroupState | None = None
        for group in self.path():
            if not group.is_satisfied(counting):
                found = group
        return found

    def leaves(self) -> Iterator[GroupState]:
        """Yield the leaves below it, or itself if it is a leaf."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def has_room(self) -> bool:
        """Return whether one more task would stay within all maxima on the path. O(groups)."""
        return self.full() is None

    def full(self) -> GroupState | None:
        """Return the first group on the path whose maximum forbids one more task, if any."""
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
        """Return whether a ready group has tasks on nodes that it does not need. O(1).

        `units_of` determines these tasks.
        """
        if not self.children:
            return self.counts[Counting.READY] > max(self.minimum, self.succeeded)
        # Subgroups without tasks on nodes cost nothing to keep, so they count first.
        free = self.counts[Counting.READY] - self.costly
        return self.spare > 0 or self.costly > max(0, self.minimum - free)

    def tell_above(self) -> None:
        """Update `spare` and `costly` of its ancestors. O(depth)."""
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

    def member_count(self, counting: Counting) -> MemberCount:
        """Return how many members count, and how many it needs."""
        return MemberCount(
            has=self.counts[counting],
            needs=self.minimum,
            group=self.name,
            of_groups=bool(self.children),
        )

    def __repr__(self) -> str:
        return f"<group {self.name}>"


class JobGroups:
    """The groups of a job, with counters. A job without groups is a single group."""

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
        """The minimum number of tasks that must be able to start together."""
        self.maximum = info.max_available
        """The most tasks that are placed."""
        self.total = [0] * NEVER
        """By `Counting`: the number of tasks that count."""
        self.asks_for_more = False
        """Whether the job's minimum exceeds that of its groups."""
        self.version = 0
        """Incremented with each change of a task."""
        self.changes: list[GroupState] = []
        """The log of changed leaves, and of groups that became or ceased to be satisfied, in this
        epoch."""
        self.epoch = 0
        """Incremented when the log of changes is cleared because it is too long."""
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
            if group.topology is not None and group.topology.segments:
                entered.segment = group.topology.segments[0].size
            parent.children.append(entered)
            self.groups.append(entered)
            to_enter += [(entered, child) for child in below]
            if not below:
                self._leaf_named[name] = entered
        self.groups.sort(key=attrgetter("place"))
        self.has_inner_maximum = any(g.children and g.maximum is not None for g in self.groups)
        least_by_groups = least_tasks(info.groups, info.min_groups)
        self.asks_for_more = self.minimum > least_by_groups
        self.minimum = max(self.minimum, least_by_groups)
        # Groups with a minimum of 0 are satisfied from the beginning.
        for entered in reversed(self._downward()):
            if entered.parent is not None and entered.is_satisfied(Counting.READY):
                for counting in Counting:
                    entered.parent.counts[counting] += 1

    @property
    def needs_all(self) -> bool:
        """Whether the job can only start with all of its groups. O(groups)."""
        return not self.asks_for_more and all(
            len(group.children) <= group.minimum for group in (self.root, *self.groups)
        )

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

    def recount(self, task: GroupMember, before: TaskStatus | None, after: TaskStatus, /) -> None:
        """Count a task that changes from one status to another; None: it is new. O(depth)."""
        leaf = self.leaf_of(task)
        first = NEVER if before is None else FIRST_COUNTING[before.index]
        self._count(leaf, first, FIRST_COUNTING[after.index])
        self._count_places(leaf, before, after)

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
        if old is TaskStatus.SUCCEEDED:
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
        """Return the first group, by name, that can never be satisfied and that the job lacks.

        None: no group is the cause.
        """
        return self._first_missing(self.groups, Counting.VALID)

    def first_not_ready(self) -> GroupState | None:
        """Return the first leaf, by name, that is not ready and that the job lacks."""
        leaves = (group for group in self.groups if not group.children)
        return self._first_missing(leaves, Counting.READY)

    @staticmethod
    def _first_missing(groups: Iterable[GroupState], counting: Counting) -> GroupState | None:
        missing = (
            group
            for group in groups
            if not any(above.is_satisfied(counting) for above in group.path())
        )
        return min(missing, key=attrgetter("name"), default=None)

    @property
    def lacks_groups(self) -> bool:
        """Whether it needs more groups than there are. O(1)."""
        return self.root.minimum > len(self.root.children) > 0

    def may_take(self, task: GroupMember, /) -> bool:
        """Return whether placing a task would stay within all maxima. O(groups)."""
        if _IS_PLACED[task.status.index]:
            return True
        if self.maximum is not None and self.root.placed >= self.maximum:
            return False
        return self.leaf_of(task).has_room()

    def incomplete_with(self, task: GroupMember, /) -> GroupState | None:
        """Return the topmost group of a task that is not ready, if any."""
        return self.leaf_of(task).entered(Counting.READY)

    def out_of_reach(self, task: GroupMember, /) -> GroupState | None:
        """Return the lowest group of a task that can never be satisfied, if any."""
        for group in self.leaf_of(task).path():
            if group.parent is not None and not group.is_satisfied(Counting.VALID):
                return group
        return None

    def may_start(self, task: GroupMember, /) -> bool:
        """Return whether a task of a ready job may start: all of its groups are ready."""
        if self.incomplete_with(task) is None:
            return True
        useful = sum(
            leaf.counts[Counting.READY]
            for leaf in self.root.leaves()
            if leaf.entered(Counting.READY) is None
        )
        return useful < self.minimum  # otherwise needed for the job's minimum

    def within_maxima(self, tasks: Iterable[MemberT], /) -> list[MemberT]:
        """Return the first of some unplaced tasks that may be placed together within maxima."""
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


def emptiness(leaf: GroupState, counting: Counting, /) -> tuple[float, int]:
    """Return the sort key of a group of tasks; the smallest comes first."""
    return (leaf.counts[counting] + 1) / max(1, leaf.minimum), leaf.place


class EmptiestFirst:
    """The groups with tasks left to place, in order, updated as tasks are placed.

    Groups that were skipped return only after a relevant change, so that a job with many groups
    does not visit all of them at each turn.
    """

    __slots__ = (
        *("_at", "_epoch", "_groups", "_heap", "_keys", "_leaves", "_most_placed", "_seen"),
    )

    def __init__(self, groups: JobGroups, leaves: Callable[[], Iterable[GroupState]]) -> None:
        """Create the order; `leaves` returns the groups with tasks left."""
        self._groups = groups
        self._leaves = leaves
        self._heap: list[tuple[float, int]] = []
        """The sort keys, including outdated ones."""
        self._at: dict[int, GroupState] = {}
        """The groups by their position in the list."""
        self._keys: dict[GroupState, tuple[float, int]] = {}
        """The sort key of each group that was not skipped."""
        self._epoch = -1
        self._seen = 0
        """The number of changes that were processed."""
        self._most_placed = 0
        """The number of placed tasks at the last update."""

    def __iter__(self) -> Iterator[GroupState]:
        """Yield the groups in order; requesting the next one skips the one before.

        O(log groups) for each, and for each that has changed.
        """
        self._catch_up()
        heap, keys = self._heap, self._keys
        while heap:
            key = heap[0]
            leaf = self._at[key[1]]
            if keys.get(leaf) == key:
                yield leaf
                del keys[leaf]
            heappop(heap)

    def _catch_up(self) -> None:
        groups = self._groups
        changes = groups.changes
        if (
            self._epoch != groups.epoch
            or groups.has_inner_maximum
            or groups.root.placed < self._most_placed
        ):
            self._keys = {leaf: emptiness(leaf, Counting.HOPED) for leaf in self._leaves()}
            self._heap = list(self._keys.values())
            self._at.update((leaf.place, leaf) for leaf in self._keys)
            heapify(self._heap)
        else:
            # An incomplete group is placed as a whole, so all of its leaves are affected.
            whole = {
                change if change.children else change.entered(Counting.HOPED) or change
                for change in changes[self._seen :]
            }
            for leaf in {leaf for group in whole for leaf in group.leaves()}:
                key = emptiness(leaf, Counting.HOPED)
                if self._keys.get(leaf) != key:
                    self._keys[leaf] = key
                    self._at[leaf.place] = leaf
                    heappush(self._heap, key)
        self._epoch, self._seen = groups.epoch, len(changes)
        self._most_placed = groups.root.placed
