"""Policies that start jobs strictly in order: the first that does not fit blocks the rest."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from attrs import field, frozen

from batchsched.simulation.outcome import Outcome
from batchsched.simulation.placement import Placement
from batchsched.simulation.policy import Policy
from batchsched.simulation.pool import Pool, run_on_pool
from batchsched.simulation.predictors import Predictor, Requested
from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import Workload

__all__ = ["Fcfs", "ShortestFirst"]


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
