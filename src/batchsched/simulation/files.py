"""Workload files: the Standard Workload Format, read and written, and published traces.

Source: Chapin, Cirne, Feitelson, Jones, Leutenegger, Schwiegelshohn, Smith, Talby, "Benchmarks and
Standards for the Evaluation of Parallel Job Schedulers", JSSPP 1999, and the page on the format,
version 2.2, of the Parallel Workloads Archive. A job is a line of 18 numbers; -1 means unknown.

Traces of GPU clusters are read from rows as `csv.DictReader` gives them; the caller opens the
files. Each reader documents how it uses the columns, and lists the lines that it could not read.
Fields that a trace does not have stay unknown in the workload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import inf, isfinite, nan
from typing import Final, Literal, TypeVar, cast

from attrs import evolve

from batchsched.errors import shown_problem
from batchsched.model.immutable import gone_through
from batchsched.model.validation.values import is_collection, is_mapping, is_text, shown
from batchsched.simulation.checks import (
    JobId,
    Problem,
    WorkloadError,
    faults_of_name,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.jobs import Job, Machine
from batchsched.simulation.workload import Workload, exact_number

ItemT = TypeVar("ItemT")

FIELDS = 18
(
    NUMBER, SUBMIT, WAIT, RUN, ALLOCATED, _CPU_TIME, _MEMORY, PROCESSORS, TIME, _REQUESTED_MEMORY,
    STATUS, USER, GROUP, APPLICATION, QUEUE, PARTITION, PRECEDING, THINK,
) = range(FIELDS)  # fmt: skip
LABELS_OF_HEADER = ("MaxProcs", "MaxNodes")


def read_swf(lines: Iterable[str]) -> tuple[Workload, list[Problem]]:
    r"""Read a log in the Standard Workload Format; return its jobs, and the problems found.

    The caller opens (and decompresses) the file: `read_swf(gzip.open(path, "rt"))`. The machine is
    that of the file's header (MaxProcs, MaxNodes); `workload.on(nodes=...)` sets another.

    A job needs the processors that it requested or, if unknown, those that it was allocated. Its
    requested time is its time limit. Submission times are those of the log; `preceding job` and
    `think time` become `after` and `think`.

    Violations of the format are listed with their line. A job is left out if its line cannot be
    read, it is submitted before 0, its run time or number of processors is unknown, or an earlier
    job has its number. All other jobs are kept as they are, including those that ran longer than
    requested, or that need more processors than the machine has.

    >>> workload, problems = read_swf([
    ...     "; MaxProcs: 100",
    ...     "1 0 -1 3600 56 -1 -1 56 7200 -1 1 7 1 -1 -1 -1 -1 -1",
    ...     "2 9 -1   -1  4 -1 -1  4 7200 -1 5 7 1 -1 -1 -1 -1 -1",
    ... ])
    >>> workload
    <Workload: 1 job, submitted from 0 to 0 s; on 100 processors>
    >>> print(*problems, sep="\n")
    line 3: job 2: its run time is unknown: -1 (left out)

    Raises:
        WorkloadError: The argument is one string instead of lines, or a line is not a string.
    """
    reader = _Reader()
    for number, line in _numbered("lines", lines, "text.splitlines(), or an open file"):
        if not is_text(line):
            message = f"expected text, got {shown(line)}; open the file as text, not as bytes"
            raise WorkloadError.at(f"lines[{number - 1}]", message)
        reader.read(number, line)
    return reader.finish()


def _numbered(name: str, items: Iterable[ItemT], use: str) -> Iterator[tuple[int, ItemT]]:
    """Yield the lines or rows of a file with their numbers, from 1 on."""
    if not is_collection(cast("object", items)):
        got = "one string" if is_text(items) else shown(items)
        raise WorkloadError.at(name, f"expected {name}, got {got}; give {use}")
    yield from enumerate(gone_through(name, items, WorkloadError), 1)


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.header: dict[str, str] = {}
        self.header_lines: dict[str, int] = {}
        self.rows: list[Sequence[float]] = []
        self.lines: list[int] = []
        self.seen = set[float]()
        self.records = 0
        self.last_submit: float = 0

    def problem(self, line: int, message: str, *, left_out: bool = False) -> None:
        self.problems.append(Problem(line, message, left_out))

    def read(self, number: int, line: str) -> None:
        words = line.split()
        if not words:
            return
        if words[0].startswith(";"):
            label, colon, value = line.strip().lstrip("; ").partition(":")
            if colon and label.isalnum() and label not in self.header:
                self.header[label] = value.strip()
                self.header_lines[label] = number
            return
        self.records += 1
        row = self._row(number, words)
        if row is not None and self._is_usable(number, row):
            self.seen.add(row[NUMBER])
            self.rows.append(row)
            self.lines.append(number)

    def _row(self, number: int, words: Sequence[str]) -> Sequence[float] | None:
        told = f"expected {FIELDS} numbers, got {len(words)}"
        if len(words) < FIELDS:
            self.problem(number, told, left_out=True)
            return None
        if len(words) > FIELDS:
            self.problem(number, f"{told}; ignored the rest")
            words = words[:FIELDS]
        try:
            return list(map(int, words))
        except ValueError:
            values = list(map(_decimal, words))
        for index, (word, value) in enumerate(zip(words, values, strict=True)):
            may_be = isfinite(value)
            if not may_be or not (value.is_integer() or index in _DECIMAL):
                what = "a whole number" if may_be else "a number"
                told = f"field {index + 1}: expected {what}, got {word[:80]!r}"
                self.problem(number, told, left_out=True)
                return None
        return list(map(exact_number, values))

    def _is_usable(self, line: int, row: Sequence[float]) -> bool:
        job, submit, run, time = f"job {row[NUMBER]}", row[SUBMIT], row[RUN], row[TIME]
        sizes = f"{row[PROCESSORS]} requested, {row[ALLOCATED]} allocated"
        unusable = {
            "expected a number of 0 or more": row[NUMBER] < 0,
            "an earlier job has the same number": row[NUMBER] in self.seen,
            f"expected a submission at 0 or later, got {submit}": submit < 0,
            f"its run time is {'unknown' if run == -1 else 'negative'}: {run}": run < 0,
            f"its number of processors is unknown: {sizes}": _processors(row) <= 0,
        }
        faults = [fault for fault, is_there in unusable.items() if is_there]
        for fault in faults:
            self.problem(line, f"{job}: {fault}", left_out=True)
        if faults:
            return False
        if submit < self.last_submit:
            told = f"before the previous job ({self.last_submit})"
            self.problem(line, f"{job}: it is submitted at {submit}, {told}")
        self.last_submit = submit
        if time == 0 or time < -1:
            self.problem(line, f"{job}: its requested time is {time} s; read as unknown")
        elif 0 < time < run:
            self.problem(line, f"{job}: it runs for {run} s, longer than the {time} s requested")
        return True

    def finish(self) -> tuple[Workload, list[Problem]]:
        machine = self._machine()
        self._check_jobs(machine)
        rows = self.rows
        columns: dict[str, Sequence[object]] = {
            "id": [row[NUMBER] for row in rows],
            "submit": [row[SUBMIT] for row in rows],
            "run": [row[RUN] for row in rows],
            "processors": [_processors(row) for row in rows],
            "requested": [row[TIME] if row[TIME] > 0 else None for row in rows],
            "after": self._preceding(),
            "think": [max(row[THINK], 0) for row in rows],
        }
        for name, index in _KNOWN_OR_NOT.items():
            columns[name] = [row[index] if row[index] >= 0 else None for row in rows]
        self.problems.sort(key=lambda problem: problem.line)
        return (Workload.from_columns(columns, machine=machine, header=self.header), self.problems)

    def _machine(self) -> Machine | None:
        sizes: dict[str, int] = {}
        for label in LABELS_OF_HEADER:
            # Some logs list the partitions after the number.
            text = self.header.get(label, "").split()
            if not text:
                continue
            if _is_count(text[0]) and int(text[0]) > 0:
                sizes[label] = int(text[0])
            elif text[0] != "-1":
                told = f"expected a whole number above 0, got {shown(self.header[label])}"
                self.problem(self.header_lines[label], f"{label}: {told}")
        processors = sizes.get("MaxProcs", sizes.get("MaxNodes"))
        if processors is None:
            return None
        nodes = sizes.get("MaxNodes", processors)
        if processors % nodes == 0:
            return Machine(nodes, processors // nodes)
        return Machine(processors)

    def _check_jobs(self, machine: Machine | None) -> None:
        announced = self.header.get("MaxRecords", self.header.get("MaxJobs", ""))
        if _is_count(announced) and int(announced) != self.records:
            label = "MaxRecords" if "MaxRecords" in self.header else "MaxJobs"
            told = f"{label}: expected {announced} jobs, got {self.records}"
            self.problem(self.header_lines[label], told)
        version = self.header.get("Version", "2")
        if not version.startswith("2"):
            told = f"expected version 2 of the format, got {shown(version)}"
            self.problem(self.header_lines["Version"], told)
        most = inf if machine is None else machine.processors
        for line, row in zip(self.lines, self.rows, strict=True):
            size = _processors(row)
            if size > most:
                told = f"it needs {size} processors, but MaxProcs is {most}"
                self.problem(line, f"job {row[NUMBER]}: {told}")

    def _preceding(self) -> Sequence[JobId | None]:
        # Only earlier jobs are accepted, so there are no cycles.
        found: list[JobId | None] = []
        places = {row[NUMBER]: place for place, row in enumerate(self.rows)}
        for place, row in enumerate(self.rows):
            preceding = row[PRECEDING]
            known = preceding > 0 and places.get(preceding, place) < place
            if preceding > 0 and not known:
                what = "is not an earlier job" if preceding in places else "is not in the log"
                told = f"its preceding job, {preceding}, {what}; ignored the dependency"
                self.problem(self.lines[place], f"job {row[NUMBER]}: {told}")
            found.append(int(preceding) if known else None)
        return found


def _decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan


def _is_count(text: str) -> bool:
    # Python refuses to read numbers of very many digits.
    return text.isdecimal() and len(text) <= _MOST_DIGITS


_MOST_DIGITS = 18
_DECIMAL = {SUBMIT, WAIT, RUN, _CPU_TIME, _MEMORY, TIME, _REQUESTED_MEMORY, THINK}
_KNOWN_OR_NOT = {
    "user": USER,
    "group": GROUP,
    "queue": QUEUE,
    "partition": PARTITION,
    "application": APPLICATION,
    "status": STATUS,
}


def _processors(row: Sequence[float]) -> int:
    return int(row[PROCESSORS] if row[PROCESSORS] > 0 else row[ALLOCATED])


Row = Mapping[str, str]

_SIZES: Final = (1, 2, 4, 8, 16, 32)
MURI_START_COSTS: Final[Mapping[str, Mapping[int, float]]] = {
    model: dict(zip(_SIZES, seconds, strict=True))
    for model, seconds in {
        "vgg16": (7, 7, 8, 9, 9, 10),
        "vgg19": (7, 7, 8, 9, 10, 10),
        "resnet18": (4, 5, 5, 7, 7, 7),
        "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
        "bert": (10, 10, 10, 10, 10, 10),
        "gpt2": (10, 10, 10, 10, 10, 10),
        "a2c": (38, 39, 39, 46, 46, 46),
        "dqn": (5, 5, 6, 6, 8, 8),
    }.items()
}
"""The seconds that it takes to start a job, by model and number of GPUs, as measured for Muri (Zhao
et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022)."""
MURI_SLOWDOWN: Final = 1.015
"""The factor by which Muri's manager slows down an iteration."""


