"""Waiting and running jobs, and shares of the machine, over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from batchsched.errors import Fault
from batchsched.simulation.problems import SimulationError, is_number
from batchsched.simulation.record import Record

__all__ = ["series_of", "shares_of"]


def series_of(run: Record, step: float | None, queue: str | None = None) -> dict[str, list[float]]:
    """Return the waiting and running jobs over time, as columns."""
    _check_step(step)
    jobs = run.jobs_below(queue)
    changes: dict[float, list[int]] = {}
    sizes = run.workload.processors

    def change(time: float, column: int, job: int, sign: int) -> None:
        row = changes.setdefault(time, [0, 0, 0, 0])
        row[column] += sign
        row[column + 1] += sign * sizes[job]

    queued, running = 0, 2
    in_service: dict[int, list[tuple[float, float]]] = {}
    for job, start, end in run.intervals:
        if job not in jobs:
            continue
        in_service.setdefault(job, []).append((start, end))
        change(start, running, job, 1)
        change(end, running, job, -1)
    for job, submit in enumerate(run.submitted):
        if submit is None or job not in jobs:
            continue
        since = submit
        change(submit, queued, job, 1)
        for start, end in in_service.get(job, ()):
            change(start, queued, job, -1)
            since = end
            change(end, queued, job, 1)
        if run.outcome.ends[job] is not None:
            change(since, queued, job, -1)
    times, rows = _summed(changes)
    if step is not None:
        times, rows = _sampled(times, rows, step)
    return {
        "time": times,
        "queued": [row[0] for row in rows],
        "queued_processors": [row[1] for row in rows],
        "running": [row[2] for row in rows],
        "busy": [row[3] for row in rows],
        "utilisation": [row[3] / run.machine.processors for row in rows],
    }


def _summed(changes: dict[float, list[int]]) -> tuple[list[float], list[list[int]]]:
    times = sorted(changes)
    rows: list[list[int]] = []
    state = [0, 0, 0, 0]
    for time in times:
        state = [value + change for value, change in zip(state, changes[time], strict=True)]
        rows.append(state)
    return times, rows


def _sampled(
    times: list[float], rows: list[list[int]], step: float
) -> tuple[list[float], list[list[int]]]:
    sampled: list[float] = []
    states: list[list[int]] = []
    if not times:
        return sampled, states
    place, number = 0, 0
    while (time := times[0] + number * step) <= times[-1]:
        while place + 1 < len(times) and times[place + 1] <= time:
            place += 1
        sampled.append(time)
        states.append(rows[place])
        number += 1
    return sampled, states


def shares_of(run: Record, by: Literal["user", "queue"], step: float) -> dict[str, list[float]]:
    """Return the share of the machine that each user or queue held in each step of time.

    A queue includes the queues below it.
    """
    _check_step(step)
    if by not in ("user", "queue"):
        raise SimulationError([Fault("by", f"expected 'user' or 'queue', got {by!r}")])
    holders: Sequence[tuple[str, ...]] = run.queue_paths
    if by == "user":
        holders = [() if user is None else (str(user),) for user in run.workload.users]
    if not run.intervals:
        return {"time": []}
    first = run.workload.submits[0]
    count = int((max(end for _, _, end in run.intervals) - first) // step) + 1
    held = {name: [0.0] * count for name in sorted({name for names in holders for name in names})}
    for job, start, end in run.intervals:
        columns = [held[name] for name in holders[job]]
        for place in range(int((start - first) // step), int((end - first) // step) + 1):
            begin = first + place * step
            amount = run.workload.processors[job] * max(
                0.0, min(end, begin + step) - max(start, begin)
            )
            for column in columns:
                column[place] += amount
    total = run.machine.processors * step
    return {
        "time": [first + place * step for place in range(count)],
        **{name: [amount / total for amount in column] for name, column in held.items()},
    }


def _check_step(step: float | None) -> None:
    if step is not None and not is_number(step, least=0, above=True):
        raise SimulationError([Fault("step", f"expected seconds above 0, got {step!r}")])
