"""The function `simulate`, the run that it returns, and both it and workloads as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NoReturn, cast

from attrs import evolve, frozen

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import Fault
from batchsched.model.immutable import kept_tuple
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.validation.arguments import asked
from batchsched.model.validation.values import is_of
from batchsched.simulation.checks import (
    JobId,
    PolicyError,
    SimulationError,
    WorkloadError,
    faults_unless,
    refuse,
    shortened,
)
from batchsched.simulation.engine import Policy
from batchsched.simulation.jobs import NO_MACHINE
from batchsched.simulation.metrics import Figures
from batchsched.simulation.record import (
    Columns,
    Comparison,
    compared,
    of_one_type,
)
from batchsched.simulation.scheduled import Scheduled
from batchsched.simulation.settings import (
    Engines,
    Incident,
    Outcome,
    Passes,
    Progress,
    Reservation,
    Settings,
    Ties,
)
from batchsched.simulation.view import View
from batchsched.simulation.work import Checkpoint
from batchsched.simulation.workload import (
    Workload,
    WrittenWorkload,
    read_workload,
    swf_lines,
    written_workload,
)


@frozen(kw_only=True, slots=False, repr=False, eq=False)
class Run(Figures):
    """The result of a simulation: when each job started and ended, and figures computed from that.

    `print(run)` shows a table. Columns are lists of equal length, as pandas and polars take them:
    `pandas.DataFrame(run.jobs)`.
    """

    @cached_property
    def _jobs(self) -> Columns:
        outcome, workload = self.outcome, self.workload
        columns: dict[str, Sequence[float | str | None]] = {
            "id": workload.ids,
            "submit": self.submitted,
            "start": outcome.starts,
            "end": outcome.ends,
            "wait": [
                None if start is None or submit is None else start - submit
                for start, submit in zip(outcome.starts, self.submitted, strict=True)
            ],
            "run": self.runs,
            "processors": workload.processors,
            "requested": workload.requested,
            "user": workload.users,
            "queue": workload.queues,
            "outcome": [
                outcome.endings.get(job) or _outcome(start, end, ended_early=run < would)
                for job, (start, end, run, would) in enumerate(
                    zip(outcome.starts, outcome.ends, self.runs, workload.runs, strict=True)
                )
            ],
        }
        if outcome.predicted is not None:
            columns["predicted"] = outcome.predicted
        if outcome.preemptions is not None:
            columns["preemptions"] = outcome.preemptions
        return Columns({name: of_one_type(column) for name, column in columns.items()})

    @property
    def jobs(self) -> Columns:
        """The jobs as columns, in order of submission; times in seconds.

        `id`, `submit`, `start`, `end`, `wait`, `run`, `processors`, `requested`, `user`, `queue`,
        `outcome`; `predicted` if the policy predicts, `preemptions` if it preempts.
        """
        return Columns(self._jobs)

    @property
    def unfinished(self) -> dict[JobId, str]:
        """Id of each job that never started or never ended to the reason."""
        return {self.workload.ids[job]: why for job, why in sorted(self.outcome.unfinished.items())}

    def compare(self, starts: Mapping[JobId, float] | Run) -> Comparison:
        """Compare the starts with those of another run, or with given starts by job id."""
        given: object = starts
        if is_of(given, Run):
            return compared(self, given.starts_by_id())
        return compared(self, cast("Mapping[JobId, float]", given))

    def to_swf(self) -> Iterator[str]:
        """Yield the lines of a log of this run in the Standard Workload Format.

        Waiting times are those of the run. Jobs that never ended have status 5 (cancelled) and no
        run time. If ids are names, jobs get numbers in order of submission.
        """
        waits, runs = list[float | None](), list[float | None]()
        ends, starts = self.outcome.ends, self.outcome.starts
        for submit, start, end, run in zip(self.submitted, starts, ends, self.runs, strict=True):
            if submit is None or start is None or end is None:
                waits.append(None)
                runs.append(None)
            else:
                waits.append(start - submit)
                runs.append(run)
        header = {"Computer": f"simulated: {self.policy}", "Note": self.settings}
        return swf_lines(self.workload, header=header, waits=waits, runs=runs)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the run as dicts, lists, strings and numbers only, ready for JSON. O(size).

        Of the policy only the name is written, and the function `progress` is not.

        Raises:
            SerialisationError: The `restart` of checkpoints is a class of your own.
        """
        return _RUN.to_dict(
            WrittenRun(
                workload=written_workload(self.workload),
                policy=str(self.policy),
                settings=evolve(self.settings, progress=None),
                runs=tuple(self.runs),
                outcome=self.outcome,
            )
        )

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> Run:
        """Create a run from the output of `to_dict`.

        Metrics, tables and plots are the same; what would run again, such as `tie_sensitivity`,
        raises a SimulationError.

        Raises:
            SimulationError: It cannot be read, was written by a newer version, or is invalid; all
                faults at once.

        >>> from batchsched.simulation import Fcfs, Job
        >>> workload = Workload([Job(id=1, submit=0, run=60, processors=2)])
        >>> run = simulate(workload.on(nodes=4), Fcfs())
        >>> again = Run.from_dict(run.to_dict())
        >>> again.jobs == run.jobs, str(again) == str(run)
        (True, True)
        """
        written = _RUN.from_dict(given)
        try:
            workload = read_workload(written.workload)
        except WorkloadError as error:
            faults = [Fault(f"workload.{one.path}", one.message) for one in error.faults]
            raise SimulationError(faults) from error
        refuse(SimulationError, _faults_of(written, workload))
        return Run(
            workload=workload,
            policy=ReadPolicy(written.policy),
            settings=written.settings,
            runs=written.runs,
            outcome=written.outcome,
        )

    def __repr__(self) -> str:
        return f"<Run: {self.policy} on {self.workload!r}>"


