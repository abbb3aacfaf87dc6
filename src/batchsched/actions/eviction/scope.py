"""Which Running tasks an action may evict for a claimant, before plugins are consulted."""

from __future__ import annotations

from enum import Enum

from batchsched.session.session import Session
from batchsched.session.victims import Point
from batchsched.state.records import NodeState, TaskState

__all__ = ["EvictionScope", "candidates_on"]


class EvictionScope(Enum):
    """Which Running tasks may be evicted for a claimant, before plugins are consulted."""

    OTHER_JOBS = "other jobs of the same queue"
    SAME_JOB = "the same job"
    OTHER_QUEUES = "other queues"
    ANY_OTHER_JOB = "other jobs of any queue"

    @property
    def point(self) -> Point:
        """The plugin point whose verdicts count."""
        return "reclaimable" if self is EvictionScope.OTHER_QUEUES else "preemptable"


def candidates_on(
    session: Session, task: TaskState, scope: EvictionScope, node: NodeState
) -> list[TaskState]:
    """Return the Running tasks on a node that are within the scope for a claimant."""
    job = task.job
    assert job is not None
    running = session.running_on(node)
    match scope:
        case EvictionScope.OTHER_QUEUES:
            return running.of_other_queues(job.queue)
        case EvictionScope.OTHER_JOBS:
            return [other for other in running.of_queue(job.queue) if other.job is not job]
        case EvictionScope.SAME_JOB:
            return [other for other in running.all if other.job is job]
        case EvictionScope.ANY_OTHER_JOB:
            return [other for other in running.all if other.job is not job]
