"""Policies that stop no job: in order, and with backfilling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf, nextafter
from typing import Literal

from attrs import field, frozen

from batchsched.simulation.books import NodeChoice, Pairs
from batchsched.simulation.checks import (
    JobId,
    SimulationError,
    faults_of_count,
    faults_of_name,
    refuse,
)
from batchsched.simulation.decisions import Decision, Start, WaitingJob, Wake
from batchsched.simulation.engine import Decides, Order, Policy
from batchsched.simulation.pool import (
    ConservativeScheduler,
    EasyScheduler,
    InOrder,
    Pool,
    PoolScheduler,
)
from batchsched.simulation.predictors import Corrector, Predictor, Requested
from batchsched.simulation.view import Profile, View, usual_places
from batchsched.simulation.workload import Workload

# In order: the first that does not fit blocks the rest


class _Ordered(Policy):
    """Starts jobs in order while the first one fits."""

    def decide(self, view: View, /) -> Iterator[Decision]:
        """Start the first jobs that fit."""
        for job in view.waiting:
            places = view.place(job) if self.placement is None else usual_places(view, job)
            if places is None:
                return
            yield Start(job.id, places)


@frozen(kw_only=True)
class Fcfs(_Ordered):
    """First come, first served, without backfilling.

    Cost of a pass: linear in the number of jobs that start.
    """

    placement: NodeChoice | None = None
    """How nodes are chosen. None: the first that fit."""
    order: Order | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    """The key of a waiting job at a time; jobs with smaller keys come first. None: by arrival."""

    def fast_scheduler(self, workload: Workload) -> Callable[[Pool], PoolScheduler] | None:
        """Return what makes the policy's scheduler of the fast engine."""
        if self.order is not None:
            return None
        return lambda pool: InOrder(pool, workload, self.placement, by_estimate=False)

    def __str__(self) -> str:
        return "FCFS" if self.placement is None else f"FCFS ({self.placement})"


def _estimate_of(job: WaitingJob, now: float) -> float:  # noqa: ARG001
    return inf if job.estimate is None else job.estimate


@frozen(kw_only=True)
class ShortestFirst(_Ordered):
    """Shortest job first (SJF), without backfilling. Among equals: first come, first served.

    Cost of a pass: linear in the number of jobs that start; of an arrival: logarithmic in the
    queue.
    """

    predictor: Predictor | None = field(factory=Requested)
    """Predicts run times."""
    placement: NodeChoice | None = None
    """How nodes are chosen. None: the first that fit."""

    order: Order | None = field(  # pyright: ignore[reportIncompatibleVariableOverride]
        init=False, default=_estimate_of, repr=False
    )

    def fast_scheduler(self, workload: Workload) -> Callable[[Pool], PoolScheduler]:
        """Return what makes the policy's scheduler of the fast engine."""
        return lambda pool: InOrder(pool, workload, self.placement, by_estimate=True)

    def __str__(self) -> str:
        where = "" if self.placement is None else f", {self.placement}"
        return f"SJF ({self.predictor}{where})"


