"""Explain why a job waited."""

from __future__ import annotations

from batchsched.simulation.record import Record
from batchsched.simulation.workload import JobId

__all__ = ["explained"]

SHOWN = 5


def explained(run: Record, job: JobId) -> str:
    """Explain why a job of a run waited as long as it did."""
    ids = run.workload.ids
    if job not in ids:
        raise KeyError(f"expected the id of a job of this run, got {job!r}")
    index = ids.index(job)
    start, submit = run.outcome.starts[index], run.submitted[index]
    size = run.workload.processors[index]
    what = f"job {job} ({size:,} processors"
    if submit is not None:
        what += f", submitted at {submit:,} s"
    what += ")"
    if start is None:
        why = run.outcome.unfinished.get(index, "the policy gives no reason")
        return f"{what} never started: {why}"
    assert submit is not None
    if start == submit:
        return f"{what} started when it was submitted."
    lines = [f"{what} waited for {start - submit:,} s, until {start:,} s."]
    lines += _at_submission(run, index, submit)
    lines += _meanwhile(run, index, submit, start)
    ended = [ids[other] for other, _, end in run.intervals if end == start and other != index]
    if ended:
        lines.append(f"When it started, {_jobs(ended)} had just ended.")
    return "\n".join(lines)


def _at_submission(run: Record, index: int, submit: float) -> list[str]:
    ids, sizes = run.workload.ids, run.workload.processors
    runs = [other for other, start, end in run.intervals if start <= submit < end]
    free = run.machine.processors - sum(sizes[other] for other in runs)
    ahead = [
        other
        for other, submitted in enumerate(run.submitted)
        if other != index
        and submitted is not None
        and (submitted, other) < (submit, index)
        and ((start := run.outcome.starts[other]) is None or start > submit)
    ]
    return [
        f"When it was submitted, {free:,} of {run.machine.processors:,} processors were free, "
        f"and {len(ahead):,} jobs were ahead of it"
        + (f" ({_jobs([ids[other] for other in ahead])})." if ahead else ".")
    ]


def _meanwhile(run: Record, index: int, submit: float, start: float) -> list[str]:
    ids, sizes = run.workload.ids, run.workload.processors
    overtook: list[JobId] = []
    before = 0
    for other, started in enumerate(run.outcome.starts):
        submitted = run.submitted[other]
        if started is None or submitted is None or other == index or not submit <= started < start:
            continue
        if (submitted, other) > (submit, index):
            overtook.append(ids[other])
        else:
            before += sizes[other]
    return [
        f"While it waited, jobs that were ahead started on {before:,} processors in all, and "
        f"{len(overtook):,} later jobs started before it"
        + (f" ({_jobs(overtook)})." if overtook else ".")
    ]


def _jobs(ids: list[JobId]) -> str:
    more = f" and {len(ids) - SHOWN:,} more" if len(ids) > SHOWN else ""
    return f"{'jobs' if len(ids) > 1 else 'job'} {', '.join(map(str, ids[:SHOWN]))}{more}"
