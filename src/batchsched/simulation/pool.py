"""The fast engine: the event loop on a pool of equal processors, which are only counted.

A policy's scheduler keeps the queue; the pool keeps the running jobs and the clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from math import inf, nextafter
from typing import Final, Protocol

from batchsched.simulation.arrivals import (
    ARRIVAL,
    CORRECTION,
    DUE,
    END,
    WAKE,
    Arrivals,
    Ended,
    Events,
)
from batchsched.simulation.books import NodeChoice
from batchsched.simulation.checks import PolicyError, SimulationError, refuse
from batchsched.simulation.predictors import (
    Corrector,
    Predictor,
    corrected,
    faults_of_beliefs,
    predicted,
    prediction_of,
)
from batchsched.simulation.settings import Outcome, Settings
from batchsched.simulation.workload import Workload


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
        "_corrections", "_corrector", "_requested", "ended_at", "estimate", "events", "expected",
        "first_estimate", "free", "ids", "now", "processors", "running", "runs", "size",
        "started_at", "unended", "wakes_at",
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
        self.events = Events(settings.ties, count)
        self.unended = dict[int, float]()
        """The start of each running job whose end has not been processed."""
        self._corrector = corrector
        self._corrections = dict[int, int]()
        self._requested = workload.requested if corrector is not None else ()
        self.first_estimate = dict[int, float]()

    def wake(self, time: float) -> None:
        """Schedule a call of `decide` at this time, replacing the time set before."""
        if time != self.wakes_at:
            self.wakes_at = time
            if time < inf:
                self.events.push(time, WAKE, -1)

    def start(self, job: int) -> None:
        """Start a job now; it must be waiting and fit."""
        size = self.size[job]
        if size > self.free or self.started_at[job] is not None:
            raise PolicyError(
                f"expected a waiting job that fits, got job {self.ids[job]!r}, which at "
                f"{self.now} s {'does not fit' if size > self.free else 'was started before'}"
            )
        now, events = self.now, self.events
        estimate, run = self.estimate[job], self.runs[job]
        self.free -= size
        self.started_at[job] = self.unended[job] = now
        self.expected[job] = expected = now + estimate
        insort(self.running, (expected, job))
        events.push(now + run, END, job)
        if self._corrector is not None and run > estimate:
            events.push(expected, CORRECTION, job)
        elif run == estimate and events.due_first:
            events.push(expected, DUE, job, events.sequence)

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
        estimate = corrected(self._corrector, first, last, count, self._requested[job])
        if estimate == last:
            return
        del self.running[bisect_left(self.running, (self.expected[job], job))]
        self.estimate[job] = estimate
        self.expected[job] = expected = started + estimate
        insort(self.running, (expected, job))
        run = self.runs[job]
        if run > estimate:
            self.events.push(expected, CORRECTION, job)
        elif run == estimate and self.events.due_first:
            self.events.push(expected, DUE, job)


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
    refuse(SimulationError, faults_of_beliefs(predictor, corrector))
    pool = Pool(workload, runs, settings, corrector)
    scheduler = make_scheduler(pool)
    prediction = prediction_of(predictor, workload, runs, pool)
    arrivals = Arrivals(workload, lambda time, job: pool.events.push(time, ARRIVAL, job, job))
    once_an_instant, is_watched = settings.passes == "instant", settings.progress is not None
    ended = Ended(settings.progress, len(workload))
    events, estimate, ended_at = pool.events.heap, pool.estimate, pool.ended_at
    decide = False
    arrivals.push_next()
    while events:
        now, _, _, kind, job, _ = heappop(events)
        pool.now = now
        if kind == ARRIVAL:
            arrivals.arrived(job)
            if prediction is not None:
                estimate[job] = predicted(prediction, job, workload)
            decide |= scheduler.arrived(job)
        elif kind == END:
            if pool.release(job):
                scheduler.released(job)
            ended_at[job] = now
            del pool.unended[job]
            if prediction is not None:
                prediction.ended(job, runs[job])
            arrivals.happened(job, now, "ended")
            decide = True
            if is_watched:
                ended.add()
        elif kind == DUE:
            if pool.release(job):
                scheduler.released(job)
            if not once_an_instant:
                continue
        elif kind == CORRECTION:
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
    ended.tell()
    first_estimates = pool.first_estimate
    return Outcome(
        starts=pool.started_at,
        ends=pool.ended_at,
        eligible=arrivals.eligible,
        unfinished={
            job: arrivals.why_never(job) or scheduler.why_waiting(job)
            for job, started in enumerate(pool.started_at)
            if started is None
        },
        predicted=None
        if prediction is None
        else [first_estimates.get(job, last) for job, last in enumerate(estimate)],
        engine="fast",
    )


# The schedulers of the policies


class InOrder:
    """In order: the first that does not fit blocks the rest."""

    def __init__(
        self, pool: Pool, workload: Workload, placement: NodeChoice | None, *, by_estimate: bool
    ) -> None:
        self._pool = pool
        self._by_estimate = by_estimate
        self._queue: list[tuple[float, int, int]] = []
        self._arrivals = 0
        # Whether processors have been released since the last pass.
        self._changed = False
        assert workload.machine is not None
        self._nodes = None if placement is None else placement.begin(workload.machine)
        self._places = dict[int, Sequence[tuple[int, int]]]()

    def arrived(self, job: int) -> bool:
        """Put a job into the queue; return whether to decide."""
        self._arrivals += 1
        length = self._pool.estimate[job] if self._by_estimate else 0
        heappush(self._queue, (length, self._arrivals, job))
        return self._changed or self._queue[0][-1] == job

    def released(self, job: int) -> None:
        """Take note of a release."""
        self._changed = True
        if self._nodes is not None:
            self._nodes.give_back(self._places.pop(job))

    def corrected(self, job: int) -> None:
        """Take note of a correction."""

    def decide(self) -> None:
        """Start what should start now."""
        self._changed = False
        queue, pool = self._queue, self._pool
        while queue:
            job = queue[0][-1]
            if pool.size[job] > pool.free:
                return
            if self._nodes is not None:
                places = self._nodes.take(pool.size[job])
                if places is None:
                    return
                self._places[job] = places
            pool.start(job)
            heappop(queue)

    def why_waiting(self, job: int) -> str:
        """Return why a job has not started."""
        first = self._queue[0][-1]
        if first != job:
            return f"it waits behind job {self._pool.ids[first]!r}, which can never start"
        return f"its {self._pool.size[job]} processors cannot be placed even on an empty machine"


class _BySize:
    """A long queue by size, so that a pass looks at few of the jobs that may not start."""

    def __init__(self, pool: Pool, jobs: Iterable[int], *, shortest_first: bool) -> None:
        self._pool = pool
        self._shortest_first = shortest_first
        self.number = dict[int, int]()
        """The place of each job in the order of arrivals."""
        self._last = 0
        self._alike = dict[int, dict[float, list[tuple[int, int]]]]()
        """By size and estimate: number and job, in order."""
        self._estimates = dict[int, list[float]]()
        """By size: the estimates of its jobs, sorted."""
        self._sizes: list[int] = []
        for job in jobs:
            self.add(job)

    def add(self, job: int) -> None:
        self._last = self.number[job] = number = self._last + 1
        size, estimate = self._pool.size[job], self._pool.estimate[job]
        if size not in self._alike:
            self._alike[size] = {}
            insort(self._sizes, size)
        alike = self._alike[size]
        if estimate not in alike:
            alike[estimate] = []
            insort(self._estimates.setdefault(size, []), estimate)
        alike[estimate].append((number, job))

    def remove(self, job: int) -> None:
        size, estimate = self._pool.size[job], self._pool.estimate[job]
        jobs, estimates = self._alike[size][estimate], self._estimates[size]
        del jobs[bisect_left(jobs, (self.number.pop(job), job))]
        if not jobs:
            del self._alike[size][estimate], estimates[bisect_left(estimates, estimate)]
        if not estimates:
            del self._alike[size], self._estimates[size]
            del self._sizes[bisect_left(self._sizes, size)]

    def first(self, shadow: float, extra: int) -> int | None:
        """Return the first job that may start now; None: there is none.

        O(sizes that are free x estimates).
        """
        now, free = self._pool.now, self._pool.free
        best: tuple[float, tuple[int, int]] | None = None
        for size in self._sizes:
            if size > free:
                break
            alike, estimates = self._alike[size], self._estimates[size]
            for estimate in estimates:
                if size > extra and now + estimate > shadow:
                    break
                found = (estimate if self._shortest_first else 0, alike[estimate][0])
                if best is None or found < best:
                    best = found
                if self._shortest_first:
                    break
        return None if best is None else best[1][1]


_LONG: Final = 400
"""From how many waiting jobs on a queue is kept by size, too."""


class EasyScheduler:
    """EASY backfilling; what it finds is valid until something but arrivals and time changes."""

    def __init__(self, pool: Pool, *, shortest_first: bool, only_if_it_fits: bool) -> None:
        self._pool = pool
        self._queue: list[int] = []
        self._shortest_first = shortest_first
        self._only_if_it_fits = only_if_it_fits
        self._new: list[int] = []
        # Whether anything but arrivals and time has changed since the last pass; if not, the
        # shadow time and the extra processors of that pass are still valid.
        self._changed = True
        self._shadow: float = 0
        self._extra = 0
        self._by_size: _BySize | None = None

    def arrived(self, job: int) -> bool:
        """Put a job into the queue; return whether to decide."""
        self._queue.append(job)
        self._new.append(job)
        if self._by_size is not None:
            self._by_size.add(job)
        return not self._only_if_it_fits or self._pool.size[job] <= self._pool.free

    def released(self, job: int) -> None:  # noqa: ARG002
        """Take note of a release."""
        self._changed = True

    def corrected(self, job: int) -> None:  # noqa: ARG002
        """Take note of a correction."""
        self._changed = True

    def decide(self) -> None:
        """Start what should start now."""
        queue = self._queue
        if self._changed or self._is_late():
            self._start_in_order()
            self._changed = not queue
            if queue:
                self._reserve(queue[0])
            if len(queue) > _LONG:
                self._new = []
                self._backfill_by_size()
                return
            self._by_size = None
            candidates = queue[1:]
        else:
            # All others failed before with at least as many processors and as much time.
            candidates = self._new
        self._new = []
        pool = self._pool
        if not pool.free or not candidates:
            return
        if self._shortest_first:
            candidates.sort(key=pool.estimate.__getitem__)
        size = pool.size
        gone = set[int]()
        for job in candidates:
            if size[job] <= pool.free and self._may_backfill(job):
                if pool.now + pool.estimate[job] > self._shadow:
                    self._extra -= size[job]
                pool.start(job)
                gone.add(job)
                if not pool.free:
                    break
        if self._by_size is not None:
            for job in gone:
                self._remove(self._by_size, job)
        elif gone:
            queue[:] = [job for job in queue if job not in gone]

    def _backfill_by_size(self) -> None:
        pool, by_size = self._pool, self._by_size
        if by_size is None:
            by_size = _BySize(pool, self._queue, shortest_first=self._shortest_first)
            self._by_size = by_size
        while pool.free and (job := by_size.first(self._shadow, self._extra)) is not None:
            if pool.now + pool.estimate[job] > self._shadow:
                self._extra -= pool.size[job]
            pool.start(job)
            self._remove(by_size, job)

    def _remove(self, by_size: _BySize, job: int) -> None:
        number = by_size.number
        del self._queue[bisect_left(self._queue, number[job], key=number.__getitem__)]
        by_size.remove(job)

    def _start_in_order(self) -> None:
        pool, queue = self._pool, self._queue
        first = 0
        while first < len(queue) and pool.size[queue[first]] <= pool.free:
            pool.start(queue[first])
            if self._by_size is not None:
                self._by_size.remove(queue[first])
            first += 1
        del queue[:first]

    def why_waiting(self, job: int) -> str:
        """Return why a job has not started."""
        return f"it waits behind {self._queue.index(job)} jobs of the queue"

    def _is_late(self) -> bool:
        # Jobs that run longer than expected are assumed to end now, so the shadow time moves.
        running = self._pool.running
        return bool(running) and running[0][0] <= self._pool.now

    def _reserve(self, head: int) -> None:
        pool = self._pool
        needed = pool.size[head]
        free = pool.free
        shadow: float | None = None
        for expected, job in pool.running:
            at = max(expected, pool.now)
            if shadow is not None and at > shadow:
                break
            free += pool.size[job]
            if shadow is None and free >= needed:
                shadow = at
        assert shadow is not None, "the machine is smaller than a job"
        self._shadow = shadow
        self._extra = free - needed

    def _may_backfill(self, job: int) -> bool:
        pool = self._pool
        return pool.now + pool.estimate[job] <= self._shadow or pool.size[job] <= self._extra


class _Profile:
    """The number of free processors as a step function of time, from now on.

    Cost: `earliest` and `add` are linear in the number of steps.
    """

    __slots__ = ("_free", "_times")

    def __init__(self, now: float, free: int) -> None:
        # The number of free processors from each time on; neighbours differ.
        self._times: list[float] = [now]
        self._free = [free]

    def forget_before(self, now: float) -> None:
        """Drop the steps before `now`."""
        place = bisect_right(self._times, now) - 1
        if place > 0:
            del self._times[:place]
            del self._free[:place]
        self._times[0] = max(self._times[0], now)

    def add(self, start: float, end: float, processors: int) -> None:
        """Add free processors (negative: remove them) from `start` to `end`."""
        if start >= end:
            return
        times, free = self._times, self._free
        first = bisect_left(times, start)
        if first == len(times) or times[first] != start:
            times.insert(first, start)
            free.insert(first, free[first - 1])
        last = bisect_left(times, end, first)
        if last == len(times) or times[last] != end:
            times.insert(last, end)
            free.insert(last, free[last - 1])
        for place in range(first, last):
            free[place] += processors
        if free[last] == free[last - 1]:
            del times[last], free[last]
        if first > 0 and free[first] == free[first - 1]:
            del times[first], free[first]

    def earliest(self, processors: int, duration: float) -> float:
        """Return the first time from which this many processors are free for `duration` seconds."""
        times, free = self._times, self._free
        count = len(times)
        place = 0
        while True:
            while free[place] < processors:
                place += 1
            end = times[place] + duration
            following = place + 1
            while following < count and times[following] < end and free[following] >= processors:
                following += 1
            if following == count or times[following] >= end:
                return times[place]
            place = following


class ConservativeScheduler:
    """Conservative backfilling: promises are made at arrivals."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._profile = _Profile(0, pool.processors)
        # The promised start of each waiting job, in order of arrival.
        self._promises = dict[int, float]()
        # Whether a job has ended earlier than expected since the last pass.
        self._left_early = False
        # Whether the profile is wrong because jobs run or ran longer than expected.
        self._wrong = False
        # Whether the profile assumes of some jobs that they end at once.
        self._guessed = False

    def arrived(self, job: int) -> bool:
        """Put a job into the queue; return whether to decide."""
        pool = self._pool
        self._profile.forget_before(pool.now)
        if self._is_wrong():
            self._wrong = True
            self._promises[job] = inf
        else:
            self._promise(job)
        return True

    def _promise(self, job: int) -> None:
        """Promise a job the earliest start."""
        size, duration = self._pool.size[job], self._pool.estimate[job]
        self._promises[job] = start = self._profile.earliest(size, duration)
        self._profile.add(start, start + duration, -size)

    def released(self, job: int) -> None:
        """Take note of a release."""
        pool = self._pool
        self._profile.forget_before(pool.now)
        expected = pool.expected[job]
        if expected > pool.now:
            self._profile.add(pool.now, expected, pool.size[job])
            self._left_early = True
        elif expected < pool.now or self._guessed:
            self._wrong = True

    def corrected(self, job: int) -> None:  # noqa: ARG002
        """Take note of a correction."""
        self._wrong = True

    def decide(self) -> None:
        """Start what should start now."""
        if self._is_wrong():
            self._renew_promises()
        elif self._left_early:
            self._compress()
        self._left_early = False
        pool = self._pool
        for job in [job for job, start in self._promises.items() if start <= pool.now]:
            if pool.size[job] > pool.free:
                # A job with an expected run time of 0, which the profile omits, is running.
                self._wrong = True
                continue
            del self._promises[job]
            pool.start(job)
        # Jobs that wait for a job which "ends at once" have no definite start time.
        at_once = nextafter(pool.now, inf)
        pool.wake(min((time for time in self._promises.values() if time > at_once), default=inf))

    def why_waiting(self, job: int) -> str:
        """Return why a job has not started."""
        return f"its promised start is {self._promises.get(job)} s"

    def _compress(self) -> None:
        pool, profile = self._pool, self._profile
        now, sizes, estimates = pool.now, pool.size, pool.estimate
        for job, promised in self._promises.items():  # most of the time goes here
            if promised <= now:
                continue
            size, duration = sizes[job], estimates[job]
            profile.add(promised, promised + duration, size)
            start = profile.earliest(size, duration)
            profile.add(start, start + duration, -size)
            self._promises[job] = start

    def _is_wrong(self) -> bool:
        running = self._pool.running
        return self._wrong or (bool(running) and running[0][0] <= self._pool.now)

    def _renew_promises(self) -> None:
        pool = self._pool
        self._wrong = False
        self._guessed = bool(pool.running) and pool.running[0][0] <= pool.now
        self._profile = _Profile(pool.now, pool.processors)
        # Overdue jobs end at once: after now, and before every other time.
        at_once = nextafter(pool.now, inf)
        for expected, job in pool.running:
            self._profile.add(pool.now, max(expected, at_once), -pool.size[job])
        for job in self._promises:
            self._promise(job)
