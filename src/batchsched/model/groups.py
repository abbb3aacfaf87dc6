"""Groups of tasks within a job: roles with minima and maxima, and replicas made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

__all__ = ["TaskGroup", "can_start_with", "children_of", "deepest_first", "least_tasks"]


@frozen
class TaskGroup:
    """A group of a job's tasks, or of its other groups.

    Groups form a tree under their job. The tasks name its leaves (`TaskInfo.group`): roles such
    as workers and a driver. A group of groups is a replica: it starts as a whole.

    >>> driver, worker = TaskGroup("driver", min=1), TaskGroup("worker", min=2, max=8)
    >>> replica = TaskGroup("replica-0")
    >>> leader = TaskGroup("leader-0", parent="replica-0", min=1)
    """

    name: str
    """Unique in the job."""
    parent: str | None = None
    """The group that it is a part of. None: the job itself."""
    min: int | None = None
    """What must be able to start together: of a leaf, how many of its tasks, and 0 for tasks that
    nobody waits for; of other groups, how many of the groups in it, and None for all of them."""
    max: int | None = None
    """How many of its tasks, or of the groups in it, are placed at most. None: any number."""


def least_tasks(groups: Sequence[TaskGroup], min_groups: int | None) -> int:
    """Return with how many tasks at least the groups of a job can start. O(groups log groups).

    The groups must be sound.
    """
    children = children_of(groups)

    def least_of(names: Sequence[str], wanted: int | None) -> int:
        return sum(sorted(least[name] for name in names)[:wanted])

    least: dict[str, int] = {}
    for group in deepest_first(groups):
        below = children.get(group.name)
        least[group.name] = group.min or 0 if below is None else least_of(below, group.min)
    return least_of(children.get(None, ()), min_groups)


def can_start_with(
    groups: Sequence[TaskGroup], min_groups: int | None, counts: Mapping[str | None, int]
) -> bool:
    """Return whether the tasks that count are enough for the groups of a job. O(groups).

    The groups must be sound.

    Args:
        groups: all of them.
        min_groups: how many of those without a parent are needed; None: all.
        counts: how many tasks count, by name of their group.

    """
    children = children_of(groups)
    satisfied: set[str] = set()

    def enough(names: Sequence[str], wanted: int | None) -> bool:
        there = sum(name in satisfied for name in names)
        return there >= (len(names) if wanted is None else wanted)

    for group in deepest_first(groups):
        below = children.get(group.name)
        if (
            counts.get(group.name, 0) >= (group.min or 0)
            if below is None
            else enough(below, group.min)
        ):
            satisfied.add(group.name)
    return enough(children.get(None, ()), min_groups)


def children_of(groups: Iterable[TaskGroup]) -> dict[str | None, list[str]]:
    """Return the names of the groups by parent, in the order listed; None: the job itself."""
    children: dict[str | None, list[str]] = {}
    for group in groups:
        children.setdefault(group.parent, []).append(group.name)
    return children


def deepest_first(groups: Sequence[TaskGroup]) -> list[TaskGroup]:
    """Return groups so that each comes before its parent. O(groups); there must be no cycle."""
    named = {group.name: group for group in groups}
    children = children_of(groups)
    order = list(children.get(None, ()))
    for name in order:
        order += children.get(name, ())
    return [named[name] for name in reversed(order)]
