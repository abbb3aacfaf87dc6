"""Compare two schedules of the same jobs."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from batchsched.errors import Fault
from batchsched.simulation.problems import SimulationError
from batchsched.simulation.record import Record
from batchsched.simulation.state import State, state_at
from batchsched.simulation.workload import JobId

__all__ = ["Comparison", "Difference", "compared"]


@frozen
class Difference:
    """The first time at which two schedules differ."""

    job: JobId
    """The job that one of them starts at that time."""
    start: float | None
    """When this run starts it; None: never."""
    other: float | None
    """When the other schedule starts it; None: never."""
    state: State
    """The waiting and running jobs just before, in this run."""
    other_state: State
    """The same in the other schedule, with the run times of this run."""


@frozen
class Comparison:
    """The number of equal starts, and the first difference."""

    equal: int
    compared: int
    """How many jobs are in both schedules."""
    only_here: int
    """How many jobs of this run are not in the other schedule."""
    only_there: int
    """How many jobs of the other schedule are not in this run."""
    first: Difference | None

    def __str__(self) -> str:
        lines = [f"{self.equal:,} of {self.compared:,} starts are equal"]
        if self.only_here or self.only_there:
            lines[0] += f" ({self.only_here:,} only here, {self.only_there:,} only there)"
        if self.first is not None:
            first = self.first
            lines += [
                f"first difference: job {first.job}",
                f"  starts here {_time(first.start)}, there {_time(first.other)}",
                f"  before it, here:  {first.state}",
                f"  before it, there: {first.other_state}",
            ]
        return "\n".join(lines)


def _time(time: float | None) -> str:
    return "never" if time is None else f"at {time:,} s"


def compared(run: Record, others: Mapping[JobId, float]) -> Comparison:
    """Compare the starts of a run with others."""
    if not isinstance(others, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"expected a Run, or a mapping from job ids to starts, got {others!r}"
        raise SimulationError([Fault("starts", message)])
    ours = run.starts_by_id()
    known = set(run.workload.ids)
    equal = both = 0
    different: list[tuple[float, int, JobId]] = []
    for index, each in enumerate(run.workload.ids):
        mine, other = ours.get(each), others.get(each)
        if mine is None and other is None:
            continue
        both += other is not None
        if mine == other:
            equal += 1
        elif other is not None:
            different.append((min(other, other if mine is None else mine), index, each))
    first = None
    if different:
        time, _, job = min(different)
        first = Difference(
            job,
            ours.get(job),
            others.get(job),
            state_at(run, time, ours),
            state_at(run, time, others),
        )
    return Comparison(
        equal,
        both,
        sum(each not in others for each in run.workload.ids),
        sum(each not in known for each in others),
        first,
    )
