"""Workload (a): the openb cluster, as the program has it."""

from __future__ import annotations

from batchsched import SchedulerConfig
from batchsched_cli.openb import make_snapshot, read_shapes
from benchmarks.workloads.scenario import Scenario

__all__ = ["openb"]


def openb(scale: float) -> Scenario:
    """Return the openb nodes, empty, and its tasks, one job each, in four queues."""
    return Scenario(snapshot=make_snapshot(read_shapes(), scale), config=SchedulerConfig())