# EASY backfilling


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

    With `depth` more than one the next jobs are promised a start, too (Maui's RESERVATIONDEPTH).

    Cost of a pass: linear in the running jobs (to find the shadow time) and the waiting ones; of an
    arrival that cannot be first: constant.
    """

    predictor: Predictor | None = field(factory=Requested)
    """What is believed of run times."""
    corrector: Corrector | None = None
    """Corrects the predictions of jobs that run longer. (No pass follows a correction.)"""
    backfill: Literal["arrival", "shortest"] | Order = "arrival"
    """The order in which jobs are tried for backfilling: as they wait (`arrival`), by expected run
    time (`shortest`: SJBF), or by a key; equal ones as they wait."""
    on_arrival: Literal["always", "if-it-fits"] = "always"
    """Whether a pass follows every arrival, or only if the new job fits. Both give the same result
    unless predictions were corrected since the last pass."""
    order: Order | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    """The key of a waiting job at a time; jobs with smaller keys come first. None: by arrival."""
    depth: int = 1
    """How many jobs that do not fit are promised a start."""

    def __attrs_post_init__(self) -> None:
        backfill = "arrival" if callable(self.backfill) else self.backfill
        refuse(
            SimulationError,
            faults_of_name("Easy.backfill", backfill, ("arrival", "shortest")),
            faults_of_name("Easy.on_arrival", self.on_arrival, ("always", "if-it-fits")),
            faults_of_count("Easy.depth", self.depth, 0),
        )

    def fast_scheduler(self, workload: Workload) -> Callable[[Pool], PoolScheduler] | None:  # noqa: ARG002
        """Return what makes the policy's scheduler of the fast engine."""
        if self.order is not None or callable(self.backfill) or self.depth != 1:
            return None
        return lambda pool: EasyScheduler(
            pool,
            shortest_first=self.backfill == "shortest",
            only_if_it_fits=self.on_arrival == "if-it-fits",
        )

    def begin(self, workload: Workload, /) -> Decides:  # noqa: ARG002
        """Return what decides in a new simulation: it keeps the profile while only jobs arrive."""
        return _Backfilling(self)

    def decide(self, view: View, /) -> Iterable[Decision]:
        """Start what fits now and delays no promised start."""
        return _Backfilling(self).decide(view)

    def __str__(self) -> str:
        names = {"arrival": "EASY", "shortest": "EASY-SJBF"}
        name = "EASY" if callable(self.backfill) else names[self.backfill]
        beliefs = f"{self.predictor}"
        if self.corrector is not None:
            beliefs += f", corrected by {self.corrector}"
        if self.depth != 1:
            beliefs += f", depth {self.depth}"
        return f"{name} ({beliefs})"


class _Backfilling:
    """EASY backfilling during one simulation."""

    def __init__(self, policy: Easy) -> None:
        self._policy = policy
        self._profile: Profile | None = None
        """That of the pass before, with what is promised."""
        self._promised = 0
        self._started: list[JobId] = []

    def decide(self, view: View, /) -> Iterator[Decision]:
        policy, only_came = self._policy, True
        for each in view.causes:
            only_came = only_came and each.kind == "arrival"
        if only_came and policy.on_arrival == "if-it-fits" and not self._any_fits(view):
            return
        waiting: Sequence[WaitingJob]
        # Whoever failed before fails later with as much room, too: unless the order may change
        # with time, or what is expected of running jobs.
        may_keep = policy.order is None and policy.corrector is None
        kept = self._profile if only_came and may_keep else None
        if kept is not None and kept.move_on(self._started):
            profile, promised = kept, self._promised
            waiting = [view.job(each.what) for each in view.causes]
        else:
            waiting, promised = view.waiting, 0
            if not waiting:
                self._profile = None
                return
            profile = view.profile()
        tried, depth = 0, policy.depth
        started: list[JobId] = []
        while tried < len(waiting) and promised < depth:
            job = waiting[tried]
            tried += 1
            places = profile.place(job)
            if places is not None:
                started.append(job.id)
                yield Start(job.id, places)
            elif profile.earliest(job) is not None:
                promised += 1
        free = profile.free
        rest = [job for job in waiting[tried:] if job.processors <= free or job.info is not None]
        for job in self._in_order(rest, view.now):
            if job.processors <= free or job.info is not None:
                places = profile.place(job)
                if places is not None:
                    free = profile.free
                    started.append(job.id)
                    yield Start(job.id, places)
        self._profile, self._promised, self._started = profile, promised, started

    def _any_fits(self, view: View) -> bool:
        """Return whether any job that has arrived fits now."""
        jobs = [view.job(cause.what) for cause in view.causes]
        return any(
            view.place(job) is not None
            for job in jobs
            if job.info is not None or job.processors <= view.free
        )

    def _in_order(self, jobs: Sequence[WaitingJob], now: float) -> Sequence[WaitingJob]:
        key = self._policy.backfill
        if callable(key):
            return sorted(jobs, key=lambda job: key(job, now))  # type: ignore[arg-type,return-value]
        return jobs if key == "arrival" else sorted(jobs, key=lambda job: job.duration)


@frozen(kw_only=True)
class Conservative(Policy):
    """Conservative backfilling: every job is promised a start when it arrives.

    The promise is the first time at which the job fits for its whole expected run time, given the
    running jobs and all earlier promises. When a job ends earlier than expected, the promises are
    checked in order of arrival, and each is moved to the earliest time that is now possible; none
    moves later. (This is called compression.)

    If predictions are too short, promises cannot be kept: jobs that run longer than expected are
    assumed to end at once, or at the time of the corrector, and all promises are computed anew.

    Source: Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.

    Cost: an arrival is linear in the number of promises and running jobs; an end is linear for each
    promise, so quadratic in the worst case.
    """

    predictor: Predictor | None = field(factory=Requested)
    """Predicts run times."""
    corrector: Corrector | None = None
    """Corrects the predictions of jobs that run longer; None: they are assumed to end at once."""

    order: Order | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    """The key of a waiting job at a time; jobs with smaller keys come first. None: by arrival."""

    def fast_scheduler(self, workload: Workload) -> Callable[[Pool], PoolScheduler] | None:  # noqa: ARG002
        """Return what makes the policy's scheduler of the fast engine."""
        return None if self.order is not None else ConservativeScheduler

    def begin(self, workload: Workload, /) -> Decides:  # noqa: ARG002
        """Return what decides in a new simulation: it keeps the promises."""
        return _Promising(self)

    def decide(self, view: View, /) -> Iterable[Decision]:
        """Start what fits now if nothing was promised before."""
        return _Promising(self).decide(view)

    def __str__(self) -> str:
        beliefs = f"{self.predictor}"
        if self.corrector is not None:
            beliefs += f", corrected by {self.corrector}"
        return f"conservative ({beliefs})"


class _Promising:
    """The promises of conservative backfilling on nodes."""

    def __init__(self, policy: Conservative) -> None:
        self._promises = dict[JobId, tuple[float, Pairs]]()
        self._may_keep = policy.corrector is None
        self._profile: Profile | None = None
        """That of the pass before, with all that is promised."""
        self._runs = dict[JobId, tuple[float, Pairs]]()
        """The expected ends and the places of running jobs in it."""
        self._started: list[JobId] = []
        self._guessed = False
        """Whether the profile was made while jobs ran that were expected to have ended."""

    def decide(self, view: View, /) -> Iterator[Decision]:
        waiting = view.waiting
        now = view.now
        at_once = nextafter(now, inf)
        is_wrong = self._is_wrong(view)
        profile = None if is_wrong else self._kept(view)
        if profile is None:
            profile = self._renewed(view, keep=not is_wrong)
        promises = self._promises
        early = any(cause.early for cause in view.causes)
        for job in waiting:
            before = promises.get(job.id)
            if before is None:
                found = profile.earliest(job)
                if found is not None:
                    promises[job.id] = found
            elif early and before[0] > now:
                profile.give(job, *before)
                found = profile.earliest(job, before[0])
                if found is not None:
                    promises[job.id] = found
                else:
                    profile.take(job, *before)
        self._started = started = [each for each, (start, _) in promises.items() if start <= now]
        for each in [job.id for job in waiting if job.id in started] if started else ():
            _, places = promises.pop(each)
            self._runs[each] = (now + view.job(each).duration, places)
            yield Start(each, places)
        yield Wake(min((at for at, _ in promises.values() if at > at_once), default=inf))
        self._profile = None if view.is_late else profile

    def _kept(self, view: View) -> Profile | None:
        """Return the profile of the pass before, if it is right now; None: it is not."""
        profile = self._profile
        known = all(
            cause.kind in ("arrival", "wake") or (cause.kind == "end" and cause.what in self._runs)
            for cause in view.causes
        )
        if profile is None or not (self._may_keep and known and profile.move_on(self._started)):
            return None
        for cause in view.causes:
            if cause.kind == "end":
                end, places = self._runs.pop(cause.what)
                if cause.early:
                    profile.give(cause.what, view.now, places, end)
        return profile

    def _is_wrong(self, view: View) -> bool:
        """Return whether jobs run, or have run, longer than what is promised was reckoned with."""
        if view.is_late:
            return True
        for cause in view.causes:
            if cause.kind == "end" and not cause.early:
                end, _ = self._runs.get(cause.what, (view.now, ()))
                if end < view.now or self._guessed:
                    return True
        if self._may_keep:
            return False
        # Predictions may have been corrected since.
        ends = ((self._runs.get(job.id), job.expected_end) for job in view.running)
        return any(
            before is not None and before[0] != (inf if end is None else end)
            for before, end in ends
        )

    def _renewed(self, view: View, *, keep: bool) -> Profile:
        """Return a new profile with the promises: as they are if all can be kept, or all anew.

        They are computed in the order of arrival, so that no later job overtakes one whose promise
        cannot be kept.
        """
        waiting = {job.id for job in view.waiting}
        self._promises = {job: kept for job, kept in self._promises.items() if job in waiting}
        self._guessed = view.is_late
        self._runs = {
            job.id: (inf if job.expected_end is None else job.expected_end, job.places)
            for job in view.running
        }
        profile = view.profile()
        if keep and self._all_kept(profile, view.now):
            return profile
        profile = view.profile()
        found = {job: profile.earliest(job) for job in self._promises}
        self._promises = {job: promise for job, promise in found.items() if promise is not None}
        return profile

    def _all_kept(self, profile: Profile, now: float) -> bool:
        """Take what is promised; return whether all of it was free."""
        at_once = nextafter(now, inf)
        for job, (start, places) in self._promises.items():
            # Who is promised to start at once starts as soon as those have gone who end at once.
            moments = (start,) if start > at_once else (now, at_once)
            time = next((time for time in moments if profile.take(job, time, places)), None)
            if time is None:
                return False
            self._promises[job] = (time, places)
        return True
