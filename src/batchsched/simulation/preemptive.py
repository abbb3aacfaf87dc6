"""Policies that stop jobs for others at every event."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from math import ceil, inf
from operator import itemgetter
from typing import Literal

from attrs import evolve, field, frozen

from batchsched.errors import Fault
from batchsched.model.immutable import kept_tuple
from batchsched.model.validation.values import is_text, shown
from batchsched.simulation.books import Pairs
from batchsched.simulation.checks import JobId, SimulationError, are_rising
from batchsched.simulation.courses import Courses
from batchsched.simulation.decisions import (
    Decision,
    Resize,
    RunningJob,
    Start,
    Stop,
    WaitingJob,
    Wake,
)
from batchsched.simulation.engine import Decides, run_on_nodes
from batchsched.simulation.nodes import FirstFit, Placement, hold_places, take_open
from batchsched.simulation.policies import Policy, why_not_fast
from batchsched.simulation.predictors import Perfect, Predictor
from batchsched.simulation.settings import Outcome, Passes, Settings
from batchsched.simulation.view import View
from batchsched.simulation.work import Checkpoint, Cost, NoCost
from batchsched.simulation.workload import Machine, Workload


@frozen(kw_only=True)
class _Preemptive(Policy):
    """Runs as many jobs as can be placed, in an order that is computed at each pass.

    At each pass all jobs are placed anew, in order; equal ones as in the pass before, new ones
    last. Who finds no place is stopped, and keeps its progress. A job may be moved free of charge.
    In the fast engine all events of an instant are processed together, ends first.

    Cost of a pass: that of sorting the jobs that have not ended.
    """

    start_cost: Cost = field(factory=NoCost)
    """The seconds that each start takes before the job works."""
    event_cost: Cost = field(factory=NoCost)
    """The seconds that each pass takes from every running job, at most as many as have passed
    since the pass before (as in the simulator of Muri, SIGCOMM 2022)."""
    placement: Placement | None = field(factory=FirstFit)
    """How nodes are chosen where they are equal. None: the first that fit; in the fast engine
    processors are counted only."""
    stay: bool = False
    """Whether a running job stays where it is, if that is still free."""
    predictor: Predictor | None = field(init=False, factory=Perfect, repr=False)
    passes: Passes | None = field(init=False, default="instant", repr=False)
    checkpoint: Checkpoint | None = field(init=False, default=Checkpoint(every=0), repr=False)

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the policy on the workload's nodes."""
        why_not = list(why_not_fast(self, workload, settings, has_one=True))
        if self.stay or not isinstance(self.start_cost, NoCost):
            why_not.append("it knows neither jobs that stay where they are nor costs of starts")
        if settings.passes == "event" or settings.ties.seed is not None:
            why_not.append("this policy decides once an instant in it, whatever the ties")
        if any(
            each is not None and each != Checkpoint(every=0)
            for each in (settings.checkpoint, *workload.column("checkpoint"))
        ):
            why_not.append("jobs keep all of their work in it")
        if settings.engine == "fast" and why_not:
            message = f"expected 'auto' or 'general', since {'; '.join(why_not)}"
            raise SimulationError.at("engine", message)
        if why_not or settings.engine == "general":
            return run_on_nodes(workload, runs, settings, self)
        return _Simulation(workload, runs, settings, self).run()

    @abstractmethod
    def ranking(self, workload: Workload, jobs: _Progress) -> _Order:
        """Return the order in which jobs are placed in the fast engine."""

    @abstractmethod
    def begin_order(self) -> _Anew:
        """Return the order in which jobs are placed in the general engine."""

    def begin(self, workload: Workload, /) -> Decides:
        """Return what decides in a new simulation: it knows the order of the pass before."""
        assert workload.machine is not None
        return _Placer(self, workload.machine)

    def decide(self, view: View, /) -> Iterable[Decision]:
        """Return what it would decide in the first pass of a simulation of processors."""
        return _Placer(self, Machine(view.processors)).decide(view)


@frozen(kw_only=True)
class Srtf(_Preemptive):
    """Shortest remaining time first."""

    def ranking(self, workload: Workload, jobs: _Progress) -> _Order:  # noqa: ARG002
        """Return the order by remaining time."""
        return _ByKey(jobs.remaining)

    def begin_order(self) -> _Anew:
        """Return the order by remaining time."""
        return _BySeconds(by_size=False)

    def __str__(self) -> str:
        return "SRTF"


@frozen(kw_only=True)
class Srsf(_Preemptive):
    """Shortest remaining service first: remaining time times processors."""

    def ranking(self, workload: Workload, jobs: _Progress) -> _Order:
        """Return the order by remaining service."""
        return _ByKey(jobs.remaining, workload.processors)

    def begin_order(self) -> _Anew:
        """Return the order by remaining service."""
        return _BySeconds(by_size=True)

    def __str__(self) -> str:
        return "SRSF"


