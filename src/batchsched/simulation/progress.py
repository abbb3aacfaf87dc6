"""The course of one job in the general engine: its work, kept exactly, and what it holds."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter

from batchsched.model.cluster import JobInfo
from batchsched.simulation.books import Holding, Shape
from batchsched.simulation.checks import JobId
from batchsched.simulation.decisions import WaitingJob
from batchsched.simulation.work import Checkpoint

Exact = int | Fraction
"""A number that is kept exactly."""


def exact(number: float) -> Exact:
    """Return a finite number exactly."""
    if type(number) is int:
        return number
    return int(number) if number.is_integer() else Fraction(number)


def at_or_after(number: Exact) -> float:
    """Return the least number of a clock that is not before an exact time."""
    if type(number) is int:
        return number
    if number.denominator == 1:
        return number.numerator
    time = float(number)
    return time if Fraction(time) >= number else nextafter(time, inf)


class Job:
    """A job during a simulation."""

    __slots__ = (
        "arrived",
        "at",
        "attained",
        "began",
        "checkpoint",
        "corrections",
        "done",
        "estimate",
        "expected",
        "first_estimate",
        "held_since",
        "holding",
        "id",
        "index",
        "info",
        "interval_since",
        "kept",
        "overhead",
        "owed",
        "queued",
        "rate",
        "released",
        "run",
        "saving",
        "seen",
        "shape",
        "start",
        "stops",
        "uids",
        "version",
    )  # fmt: skip

    def __init__(
        self, index: int, each: JobId, shape: Shape, run: Exact, checkpoint: Checkpoint
    ) -> None:
        self.index = index
        self.id = each
        self.shape = shape
        self.run = run
        self.checkpoint = checkpoint
        self.arrived: float = 0
        self.queued = 0
        """The place in the order of arrivals."""
        self.estimate: float = inf
        self.first_estimate: float = inf
        self.corrections = 0
        self.holding: Holding | None = None
        self.held_since: float = 0
        """Since when it holds what it holds now."""
        self.interval_since: float = 0
        """Since when it holds anything."""
        self.attained: float = 0
        self.start: float | None = None
        """Since when it holds what it needs; None while it does not."""
        self.began = False
        """Whether it has held what it needs since its last start."""
        self.at: Exact = 0
        """The time until which its work is told."""
        self.rate: Exact = 0
        self.done: Exact = 0
        self.kept: Exact = 0
        self.owed: Exact = 0
        """The seconds that it takes before it works: of starts and resizes."""
        self.saving: Exact = 0
        """The seconds that saving its work still takes."""
        self.overhead: Exact = 0
        self.expected: float = inf
        self.version = 0
        """Events for an earlier version are void."""
        self.released = 0
        """The version whose end is still to be processed, if it has released what it held."""
        self.stops = 0
        self.seen: WaitingJob | None = None
        self.info: JobInfo | None = None
        self.uids: dict[str, int] | None = None

    @property
    def duration(self) -> float:
        """For how long it would run, as far as known; it must have been seen."""
        assert self.seen is not None
        return self.seen.duration

    def _seconds(self, begin: Exact, work: Exact, rate: Exact) -> Exact:
        """Return how long work takes from one point to another, saving included."""
        left = work - begin
        if left <= 0 or not rate:
            return 0
        seconds = left if rate == 1 else Fraction(left) / rate
        return seconds + self._saves(begin, work) * exact(self.checkpoint.cost)

    def _saves(self, begin: Exact, work: Exact) -> int:
        every = self.checkpoint.every
        if not every or not self.checkpoint.cost:
            return 0
        step = exact(every)
        return int(max(0, -(-work // step) - 1 - begin // step))

    def seconds_until(self, work: Exact) -> Exact:
        """Return how long it takes until it has done so much work, at its rate."""
        return self.saving + self.owed + self._seconds(self.done, work, self.rate)

    def seconds_anew(self, work: Exact, rate: Exact, first: Exact) -> float:
        """Return how long it would take from its next start on, at this rate."""
        return at_or_after(first + self._seconds(self.kept, work, rate))

    def advance(self, now: Exact) -> None:
        """Let it work until now."""
        passed = now - self.at
        self.at = now
        if not self.rate or not passed:
            return
        if passed >= self.seconds_until(self.run):
            saves = self._saves(self.done, self.run) * exact(self.checkpoint.cost)
            self.overhead += self.saving + self.owed + saves
            self.owed = self.saving = 0
            self.done = self.run
            every = self.checkpoint.every
            if every and self.checkpoint.cost:
                self.kept = max(self.kept, (-(-self.run // exact(every)) - 1) * exact(every))
            return
        while passed:
            if self.saving:
                used = min(self.saving, passed)
                self.saving -= used
                if not self.saving:
                    self.kept = self.done
            elif self.owed:
                used = min(self.owed, passed)
                self.owed -= used
            else:
                passed -= self._work(passed)
                continue
            self.overhead += used
            passed -= used

    def _work(self, most: Exact) -> Exact:
        """Work until the next time at which it saves; return for how long."""
        every, cost = self.checkpoint.every, exact(self.checkpoint.cost)
        if not every or not cost:
            self.done += most * self.rate
            return most
        step = exact(every)
        cycle = step / Fraction(self.rate) + cost
        upcoming = (self.done // step + 1) * step
        until = (upcoming - self.done) / Fraction(self.rate)
        if most < until:
            self.done += most * self.rate
            return most
        # Whole cycles of saving and working at once: there may be very many.
        whole = int((most - until) // cycle)
        self.done = upcoming + whole * step
        self.kept = self.done - step if whole else self.kept
        self.overhead += whole * cost
        self.saving = cost
        return until + whole * cycle

    def saved(self) -> Exact:
        """Return the work that it keeps if it is stopped now."""
        every = self.checkpoint.every
        if every is None:
            return 0
        if not every:
            return self.done
        if self.checkpoint.cost:
            return self.kept
        return max(self.kept, self.done // exact(every) * exact(every))
