"""Policies on a pool of processors: in order, with backfilling, and the base class of your own."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import inf, nextafter
from typing import Literal

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.model.validation.values import is_text, shown
from batchsched.simulation.nodes import Placement
from batchsched.simulation.policy import Outcome, Policy, Settings
from batchsched.simulation.pool import Pool, run_on_pool
from batchsched.simulation.predictors import Corrector, Predictor, Requested
from batchsched.simulation.workload import JobId, PolicyError, SimulationError, Workload

# In order: the first that does not fit blocks the rest


@frozen(kw_only=True)
class Fcfs(Policy):
    """First come, first served, without backfilling.

    Cost of a pass: linear in the number of jobs that start.
    """

    placement: Placement | None = None
    """How nodes are chosen. None: processors are counted only, wherever they are."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate first come, first served."""
        return run_on_pool(
            workload,
            runs,
            lambda pool: _InOrder(pool, workload, self.placement, by_estimate=False),
            settings,
            predictor=None,
        )

    def __str__(self) -> str:
        return "FCFS" if self.placement is None else f"FCFS ({self.placement})"


@frozen(kw_only=True)
class ShortestFirst(Policy):
    """Shortest job first (SJF), without backfilling. Among equals: first come, first served.

    Cost of a pass: linear in the number of jobs that start; of an arrival: logarithmic in the
    queue.
    """

    predictor: Predictor = field(factory=Requested)
    """Predicts run times."""
    placement: Placement | None = None
    """How nodes are chosen. None: processors are counted only, wherever they are."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate shortest job first."""
        return run_on_pool(
            workload,
            runs,
            lambda pool: _InOrder(pool, workload, self.placement, by_estimate=True),
            settings,
            predictor=self.predictor,
        )

    def __str__(self) -> str:
        where = "" if self.placement is None else f", {self.placement}"
        return f"SJF ({self.predictor}{where})"