def _limits(items: Iterable[float], /) -> tuple[float, ...]:
    return kept_tuple(items, "limits")


@frozen(kw_only=True)
class LeastAttainedService(_Preemptive):
    """Least attained service first, in levels, as in Tiresias; it does not use run times.

    A job begins in the first level, and moves to the next when its processor seconds reach that
    level's limit, one level a pass. Within a level, running jobs come before waiting ones, and
    otherwise jobs keep the order in which they entered; see `demoted`.

    Source: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019.
    """

    placement: Placement | None = None
    limits: tuple[float, ...] = field(default=(3250, 7200), converter=_limits)
    """The processor seconds that end each level except the last. (The defaults are those of
    Muri's simulator.)"""

    demoted: Literal["behind", "ahead"] = "behind"
    """Whether a running job that sinks goes behind the waiting jobs of its new level, or before
    them."""

    def __attrs_post_init__(self) -> None:
        faults: list[Fault] = []
        if not are_rising(self.limits):
            message = (
                f"expected rising numbers of processor seconds above 0, got {shown(self.limits)}"
            )
            faults.append(Fault("LeastAttainedService.limits", message))
        if not is_text(self.demoted) or self.demoted not in ("behind", "ahead"):
            message = f"expected 'behind' or 'ahead', got {shown(self.demoted)}"
            faults.append(Fault("LeastAttainedService.demoted", message))
        if faults:
            raise SimulationError(faults)

    def ranking(self, workload: Workload, jobs: _Progress) -> _Order:
        """Return the order by level."""
        return _ByLevel(workload, jobs, self.limits, ahead=self.demoted == "ahead")

    def begin_order(self) -> _Anew:
        """Return the order by level."""
        return _Levels(self.limits, ahead=self.demoted == "ahead")

    def __str__(self) -> str:
        return f"LAS (levels end at {', '.join(f'{limit:g}' for limit in self.limits)} s)"


# In the general engine


_AnyJob = WaitingJob | RunningJob


class _Anew:
    """The order in which all jobs are placed at a pass."""

    def __init__(self) -> None:
        self.jobs: list[JobId] = []
        """The jobs in the order of the pass before."""

    def sort(self, view: View, known: dict[JobId, _AnyJob]) -> Iterable[JobId]:
        """Return all jobs in the order in which they are placed now."""
        self.jobs = [each for each in self.jobs if each in known]
        old = set(self.jobs)
        self.jobs += [job.id for job in view.waiting if job.id not in old]
        return self.jobs

    def placed(self, view: View, known: dict[JobId, _AnyJob], runs: set[JobId]) -> float:  # noqa: ARG002
        """Take note of who runs; return the next time at which the order may change."""
        return inf


class _BySeconds(_Anew):
    def __init__(self, *, by_size: bool) -> None:
        super().__init__()
        self._by_size = by_size

    def sort(self, view: View, known: dict[JobId, _AnyJob]) -> Iterable[JobId]:
        super().sort(view, known)
        now = view.now

        def remaining(each: JobId) -> float:
            job = known[each]
            seconds = (
                job.duration if isinstance(job, WaitingJob) else (job.expected_end or inf) - now
            )
            return seconds * job.processors if self._by_size else seconds

        self.jobs.sort(key=remaining)
        return self.jobs


class _Levels(_Anew):
    def __init__(self, limits: Sequence[float], *, ahead: bool) -> None:
        super().__init__()
        self._limits = limits
        self._ahead = ahead
        self._level = dict[JobId, int]()
        self._levels: list[list[JobId]] = [[] for _ in range(len(limits) + 1)]
        self._ran: list[JobId] = []

    def sort(self, view: View, known: dict[JobId, _AnyJob]) -> Iterable[JobId]:
        for jobs in self._levels:
            jobs[:] = [each for each in jobs if each in known]
        self._level = {each: level for each, level in self._level.items() if each in known}
        for job in view.waiting:
            if job.id not in self._level:
                self._level[job.id] = 0
                self._levels[0].append(job.id)
        counts = [sum(each in self._ran for each in jobs) for jobs in self._levels]
        for each in self._ran:
            level = self._level.get(each, len(self._limits))
            if level < len(self._limits) and self._served(known[each]) >= self._limits[level]:
                self._levels[level].remove(each)
                below = self._levels[level + 1]
                below.insert(counts[level + 1] if self._ahead else len(below), each)
                counts[level + 1] += 1
                self._level[each] = level + 1
        return [each for jobs in self._levels for each in jobs]

    def _served(self, job: _AnyJob) -> float:
        return job.attained * job.processors

    def placed(self, view: View, known: dict[JobId, _AnyJob], runs: set[JobId]) -> float:
        self._ran = [each for jobs in self._levels for each in jobs if each in runs]
        sinks = inf
        for jobs in self._levels:
            jobs.sort(key=lambda each: each not in runs)
        for each in self._ran:
            level, job = self._level[each], known[each]
            if level < len(self._limits):
                # In whole seconds of service.
                limit = ceil(self._limits[level] / job.processors)
                sinks = min(sinks, view.now + max(limit - job.attained, 0))
        return sinks