def read_philly(rows: Iterable[Row]) -> tuple[Workload, list[Problem]]:
    """Read Microsoft's Philly trace as extracted for Pollux (`philly.csv`).

    A row is a job: `timestamp` is its submission (times count from the first of all), `duration`
    its run time in seconds, `num_gpus` its processors, `cluster` (the virtual cluster) its queue.
    Ids are the numbers of the rows. Users and time limits are not in the file.

    Trace: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
    Workloads", USENIX ATC 2019; Qiao et al., "Pollux", OSDI 2021.

    >>> rows = [
    ...     {"timestamp": "2017-10-09 07:01:55", "duration": "66.0", "num_gpus": "1",
    ...      "gpu_time": "66.0", "cluster": "11cb48"},
    ... ]
    >>> list(read_philly(rows)[0])[0].queue
    '11cb48'
    """
    return _read(
        rows,
        lambda number, row: Job(
            id=number,
            submit=_seconds_of(row["timestamp"]),
            run=_number(row["duration"]),
            processors=_whole(row["num_gpus"]),
            queue=row["cluster"],
        ),
        from_first=True,
    )


def read_helios(rows: Iterable[Row]) -> tuple[Workload, list[Problem]]:
    """Read a trace of SenseTime's clusters (Helios, `cluster_log.csv`).

    A row is a job: `submit_time` (times count from the first of all), `duration` its run time,
    `gpu_num` its processors, `vc` its queue, `user` its user, `job_id` its id. Jobs without GPUs
    are left out, and listed. `state` is kept as a label.

    Trace: Hu, Sun, Yan, Wen, Zhang, "Characterization and Prediction of Deep Learning Workloads in
    Large-Scale GPU Datacenters", SC 2021.
    """
    return _read(
        rows,
        lambda _, row: Job(
            id=row["job_id"],
            submit=_seconds_of(row["submit_time"]),
            run=_number(row["duration"]),
            processors=_whole(row["gpu_num"]),
            queue=row["vc"],
            user=row["user"],
            labels={"state": row["state"]} if "state" in row else {},
        ),
        from_first=True,
    )


