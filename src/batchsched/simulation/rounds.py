"""Shortest remaining time first, decided in rounds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil, floor, inf

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.simulation.arrivals import Arrivals
from batchsched.simulation.costs import ByDistance, Cost
from batchsched.simulation.outcome import Interval, Outcome
from batchsched.simulation.placement import Consolidated, Placement
from batchsched.simulation.policy import Policy
from batchsched.simulation.problems import SimulationError
from batchsched.simulation.settings import Settings
from batchsched.simulation.stopped_runs import outcome_of_intervals
from batchsched.simulation.workload import Workload

__all__ = ["SrtfInRounds"]


@frozen(kw_only=True)
class SrtfInRounds(Policy):
    """Shortest remaining time first, decided in rounds of a given length, as in Helios (SC 2021).

    In each round, all jobs that have not ended get quota in order of their remaining time, as long
    as there are processors (jobs that no longer fit are skipped; among equals, waiting jobs come
    first). A running job without quota is stopped, and the cost is added to its remaining time. A
    waiting job with quota is placed if possible; otherwise its quota is unused in that round. A job
    releases its processors in the round after the one in which its work is done, so each job takes
    a round longer than its run time. The first round begins with the first submission. `Ties` and
    `passes` have no effect.

    Cost: only rounds in which something can change are computed; each of them sorts the jobs.
    """

    length: float = 1
    """The length of a round, in seconds."""
    preemption_cost: Cost = field(factory=ByDistance)
    """The work that is added to a job when it is stopped."""
    placement: Placement = field(factory=Consolidated)

    def __attrs_post_init__(self) -> None:
        if not 0 < self.length < inf:
            raise SimulationError(
                [Fault("SrtfInRounds.length", f"expected seconds above 0, got {self.length!r}")]
            )

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the rounds on the workload's nodes."""
        return _Rounds(workload, runs, settings, self).run()

    def __str__(self) -> str:
        return f"SRTF in rounds of {self.length:g} s ({self.placement})"


class _Rounds:
    def __init__(
        self, workload: Workload, runs: Sequence[float], settings: Settings, policy: SrtfInRounds
    ) -> None:
        assert workload.machine is not None
        self._workload = workload
        self._settings = settings
        self._machine = workload.machine
        self._length = policy.length
        self._nodes = policy.placement.begin(workload.machine)
        self._remaining = list(runs)
        self._costs = [
            policy.preemption_cost.seconds(size, workload.machine.per_node, labels)
            for size, labels in zip(workload.processors, workload.labels, strict=True)
        ]
        count = len(workload)
        self._starts: list[float | None] = [None] * count
        self._ends: list[float | None] = [None] * count
        self._preemptions = [0] * count
        self._made_up: list[float] = [0] * count
        self._intervals: list[Interval] = []
        self._coming: list[tuple[float, int]] = []
        """A heap of the known arrivals: time and job."""
        self._arrivals = Arrivals(workload, lambda time, job: heappush(self._coming, (time, job)))
        self._waiting: list[int] = []
        # The places and the start of each running job, in order of the starts.
        self._running = dict[int, tuple[Sequence[tuple[int, int]], float]]()

    def run(self) -> Outcome:
        remaining = self._remaining
        coming, arrivals = self._coming, self._arrivals
        ended, count = 0, len(self._ends)
        arrivals.push_next()
        now = coming[0][0] if coming else 0.0
        while ended < count:
            for job in [job for job in self._running if remaining[job] < 0]:
                self._ends[job] = now
                self._stop(job, now)
                arrivals.push_followers(job, now)
                ended += 1
                if self._settings.progress is not None and ended % 1000 == 0:
                    self._settings.progress(ended, count)
            while coming and coming[0][0] <= now:
                _, job = heappop(coming)
                self._waiting.append(job)
                if arrivals.is_last_known(job):
                    arrivals.push_next()
            changed = self._decide(now)
            arrival = coming[0][0] if coming else inf
            rounds = 1 if changed else self._rounds_until_a_change(now, arrival)
            if rounds == inf:
                break
            passed = rounds * self._length
            for job in self._running:
                remaining[job] -= passed
            now += passed
        if self._settings.progress is not None:
            self._settings.progress(ended, count)
        return self._outcome()

    def _stop(self, job: int, now: float) -> None:
        places, since = self._running.pop(job)
        self._nodes.give_back(places)
        self._intervals.append((job, since, now))

    def _decide(self, now: float) -> bool:
        """Stop and start jobs; return whether any was stopped or started."""
        remaining, sizes = self._remaining, self._workload.processors
        quota = self._machine.processors
        stop: list[int] = []
        start: list[int] = []
        for job in sorted([*self._waiting, *self._running], key=remaining.__getitem__):
            if sizes[job] <= quota:
                quota -= sizes[job]
                if job not in self._running:
                    start.append(job)
            elif job in self._running:
                stop.append(job)
        for job in stop:
            self._stop(job, now)
            self._waiting.append(job)
            self._preemptions[job] += 1
            remaining[job] += self._costs[job]
            self._made_up[job] += self._costs[job]
        started = set[int]()
        for job in start:
            places = self._nodes.take(sizes[job])
            if places is not None:
                self._running[job] = (places, now)
                started.add(job)
                if self._starts[job] is None:
                    self._starts[job] = now
        if started:
            self._waiting = [job for job in self._waiting if job not in started]
        return bool(stop or started)

    def _rounds_until_a_change(self, now: float, arrival: float) -> float:
        """Return the rounds until a job arrives, ends, or is overtaken by a waiting one."""
        length, remaining = self._length, self._remaining
        rounds = inf if arrival == inf else max(ceil((arrival - now) / length), 1)
        waiting = sorted(remaining[job] for job in self._waiting)
        for job in self._running:
            left = remaining[job]
            rounds = min(rounds, floor(left / length) + 1)
            shorter = bisect_right(waiting, left)
            if shorter:
                rounds = min(rounds, floor((left - waiting[shorter - 1]) / length) + 1)
        return rounds

    def _outcome(self) -> Outcome:
        return outcome_of_intervals(
            self._workload,
            self._arrivals,
            starts=self._starts,
            ends=self._ends,
            preemptions=self._preemptions,
            intervals=self._intervals,
        )
