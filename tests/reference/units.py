"""Units of eviction: tasks of a job that are evicted together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import frozen

from batchsched import JobInfo, TaskInfo, TaskStatus
from tests.reference.groups import Groups, has_groups
from tests.reference.plugins import is_broken
from tests.reference.state import State

__all__ = ["CORE", "REPLICA", "SURPLUS", "Unit", "units_of"]

CORE, REPLICA, SURPLUS = 0, 1, 2


@frozen
class Unit:
    """Tasks of a job that are evicted together or not at all."""

    job: JobInfo
    kind: int
    """0: the minimum of the job (its core); 1: an optional replica; 2: a single surplus task."""
    tasks: tuple[TaskInfo, ...]
    """Its own tasks, in task order."""
    victims: tuple[TaskInfo, ...]
    """The tasks evicted with it: with a core the whole job, with a replica's core the replica."""
    is_broken: bool = False
    """Whether it is the core of a broken job."""

    @property
    def uid(self) -> str:
        """The UID of its most valuable task, which tells it from all other units."""
        return self.tasks[0].uid

    @property
    def is_core(self) -> bool:
        """Whether it is the minimum of the job."""
        return self.kind == CORE

    @property
    def is_surplus(self) -> bool:
        """Whether it is a single surplus task."""
        return self.kind == SURPLUS


def units_of(
    state: State, job: JobInfo, in_order: Callable[[Iterable[TaskInfo]], list[TaskInfo]]
) -> list[Unit]:
    """Return the units of a job: its core, if it has one, and all others."""
    is_core_broken = is_broken(state, job)
    if has_groups(job):
        return [
            Unit(job, kind, tuple(tasks), tuple(victims), is_core_broken)
            for kind, tasks, victims in Groups(state, job).units(in_order)
        ]
    there = in_order(task for task in job.tasks if state.status(task).occupies)
    succeeded = sum(state.status(task) is TaskStatus.SUCCEEDED for task in job.tasks)
    needed = max(0, job.min_available - succeeded)
    core, surplus = there[:needed], there[needed:]
    units = [Unit(job, SURPLUS, (task,), (task,)) for task in surplus]
    if core:
        units.insert(0, Unit(job, CORE, tuple(core), tuple(there), is_core_broken))
    return units
