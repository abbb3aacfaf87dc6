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

from batchsched.simulation.files import (
    MURI_START_COSTS,
    read_helios,
    read_muri,
    read_openb,
    read_philly,
    read_swf,
)
from batchsched.simulation.generation import generate, resampled_by_users, resampled_by_weeks
from batchsched.simulation.metrics import (
    Jobs,
    Metrics,
    Part,
    Percent,
    Seconds,
    Spread,
    TieSensitivity,
)
from batchsched.simulation.nodes import (
    ByDistance,
    ByModel,
    Consolidated,
    Cost,
    FirstFit,
    NoCost,
    Nodes,
    Placement,
)
from batchsched.simulation.policy import Engine, Interval, Outcome, Policy, Ties
from batchsched.simulation.pool_policies import (
    Conservative,
    DecidingPolicy,
    Easy,
    Fcfs,
    RunningJob,
    ShortestFirst,
    View,
    WaitingJob,
)
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
from batchsched.simulation.scheduled import (
    Incident,
    JobCancelled,
    JobFailed,
    NodeDown,
    NodeDrained,
    NodeUp,
    QueueSet,
    Scheduled,
)
from batchsched.simulation.sweeps import Executor, Pair, Row, SweepTable, sweep
from batchsched.simulation.workload import (
    Job,
    JobId,
    Machine,
    PolicyError,
    Problem,
    SimulationError,
    Workload,
    WorkloadError,
)

__all__ = [
    "MURI_START_COSTS",
    "ByDistance",
    "ByModel",
    "Comparison",
    "Conservative",
    "Consolidated",
    "Corrector",
    "Cost",
    "DecidingPolicy",
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
    "Metrics",
    "NoCost",
    "NodeDown",
    "NodeDrained",
    "NodeUp",
    "Nodes",
    "Outcome",
    "Pair",
    "Part",
    "Percent",
    "Perfect",
    "Placement",
    "Policy",
    "PolicyError",
    "Prediction",
    "Predictor",
    "Problem",
    "QueueSet",
    "Requested",
    "Row",
    "Run",
    "RunningJob",
    "Scaled",
    "Scheduled",
    "Seconds",
    "ShortestFirst",
    "SimulationError",
    "Spread",
    "Srsf",
    "Srtf",
    "SrtfInRounds",
    "State",
    "SweepTable",
    "TieSensitivity",
    "Ties",
    "ToRequest",
    "View",
    "WaitingJob",
    "Workload",
    "WorkloadError",
    "generate",
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
