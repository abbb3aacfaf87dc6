"""fcfs: jobs start in order of arrival, without overtaking."""

from __future__ import annotations

from attrs import frozen

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import Unfit, UnfitReason
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.changes import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState

__all__ = ["FcfsPlugin"]


@frozen(kw_only=True)
class FcfsPlugin:
    """Orders jobs by `JobInfo.creation_time`; a job may not start before earlier ones.

    This applies to the jobs of each queue. A job that has started (its minimum holds resources)
    does not block others.
    """

    strict: bool = True
    """Whether jobs wait for earlier jobs of their queue. If False, the plugin only orders jobs."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> FcfsPlugin:
        """Read ``strict``."""
        return cls(strict=arguments.boolean("strict", default=True))

    def open(self, _view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Strict() if self.strict else _InOrder()


class _InOrder:
    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def job_order_key(self, job: JobState, /) -> float:
        return job.info.creation_time


class _Strict(_InOrder):
    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        mine = _arrival(need.job)
        for job in queue.jobs:
            if _arrival(job) < mine and _waits_to_start(job):
                return Unfit(UnfitReason.NOT_ITS_TURN, "fcfs", job.uid)
        return None


def _arrival(job: JobState) -> tuple[float, str]:
    return job.info.creation_time, job.uid


def _waits_to_start(job: JobState) -> bool:
    return (
        job.in_session
        and (not job.ready_count or not job.has_minimum())
        and any(t.status is TaskStatus.PENDING and not t.is_best_effort for t in job.tasks)
    )