def _outcome(start: float | None, end: float | None, *, ended_early: bool) -> str:
    if start is None:
        return "never started"
    if end is None:
        return "never ended"
    return "ended at request" if ended_early else "ended"


def simulate(
    workload: Workload,
    policy: Policy | SchedulerConfig,
    *,
    ties: Ties | None = None,
    passes: Passes | None = None,
    end_at_request: bool = True,
    progress: Progress | None = None,
    incidents: Iterable[Incident] = (),
    reservations: Iterable[Reservation] = (),
    checkpoint: Checkpoint | None = None,
    resubmit_failed: bool = False,
    round_ends: float | None = None,
    engine: Engines = "auto",
) -> Run:
    """Simulate a workload under a policy.

    The defaults are those of the published results; see "Results you can reproduce".

    Args:
        workload: The jobs and their machine: `workload.on(nodes=100)`.
        policy: `Fcfs()`, `Easy()`, `Conservative()` or another policy; or a `SchedulerConfig`,
            which stands for `Scheduled(config)`.
        ties: The order of events at the same instant.
        passes: Whether the policy decides after each event, or once after all events of an
            instant. None: as the policy says, or else after each event.
        end_at_request: Whether jobs are stopped when they have worked for their requested time.
        progress: Called now and then with the number of ended jobs and the number of all jobs.
        incidents: Nodes that fail, are drained or come back, jobs that are cancelled or fail,
            queues that change; see also `failures`.
        reservations: Nodes that are for some jobs alone for a time.
        checkpoint: When jobs save their work that do not say so themselves. None: as the policy
            says, or else never.
        resubmit_failed: Whether a failed job waits again; if not, it has ended.
        round_ends: Ends and expected ends are rounded up to a multiple of it: 1 for logs in whole
            seconds. Until then a job holds its places, and does no work.
        engine: `fast` counts processors alone; `general` knows nodes; `auto`: the fast one where
            it can. `run.engine` says which it was.

    Raises:
        SimulationError: The workload has no machine, jobs are larger than the machine, arguments
            are wrong, or the workload lacks information that the policy needs. All faults at once.
        PolicyError: The policy made an invalid decision.

    >>> from batchsched.simulation import Easy, Job
    >>> jobs = [
    ...     Job(id=1, submit=0, run=100, processors=3, requested=120),
    ...     Job(id=2, submit=1, run=100, processors=4, requested=100),
    ...     Job(id=3, submit=2, run=50, processors=1, requested=60),
    ... ]
    >>> simulate(Workload(jobs).on(nodes=4), Easy()).jobs["start"]
    [0, 100, 2]
    """
    given = prepared(
        workload,
        policy,
        ties=ties,
        passes=passes,
        end_at_request=end_at_request,
        progress=progress,
        incidents=incidents,
        reservations=reservations,
        checkpoint=checkpoint,
        resubmit_failed=resubmit_failed,
        round_ends=round_ends,
        engine=engine,
    )
    outcome = given.policy.run(given.workload, given.runs, given.settings)
    return Run(
        workload=given.workload,
        policy=given.policy,
        settings=given.settings,
        runs=given.runs,
        outcome=outcome,
    )


@frozen(kw_only=True)
class Prepared:
    """What a simulation is of, checked as far as it can be without an engine."""

    workload: Workload
    policy: Policy
    settings: Settings
    runs: Sequence[float]
    """The run time of each job in the simulation."""


