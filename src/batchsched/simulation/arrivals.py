"""Arrivals of jobs: at the times of the log, or after the jobs that they depend on."""

from __future__ import annotations

from collections.abc import Callable

from batchsched.simulation.workload import Workload

__all__ = ["Arrivals"]


class Arrivals:
    """Passes arrivals on one instant at a time, so that the queue of events stays short.

    Args:
        workload: The jobs; they are identified by their index.
        push: Called with the time of each arrival and the job. Arrivals of the log come in order.
    """

    def __init__(self, workload: Workload, push: Callable[[float, int], object]) -> None:
        self._workload = workload
        self._submit = workload.submits
        self._push = push
        self._next = 0
        self._last = -1
        self._followers = dict[int, list[int]]()
        self._after = workload.after if workload.has_dependencies else None
        self.eligible: list[float | None] | None = None
        """When each job counted as submitted, if any job depends on another."""
        if self._after is not None:
            self._think = workload.think
            self.eligible = list(workload.submits)
            places = {each: index for index, each in enumerate(workload.ids)}
            for job, after in enumerate(self._after):
                if after is not None:
                    self._followers.setdefault(places[after], []).append(job)
                    self.eligible[job] = None

    def push_next(self) -> None:
        """Push all arrivals of the next instant. Call this again once the last is processed."""
        submit, after = self._submit, self._after
        place = self._next
        count = len(submit)
        instant = None
        while place < count and (instant is None or submit[place] == instant):
            if after is None or after[place] is None:
                instant = submit[place]
                self._push(instant, place)
                self._last = place
            place += 1
        self._next = place

    def is_last_known(self, job: int) -> bool:
        """Return whether this job is the last of the log whose arrival was pushed."""
        return job == self._last

    def push_followers(self, job: int, now: float) -> None:
        """Push the arrivals of the jobs that depend on this one, which has ended."""
        if self.eligible is not None:
            for follower in self._followers.get(job, ()):
                time = max(self._submit[follower], now + self._think[follower])
                self.eligible[follower] = time
                self._push(time, follower)

    def why_never(self, job: int) -> str | None:
        """Return why a job has never arrived; None if it has."""
        if self.eligible is None or self.eligible[job] is not None:
            return None
        return f"it depends on job {self._workload.after[job]!r}, which has not ended"
