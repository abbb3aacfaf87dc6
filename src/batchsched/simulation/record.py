"""The record of a simulation, and what it tells of single jobs and moments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import NoReturn, TypeVar

from attrs import field, frozen

from batchsched.errors import Fault, UnknownNameError
from batchsched.model.texts import counted, first_of
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import is_integer, is_mapping, is_text, items_of, shown
from batchsched.simulation.checks import JobId, SimulationError, is_number, refuse
from batchsched.simulation.engine import Policy
from batchsched.simulation.jobs import Machine
from batchsched.simulation.settings import Interval, NodesOfRun, Outcome, Settings
from batchsched.simulation.work import CPU
from batchsched.simulation.workload import Workload

Cell = float | str | None
"""A value of a table."""


class Columns(dict[str, list[Cell]]):
    """Columns of equal length by name, as pandas, polars and parquet take them."""

    def __missing__(self, name: object) -> NoReturn:
        known = ", ".join(self)
        raise UnknownNameError(f"expected one of the columns {known}; got {shown(name)}")


CellT = TypeVar("CellT", bound=Cell)


def of_one_type(column: Iterable[CellT]) -> list[CellT]:
    """Return a column as a list of one type, besides None.

    Numbers among texts become texts, and whole numbers among others floating-point ones: what reads
    tables takes the type of a column from its first values.
    """
    listed = list(column)
    kinds = {type(each) for each in listed} - {type(None)}
    if len(kinds) <= 1:
        return listed
    kind = str if str in kinds else float
    return [None if each is None else kind(each) for each in listed]  # type: ignore[misc]


@frozen(kw_only=True, slots=False, repr=False)
class Record:
    """The inputs of a simulation, and when each job started and ended."""

    workload: Workload
    policy: Policy
    settings: Settings
    runs: Sequence[float] = field(repr=False)
    """The run time of each job in the simulation; shorter than in the workload for jobs that were
    stopped at their requested time."""
    outcome: Outcome = field(repr=False)

    @property
    def machine(self) -> Machine:
        """The machine that the jobs ran on."""
        assert self.workload.machine is not None
        return self.workload.machine

    @cached_property
    def submitted(self) -> Sequence[float | None]:
        """When each job counted as submitted; None if the job that it depends on never ended."""
        return self.outcome.eligible or self.workload.submits

    @cached_property
    def held(self) -> Sequence[float]:
        """The seconds for which each job held its processors."""
        if self.outcome.held is not None:
            return self.outcome.held
        return [
            end - start if start is not None and end is not None else 0
            for start, end in zip(self.outcome.starts, self.outcome.ends, strict=True)
        ]

    @cached_property
    def intervals(self) -> Sequence[Interval]:
        """When jobs held their processors: index of the job, start, end."""
        if self.outcome.intervals is not None:
            return self.outcome.intervals
        return [
            (job, start, end)
            for job, (start, end) in enumerate(
                zip(self.outcome.starts, self.outcome.ends, strict=True)
            )
            if start is not None and end is not None
        ]

    @cached_property
    def nodes_of_run(self) -> NodesOfRun:
        """The nodes, and what jobs held there; without nodes, a pool of all processors."""
        if self.outcome.nodes is not None:
            return self.outcome.nodes
        sizes = self.workload.processors
        return NodesOfRun(
            names=("pool",),
            dimensions=("cpu",),
            capacity=((CPU * self.machine.processors,),),
            pieces=[
                (job, start, end, 0, sizes[job], (CPU * sizes[job],))
                for job, start, end in self.intervals
            ],
        )

    @property
    def engine(self) -> str:
        """The engine: `fast`, `general`, or `own`, which the policy brings along."""
        return self.outcome.engine

    @cached_property
    def queue_paths(self) -> Sequence[tuple[str, ...]]:
        """The queue of each job and all queues above it; empty for jobs that name no queue."""
        parents, queues = self.outcome.parents, self.workload.queues
        paths: dict[JobId | None, tuple[str, ...]] = {}
        for name in dict.fromkeys(queues):
            path = [] if name is None else [str(name)]
            while path and path[-1] in parents:
                path.append(parents[path[-1]])
            paths[name] = tuple(path)
        return [paths[name] for name in queues]

    def jobs_below(self, queue: str | None) -> frozenset[int]:
        """Return the jobs of a queue and of all queues below it, by index; None: all jobs.

        Raises:
            SimulationError: No job is in this queue or in a queue below it.
        """
        if queue is None:
            return frozenset(range(len(self.workload)))
        jobs = frozenset(job for job, path in enumerate(self.queue_paths) if queue in path)
        if not jobs:
            known = sorted({name for path in self.queue_paths for name in path})
            named = ", ".join(known) or "no job has any"
            message = f"expected a queue of some job ({named}), got {shown(queue)}"
            raise SimulationError.at("queue", message)
        return jobs

    @checks_arguments(SimulationError)
    def why(self, job: JobId) -> str:
        """Explain why a job waited as long as it did.

        Raises:
            UnknownNameError: No job of the run has this id.
        """
        ids = self.workload.ids
        if not (is_text(job) or is_integer(job)) or job not in ids:
            raise UnknownNameError(f"expected the id of a job of this run, got {shown(job)}")
        index = ids.index(job)
        start, submit = self.outcome.starts[index], self.submitted[index]
        size = self.workload.processors[index]
        what = f"job {job} ({counted(size, 'processor')}"
        if submit is not None:
            what += f", submitted at {submit:,} s"
        what += ")"
        if start is None:
            why = self.outcome.unfinished.get(index, "the policy gives no reason")
            return f"{what} never started: {why}"
        assert submit is not None
        if start == submit:
            return f"{what} started when it was submitted."
        lines = [f"{what} waited for {start - submit:,} s, until {start:,} s."]
        lines += _at_submission(self, index, submit)
        lines += _meanwhile(self, index, submit, start)
        ended = [ids[other] for other, _, end in self.intervals if end == start and other != index]
        if ended:
            lines.append(f"When it started, {_jobs(ended)} had just ended.")
        return "\n".join(lines)

    def starts_by_id(self) -> dict[JobId, float]:
        """Return the start of each job by its id, without jobs that never started."""
        return {
            each: start
            for each, start in zip(self.workload.ids, self.outcome.starts, strict=True)
            if start is not None
        }


_SHOWN_OF_STATE = 10
"""The most jobs that are listed."""
_SHOWN_JOBS = 5


# The waiting and running jobs at one time


@frozen
class State:
    """The waiting and running jobs at one time of a schedule."""

    time: float
    free: int
    """The number of free processors."""
    running: tuple[JobId, ...]
    """The running jobs, in order of submission."""
    waiting: tuple[JobId, ...]
    """The waiting jobs, in order of submission."""

    def __str__(self) -> str:
        return (
            f"{counted(self.free, 'processor')} free; {_named('running', self.running)}; "
            f"{_named('waiting', self.waiting)}"
        )


def _named(what: str, jobs: tuple[JobId, ...]) -> str:
    if not jobs:
        return f"0 {what}"
    return f"{len(jobs):,} {what} ({first_of(jobs, _SHOWN_OF_STATE)})"


def state_at(run: Record, time: float, starts: Mapping[JobId, float]) -> State:
    """Return the state just before a time, given the starts of jobs."""
    running: list[JobId] = []
    waiting: list[JobId] = []
    free = run.machine.processors
    for job, each in enumerate(run.workload.ids):
        submit = run.submitted[job]
        if submit is None or submit > time:
            continue
        start = starts.get(each)
        if start is None or start >= time:
            waiting.append(each)
        elif start + run.held[job] > time:
            running.append(each)
            free -= run.workload.processors[job]
    return State(time, free, tuple(running), tuple(waiting))


# Why a job waited


def _at_submission(run: Record, index: int, submit: float) -> list[str]:
    ids, sizes = run.workload.ids, run.workload.processors
    runs = [other for other, start, end in run.intervals if start <= submit < end]
    free = run.machine.processors - sum(sizes[other] for other in runs)
    ahead = [
        other
        for other, submitted in enumerate(run.submitted)
        if other != index
        and submitted is not None
        and (submitted, other) < (submit, index)
        and ((start := run.outcome.starts[other]) is None or start > submit)
    ]
    return [
        f"When it was submitted, {free:,} of {run.machine.processors:,} processors were free, "
        f"and {len(ahead):,} jobs were ahead of it"
        + (f" ({_jobs([ids[other] for other in ahead])})." if ahead else ".")
    ]


def _meanwhile(run: Record, index: int, submit: float, start: float) -> list[str]:
    ids, sizes = run.workload.ids, run.workload.processors
    overtook: list[JobId] = []
    before = 0
    for other, started in enumerate(run.outcome.starts):
        submitted = run.submitted[other]
        if started is None or submitted is None or other == index or not submit <= started < start:
            continue
        if (submitted, other) > (submit, index):
            overtook.append(ids[other])
        else:
            before += sizes[other]
    return [
        f"While it waited, jobs that were ahead started on {counted(before, 'processor')} in all, "
        f"and {len(overtook):,} later jobs started before it"
        + (f" ({_jobs(overtook)})." if overtook else ".")
    ]


def _jobs(ids: list[JobId]) -> str:
    return f"{'jobs' if len(ids) > 1 else 'job'} {first_of(ids, _SHOWN_JOBS)}"


# Comparison of two schedules of the same jobs


@frozen
class Difference:
    """The first time at which two schedules differ."""

    job: JobId
    """The job that one of them starts at that time."""
    start: float | None
    """When this run starts it; None: never."""
    other: float | None
    """When the other schedule starts it; None: never."""
    state: State
    """The waiting and running jobs just before, in this run."""
    other_state: State
    """The same in the other schedule, with the run times of this run."""


@frozen
class Comparison:
    """The number of equal starts, and the first difference."""

    equal: int
    compared: int
    """How many jobs are in both schedules."""
    only_here: int
    """How many jobs of this run are not in the other schedule."""
    only_there: int
    """How many jobs of the other schedule are not in this run."""
    first: Difference | None

    def __str__(self) -> str:
        lines = [f"{self.equal:,} of {self.compared:,} starts are equal"]
        if self.only_here or self.only_there:
            lines[0] += f" ({self.only_here:,} only here, {self.only_there:,} only there)"
        if self.first is not None:
            first = self.first
            lines += [
                f"first difference: job {first.job}",
                f"  starts here {_time(first.start)}, there {_time(first.other)}",
                f"  before it, here:  {first.state}",
                f"  before it, there: {first.other_state}",
            ]
        return "\n".join(lines)


def _time(time: float | None) -> str:
    return "never" if time is None else f"at {time:,} s"


def compared(run: Record, others: Mapping[JobId, float]) -> Comparison:
    """Compare the starts of a run with others."""
    given: object = others
    if not is_mapping(given):
        message = f"expected a Run, or a mapping from job ids to starts, got {shown(given)}"
        raise SimulationError.at("starts", message)
    starts = list(items_of(given))
    faults = [
        Fault(f"starts[{shown(each)}]", f"expected the start of a job in seconds, got {shown(at)}")
        for each, at in starts
        if not (is_text(each) or is_integer(each)) or not is_number(at, least=-inf)
    ]
    refuse(SimulationError, faults)
    ours = run.starts_by_id()
    known = set(run.workload.ids)
    equal = both = 0
    different: list[tuple[float, int, JobId]] = []
    for index, each in enumerate(run.workload.ids):
        mine, other = ours.get(each), others.get(each)
        if mine is None and other is None:
            continue
        both += other is not None
        if mine == other:
            equal += 1
        elif other is not None:
            different.append((min(other, other if mine is None else mine), index, each))
    first = None
    if different:
        time, _, job = min(different)
        states = (state_at(run, time, starts) for starts in (ours, others))
        first = Difference(job, ours.get(job), others.get(job), *states)
    only_here = sum(each not in others for each in run.workload.ids)
    return Comparison(equal, both, only_here, sum(each not in known for each in others), first)
