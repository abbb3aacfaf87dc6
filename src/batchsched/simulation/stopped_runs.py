"""The outcome of a simulation in which jobs are stopped and resumed."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.simulation.arrivals import Arrivals
from batchsched.simulation.outcome import Interval, Outcome
from batchsched.simulation.workload import Workload

__all__ = ["outcome_of_intervals"]


def outcome_of_intervals(
    workload: Workload,
    arrivals: Arrivals,
    *,
    starts: Sequence[float | None],
    ends: Sequence[float | None],
    preemptions: Sequence[int],
    intervals: Sequence[Interval],
) -> Outcome:
    """Return the outcome; jobs that never ended have no possible placement or never arrived."""
    held: list[float] = [0] * len(starts)
    for job, start, end in intervals:
        held[job] += end - start
    return Outcome(
        starts=starts,
        ends=ends,
        held=held,
        preemptions=preemptions,
        intervals=sorted(intervals),
        eligible=arrivals.eligible,
        unfinished={
            job: arrivals.why_never(job)
            or f"its {workload.processors[job]} processors cannot be placed on "
            f"{workload.machine}, even if nothing else runs"
            for job, end in enumerate(ends)
            if end is None
        },
    )
