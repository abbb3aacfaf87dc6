"""sjf: the job with the shortest expected run comes first."""

from __future__ import annotations

from attrs import frozen

from batchsched.plugin.arguments import Arguments
from batchsched.plugin.changes import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.records import JobState

__all__ = ["SjfPlugin"]


@frozen
class SjfPlugin:
    """Orders jobs by `JobInfo.expected_run`; jobs for which it is unknown come last."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> SjfPlugin:
        """Take no arguments."""
        return cls()

    def open(self, _view: SessionView, /) -> object:
        """Open for one cycle."""
        return _ShortestFirst()


class _ShortestFirst:
    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def job_order_key(self, job: JobState, /) -> tuple[int, float]:
        expected = job.info.expected_run
        return (1, 0.0) if expected is None else (0, expected)
