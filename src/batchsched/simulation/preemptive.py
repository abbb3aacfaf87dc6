"""Policies that stop jobs for others: at every event, or in rounds."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from math import ceil, floor, inf
from typing import Generic, Literal, TypeVar

from attrs import field, frozen

from batchsched.model.immutable import AsTuple
from batchsched.simulation.arrivals import Courses
from batchsched.simulation.books import (
    Consolidated,
    FirstFit,
    NodeChoice,
    Pairs,
    hold_places,
    take_open,
)
from batchsched.simulation.checks import (
    JobId,
    PolicyError,
    SimulationError,
    are_rising,
    faults_of_name,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.decisions import (
    Decision,
    Resize,
    RunningJob,
    Start,
    Stop,
    WaitingJob,
    Wake,
)
from batchsched.simulation.engine import Decides, Policy, run_on_nodes, takes_general, why_not_fast
from batchsched.simulation.jobs import Machine
from batchsched.simulation.predictors import Perfect, Predictor
from batchsched.simulation.settings import Outcome, Passes, Settings
from batchsched.simulation.view import View
from batchsched.simulation.work import ByDistance, Checkpoint, Cost, NoCost
from batchsched.simulation.workload import Workload


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
    placement: NodeChoice | None = field(factory=FirstFit)
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
        if takes_general(settings, why_not):
            return run_on_nodes(workload, runs, settings, self)
        return _Simulation(workload, runs, settings, self).run()

    @abstractmethod
    def ranking(self, facts: _Facts[KeyT]) -> _Order[KeyT]:
        """Return the order in which jobs are placed."""

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

    def ranking(self, facts: _Facts[KeyT]) -> _Order[KeyT]:
        """Return the order by remaining time."""
        return _Order(facts.remaining)

    def __str__(self) -> str:
        return "SRTF"


@frozen(kw_only=True)
class Srsf(_Preemptive):
    """Shortest remaining service first: remaining time times processors."""

    def ranking(self, facts: _Facts[KeyT]) -> _Order[KeyT]:
        """Return the order by remaining service."""
        return _Order(lambda job: facts.remaining(job) * facts.size(job))

    def __str__(self) -> str:
        return "SRSF"


@frozen(kw_only=True)
class LeastAttainedService(_Preemptive):
    """Least attained service first, in levels, as in Tiresias; it does not use run times.

    A job begins in the first level, and moves to the next when its processor seconds reach that
    level's limit, one level a pass. Within a level, running jobs come before waiting ones, and
    otherwise jobs keep the order in which they entered; see `demoted`.

    Source: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019.
    """

    placement: NodeChoice | None = None
    limits: tuple[float, ...] = field(default=(3250, 7200), converter=AsTuple[float])
    """The processor seconds that end each level except the last. (The defaults are those of
    Muri's simulator.)"""

    demoted: Literal["behind", "ahead"] = "behind"
    """Whether a running job that sinks goes behind the waiting jobs of its new level, or before
    them."""

    def __attrs_post_init__(self) -> None:
        is_right, what = are_rising(self.limits), "rising numbers of processor seconds above 0"
        refuse(
            SimulationError,
            faults_unless(is_right, "LeastAttainedService.limits", what, self.limits),
            faults_of_name("LeastAttainedService.demoted", self.demoted, ("behind", "ahead")),
        )

    def ranking(self, facts: _Facts[KeyT]) -> _Order[KeyT]:
        """Return the order by level."""
        return _ByLevel(facts, self.limits, ahead=self.demoted == "ahead")

    def __str__(self) -> str:
        return f"LAS (levels end at {', '.join(f'{limit:g}' for limit in self.limits)} s)"


# Orders


KeyT = TypeVar("KeyT", bound=Hashable)


@frozen
class _Facts(Generic[KeyT]):
    """What an order may ask of a job."""

    size: Callable[[KeyT], int]
    remaining: Callable[[KeyT], float]
    served: Callable[[KeyT], float]
    """For how long it has held resources, costs included."""


class _Order(Generic[KeyT]):
    """The order in which jobs are placed: by a key."""

    def __init__(self, key: Callable[[KeyT], float]) -> None:
        self._key = key
        self._jobs: list[KeyT] = []

    def arrived(self, job: KeyT) -> None:
        """Add a job that has arrived."""
        self._jobs.append(job)

    def ended(self, job: KeyT) -> None:
        """Remove a job that has ended."""
        self._jobs.remove(job)

    def served(self, job: KeyT) -> None:
        """Update the order for a job that has run."""

    def jobs(self) -> Iterable[KeyT]:
        """Return the jobs in the order in which they are placed."""
        # Sort the list in place, so that equal jobs keep their previous order.
        self._jobs.sort(key=self._key)
        return self._jobs

    def placed(self, running: Collection[KeyT], now: float) -> float:  # noqa: ARG002
        """Take note of the running jobs; return the next time at which the order may change."""
        return inf


class _ByLevel(_Order[KeyT]):
    def __init__(self, facts: _Facts[KeyT], limits: Sequence[float], *, ahead: bool) -> None:
        super().__init__(facts.served)
        self._facts = facts
        self._limits = limits
        self._ahead = ahead
        self._level = dict[KeyT, int]()
        self._levels: list[list[KeyT]] = [[] for _ in range(len(limits) + 1)]
        self._running: Collection[KeyT] = ()

    def arrived(self, job: KeyT) -> None:
        self._level[job] = 0
        self._levels[0].append(job)

    def ended(self, job: KeyT) -> None:
        self._levels[self._level.pop(job)].remove(job)

    def served(self, job: KeyT) -> None:
        level, facts = self._level[job], self._facts
        if level < len(self._limits) and facts.served(job) * facts.size(job) >= self._limits[level]:
            self._levels[level].remove(job)
            below, place = self._levels[level + 1], len(self._levels[level + 1])
            if self._ahead:
                place = sum(other in self._running for other in below)
            below.insert(place, job)
            self._level[job] = level + 1

    def jobs(self) -> Iterable[KeyT]:
        return [job for level in self._levels for job in level]

    def placed(self, running: Collection[KeyT], now: float) -> float:
        self._running = running
        for jobs in self._levels:
            jobs.sort(key=lambda job: job not in running)
        sinks = inf
        for job in running:
            level = self._level[job]
            if level < len(self._limits):
                # In whole seconds of service.
                limit = ceil(self._limits[level] / self._facts.size(job))
                sinks = min(sinks, now + max(limit - self._facts.served(job), 0))
        return sinks


# In the general engine


_AnyJob = WaitingJob | RunningJob


class _Placer:
    """Places all jobs anew at each pass."""

    def __init__(self, policy: _Preemptive, machine: Machine) -> None:
        self._policy = policy
        self._machine = machine
        self._known = dict[JobId, _AnyJob]()
        self._ran: dict[JobId, Pairs] = {}
        self._unpaid = dict[JobId, float]()
        """What is left of the event costs of each job, in seconds."""
        self._costs: dict[JobId, float] = {}
        """What this pass costs each running job."""
        self._starts_until = dict[JobId, float]()
        """Until when the start of each running job takes at most; it is paid first."""
        self._before = 0.0
        facts = _Facts[JobId](
            lambda job: self._known[job].processors, self._remaining, self._served
        )
        self._order = policy.ranking(facts)
        self._now = 0.0

    def _remaining(self, each: JobId) -> float:
        job = self._known[each]
        if isinstance(job, WaitingJob):
            return job.duration + self._unpaid.get(each, 0)
        if job.expected_end is None:
            return inf
        return job.expected_end - self._now + self._costs.get(each, 0)

    def _served(self, each: JobId) -> float:
        return self._known[each].attained

    def decide(self, view: View, /) -> Iterator[Decision]:
        running = {job.id: job for job in view.running}
        known: dict[JobId, _AnyJob] = {job.id: job for job in view.waiting} | running
        order, before = self._order, self._known
        self._now, self._known = view.now, known
        for each in [each for each in before if each not in known]:
            order.ended(each)
        for each in known:
            if each not in before:
                order.arrived(each)
        for each in self._ran:
            if each in known:
                order.served(each)
        passed, policy, per_node = view.now - self._before, self._policy, self._machine.per_node
        self._costs = {
            each: min(policy.event_cost.seconds(job.processors, per_node, job.job.labels), passed)
            for each, job in running.items()
        }
        drained = {node.name for node in view.nodes if node.drained}
        fixed = {
            each: job.places
            for each, job in running.items()
            if drained and any(name in drained for name, _ in job.places)
        }
        self._ran = places = self._places(view, order.jobs(), running, fixed)
        for each, ran in running.items():
            cost, where_next = self._costs[each], places.get(each)
            if cost:
                self._unpaid[each] = self._still_unpaid(each, view.now) + cost
            if where_next is None:
                yield Stop(each)
            elif where_next != ran.places or cost:
                yield Resize(each, where_next, cost or None)
        for each, where in places.items():
            job = known[each]
            if isinstance(job, WaitingJob):
                cost = policy.start_cost.seconds(job.processors, per_node, job.labels)
                self._starts_until[each] = view.now + cost
                yield Start(each, where, cost + self._unpaid.get(each, 0) or None)
        self._before = view.now
        yield Wake(order.placed(places, view.now))

    def _still_unpaid(self, each: JobId, now: float) -> float:
        """Return what a running job has not paid of its event costs since the pass before."""
        since = max(self._before, self._starts_until.get(each, 0))
        return max(0, self._unpaid.get(each, 0) - max(0, now - since))

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
            job = self._known[each]
            if isinstance(job, RunningJob) and self._policy.stay:
                own = [(index_of[name], count) for name, count in job.places]
                if view.take(each, job.places) if nodes is None else hold_places(nodes, own):
                    found[each] = job.places
                    continue
            if nodes is None:
                where = view.place(each)
            else:
                taken = take_open(nodes, job.processors, view.open_nodes(each))
                where = None if taken is None else view.named(taken)
            if where is not None:
                found[each] = where
        return found


# In the fast engine


def _costs(workload: Workload, cost: Cost, machine: Machine) -> list[float]:
    """Return what something costs each job."""
    both = zip(workload.processors, workload.labels, strict=True)
    return [cost.seconds(size, machine.per_node, labels) for size, labels in both]


class _Simulation:
    def __init__(
        self, workload: Workload, runs: Sequence[float], settings: Settings, policy: _Preemptive
    ) -> None:
        assert workload.machine is not None
        self._workload = workload
        self._machine = workload.machine
        self._placement = policy.placement
        self._remaining = list(runs)
        self._served: list[float] = [0] * len(runs)
        facts = _Facts[int](
            workload.processors.__getitem__,
            self._remaining.__getitem__,
            self._served.__getitem__,
        )
        self._order: _Order[int] = policy.ranking(facts)
        self._costs = _costs(workload, policy.event_cost, workload.machine)
        self._courses = Courses(workload, settings.progress)
        # The running jobs in the order in which they were placed.
        self._running = dict[int, None]()

    def run(self) -> Outcome:
        remaining = self._remaining
        now, looks_again = 0.0, inf
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
            for job in self._courses.arrived_by(time):
                self._order.arrived(job)
            self._work(time - now)
            now = time
            self._place(now)
            looks_again = self._order.placed(self._running, now)
        return self._courses.outcome("fast")

    def _work(self, seconds: float) -> None:
        for job in self._running:
            self._remaining[job] -= max(seconds - self._costs[job], 0)
            self._served[job] += seconds
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


# In rounds, with an engine of its own


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
    placement: NodeChoice | None = field(factory=Consolidated)
    """How nodes are chosen."""

    def __attrs_post_init__(self) -> None:
        is_right = is_number(self.length, least=0, above=True)
        faults = faults_unless(is_right, "SrtfInRounds.length", "seconds above 0", self.length)
        refuse(SimulationError, faults)

    def decide(self, view: View, /) -> Iterable[Decision]:
        """Raise an error: it is no policy of events.

        Raises:
            PolicyError: Always.
        """
        raise PolicyError(f"{self} decides in rounds, at no event, at {view.now} s")

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the rounds on the workload's nodes."""
        why_not = ["it has an engine of its own"]
        if settings.engine != "general":
            why_not = list(why_not_fast(self, workload, settings, has_one=True))
        if why_not:
            raise SimulationError.at("policy", f"{self} cannot simulate this: {why_not[0]}")
        return _Rounds(workload, runs, settings, self).run()

    def __str__(self) -> str:
        return f"SRTF in rounds of {self.length:g} s ({self.placement})"


class _Rounds:
    def __init__(
        self, workload: Workload, runs: Sequence[float], settings: Settings, policy: SrtfInRounds
    ) -> None:
        assert workload.machine is not None
        self._workload = workload
        self._machine = workload.machine
        self._length = policy.length
        placement = policy.placement or Consolidated()
        self._nodes = placement.begin(workload.machine)
        self._remaining = list(runs)
        self._costs = _costs(workload, policy.preemption_cost, workload.machine)
        self._courses = Courses(workload, settings.progress)
        self._waiting: list[int] = []
        # The places of each running job, in order of the starts.
        self._running = dict[int, Sequence[tuple[int, int]]]()

    def run(self) -> Outcome:
        remaining, courses = self._remaining, self._courses
        now = courses.next_arrival()
        while courses.ended.count < len(remaining):
            for job in [job for job in self._running if remaining[job] < 0]:
                self._nodes.give_back(self._running.pop(job))
                courses.end(job, now)
            self._waiting += courses.arrived_by(now)
            changed = self._decide(now)
            rounds = 1 if changed else self._rounds_until_a_change(now, courses.next_arrival())
            if rounds == inf:
                break
            passed = rounds * self._length
            for job in self._running:
                remaining[job] -= passed
            now += passed
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