def read_muri(
    rows: Iterable[Row], *, run: Literal["iterations", "duration"] = "iterations", start: float = 0
) -> tuple[Workload, list[Problem]]:
    """Read one of the four Philly virtual clusters as extracted for Muri (`trace1.csv` ...).

    A row is a job: `submit_time` in milliseconds from the first job, `num_gpu` its processors,
    `job_id` its id, `model_name` (invented by Muri's authors) the label `model`.

    Args:
        rows: The rows of the file.
        run: The run time to use: `iterations` x `iteration_time` x 1.015 as in Muri's simulator, or
            the `duration` of the trace.
        start: The submission time of the first job, in seconds.
    """
    is_time = is_number(start, least=-inf)
    faults = faults_of_name("run", run, ("iterations", "duration"))
    refuse(WorkloadError, faults, faults_unless(is_time, "start", "a time in seconds", start))

    def job(_: int, row: Row) -> Job:
        milliseconds = _number(row["duration"])
        if run == "iterations":
            # In Muri's order of operations, so that results are equal to the last bit.
            iteration = _whole(row["iteration_time"]) * MURI_SLOWDOWN / 1000
            seconds = _whole(row["iterations"]) * iteration
        else:
            seconds = exact_number(milliseconds / 1000)
        return Job(
            id=_whole(row["job_id"]),
            submit=exact_number(start + _number(row["submit_time"]) / 1000),
            run=seconds,
            processors=_whole(row["num_gpu"]),
            labels={"model": row["model_name"]},
        )

    return _read(rows, job)


