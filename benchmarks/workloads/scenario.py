"""What a workload is: a named, scalable recipe for a scenario; and a scenario: what is run."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from batchsched import CycleResult, SchedulerConfig, Snapshot, TaskStatus

__all__ = ["Advance", "Scenario", "Workload", "pending_tasks", "protecting", "scaled"]

Advance = Callable[[Snapshot, CycleResult], Snapshot]
"""From a snapshot and what was decided on it, the snapshot of the next cycle."""


@frozen(kw_only=True)
class Scenario:
    """Something to schedule: a snapshot, a configuration, and for how many cycles."""

    snapshot: Snapshot
    config: SchedulerConfig
    cycles: int = 1
    advance: Callable[[], Advance] | None = None
    """Begins a history of several cycles; each history begins anew with the same seed."""


@frozen(kw_only=True)
class Workload:
    """A named recipe for scenarios of one kind."""

    name: str
    letter: str
    """Its letter in the list of workloads that the project measures."""
    description: str
    make: Callable[[float], Scenario]
    """From a scale, 1 for the full size, a scenario: nodes and tasks shrink alike."""
    growth_from: str | None = None
    """The workload whose time per task this one's is compared with."""


def scaled(size: int, scale: float) -> int:
    """Return a size at a scale; at least 1."""
    return max(1, round(size * scale))


def pending_tasks(snapshot: Snapshot) -> int:
    """Return how many tasks wait in a snapshot. O(tasks)."""
    return sum(task.status is TaskStatus.PENDING for job in snapshot.jobs for task in job.tasks)


def protecting(actions: str) -> SchedulerConfig:
    """Return a configuration with the plugins that are the default, where gangs keep their minimum.

    So it was where no tiers are named, before jobs at their minimum could be evicted as a whole:
    workloads that must compare with older results name the tiers.
    """
    tiers = (("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder"))
    return SchedulerConfig.from_mapping(
        {"actions": actions, "tiers": [{"plugins": list(plugins)} for plugins in tiers]}
    )
