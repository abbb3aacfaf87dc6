"""An engine: the event loop on a pool of equal processors.

A policy's scheduler keeps the queue; the pool keeps the running jobs and the clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final, Protocol

from batchsched.errors import Fault
from batchsched.model.validation.values import shown
from batchsched.simulation.policy import Outcome, Settings
from batchsched.simulation.predictors import Corrector, Prediction, Predictor
from batchsched.simulation.randomness import RandomNumbers
from batchsched.simulation.workload import PolicyError, SimulationError, Workload, faults_of_part


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


_DUE: Final = -1
_CORRECTION: Final = 0
_ARRIVAL: Final = 1
_END: Final = 2
_PROMISE: Final = 3
_KINDS: Final = {"correction": _CORRECTION, "arrival": _ARRIVAL, "end": _END, "promise": _PROMISE}
_REPORT_EVERY: Final = 1000
"""The number of jobs that end between two calls of `progress`."""


class PoolScheduler(Protocol):
    """The state of a policy during one simulation on a pool."""

    def arrived(self, job: int) -> bool:
        """Put a job into the queue; return whether `decide` should run."""
        ...

    def released(self, job: int) -> None:
        """Called when a job has released its processors, which may be before its end event."""

    def corrected(self, job: int) -> None:
        """Called when a running job is now expected to end later."""

    def decide(self) -> None:
        """Start the jobs that should start now, with `Pool.start`."""

    def why_waiting(self, job: int) -> str:
        """Return why this job has not started, when no event is left."""
        ...


class Pool:
    """Processors, and the jobs that run on them. Jobs are identified by index in the workload."""

    __slots__ = (
        "_corrections", "_corrector", "_due_first", "_order", "_rank", "_requested", "_sequence",
        "ended_at", "estimate", "events", "expected", "first_estimate", "free", "ids", "now",
        "processors", "running", "runs", "size", "started_at", "submit", "wakes_at",
    )  # fmt: skip

    def __init__(
        self,
        workload: Workload,
        runs: Sequence[float],
        settings: Settings,
        corrector: Corrector | None,
    ) -> None:
        assert workload.machine is not None
        count = len(workload)
        self.processors = workload.machine.processors
        self.free = self.processors
        self.now: float = 0
        self.wakes_at: float = inf
        self.ids = workload.ids
        self.submit = workload.submits
        self.size = workload.processors
        self.runs = runs
        self.estimate: list[float] = [
            inf if limit is None else limit for limit in workload.requested
        ]
        """The predicted run time of each job, from its arrival on. Without a predictor it is the
        requested time, which then only affects the order of ends (`Ties`). Infinity: unknown."""
        self.expected: list[float] = [0] * count
        """The expected end of each running job."""
        self.started_at: list[float | None] = [None] * count
        self.ended_at: list[float | None] = [None] * count
        self.running: list[tuple[float, int]] = []
        """The expected ends of running jobs, with the jobs, sorted."""
        self.events: list[tuple[float, int, int, int, int]] = []
        self._sequence = count
        self._corrector = corrector
        self._corrections = dict[int, int]()
        self._requested = workload.requested if corrector is not None else ()
        self.first_estimate = dict[int, float]()
        self._due_first = settings.ties.due_first and settings.ties.seed is None
        self._order = {_KINDS[kind]: place for place, kind in enumerate(settings.ties.order)}
        self._order[_DUE] = -1
        self._rank = None
        if settings.ties.seed is not None:
            self._rank = RandomNumbers(settings.ties.seed).bits

    def push(self, time: float, kind: int, job: int, sequence: int | None = None) -> None:
        """Schedule an event of a job at this time."""
        if sequence is None:
            self._sequence = sequence = self._sequence + 1
        rank = self._order[kind] if self._rank is None else self._rank()
        heappush(self.events, (time, rank, sequence, kind, job))

    def wake(self, time: float) -> None:
        """Schedule a call of `decide` at this time, replacing the time set before."""
        if time != self.wakes_at:
            self.wakes_at = time
            if time < inf:
                self.push(time, _PROMISE, -1)

    def start(self, job: int) -> None:
        """Start a job now; it must be waiting and fit."""
        size = self.size[job]
        if size > self.free or self.started_at[job] is not None:
            raise PolicyError(
                f"expected a waiting job that fits, got job {self.ids[job]!r}, which at "
                f"{self.now} s {'does not fit' if size > self.free else 'was started before'}"
            )
        now = self.now
        estimate, run = self.estimate[job], self.runs[job]
        self.free -= size
        self.started_at[job] = now
        self.expected[job] = expected = now + estimate
        insort(self.running, (expected, job))
        self._sequence = sequence = self._sequence + 1
        self.push(now + run, _END, job, sequence)
        if self._corrector is not None and run > estimate:
            self.push(expected, _CORRECTION, job)
        elif run == estimate and self._due_first:
            self.push(expected, _DUE, job, sequence)

    def release(self, job: int) -> bool:
        """Release a job's processors; return whether it still held them."""
        key = (self.expected[job], job)
        place = bisect_left(self.running, key)
        if place == len(self.running) or self.running[place] != key:
            return False
        del self.running[place]
        self.free += self.size[job]
        return True

    def correct(self, job: int) -> None:
        """Correct the prediction of a job that runs longer than predicted."""
        assert self._corrector is not None
        started = self.started_at[job]
        assert started is not None
        first = self.first_estimate.setdefault(job, self.estimate[job])
        last = self.estimate[job]
        count = self._corrections.get(job, 0)
        self._corrections[job] = count + 1
        estimate = self._corrector.correct(first, last, count, self._requested[job] or 0)
        if not estimate > last:
            raise PolicyError(
                f"expected the corrector {self._corrector} to return more than the {last!r} s that "
                f"the job has run, got {shown(estimate)} s"
            )
        del self.running[bisect_left(self.running, (self.expected[job], job))]
        self.estimate[job] = estimate
        self.expected[job] = expected = started + estimate
        insort(self.running, (expected, job))
        run = self.runs[job]
        if run > estimate:
            self.push(expected, _CORRECTION, job)
        elif run == estimate and self._due_first:
            self.push(expected, _DUE, job)


