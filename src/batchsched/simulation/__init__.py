"""A simulator of batch scheduling that reproduces published results.

Run a log of jobs under a policy, and read off the results:

>>> from batchsched.simulation import Easy, read_swf, simulate
>>> lines = [
...     "; MaxProcs: 4",
...     "1 0 -1 100 3 -1 -1 3 120 -1 1 1 1 -1 -1 -1 -1 -1",
...     "2 1 -1 100 4 -1 -1 4 100 -1 1 2 1 -1 -1 -1 -1 -1",
...     "3 2 -1  50 1 -1 -1 1  60 -1 1 1 1 -1 -1 -1 -1 -1",
... ]
>>> workload, problems = read_swf(lines)
>>> run = simulate(workload, Easy())
>>> run.jobs["start"]
[0, 100, 2]
>>> round(run.metrics(tau=10)["bsld"], 2)
1.33
"""

from batchsched.model.texts import describe_exports
from batchsched.simulation.books import Consolidated, FirstFit, NodeChoice, Nodes
from batchsched.simulation.checks import JobId, PolicyError, Problem, SimulationError, WorkloadError
from batchsched.simulation.decisions import (
    Cause,
    Decision,
    NodeView,
    Resize,
    RunningJob,
    Start,
    Stop,
    WaitingJob,
    Wake,
)
from batchsched.simulation.engine import Decides, Policy
from batchsched.simulation.files import (
    MURI_START_COSTS,
    read_helios,
    read_muri,
    read_openb,
    read_philly,
    read_swf,
)
from batchsched.simulation.generation import (
    failures,
    generate,
    resampled_by_users,
    resampled_by_weeks,
)
from batchsched.simulation.jobs import Job, Machine
from batchsched.simulation.metrics import (
    Jobs,
    Margin,
    Metrics,
    Percent,
    Seconds,
    Spread,
    TieSensitivity,
)
from batchsched.simulation.policies import Conservative, Easy, Fcfs, ShortestFirst
from batchsched.simulation.predictors import (
    Corrector,
    Doubling,
    Increments,
    LastTwo,
    Perfect,
    Prediction,
    Predictor,
    Requested,
    Scaled,
    ToRequest,
)
from batchsched.simulation.preemptive import LeastAttainedService, Srsf, Srtf, SrtfInRounds
from batchsched.simulation.record import Comparison, Difference, State
from batchsched.simulation.run import Run, simulate
from batchsched.simulation.scheduled import Scheduled
from batchsched.simulation.settings import (
    Engine,
    Incident,
    Interval,
    JobCancelled,
    JobFailed,
    NodeDown,
    NodeDrained,
    NodesOfRun,
    NodeUp,
    Outcome,
    QueueSet,
    Reservation,
    Ties,
)
from batchsched.simulation.stepping import Simulation
from batchsched.simulation.sweeps import (
    Executor,
    NodesNeeded,
    Pair,
    Row,
    SweepTable,
    nodes_needed,
    sweep,
)
from batchsched.simulation.view import Profile, View
from batchsched.simulation.work import After, ByDistance, ByModel, Checkpoint, Cost, NoCost, Speed
from batchsched.simulation.workload import Workload

__all__ = [
    "MURI_START_COSTS",
    "After",
    "ByDistance",
    "ByModel",
    "Cause",
    "Checkpoint",
    "Comparison",
    "Conservative",
    "Consolidated",
    "Corrector",
    "Cost",
    "Decides",
    "Decision",
    "Difference",
    "Doubling",
    "Easy",
    "Engine",
    "Executor",
    "Fcfs",
    "FirstFit",
    "Incident",
    "Increments",
    "Interval",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobId",
    "Jobs",
    "LastTwo",
    "LeastAttainedService",
    "Machine",
    "Margin",
    "Metrics",
    "NoCost",
    "NodeChoice",
    "NodeDown",
    "NodeDrained",
    "NodeUp",
    "NodeView",
    "Nodes",
    "NodesNeeded",
    "NodesOfRun",
    "Outcome",
    "Pair",
    "Percent",
    "Perfect",
    "Policy",
    "PolicyError",
    "Prediction",
    "Predictor",
    "Problem",
    "Profile",
    "QueueSet",
    "Requested",
    "Reservation",
    "Resize",
    "Row",
    "Run",
    "RunningJob",
    "Scaled",
    "Scheduled",
    "Seconds",
    "ShortestFirst",
    "Simulation",
    "SimulationError",
    "Speed",
    "Spread",
    "Srsf",
    "Srtf",
    "SrtfInRounds",
    "Start",
    "State",
    "Stop",
    "SweepTable",
    "TieSensitivity",
    "Ties",
    "ToRequest",
    "View",
    "WaitingJob",
    "Wake",
    "Workload",
    "WorkloadError",
    "failures",
    "generate",
    "nodes_needed",
    "read_helios",
    "read_muri",
    "read_openb",
    "read_philly",
    "read_swf",
    "resampled_by_users",
    "resampled_by_weeks",
    "simulate",
    "sweep",
]

describe_exports(__name__)