class _Placer:
    """Places all jobs anew at each pass."""

    def __init__(self, policy: _Preemptive, machine: Machine) -> None:
        self._policy = policy
        self._machine = machine
        self._order = policy.begin_order()
        self._before = 0.0

    def decide(self, view: View, /) -> Iterator[Decision]:
        known: dict[JobId, _AnyJob] = {job.id: job for job in view.waiting}
        running = {job.id: job for job in view.running}
        known |= running
        drained = {node.name for node in view.nodes if node.drained}
        fixed = {
            each: job.places
            for each, job in running.items()
            if drained and any(name in drained for name, _ in job.places)
        }
        order = list(self._order.sort(view, known))
        places = self._places(view, order, running, fixed)
        for each in running:
            if each not in places:
                yield Stop(each)
        passed, policy, per_node = view.now - self._before, self._policy, self._machine.per_node
        self._before = view.now
        for each, where in places.items():
            job = known[each]
            facts = job if isinstance(job, WaitingJob) else job.job
            size, labels = facts.processors, facts.labels
            if isinstance(job, WaitingJob):
                cost = policy.start_cost.seconds(size, per_node, labels)
                yield Start(each, where, cost or None)
                continue
            cost = min(policy.event_cost.seconds(size, per_node, labels), passed)
            if where != job.places:
                yield Resize(each, where, cost or None)
            elif cost:
                yield Resize(each, where, cost)
        wakes = self._order.placed(view, known, set(places))
        yield Wake(wakes)

    def _places(
        self,
        view: View,
        order: Iterable[JobId],
        running: dict[JobId, RunningJob],
        fixed: dict[JobId, Pairs],
    ) -> dict[JobId, Pairs]:
        """Return where each job that runs from now on is."""
        placement = self._policy.placement
        found: dict[JobId, Pairs] = dict(fixed)
        nodes = None if placement is None else placement.begin(self._machine)
        for each, held in running.items():
            if each not in fixed:
                view.give(each, held.places)
        index_of = {node.name: index for index, node in enumerate(view.nodes)}
        if nodes is not None:
            hold_places(
                nodes, [(index_of[name], n) for where in fixed.values() for name, n in where]
            )
        for each in order:
            if each in found:
                continue
            job = running.get(each)
            if nodes is None:
                if job is not None and self._policy.stay and view.take(each, job.places):
                    found[each] = job.places
                    continue
                where = view.place(each)
            else:
                if job is not None and self._policy.stay:
                    own = [(index_of[name], count) for name, count in job.places]
                    if hold_places(nodes, own):
                        found[each] = job.places
                        continue
                size = job.processors if job is not None else view.job(each).processors
                taken = take_open(nodes, size, view.open_nodes(each))
                where = None if taken is None else view.named(taken)
            if where is not None:
                found[each] = where
        return found


# In the fast engine


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
    def __init__(
        self, workload: Workload, jobs: _Progress, limits: Sequence[float], *, ahead: bool
    ) -> None:
        self._ahead = ahead
        # How many jobs of each level run; they come first there.
        self._running = [0] * (len(limits) + 1)
        self._sizes = workload.processors
        self._served = jobs.served
        self._limits = limits
        self._level = dict[int, int]()
        self._levels: list[list[int]] = [[] for _ in range(len(limits) + 1)]

    def arrived(self, job: int) -> None:
        self._level[job] = 0
        self._levels[0].append(job)

    def ended(self, job: int) -> None:
        level = self._level.pop(job)
        self._levels[level].remove(job)
        self._running[level] -= 1

    def served(self, job: int) -> None:
        level = self._level[job]
        if (
            level < len(self._limits)
            and self._served[job] * self._sizes[job] >= self._limits[level]
        ):
            self._levels[level].remove(job)
            below = self._levels[level + 1]
            below.insert(self._running[level + 1] if self._ahead else len(below), job)
            self._running[level + 1] += 1
            self._level[job] = level + 1

    def jobs(self) -> Iterable[int]:
        return (job for level in self._levels for job in level)

    def placed(self, running: dict[int, None], now: float) -> float:
        for level, jobs in enumerate(self._levels):
            jobs.sort(key=lambda job: job not in running)
            self._running[level] = sum(job in running for job in jobs)
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
        self._order = policy.ranking(workload, self._progress)
        self._costs = [
            policy.event_cost.seconds(size, workload.machine.per_node, labels)
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
        return evolve(self._courses.outcome(), engine="fast")

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
