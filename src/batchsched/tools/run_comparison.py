"""The differences between two simulation runs: starts and ends of jobs, and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from attrs import field, frozen

from batchsched.model.described import describe
from batchsched.model.immutable import AsMap
from batchsched.model.texts import counted, first_of
from batchsched.simulation.checks import JobId
from batchsched.simulation.record import state_at
from batchsched.simulation.run import Run
from batchsched.tools.causes import Parting
from batchsched.tools.report import (
    Differences,
    Pair,
    Section,
    group_rows,
    side_by_side,
)

_KINDS = {
    "starts": ("starts that never starts before", "start that never start before"),
    "no longer starts": ("no longer starts", "no longer start"),
    "earlier": ("starts earlier", "start earlier"),
    "later": ("starts later", "start later"),
    "stopped more often": ("is stopped more often", "are stopped more often"),
    "stopped less often": ("is stopped less often", "are stopped less often"),
    "ends earlier": ("starts as before and ends earlier", "start as before and end earlier"),
    "ends later": ("starts as before and ends later", "start as before and end later"),
    "other": ("differs in another way", "differ in another way"),
}
"""The kinds of change, in words for one job and for several."""

_SHOWN_FIGURES = (
    *("wait", "wait_median", "wait_p99", "wait_max", "response", "bsld"),
    *("utilisation", "makespan", "jain_user", "jain_queue", "preemptions", "unfinished"),
)
_SHOWN_JOBS = 5


@frozen(kw_only=True)
class JobChange:
    """A job whose outcome differs, with the outcome before and after. Times are in seconds."""

    job: JobId
    queue: str
    """Empty if it names none."""
    user: str
    """Empty if it names none."""
    kind: str
    """``starts``, ``no longer starts``, ``earlier``, ``later``, ``stopped more often``,
    ``stopped less often``, ``ends earlier``, ``ends later`` or ``other``."""
    start: tuple[float | None, float | None]
    """Its first start, before and after; None: it never starts, or the run does not have it."""
    end: tuple[float | None, float | None]
    stops: tuple[int, int]
    """How often it is stopped and started again, before and after."""
    reason: str
    """Why it never starts or ends, after or else before; empty if it does in both."""


@frozen(kw_only=True)
class RunComparison(Differences):
    """The differences between two runs. Prints as text; a notebook shows tables."""

    changes: tuple[JobChange, ...]
    """All jobs whose outcomes differ, in order of submission."""
    jobs: int
    """The number of jobs in either run."""
    figures: Mapping[str, Pair] = field(converter=AsMap[str, Pair])
    """The metrics of `Run.metrics` by name, before and after."""
    shares: Mapping[str, Pair] = field(converter=AsMap[str, Pair])
    """Queue to the share of the machine that its jobs held, from the first submission to the last
    end."""
    parting: Parting | None
    """The first time at which the two runs start different jobs."""
    before: Run
    after: Run

    _told = (
        *("summary", "jobs", "changes", "by_queue", "by_user", "by_reason"),
        *("figures", "shares", "parting"),
    )

    def _changed(self) -> tuple[JobChange, ...]:
        return self.changes

    def by_user(self) -> dict[str, dict[str, int]]:
        """Count the jobs that differ, by user and kind."""
        return self._by("user")

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the report, the most important first."""
        yield Section(self.summary)
        if self.parting is not None:
            yield Section("The first decision that differs", tuple(self.parting.lines()))
        if self.changes:
            by_queue = self.by_queue()
            if any(by_queue):  # some have names
                yield Section("By queue", (), ("queue", "jobs", "what"), group_rows(by_queue))
            largest = sorted(self.changes, key=lambda change: -abs(_delay(change)))
            yield Section(
                "Jobs that differ most",
                (),
                ("job", "queue", "what", "start before", "start after", "delay"),
                [
                    (str(c.job), c.queue, c.kind, c.start[0], c.start[1], _delay(c) or None)
                    for c in largest[: 2 * _SHOWN_JOBS]
                ],
            )
        rows = [
            (name, *(f"{one:,.4g}" for one in self.figures[name]))
            for name in _SHOWN_FIGURES
            if name in self.figures
        ]
        if any(self.shares):  # some queues have names
            rows += [
                (f"queue {name}" if name else "no queue", *(f"{one:.1%}" for one in pair))
                for name, pair in self.shares.items()
            ]
        changed = [row for row in rows if row[1] != row[2]]
        if changed:
            yield Section("Metrics that differ", (), ("", "before", "after"), changed)

    @property
    def summary(self) -> str:
        """What differs, in one line: ``2 of 9 jobs start earlier, 1 starts later``."""
        counts = Counter(change.kind for change in self.changes)
        if not counts:
            return "All jobs start and end at the same times."
        parts = [
            f"{counts[kind]} {words[counts[kind] != 1]}"
            for kind, words in _KINDS.items()
            if counts[kind]
        ]
        number, _, rest = parts[0].partition(" ")
        return ", ".join([f"{number} of {counted(self.jobs, 'job')} {rest}", *parts[1:]])


