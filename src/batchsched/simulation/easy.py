"""EASY backfilling on a pool of equal processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.simulation.outcome import Outcome
from batchsched.simulation.policy import Policy
from batchsched.simulation.pool import Pool, run_on_pool
from batchsched.simulation.predictors import Corrector, Predictor, Requested
from batchsched.simulation.problems import SimulationError
from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import Workload

__all__ = ["Easy"]


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
            Fault(f"Easy.{name}", f"expected {known[0]!r} or {known[1]!r}, got {value!r}")
            for name, value, known in (
                ("backfill", self.backfill, ("arrival", "shortest")),
                ("on_arrival", self.on_arrival, ("always", "if-it-fits")),
            )
            if value not in known
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
