"""The waiting and running jobs at one time of a schedule."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from batchsched.simulation.record import Record
from batchsched.simulation.workload import JobId

__all__ = ["State", "state_at"]

SHOWN = 10
"""The most jobs that are listed."""


@frozen
class State:
    """The waiting and running jobs at one time of a schedule."""

    time: float
    free: int
    """The number of free processors."""
    running: tuple[JobId, ...]
    """The running jobs, in order of submission."""
    waiting: tuple[JobId, ...]
    """The waiting jobs, in order of submission."""

    def __str__(self) -> str:
        return (
            f"{self.free:,} processors free; {_named('running', self.running)}; "
            f"{_named('waiting', self.waiting)}"
        )


def _named(what: str, jobs: tuple[JobId, ...]) -> str:
    if not jobs:
        return f"0 {what}"
    more = f" and {len(jobs) - SHOWN:,} more" if len(jobs) > SHOWN else ""
    return f"{len(jobs):,} {what} ({', '.join(map(str, jobs[:SHOWN]))}{more})"


def state_at(run: Record, time: float, starts: Mapping[JobId, float]) -> State:
    """Return the state just before a time, given the starts of jobs."""
    running: list[JobId] = []
    waiting: list[JobId] = []
    free = run.machine.processors
    for job, each in enumerate(run.workload.ids):
        submit = run.submitted[job]
        if submit is None or submit > time:
            continue
        start = starts.get(each)
        if start is None or start >= time:
            waiting.append(each)
        elif start + run.held[job] > time:
            running.append(each)
            free -= run.workload.processors[job]
    return State(time, free, tuple(running), tuple(waiting))
