"""Figures of a simulation: metrics, series over time, sensitivity to ties, and a summary."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from math import exp, fsum, inf, lgamma, log, sqrt
from typing import Literal, NoReturn, cast, final, get_args

from attrs import evolve, frozen

from batchsched.errors import Fault, UnknownNameError
from batchsched.model.devices import DevicePick
from batchsched.model.texts import counted
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import is_of, is_text, shown
from batchsched.simulation.checks import (
    JobId,
    SimulationError,
    faults_of_count,
    faults_of_name,
    faults_of_seed,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.record import Columns, Record, of_one_type
from batchsched.simulation.settings import NodesOfRun, Ties, in_order
from batchsched.simulation.work import CPU

# Statistics


def mean(numbers: Sequence[float]) -> float:
    """Return the mean; 0 if there are no numbers."""
    return fsum(numbers) / len(numbers) if numbers else 0.0


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted numbers, interpolated between neighbours.

    >>> quantile([0, 10, 20, 30], 0.5)
    15.0
    """
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def jain_index(numbers: Iterable[float]) -> float:
    """Return Jain's index of fairness: 1 if all are equal, 1 / n if one of n has everything.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource
    Allocation in Shared Computer Systems", DEC-TR-301, 1984.

    >>> jain_index([1, 1, 0, 0])
    0.5
    """
    listed = list(numbers)
    squares = fsum(number * number for number in listed)
    return fsum(listed) ** 2 / (len(listed) * squares) if squares else 1.0


