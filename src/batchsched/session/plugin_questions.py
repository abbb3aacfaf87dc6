"""The plugins' combined answers on jobs, queues and tasks, for actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import JobCondition, QueueShare, Unfit
from batchsched.session.plugin_set import PluginSet
from batchsched.session.victims import Victims
from batchsched.state.ledger import Ledger
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.turn_order import SortKey

__all__ = ["PluginQuestions"]


class PluginQuestions:
    """The combined answers of all plugins on the tasks, jobs and queues of a ledger."""

    ledger: Ledger
    plugin_set: PluginSet

    # Readiness and queues

    def job_ready(self, job: JobState) -> bool:
        """Return whether the job's allocated tasks may be bound."""
        return self.plugin_set.job_ready(job)

    def job_pipelined(self, job: JobState) -> bool:
        """Return whether the promises to the job are enough for it to start."""
        return self.plugin_set.job_pipelined(job)

    def job_condition_ready(self, job: JobState) -> bool:
        """Return whether the job is ready or conditionally ready."""
        return self.plugin_set.job_condition_ready(job)

    def job_valid(self, job: JobState) -> JobCondition | None:
        """Return why the job is invalid, or None."""
        return self.plugin_set.job_valid(job)

    def overused(self, queue: QueueState) -> bool:
        """Return whether the queue has its deserved share."""
        return self.plugin_set.overused(queue)

    def allocatable(self, queue: QueueState, need: Need) -> Unfit | None:
        """Return why the queue may not allocate the need, or None."""
        return self.plugin_set.allocatable(queue, need)

    def queue_share(self, queue: QueueState) -> QueueShare | None:
        """Return what a queue deserves and has, if a plugin knows."""
        share = self.plugin_set.queue_share(queue)
        if share is None:
            return None
        deserved, allocated = map(self.ledger.dimensions.resource, share)
        return QueueShare(deserved=deserved, allocated=allocated)

    def preemptable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Victims:
        """Return the candidates that may be evicted for a task of their own queue."""
        return self.plugin_set.eviction.preemptable(claimant, candidates)

    def reclaimable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Victims:
        """Return the candidates that may be evicted for a task of another queue."""
        return self.plugin_set.eviction.reclaimable(claimant, candidates)

    def is_starving(self, job: JobState, threshold: float) -> bool:
        """Return whether a job has waited more than `threshold` seconds and is still not ready."""
        return (
            self.ledger.now - job.info.creation_time > threshold
            and not self.job_ready(job)
            and not self.job_condition_ready(job)
        )

    # Orders

    def job_order_key(self, job: JobState) -> SortKey:
        """Return the key of a job in job order; the smallest comes first."""
        return self.plugin_set.job_key(job)

    def queue_order_key(self, queue: QueueState) -> SortKey:
        """Return the key of a queue in queue order; the smallest comes first."""
        return self.plugin_set.queue_key(queue)

    def task_order_key(self, task: TaskState) -> SortKey:
        """Return the key of a task in task order; the smallest comes first."""
        return self.plugin_set.task_key(task)

    def in_task_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Return `tasks` in task order."""
        return sorted(tasks, key=self.plugin_set.task_key)

    def in_victim_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Return `tasks` in victim order, the least valuable first."""
        return sorted(tasks, key=self.plugin_set.task_key, reverse=True)

    def whole_job(self, job: JobState) -> list[TaskState]:
        """Return the tasks that are evicted with a whole job, in victim order. O(tasks)."""
        return self.in_victim_order(job.having(TaskStatus.RUNNING))
