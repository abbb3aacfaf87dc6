"""Tools for cluster operators: pure functions on snapshots, configurations and results."""

from batchsched.tools.comparison import Comparison, Parting, TaskChange, compare
from batchsched.tools.config_check import Finding, check_config
from batchsched.tools.explainer import explain
from batchsched.tools.explanation import Explanation
from batchsched.tools.record import EventLog, Record, RecordedCycle, Recorder, Replay, replay
from batchsched.tools.shrinking import shrink
from batchsched.tools.trials import Cheapest, CycleRun, WhatIf, cheapest, starts, what_if

__all__ = [
    "Cheapest",
    "Comparison",
    "CycleRun",
    "EventLog",
    "Explanation",
    "Finding",
    "Parting",
    "Record",
    "RecordedCycle",
    "Recorder",
    "Replay",
    "TaskChange",
    "WhatIf",
    "cheapest",
    "check_config",
    "compare",
    "explain",
    "replay",
    "shrink",
    "starts",
    "what_if",
]