def read_openb(rows: Iterable[Row]) -> tuple[Workload, list[Problem]]:
    """Read the pods of Alibaba's GPU cluster trace of 2023 (`openb_pod_list_default.csv` ...).

    A row is a job: `creation_time` to `deletion_time` is its run time from `scheduled_time` on (or
    from its creation, if it was never scheduled), `num_gpu` its processors, `qos` its queue, `name`
    its id. Pods without GPUs are left out, and listed; shares of a GPU count as a whole one (the
    label `gpu_milli` has the share).

    Trace: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
    Fragmentation Gradient Descent", USENIX ATC 2023.
    """

    def job(_: int, row: Row) -> Job:
        submit = _number(row["creation_time"])
        began = _number(row["scheduled_time"]) if row["scheduled_time"] else submit
        return Job(
            id=row["name"],
            submit=submit,
            run=_number(row["deletion_time"]) - began,
            processors=_whole(row["num_gpu"]),
            queue=row["qos"],
            labels={"gpu_milli": row["gpu_milli"]},
        )

    return _read(rows, job)


def _read(
    rows: Iterable[Row], make: Callable[[int, Row], Job], *, from_first: bool = False
) -> tuple[Workload, list[Problem]]:
    jobs: list[Job] = []
    problems: list[Problem] = []
    seen = set[object]()
    # The first line names the columns.
    for number, row in _numbered("rows", rows, "csv.DictReader(file)"):
        if not is_mapping(row):
            message = f"expected a mapping, as csv.DictReader gives it, got {shown(row)}"
            raise WorkloadError.at(f"rows[{number - 1}]", message)
        try:
            job = make(number, row)  # type: ignore[arg-type]  # what is no text is told
            faults = [f"job {job.id}: {fault}" for fault in _faults(job, seen)]
        except KeyError as missing:
            faults = [f"expected a column {missing}, got none"]
        except ValueError as error:
            faults = [str(error)]
        except Exception as error:  # values that are not text, or cannot be read, raise anything
            faults = [f"expected text in all columns: {shown_problem(error)}"]
        else:
            if not faults:
                seen.add(job.id)
                jobs.append(job)
        problems += [Problem(number + 1, fault, left_out=True) for fault in faults]
    first = min((job.submit for job in jobs), default=0) if from_first else 0
    return Workload(evolve(job, submit=job.submit - first) for job in jobs), problems


def _faults(job: Job, seen: set[object]) -> Iterable[str]:
    if job.id in seen:
        yield "an earlier job has the same id"
    if job.submit < 0:
        yield f"expected a submission at 0 or later, got {job.submit}"
    if job.run < 0:
        yield f"expected a run time of 0 s or more, got {job.run} s"
    if (job.processors or 0) < 1:
        yield f"expected 1 GPU or more, got {job.processors}"


def _number(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"expected a finite number, got {text[:80]!r}")
    return exact_number(value)


def _whole(text: str) -> int:
    return int(text)


def _seconds_of(text: str) -> float:
    moment = datetime.fromisoformat(text)
    # Times in traces are local and without a zone; only their differences matter.
    return exact_number((moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds())
