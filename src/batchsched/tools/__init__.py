"""Answers for people who run clusters: pure functions on snapshots, configurations and results."""

from batchsched.tools.check_config import Finding, check_config
from batchsched.tools.compare import Comparison, TaskChange, compare
from batchsched.tools.parting import Parting
from batchsched.tools.shrink import shrink
from batchsched.tools.what_if import Cheapest, CycleRun, WhatIf, cheapest, starts, what_if

__all__ = [
    "Cheapest",
    "Comparison",
    "CycleRun",
    "Finding",
    "Parting",
    "TaskChange",
    "WhatIf",
    "cheapest",
    "check_config",
    "compare",
    "shrink",
    "starts",
    "what_if",
]
