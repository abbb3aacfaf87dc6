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
        self._profile = Profile(0, pool.processors)
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
        self._profile = profile = Profile(pool.now, pool.processors)
        # Overdue jobs end at once: after now, and before every other time.
        at_once = nextafter(pool.now, inf)
        for expected, job in pool.running:
            profile.add(pool.now, max(expected, at_once), -pool.size[job])
        for job in self._promises:
            size, duration = pool.size[job], pool.estimate[job]
            start = profile.earliest(size, duration)
            profile.add(start, start + duration, -size)
            self._promises[job] = start
