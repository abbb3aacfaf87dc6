"""Answers for people who run clusters: pure functions on snapshots, configurations and results."""

from batchsched.tools.check_config import Finding, check_config
from batchsched.tools.compare import Comparison, TaskChange, compare
from batchsched.tools.explain import explain
from batchsched.tools.explanation import Explanation
from batchsched.tools.parting import Parting
from batchsched.tools.record import EventLog, Record, RecordedCycle, Recorder, Replay, replay
from batchsched.tools.shrink import shrink
from batchsched.tools.what_if import Cheapest, CycleRun, WhatIf, cheapest, starts, what_if

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