def confidence_interval(numbers: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of the mean, by Student's t distribution.

    It contains the true mean with probability `level`, if the numbers are independent and their
    mean is approximately normal. Needs two numbers or more.

    >>> low, high = confidence_interval([9.0, 10.0, 11.0])
    >>> round(low, 3), round(high, 3)
    (7.516, 12.484)
    """
    count = len(numbers)
    if count < 2:  # noqa: PLR2004
        raise ValueError(f"expected 2 numbers or more, got {count}")
    middle = mean(numbers)
    variance = fsum((number - middle) ** 2 for number in numbers) / (count - 1)
    reach = _t_quantile((1 + level) / 2, count - 1) * sqrt(variance / count)
    return middle - reach, middle + reach


def _t_quantile(probability: float, freedom: int) -> float:
    low, high = 0.0, 1.0
    while _t_distribution(high, freedom) < probability:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _t_distribution(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_distribution(t: float, freedom: int) -> float:
    return 1 - _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x)) / a
    tiny = 1e-300
    fraction, c, d = 1.0, 1.0, 0.0
    for step in range(1000):
        half = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / (1 + term * d or tiny)
        c = 1 + term / c or tiny
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:  # noqa: PLR2004
            break
    return front * (fraction - 1)


# Metrics, and the conventions that define them


@frozen
class Jobs:
    """This many jobs, those that end first (or last)."""

    count: int

    def __attrs_post_init__(self) -> None:
        _check("Jobs.count", self.count)


@frozen
class Percent:
    """This percentage of the jobs, those that end first (or last); rounded down."""

    share: float

    def __attrs_post_init__(self) -> None:
        _check("Percent.share", self.share, most=100)


@frozen
class Seconds:
    """The jobs that end in the first (or last) seconds of the run.

    The first are counted from the first submission, the last back from the last end.
    """

    time: float

    def __attrs_post_init__(self) -> None:
        _check("Seconds.time", self.time)


Margin = Jobs | Percent | Seconds
"""A part of a run at its beginning or end."""


def _check(path: str, value: float, most: float = inf) -> None:
    is_right = is_number(value, least=0, most=most)
    what = "a number, 0 or more" if most == inf else f"a number from 0 to {most}"
    refuse(SimulationError, faults_unless(is_right, path, what, value))


_ABOUT: Mapping[str, str] = {
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
    "utilisation": "processor seconds held by all jobs, divided by those in service",
    "makespan": "seconds from the first submission to the last end, of all jobs",
    "jain_user": "Jain's index of the users' mean bounded slowdowns",
    "jain_queue": "Jain's index of the queues' mean bounded slowdowns",
    "ended_at_request": "jobs that were stopped at their requested time",
    "unfinished": "jobs that never ended; no other metric counts them",
    "cancelled": "jobs that were cancelled; only metrics of all jobs count them",
    "failed": "jobs that failed; only metrics of all jobs count them",
    "preemptions": "how often jobs were stopped and started again",
    "lost": "processor seconds that ended jobs held beyond their run times",
    "availability": "node seconds in service, divided by all",
    "resizes": "how often running jobs got more or fewer tasks",
    "moves": "how often running jobs got as many tasks in other places",
    "lost_work": "work that was lost when jobs were stopped, in seconds x tasks that they need",
    "overhead": "seconds of starts, saving and resizes, in which jobs did not work",
    "late": "jobs that ended after their deadline, or never",
}
"""What each metric means. Percentiles are interpolated between neighbours. A job that depends on
another counts as submitted when that one has ended and the think time has passed."""


@final
class Metrics(dict[str, float]):
    """The metrics of a run by name; `about` explains each. `print` shows a table."""

    def __init__(self, figures: Mapping[str, float], tau: float) -> None:
        super().__init__(figures)
        self.tau = tau
        """The lower bound of run times in slowdowns, in seconds."""

    def __missing__(self, name: object) -> NoReturn:
        raise UnknownNameError(f"expected one of {', '.join(self)}; got {shown(name)}")

    @property
    def about(self) -> Mapping[str, str]:
        """What each metric means."""
        return {name: _about(name) for name in self}

    def __repr__(self) -> str:
        return f"Metrics({dict(self)}, tau={self.tau:g})"

    def __str__(self) -> str:
        lines = [f"tau = {self.tau:g} s"]
        for name, value in self.items():
            text = f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"
            lines.append(f"{name:<19} {text:>20}  {_about(name)}")
        return "\n".join(lines)


def _about(name: str) -> str:
    if name.startswith("utilisation["):
        return f"the same of {name[len('utilisation[') : -1]}"
    return _ABOUT[name]


def _of_courses(run: Record, jobs: Collection[int], ended: Sequence[int]) -> dict[str, float]:
    """Return figures of stops, resizes and deadlines, where there can be any."""
    outcome, workload, held = run.outcome, run.workload, run.held
    figures: dict[str, float] = {}
    listed = sorted(jobs)
    if outcome.preemptions is not None:
        figures["preemptions"] = sum(outcome.preemptions[job] for job in listed)
        figures["lost"] = sum(
            max(0, held[job] - run.runs[job]) * workload.processors[job] for job in ended
        )
    if outcome.lost_work is not None:
        sizes = workload.processors
        figures["lost_work"] = fsum(
            outcome.lost_work[job] * (sizes[job] if tasks is None else tasks.need)
            for job, tasks in zip(listed, map(workload.tasks, listed), strict=True)
        )
    for name in ("resizes", "moves", "overhead"):
        counts: Sequence[float] | None = getattr(outcome, name)
        if counts is not None:
            figures[name] = sum(counts[job] for job in listed)
    deadlines = cast("Sequence[float | None]", workload.column("deadline"))
    due = [(outcome.ends[job], by) for job in listed if (by := deadlines[job]) is not None]
    if due:
        figures["late"] = sum(end is None or end > by for end, by in due)
    return figures


def _spread(name: str, numbers: Sequence[float], shares: Sequence[float]) -> dict[str, float]:
    ordered = sorted(numbers)
    figures = {name: mean(numbers), f"{name}_median": quantile(ordered, 0.5)}
    figures |= {f"{name}_p{share * 100:.0f}": quantile(ordered, share) for share in shares}
    figures[f"{name}_max"] = ordered[-1] if ordered else 0
    return figures


def _of_machine(
    run: Record, jobs: Collection[int], window: tuple[float, float]
) -> dict[str, float]:
    ends = [end for end in run.outcome.ends if end is not None]
    makespan = max(ends) - run.workload.submits[0] if ends else 0
    begin, finish = window
    nodes = run.nodes_of_run
    held = [0.0] * len(nodes.dimensions)
    # In the order of the pieces, because sums of floats depend on the order.
    for job, start, end, _, _, amounts in nodes.pieces:
        seconds = min(end, finish) - max(start, begin)
        if seconds > 0 and job in jobs:
            for place, amount in enumerate(amounts):
                held[place] += amount * seconds
    length: float = max(0, finish - begin)
    in_service = _in_service(nodes, begin, finish)
    there = [fsum(amounts) for amounts in _there(nodes, in_service)]
    shares = [total / most if most else 0.0 for total, most in zip(held, there, strict=True)]
    figures: dict[str, float] = {"utilisation": shares[0], "makespan": makespan}
    if run.machine.infos:
        figures |= {
            f"utilisation[{name}]": share
            for name, share in zip(nodes.dimensions, shares, strict=True)
        }
    if run.outcome.nodes is not None:
        whole = length * len(in_service)
        figures["availability"] = fsum(in_service) / whole if whole else 1.0
    return figures


def _in_service(nodes: NodesOfRun, begin: float, finish: float) -> list[float]:
    """Return for how long each node was in service from one time to another."""
    seconds: list[float] = [max(0, finish - begin)] * len(nodes.names)
    for node, start, up in nodes.down:
        until = finish if up is None else min(up, finish)
        seconds[node] -= max(0, until - max(start, begin))
    return seconds


def _there(nodes: NodesOfRun, in_service: Sequence[float]) -> list[list[float]]:
    """Return what each node offered while it was in service, times seconds, by dimension."""
    return [
        [each[place] * time for each, time in zip(nodes.capacity, in_service, strict=True)]
        for place in range(len(nodes.dimensions))
    ]


def _grouped(
    ended: Sequence[int], column: Sequence[JobId | None], values: Sequence[float]
) -> dict[JobId, list[float]]:
    groups: dict[JobId, list[float]] = {}
    for job, value in zip(ended, values, strict=True):
        name = column[job]
        if name is not None:
            groups.setdefault(name, []).append(value)
    return groups


def _counted(
    run: Record, warm_up: Margin | None, cool_down: Margin | None
) -> tuple[list[int], tuple[float, float]]:
    """Return the jobs that count, those that have ended, in order; and the window of time."""
    by_end = sorted(
        (end, job)
        for job, end in enumerate(run.outcome.ends)
        if end is not None and job not in run.outcome.endings
    )
    first = run.workload.submits[0] if len(run.workload) else 0
    last = max((end for end in run.outcome.ends if end is not None), default=first)
    if not by_end:
        return [], (first, last)
    begin = _length(warm_up, by_end, lambda end: end < first + _time(warm_up))
    finish = _length(cool_down, by_end, lambda end: end > last - _time(cool_down))
    measured = by_end[begin : max(begin, len(by_end) - finish)]
    start, stop = first + _time(warm_up), last - _time(cool_down)
    if begin and not isinstance(warm_up, Seconds):
        start = by_end[min(begin, len(by_end)) - 1][0]
    if finish and not isinstance(cool_down, Seconds):
        stop = measured[-1][0] if measured else start
    return sorted(job for _, job in measured), (start, stop)


def _time(part: Margin | None) -> float:
    return part.time if isinstance(part, Seconds) else 0


def _length(
    part: Margin | None, by_end: Sequence[tuple[float, int]], is_in: Callable[[float], bool]
) -> int:
    if part is None:
        return 0
    if isinstance(part, Jobs):
        return part.count
    if isinstance(part, Percent):
        return int(len(by_end) * part.share / 100)
    return sum(is_in(end) for end, _ in by_end)


# Waiting and running jobs, and shares of the machine, over time


def processors_of(milli_cpu: int) -> float:
    """Return cpus; whole ones as whole numbers."""
    return milli_cpu / CPU if milli_cpu % CPU else milli_cpu // CPU


def _changes(
    run: Record, jobs: Collection[int]
) -> tuple[Sequence[str], Sequence[float], list[list[int]]]:
    """Return the names of dimensions, all times at which something changes, and what does.

    By row of these times: waiting jobs, what they need, running jobs, and what is held of each
    dimension. O(jobs log jobs).
    """
    nodes, submitted = run.outcome.nodes, run.submitted
    dimensions = ("cpu",) if nodes is None else nodes.dimensions
    pieces = () if nodes is None else nodes.pieces
    moments = set[float]()
    for some in (run.intervals, pieces):
        for job, start, end, *_ in some:
            if job in jobs:
                moments.add(start)
                moments.add(end)
    for job, submit in enumerate(submitted):
        if submit is not None and job in jobs:
            moments.add(submit)
    times = sorted(moments)
    row_of = dict(zip(times, range(len(times)), strict=True))
    queued, needed, running, *held = ([0] * len(times) for _ in range(3 + len(dimensions)))
    sizes = run.workload.processors
    left = dict[int, int]()  # when each job held processors last
    for job, start, end in run.intervals:
        if job in jobs:
            row, last, size = row_of[start], row_of[end], sizes[job]
            queued[row] -= 1
            queued[last] += 1
            needed[row] -= size
            needed[last] += size
            running[row] += 1
            running[last] -= 1
            left[job] = last
            if nodes is None:
                held[0][row] += CPU * size
                held[0][last] -= CPU * size
    for job, start, end, _, _, amounts in pieces:
        if job in jobs:
            row, last = row_of[start], row_of[end]
            for of_dimension, amount in zip(held, amounts, strict=True):
                of_dimension[row] += amount
                of_dimension[last] -= amount
    for job, submit in enumerate(submitted):
        if submit is not None and job in jobs:
            row = row_of[submit]
            queued[row] += 1
            needed[row] += sizes[job]
            if run.outcome.ends[job] is not None:
                last = left.get(job, row)
                queued[last] -= 1
                needed[last] -= sizes[job]
    return dimensions, times, [queued, needed, running, *held]


def _check_step(run: Record, step: float) -> None:
    is_right = is_number(step, least=0, above=True)
    refuse(SimulationError, faults_unless(is_right, "step", "seconds above 0", step))
    ends = [end for _, _, end in run.intervals]
    length = max(ends) - run.workload.submits[0] if ends else 0
    least = length / _MOST_ROWS
    if step < least:
        message = f"expected {least:g} seconds or more, for {_MOST_ROWS:,} rows, got {step!r}"
        raise SimulationError.at("step", message)


_MOST_ROWS = 10_000_000
"""The most rows of a table over time."""


def _shown_pick(pick: DevicePick) -> str:
    shown = "/".join(filter(None, pick.device))
    parts = " ".join(f"{name}={amount}" for name, amount in sorted((pick.amounts or {}).items()))
    return f"{shown} ({parts})" if parts else shown


# Sensitivity to the order of ties


@frozen
class Spread:
    """A metric of a run, and of the same run with random orders of ties."""

    here: float
    """The value in this run."""
    values: tuple[float, ...]
    """The value for each random order."""

    @property
    def least(self) -> float:
        """The smallest of all values."""
        return min(self.here, *self.values)

    @property
    def greatest(self) -> float:
        """The largest of all values."""
        return max(self.here, *self.values)

    @property
    def percent(self) -> float:
        """Largest minus smallest value, in per cent of the value in this run."""
        return 100 * (self.greatest - self.least) / self.here if self.here else 0.0


@frozen
class TieSensitivity:
    """How much each metric varies with the order of ties."""

    orders: int
    """The number of random orders."""
    spreads: Mapping[str, Spread]
    """The values by the name of the metric."""

    def __getitem__(self, name: str) -> Spread:
        return self.spreads[name]

    def __str__(self) -> str:
        lines = [
            f"{self.orders} random orders of ties",
            f"{'':<12} {'here':>14} {'least':>14} {'mean':>14} {'greatest':>14} {'spread':>8}",
        ]
        lines += [
            f"{name:<12} {spread.here:>14,.4f} {spread.least:>14,.4f} {mean(spread.values):>14,.4f}"
            f" {spread.greatest:>14,.4f} {spread.percent:>6.2f} %"
            for name, spread in self.spreads.items()
        ]
        return "\n".join(lines)


_MOST_ORDERS = 1_000_000
"""The most random orders of ties; each is a simulation."""


# The figures of a run


@frozen(kw_only=True, slots=False, repr=False, eq=False)
class Figures(Record):
    """The figures of a run, computed from when each job started and ended."""

    def metrics(
        self,
        tau: float = 10,
        *,
        warm_up: Margin | None = None,
        cool_down: Margin | None = None,
        queue: str | None = None,
    ) -> Metrics:
        """Return the metrics of the run by name: `run.metrics()["bsld"]`.

        Args:
            tau: The lower bound of run times in slowdowns, in seconds.
            warm_up: The jobs that end first and are left out, because the machine was not yet busy:
                `Percent(1)`, `Jobs(100)` or `Seconds(3600)`.
            cool_down: The same for the jobs that end last.
            queue: Count only jobs of this queue and of those below it. The makespan is still that
                of all jobs, and utilisation is the share of the whole machine that these jobs held.

        Raises:
            SimulationError: tau is not a number above 0, or no job is in that queue.
        """
        is_right = is_number(tau, least=0, above=True)
        faults = [*faults_unless(is_right, "tau", "a number of seconds above 0", tau)]
        for name, part in (("warm_up", warm_up), ("cool_down", cool_down)):
            is_right = part is None or any(is_of(part, kind) for kind in get_args(Margin))
            what = "Jobs(...), Percent(...), Seconds(...) or None"
            faults += faults_unless(is_right, name, what, part)
        refuse(SimulationError, faults)
        jobs = self.jobs_below(queue)
        measured, window = _counted(self, warm_up, cool_down)
        ended = [job for job in measured if job in jobs]
        workload, outcome = self.workload, self.outcome
        submitted, starts, ends, held = self.submitted, outcome.starts, outcome.ends, self.held
        waits, responses, pending = list[float](), list[float](), list[float]()
        slowdowns, by_processor = list[float](), list[float]()
        for job in ended:
            submit, start, end = submitted[job], starts[job], ends[job]
            assert submit is not None
            assert start is not None
            assert end is not None
            waits.append(start - submit)
            responses.append(end - submit)
            pending.append(end - submit - held[job])
            bound = max(self.runs[job], tau)
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
        figures |= _of_machine(self, jobs, window)
        for name, column in (("jain_user", workload.users), ("jain_queue", workload.queues)):
            groups = _grouped(ended, column, slowdowns)
            if groups:
                figures[name] = jain_index(mean(each) for each in groups.values())
        figures["ended_at_request"] = sum(self.runs[job] < workload.runs[job] for job in jobs)
        figures["unfinished"] = sum(job in jobs for job in outcome.unfinished)
        endings = Counter(each for job, each in outcome.endings.items() if job in jobs)
        if outcome.endings:
            figures |= {ending: endings[ending] for ending in ("cancelled", "failed")}
        figures |= _of_courses(self, jobs, ended)
        return Metrics(figures, tau)

    def series(
        self, step: float | None = None, *, queue: str | None = None
    ) -> dict[str, list[float]]:
        """Return the waiting and running jobs over time, as columns.

        `time`, `queued` (jobs), `queued_processors` (that they need), `running` (jobs), `busy`
        (processors), `utilisation` (their share). Each row applies until the time of the next.

        Args:
            step: The seconds between rows, from the first submission on. None: a row for each
                time at which something changes.
            queue: Count only jobs of this queue and of those below it.

        Raises:
            SimulationError: step is not a number above 0, or no job is in that queue.
        """
        if step is not None:
            _check_step(self, step)
        dimensions, times, changes = _changes(self, self.jobs_below(queue))
        rows_shown: Sequence[int] | None = None
        sampled = times
        if step is not None and times:
            whole = int((times[-1] - times[0]) / step) + 1  # rounded: it may be one too many
            sampled = [time for n in range(whole + 1) if (time := times[0] + n * step) <= times[-1]]
            rows_shown = [bisect_right(times, time) - 1 for time in sampled]

        def summed(changes: Sequence[int]) -> list[int]:
            sums = list(accumulate(changes))
            return sums if rows_shown is None else [sums[row] for row in rows_shown]

        queued, needed, running, *held = map(summed, changes)
        processors = self.machine.processors
        columns: dict[str, Sequence[float]] = {
            "time": sampled,
            "queued": queued,
            "queued_processors": needed,
            "running": running,
            "busy": [*map(processors_of, held[0])],
            "utilisation": [amount / CPU / processors for amount in held[0]],
            **{
                f"busy[{name}]": amounts
                for name, amounts in zip(dimensions, held, strict=True)
                if self.machine.infos
            },
        }
        return {name: of_one_type(column) for name, column in columns.items()}

    def shares(
        self, by: Literal["user", "queue"] = "user", step: float = 86400
    ) -> dict[str, list[float]]:
        """Return the share of the machine that each user or queue held in each step of time.

        The columns are `time`, the beginning of each step, and one for each user or queue; jobs
        that name none are left out. In a tree of queues, inner queues have columns too: the sums
        over the queues below them.
        """
        _check_step(self, step)
        refuse(SimulationError, faults_of_name("by", by, ("user", "queue")))
        holders: Sequence[tuple[str, ...]] = self.queue_paths
        if by == "user":
            holders = [() if user is None else (str(user),) for user in self.workload.users]
        if not self.intervals:
            return {"time": []}
        first = self.workload.submits[0]
        count = int((max(end for _, _, end in self.intervals) - first) // step) + 1
        held = {
            name: [0.0] * count for name in sorted({name for names in holders for name in names})
        }
        for job, start, end, _, _, amounts in self.nodes_of_run.pieces:
            columns = [held[name] for name in holders[job]]
            for place in range(int((start - first) // step), int((end - first) // step) + 1):
                begin = first + place * step
                seconds = max(0.0, min(end, begin + step) - max(start, begin))
                amount = amounts[0] / CPU * seconds
                for column in columns:
                    column[place] += amount
        total = self.machine.processors * step
        return {
            "time": of_one_type(first + place * step for place in range(count)),
            **{name: [amount / total for amount in column] for name, column in held.items()},
        }

    def nodes(self) -> Columns:
        """Return a row for each node, from the first submission to the last end.

        `node`, `in_service` (seconds), `jobs` (that were there), `failures`, and for each dimension
        `held[...]` (times seconds) and `utilisation[...]` (of what was in service).
        """
        nodes = self.nodes_of_run
        _, (begin, finish) = _counted(self, None, None)
        in_service = _in_service(nodes, begin, finish)
        failures = Counter(node for node, _, _ in nodes.down)
        jobs: list[set[int]] = [set() for _ in nodes.names]
        held = [[0.0] * len(nodes.dimensions) for _ in nodes.names]
        for job, start, end, node, _, amounts in nodes.pieces:
            jobs[node].add(job)
            for place, amount in enumerate(amounts):
                held[node][place] += amount * max(0, min(end, finish) - max(start, begin))
        columns = Columns(
            node=list(nodes.names),
            in_service=list(in_service),
            jobs=[len(each) for each in jobs],
            failures=[failures[node] for node in range(len(nodes.names))],
        )
        there = _there(nodes, in_service)
        for name, amounts, most in zip(
            nodes.dimensions, zip(*held, strict=True), there, strict=True
        ):
            columns[f"held[{name}]"] = list(amounts)
            columns[f"utilisation[{name}]"] = [
                amount / all_of_it if all_of_it else 0.0
                for amount, all_of_it in zip(amounts, most, strict=True)
            ]
        return Columns({name: of_one_type(column) for name, column in columns.items()})

    def placements(self) -> Columns:
        """Return a row for each time that a job held the same on a node.

        `job`, `start`, `end`, `node`, `tasks`, and what was held of each dimension, such as `cpu`
        (in thousandths), in order of start, job and node. `devices`, where tasks had some, names
        them as driver, pool and name, with the part of each that was taken.
        """
        nodes = self.nodes_of_run
        order = in_order(nodes.pieces)
        pieces = [nodes.pieces[number] for number in order]
        ids = self.workload.ids
        columns = Columns(
            job=[ids[job] for job, *_ in pieces],
            start=[start for _, start, *_ in pieces],
            end=[end for _, _, end, *_ in pieces],
            node=[nodes.names[piece[3]] for piece in pieces],
            tasks=[piece[4] for piece in pieces],
        )
        for place, name in enumerate(nodes.dimensions):
            columns[name] = [piece[5][place] for piece in pieces]
        if nodes.devices:
            columns["devices"] = [
                ", ".join(map(_shown_pick, nodes.devices.get(number, ()))) or None
                for number in order
            ]
        return Columns({name: of_one_type(column) for name, column in columns.items()})

    @checks_arguments(SimulationError)
    def tie_sensitivity(
        self, orders: int = 20, seed: int = 1, metrics: Iterable[str] = ("bsld", "wait", "response")
    ) -> TieSensitivity:
        """Run again with random orders of ties; return how much metrics vary from that alone.

        Cost: `orders` simulations.
        """
        faults = faults_of_count("orders", orders, 1, most=_MOST_ORDERS)
        refuse(SimulationError, faults, faults_of_seed(seed))
        here, names = self.metrics(), tuple(metrics)
        unknown = [name for name in names if not is_text(name) or name not in here]
        what = f"expected one of {', '.join(here)}; got"
        refuse(SimulationError, [Fault("metrics", f"{what} {shown(name)}") for name in unknown])
        values: dict[str, list[float]] = {name: [] for name in names}
        for number in range(orders):
            # Calls with neighbouring seeds use disjoint seeds of ties.
            ties = Ties(seed=seed * 1_000_003 + number)
            settings = evolve(self.settings, ties=ties, progress=None)
            outcome = self.policy.run(self.workload, self.runs, settings)
            figures = evolve(self, settings=settings, outcome=outcome).metrics()
            for name, found in values.items():
                found.append(figures[name])
        return TieSensitivity(
            orders, {name: Spread(here[name], tuple(each)) for name, each in values.items()}
        )

    def __str__(self) -> str:
        metrics = self.metrics()
        lines = [
            f"{self.policy}: {counted(len(self.workload), 'job')} on {self.machine}",
            f"{'':<18} {'mean':>12} {'median':>12} {'99 %':>12} {'longest':>12}",
            *(
                f"{f'{name} (s)':<18} "
                + " ".join(
                    f"{metrics[name + of]:>12,.0f}" for of in ("", "_median", "_p99", "_max")
                )
                for name in ("wait", "response")
            ),
            "{:<18} {:>12,.2f} {:>12,.2f} {:>25,.2f}".format(
                "bounded slowdown", *(metrics[f"bsld{of}"] for of in ("", "_median", "_max"))
            ),
            f"utilisation {metrics['utilisation']:.1%}, makespan {metrics['makespan']:,.0f} s",
            f"bounded slowdown: mean of max(1, response / max(run time, {metrics.tau:g} s))",
            f"rules: {self.settings}",
        ]
        for name, what in (
            ("ended_at_request", "were stopped at their requested time"),
            ("unfinished", "never ended"),
        ):
            if metrics[name]:
                lines.append(f"{metrics[name]:,.0f} jobs {what}")
        return "\n".join(lines)
