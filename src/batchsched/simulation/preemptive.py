"""Policies that stop jobs for others: at every event, or in rounds."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import ceil, floor, inf
from operator import itemgetter

from attrs import field, frozen

from batchsched.model.immutable import kept_tuple
from batchsched.model.validation.values import shown
from batchsched.simulation.nodes import (
    ByDistance,
    Consolidated,
    Cost,
    Courses,
    FirstFit,
    NoCost,
    Placement,
)
from batchsched.simulation.policy import Outcome, Policy, Settings
from batchsched.simulation.workload import (
    SimulationError,
    Workload,
    are_rising,
    is_number,
)

# At each event


@frozen(kw_only=True)
class _Preemptive(Policy):
    """Runs as many jobs as can be placed, in an order that is computed at each event.

    An event is an arrival, an end, or a time that the order requests. Any running job may be
    stopped, and keeps its progress; but at each event every running job loses its start cost,
    whether or not it stays where it was (as in the simulator of Muri, SIGCOMM 2022). All events of
    an instant are processed together; `passes` and `Ties` have no effect.

    Cost of an event: that of sorting the jobs that have not ended.
    """

    start_cost: Cost = field(factory=NoCost)
    placement: Placement | None = field(factory=FirstFit)
    """How nodes are chosen. None: processors are counted only, wherever they are."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the policy on the workload's nodes."""
        return _Simulation(workload, runs, settings, self).run()

    @abstractmethod
    def order(self, workload: Workload, jobs: _Progress) -> _Order:
        """Return the order in which jobs are placed."""


@frozen(kw_only=True)
class Srtf(_Preemptive):
    """Shortest remaining time first."""

    def order(self, workload: Workload, jobs: _Progress) -> _Order:  # noqa: ARG002
        """Return the order by remaining time."""
        return _ByKey(jobs.remaining)

    def __str__(self) -> str:
        return "SRTF"


@frozen(kw_only=True)
class Srsf(_Preemptive):
    """Shortest remaining service first: remaining time times processors."""

    def order(self, workload: Workload, jobs: _Progress) -> _Order:
        """Return the order by remaining service."""
        return _ByKey(jobs.remaining, workload.processors)

    def __str__(self) -> str:
        return "SRSF"


def _limits(items: Iterable[float], /) -> tuple[float, ...]:
    return kept_tuple(items, "limits")


@frozen(kw_only=True)
class LeastAttainedService(_Preemptive):
    """Least attained service first, in levels, as in Tiresias; it does not use run times.

    A job begins in the first level, and moves to the next when its processor seconds reach that
    level's limit. Within a level, running jobs come before waiting ones, and otherwise jobs keep
    the order in which they entered. Processors are counted only, wherever they are.

    Source: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019.
    """

    placement: Placement | None = None
    limits: tuple[float, ...] = field(default=(3250, 7200), converter=_limits)
    """The processor seconds that end each level except the last. (The defaults are those of
    Muri's simulator.)"""

    def __attrs_post_init__(self) -> None:
        if not are_rising(self.limits):
            message = (
                f"expected rising numbers of processor seconds above 0, got {shown(self.limits)}"
            )
            raise SimulationError.at("LeastAttainedService.limits", message)

    def order(self, workload: Workload, jobs: _Progress) -> _Order:
        """Return the order by level."""
        return _ByLevel(workload, jobs, self.limits)

    def __str__(self) -> str:
        return f"LAS (levels end at {', '.join(f'{limit:g}' for limit in self.limits)} s)"


class _Progress:
    """The progress of jobs: their remaining and attained service."""

    def __init__(self, runs: Sequence[float]) -> None:
        self.remaining = list(runs)
        self.served: list[float] = [0] * len(runs)
        """For how long each job has run, start costs included."""


class _Order:
    """The order in which jobs are placed."""

    def arrived(self, job: int) -> None:
        """Add a job that has arrived."""
        raise NotImplementedError

    def ended(self, job: int) -> None:
        """Remove a job that has ended."""
        raise NotImplementedError

    def served(self, job: int) -> None:
        """Update the order for a job that has run."""

    def jobs(self) -> Iterable[int]:
        """Yield the jobs in the order in which they are placed."""
        raise NotImplementedError

    def placed(self, running: dict[int, None], now: float) -> float:  # noqa: ARG002
        """Take note of the running jobs; return the next time at which the order may change."""
        return inf


class _ByKey(_Order):
    def __init__(self, remaining: Sequence[float], sizes: Sequence[int] | None = None) -> None:
        self._remaining = remaining
        self._sizes = sizes
        self._jobs: list[int] = []

    def arrived(self, job: int) -> None:
        self._jobs.append(job)

    def ended(self, job: int) -> None:
        self._jobs.remove(job)

    def jobs(self) -> Iterable[int]:
        remaining, sizes = self._remaining, self._sizes
        # Sort the list in place, so that equal jobs keep their previous order.
        if sizes is None:
            self._jobs.sort(key=remaining.__getitem__)
        else:
            keyed = [(remaining[job] * sizes[job], job) for job in self._jobs]
            keyed.sort(key=itemgetter(0))
            self._jobs = [job for _, job in keyed]
        return self._jobs


