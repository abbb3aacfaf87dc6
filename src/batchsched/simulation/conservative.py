"""Conservative backfilling on a pool of equal processors."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter

from attrs import field, frozen

from batchsched.simulation.outcome import Outcome
from batchsched.simulation.policy import Policy
from batchsched.simulation.pool import Pool, run_on_pool
from batchsched.simulation.predictors import Corrector, Predictor, Requested
from batchsched.simulation.profile import Profile
from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import Workload

__all__ = ["Conservative"]


@frozen(kw_only=True)
class Conservative(Policy):
    """Conservative backfilling: every job is promised a start as it arrives.

    The promise is the first time at which it will fit for as long as it is expected to run, beside
    all that runs and all that was promised before. When a job ends earlier than expected, the
    promises are looked at one after the other, in order of arrival, and each is moved to the
    earliest time that is now possible; none moves later. (That is called compression.)

    Where predictions are too short, promises cannot be kept: jobs that run for longer than expected
    count as ending at once, or when the corrector says, and all promises are made anew.

    Source: Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.

    Cost: an arrival is linear in the number of promises and running jobs; an end quadratic at
    worst, linear for each promise.
    """

    predictor: Predictor = field(factory=Requested)
    """What is believed of run times."""
    corrector: Corrector | None = None
    """What is believed of jobs that run for longer."""

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
        self._profile = Profile(0, pool.processors)
        # The jobs that wait, in order of arrival, and when each is to start.
        self._promises = dict[int, float]()
        # Whether a job has gone that was to run for longer.
        self._left_early = False
        # Whether the profile is wrong, because jobs run or ran for longer than expected.
        self._wrong = False
        # Whether the profile has jobs that end at once, whenever that will be.
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
            self._promise_anew()
        elif self._left_early:
            self._compress()
        self._left_early = False
        pool = self._pool
        for job in [job for job, start in self._promises.items() if start <= pool.now]:
            if pool.size[job] > pool.free:
                # What is expected to take no time, and so is not planned for, runs just now.
                self._wrong = True
                continue
            del self._promises[job]
            pool.start(job)
        # What waits for something to end at once cannot know when that will be.
        at_once = nextafter(pool.now, inf)
        pool.wake(min((time for time in self._promises.values() if time > at_once), default=inf))

    def why_waiting(self, job: int) -> str:
        return f"it was promised to start at {self._promises.get(job)} s"

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

    def _promise_anew(self) -> None:
        pool = self._pool
        self._wrong = False
        self._guessed = bool(pool.running) and pool.running[0][0] <= pool.now
        self._profile = profile = Profile(pool.now, pool.processors)
        # What runs for too long ends at once: not now, and before every other time.
        at_once = nextafter(pool.now, inf)
        for expected, job in pool.running:
            profile.add(pool.now, max(expected, at_once), -pool.size[job])
        for job in self._promises:
            size, duration = pool.size[job], pool.estimate[job]
            start = profile.earliest(size, duration)
            profile.add(start, start + duration, -size)
            self._promises[job] = start
