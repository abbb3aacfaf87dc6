"""The outcome of a simulation: when each job started and ended.

This is the interface between engines and results. An engine is anything that takes a workload, the
run times to use and the settings, and returns an `Outcome`; all results, metrics, explanations,
comparisons and plots are computed from that alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import Workload

__all__ = ["Engine", "Interval", "Outcome"]

Interval = tuple[int, float, float]
"""An interval in which a job held its processors: index of the job, start, end."""


@frozen(kw_only=True)
class Outcome:
    """When each job started and ended, by its index in the workload."""

    starts: Sequence[float | None]
    """The first start of each job; None if it never started."""
    ends: Sequence[float | None]
    """The end of each job; None if it never ended."""
    eligible: Sequence[float | None] | None = None
    """When each job counted as submitted, if it differs from the workload."""
    unfinished: Mapping[int, str] = field(factory=dict[int, str])
    """Job to the reason why it never started or never ended."""
    endings: Mapping[int, str] = field(factory=dict[int, str])
    """Job to `cancelled` or `failed`; metrics do not count these jobs as ended."""
    predicted: Sequence[float] | None = None
    """The predicted run time of each job at its arrival, if the policy predicts."""
    held: Sequence[float] | None = None
    """For how long each job held its processors, if not from start to end."""
    preemptions: Sequence[int] | None = None
    """How often each job was stopped to restart later, if that can happen."""
    intervals: Sequence[Interval] | None = None
    """When jobs held their processors, if not from start to end."""
    parents: Mapping[str, str] = field(factory=dict[str, str])
    """Queue to its parent, where queues form a tree; as of the end of the simulation."""


class Engine(Protocol):
    """A simulation engine: a pool of processors, jobs on nodes, or a cluster with a scheduler."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate a workload whose jobs run for the given times.

        It must end even if jobs wait that can never start; `Outcome.unfinished` lists those.
        """
        ...
