"""Workloads and runs as plain data for JSON, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn, TypeVar, cast

from attrs import AttrsInstance, field, fields_dict, frozen

from batchsched.errors import Fault, SerialisationError
from batchsched.model.cluster import JobInfo
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.validation.values import is_of
from batchsched.simulation.checks import PolicyError, SimulationError, WorkloadError, refuse
from batchsched.simulation.engine import Policy
from batchsched.simulation.incidents import Incident, Reservation
from batchsched.simulation.record import Record
from batchsched.simulation.settings import Engines, Outcome, Passes, Settings, Ties
from batchsched.simulation.view import View
from batchsched.simulation.work import After, ByDistance, ByModel, Checkpoint, NoCost, Speed
from batchsched.simulation.workload import Machine, Workload

_Names = tuple[int | str | None, ...]
_Numbers = tuple[float | None, ...]


@frozen(kw_only=True)
class WrittenCheckpoint:
    """A checkpoint with a cost that can be written."""

    every: float | None = None
    cost: float = 0
    restart: float | NoCost | ByDistance | ByModel = 0
    resize: float = 0


@frozen(kw_only=True)
class WrittenWorkload:
    """The columns of a workload; `info` has numbers of the jobs in `infos`."""

    id: tuple[int | str, ...]
    submit: tuple[float, ...]
    run: tuple[float, ...]
    processors: tuple[int | None, ...]
    requested: _Numbers | None = None
    user: _Names | None = None
    group: _Names | None = None
    queue: _Names | None = None
    partition: _Names | None = None
    application: _Names | None = None
    status: tuple[int | None, ...] | None = None
    after: tuple[int | str | tuple[After, ...] | None, ...] | None = None
    think: _Numbers | None = None
    labels: tuple[Mapping[str, str] | None, ...] | None = None
    info: tuple[int | None, ...] | None = None
    priority: tuple[int | None, ...] | None = None
    deadline: _Numbers | None = None
    speed: tuple[Speed | None, ...] | None = None
    checkpoint: tuple[WrittenCheckpoint | None, ...] | None = None
    infos: tuple[JobInfo, ...] = ()
    machine: Machine | None = None
    header: Mapping[str, str] = field(factory=dict[str, str])


@frozen(kw_only=True)
class WrittenSettings:
    """The settings of a simulation, but for what cannot be written."""

    ties: Ties = field(factory=Ties)
    passes: Passes | None = None
    end_at_request: bool = True
    incidents: tuple[Incident, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    checkpoint: WrittenCheckpoint | None = None
    resubmit_failed: bool = False
    round_ends: float | None = None
    engine: Engines = "auto"


@frozen(kw_only=True)
class WrittenRun:
    """A run, with the name of its policy."""

    workload: WrittenWorkload
    policy: str
    settings: WrittenSettings
    runs: tuple[float, ...]
    outcome: Outcome


_WORKLOAD = Format(WrittenWorkload, name="Workload", version=1, error=WorkloadError)
_RUN = Format(WrittenRun, name="Run", version=1, error=SimulationError)


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


_T = TypeVar("_T", bound=AttrsInstance)


def _alike(kind: type[_T], given: AttrsInstance, **changed: object) -> _T:
    """Return an instance of a class with the fields that it shares with another."""
    shared = {name: getattr(given, name) for name in fields_dict(kind) if hasattr(given, name)}
    return kind(**shared | changed)


def _checkpoint(path: str, given: Checkpoint | None) -> WrittenCheckpoint | None:
    if given is None:
        return None
    if not is_of(given.restart, int | float | NoCost | ByDistance | ByModel):  # type: ignore[arg-type]
        raise SerialisationError.at(f"{path}.restart", f"{given.restart!r} cannot be written")
    return _alike(WrittenCheckpoint, given)


def _written(workload: Workload) -> WrittenWorkload:
    columns: dict[str, object] = {
        name: tuple(column) for name, column in workload.columns().items()
    }
    infos = dict.fromkeys(info for info in workload.infos if info is not None)
    if infos:
        number = {info: place for place, info in enumerate(infos)}
        columns["info"] = tuple(None if one is None else number[one] for one in workload.infos)
    if "checkpoint" in columns:
        both = zip(workload.ids, workload.column("checkpoint"), strict=True)
        columns["checkpoint"] = tuple(
            _checkpoint(f"jobs[{each!r}].checkpoint", cast("Checkpoint | None", given))
            for each, given in both
        )
    columns |= {"infos": tuple(infos), "machine": workload.machine, "header": workload.header}
    return WrittenWorkload(**columns)  # type: ignore[arg-type]


def _read(written: WrittenWorkload) -> Workload:
    columns: dict[str, Sequence[object]] = {}
    for name in fields_dict(WrittenWorkload):
        column = getattr(written, name)
        if column is not None and name not in ("infos", "machine", "header"):
            columns[name] = column
    if written.info is not None:
        known = range(len(written.infos))
        columns["info"] = [
            None if one is None else written.infos[one] if one in known else one
            for one in written.info
        ]
    if written.checkpoint is not None:
        columns["checkpoint"] = [one and _alike(Checkpoint, one) for one in written.checkpoint]
    return Workload.from_columns(columns, machine=written.machine, header=written.header)


def workload_to_dict(workload: Workload) -> dict[str, JsonValue]:
    """Return a workload as plain data."""
    return _WORKLOAD.to_dict(_written(workload))


def workload_from_dict(given: Mapping[str, object]) -> Workload:
    """Return the workload that plain data means."""
    return _read(_WORKLOAD.from_dict(given))


def run_to_dict(run: Record) -> dict[str, JsonValue]:
    """Return a run as plain data; of the policy only the name."""
    checkpoint = _checkpoint("settings.checkpoint", run.settings.checkpoint)
    return _RUN.to_dict(
        WrittenRun(
            workload=_written(run.workload),
            policy=str(run.policy),
            settings=_alike(WrittenSettings, run.settings, checkpoint=checkpoint),
            runs=tuple(run.runs),
            outcome=run.outcome,
        )
    )


def run_from_dict(given: Mapping[str, object]) -> Record:
    """Return the record of the run that plain data means."""
    written = _RUN.from_dict(given)
    try:
        workload = _read(written.workload)
    except WorkloadError as error:
        faults = [Fault(f"workload.{one.path}", one.message) for one in error.faults]
        raise SimulationError(faults) from error
    refuse(SimulationError, _faults_of(written, workload))
    before = written.settings
    checkpoint = before.checkpoint and _alike(Checkpoint, before.checkpoint)
    return Record(
        workload=workload,
        policy=ReadPolicy(written.policy),
        settings=_alike(Settings, before, checkpoint=checkpoint),
        runs=written.runs,
        outcome=written.outcome,
    )


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
    for name, jobs in (
        ("unfinished", outcome.unfinished),
        ("endings", outcome.endings),
        ("intervals", [one[0] for one in outcome.intervals or ()]),
        ("nodes.pieces", [one[0] for one in pieces]),
    ):
        wrong = next((job for job in jobs if job not in range(count)), None)
        if wrong is not None:
            yield Fault(f"outcome.{name}", f"expected numbers of jobs, got {wrong}")
    wrong = next((one[3] for one in pieces if one[3] not in range(nodes)), None)
    if wrong is not None:
        yield Fault("outcome.nodes.pieces", f"expected numbers of nodes, got {wrong}")
