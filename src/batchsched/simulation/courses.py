"""When jobs arrive, run and end where running jobs may be stopped, and nodes are not told."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf

from batchsched.simulation.arrivals import Arrivals
from batchsched.simulation.settings import Interval, Outcome
from batchsched.simulation.workload import Workload


class Courses:
    """When jobs arrive, run and end in a simulation in which running jobs may be stopped."""

    def __init__(self, workload: Workload) -> None:
        count = len(workload)
        self.ends: list[float | None] = [None] * count
        self.preemptions = [0] * count
        """How often each job was stopped before its end."""
        self.since = dict[int, float]()
        """When each running job was started last."""
        self._workload = workload
        self._starts: list[float | None] = [None] * count
        self._intervals: list[Interval] = []
        self._coming: list[tuple[float, int]] = []
        self._arrivals = Arrivals(workload, lambda time, job: heappush(self._coming, (time, job)))
        self._arrivals.push_next()

    def next_arrival(self) -> float:
        """Return the time of the next arrival; infinity if none is known."""
        return self._coming[0][0] if self._coming else inf

    def arrived_by(self, now: float) -> Iterator[int]:
        """Yield the jobs that have arrived by now, each once, in order."""
        while self._coming and self._coming[0][0] <= now:
            _, job = heappop(self._coming)
            yield job
            if self._arrivals.is_last_known(job):
                self._arrivals.push_next()

    def start(self, job: int, now: float) -> None:
        """Start a job, or start it again."""
        self.since[job] = now
        if self._starts[job] is None:
            self._starts[job] = now

    def stop(self, job: int, now: float) -> None:
        """Stop a running job, which will be started again."""
        self.preemptions[job] += 1
        self._intervals.append((job, self.since.pop(job), now))

    def end(self, job: int, now: float) -> None:
        """End a running job."""
        self._intervals.append((job, self.since.pop(job), now))
        self.ends[job] = now
        self._arrivals.happened(job, now, "ended")

    def outcome(self) -> Outcome:
        """Return the outcome; jobs that never ended cannot be placed, or never arrived."""
        held: list[float] = [0] * len(self.ends)
        for job, start, end in self._intervals:
            held[job] += end - start
        return Outcome(
            starts=self._starts,
            ends=self.ends,
            held=held,
            preemptions=self.preemptions,
            intervals=sorted(self._intervals),
            eligible=self._arrivals.eligible,
            unfinished={
                job: self._arrivals.why_never(job)
                or f"its {self._workload.processors[job]} processors cannot be placed on "
                f"{self._workload.machine}, even if nothing else runs"
                for job, end in enumerate(self.ends)
                if end is None
            },
        )
