"""Batch scheduling algorithms: gangs, queues, fairness, preemption, reclaim, backfill."""

from batchsched.errors import *  # noqa: F403  (provisional)
from batchsched.model import JobInfo, NodeInfo, Queue, ScoringRequest, TaskInfo
from batchsched.resources import Resource
from batchsched.result import CycleResult
from batchsched.snapshot import Snapshot
from batchsched.status import JobPhase, TaskStatus
