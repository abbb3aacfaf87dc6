"""The record of a simulation: its inputs and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.simulation.outcome import Interval, Outcome
from batchsched.simulation.policy import Policy
from batchsched.simulation.problems import SimulationError
from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import JobId, Machine, Workload

__all__ = ["Record"]


@frozen(kw_only=True, slots=False, repr=False)
class Record:
    """The inputs of a simulation, and when each job started and ended."""

    workload: Workload
    policy: Policy
    settings: Settings
    runs: Sequence[float] = field(repr=False)
    """The run time of each job in the simulation; shorter than in the workload for jobs that were
    stopped at their requested time."""
    outcome: Outcome = field(repr=False)

    @property
    def machine(self) -> Machine:
        """The machine that the jobs ran on."""
        assert self.workload.machine is not None
        return self.workload.machine

    @cached_property
    def submitted(self) -> Sequence[float | None]:
        """When each job counted as submitted; None if the job that it depends on never ended."""
        return self.outcome.eligible or self.workload.submits

    @cached_property
    def held(self) -> Sequence[float]:
        """The seconds for which each job held its processors."""
        if self.outcome.held is not None:
            return self.outcome.held
        return [
            end - start if start is not None and end is not None else 0
            for start, end in zip(self.outcome.starts, self.outcome.ends, strict=True)
        ]

    @cached_property
    def intervals(self) -> Sequence[Interval]:
        """When jobs held their processors: index of the job, start, end."""
        if self.outcome.intervals is not None:
            return self.outcome.intervals
        return [
            (job, start, end)
            for job, (start, end) in enumerate(
                zip(self.outcome.starts, self.outcome.ends, strict=True)
            )
            if start is not None and end is not None
        ]

    @cached_property
    def queue_paths(self) -> Sequence[tuple[str, ...]]:
        """The queue of each job and all queues above it; empty for jobs that name no queue."""
        parents = self.outcome.parents
        paths: dict[JobId | None, tuple[str, ...]] = {None: ()}
        for name in self.workload.queues:
            if name not in paths:
                path = [str(name)]
                while path[-1] in parents:
                    path.append(parents[path[-1]])
                paths[name] = tuple(path)
        return [paths[name] for name in self.workload.queues]

    def jobs_below(self, queue: str | None) -> frozenset[int]:
        """Return the jobs of a queue and of all queues below it, by index; None: all jobs.

        Raises:
            SimulationError: No job is in this queue or in a queue below it.
        """
        if queue is None:
            return frozenset(range(len(self.workload)))
        jobs = frozenset(job for job, path in enumerate(self.queue_paths) if queue in path)
        if not jobs:
            known = sorted({name for path in self.queue_paths for name in path})
            named = ", ".join(known) or "no job has any"
            message = f"expected a queue of some job ({named}), got {queue!r}"
            raise SimulationError([Fault("queue", message)])
        return jobs

    def starts_by_id(self) -> dict[JobId, float]:
        """Return the start of each job by its id, without jobs that never started."""
        return {
            each: start
            for each, start in zip(self.workload.ids, self.outcome.starts, strict=True)
            if start is not None
        }
