"""Tools for cluster operators: pure functions on snapshots, configurations and results."""

from batchsched.causes import About, JobStatus, Remedy
from batchsched.model.texts import describe_exports
from batchsched.tools.amounts import amount_text
from batchsched.tools.causes import Parting
from batchsched.tools.changes import (
    CycleRun,
    Released,
    describe_changes,
    duration,
    node_like,
    time_text,
)
from batchsched.tools.comparison import (
    CycleComparison,
    JobChange,
    RunComparison,
    TaskChange,
    compare,
)
from batchsched.tools.config_check import Finding, check_config, not_modelled
from batchsched.tools.cycles import find_cycles, next_round
from batchsched.tools.dispatching import (
    Dispatch,
    DispatchAnswer,
    DispatchState,
    dispatch,
    dispatch_all,
)
from batchsched.tools.estimates import (
    AsEstimated,
    Estimates,
    Fixed,
    History,
    any_job,
    by_user,
    by_user_and_name,
)
from batchsched.tools.eviction_story import (
    Broken,
    CalledIn,
    ClaimantFate,
    EvictionStory,
    LetGo,
    Limit,
    Priority,
    Rule,
    SameJob,
    Share,
    explain_eviction,
)
from batchsched.tools.explanation import Explanation, explain
from batchsched.tools.futures import Forecast, JobForecast, forecast
from batchsched.tools.moves import (
    FreeNodes,
    MovePlan,
    PlannedMove,
    PlannedStep,
    Room,
    plan_moves,
)
from batchsched.tools.ping_pong import PingPong, without_times
from batchsched.tools.queue_audit import Audit, OwedJob, QueueAudit, Taking, audit
from batchsched.tools.record import EventLog, Record, RecordedCycle, Recorder, Replay, replay
from batchsched.tools.report import Section
from batchsched.tools.shrinking import Shrunk, shrink
from batchsched.tools.standings import Blocker, JobStanding, standings
from batchsched.tools.trials import (
    Cheapest,
    WhatIf,
    cheapest,
    starts,
    what_if,
)

__all__ = [
    "About",
    "AsEstimated",
    "Audit",
    "Blocker",
    "Broken",
    "CalledIn",
    "Cheapest",
    "ClaimantFate",
    "CycleComparison",
    "CycleRun",
    "Dispatch",
    "DispatchAnswer",
    "DispatchState",
    "Estimates",
    "EventLog",
    "EvictionStory",
    "Explanation",
    "Finding",
    "Fixed",
    "Forecast",
    "FreeNodes",
    "History",
    "JobChange",
    "JobForecast",
    "JobStanding",
    "JobStatus",
    "LetGo",
    "Limit",
    "MovePlan",
    "OwedJob",
    "Parting",
    "PingPong",
    "PlannedMove",
    "PlannedStep",
    "Priority",
    "QueueAudit",
    "Record",
    "RecordedCycle",
    "Recorder",
    "Released",
    "Remedy",
    "Replay",
    "Room",
    "Rule",
    "RunComparison",
    "SameJob",
    "Section",
    "Share",
    "Shrunk",
    "Taking",
    "TaskChange",
    "WhatIf",
    "amount_text",
    "any_job",
    "audit",
    "by_user",
    "by_user_and_name",
    "cheapest",
    "check_config",
    "compare",
    "describe_changes",
    "dispatch",
    "dispatch_all",
    "duration",
    "explain",
    "explain_eviction",
    "find_cycles",
    "forecast",
    "next_round",
    "node_like",
    "not_modelled",
    "plan_moves",
    "replay",
    "shrink",
    "standings",
    "starts",
    "time_text",
    "what_if",
    "without_times",
]

describe_exports(__name__)
