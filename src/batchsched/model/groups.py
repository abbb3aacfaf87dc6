"""Groups of tasks within a job: roles with minima and maxima, and replicas composed of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

__all__ = ["TaskGroup", "can_start_with", "children_of", "deepest_first", "least_tasks"]


@frozen
class TaskGroup:
    """A group of a job's tasks, or of other groups of the job.

    Groups form a tree under their job. Tasks name its leaves (`TaskInfo.group`), which are roles
    such as workers and a driver. A group of groups, such as a replica, starts as a whole.

    >>> driver, worker = TaskGroup("driver", min=1), TaskGroup("worker", min=2, max=8)
    >>> replica = TaskGroup("replica-0")
    >>> leader = TaskGroup("leader-0", parent="replica-0", min=1)
    """

    name: str
    """Unique in the job."""
    parent: str | None = None
    """The parent group. None: it is a top-level group of the job."""
    min: int | None = None
    """How many must be able to start together. For a leaf: tasks; 0 means that its job does not
    wait for them. For another group: groups directly in it; None means all of them."""
    max: int | None = None
    """The most tasks of it, or groups directly in it, that are placed. None: any number."""


def least_tasks(groups: Sequence[TaskGroup], min_groups: int | None) -> int:
    """Return the minimum number of tasks that satisfies a job's groups. O(groups log groups).

    The groups must be valid.
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
    """Return whether numbers of tasks meet the minima of a job's groups. O(groups).

    The groups must be valid.

    Args:
        groups: all groups of the job.
        min_groups: how many top-level groups are needed; None: all.
        counts: the number of tasks by group.

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
    """Return the names of groups by parent, in the order listed; None: the top-level groups."""
    children: dict[str | None, list[str]] = {}
    for group in groups:
        children.setdefault(group.parent, []).append(group.name)
    return children


def deepest_first(groups: Sequence[TaskGroup]) -> list[TaskGroup]:
    """Return the groups, each before its parent. O(groups); they must not form a cycle."""
    named = {group.name: group for group in groups}
    children = children_of(groups)
    order = list(children.get(None, ()))
    for name in order:
        order += children.get(name, ())
    return [named[name] for name in reversed(order)]
