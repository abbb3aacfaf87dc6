"""las: the job with the least attained service comes first."""

from __future__ import annotations

from bisect import bisect_right

from attrs import frozen

from batchsched.model.cluster import TaskInfo
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.changes import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.records import JobState

__all__ = ["LasPlugin"]

_IN_THOUSANDTHS = 1000


@frozen(kw_only=True)
class LasPlugin:
    """Orders jobs by the service that their tasks have attained in all runs, including now.

    With levels, jobs on the same level are equal and start in order of arrival: discretised
    two-dimensional LAS in Gu et al., "Tiresias: A GPU cluster manager for distributed deep
    learning" (NSDI 2019). A run whose start is unknown does not count.
    """

    resource: str = "time"
    """Service is the time for which resources were held, in seconds, times the amount of this
    dimension in whole units (bytes of memory); ``time``: times 1."""
    levels: tuple[float, ...] = ()
    """The amounts of service at which the next level begins, ascending."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> LasPlugin:
        """Read ``resource`` and ``levels``, such as ``3250, 7200``."""
        return cls(
            resource=arguments.text("resource", default="time"),
            levels=arguments.ascending("levels"),
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _LeastAttained(self, view)


class _LeastAttained:
    def __init__(self, plugin: LasPlugin, view: SessionView) -> None:
        self._plugin = plugin
        self._view = view

    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def job_order_key(self, job: JobState, /) -> float:
        service = sum(self._service(task.info) for task in job.tasks)
        levels = self._plugin.levels
        return bisect_right(levels, service) if levels else service

    def _service(self, task: TaskInfo) -> float:
        seconds = task.seconds_held(self._view.now)
        match self._plugin.resource:
            case "time":
                return seconds
            case "cpu":
                return seconds * task.resreq.milli_cpu / _IN_THOUSANDTHS
            case "memory":
                return seconds * task.resreq.memory
            case name:
                return seconds * task.resreq.get(name) / _IN_THOUSANDTHS
