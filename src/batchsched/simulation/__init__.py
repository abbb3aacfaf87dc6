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

from batchsched.simulation.comparison import Comparison, Difference
from batchsched.simulation.conservative import Conservative
from batchsched.simulation.costs import ByDistance, ByModel, Cost, NoCost
from batchsched.simulation.deciding import DecidingPolicy, RunningJob, View, WaitingJob
from batchsched.simulation.easy import Easy
from batchsched.simulation.generation import generate
from batchsched.simulation.in_order import Fcfs, ShortestFirst
from batchsched.simulation.incidents import (
    Incident,
    JobCancelled,
    JobFailed,
    NodeDown,
    NodeDrained,
    NodeUp,
    QueueSet,
)
from batchsched.simulation.metrics import Jobs, Metrics, Part, Percent, Seconds
from batchsched.simulation.outcome import Engine, Interval, Outcome
from batchsched.simulation.placement import Consolidated, FirstFit, Nodes, Placement
from batchsched.simulation.policy import Policy
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
from batchsched.simulation.preemptive import LeastAttainedService, Srsf, Srtf
from batchsched.simulation.problems import PolicyError, Problem, SimulationError, WorkloadError
from batchsched.simulation.readers import (
    MURI_START_COSTS,
    read_helios,
    read_muri,
    read_openb,
    read_philly,
)
from batchsched.simulation.resampling import resampled_by_users, resampled_by_weeks
from batchsched.simulation.rounds import SrtfInRounds
from batchsched.simulation.run import Run
from batchsched.simulation.scheduled import Scheduled
from batchsched.simulation.sensitivity import Spread, TieSensitivity
from batchsched.simulation.simulator import simulate
from batchsched.simulation.state import State
from batchsched.simulation.sweeps import Executor, Pair, Row, SweepTable, sweep
from batchsched.simulation.swf import read_swf
from batchsched.simulation.ties import Ties
from batchsched.simulation.workload import Job, JobId, Machine, Workload

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