def run_on_pool(
    workload: Workload,
    runs: Sequence[float],
    make_scheduler: Callable[[Pool], PoolScheduler],
    settings: Settings,
    *,
    predictor: Predictor | None,
    corrector: Corrector | None = None,
) -> Outcome:
    """Simulate a workload on a pool of equal processors.

    Cost: a constant number of operations on heaps and sorted lists for each event, plus the cost
    of the scheduler.

    Args:
        workload: The jobs and the machine.
        runs: The run time of each job.
        make_scheduler: Creates the scheduler that decides.
        settings: The order of ties, and when decisions are made.
        predictor: Predicts run times; None if the policy uses no predictions, and jobs are expected
            to run for their requested times.
        corrector: Corrects the predictions of jobs that run longer. None: they are assumed to end
            at once.
    """
    pool = Pool(workload, runs, settings, corrector)
    scheduler = make_scheduler(pool)
    prediction = _prediction(workload, runs, predictor, corrector)
    arrivals = Arrivals(workload, lambda time, job: pool.push(time, _ARRIVAL, job, job))
    once_an_instant = settings.passes == "instant"
    progress = settings.progress
    events = pool.events
    estimate, ended_at = pool.estimate, pool.ended_at
    decide, ended = False, 0
    arrivals.push_next()
    while events:
        now, _, _, kind, job = heappop(events)
        pool.now = now
        if kind == _ARRIVAL:
            if arrivals.is_last_known(job):
                arrivals.push_next()
            if prediction is not None:
                estimate[job] = _checked(prediction, job, workload)
            decide |= scheduler.arrived(job)
        elif kind == _END:
            if pool.release(job):
                scheduler.released(job)
            ended_at[job] = now
            if prediction is not None:
                prediction.ended(job, runs[job])
            arrivals.push_followers(job, now)
            decide = True
            ended += 1
            if progress is not None and ended % _REPORT_EVERY == 0:
                progress(ended, len(workload))
        elif kind == _DUE:
            if pool.release(job):
                scheduler.released(job)
            if not once_an_instant:
                continue
        elif kind == _CORRECTION:
            if ended_at[job] is None:
                pool.correct(job)
                scheduler.corrected(job)
            if not once_an_instant:
                continue
        elif now == pool.wakes_at:
            pool.wakes_at = inf
            decide = True
        if decide and not (once_an_instant and events and events[0][0] == now):
            decide = False
            scheduler.decide()
    if progress is not None:
        progress(ended, len(workload))
    return _outcome_of(pool, scheduler, arrivals, predicted=prediction is not None)


def _prediction(
    workload: Workload,
    runs: Sequence[float],
    predictor: Predictor | None,
    corrector: Corrector | None,
) -> Prediction | None:
    faults: list[Fault] = []
    if predictor is not None:
        faults += faults_of_part("predictor", predictor, "begin", "Requested()")
    if corrector is not None:
        faults += faults_of_part("corrector", corrector, "correct", "Doubling()")
    if faults:
        raise SimulationError(faults)
    return None if predictor is None else predictor.begin(workload, runs)


def _outcome_of(
    pool: Pool, scheduler: PoolScheduler, arrivals: Arrivals, *, predicted: bool
) -> Outcome:
    return Outcome(
        starts=pool.started_at,
        ends=pool.ended_at,
        eligible=arrivals.eligible,
        unfinished={
            job: arrivals.why_never(job) or scheduler.why_waiting(job)
            for job, started in enumerate(pool.started_at)
            if started is None
        },
        predicted=_first_predictions(pool) if predicted else None,
    )


def _first_predictions(pool: Pool) -> list[float]:
    predicted = list(pool.estimate)
    for job, first in pool.first_estimate.items():
        predicted[job] = first
    return predicted


def _checked(prediction: Prediction, job: int, workload: Workload) -> float:
    seconds = prediction.predict(job)
    if not seconds >= 0:
        raise SimulationError.at(
            f"jobs[{workload.ids[job]!r}]",
            f"expected a predicted run time of 0 s or more, got {shown(seconds)}",
        )
    return seconds