describe(JobChange, RunComparison)


def _delay(change: JobChange) -> float:
    """Return how much later the job starts, or ends if it starts at the same time."""
    for one, other in (change.start, change.end):
        if one is not None and other is not None and one != other:
            return other - one
    return 0.0


def compare_runs(before: Run, after: Run) -> RunComparison:
    """Compare two runs. Jobs with the same id are the same job. O(jobs)."""
    changes = tuple(_changes(before, after))
    figures = before.metrics(), after.metrics()
    return RunComparison(
        changes=changes,
        jobs=len({*before.workload.ids, *after.workload.ids}),
        figures={
            name: (figures[0][name], figures[1][name]) for name in figures[0] if name in figures[1]
        },
        shares=dict(sorted(side_by_side(_shares(before), _shares(after)).items())),
        parting=_parting(before, after, changes),
        before=before,
        after=after,
    )


def _changes(before: Run, after: Run) -> Iterator[JobChange]:
    places = [{each: at for at, each in enumerate(run.workload.ids)} for run in (before, after)]
    for job in dict.fromkeys([*before.workload.ids, *after.workload.ids]):
        at, other_at = (place.get(job) for place in places)
        one, other = _course(before, at), _course(after, other_at)
        if one == other:
            continue
        known, index = (before, at) if at is not None else (after, other_at)
        assert index is not None
        queue, user = known.workload.queues[index], known.workload.users[index]
        reasons = [
            run.outcome.unfinished.get(place, "")
            for run, place in ((after, other_at), (before, at))
            if place is not None
        ]
        yield JobChange(
            job=job,
            queue="" if queue is None else str(queue),
            user="" if user is None else str(user),
            kind=_kind(one, other),
            start=(one[0], other[0]),
            end=(one[1], other[1]),
            stops=(one[2], other[2]),
            reason=next((reason for reason in reasons if reason), ""),
        )


Course = tuple[float | None, float | None, int]
"""The start and the end of a job, and how often it is stopped in between."""


def _course(run: Run, index: int | None) -> Course:
    if index is None:
        return None, None, 0
    outcome = run.outcome
    stops = 0 if outcome.preemptions is None else outcome.preemptions[index]
    return outcome.starts[index], outcome.ends[index], stops


def _kind(before: Course, after: Course) -> str:
    (start, end, stops), (other_start, other_end, other_stops) = before, after
    if start is None or other_start is None:
        if start == other_start:
            return "other"
        return "starts" if start is None else "no longer starts"
    if start != other_start:
        return "earlier" if other_start < start else "later"
    if stops != other_stops:
        return f"stopped {'more' if other_stops > stops else 'less'} often"
    if end is None or other_end is None:
        return "other"
    return "ends earlier" if other_end < end else "ends later"


def _shares(run: Run) -> dict[str, float]:
    """Return the share of the machine that the jobs of each queue held."""
    submits = run.workload.submits
    until = max((end for *_, end in run.intervals), default=0.0)
    whole = run.machine.processors * (until - min(submits, default=0.0))
    held: dict[str, float] = {}
    for queue, time, size in zip(
        run.workload.queues, run.held, run.workload.processors, strict=True
    ):
        name = "" if queue is None else str(queue)
        held[name] = held.get(name, 0.0) + time * size
    return {name: held[name] / whole if whole else 0.0 for name in sorted(held)}


def _parting(before: Run, after: Run, changes: tuple[JobChange, ...]) -> Parting | None:
    """Find the first time at which only one of the runs starts a job; None if there is none."""
    starts = [
        (min(time for time in change.start if time is not None), change.job)
        for change in changes
        if change.start[0] != change.start[1]
    ]
    if not starts:
        return None
    moment = min(time for time, _ in starts)
    here, there = (_started_at(run, moment) for run in (before, after))
    states = [state_at(run, moment, run.starts_by_id()) for run in (before, after)]
    why = [f"{before.policy} decides before, {after.policy} after"]
    if str(before.policy) == str(after.policy):
        why = ["the two runs differ in their jobs, their settings or their machine"]
    if states[0] == states[1]:
        why.append(f"just before, both have {states[0]}")
    else:
        why += [f"just before, before: {states[0]}", f"just before, after: {states[1]}"]
    for run, mine, others in ((before, here, there), (after, there, here)):
        waits = [job for job in others if job not in mine and job in run.workload.ids]
        if waits:
            word = "before" if run is before else "after"
            why.append(f"{word}: {run.why(waits[0]).splitlines()[0]}")
    return Parting(_describe(moment, here), _describe(moment, there), tuple(why))


def _started_at(run: Run, moment: float) -> list[JobId]:
    return [job for job, start in run.starts_by_id().items() if start == moment]


def _describe(moment: float, jobs: list[JobId]) -> str:
    if not jobs:
        return f"starts no job at {moment:,} s"
    return f"starts {first_of(jobs, _SHOWN_JOBS)} at {moment:,} s"