def prepared(
    workload: Workload,
    policy: Policy | SchedulerConfig,
    *,
    ties: Ties | None,
    passes: Passes | None,
    end_at_request: bool,
    progress: Progress | None = None,
    incidents: Iterable[Incident],
    reservations: Iterable[Reservation],
    checkpoint: Checkpoint | None,
    resubmit_failed: bool,
    round_ends: float | None,
    engine: Engines,
) -> Prepared:
    """Check the arguments of `simulate`, and return what they say.

    Raises:
        SimulationError: as `simulate`.

    """
    is_right = is_of(workload, Workload)
    refuse(SimulationError, faults_unless(is_right, "workload", "a Workload", workload))
    if isinstance(policy, SchedulerConfig):
        policy = Scheduled(policy)
    is_right = is_of(policy, Policy)  # type: ignore[type-abstract]
    refuse(SimulationError, faults_unless(is_right, "policy", "a policy such as Easy()", policy))
    settings = Settings(
        ties=Ties() if ties is None else ties,
        passes=passes,
        end_at_request=end_at_request,
        progress=asked("progress", progress, SimulationError) if callable(progress) else progress,
        incidents=kept_tuple(incidents, "incidents"),
        reservations=kept_tuple(reservations, "reservations"),
        checkpoint=checkpoint,
        resubmit_failed=resubmit_failed,
        round_ends=round_ends,
        engine=engine,
    )
    _check_sizes(workload)
    runs = _run_times(workload, settings)
    return Prepared(workload=workload, policy=policy, settings=settings, runs=runs)


def _check_sizes(workload: Workload) -> None:
    if workload.machine is None:
        raise SimulationError([NO_MACHINE])
    processors = workload.machine.processors
    if workload.machine.infos:
        return  # the general engine tries to place each
    faults = [
        Fault(
            f"jobs[{each!r}].processors",
            f"expected at most the machine's {processors} processors, got {size}; "
            "leave the job out with workload.where(...), or use a larger machine",
        )
        for each, size in zip(workload.ids, workload.processors, strict=True)
        if size > processors
    ]
    refuse(SimulationError, shortened(faults, "more are larger than the machine"))


def _run_times(workload: Workload, settings: Settings) -> Sequence[float]:
    if not settings.end_at_request:
        return workload.runs
    return [
        run if limit is None or run <= limit else limit
        for run, limit in zip(workload.runs, workload.requested, strict=True)
    ]


@frozen(kw_only=True)
class WrittenRun:
    """A run, with the name of its policy."""

    workload: WrittenWorkload
    policy: str
    settings: Settings
    runs: tuple[float, ...]
    outcome: Outcome


_RUN: Final = Format(WrittenRun, name="Run", version=1, error=SimulationError)


@frozen
class ReadPolicy(Policy):
    """The name of the policy of a run that was read back, which cannot run again."""

    name: str

    def decide(self, view: View, /) -> NoReturn:
        """Raise an error.

        Raises:
            PolicyError: Always.
        """
        raise PolicyError(f"only the name of {self} is known, at {view.now} s")

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> NoReturn:
        """Raise an error.

        Raises:
            SimulationError: Always.
        """
        del workload, runs, settings
        message = f"only the name of {self.name!r} is known, since the run was read back"
        raise SimulationError.at("policy", message)

    def __str__(self) -> str:
        return self.name


def _faults_of(written: WrittenRun, workload: Workload) -> Iterator[Fault]:
    """Yield where a run does not belong to its jobs and nodes."""
    outcome, count = written.outcome, len(workload)
    if workload.machine is None:
        yield Fault("workload.machine", "is missing")
    columns: dict[str, Sequence[object] | None] = {"runs": written.runs}
    for name in (
        "starts", "ends", "eligible", "predicted", "held", "preemptions", "resizes", "moves",
        "lost_work", "overhead",
    ):  # fmt: skip
        columns[f"outcome.{name}"] = getattr(outcome, name)
    for name, column in columns.items():
        if column is not None and len(column) != count:
            yield Fault(name, f"expected one for each of {count} jobs, got {len(column)}")
    pieces = () if outcome.nodes is None else outcome.nodes.pieces
    nodes = 0 if outcome.nodes is None else len(outcome.nodes.names)
    for name, what, numbers, most in (
        ("unfinished", "jobs", outcome.unfinished, count),
        ("endings", "jobs", outcome.endings, count),
        ("intervals", "jobs", [one[0] for one in outcome.intervals or ()], count),
        ("nodes.pieces", "jobs", [one[0] for one in pieces], count),
        ("nodes.pieces", "nodes", [one[3] for one in pieces], nodes),
    ):
        wrong = next((number for number in numbers if number not in range(most)), None)
        if wrong is not None:
            yield Fault(f"outcome.{name}", f"expected numbers of {what}, got {wrong}")
