"""A policy that decides in rounds, with an engine of its own."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import ceil, floor, inf

from attrs import field, frozen

from batchsched.model.validation.values import shown
from batchsched.simulation.checks import PolicyError, SimulationError, is_number
from batchsched.simulation.courses import Courses
from batchsched.simulation.decisions import Decision
from batchsched.simulation.nodes import Consolidated, Placement
from batchsched.simulation.policies import Policy, why_not_fast
from batchsched.simulation.settings import Outcome, Settings
from batchsched.simulation.view import View
from batchsched.simulation.work import ByDistance, Cost
from batchsched.simulation.workload import Workload


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
    placement: Placement | None = field(factory=Consolidated)
    """How nodes are chosen."""

    def __attrs_post_init__(self) -> None:
        if not is_number(self.length, least=0, above=True):
            raise SimulationError.at(
                "SrtfInRounds.length", f"expected seconds above 0, got {shown(self.length)}"
            )

    def decide(self, view: View, /) -> Iterable[Decision]:
        """Raise an error: it is no policy of events.

        Raises:
            PolicyError: Always.
        """
        raise PolicyError(f"{self} decides in rounds, at no event, at {view.now} s")

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the rounds on the workload's nodes."""
        why_not = [
            why
            for why in why_not_fast(self, workload, settings, has_one=True)
            if settings.engine != "general"
        ]
        if settings.engine == "general":
            why_not = ["it has an engine of its own"]
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
        self._settings = settings
        self._machine = workload.machine
        self._length = policy.length
        placement = policy.placement or Consolidated()
        self._nodes = placement.begin(workload.machine)
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
