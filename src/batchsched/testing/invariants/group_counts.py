"""What the groups of a job need and have, computed from the input alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from batchsched.model.cluster import JobInfo, TaskGroup

__all__ = ["GroupCounts", "is_elastic", "least_tasks"]


def is_elastic(job: JobInfo) -> bool:
    """Return whether a job has groups or a maximum, so that its next tasks are placed together."""
    return bool(job.groups) or job.max_available is not None


def least_tasks(job: JobInfo) -> int:
    """Return the least number of tasks with which a job can start."""
    return max(job.min_available, _least(job, None)) if job.groups else job.min_available


def _least(job: JobInfo, name: str | None) -> int:
    within = [group for group in job.groups if group.parent == name]
    if name is not None and not within:
        return _named(job, name).min or 0
    needed = job.min_groups if name is None else _named(job, name).min
    return sum(sorted(_least(job, group.name) for group in within)[:needed])


def _named(job: JobInfo, name: str) -> TaskGroup:
    return next(group for group in job.groups if group.name == name)


@frozen
class GroupCounts:
    """The number of counted tasks in each group of a job."""

    job: JobInfo
    tasks: Mapping[str | None, int]
    """By the group that the task names; None: the tasks of a job without groups."""

    @property
    def total(self) -> int:
        """How many tasks count."""
        return sum(self.tasks.values())

    def can_start(self) -> bool:
        """Return whether the counted tasks are enough for the job to start."""
        return self.has(None) and self.total >= least_tasks(self.job)

    def has(self, name: str | None) -> bool:
        """Return whether a group has what it needs; None: all groups that the job needs."""
        within = [group.name for group in self.job.groups if group.parent == name]
        if name is None:
            needed = self.job.min_groups
        else:
            needed = _named(self.job, name).min
            if not within:
                return self.tasks.get(name, 0) >= (needed or 0)
        return sum(map(self.has, within)) >= (len(within) if needed is None else needed)

    def within(self, name: str) -> int:
        """Return how many tasks count in a group and in the groups in it."""
        below = [group.name for group in self.job.groups if group.parent == name]
        return self.tasks.get(name, 0) + sum(map(self.within, below))

    def used(self) -> Iterator[tuple[str | None, int | None, int]]:
        """Yield the job (None) and each group with its maximum and its count.

        The count is of tasks; for a group of groups, of the groups with any counted task.
        """
        yield None, self.job.max_available, self.total
        for group in self.job.groups:
            below = [other.name for other in self.job.groups if other.parent == group.name]
            parts = sum(self.within(name) > 0 for name in below)
            yield group.name, group.max, parts if below else self.within(group.name)

    def lacking(self) -> Iterator[str]:
        """Yield the incomplete groups that are not in a complete group."""
        for group in self.job.groups:
            if not any(self.has(name) for name in self.path(group.name)):
                yield group.name

    def path(self, name: str) -> Iterator[str]:
        """Yield a group and all groups above it."""
        above: str | None = name
        while above is not None:
            yield above
            above = _named(self.job, above).parent