class _ByLevel(_Order):
    def __init__(self, workload: Workload, jobs: _Progress, limits: Sequence[float]) -> None:
        self._sizes = workload.processors
        self._served = jobs.served
        self._limits = limits
        self._level = dict[int, int]()
        self._levels: list[list[int]] = [[] for _ in range(len(limits) + 1)]

    def arrived(self, job: int) -> None:
        self._level[job] = 0
        self._levels[0].append(job)

    def ended(self, job: int) -> None:
        self._levels[self._level.pop(job)].remove(job)

    def served(self, job: int) -> None:
        level = self._level[job]
        if (
            level < len(self._limits)
            and self._served[job] * self._sizes[job] >= self._limits[level]
        ):
            self._levels[level].remove(job)
            self._levels[level + 1].append(job)
            self._level[job] = level + 1

    def jobs(self) -> Iterable[int]:
        return (job for level in self._levels for job in level)

    def placed(self, running: dict[int, None], now: float) -> float:
        for jobs in self._levels:
            jobs.sort(key=lambda job: job not in running)
        sinks = inf
        for job in running:
            level = self._level[job]
            if level < len(self._limits):
                # In whole seconds of service.
                limit = ceil(self._limits[level] / self._sizes[job])
                sinks = min(sinks, now + max(limit - self._served[job], 0))
        return sinks


class _Simulation:
    def __init__(
        self, workload: Workload, runs: Sequence[float], settings: Settings, policy: _Preemptive
    ) -> None:
        assert workload.machine is not None
        self._workload = workload
        self._machine = workload.machine
        self._settings = settings
        self._placement = policy.placement
        self._progress = _Progress(runs)
        self._order = policy.order(workload, self._progress)
        self._costs = [
            policy.start_cost.seconds(size, workload.machine.per_node, labels)
            for size, labels in zip(workload.processors, workload.labels, strict=True)
        ]
        self._courses = Courses(workload)
        # The running jobs in the order in which they were placed.
        self._running = dict[int, None]()

    def run(self) -> Outcome:
        remaining = self._progress.remaining
        progress, count = self._settings.progress, len(remaining)
        now, looks_again = 0.0, inf
        ended = 0
        while True:
            first_end = min((now + remaining[job] for job in self._running), default=inf)
            time = min(first_end, self._courses.next_arrival(), looks_again)
            if time == inf:
                break
            gone: list[int] = []
            if first_end == time:
                gone = [job for job in self._running if now + remaining[job] == time]
            for job in gone:
                del self._running[job]
                self._order.ended(job)
                self._courses.end(job, time)
                ended += 1
                if progress is not None and ended % 1000 == 0:
                    progress(ended, count)
            for job in self._courses.arrived_by(time):
                self._order.arrived(job)
            self._work(time - now)
            now = time
            self._place(now)
            looks_again = self._order.placed(self._running, now)
        if progress is not None:
            progress(ended, count)
        return self._courses.outcome()

    def _work(self, seconds: float) -> None:
        for job in self._running:
            self._progress.remaining[job] -= max(seconds - self._costs[job], 0)
            self._progress.served[job] += seconds
            self._order.served(job)

    def _place(self, now: float) -> None:
        sizes = self._workload.processors
        nodes = None if self._placement is None else self._placement.begin(self._machine)
        free = self._machine.processors
        running = dict[int, None]()
        for job in self._order.jobs():
            if sizes[job] > free or (nodes is not None and nodes.take(sizes[job]) is None):
                continue
            free -= sizes[job]
            running[job] = None
            if not free:
                break
        for job in self._running:
            if job not in running:
                self._courses.stop(job, now)
        for job in running:
            if job not in self._courses.since:
                self._courses.start(job, now)
        self._running = running


# In rounds


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
        if not is_number(self.length, least=0, above=True):
            raise SimulationError.at(
                "SrtfInRounds.length", f"expected seconds above 0, got {shown(self.length)}"
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
        self._courses = Courses(workload)
        self._waiting: list[int] = []
        # The places of each running job, in order of the starts.
        self._running = dict[int, Sequence[tuple[int, int]]]()

    def run(self) -> Outcome:
        remaining = self._remaining
        progress, courses = self._settings.progress, self._courses
        ended, count = 0, len(remaining)
        now = courses.next_arrival()
        while ended < count:
            for job in [job for job in self._running if remaining[job] < 0]:
                self._nodes.give_back(self._running.pop(job))
                courses.end(job, now)
                ended += 1
                if progress is not None and ended % 1000 == 0:
                    progress(ended, count)
            self._waiting += courses.arrived_by(now)
            changed = self._decide(now)
            rounds = 1 if changed else self._rounds_until_a_change(now, courses.next_arrival())
            if rounds == inf:
                break
            passed = rounds * self._length
            for job in self._running:
                remaining[job] -= passed
            now += passed
        if progress is not None:
            progress(ended, count)
        return courses.outcome()

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
            self._nodes.give_back(self._running.pop(job))
            self._courses.stop(job, now)
            self._waiting.append(job)
            remaining[job] += self._costs[job]
        started = set[int]()
        for job in start:
            places = self._nodes.take(sizes[job])
            if places is not None:
                self._running[job] = places
                self._courses.start(job, now)
                started.add(job)
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
