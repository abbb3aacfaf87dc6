"""When things happen: the events to come, arrivals, and the courses of jobs without nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import inf
from typing import Final

from batchsched.simulation.randomness import RandomNumbers
from batchsched.simulation.settings import Interval, Outcome, Progress, Ties
from batchsched.simulation.work import After, On
from batchsched.simulation.workload import Workload

RESERVATION: Final = 0  # this and the next are never in random order
INCIDENT: Final = 1
DUE: Final = 2
CORRECTION: Final = 3
ARRIVAL: Final = 4
END: Final = 5
WAKE: Final = 6
_KINDS: Final = {"correction": CORRECTION, "arrival": ARRIVAL, "end": END, "promise": WAKE}
_FIRST: Final = {RESERVATION: -3, INCIDENT: -2, DUE: -1}
_REPORT_EVERY: Final = 1000
"""The number of jobs that end between two calls of `progress`."""


class Events:
    """What is to happen: by time and, within an instant, in the order of ties."""

    __slots__ = ("_random", "_ranks", "due_first", "heap", "sequence")

    def __init__(self, ties: Ties, jobs: int) -> None:
        self.heap: list[tuple[float, int, int, int, int, int]] = []
        """The time, two ranks, the kind, what it is about, and the version of that."""
        self.sequence = jobs
        """The rank that was given last; those of arrivals are the indexes of the jobs."""
        self.due_first = ties.due_first and ties.seed is None
        self._ranks = _FIRST | {_KINDS[kind]: place for place, kind in enumerate(ties.order)}
        self._random = None if ties.seed is None else RandomNumbers(ties.seed).bits

    def push(
        self, time: float, kind: int, which: int, sequence: int | None = None, version: int = 0
    ) -> None:
        """Add an event, whose rank among others of its kind is the next or the given one."""
        if sequence is None:
            self.sequence = sequence = self.sequence + 1
        random = self._random
        rank = self._ranks[kind] if random is None or kind <= INCIDENT else random()
        heappush(self.heap, (time, rank, sequence, kind, which, version))


class Ended:
    """How many jobs have ended, which is told now and then."""

    __slots__ = ("_jobs", "_progress", "count")

    def __init__(self, progress: Progress | None, jobs: int) -> None:
        self._progress = progress
        self._jobs = jobs
        self.count = 0

    def add(self) -> None:
        """Count one more."""
        self.count += 1
        if self.count % _REPORT_EVERY == 0:
            self.tell()

    def tell(self) -> None:
        """Tell how many there are."""
        if self._progress is not None:
            self._progress(self.count, self._jobs)


class Arrivals:
    """Passes arrivals on one instant at a time, so that the queue of events stays short.

    Args:
        workload: The jobs; they are identified by their index.
        push: Called with the time of each arrival and the job. Arrivals of the log come in order.
    """

    def __init__(self, workload: Workload, push: Callable[[float, int], object]) -> None:
        self._workload = workload
        self._submit = workload.submits
        self._push = push
        self._next = 0
        self._last = -1
        self.eligible: list[float | None] | None = None
        """When each job counted as submitted, if any job depends on another."""
        self._left = dict[int, list[tuple[int, On, float]]]()
        """The conditions of each job that do not hold yet: index of the other job, what must
        happen to it, and the seconds from then."""
        self._followers = dict[int, list[int]]()
        self._from = dict[int, float]()
        self._happened = dict[int, set[On]]()
        if workload.has_dependencies:
            self.eligible = list(workload.submits)
            places = {each: index for index, each in enumerate(workload.ids)}
            for job, (after, think) in enumerate(zip(workload.after, workload.think, strict=True)):
                if after is None:
                    continue
                conditions = after if isinstance(after, tuple) else (After(after, think=think),)
                self._left[job] = [(places[one.job], one.on, one.think) for one in conditions]
                for other in dict.fromkeys(other for other, _, _ in self._left[job]):
                    self._followers.setdefault(other, []).append(job)
                self.eligible[job] = None
        self._depends = frozenset(self._left)

    def push_next(self) -> None:
        """Push all arrivals of the next instant; `arrived` does once the last is processed."""
        submit, depends = self._submit, self._depends
        place = self._next
        count = len(submit)
        instant = None
        while place < count and (instant is None or submit[place] == instant):
            if place not in depends:
                instant = submit[place]
                self._push(instant, place)
                self._last = place
            place += 1
        self._next = place

    def arrived(self, job: int) -> None:
        """Push the next instant, if this job is the last of the log whose arrival was pushed."""
        if job == self._last:
            self.push_next()

    def happened(self, job: int, now: float, *what: On) -> None:
        """Push the arrivals of the jobs that wait for what has happened to this one."""
        if self.eligible is None or job not in self._followers:
            return
        self._happened.setdefault(job, set()).update(what)
        for follower in self._followers[job]:
            left = self._left[follower]
            met = [each for each in left if each[0] == job and each[1] in what]
            if not met:
                continue
            left[:] = [each for each in left if each not in met]
            latest = max(now + think for _, _, think in met)
            time = self._from[follower] = max(self._from.get(follower, latest), latest)
            if not left:
                time = max(self._submit[follower], time)
                self.eligible[follower] = time
                self._push(time, follower)

    def why_never(self, job: int) -> str | None:
        """Return why a job has never arrived; None if it has."""
        if self.eligible is None or self.eligible[job] is not None:
            return None
        return "it depends on " + "; ".join(self._conditions(job))

    def _conditions(self, job: int) -> Iterator[str]:
        ids = self._workload.ids
        for other, on, _ in self._left[job]:
            has_ended = "ended" in self._happened.get(other, ())
            never = "has ended and will never have" if has_ended else "has not"
            yield f"job {ids[other]!r}, which {never} {on}"


class Courses:
    """When jobs arrive, run and end in a simulation in which running jobs may be stopped."""

    def __init__(self, workload: Workload, progress: Progress | None) -> None:
        count = len(workload)
        self.ended = Ended(progress, count)
        self.ends: list[float | None] = [None] * count
        self.preemptions = [0] * count
        """How often each job was stopped before its end."""
        self.since = dict[int, float]()
        """When each running job was started last."""
        self._workload = workload
        self._starts: list[float | None] = [None] * count
        self._intervals: list[Interval] = []
        self._coming: list[tuple[float, int]] = []
        self._arrivals = Arrivals(workload, lambda time, job: heappush(self._coming, (time, job)))
        self._arrivals.push_next()

    def next_arrival(self) -> float:
        """Return the time of the next arrival; infinity if none is known."""
        return self._coming[0][0] if self._coming else inf

    def arrived_by(self, now: float) -> Iterator[int]:
        """Yield the jobs that have arrived by now, each once, in order."""
        while self._coming and self._coming[0][0] <= now:
            _, job = heappop(self._coming)
            yield job
            self._arrivals.arrived(job)

    def start(self, job: int, now: float) -> None:
        """Start a job, or start it again."""
        self.since[job] = now
        if self._starts[job] is None:
            self._starts[job] = now

    def stop(self, job: int, now: float) -> None:
        """Stop a running job, which will be started again."""
        self.preemptions[job] += 1
        self._intervals.append((job, self.since.pop(job), now))

    def end(self, job: int, now: float) -> None:
        """End a running job."""
        self._intervals.append((job, self.since.pop(job), now))
        self.ends[job] = now
        self._arrivals.happened(job, now, "ended")
        self.ended.add()

    def outcome(self, engine: str = "own") -> Outcome:
        """Return the outcome; jobs that never ended cannot be placed, or never arrived."""
        self.ended.tell()
        held: list[float] = [0] * len(self.ends)
        for job, start, end in self._intervals:
            held[job] += end - start
        return Outcome(
            starts=self._starts,
            ends=self.ends,
            held=held,
            preemptions=self.preemptions,
            intervals=sorted(self._intervals),
            eligible=self._arrivals.eligible,
            unfinished={
                job: self._arrivals.why_never(job)
                or f"its {self._workload.processors[job]} processors cannot be placed on "
                f"{self._workload.machine}, even if nothing else runs"
                for job, end in enumerate(self.ends)
                if end is None
            },
            engine=engine,
        )
