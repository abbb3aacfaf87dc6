"""Build the groups of a job's tasks, valid by construction, from a drawn number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import evolve

from batchsched.model.cluster import JobInfo, TaskGroup, least_tasks

__all__ = ["grouped"]

# Remainders of a draft modulo 16; below all of these a job has neither groups nor a maximum.
_HAVE_MAXIMUM = range(6, 8)
_HAVE_ROLES = range(8, 10)
_HAVE_REPLICAS = range(10, 13)
_HAVE_TREES = range(13, 16)


def grouped(job: JobInfo, draft: int, *, may_be_invalid: bool) -> JobInfo:
    """Return a job with the groups and the maximum that a draft from 0 to 255 describes.

    Args:
        job: a job without groups.
        draft: the drawn number; 0 changes nothing.
        may_be_invalid: whether groups may need more tasks than they have.

    """
    choice, kind = divmod(draft, 16)
    if kind < _HAVE_MAXIMUM.start:
        return job
    if kind in _HAVE_MAXIMUM:
        return evolve(job, max_available=job.min_available + choice % 4)
    leaves = _leaves(kind)
    turn = choice // 8
    of = [leaves[(number + turn) % len(leaves)] for number in range(len(job.tasks))]
    there = Counter(of)
    groups: list[TaskGroup] = []
    for number, name in enumerate(leaves):
        least = _least(kind, choice, number)
        if not may_be_invalid:
            least = min(least, there[name])
        most = least + choice % 2 if choice % 5 == number + 1 else None
        groups.append(TaskGroup(name, parent=_parent(kind, name), min=least, max=most))
    tops = list(dict.fromkeys(group.parent for group in groups if group.parent is not None))
    groups += [_replica(name, choice) for name in tops]
    count = len(tops) or len(leaves)
    min_groups = None if choice % 3 == 0 or kind in _HAVE_ROLES else max(0, count - choice % 3)
    with_groups = evolve(
        job,
        tasks=[evolve(task, group=name) for task, name in zip(job.tasks, of, strict=True)],
        groups=groups[::-1] if turn else groups,
        min_groups=min_groups,
    )
    if choice % 4 != 3:
        return with_groups
    least = max(job.min_available, least_tasks(with_groups.groups, min_groups))
    return evolve(with_groups, max_available=least + choice % 2)


def _leaves(kind: int) -> Sequence[str]:
    if kind in _HAVE_ROLES:
        return ("driver", "worker")
    if kind in _HAVE_REPLICAS:
        return tuple(f"replica-{number}" for number in range(2 + kind % 2))
    return tuple(f"{role}-{number}" for number in range(2) for role in ("leader", "worker"))


def _parent(kind: int, name: str) -> str | None:
    return f"replica-{name[-1]}" if kind in _HAVE_TREES else None


def _least(kind: int, choice: int, number: int) -> int:
    if kind in _HAVE_REPLICAS:
        return 1 + choice % 2
    return 1 if number % 2 == 0 else choice % 3


def _replica(name: str, choice: int) -> TaskGroup:
    """Return a group of two groups; one of them may be enough, and may be the most allowed."""
    least = 1 if choice % 4 == 2 else None
    return TaskGroup(name, min=least, max=1 if least and choice % 8 == 2 else None)
