"""Metrics of a run, and the conventions that define them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import final

from attrs import frozen

from batchsched.errors import Fault
from batchsched.simulation.problems import SimulationError, is_number
from batchsched.simulation.record import Record
from batchsched.simulation.statistics import jain_index, mean, quantile
from batchsched.simulation.workload import JobId

__all__ = ["Jobs", "Metrics", "Part", "Percent", "Seconds", "metrics_of"]


@frozen
class Jobs:
    """This many jobs, those that end first (or last)."""

    count: int

    def __attrs_post_init__(self) -> None:
        _check(self.count, "Jobs.count")


@frozen
class Percent:
    """This percentage of the jobs, those that end first (or last); rounded down."""

    share: float

    def __attrs_post_init__(self) -> None:
        if not is_number(self.share, least=0, most=100):
            message = f"expected a number from 0 to 100, got {self.share!r}"
            raise SimulationError([Fault("Percent.share", message)])


@frozen
class Seconds:
    """The jobs that end in the first (or last) seconds of the run.

    The first are counted from the first submission, the last back from the last end.
    """

    time: float

    def __attrs_post_init__(self) -> None:
        _check(self.time, "Seconds.time")


Part = Jobs | Percent | Seconds
"""A part of a run at its beginning or end."""


def _check(value: float, name: str) -> None:
    if not is_number(value, least=0):
        raise SimulationError([Fault(name, f"expected a number, 0 or more, got {value!r}")])


ABOUT: Mapping[str, str] = {
    "jobs": "jobs that ended and are counted here",
    "bsld": "mean bounded slowdown: max(1, response / max(run time, tau))",
    "bsld_median": "median of the bounded slowdown",
    "bsld_max": "largest bounded slowdown",
    "bsld_per_processor": "mean of max(1, response / (processors x max(run time, tau)))",
    "wait": "mean seconds from submission to the first start",
    "wait_median": "median of the wait",
    "wait_p90": "90th percentile of the wait",
    "wait_p95": "95th percentile of the wait",
    "wait_p99": "99th percentile of the wait",
    "wait_max": "longest wait",
    "response": "mean seconds from submission to end (turnaround, flow time, completion time)",
    "response_median": "median of the response time",
    "response_p99": "99th percentile of the response time",
    "response_max": "longest response time",
    "pending": "mean seconds from submission to end in which a job held no processors",
    "utilisation": "processor seconds held by all jobs, divided by processors x makespan",
    "makespan": "seconds from the first submission to the last end, of all jobs",
    "jain_user": "Jain's index of the users' mean bounded slowdowns",
    "jain_queue": "Jain's index of the queues' mean bounded slowdowns",
    "ended_at_request": "jobs that were stopped at their requested time",
    "unfinished": "jobs that never ended; no other metric counts them",
    "cancelled": "jobs that were cancelled; only metrics of all jobs count them",
    "failed": "jobs that failed; only metrics of all jobs count them",
    "preemptions": "how often jobs were stopped and started again",
    "lost": "processor seconds that ended jobs held beyond their run times",
}
"""What each metric means. Percentiles are interpolated between neighbours. A job that depends on
another counts as submitted when that one has ended and the think time has passed."""


@final
class Metrics(Mapping[str, float]):
    """The metrics of a run by name; `about` explains each. `print` shows a table."""

    def __init__(self, figures: Mapping[str, float], tau: float) -> None:
        self._figures = dict(figures)
        self.tau = tau
        """The lower bound of run times in slowdowns, in seconds."""

    def __getitem__(self, name: str) -> float:
        return self._figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    @property
    def about(self) -> Mapping[str, str]:
        """What each metric means."""
        return {name: ABOUT[name] for name in self._figures}

    def __repr__(self) -> str:
        return f"Metrics({self._figures}, tau={self.tau:g})"

    def __str__(self) -> str:
        lines = [f"tau = {self.tau:g} s"]
        for name, value in self._figures.items():
            shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"
            lines.append(f"{name:<19} {shown:>20}  {ABOUT[name]}")
        return "\n".join(lines)


def metrics_of(
    run: Record,
    tau: float = 10,
    warm_up: Part | None = None,
    cool_down: Part | None = None,
    queue: str | None = None,
) -> Metrics:
    """Return the metrics of a run, or of the jobs of a queue and of the queues below it."""
    faults: list[Fault] = []
    if not is_number(tau, least=0, above=True):
        faults.append(Fault("tau", f"expected a number of seconds above 0, got {tau!r}"))
    for name, part in (("warm_up", warm_up), ("cool_down", cool_down)):
        is_part = part is None or isinstance(part, Part)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_part:
            message = f"expected Jobs(...), Percent(...), Seconds(...) or None, got {part!r}"
            faults.append(Fault(name, message))
    if faults:
        raise SimulationError(faults)
    jobs = run.jobs_below(queue)
    ended = [job for job in _counted(run, warm_up, cool_down) if job in jobs]
    workload, outcome = run.workload, run.outcome
    submitted, starts, ends, held = run.submitted, outcome.starts, outcome.ends, run.held
    waits: list[float] = []
    responses: list[float] = []
    slowdowns: list[float] = []
    by_processor: list[float] = []
    pending: list[float] = []
    for job in ended:
        submit, start, end = submitted[job], starts[job], ends[job]
        assert submit is not None
        assert start is not None
        assert end is not None
        waits.append(start - submit)
        responses.append(end - submit)
        pending.append(end - submit - held[job])
        bound = max(run.runs[job], tau)
        slowdowns.append(max(1, (end - submit) / bound))
        by_processor.append(max(1, (end - submit) / (workload.processors[job] * bound)))
    figures: dict[str, float] = {
        "jobs": len(ended),
        "bsld": mean(slowdowns),
        "bsld_median": quantile(sorted(slowdowns), 0.5),
        "bsld_max": max(slowdowns, default=0),
        "bsld_per_processor": mean(by_processor),
    }
    figures |= _spread("wait", waits, (0.9, 0.95, 0.99))
    figures |= _spread("response", responses, (0.99,))
    figures["pending"] = mean(pending)
    figures |= _of_all(run, jobs)
    for name, column in (("jain_user", workload.users), ("jain_queue", workload.queues)):
        groups = _grouped(ended, column, slowdowns)
        if groups:
            figures[name] = jain_index(mean(each) for each in groups.values())
    figures["ended_at_request"] = sum(run.runs[job] < workload.runs[job] for job in jobs)
    figures["unfinished"] = sum(job in jobs for job in outcome.unfinished)
    for ending in ("cancelled", "failed"):
        if outcome.endings:
            figures[ending] = sum(
                each == ending for job, each in outcome.endings.items() if job in jobs
            )
    if outcome.preemptions is not None:
        figures["preemptions"] = sum(outcome.preemptions[job] for job in jobs)
        figures["lost"] = sum(
            max(0, held[job] - run.runs[job]) * workload.processors[job] for job in ended
        )
    return Metrics(figures, tau)


def _spread(name: str, numbers: Sequence[float], shares: Sequence[float]) -> dict[str, float]:
    ordered = sorted(numbers)
    figures = {name: mean(numbers), f"{name}_median": quantile(ordered, 0.5)}
    figures |= {f"{name}_p{share * 100:.0f}": quantile(ordered, share) for share in shares}
    figures[f"{name}_max"] = ordered[-1] if ordered else 0
    return figures


def _of_all(run: Record, jobs: Collection[int]) -> dict[str, float]:
    ends = [end for end in run.outcome.ends if end is not None]
    makespan = max(ends) - run.workload.submits[0] if ends else 0
    sizes = run.workload.processors
    # In the order of the jobs, because sums of floats depend on the order.
    work = sum(held * sizes[job] for job, held in enumerate(run.held) if job in jobs)
    time = run.machine.processors * makespan
    return {"utilisation": work / time if time else 0.0, "makespan": makespan}


def _grouped(
    ended: Sequence[int], column: Sequence[JobId | None], values: Sequence[float]
) -> dict[JobId, list[float]]:
    groups: dict[JobId, list[float]] = {}
    for job, value in zip(ended, values, strict=True):
        name = column[job]
        if name is not None:
            groups.setdefault(name, []).append(value)
    return groups


def _counted(run: Record, warm_up: Part | None, cool_down: Part | None) -> list[int]:
    """Return the jobs that have ended, without the warm-up and the cool-down, in order."""
    by_end = sorted(
        (end, job)
        for job, end in enumerate(run.outcome.ends)
        if end is not None and job not in run.outcome.endings
    )
    if not by_end:
        return []
    first, last = run.workload.submits[0], by_end[-1][0]
    begin = _length(warm_up, by_end, lambda end: end < first + _time(warm_up))
    finish = _length(cool_down, by_end, lambda end: end > last - _time(cool_down))
    return sorted(job for _, job in by_end[begin : max(begin, len(by_end) - finish)])


def _time(part: Part | None) -> float:
    return part.time if isinstance(part, Seconds) else 0


def _length(
    part: Part | None, by_end: Sequence[tuple[float, int]], is_in: Callable[[float], bool]
) -> int:
    if part is None:
        return 0
    if isinstance(part, Jobs):
        return part.count
    if isinstance(part, Percent):
        return int(len(by_end) * part.share / 100)
    return sum(is_in(end) for end, _ in by_end)
