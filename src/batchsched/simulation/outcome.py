"""What an engine hands back: when each job started and ended.

This is the seam between what simulates and what is said about it. An engine is anything that takes
a workload, the run times to use and the settings, and returns an `Outcome`; all results, metrics,
explanations, comparisons and plots are made of that alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import Workload

__all__ = ["Engine", "Interval", "Outcome"]

Interval = tuple[int, float, float]
"""A time for which a job held its processors: its index, from when, until when."""


@frozen(kw_only=True)
class Outcome:
    """When each job started and ended, by its index in the workload."""

    starts: Sequence[float | None]
    """When each job started first; None for those that never did."""
    ends: Sequence[float | None]
    """When each job ended; None for those that never did."""
    eligible: Sequence[float | None] | None = None
    """When each job counted as submitted, if that is not as the workload says."""
    unfinished: Mapping[int, str] = field(factory=dict[int, str])
    """Why, of each job that never started or never ended."""
    endings: Mapping[int, str] = field(factory=dict[int, str])
    """How jobs ended that were `cancelled` or `failed`; metrics do not count them as ended."""
    predicted: Sequence[float] | None = None
    """What was believed of each job's run time as it arrived, if anything was."""
    held: Sequence[float] | None = None
    """For how long each job held its processors, if that is not the time from start to end."""
    preemptions: Sequence[int] | None = None
    """How often each job was stopped to start again later, if that can happen."""
    intervals: Sequence[Interval] | None = None
    """When jobs held their processors, if that is not from start to end."""
    parents: Mapping[str, str] = field(factory=dict[str, str])
    """Which queue each is a part of, where queues form a tree; as they were at the end."""


class Engine(Protocol):
    """What simulates: the pool of processors, lists on nodes, or a cluster with a scheduler."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate a workload, of which each job runs for the given time.

        It must come to an end, also when jobs wait that can never start; those are told of in
        `Outcome.unfinished`.
        """
        ...
