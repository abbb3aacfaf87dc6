"""What waits and what runs at one moment of a schedule, in words."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from batchsched.simulation.record import Record
from batchsched.simulation.workload import JobId

__all__ = ["State", "state_at"]

SHOWN = 10
"""How many jobs are named."""


@frozen
class State:
    """What waits and what runs at one moment, by a schedule."""

    time: float
    free: int
    """How many processors are free."""
    running: tuple[JobId, ...]
    """The jobs that run, in order of submission."""
    waiting: tuple[JobId, ...]
    """The jobs that wait, in order of submission."""

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
    """Return what the state would be just before this time, if jobs had these starts."""
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
