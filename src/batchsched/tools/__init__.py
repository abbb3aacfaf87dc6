"""Answers for people who run clusters: pure functions on snapshots, configurations and results."""

from batchsched.tools.check_config import Finding, check_config
from batchsched.tools.compare import Comparison, TaskChange, compare
from batchsched.tools.parting import Parting
from batchsched.tools.shrink import shrink

__all__ = ["Comparison", "Finding", "Parting", "TaskChange", "check_config", "compare", "shrink"]