class _InOrder:
    def __init__(
        self, pool: Pool, workload: Workload, placement: Placement | None, *, by_estimate: bool
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
        self._arrivals += 1
        length = self._pool.estimate[job] if self._by_estimate else 0
        heappush(self._queue, (length, self._arrivals, job))
        return self._changed or self._queue[0][-1] == job

    def released(self, job: int) -> None:
        self._changed = True
        if self._nodes is not None:
            self._nodes.give_back(self._places.pop(job))

    def corrected(self, job: int) -> None:
        pass

    def decide(self) -> None:
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
        first = self._queue[0][-1]
        if first != job:
            return f"it waits behind job {self._pool.ids[first]!r}, which can never start"
        return f"its {self._pool.size[job]} processors cannot be placed even on an empty machine"


# EASY backfilling


@frozen(kw_only=True)
class Easy(Policy):
    """EASY backfilling: first come, first served; later jobs may start if the first is not delayed.

    The first job that does not fit gets a reservation: at the shadow time enough processors will be
    free if all jobs end when expected. The processors beyond those that it needs then are extra.
    A later job starts now if it fits, and is expected to end by the shadow time or needs no more
    than the extra processors. Jobs that run longer than expected are assumed to end now.

    Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS
    12(6), 2001. With `backfill="shortest"`, `predictor=LastTwo()` and a corrector it is EASY++ of
    Tsafrir, Etsion and Feitelson, IEEE TPDS 18(6), 2007.

    Cost of a pass: linear in the running jobs (to find the shadow time) and the waiting ones; of an
    arrival that cannot be first: constant.
    """

    predictor: Predictor = field(factory=Requested)
    """What is believed of run times."""
    corrector: Corrector | None = None
    """Corrects the predictions of jobs that run longer. (No pass follows a correction.)"""
    backfill: Literal["arrival", "shortest"] = "arrival"
    """The order in which jobs are tried for backfilling: by arrival, or by expected run time, the
    shortest first (SJBF; equal ones by arrival)."""
    on_arrival: Literal["always", "if-it-fits"] = "always"
    """Whether a pass follows every arrival, or only if the new job fits. Both give the same result
    unless predictions were corrected since the last pass."""

    def __attrs_post_init__(self) -> None:
        faults = [
            Fault(f"Easy.{name}", f"expected {known[0]!r} or {known[1]!r}, got {shown(value)}")
            for name, value, known in (
                ("backfill", self.backfill, ("arrival", "shortest")),
                ("on_arrival", self.on_arrival, ("always", "if-it-fits")),
            )
            if not is_text(value) or value not in known
        ]
        if faults:
            raise SimulationError(faults)

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate EASY on the workload's processors."""
        return run_on_pool(
            workload,
            runs,
            lambda pool: _EasyScheduler(
                pool,
                shortest_first=self.backfill == "shortest",
                only_if_it_fits=self.on_arrival == "if-it-fits",
            ),
            settings,
            predictor=self.predictor,
            corrector=self.corrector,
        )

    def __str__(self) -> str:
        name = "EASY" if self.backfill == "arrival" else "EASY-SJBF"
        beliefs = f"{self.predictor}"
        if self.corrector is not None:
            beliefs += f", corrected by {self.corrector}"
        return f"{name} ({beliefs})"


class _EasyScheduler:
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

    def arrived(self, job: int) -> bool:
        self._queue.append(job)
        self._new.append(job)
        return not self._only_if_it_fits or self._pool.size[job] <= self._pool.free

    def released(self, job: int) -> None:  # noqa: ARG002
        self._changed = True

    def corrected(self, job: int) -> None:  # noqa: ARG002
        self._changed = True

    def decide(self) -> None:
        queue = self._queue
        if self._changed or self._is_late():
            self._start_in_order()
            self._changed = not queue
            if queue:
                self._reserve(queue[0])
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
        if gone:
            queue[:] = [job for job in queue if job not in gone]

    def _start_in_order(self) -> None:
        pool, queue = self._pool, self._queue
        first = 0
        while first < len(queue) and pool.size[queue[first]] <= pool.free:
            pool.start(queue[first])
            first += 1
        del queue[:first]

    def why_waiting(self, job: int) -> str:
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


# Conservative backfilling


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


@frozen(kw_only=True)
class Conservative(Policy):
    """Conservative backfilling: every job is promised a start when it arrives.

    The promise is the first time at which the job fits for its whole expected run time, given the
    running jobs and all earlier promises. When a job ends earlier than expected, the promises are
    checked in order of arrival, and each is moved to the earliest time that is now possible; none
    moves later. (This is called compression.)

    If predictions are too short, promises cannot be kept: jobs that run longer than expected are
    assumed to end at once, or at the time of the corrector, and all promises are computed anew.

    Source: Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.

    Cost: an arrival is linear in the number of promises and running jobs; an end is linear for each
    promise, so quadratic in the worst case.
    """

    predictor: Predictor = field(factory=Requested)
    """Predicts run times."""
    corrector: Corrector | None = None
    """Corrects the predictions of jobs that run longer; None: they are assumed to end at once."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate conservative backfilling on the workload's processors."""
        return run_on_pool(
            workload,
            runs,
            _ConservativeScheduler,
            settings,
            predictor=self.predictor,
            corrector=self.corrector,
        )

    def __str__(self) -> str:
        beliefs = f"{self.predictor}"
        if self.corrector is not None:
            beliefs += f", corrected by {self.corrector}"
        return f"conservative ({beliefs})"


class _ConservativeScheduler:
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
        pool = self._pool
        self._profile.forget_before(pool.now)
        if self._is_wrong():
            self._wrong = True
            self._promises[job] = inf
            return True
        duration = pool.estimate[job]
        start = self._profile.earliest(pool.size[job], duration)
        self._profile.add(start, start + duration, -pool.size[job])
        self._promises[job] = start
        return True

    def released(self, job: int) -> None:
        pool = self._pool
        self._profile.forget_before(pool.now)
        expected = pool.expected[job]
        if expected > pool.now:
            self._profile.add(pool.now, expected, pool.size[job])
            self._left_early = True
        elif expected < pool.now or self._guessed:
            self._wrong = True

    def corrected(self, job: int) -> None:  # noqa: ARG002
        self._wrong = True

    def decide(self) -> None:
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
        return f"its promised start is {self._promises.get(job)} s"

    def _compress(self) -> None:
        pool, profile = self._pool, self._profile
        now, sizes, estimates = pool.now, pool.size, pool.estimate
        for job, promised in self._promises.items():
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
        self._profile = profile = _Profile(pool.now, pool.processors)
        # Overdue jobs end at once: after now, and before every other time.
        at_once = nextafter(pool.now, inf)
        for expected, job in pool.running:
            profile.add(pool.now, max(expected, at_once), -pool.size[job])
        for job in self._promises:
            size, duration = pool.size[job], pool.estimate[job]
            start = profile.earliest(size, duration)
            profile.add(start, start + duration, -size)
            self._promises[job] = start


# Policies of your own


@frozen
class WaitingJob:
    """A waiting job, with what a policy may know of it."""

    id: JobId
    submit: float
    processors: int
    requested: float | None
    """The time limit that its user requested."""
    estimate: float | None
    """Its predicted run time; None if the policy has no predictor."""
    user: JobId | None
    queue: JobId | None


@frozen
class RunningJob:
    """A running job, with what a policy may know of it."""

    id: JobId
    processors: int
    start: float
    expected_end: float | None
    """Its predicted end, which may have passed; None if the policy has no predictor."""


class View:
    """The state that a policy decides on: waiting jobs, running jobs, and free processors."""

    __slots__ = ("_expects", "_pool", "_waiting", "now")

    def __init__(self, pool: Pool, waiting: tuple[WaitingJob, ...], *, expects: bool) -> None:
        self.now = pool.now
        """The time, in seconds on the clock of the workload."""
        self._pool = pool
        self._waiting = waiting
        self._expects = expects

    @property
    def processors(self) -> int:
        """The number of processors of the machine."""
        return self._pool.processors

    @property
    def free(self) -> int:
        """The number of free processors."""
        return self._pool.free

    @property
    def waiting(self) -> tuple[WaitingJob, ...]:
        """The waiting jobs, in order of arrival."""
        return self._waiting

    @property
    def running(self) -> tuple[RunningJob, ...]:
        """The running jobs, in order of their expected ends.

        Cost: linear in the number of running jobs.
        """
        pool = self._pool
        return tuple(
            RunningJob(
                pool.ids[job],
                pool.size[job],
                pool.started_at[job] or 0,
                expected if self._expects else None,
            )
            for expected, job in pool.running
        )

    def free_at(self, processors: int) -> tuple[float, int]:
        """Return when `processors` will be free if nothing else starts, and how many more then.

        In terms of EASY: the shadow time and the extra processors. Jobs that run longer than
        expected are assumed to end now.

        Raises:
            PolicyError: The machine has fewer processors, or the policy has no predictor.
        """
        free = self.free
        if processors <= free:
            return self.now, free - processors
        when: float | None = None
        for job in self.running:
            if job.expected_end is None:
                raise PolicyError("free_at needs expected ends: give the policy a predictor")
            at = max(job.expected_end, self.now)
            if when is not None and at > when:
                break
            free += job.processors
            if when is None and free >= processors:
                when = at
        if when is None:
            raise PolicyError(
                f"expected at most {self.processors} processors, the machine's, got {processors}"
            )
        return when, free - processors


class DecidingPolicy(Policy):
    """A custom policy: choose the jobs to start, given the waiting and the running ones.

    Cost of a pass: linear in the length of the queue, plus what `decide` does.

    >>> from batchsched.simulation import Job, Workload, simulate
    >>> class WidestFirst(DecidingPolicy):
    ...     def decide(self, view):
    ...         free = view.free
    ...         for job in sorted(view.waiting, key=lambda job: -job.processors):
    ...             if job.processors <= free:
    ...                 free -= job.processors
    ...                 yield job.id
    >>> jobs = [Job(id=n, submit=0, run=60, processors=n) for n in (1, 2, 3)]
    >>> simulate(Workload(jobs).on(nodes=4), WidestFirst(), passes="instant").jobs["start"]
    [0, 60, 0]
    """

    predictor: Predictor | None = None
    """Predicts run times, if the policy uses predictions."""
    corrector: Corrector | None = None
    """What is believed of jobs that run for longer."""

    @abstractmethod
    def decide(self, view: View) -> Iterable[JobId]:
        """Return the ids of the jobs to start now; together they must fit.

        Called after each event. If it starts no job while nothing runs and no job will arrive, the
        simulation ends and lists the jobs that are left.
        """

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the policy on the workload's processors."""
        return run_on_pool(
            workload,
            runs,
            lambda pool: _DecidingScheduler(pool, workload, self),
            settings,
            predictor=self.predictor,
            corrector=self.corrector,
        )


class _DecidingScheduler:
    def __init__(self, pool: Pool, workload: Workload, policy: DecidingPolicy) -> None:
        self._pool = pool
        self._policy = policy
        self._requested = workload.requested
        self._users = workload.users
        self._queues = workload.queues
        self._indexes = dict[JobId, int]()
        self._waiting = dict[JobId, WaitingJob]()
        self._estimates = policy.predictor is not None

    def arrived(self, job: int) -> bool:
        pool = self._pool
        each = pool.ids[job]
        self._indexes[each] = job
        self._waiting[each] = WaitingJob(
            each,
            pool.submit[job],
            pool.size[job],
            self._requested[job],
            pool.estimate[job] if self._estimates else None,
            self._users[job],
            self._queues[job],
        )
        return True

    def released(self, job: int) -> None:
        pass

    def corrected(self, job: int) -> None:
        pass

    def decide(self) -> None:
        if not self._waiting:
            return
        view = View(self._pool, tuple(self._waiting.values()), expects=self._estimates)
        # Take all decisions before any job starts, since the view shows the state before.
        for each in list(self._policy.decide(view)):
            if self._waiting.pop(each, None) is None:
                raise PolicyError(
                    f"{self._policy} started {each!r} at {self._pool.now} s; expected the id of "
                    "a job that waits"
                )
            self._pool.start(self._indexes.pop(each))

    def why_waiting(self, job: int) -> str:
        return (
            f"{self._policy} did not start it, with {self._pool.free} processors free "
            f"for its {self._pool.size[job]}, and nothing else will happen"
        )
