"""Validation of the groups of a job, and of its minima and maxima."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence

from batchsched.model.cluster import JobInfo, TaskInfo
from batchsched.model.groups import TaskGroup, least_tasks
from batchsched.model.validation.values import (
    Problems,
    integer_problems,
    is_integer,
    is_of,
    is_text,
    is_tuple,
    shown,
    text_problems,
    tuple_problems,
    under,
)

__all__ = ["group_problems"]

_TASKS = "a number of tasks (an integer, 0 or more)"
_GROUPS = "a number of groups (an integer, 0 or more)"
_MOST_LEVELS = 100
"""How deep groups may be nested; what a job needs next is found recursively."""


def group_problems(job: JobInfo) -> Problems:
    """Yield the problems of a job's groups and maxima. O(groups log groups + tasks)."""
    if job.max_available is not None:
        yield from integer_problems(
            "max_available", job.max_available, f"{_TASKS} or None", least=0
        )
    if not is_tuple(job.groups):
        yield from tuple_problems("groups", job.groups, "TaskGroup")
        return
    named = yield from _named_groups(job.groups)
    if job.min_groups is not None:
        yield from integer_problems("min_groups", job.min_groups, f"{_GROUPS} or None", least=0)
    children: dict[str | None, list[str]] = {}
    for group in named.values():
        if group.parent is None or is_text(group.parent):
            children.setdefault(group.parent, []).append(group.name)
    is_sound = len(named) == len(job.groups)
    for name, group in named.items():
        for below, message in _one_group(group, named, len(children.get(name, ()))):
            is_sound = False
            yield f"groups[{name!r}].{below}", message
    for cycle in _cycles(named):
        is_sound = False
        path = " -> ".join(repr(name) for name in (*cycle, cycle[0]))
        message = f"expected a tree, got a cycle: {path}"
        yield f"groups[{cycle[0]!r}].parent", message
    for name in _too_deep(children):
        is_sound = False
        message = f"expected at most {_MOST_LEVELS} levels of groups, got one in a further level"
        yield f"groups[{name!r}].parent", message
    tops = len(children.get(None, ()))
    if is_integer(job.min_groups) and job.min_groups > tops and is_sound:
        is_sound = False
        yield (
            "min_groups",
            f"expected at most {tops}, the number of top-level groups, got {job.min_groups}",
        )
    yield from _maximum_problems(job, is_sound=is_sound)
    if is_tuple(job.tasks):
        yield from _task_problems(job, named, children)


def _named_groups(
    groups: Sequence[object],
) -> Generator[tuple[str, str], None, Mapping[str, TaskGroup]]:
    """Yield the problems of names; return the groups with valid names, by name."""
    named: dict[str, TaskGroup] = {}
    for position, group in enumerate(groups):
        if not is_of(group, TaskGroup):
            yield f"groups[{position}]", f"expected a TaskGroup, got {shown(group)}"
            continue
        problems = list(text_problems("name", group.name))
        if problems:
            yield from under(f"groups[{position}]", iter(problems))
        elif group.name in named:
            yield f"groups[{group.name!r}]", "expected a unique name, got it again"
        else:
            named[group.name] = group
    return named


def _one_group(group: TaskGroup, named: Mapping[str, TaskGroup], parts: int) -> Problems:
    """Yield the problems of a group that directly contains `parts` other groups."""
    if group.parent is not None:
        if not is_text(group.parent):
            yield "parent", f"expected a string, got {shown(group.parent)}"
        elif group.parent not in named:
            yield "parent", f"there is no group {group.parent!r} in this job"
    what = _GROUPS if parts else _TASKS
    if group.min is None and not parts:
        yield "min", f"expected {_TASKS} for a group of tasks, got None; use 0 for optional tasks"
    elif group.min is not None:
        problems = list(integer_problems("min", group.min, what, least=0))
        yield from problems
        if parts and not problems and group.min > parts:
            yield "min", f"expected at most {parts}, the number of groups in it, got {group.min}"
    if group.max is not None:
        yield from integer_problems("max", group.max, f"{what} or None", least=0)
        least = parts if group.min is None else group.min
        if is_integer(group.max) and is_integer(least) and 0 <= group.max < least:
            yield "max", f"expected at least its minimum, {least}, got {group.max}"


def _cycles(named: Mapping[str, TaskGroup]) -> Iterator[list[str]]:
    """Yield each cycle of parents once, starting with its first group by name."""
    done: set[str] = set()
    for start in sorted(named):
        path: dict[str, None] = {}
        name: object = start
        while is_text(name) and name in named and name not in done:
            if name in path:
                cycle = list(path)
                cycle = cycle[cycle.index(name) :]
                first = cycle.index(min(cycle))
                yield cycle[first:] + cycle[:first]
                break
            path[name] = None
            name = named[name].parent
        done.update(path)


def _too_deep(children: Mapping[str | None, Sequence[str]]) -> Sequence[str]:
    """Return the first groups of each branch that are nested too deep. O(groups)."""
    level = children.get(None, ())
    for _ in range(_MOST_LEVELS):
        level = [name for above in level for name in children.get(above, ())]
    return level


def _maximum_problems(job: JobInfo, *, is_sound: bool) -> Problems:
    most = job.max_available
    if not is_integer(most) or most < 0:
        return
    if is_integer(job.min_available) and job.min_available > most:
        yield "max_available", f"expected at least its minimum, {job.min_available}, got {most}"
    elif is_sound and job.groups and (least := least_tasks(job.groups, job.min_groups)) > most:
        yield (
            "max_available",
            f"expected at least {least}, the tasks that its groups need, got {most}",
        )


def _task_problems(
    job: JobInfo, named: Mapping[str, TaskGroup], children: Mapping[str | None, Sequence[str]]
) -> Problems:
    for task in job.tasks:
        if not is_of(task, TaskInfo):
            continue
        group: object = task.group
        path = f"tasks[{shown(task.uid)}].group"
        if group is None:
            if named:
                known = ", ".join(repr(name) for name in named if name not in children)
                yield path, f"expected a leaf of the job's groups ({known}), got None"
        elif not is_text(group):
            yield path, f"expected a string, got {shown(group)}"
        elif group not in named:
            yield path, f"there is no group {group!r} in this job"
        elif group in children:
            yield path, f"expected a leaf of the job's groups, got {group!r}, which has subgroups"
