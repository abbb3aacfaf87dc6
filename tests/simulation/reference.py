"""The simulator as plainly as it can be written: everything is looked for anew at each event.

It knows jobs as they are in a workload, and decides by the texts of the policies alone.
"""

from __future__ import annotations

from math import inf, nextafter

from batchsched.simulation import Corrector, Job, Workload

Starts = dict[int | str, float]


class Plain:
    """One simulation of a workload of requested times that are bounds or not."""

    def __init__(
        self,
        workload: Workload,
        policy: str,
        factor: float = 1,
        corrector: Corrector | None = None,
    ) -> None:
        self.jobs = {job.id: job for job in workload}
        assert workload.machine is not None
        self.size = workload.machine.processors
        self.policy = policy
        self.factor = factor
        self.corrector = corrector
        self.corrected: dict[int | str, list[float]] = {}
        self.starts: Starts = {}
        self.order: list[int | str] = []
        self.queue: list[int | str] = []
        self.promises: dict[int | str, float] = {}
        self.released: set[int | str] = set()
        self.gone: set[int | str] = set()
        self.left_early = False
        # Whether promises rest on an end that was expected too early.
        self.misled = False

    def run_time(self, job: Job) -> float:
        return job.run if job.requested is None else min(job.run, job.requested)

    def estimate(self, job: Job) -> float:
        assert job.requested is not None
        return self.corrected.get(job.id, [self.factor * job.requested])[-1]

    def running(self) -> list[Job]:
        return [self.jobs[each] for each in self.starts if each not in self.released]

    def free(self) -> int:
        return self.size - sum(job.processors for job in self.running())

    def expected_end(self, job: Job) -> float:
        return self.starts[job.id] + self.estimate(job)

    def end(self, job: Job) -> float:
        return self.starts[job.id] + self.run_time(job)

    # Events

    def run(self) -> Starts:
        arrivals = sorted(self.jobs.values(), key=lambda job: (job.submit, job.id))
        now = 0.0
        while True:
            times = [job.submit for job in arrivals]
            times += [self.end(self.jobs[each]) for each in self.starts if each not in self.gone]
            # Promises of the next possible moment wait for jobs that are overdue.
            times += [time for time in self.promises.values() if time > nextafter(now, inf)]
            if not times:
                return self.starts
            now = min(times)
            self.correct(now)
            self.release_what_is_due(now)
            if arrivals and arrivals[0].submit == now:
                job = arrivals.pop(0)
                self.queue.append(job.id)
                if self.policy == "conservative":
                    self.promises[job.id] = self.earliest(job, now)
            elif ended := [
                each
                for each in self.order
                if each not in self.gone and self.end(self.jobs[each]) == now
            ]:
                self.gone.add(ended[0])
                if ended[0] not in self.released:
                    self.released.add(ended[0])
                    self.left_early = True
                    self.misled |= self.expected_end(self.jobs[ended[0]]) < now
            getattr(self, self.policy)(now)

    def correct(self, now: float) -> None:
        if self.corrector is None:
            return
        for job in self.running():
            while self.run_time(job) > self.estimate(job) and self.expected_end(job) <= now:
                known = self.corrected.setdefault(job.id, [self.estimate(job)])
                more = self.corrector.correct(
                    known[0], known[-1], len(known) - 1, job.requested or 0
                )
                known.append(more)
                self.misled = True

    def release_what_is_due(self, now: float) -> None:
        for job in self.running():
            if self.end(job) == self.expected_end(job) == now:
                self.released.add(job.id)

    def start(self, each: int | str, now: float) -> None:
        assert self.jobs[each].processors <= self.free()
        self.starts[each] = now
        self.order.append(each)
        self.queue.remove(each)
        self.promises.pop(each, None)
        self.release_what_is_due(now)

    # Policies

    def fcfs(self, now: float) -> None:
        while self.queue and self.jobs[self.queue[0]].processors <= self.free():
            self.start(self.queue[0], now)

    def sjf(self, now: float) -> None:
        while self.queue:
            shortest = min(self.queue, key=lambda each: self.estimate(self.jobs[each]))
            if self.jobs[shortest].processors > self.free():
                return
            self.start(shortest, now)

    def easy(self, now: float) -> None:
        self.backfill(now, self.queue[1:])

    def easy_sjbf(self, now: float) -> None:
        self.backfill(now, self.queue[1:], shortest_first=True)

    def backfill(self, now: float, _tail: list[int | str], *, shortest_first: bool = False) -> None:
        self.fcfs(now)
        if not self.queue:
            return
        tail = self.queue[1:]
        if shortest_first:
            tail.sort(key=lambda each: self.estimate(self.jobs[each]))
        for each in tail:
            # The shadow time and what is extra, anew for each job.
            head = self.jobs[self.queue[0]]
            ends = sorted({max(self.expected_end(job), now) for job in self.running()})
            shadow = next(time for time in ends if self.free_at(time, now) >= head.processors)
            extra = self.free_at(shadow, now) - head.processors
            job = self.jobs[each]
            short = now + self.estimate(job) <= shadow
            if job.processors <= self.free() and (short or job.processors <= extra):
                self.start(each, now)

    def free_at(self, time: float, now: float) -> int:
        still = [job for job in self.running() if max(self.expected_end(job), now) > time]
        return self.size - sum(job.processors for job in still)

    def conservative(self, now: float) -> None:
        overdue = any(self.expected_end(job) <= now for job in self.running())
        if overdue or self.misled:
            self.misled = overdue
            self.left_early = False
            self.promises = {}
            for each in self.queue:
                self.promises[each] = self.earliest(self.jobs[each], now)
        elif self.left_early:
            self.left_early = False
            for each in list(self.queue):
                if self.promises[each] > now:
                    del self.promises[each]
                    self.promises[each] = self.earliest(self.jobs[each], now)
        for each in [each for each in self.queue if self.promises[each] <= now]:
            self.start(each, now)

    def earliest(self, job: Job, now: float) -> float:
        # A job that is overdue is expected to end at the next possible moment.
        at_once = nextafter(now, inf)
        held = [
            (self.starts[other.id], max(self.expected_end(other), at_once), other.processors)
            for other in self.running()
        ]
        held += [
            (time, time + self.estimate(self.jobs[other]), self.jobs[other].processors)
            for other, time in self.promises.items()
            if other != job.id
        ]

        def used(time: float) -> int:
            return sum(size for start, end, size in held if start <= time < end)

        for time in sorted({now, *(end for _, end, _ in held if end > now)}):
            until = time + self.estimate(job)
            moments = [time, *(start for start, _, _ in held if time < start < until)]
            if all(used(moment) + job.processors <= self.size for moment in moments):
                return time
        raise AssertionError("the machine is too small")


def plain_starts(
    workload: Workload, policy: str, factor: float = 1, corrector: Corrector | None = None
) -> Starts:
    """Return when each job starts, by the plain loop."""
    return Plain(workload, policy, factor, corrector).run()
